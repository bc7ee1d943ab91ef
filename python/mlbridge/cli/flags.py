# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge flags`, `path` and `wrapper`: how a compiler loads a plugin and asks a model.

Every option of clang goes through -Xclang, which the driver hands to compilations alone: assembling
a .S file and linking must not see it. Starts neither NumPy nor the extension.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import files
from .common import DONE, OPTIMIZATIONS, REBUILD, CommandError, nearest

# Schemes that the library opens itself, and what their place is: a model's file, another path, or a
# name. That of aot is a name if it has neither a suffix nor a folder.
SCHEMES = {
    **dict.fromkeys(("onnx", "native", "aot"), "model"),
    **dict.fromkeys(("unix", "shm", "pipe", "candidates"), "path"),
    "function": "name",
}
PHASES = "phase-ordering"
EVICTION = "regalloc-eviction"
ALLOCATION = "register-allocation"
#: Whose models may ask for embeddings.
EMBEDDING = (PHASES, ALLOCATION, "loop-distribution")
#: Of LLVM's own advisors.
QUESTIONS = ("inliner", EVICTION, "regalloc-priority")
#: In a URI for several agents, this is the name of each.
AGENT = "{agent}"
#: How many others each compares with what the compiler does, if nothing is said.
EFFORTS = {PHASES: 1, EVICTION: 3, ALLOCATION: 1}
#: Seconds that --require waits for a model.
OPENING = 10.0
#: What a compiler is tried with. Has a call and a loop, about which some ask.
TRIAL = """\
static int f(int x) { return x; }
int trial(int *x, int n) {
  for (int i = 0; i < n; ++i)
    x[i] += f(n);
  return f(1);
}
"""
PRODUCT = """\
func.func @trial(%a: memref<8x8xf32>, %b: memref<8x8xf32>) {
  linalg.matmul ins(%a, %a : memref<8x8xf32>, memref<8x8xf32>) outs(%b : memref<8x8xf32>)
  return
}
"""
SCRIPT = """\
#!/bin/sh
# Written by `mlbridge wrapper`: asks a model, and fails if anything that it needs is gone.
for needed in {needed}; do
  if [ ! -e "$needed" ]; then
    echo "$0: $needed is gone; write this compiler again with mlbridge wrapper" >&2
    exit 1
  fi
done
{refusal}exec {command} "$@"
"""
#: Before clang is started: with this option it loads no plugin, so it would silently ask nobody.
NO_INDEX = """\
for argument; do
  case "$argument" in
  -fthinlto-index=/dev/null) ;;
  -fthinlto-index=*)
    echo "$0: $argument: {what}" >&2
    {then}
    ;;
  esac
done
"""
NO_PLUGIN = "clang loads no plugin in the backends of distributed ThinLTO, so no model is asked"


def escaped(place: str) -> str:
    """A place as it may stand in a URI, in a shell and in a makefile without quotes."""

    def one(match: re.Match[str]) -> str:
        return "".join(f"%{b:02X}" for b in os.fsencode(match[0]))

    parts = (re.sub(r"[^\w./:+,=@-]", one, part, flags=re.ASCII) for part in place.split(AGENT))
    return AGENT.join(parts)


def unescaped(place: str) -> str:
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), os.fsencode(place))
    return os.fsdecode(raw)


def of_each(place: str, agents: Sequence[str]) -> list[str]:
    """The place, or URI, of each agent."""
    return [place.replace(AGENT, name) for name in agents] if AGENT in place else [place]


def model_uri(text: str, runtime: str | None, agents: Sequence[str] = ()) -> str:
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
    for one in of_each(place, agents) if kind == "model" else ():
        if not os.path.isfile(one):
            what = "a folder" if os.path.isdir(one) else "not there"
            expected = "a shared object of mlbridge compile" if scheme == "aot" else "an ONNX file"
            raise CommandError(f"--model: {one} is {what}; expected {expected}")
    if scheme == "candidates" and not os.path.isfile(place):
        raise CommandError(f"--model: there is no file {place}")
    if scheme == "onnx" and "runtime=" not in options:
        options += runtime_option(runtime)
    # Between options '?' does as well as '&', and needs no quotes.
    return f"{scheme}:{escaped(place)}{options.replace('&', '?')}"


def models_of(optimization: str, text: str, runtime: str | None) -> list[tuple[str, str]]:
    """What --model says, as Asked has it."""
    found = []
    agents = OPTIMIZATIONS[optimization].agents
    if agents:
        for part in filter(None, map(str.strip, text.split(";"))):
            named = re.fullmatch(r"([\w*]+)\s*=\s*(.*)", part, re.DOTALL)
            agent, uri = named.groups() if named else ("", part)
            of = (agent,) if agent in agents else agents
            found.append((agent, model_uri(uri, runtime, of)))
    return found or [("", model_uri(text, runtime))]


def runtime_option(place: str | None) -> str:
    return "" if place is None else f"?runtime={escaped(place)}"


def must_open(uri: str) -> None:
    """Raises what opening the model says; names that only the plugin knows are left to it."""
    if uri.partition(":")[0] in ("function", "candidates"):
        return
    from .._core import Model
    from ..errors import Error

    try:
        Model.open(uri, deadline=OPENING)
    except Error as error:
        raise CommandError(f"the model can't be opened: {error}") from None


def compiler_of(options: argparse.Namespace) -> str:
    """The file of --compiler."""
    first = OPTIMIZATIONS.get(options.optimizations[0])
    options.compiler = options.compiler or (first or OPTIMIZATIONS[PHASES]).compiler(options.llvm)
    found = shutil.which(str(options.compiler))
    if found is None:
        raise CommandError(
            f"--compiler: there is no command {options.compiler}; install it or state another"
        )
    return os.path.abspath(found)


def attempt(options: argparse.Namespace, asked: Sequence[Asked]) -> None:
    """Have the compiler ask models in this process, which the passes bind to their signatures."""
    # To a server this would be a compilation like others.
    asked = [
        one
        for one in asked
        if all(
            scheme == "candidates" or SCHEMES.get(scheme) in ("model", "name")
            for scheme in (uri.partition(":")[0] for _, uri in one.models)
        )
    ]
    if not asked:
        return
    import subprocess

    compiler = compiler_of(options)
    trial = argparse.Namespace(**{**vars(options), "log": None, "on_failure": "fail"})
    its = OPTIMIZATIONS[asked[0].optimization]
    level = "-" + (options.levels or its.level).partition(",")[0]
    source = [] if its.mlir else [level, "-x", "c", "-c"]
    done = subprocess.run(
        [compiler, *words(trial, asked), *source, "-", "-o", os.devnull],
        input=PRODUCT if its.mlir else TRIAL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        error = next((text for text in said if "error:" in text), said[0])
        raise CommandError(
            f"{compiler} can't ask the model: {error.partition('error: ')[2] or error}"
        )


def stated(options: argparse.Namespace, optimization: str) -> str | None:
    """What --model says of it."""
    found = None
    for text in options.model:
        name, equals, uri = str(text).partition("=")
        if not (equals and name in OPTIMIZATIONS):
            if len(options.optimizations) > 1:
                raise CommandError(
                    f"--model: '{text}': expected OPTIMIZATION=URI, as there are several"
                )
            name, uri = options.optimizations[0], str(text)
        elif name not in options.optimizations:
            raise CommandError(f"--model: {name} is not one of {', '.join(options.optimizations)}")
        if name == optimization:
            found = uri
    return found


def effort_of(options: argparse.Namespace, optimization: str) -> int:
    """A model of one's own is believed, unless one says otherwise."""
    if optimization not in options.optimizations or optimization not in EFFORTS:
        return 0
    if options.effort is not None:
        return int(options.effort)
    model = stated(options, optimization)
    return EFFORTS[optimization] if model is None or model.startswith("candidates:") else 0


def shipped(options: argparse.Namespace, optimization: str, runtime: str | None) -> str:
    """What comes with the package: its candidates if they are to be compared, else its policy."""
    name = OPTIMIZATIONS[optimization].model
    if name is None:
        raise CommandError(f"no model comes with {optimization}; state one with --model")
    compared = optimization == PHASES and effort_of(options, PHASES) > 0
    agents = OPTIMIZATIONS[optimization].agents
    path = (
        files.shipped_candidates(name)
        if compared
        else files.shipped_agents(name)
        if agents
        else files.shipped_model(name)
    )
    for one in of_each(path, agents):
        if not os.path.isfile(one):
            raise CommandError(
                f"the policy that comes with this package is not there ({one}); "
                "state another with --model"
            )
    if compared:
        return f"candidates:{escaped(path)}"
    if optimization != PHASES:  # small enough for the engine that needs nothing
        return f"native:{escaped(path)}"
    return f"onnx:{escaped(path)}{runtime_option(runtime)}"


def path_of(optimization: str, text: str | None = None, llvm: int = 22) -> str:
    """The file of the optimization's plugin, which must be there."""
    if optimization not in OPTIMIZATIONS:
        raise CommandError(
            f"there is no optimization '{optimization}'"
            + (
                nearest(optimization, list(OPTIMIZATIONS))
                or "; there is " + ", ".join(OPTIMIZATIONS)
            )
        )
    its = OPTIMIZATIONS[optimization]
    if text is None and its.versions and llvm not in its.versions:
        known = " and ".join(map(str, its.versions))
        raise CommandError(f"{optimization} has no plugin for LLVM {llvm}; it has one for {known}")
    path = os.path.abspath(text if text is not None else its.file(llvm))
    if os.path.isfile(path):
        return path
    if text is not None:
        raise CommandError(f"--plugin: there is no file {path}")
    package = f"llvm-{llvm}-dev" if its.versions else its.package
    raise CommandError(
        f"the compiler plugin is not there ({path}): this package was built without it; "
        f"install {package}, {REBUILD}"
    )


def quoted(argument: str) -> str:
    """The argument as it may stand in CC, which make and configure hand to a shell."""
    if re.fullmatch(r"([\w./:+,=@%?-]|\{agent\})+", argument, re.ASCII):
        return argument
    bad = re.search(r"[^\w./:+,=@%?&;()\[\]{}<>|*!^~ -]", argument)
    if bad:
        raise CommandError(
            f"{argument!r} has the character {bad[0]!r}, which cannot be quoted for both make "
            "and a shell; move the file to another place"
        )
    return f"'{argument}'"


@dataclass(frozen=True)
class Asked:
    """What asks, and whom."""

    optimization: str
    plugin: str
    models: list[tuple[str, str]]  #: agents, "" for all others, and their URIs

    @property
    def uri(self) -> str:
        """As the plugin has it."""
        return ";".join(f"{agent}={uri}" if agent else uri for agent, uri in self.models)

    @property
    def uris(self) -> list[str]:
        """Of all models."""
        agents = OPTIMIZATIONS[self.optimization].agents
        return [
            one
            for agent, uri in self.models
            for one in of_each(uri, (agent,) if agent in agents else agents)
        ]


def asked_of(options: argparse.Namespace, runtime: str | None) -> list[Asked]:
    """Of each optimization; `runtime` is where ONNX Runtime is, if told."""
    named = options.optimizations
    if options.plugin and len(named) > 1:
        raise CommandError("--plugin: several optimizations have several plugins")
    for name in named:
        path_of(name, options.plugin, options.llvm)
    for compiler in ("gcc", "mlir"):
        its = [name for name in named if getattr(OPTIMIZATIONS[name], compiler)]
        if its and len(named) > 1:
            others = " and ".join(set(named) - set(its))
            raise CommandError(f"{its[0]} is for {compiler.upper()}, and {others} not")
    version = re.search(r"-(\d+)$", options.compiler or "")
    if version and int(version[1]) in {19, 22} - {options.llvm} and options.plugin is None:
        raise CommandError(
            f"--compiler: {options.compiler} can't load a plugin for LLVM {options.llvm}; "
            f"add --llvm {version[1]}"
        )
    if len(set(named)) < len(named):
        raise CommandError(f"{' '.join(named)}: each optimization once")
    if options.max_steps is not None and PHASES not in named:
        raise CommandError(f"--max-steps is for {PHASES}")
    embedding = [name for name in named if name in EMBEDDING]
    if options.vocabulary is not None and len(embedding) != 1:
        raise CommandError(f"--vocabulary is for one of {', '.join(EMBEDDING)}")
    if options.effort is not None and not set(named) & set(EFFORTS):
        raise CommandError(f"--effort is for {', '.join(EFFORTS)}")
    if options.missing is not None and not any(map(takes_missing, named)):
        raise CommandError(f"--missing is not for {' or '.join(named)}")
    if options.effort == 0 and str(stated(options, PHASES)).startswith("candidates:"):
        raise CommandError("--model: candidates are compared; give --effort 1 or more")
    found = []
    for name in named:
        model = stated(options, name)
        models = (
            [("", shipped(options, name, runtime))]
            if model is None
            else models_of(name, model, runtime)
        )
        found.append(Asked(name, path_of(name, options.plugin, options.llvm), models))
    for one in found:
        must_be_forkable(options, one, found)
    return found


def must_be_forkable(options: argparse.Namespace, one: Asked, found: Sequence[Asked]) -> None:
    """Whether it can ask in processes that try allocations, if it compares any."""
    if one.optimization == PHASES or not effort_of(options, one.optimization):
        return
    for its in found if one.optimization == EVICTION else [one]:
        for _, uri in its.models if its.plugin == one.plugin else ():
            scheme = uri.partition(":")[0]
            if SCHEMES.get(scheme) == "path" or files.find_component("transport", scheme):
                raise CommandError(
                    f"--effort: {one.optimization} compares allocations in processes that can't "
                    f"share {its.optimization}'s connection to {scheme}:; give --effort 0, or a "
                    "model's file"
                )


def takes_missing(optimization: str) -> bool:
    return optimization in QUESTIONS


def vocabulary_of(options: argparse.Namespace) -> list[str]:
    """The file of --vocabulary, which must be there, if it was given."""
    if options.vocabulary is None:
        return []
    path = os.path.abspath(options.vocabulary)
    if not os.path.isfile(path):
        raise CommandError(f"--vocabulary: there is no file {path}")
    return [path]


def run(options: argparse.Namespace) -> int:
    """Print the line."""
    print(flags_line(options))
    return DONE


def path(options: argparse.Namespace) -> int:
    """Print where the plugin is."""
    print(path_of(options.optimization, llvm=options.llvm))
    return DONE


def flags_line(options: argparse.Namespace) -> str:
    asked = asked_of(options, files.onnx_runtime())
    if options.require:
        for one in asked:
            for uri in one.uris:
                must_open(uri)
        attempt(options, asked)
        options.on_failure = options.on_failure or "fail"
    elif (
        any(one.uri.startswith("onnx:") and not stated(options, one.optimization) for one in asked)
        and files.find_onnx_runtime() is None
    ):
        print(
            "mlbridge flags: ONNX Runtime is not in this Python environment (pip install "
            "onnxruntime); `mlbridge doctor` says whether the compiler finds another",
            file=sys.stderr,
        )
    # Braces and brackets that $(…) leaves in a command line have no meaning there.
    plain = OPTIMIZATIONS[asked[0].optimization].mlir
    line = [word if plain and " " not in word else quoted(word) for word in words(options, asked)]
    if odd := next((word for word in line if word.startswith("'")), None):
        print(
            f'mlbridge flags: {odd} is quoted for make and for eval; in "clang $(mlbridge flags '
            '…)" the quotes stay, so choose a path without blanks there, or `mlbridge wrapper`',
            file=sys.stderr,
        )
    return " ".join(line)


def words(options: argparse.Namespace, asked: Sequence[Asked]) -> list[str]:
    """What to add to a compiler's command line so that it asks these models."""
    if OPTIMIZATIONS[asked[0].optimization].gcc:
        return words_of_gcc(options, asked[0])
    if OPTIMIZATIONS[asked[0].optimization].mlir:
        return words_of_mlir(options, asked[0])
    # Where nothing is compiled (plain assembly, linking) none of this is used, nor worth a warning.
    line = ["--start-no-unused-arguments"]
    for plugin in dict.fromkeys(one.plugin for one in asked):
        if options.llvm < 22:  # which reads options of LLVM before it loads pass plugins
            line += ["-Xclang", "-load", "-Xclang", plugin]
        line += ["-Xclang", f"-fpass-plugin={plugin}"]
    log = options.log and os.path.abspath(options.log)
    for one in asked:
        for option in OPTIMIZATIONS[one.optimization].llvm:
            line += ["-Xclang", "-mllvm", "-Xclang", option]
        told = told_to_all(options, recorded(one, log) if log else one)
        told["effort"] = effort_of(options, one.optimization) or None
        if one.optimization in EMBEDDING:
            told["vocabulary"] = next(iter(vocabulary_of(options)), None)
        if one.optimization == PHASES:
            told |= {"log": log, "max-steps": options.max_steps}
        else:
            told["missing"] = options.missing if takes_missing(one.optimization) else None
        for name, value in told.items():
            if value is not None:
                line += ["-Xclang", "-mllvm", "-Xclang", f"-{one.optimization}-{name}={value}"]
    # The warning of a fallback must not become an error under -Werror.
    return [*line, "-Wno-error=backend-plugin", "--end-no-unused-arguments"]


def told_to_all(options: argparse.Namespace, one: Asked) -> dict[str, object]:
    """The options that every plugin has; None stands for its default."""
    mlir = OPTIMIZATIONS[one.optimization].mlir
    return {
        "model": one.uri,
        "fingerprint": None if mlir else fingerprint(options, one),
        "deadline": options.deadline,
        "on-failure": options.on_failure,
        "levels": options.levels,
    }


def fingerprint(options: argparse.Namespace, one: Asked) -> str:
    """Hash of the contents of all files that decide what is compiled, but for the compiler: a
    compiler cache compares command lines, and would give out what another model has made. What a
    server decides isn't in it."""
    found = [one.plugin, *(file for uri in one.uris for file in needs(uri))]
    if one.optimization in EMBEDDING:
        found += vocabulary_of(options)
    digest = hashlib.blake2b(digest_size=16)
    for path in dict.fromkeys(found):
        for file in contents(path):
            try:
                with open(file, "rb") as read:
                    its = hashlib.blake2b(read.read()).hexdigest()
            except OSError:
                continue  # the plugin says it better
            digest.update(f"{os.path.basename(file)} {its}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def contents(path: str) -> list[str]:
    """The file, and those beside it that hold its tensors."""
    folder, name = os.path.split(path)
    data = (f"{name}.", f"{name}_")
    beside = os.listdir(folder) if name.endswith(".onnx") and os.path.isdir(folder) else []
    return [path, *sorted(os.path.join(folder, n) for n in beside if n.startswith(data))]


def words_of_gcc(options: argparse.Namespace, one: Asked) -> list[str]:
    """GCC has no options that are for compilations alone, and needs none."""
    told = told_to_all(options, recorded(one, os.path.abspath(options.log)) if options.log else one)
    name = os.path.basename(one.plugin).removesuffix(".so")
    more = [
        f"-fplugin-arg-{name}-{key}={value}" for key, value in told.items() if value is not None
    ]
    return [f"-fplugin={one.plugin}", *more]


def words_of_mlir(options: argparse.Namespace, one: Asked) -> list[str]:
    """The pass alone. Blanks are between its options, so a word has none if there is only one."""
    if options.levels is not None:
        raise CommandError(f"--levels is not for {one.optimization}: mlir-opt has none")
    told = told_to_all(options, recorded(one, os.path.abspath(options.log)) if options.log else one)
    its = " ".join(f"{key}={value}" for key, value in told.items() if value is not None)
    return [
        f"--load-pass-plugin={one.plugin}",
        f"--pass-pipeline=builtin.module(mlbridge-tiling{{{its}}})",
    ]


def recorded(one: Asked, log: str) -> Asked:
    """The same, whose models are recorded: by their URIs, where blanks need no quotes. A list of
    candidates is none."""
    models = [
        (agent, uri if uri.startswith("candidates:") else f"{uri}?record={escaped(log)}")
        for agent, uri in one.models
    ]
    return replace(one, models=models)


def wrapper(options: argparse.Namespace) -> int:
    """Write the script that the options ask for, once its compiler has asked the model."""
    compiler = compiler_of(options)
    options.on_failure = options.on_failure or "fail"
    asked = asked_of(options, files.find_onnx_runtime())
    attempt(options, asked)
    read = [one.plugin for one in asked]
    read += [file for one in asked for uri in one.uris for file in needs(uri)]
    needed = shlex.join([compiler, *vocabulary_of(options), *dict.fromkeys(read)])
    command = shlex.join([compiler, *words(options, asked)])
    fails = options.on_failure == "fail"
    refusal = NO_INDEX.format(
        what=NO_PLUGIN if fails else f"warning: {NO_PLUGIN}", then="exit 1" if fails else "break"
    )
    its = OPTIMIZATIONS[asked[0].optimization]
    text = SCRIPT.format(
        needed=needed, command=command, refusal="" if its.gcc or its.mlir else refusal
    )
    try:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
            os.chmod(file.fileno(), os.fstat(file.fileno()).st_mode | 0o111)
    except OSError as error:
        raise CommandError(f"-o {options.output}: {error.strerror}") from None
    return DONE


def needs(uri: str) -> list[str]:
    """The files without which nothing asks this model."""
    match = re.fullmatch(r"([^:]*):([^?]*)(.*)", uri)
    assert match is not None
    scheme, place = match[1], unescaped(match[2])
    options = dict(option.partition("=")[::2] for option in match[3].split("?"))
    found = []
    if scheme == "candidates" or (SCHEMES.get(scheme) == "model" and "/" in place):
        found.append(place)
    parts = [("engine", scheme), ("transport", scheme), ("serdes", options.get("serdes", ""))]
    found += [path for kind, name in parts if (path := files.find_component(kind, name))]
    if "runtime" in options:
        found.append(unescaped(options["runtime"]))
    return found
