# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models that compilers are to ask: found, checked without opening them, and as URIs."""

from __future__ import annotations

import os
import re

from .. import files
from ..optimizations import Optimization
from ..uri import SCHEMES, escaped, for_each, is_component, unescaped
from .common import CommandError, UsageError, nearest

#: Schemes whose place is a file that plugins read themselves.
READ_BY_PLUGINS = ("candidates", "profile")
#: Seconds that --require waits for a model.
OPENING = 10.0


def model_uri(text: str, runtime: str | None, agents: tuple[str, ...] = ()) -> str:
    """The URI with an absolute path, once what can be seen without opening it has been checked.

    `runtime` is where ONNX Runtime is, if the engine must be told.
    """
    match = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*):([^?]*)(\?.*)?", text, re.DOTALL)
    if match is None:
        hint = f"; did you mean 'onnx:{text}'?" if os.path.exists(text) else ""
        raise UsageError(f"--model: '{text}' is not a URI such as onnx:FILE or unix:SOCKET{hint}")
    scheme, place, options = match[1], unescaped(match[2]), match[3] or ""
    if scheme not in SCHEMES:
        if not is_component(scheme):
            raise UsageError(
                f"--model: no runner for the scheme '{scheme}'"
                + (nearest(scheme, list(SCHEMES)) or f"; there are {', '.join(SCHEMES)}")
            )
        return text
    if not place:
        raise UsageError(f"--model: '{text}' names nothing after '{scheme}:'")
    kind = SCHEMES[scheme]
    if scheme == "aot" and not re.search("[./]", place):
        kind = "name"
    if kind != "name":
        ending = "/" if place.endswith("/") else ""
        place = os.path.abspath(place) + ending
    for one in for_each(place, agents) if kind == "model" else ():
        if not os.path.isfile(one):
            problem = "a folder" if os.path.isdir(one) else "not there"
            expected = "a shared object of mlbridge aot" if scheme == "aot" else "an ONNX file"
            raise CommandError(f"--model: {one} is {problem}; expected {expected}")
    if scheme in READ_BY_PLUGINS and not os.path.isfile(place):
        raise CommandError(f"--model: there is no file {place}")
    if scheme == "onnx" and "runtime=" not in options:
        options += runtime_option(runtime)
    # Between options '?' does as well as '&', and needs no quotes.
    return f"{scheme}:{escaped(place)}{options.replace('&', '?')}"


def stated_models(
    optimization: Optimization, text: str, runtime: str | None
) -> tuple[tuple[str, str], ...]:
    """The agents that --model names, "" for all others, and their URIs."""
    found = []
    agents = optimization.agents
    for part in filter(None, map(str.strip, text.split(";"))) if agents else ():
        named = re.fullmatch(r"([\w*]+)\s*=\s*(.*)", part, re.DOTALL)
        agent, uri = named.groups() if named else ("", part)
        asking = (agent,) if agent in agents else agents
        found.append((agent, model_uri(uri, runtime, asking)))
    return tuple(found) or (("", model_uri(text, runtime)),)


def shipped_model(
    optimization: Optimization, runtime: str | None, *, compared: bool, link: bool = False
) -> str:
    """The model of this package: its candidates, if these are to be compared, or its policy.
    `link`: the candidates for a link."""
    name, agents = optimization.model, optimization.agents
    if name is None:
        others = ""
        if optimization.name == "hotness":
            others = ", or a profile with --profile"
        raise UsageError(f"no model comes with {optimization.name}; state one with --model{others}")
    path = (
        files.shipped_candidates(name, link=link)
        if compared
        else files.shipped_agents(name)
        if agents
        else files.shipped_model(name)
    )
    for one in for_each(path, agents):
        if not os.path.isfile(one):
            raise CommandError(
                f"the policy that comes with this package is not there ({one}); "
                "state another with --model"
            )
    if compared:
        return f"candidates:{escaped(path)}"
    options = runtime_option(runtime) if optimization.engine == "onnx" else ""
    return f"{optimization.engine}:{escaped(path)}{options}"


def runtime_option(place: str | None) -> str:
    """The option of a URI that says where ONNX Runtime is."""
    return "" if place is None else f"?runtime={escaped(place)}"


def must_open(uri: str) -> None:
    """Open the model, unless only the plugin knows its name. CommandError if that fails."""
    if uri.partition(":")[0] in ("function", *READ_BY_PLUGINS):
        return
    from .._core import Model
    from ..errors import Error

    try:
        Model.open(uri, deadline=OPENING)
    except Error as error:
        raise CommandError(f"the model can't be opened: {error}") from None


def needed_files(uri: str) -> list[str]:
    """The files without which nothing asks this model."""
    match = re.fullmatch(r"([^:]*):([^?]*)(.*)", uri)
    assert match is not None
    scheme, place = match[1], unescaped(match[2])
    options = dict(option.partition("=")[::2] for option in match[3].split("?"))
    found = []
    if scheme in READ_BY_PLUGINS or (SCHEMES.get(scheme) == "model" and "/" in place):
        found.append(place)
    parts = [("engine", scheme), ("transport", scheme), ("serdes", options.get("serdes", ""))]
    found += [path for kind, name in parts if (path := files.find_component(kind, name))]
    if "runtime" in options:
        found.append(unescaped(options["runtime"]))
    return found
