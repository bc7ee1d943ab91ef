# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Listing 5, and the slides' Python: a model that a compiler asks. listing5.py json|bytes PIPE"""

import sys

import CompilerInterface as CI

data_format, pipe = sys.argv[1:]

# Instantiate the required CompilerInterface with serdes type
interface = CI.PipeCompilerInterface(data_format, pipe)
print("ready", flush=True)

while True:
    # Send buffer data to compiler and wait for next request
    try:
        request = interface.evaluate()
    except EOFError:  # the compiler is done: break on condition
        break
    # Query model to get advice
    features = request["x"] if data_format == "json" else list(request[0])
    advice = features.index(max(features))
    # Populates buffer with advice (serialized and stored in serdes)
    interface.populate_buffer(advice)
