# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python interface published in 2024 as `compilerinterface`, over the same bytes.

    from CompilerInterface import PipeCompilerInterface, GrpcCompilerInterface

What it does otherwise, and what to use instead, is in compat/README.md of MLBridge: nothing is
printed; a compiler that has gone, garbage and a deadline that has passed are exceptions; files that
are no FIFOs are never removed; and pipes are opened when they are first needed, if
`reset_pipes` was not called. Needs nothing but the standard library, and grpcio for gRPC.
"""

import os
from importlib.metadata import PackageNotFoundError, version

from .BaseCompilerInterface import BaseCompilerInterface
from .GrpcCompilerInterface import GrpcCompilerInterface
from .PipeCompilerInterface import PipeCompilerInterface
from .SerDes import SerDes

__all__ = ["BaseCompilerInterface", "GrpcCompilerInterface", "PipeCompilerInterface", "SerDes"]

# The name of the package of 2024 differs in upper case alone: whoever mixes them up would get the
# other's behaviour.
try:
    if not os.environ.get("MLBRIDGE_COMPAT_BESIDE"):
        raise ImportError(
            "ml-compiler-bridge-compat takes the place of compilerinterface "
            f"{version('compilerinterface')}, which is installed as well: pip uninstall "
            "compilerinterface, or set MLBRIDGE_COMPAT_BESIDE=1 to use both"
        )
except PackageNotFoundError:
    pass
