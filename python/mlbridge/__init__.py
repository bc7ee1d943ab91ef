# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLBridge connects compiler optimizations to machine-learning models.

`serve` answers compilers with a policy; `open` asks any model as a compiler would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .files import share_components

if TYPE_CHECKING:
    from . import corpus as corpus
    from . import recording as recording
    from ._core import *
    from .client import *
    from .driving import *
    from .errors import *
    from .forwarding import forward as forward
    from .loaded_model import LoadedModel as LoadedModel
    from .onnx_files import load_onnx as load_onnx
    from .policy_files import load as load
    from .policy_files import load_python as load_python
    from .policy_files import parse_signature as parse_signature
    from .recording import Recording as Recording
    from .recording import replay as replay
    from .server import *
    from .torch_files import load_torch as load_torch

    __version__: str

# The module of each name. It is loaded on first use, so that `mlbridge flags`, which a build may
# run for every file, starts neither NumPy nor the extension.
_HOMES = {
    "_core": "CallContext Event EventKind Inputs Model Runner Signature Statistics TensorSpec",
    "client": "from_function function open",
    "driving": "AgentsEnvironment Driver Environment Transition Turn drive serve_environment",
    "errors": (
        "Busy Cancelled Closed Code DeadlineExceeded Error InternalError InvalidArgument"
        " InvalidModel LimitExceeded Mismatch NextStep NotFound PolicyFailed ProtocolError Status"
        " Unavailable Unsupported"
    ),
    "forwarding": "forward",
    "loaded_model": "LoadedModel",
    "onnx_files": "load_onnx",
    "policy_files": "load load_python parse_signature",
    "recording": "Recording replay",
    "server": "BatchPolicy Policy Server serve",
    "torch_files": "load_torch",
}
_MODULES = ("corpus", "recording")
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


share_components()


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
    return sorted([*_HOME, *_MODULES, "__version__"])


if not TYPE_CHECKING:  # type checkers take the names above
    __all__ = __dir__()
