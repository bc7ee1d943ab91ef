# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program with more rights than its user loads nothing that the user's environment names."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from users import as_other

import mlbridge

PACKAGE = Path(mlbridge.__file__).parent
MODEL = Path(__file__).parents[1] / "golden" / "onnx" / "bfloat16.onnx"
#: Says whose rights it has, and opens a model.
PROGRAM = r"""
#include <mlbridge/c/mlbridge.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
  mlbridge_model *model = mlbridge_model_open(words[count - 1], 0);
  printf("%d\n%s\n", (int)geteuid(), mlbridge_model_message(model));
  mlbridge_model_close(model);
  return 0;
}
"""
#: Leaves a trace when it is loaded.
LIBRARY = r"""
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) {
  close(open(TRACE, O_CREAT | O_WRONLY, 0666));
}
"""
#: What names a library or a folder, and where in that folder it is looked for.
NAMED = {
    "MLBRIDGE_ONNXRUNTIME": "libonnxruntime.so",
    "ONNXRUNTIME_ROOT": "lib/libonnxruntime.so",
    "VIRTUAL_ENV": "lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1",
    "CONDA_PREFIX": "lib/libonnxruntime.so",
    "HOME": ".local/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1",
    "MLBRIDGE_COMPONENT_PATH": "libmlbridge-engine-other.so",
}


def cc(*words: str | Path) -> None:
    subprocess.run(["cc", *words], check=True)


def build(folder: Path, trace: Path) -> Path:
    """The program, and beside it the libraries that it needs."""
    place = folder / "program"
    (place / "mlbridge").mkdir(parents=True)
    (folder / "program.c").write_text(PROGRAM)
    (folder / "library.c").write_text(LIBRARY)
    shutil.copy(PACKAGE / "plugins" / "libmlbridge-c.so.0", place)
    shutil.copy(PACKAGE / "components" / "libmlbridge-engine-onnx.so", place / "mlbridge")
    link(folder, place, place / "program")
    library = folder / "library.so"
    cc("-shared", "-fPIC", f'-DTRACE="{trace}"', folder / "library.c", "-o", library)
    return place / "program"


def link(folder: Path, libraries: Path, program: Path) -> None:
    options: list[str | Path] = [f"-I{PACKAGE}/include", f"-Wl,-rpath,{libraries}", "-o", program]
    cc(folder / "program.c", libraries / "libmlbridge-c.so.0", *options)


@pytest.mark.parametrize("name", NAMED)
def test_what_the_environment_names_is_not_loaded(name: str, common: Path) -> None:
    (common / "open").mkdir()
    (common / "open").chmod(0o1777)
    trace = common / "open" / "trace"
    program = build(common, trace)
    found = common / "named" / NAMED[name]
    found.parent.mkdir(parents=True)
    shutil.copy(common / "library.so", found)
    uri = f"other:{common}/x" if name.endswith("COMPONENT_PATH") else f"onnx:{common}/x.onnx"
    shutil.copy(MODEL, common / "x.onnx")
    environment = {"PATH": os.environ["PATH"], name: str(common / "named")}

    def said() -> list[str]:
        ran = subprocess.run(
            as_other([program, uri]), env=environment, capture_output=True, text=True, check=True
        )
        return ran.stdout.splitlines()

    user = said()[0]
    assert trace.exists(), "the test does not show anything"
    trace.unlink()
    program.chmod(0o4755)
    root, message = said()[:2]
    if root == user:
        pytest.skip(f"{common} is on a file system that heeds no setuid")
    assert root == "0"
    assert not trace.exists(), message
    assert "onnx" in message or "no component" in message


def test_a_link_to_the_program_brings_no_components(common: Path) -> None:
    """Components are looked for beside the program, which may be where its user wants."""
    (common / "open").mkdir()
    (common / "open").chmod(0o1777)
    trace = common / "open" / "trace"
    place = common / "open" / "link"
    program = build(common, trace)
    shutil.copytree(program.parent, place, dirs_exist_ok=True)
    shutil.copy(common / "library.so", place / "mlbridge" / "libmlbridge-engine-other.so")
    link(common, place, common / "linked")  # as if a link had brought the library there
    command = as_other([common / "linked", f"other:{common}/x"])
    subprocess.run(command, check=True, capture_output=True)
    assert trace.exists()
    trace.unlink()
    (common / "linked").chmod(0o4755)
    subprocess.run(["chown", "-R", "nobody", place], check=True)
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    if not ran.stdout.startswith("0\n"):
        pytest.skip(f"{common} is on a file system that heeds no setuid")
    assert not trace.exists()
