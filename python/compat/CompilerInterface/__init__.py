# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python interface published in 2024 as `compilerinterface`, over the same bytes.

    from CompilerInterface import PipeCompilerInterface, GrpcCompilerInterface

What it does otherwise, and what to use instead, is in docs/migrating.md of MLBridge: nothing is
printed; a compiler that has gone, garbage and a deadline that has passed are exceptions; files that
are no FIFOs are never removed; and pipes are opened when they are first needed, if
`reset_pipes` was not called. Needs nothing but the standard library, and grpcio for gRPC.
"""

from ._beside import refuse_the_published
from .BaseCompilerInterface import BaseCompilerInterface
from .GrpcCompilerInterface import GrpcCompilerInterface
from .PipeCompilerInterface import PipeCompilerInterface
from .SerDes import SerDes

__all__ = ["BaseCompilerInterface", "GrpcCompilerInterface", "PipeCompilerInterface", "SerDes"]

refuse_the_published()
