# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The recipes by which a program is compiled with a profile, and the words that clang needs for
them.

Starts neither NumPy nor the extension, nor dataclasses: `mlbridge flags` uses it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from .. import files
from .options import Options, read

#: What may be switched off: the profile itself, what it hasn't seen as without it, link-time
#: optimization, cold functions for size, less inlining, instructions in the order and of the kind
#: that this machine's processor likes, hot functions also for newer ones. Options are searched
#: if there is a budget.
LEVERS = ("profile", "partial", "link", "cold", "lean", "tune", "versions")
#: With a profile LLVM weighs what inlining saves, and small programs that run all over grow by
#: half. So a call that runs often is inlined up to a size instead; LLVM's own is 3000. And a call
#: by a pointer becomes a direct call of one function at most, not of three.
_LEAN = {
    "inline-enable-cost-benefit-analysis": "false",
    "hot-callsite-threshold": "1000",
    "icp-max-prom": "1",
}
#: The parts of all counts, in millionths, beyond which blocks and functions are cold. LLVM's own is
#: 999999, and makes larger programs that are no faster.
_COLD = {"cold": "999000", "colder": "990000"}
#: The compiler plugin that makes versions.
PLUGIN = "multiversioning"
#: The fields of a recipe that are no flags.
_TEXTS = {"link", "cold", "tune", "options"}
_PROCESSOR = re.compile(r"[a-z0-9][-a-z0-9._+]*", re.IGNORECASE)
#: A static function is known by the last part of its file's name, so that a profile serves for the
#: same sources in another folder.
_NAMES = "-static-func-full-module-prefix=false"


class Recipe(NamedTuple):
    """How a program is compiled; without any of these as the build says."""

    profile: bool = False
    partial: bool = False  #: what the profile has not seen run is compiled as without, not as cold
    link: str = ""  #: full or thin
    #: Functions that hardly run are compiled for size (minsize): with "cold" those beyond 99.9 % of
    #: all counts, with "colder" beyond 99 %.
    cold: str = ""
    lean: bool = False  #: what runs often is inlined less
    tune: str = ""  #: the processor that -mtune names; the program runs on others of its kind, too
    #: Hot functions are there twice, the second time for x86-64-v3; the program asks which to run.
    versions: bool = False
    #: Options of LLVM that a search has found, where code is made: in the link, if there is one.
    options: Options = ()

    @property
    def name(self) -> str:
        """A name for tables and folders."""
        parts = ["profile"] * (self.profile and not self.partial) + ["partial"] * self.partial
        parts += [one for one in (self.link, self.cold) if one] + ["lean"] * self.lean
        parts += ["versions"] * self.versions + [f"for-{self.tune}"] * bool(self.tune)
        if self.options:
            digest = blake2b(repr(self.options).encode(), digest_size=4).hexdigest()
            parts.append(f"tuned-{digest}")
        return "-".join(parts) or "none"

    def words(self, profile: str) -> list[str]:
        """What clang's command line has more: the same words to compile and to link."""
        line = []
        if self.profile:
            line += [f"-fprofile-use={profile}", *files.llvm_words(_NAMES)]
        if self.link:
            line += [f"-flto={self.link}", "-fuse-ld=lld"]
        line += [f"-mtune={self.tune}"] * bool(self.tune)
        if self.versions:
            line += files.clang_words(plugin())
            line += files.linker_words([plugin()], PLUGIN) if self.link else []
        early = {**(_LEAN if self.lean else {})}
        if self.cold:
            line += files.llvm_words("-pgo-cold-func-opt=minsize")
            early["profile-summary-cutoff-cold"] = _COLD[self.cold]
        late = {**early, **dict(self.options)}
        line += files.llvm_words(*_listed(early if self.link else late))
        line += [f"-Wl,-mllvm,{option}" for option in _listed(late) if self.link]
        if not line:
            return []
        # Code that has changed since the profile was taken is worth a warning, and no error.
        always = ["-Wno-error=backend-plugin", "-Wno-unused-command-line-argument"]
        return ["--start-no-unused-arguments", *line, *always, "--end-no-unused-arguments"]

    def parts(self) -> list[Recipe]:
        """This recipe and those before it, each with one lever more: profile, link, tune, cold,
        lean, versions, options."""
        profile = Recipe(self.profile, self.partial)
        link = profile._replace(link=self.link)
        steps = [
            *(profile, link, link._replace(tune=self.tune)),
            self._replace(lean=False, versions=False, options=()),
            self._replace(versions=False, options=()),
            self._replace(options=()),
            self,
        ]
        return [recipe for recipe in dict.fromkeys(steps) if recipe != Recipe()] or [self]

    def careful(self) -> list[Recipe]:
        """The recipes like this one that are slower by less on what the profile has not seen."""
        if not self.profile or self.partial:
            return []
        like = Recipe(True, True, self.link, lean=self.lean, tune=self.tune)
        return [*dict.fromkeys([like, like._replace(link="")])]

    @classmethod
    def of(cls, found: object) -> Recipe:
        """The one in a decisions file. ValueError if this version knows none like it."""
        if not isinstance(found, dict) or found.keys() != set(cls._fields):
            raise ValueError(f"expected {', '.join(cls._fields)}, got {found!r:.80}")
        recipe = cls(**found)._replace(options=read(found["options"]))
        flags = {type(getattr(recipe, name)) for name in cls._fields if name not in _TEXTS}
        known = recipe.link in ("", "full", "thin") and recipe.cold in ("", *_COLD)
        known &= recipe.tune == "" or bool(_PROCESSOR.fullmatch(recipe.tune))
        if not known or flags != {bool}:
            raise ValueError(f"got {found!r:.80}")
        return recipe


def plugin() -> str:
    """The file of the plugin that makes versions, whether or not it is there."""
    return files.plugin(PLUGIN)


def plugin_digest() -> str:
    """A hash of that file; "" if it isn't there."""
    try:
        with open(plugin(), "rb") as file:
            return blake2b(file.read(), digest_size=20).hexdigest()
    except OSError:
        return ""


def _listed(options: Mapping[str, str]) -> list[str]:
    return [f"-{name}={value}" for name, value in options.items()]


def first(levers: Collection[str] = LEVERS) -> list[Recipe]:
    """The recipes that tell which link is best; without any lever the build's own."""
    links = ["", "thin", "full"] if "link" in levers else [""]
    if "profile" not in levers:
        return [Recipe(link=link) for link in links if link] or [Recipe()]
    return [Recipe(True, link=link) for link in links]


def variations(recipe: Recipe, levers: Collection[str] = LEVERS) -> list[Recipe]:
    """A recipe of the first ones with other levers more."""
    if not recipe.profile:
        return []
    more: list[dict[str, Any]] = [
        *({"cold": "cold"}, {"lean": True}, {"cold": "cold", "lean": True}),
        {"cold": "colder", "lean": True},
        *({"partial": True}, {"partial": True, "lean": True}),  # of these, next to nothing is cold
    ]
    return [recipe._replace(**one) for one in more if one.keys() <= set(levers)]


def recipes(levers: Collection[str] = LEVERS) -> list[Recipe]:
    """All recipes with these levers, the simplest first."""
    firsts = first(levers)
    return [*firsts, *(more for one in firsts for more in variations(one, levers))]


def instrumented(folder: str, *, continuous: bool) -> list[str]:
    """The words of the build whose programs count what runs, in a folder. `continuous`: the counts
    are in a file while they run, however they end; then targets of indirect calls aren't counted.
    """
    line = [f"-fprofile-generate={folder}", *files.llvm_words(_NAMES)]
    if continuous:
        options = ("-disable-vp", "-do-counter-promotion=false")
        line += ["-fprofile-continuous", *files.llvm_words(*options)]
    return ["--start-no-unused-arguments", *line, "--end-no-unused-arguments"]
