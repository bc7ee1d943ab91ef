# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge flags`: the options that make clang load a plugin and ask a model.

Every option goes through -Xclang, which the driver hands to compilations alone: assembling a .S
file and linking must not see it. Starts neither NumPy nor the extension.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable

from .. import files
from . import CommandError

# Schemes that the library opens itself, and what their place is: a model's file, another path, or a
# name. That of aot is a name if it has neither a suffix nor a folder.
SCHEMES = {
    **dict.fromkeys(("onnx", "native", "aot"), "model"),
    **dict.fromkeys(("unix", "shm", "pipe", "replay"), "path"),
    "function": "name",
}
LEVELS = ("O1", "O2", "O3", "Os", "Oz")
#: Seconds that --require waits for a model.
OPENING = 10.0


def nearest(word: str, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def escaped(place: str) -> str:
    """A place as it may stand in a URI, in a shell and in a makefile without quotes."""
    return "".join(
        c
        if re.match(r"[\w./:+,=@-]", c, re.ASCII)
        else "".join(f"%{b:02X}" for b in os.fsencode(c))
        for c in place
    )


def unescaped(place: str) -> str:
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), os.fsencode(place))
    return os.fsdecode(raw)


def model_uri(text: str, runtime: str | None) -> str:
    """The URI with an absolute path, once what can be seen without opening it has been checked."""
    match = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*):([^?]*)(\?.*)?", text, re.DOTALL)
    if match is None:
        hint = f"; did you mean 'onnx:{text}'?" if os.path.exists(text) else ""
        raise CommandError(f"--model: '{text}' is not a URI such as onnx:FILE or unix:SOCKET{hint}")
    scheme, place, options = match[1], unescaped(match[2]), match[3] or ""
    if scheme not in SCHEMES:
        if not any(files.find_component(kind, scheme) for kind in ("engine", "transport")):
            raise CommandError(
                f"--model: no runner for the scheme '{scheme}'"
                + (nearest(scheme, list(SCHEMES)) or f"; there are {', '.join(SCHEMES)}")
            )
        return text
    if not place:
        raise CommandError(f"--model: '{text}' names nothing after '{scheme}:'")
    kind = SCHEMES[scheme]
    if scheme == "aot" and not re.search("[./]", place):
        kind = "name"
    if kind != "name":
        ending = "/" if place.endswith("/") else ""
        place = os.path.abspath(place) + ending
    if kind == "model" and not os.path.isfile(place):
        what = "a folder" if os.path.isdir(place) else "not there"
        expected = "a shared object of mlbridge compile" if scheme == "aot" else "an ONNX file"
        raise CommandError(f"--model: {place} is {what}; expected {expected}")
    if scheme == "replay" and not os.path.exists(place):
        raise CommandError(f"--model: there is no file or folder {place}")
    if scheme == "onnx" and "runtime=" not in options:
        options += runtime_option(runtime)
    # Between options '?' does as well as '&', and needs no quotes.
    return f"{scheme}:{escaped(place)}{options.replace('&', '?')}"


def runtime_option(place: str | None) -> str:
    return "" if place is None else f"?runtime={escaped(place)}"


def must_open(uri: str) -> None:
    """Raises what opening the model says; names that only the plugin knows are left to it."""
    if uri.partition(":")[0] in ("function", "replay"):
        return
    from .. import Error, Model

    try:
        Model.open(uri, deadline=OPENING)
    except Error as error:
        raise CommandError(f"the model can't be opened: {' '.join(str(error).split())}") from None


def shipped(runtime: str | None) -> str:
    path = files.shipped_model("phase-ordering-size")
    if not os.path.isfile(path):
        raise CommandError(
            f"the policy that comes with this package is not there ({path}); "
            "state another with --model"
        )
    return f"onnx:{escaped(path)}{runtime_option(runtime)}"


def path_of(optimization: str, text: str | None = None) -> str:
    """The file of the optimization's plugin, which must be there."""
    if optimization != "phase-ordering":
        raise CommandError(
            f"there is no optimization '{optimization}'"
            + (nearest(optimization, ["phase-ordering"]) or "; there is phase-ordering")
        )
    path = os.path.abspath(text if text is not None else files.plugin("phase-ordering"))
    if os.path.isfile(path):
        return path
    if text is not None:
        raise CommandError(f"--plugin: there is no file {path}")
    raise CommandError(
        f"the compiler plugin is not there ({path}): this package was built without LLVM 22; "
        "install llvm-22-dev, then install mlbridge again"
    )


def positive(name: str, text: str) -> str:
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", text, re.ASCII):
        raise CommandError(f"{name}: expected a number from 1 on, got '{text}'")
    return str(int(text))


def duration(name: str, text: str) -> str:
    number = r"(?=.*[1-9])[0-9]+(\.[0-9]+)?"
    if not re.fullmatch(number + "(us|ms|s|m)", text, re.ASCII):
        raise CommandError(f"{name}: expected a time such as 5s or 250ms, got '{text}'")
    return text


def levels(name: str, text: str) -> str:
    if not all(level in LEVELS for level in text.split(",")):
        raise CommandError(
            f"{name}: expected {', '.join(LEVELS)}, or several with commas between, got '{text}'"
        )
    return text


def quoted(argument: str) -> str:
    """The argument as it may stand in CC, which make and configure hand to a shell."""
    if re.fullmatch(r"[\w./:+,=@%?-]+", argument, re.ASCII):
        return argument
    bad = re.search(r"[^\w./:+,=@%?&;()\[\]{}<>|*!^~ -]", argument)
    if bad:
        raise CommandError(
            f"{argument!r} has the character {bad[0]!r}, which no quotation carries through make "
            "and a shell; move the file to another place"
        )
    return f"'{argument}'"


def model_of(options: argparse.Namespace, runtime: str | None) -> str:
    """The URI of --model or of the shipped one; `runtime` is where ONNX Runtime is, if told."""
    return shipped(runtime) if options.model is None else model_uri(options.model, runtime)


def flags_line(options: argparse.Namespace) -> str:
    plugin = path_of(options.optimization, options.plugin)
    uri = model_of(options, files.onnx_runtime())
    if options.require:
        must_open(uri)
        options.on_failure = options.on_failure or "fail"
    elif options.model is None and files.find_onnx_runtime() is None:
        print(
            "mlbridge flags: ONNX Runtime is not in this Python environment (pip install "
            "onnxruntime); `mlbridge doctor` says whether the compiler finds another",
            file=sys.stderr,
        )
    return " ".join(map(quoted, words(options, plugin, uri)))


def words(options: argparse.Namespace, plugin: str, uri: str) -> list[str]:
    """What to add to a compiler's command line to ask the model at `uri`."""
    # Where nothing is compiled (plain assembly, linking) none of this is used, nor worth a warning.
    line = ["--start-no-unused-arguments", "-Xclang"]
    line.append(f"-fpass-plugin={plugin}")

    def add(name: str, value: str) -> None:
        line.extend(["-Xclang", "-mllvm", "-Xclang", f"-phase-ordering-{name}={value}"])

    add("model", uri)
    checked: list[tuple[str, str | None, Callable[[str, str], str]]] = [
        ("max-steps", options.max_steps, positive),
        ("deadline", options.deadline, duration),
        ("on-failure", options.on_failure, lambda _, text: text),
        ("levels", options.levels, levels),
        ("log", options.log, lambda _, text: os.path.abspath(text)),
    ]
    for name, value, check in checked:
        if value is not None:
            add(name, check(f"--{name}", value))
    # The warning of a fallback must not become an error under -Werror.
    return [*line, "-Wno-error=backend-plugin", "--end-no-unused-arguments"]
