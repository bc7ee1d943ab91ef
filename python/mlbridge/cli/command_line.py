# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The words of a compiler's command line with which it loads plugins and asks models.

Every option of clang goes through -Xclang, which the driver hands to compilations alone: assembling
a .S file and linking must not see it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from .. import files
from .models import needed_files
from .request import Query, Request


def words(request: Request) -> list[str]:
    """The words to add to the compiler's command line so that it asks the models."""
    if request.kind == "gcc":
        return gcc_words(request)
    if request.kind == "mlir":
        return mlir_words(request)
    # Plain assembly and linking use none of this, which is not worth a warning.
    line = ["--start-no-unused-arguments"]
    for plugin in dict.fromkeys(query.plugin for query in request.queries):
        line += files.clang_words(plugin, llvm=request.llvm)
    if request.lto:
        linking = [query for query in request.queries if query.optimization.link]
        digest = hashlib.blake2b(digest_size=16)
        for query in linking:
            digest.update(" ".join(plugin_options(request, query)).encode())
        plugins = dict.fromkeys(query.plugin for query in linking)
        line += [*stock_words(request), *files.linker_words(plugins, digest.hexdigest())]
        # ccache moves the linker's words out of those that may be unused.
        line.append("-Wno-unused-command-line-argument")
    for query in request.queries:
        own = (f"-{query.optimization.name}-{text}" for text in plugin_options(request, query))
        line += files.llvm_words(*query.optimization.compiler_options, *own)
    # The warning of a fallback must not become an error under -Werror.
    return [*line, "-Wno-error=backend-plugin", "--end-no-unused-arguments"]


def stock_words(request: Request) -> list[str]:
    """The words with which a compiler that asks no model does the same."""
    return [f"-flto={request.lto}", "-fuse-ld=lld"] if request.lto else []


def gcc_words(request: Request) -> list[str]:
    """The words for GCC, which has no options that are for compilations alone, and needs none."""
    (query,) = request.queries
    options = plugin_options(request, query)
    prefix = f"-fplugin-arg-{os.path.basename(query.plugin).removesuffix('.so')}"
    return [f"-fplugin={query.plugin}", *(f"{prefix}-{text}" for text in options)]


def mlir_words(request: Request) -> list[str]:
    """The pass alone. Blanks are between its options, so a word has none if there is only one."""
    (query,) = request.queries
    options = " ".join(plugin_options(request, query))
    return [
        f"--load-pass-plugin={query.plugin}",
        f"--pass-pipeline=builtin.module({query.optimization.passes}{{{options}}})",
    ]


def plugin_options(request: Request, query: Query) -> Iterator[str]:
    """The options of a plugin, without its prefix."""
    optimization = query.optimization
    recorded = query.recorded(request.log) if request.log else query
    in_general: dict[str, object] = {
        "model": recorded.uri,
        "fingerprint": None if request.kind == "mlir" else fingerprint(request, query),
        "deadline": request.deadline,
        "on-failure": request.on_failure,
        "levels": request.levels,
    }
    in_particular: dict[str, object] = {
        "effort": query.effort or None,
        "goal": request.goal,
        "vocabulary": request.vocabulary,
        "missing": request.missing,
        "log": request.log,
        "max-steps": request.max_steps,
    }
    known = {name: text for name, text in in_particular.items() if optimization.takes(name)}
    for name, value in (in_general | known).items():
        if value is not None:
            yield f"{name}={value}"


def fingerprint(request: Request, query: Query) -> str:
    """Hash of the contents of all files that decide what is compiled, but for the compiler: a
    compiler cache compares command lines, and would give out what another model has made. What a
    server decides isn't in it."""
    paths = [query.plugin, *(file for uri in query.uris for file in needed_files(uri))]
    if request.vocabulary and query.optimization.takes("vocabulary"):
        paths.append(request.vocabulary)
    digest = hashlib.blake2b(digest_size=16)
    for path in dict.fromkeys(paths):
        for file in contents(path):
            try:
                with open(file, "rb") as read:
                    content = hashlib.blake2b(read.read()).hexdigest()
            except OSError:
                continue  # the plugin says it better
            name = os.path.basename(file)
            digest.update(f"{name} {content}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def contents(path: str) -> list[str]:
    """The file, and those beside it that hold its tensors."""
    folder, name = os.path.split(path)
    data = (f"{name}.", f"{name}_")
    beside = os.listdir(folder) if name.endswith(".onnx") and os.path.isdir(folder) else []
    return [path, *sorted(os.path.join(folder, n) for n in beside if n.startswith(data))]
