# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The optimizations that have a compiler plugin, as the optimization.toml beside each describes it.

Starts neither NumPy nor the extension, nor dataclasses: `mlbridge flags` runs for every file of a
build.
"""

from __future__ import annotations

from typing import NamedTuple

from . import files
from ._optimizations import TABLE

#: The -O levels that a pass knows.
LEVELS = ("O1", "O2", "O3", "Os", "Oz")


class Optimization(NamedTuple):
    """An optimization; CONTRIBUTING.md describes these keys of its optimization.toml."""

    name: str  #: with which the plugin's options begin
    plugin: str  #: the file's name, without .so
    versions: tuple[int, ...]  #: of the compiler
    compiler: str = "llvm"  #: or gcc, or mlir
    levels: tuple[str, ...] = ()  #: at which it acts by default; the first one is tried
    effort: int = 0  #: how many others it compares by default; 0 if it can't compare
    options: tuple[str, ...] = ()  #: of its plugin, besides those that every plugin has
    compiler_options: tuple[str, ...] = ()  #: that it needs, too
    passes: str = ""  #: its pass in a pipeline of MLIR
    agents: tuple[str, ...] = ()  #: if there are several, each may have a model of its own
    model: str | None = None  #: the folder of the model that is shipped
    engine: str = "native"  #: the scheme with which that is opened
    candidates: bool = False  #: whether it compares a list beside the model, not what it tries
    link: bool = False  #: whether it acts when lld links files of -flto, with candidates for that
    trained: bool = False  #: whether `mlbridge train NAME` trains it on a corpus
    allocates: bool = False  #: whether it allocates registers, so that spills are counted
    decision: str = ""  #: the tensor that LLVM's own advisor asks for
    advisor: tuple[str, ...] = ()  #: options of LLVM for `mlbridge run`, one up to the channel
    tools: tuple[str, ...] = ()  #: of LLVM, which have that advisor

    def file(self, llvm: int = 22) -> str:
        """The plugin, whether or not it is there."""
        ending = f"-{llvm}" if self.compiler == "llvm" and llvm != 22 else ""
        return files.plugin_file(f"{self.plugin}{ending}.so")

    def command(self, llvm: int = 22) -> str:
        """The compiler that loads the plugin."""
        prefix = {"llvm": "clang", "gcc": "gcc", "mlir": "mlir-opt"}[self.compiler]
        return f"{prefix}-{llvm if self.compiler == 'llvm' else self.versions[0]}"

    def extra(self, llvm: int = 22) -> str:
        """The extra of this package that installs the plugin."""
        if self.compiler == "llvm":
            return f"clang{llvm}"
        return f"{self.compiler}{self.versions[0]}"

    @property
    def level(self) -> str:
        """The level at which it is tried and compared."""
        return self.levels[0] if self.levels else ""

    def takes(self, option: str) -> bool:
        """Whether its plugin has this option, of those that not every plugin has."""
        return option in self.options or (option == "effort" and self.effort > 0)


OPTIMIZATIONS = {name: Optimization(name, **keys) for name, keys in TABLE.items()}


def taking(option: str) -> list[str]:
    """The names of the optimizations whose plugins have this option."""
    return [name for name, one in OPTIMIZATIONS.items() if one.takes(option)]
