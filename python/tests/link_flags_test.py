# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `mlbridge flags` prints for compilations and links of whole programs."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path

import pytest

from flags_test import flags, place, refused
from mlbridge import files
from mlbridge.cli import main

__all__ = ["place"]


def test_link_time_optimization(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    model = ("--plugin", "plugin.so", "--model", "candidates:policy.onnx")
    lines = [flags(capsys, *model, "--lto", kind) for kind in ("thin", "full")]
    for line, kind in zip(lines, ("thin", "full"), strict=True):
        words = shlex.split(line)
        assert f"-flto={kind}" in words and "-fuse-ld=lld" in words
        linker = [b for a, b in itertools.pairwise(words) if a == "-Xlinker"]
        assert linker[0] == f"--load-pass-plugin={place}/plugin.so"
        assert "-Xclang -phase-ordering-effort=1" in line

    def key(line: str) -> str:
        """What becomes part of the keys of ThinLTO's cache."""
        return next(word for word in line.split() if "mlbridge-" in word and "bfi" in word)

    assert key(lines[0]) == key(flags(capsys, *model, "--lto", "thin"))
    assert key(lines[0]) != key(flags(capsys, *model, "--lto", "thin", "--effort", "2"))
    (place / "policy.onnx").write_bytes(b"other")
    assert key(lines[0]) != key(flags(capsys, *model, "--lto", "thin"))

    monkeypatch.setattr(files, "PACKAGE", str(place))
    shipped = place / "models" / "phase-ordering-size" / "link-candidates.json"
    shipped.parent.mkdir(parents=True)
    shipped.write_text("{}")
    smallest = ["smallest", "--plugin", f"{place}/plugin.so"]
    assert main(["flags", *smallest]) == 0
    said = capsys.readouterr().out
    assert "-flto=full" in said and f"candidates:{shipped}" in said
    assert main(["flags", *smallest, "--lto", "thin"]) == 0
    assert "-flto=thin" in capsys.readouterr().out
    assert "--lto is for phase-ordering" in refused(
        capsys, "inliner", "--lto", "full", *model[:2], "--model", "unix:s"
    )
    shipped.with_name("policy.onnx").write_bytes(b"")
    for code in (["--effort", "0"], ["--model", f"onnx:{place}/policy.onnx"]):
        said = refused(capsys, *smallest, *code)
        assert "--lto: objects may name no onnx: model, which loads code; give native:" in said
    assert "--lto is for LLVM 22" in refused(
        capsys, "phase-ordering", *model, "--lto", "full", "--llvm", "19"
    )
