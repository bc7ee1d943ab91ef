# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests of `mlbridge flags`, `wrapper` and `validate`: which optimizations ask which models."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .. import files
from ..optimizations import LEVELS, OPTIMIZATIONS, Optimization, taking
from ..uri import SCHEMES, escaped, for_each
from .arguments import Parser, duration, number_from_one
from .common import CommandError, UsageError, nearest
from .models import shipped_model, stated_models

if TYPE_CHECKING:
    from ..specializing.decisions_file import DecisionsFile

MOST_EFFORT = 100
#: Options that say how models are asked.
_NOT_WITH_DECISIONS = (
    *("model", "missing", "vocabulary", "effort", "goal", "profile", "lto", "max_steps"),
    *("deadline", "plugin", "on_failure", "log", "levels", "require"),
)
#: What stands for several optimizations and --lto.
COMBINATIONS = {"smallest": (("phase-ordering",), "full")}
#: Models that a module of a link may name, as phase-ordering's options.cpp has them: they load no
#: code.
IN_OBJECTS = ("candidates", "native", "function", "unix", "shm", "pipe", "grpc")
GOALS = ("O2-speed", "Os-size", "Oz-size")
#: Those that load plugins, without their versions.
PROGRAMS = {"llvm": ("clang", "clang++"), "gcc": ("gcc", "g++"), "mlir": ("mlir-opt",)}
LLVM_VERSION = "the LLVM version of the compiler (default: 22)"


class Query(NamedTuple):
    """An optimization that asks models."""

    optimization: Optimization
    plugin: str  #: the file
    models: tuple[tuple[str, str], ...]  #: agents, "" for all others, and their URIs
    effort: int  #: how many others it compares
    is_stated: bool  #: whether --model names the models

    @property
    def uri(self) -> str:
        """The models as the plugin's option has them."""
        return ";".join(f"{agent}={uri}" if agent else uri for agent, uri in self.models)

    @property
    def uris(self) -> list[str]:
        """The URIs of all models."""
        agents = self.optimization.agents
        return [
            one
            for agent, uri in self.models
            for one in for_each(uri, (agent,) if agent in agents else agents)
        ]

    @property
    def schemes(self) -> list[str]:
        """The schemes of all models."""
        return [uri.partition(":")[0] for _, uri in self.models]

    def recorded(self, log: str) -> Query:
        """The same, whose models are recorded: by their URIs, where blanks need no quotes. A list
        of candidates is no model."""
        models = (
            (agent, uri if uri.startswith("candidates:") else f"{uri}?record={escaped(log)}")
            for agent, uri in self.models
        )
        return self._replace(models=tuple(models))


class Request(NamedTuple):
    """Queries, and the options of the command line for all of them; None stands for a default."""

    queries: tuple[Query, ...]
    compiler: str
    llvm: int
    deadline: str | None
    levels: str | None
    on_failure: str | None
    log: str | None  #: the folder
    missing: str | None
    max_steps: int | None
    vocabulary: str | None  #: the file
    goal: str | None
    lto: str | None  #: full or thin

    @property
    def kind(self) -> str:
        """The kind of the compiler: llvm, gcc or mlir."""
        return self.queries[0].optimization.compiler


def default_of(value: Callable[[Optimization], object]) -> str:
    """A default that depends on the optimization, for a help text."""
    groups: dict[object, list[str]] = {}
    for one in OPTIMIZATIONS.values():
        if found := value(one):
            groups.setdefault(found, []).append(one.name)
    return "; ".join(f"{found} for {', '.join(names)}" for found, names in groups.items())


def levels(text: str) -> str:
    """The type of --levels."""
    if not all(level in LEVELS for level in text.split(",")):
        known = ", ".join(LEVELS)
        raise argparse.ArgumentTypeError(f"expected {known}, or several with commas, got '{text}'")
    return text


def effort(text: str) -> int:
    """The type of --effort."""
    if not text.isascii() or not text.isdigit() or int(text) > MOST_EFFORT:
        raise argparse.ArgumentTypeError(f"expected 0 to {MOST_EFFORT}, got '{text}'")
    return int(text)


def add_models(parser: Parser, least: str = "+") -> None:
    """The options of `mlbridge flags`, `wrapper` and `validate`; `least`: how many optimizations,
    for argparse."""
    parser.add_argument(
        "optimizations",
        nargs=least,
        metavar="optimization",
        help=f"one or several of {', '.join((*OPTIMIZATIONS, *COMBINATIONS))}",
    )
    parser.option(
        "--model URI ...",
        "the model to ask: onnx:FILE, unix:SOCKET, grpc:HOST:PORT, …; OPTIMIZATION=URI for one of "
        "several optimizations",
    )
    parser.option(
        "--missing",
        "inputs of the model that LLVM's features lack: an error (refuse, the default), or zero",
        choices=["refuse", "zero"],
    )
    parser.option("--llvm N", LLVM_VERSION, type=int, default=22, choices=(22, 19))
    parser.option(
        "--vocabulary FILE", "for embeddings, of `mlbridge vocabulary` (default: built in)"
    )
    parser.option(
        "--effort N",
        "compare N ways with what the compiler itself does, and keep the best: of the passes for a "
        "file that of the smallest code, of a function's register allocations that of the least "
        f"spills, reloads and copies (default: {default_of(lambda one: one.effort)}; 0 with a "
        "--model of one's own); 0: believe the model",
        type=effort,
    )
    parser.option(
        "--goal GOAL",
        "what hotness is for: the speed of -O2 (O2-speed, the default), or the size of -Os or -Oz "
        "(Os-size, Oz-size)",
        choices=GOALS,
    )
    parser.option(
        "--profile FILE",
        "a profile of llvm-profdata by which hotness decides; short for --model profile:FILE",
    )
    parser.option(
        "--lto KIND",
        "optimize when lld links, in full or thin LTO, where phase-ordering compares candidates "
        "for that; the same flags are for compilations and links. The optimization smallest is "
        "short for phase-ordering --lto full",
        choices=["full", "thin"],
    )
    parser.option("--max-steps N", "the most decisions per module", type=number_from_one)
    parser.option("--deadline TIME", "the longest wait: 5s, 250ms", type=duration)
    parser.option("--plugin PATH", "a compiler plugin other than the installed one")
    parser.option(
        "--compiler COMMAND",
        "the compiler that asks (default: clang-22 or -19; gcc-12; mlir-opt-22)",
    )


def add_asking(parser: Parser) -> None:
    """The options of `mlbridge flags` and `wrapper`."""
    add_models(parser, "*")
    parser.option(
        "--decisions FILE",
        "what `mlbridge specialize` has found for the program, instead of optimizations",
    )
    parser.option(
        "--on-failure",
        "if the model fails: the compiler's own passes and a warning (stock), or an error",
        choices=["stock", "fail"],
    )
    parser.option(
        "--log DIR",
        "record what models are asked and answer, and how candidates did, in this folder",
    )
    defaults = default_of(lambda one: ",".join(level for level in LEVELS if level in one.levels))
    parser.option(
        "--levels LIST",
        f"the -O levels at which it asks: Oz, O2, … (default: {defaults})",
        type=levels,
    )


def expand(options: argparse.Namespace) -> None:
    """Replace a combination by what it stands for."""
    for name, (parts, lto) in COMBINATIONS.items():
        if name in options.optimizations:
            others = [one for one in options.optimizations if one not in (name, *parts)]
            options.optimizations = [*parts, *others]
            options.lto = options.lto or lto


def plugin_file(optimization: str, stated: str | None = None, llvm: int = 22) -> str:
    """The file of the optimization's plugin, or the stated one, which must be there."""
    known = OPTIMIZATIONS.get(optimization)
    if known is None:
        raise UsageError(
            f"there is no optimization '{optimization}'"
            + (
                nearest(optimization, [*OPTIMIZATIONS, *COMBINATIONS])
                or "; there is " + ", ".join((*OPTIMIZATIONS, *COMBINATIONS))
            )
        )
    if stated is None and known.compiler == "llvm" and llvm not in known.versions:
        versions = " and ".join(map(str, known.versions))
        raise UsageError(f"{optimization} has no plugin for LLVM {llvm}; it has one for {versions}")
    path = os.path.abspath(known.file(llvm) if stated is None else stated)
    if os.path.isfile(path):
        return path
    if stated is not None:
        raise CommandError(f"--plugin: there is no file {path}")
    raise CommandError(
        f"the compiler plugin is not there ({path}): {files.extra(known.extra(llvm))}"
        + "".join(
            f"; the one for LLVM {other} is: --llvm {other}"
            for other in known.versions
            if known.compiler == "llvm" and other != llvm and os.path.isfile(known.file(other))
        )
    )


def stated_uris(texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The URIs that --model states, by optimization."""
    found = {}
    for text in texts:
        name, equals, uri = text.partition("=")
        if not (equals and name in OPTIMIZATIONS):
            if len(names) > 1:
                raise UsageError(
                    f"--model: '{text}': expected OPTIMIZATION=URI, as there are several"
                )
            name, uri = names[0], text
        elif name not in names:
            raise UsageError(f"--model: {name} is not one of {', '.join(names)}")
        found[name] = uri
    return found


def must_load(compiler: str, optimization: Optimization, options: argparse.Namespace) -> None:
    """UsageError if --compiler is, by its name, one that can't load the plugin."""
    program, _, version = os.path.basename(compiler).rpartition("-")
    if not version.isdecimal():
        program, version = os.path.basename(compiler), ""
    kind = next((kind for kind, known in PROGRAMS.items() if program in known), None)
    needed = options.llvm if optimization.compiler == "llvm" else optimization.versions[0]
    is_other = options.plugin is None and version not in ("", str(needed))
    if kind is None or (kind == optimization.compiler and not is_other):
        return
    hint = ""
    if kind == optimization.compiler == "llvm" and version in map(str, optimization.versions):
        hint = f"; add --llvm {version}"
    known = ", ".join(f"{one}-{needed}" for one in PROGRAMS[optimization.compiler])
    raise UsageError(
        f"--compiler: {compiler} can't load the plugin of {optimization.name}, which is for "
        f"{known}{hint}"
    )


def must_fit(options: argparse.Namespace) -> None:
    """UsageError if optimizations, compilers and options don't belong together."""
    names: list[str] = options.optimizations
    if options.plugin and len(names) > 1:
        raise UsageError("--plugin: several optimizations have several plugins")
    for name in names:
        plugin_file(name, options.plugin, options.llvm)
    for kind in ("gcc", "mlir"):
        special = [name for name in names if OPTIMIZATIONS[name].compiler == kind]
        if special and len(names) > 1:
            others = " and ".join(set(names) - set(special))
            raise UsageError(f"{special[0]} is for {kind.upper()}, and {others} not")
    if options.compiler:
        must_load(options.compiler, OPTIMIZATIONS[names[0]], options)
    if len(set(names)) < len(names):
        raise UsageError(f"{' '.join(names)}: each optimization once")
    for option in ("max-steps", "effort", "goal"):
        known, given = taking(option), getattr(options, option.replace("-", "_"))
        if given is not None and not set(names) & set(known):
            raise UsageError(f"--{option} is for {', '.join(known)}")
    if options.lto:
        linking = [name for name, one in OPTIMIZATIONS.items() if one.link]
        if not set(names) & set(linking):
            raise UsageError(f"--lto is for {', '.join(linking)}")
        if options.llvm != 22:
            raise UsageError("--lto is for LLVM 22")
    with_embeddings = taking("vocabulary")
    if options.vocabulary is not None and len(set(names) & set(with_embeddings)) != 1:
        raise UsageError(f"--vocabulary is for one of {', '.join(with_embeddings)}")
    if options.missing is not None and not set(names) & set(taking("missing")):
        raise UsageError(f"--missing is not for {' or '.join(names)}")
    if getattr(options, "levels", None) and not OPTIMIZATIONS[names[0]].levels:
        command = OPTIMIZATIONS[names[0]].command().rpartition("-")[0]
        raise UsageError(f"--levels is not for {names[0]}: {command} has none")


def must_be_data(query: Query, lto: str | None) -> None:
    """UsageError if it is for links, whose objects name the model, and that loads code."""
    if not (lto and query.optimization.link):
        return
    for scheme in query.schemes:
        if scheme not in IN_OBJECTS:
            raise UsageError(
                f"--lto: objects may name no {scheme}: model, which loads code; give native: and "
                "the file, a server, or --effort 1 or more"
            )


def must_be_forkable(query: Query, queries: Sequence[Query]) -> None:
    """UsageError if it compares in processes that would have to share a connection."""
    if query.optimization.candidates or not query.effort:
        return
    for one in queries:
        for scheme in one.schemes if one.plugin == query.plugin else ():
            if SCHEMES.get(scheme) == "path" or files.find_component("transport", scheme):
                raise UsageError(
                    f"--effort: {query.optimization.name} compares allocations in processes that "
                    f"can't share {one.optimization.name}'s connection to {scheme}:; give "
                    "--effort 0, or a model's file"
                )


def query_of(options: argparse.Namespace, name: str, uri: str | None, runtime: str | None) -> Query:
    """The query of an optimization; `uri` is what --model says."""
    optimization = OPTIMIZATIONS[name]
    compares = uri is None or uri.startswith("candidates:")
    effort = optimization.effort if compares else 0  # a model of one's own is believed
    if options.effort is not None and optimization.effort:
        effort = options.effort
    if uri is not None and compares and optimization.candidates and not effort:
        raise UsageError("--model: candidates are compared; give --effort 1 or more")
    compared = optimization.candidates and effort > 0
    link = optimization.link and options.lto is not None
    models = (
        (("", shipped_model(optimization, runtime, compared=compared, link=link)),)
        if uri is None
        else stated_models(optimization, uri, runtime)
    )
    plugin = plugin_file(name, options.plugin, options.llvm)
    return Query(optimization, plugin, models, effort, uri is not None)


def decisions_of(options: argparse.Namespace) -> DecisionsFile | None:
    """The file of --decisions, if it is given, and the compiler is the one that it is for."""
    if options.decisions is None:
        return None
    values = ((name, getattr(options, name, None)) for name in _NOT_WITH_DECISIONS)
    given = [name for name, value in values if value not in (None, []) and value is not False]
    given += ["llvm"] * (options.llvm != 22)
    beside = [f"--{name.replace('_', '-')}" for name in given]
    if beside or options.optimizations:
        raise UsageError(f"--decisions goes without {[*options.optimizations, *beside][0]}")
    from ..specializing.decisions_file import read

    found = read(options.decisions)
    compiler = options.compiler or found.command
    try:
        version = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=60
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or "it doesn't end"
        raise CommandError(f"--decisions: {compiler} can't be started: {why}") from None
    if not version.startswith(f"{found.compiler}\n"):
        major = re.search(r"clang version (\d+)", version)
        stated = re.search(r"clang version (\d+)", found.compiler)
        said = version.partition("\n")[0]
        if not major or not stated or major[1] != stated[1]:
            raise CommandError(
                f"{options.decisions} is for {found.compiler!r}, and {compiler} is {said!r}; run "
                "mlbridge specialize with that"
            )
        print(
            f"mlbridge: {options.decisions} was measured with {found.compiler!r}; "
            f"{compiler} is {said!r}",
            file=sys.stderr,
        )
    if found.other_plugin:
        print(
            f"mlbridge: {options.decisions} was measured with another build of the plugin that "
            "makes versions of hot loops, so the program may be another",
            file=sys.stderr,
        )
    return found


def request_of(options: argparse.Namespace, runtime: str | None) -> Request:
    """The request of a command line; `runtime` is where ONNX Runtime is, if it must be told."""
    if not options.optimizations:
        raise UsageError("the following arguments are required: optimization")
    expand(options)
    must_fit(options)
    uris = stated_uris(options.model, options.optimizations)
    if options.profile is not None:
        if "hotness" not in options.optimizations or "hotness" in uris:
            raise UsageError("--profile is for hotness, instead of --model")
        uris["hotness"] = f"profile:{escaped(options.profile)}"
    queries = [query_of(options, name, uris.get(name), runtime) for name in options.optimizations]
    for query in queries:
        must_be_forkable(query, queries)
        must_be_data(query, options.lto)
    return Request(
        queries=tuple(queries),
        compiler=options.compiler or queries[0].optimization.command(options.llvm),
        llvm=options.llvm,
        deadline=options.deadline,
        levels=getattr(options, "levels", None),
        on_failure=getattr(options, "on_failure", None),
        log=os.path.abspath(options.log) if getattr(options, "log", None) else None,
        missing=options.missing,
        max_steps=options.max_steps,
        vocabulary=vocabulary_file(options.vocabulary),
        goal=options.goal,
        lto=options.lto,
    )


def vocabulary_file(stated: str | None) -> str | None:
    """The file of --vocabulary, which must be there."""
    path = stated and os.path.abspath(stated)
    if path and not os.path.isfile(path):
        raise CommandError(f"--vocabulary: there is no file {path}")
    return path
