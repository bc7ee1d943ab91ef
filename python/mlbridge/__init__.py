# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLBridge connects compiler optimizations to machine-learning models.

`serve` answers compilers with a policy; `open` asks any model as a compiler would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import aio, recording
    from ._core import (
        Context,
        Event,
        EventKind,
        Inputs,
        Model,
        Runner,
        Signature,
        Statistics,
        TensorSpec,
    )
    from ._core import version as __version__
    from .client import from_function, function, open
    from .driving import (
        AgentsEnvironment,
        Driver,
        Environment,
        Transition,
        Turn,
        drive,
        serve_environment,
    )
    from .errors import (
        Busy,
        Cancelled,
        Closed,
        Code,
        DeadlineExceeded,
        Error,
        InternalError,
        InvalidArgument,
        InvalidModel,
        LimitExceeded,
        Mismatch,
        NextStep,
        NotFound,
        PolicyFailed,
        ProtocolError,
        Status,
        Unavailable,
        Unsupported,
    )
    from .loading import (
        LoadedModel,
        load,
        load_onnx,
        load_python,
        load_torch,
        parse_signature,
        serve_onnx,
    )
    from .recording import Recording, record, replay
    from .server import BatchPolicy, Policy, Server, serve
    from .workers import Workers

# What is where. Loaded on first use, so that `mlbridge flags`, which a build system may run for
# every file, starts neither NumPy nor the extension.
_HOMES = {
    "_core": "Context Event EventKind Inputs Model Runner Signature Statistics TensorSpec",
    "client": "from_function function open",
    "driving": "AgentsEnvironment Driver Environment Transition Turn drive serve_environment",
    "errors": (
        "Busy Cancelled Closed Code DeadlineExceeded Error InternalError InvalidArgument"
        " InvalidModel LimitExceeded Mismatch NextStep NotFound PolicyFailed ProtocolError Status"
        " Unavailable Unsupported"
    ),
    "loading": "LoadedModel load load_onnx load_python load_torch parse_signature serve_onnx",
    "recording": "Recording record replay",
    "server": "BatchPolicy Policy Server serve",
    "workers": "Workers",
}
_MODULES = ("aio", "recording")
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "AgentsEnvironment",
    "BatchPolicy",
    "Busy",
    "Cancelled",
    "Closed",
    "Code",
    "Context",
    "DeadlineExceeded",
    "Driver",
    "Environment",
    "Error",
    "Event",
    "EventKind",
    "Inputs",
    "InternalError",
    "InvalidArgument",
    "InvalidModel",
    "LimitExceeded",
    "LoadedModel",
    "Mismatch",
    "Model",
    "NextStep",
    "NotFound",
    "Policy",
    "PolicyFailed",
    "ProtocolError",
    "Recording",
    "Runner",
    "Server",
    "Signature",
    "Statistics",
    "Status",
    "TensorSpec",
    "Transition",
    "Turn",
    "Unavailable",
    "Unsupported",
    "Workers",
    "__version__",
    "aio",
    "drive",
    "from_function",
    "function",
    "load",
    "load_onnx",
    "load_python",
    "load_torch",
    "open",
    "parse_signature",
    "record",
    "recording",
    "replay",
    "serve",
    "serve_environment",
    "serve_onnx",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    if name == "__version__":
        return importlib.import_module("._core", __name__).version
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'mlbridge' has no attribute {name!r}")
    value = getattr(importlib.import_module("." + home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
