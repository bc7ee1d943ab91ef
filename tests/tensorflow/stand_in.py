# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What stands in for TensorFlow's installation where only MLBridge's side of it is tested.

    stand_in.py saved_model_cli ARGUMENTS    what writes the class and its object
    stand_in.py ANYTHING                     prints the signature, as tensorflow_aot.py asks for it

The class adds the step to each of three sums of two features, and chooses the largest.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

SIGNATURE = [
    [["features", "DT_FLOAT", [1, 6]], ["step", "DT_INT64", []]],
    [["action", "DT_INT64", [1]], ["logits", "DT_FLOAT", [1, 3]]],
]
HEADER = """
#pragma once
#include <cstdint>
#include <cstring>
extern "C" void {name}_entry(const float *features, int64_t step, int64_t *action, float *logits);
namespace {space} {{
class {name} {{
public:
  int LookupArgIndex(const char *of) {{ return index(of, "feed_features", "feed_step"); }}
  int LookupResultIndex(const char *of) {{ return index(of, "fetch_action", "fetch_logits"); }}
  long arg_size(int at) const {{ return at == 0 ? sizeof features : sizeof step; }}
  void *arg_data(size_t at) {{ return at == 0 ? static_cast<void *>(features) : &step; }}
  void *result_data(size_t at) {{ return at == 0 ? static_cast<void *>(&action) : logits; }}
  bool Run() {{
    {name}_entry(features, step, &action, logits);
    return true;
  }}

private:
  static int index(const char *of, const char *first, const char *second) {{
    return !std::strcmp(of, first) ? 0 : !std::strcmp(of, second) ? 1 : -1;
  }}
  float features[6], logits[3];
  int64_t step, action;
}};
}}
"""
SOURCE = """
#include <cstdint>
extern "C" void {name}_entry(const float *features, int64_t step, int64_t *action, float *logits) {{
  *action = 0;
  for (int i = 0; i < 3; ++i) {{
    logits[i] = features[2 * i] + features[2 * i + 1] + float(step);
    if (logits[i] > logits[*action])
      *action = i;
  }}
}}
"""


def install(folder: Path, package: str, runtime: tuple[str, ...]) -> None:
    """Makes the folder look as if TensorFlow had been set up there, with these sources."""
    binaries = folder / "venv" / "bin"
    binaries.mkdir(parents=True)
    for name in ("python", "saved_model_cli"):
        (binaries / name).write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} "$@"\n')
        (binaries / name).chmod(0o755)
    (folder / f"{package}.ok").touch()
    (folder / "include").mkdir()
    for name in runtime:
        source = folder / "runtime" / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.touch()


def compile_model(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["aot_compile_cpu"])
    for name in ("multithreading", "tag_set", "dir", "signature_def_key", "output_prefix"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("cpp_class", "target_triple", "target_cpu"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args(words)
    space, _, name = options.cpp_class.rpartition("::")
    prefix = Path(options.output_prefix)
    prefix.with_suffix(".h").write_text(HEADER.format(space=space, name=name))
    source = prefix.with_suffix(".cpp")
    source.write_text(SOURCE.format(name=name))
    command: list[str | Path] = ["g++", "-std=c++17", "-O1", "-fPIC", "-c", source]
    command += ["-o", prefix.with_suffix(".o")]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    if sys.argv[1] == "saved_model_cli":
        compile_model(sys.argv[2:])
    else:
        print(json.dumps(SIGNATURE))
