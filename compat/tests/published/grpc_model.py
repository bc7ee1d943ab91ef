# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model behind, or in front of, a gRPC service as users of the 2024 release wrote it:

grpc_model.py MODULE serve|train PORT FOLDER-OF-listing2_pb2
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

module, mode, port, folder = sys.argv[1:]
sys.path.insert(0, folder)
CI = importlib.import_module(module)
pb = importlib.import_module("listing2_pb2")
pb_grpc = importlib.import_module("listing2_pb2_grpc")


class service_server:
    def getAdvice(self, request: Any, context: Any) -> Any:
        assert request.size == 1 << 40, request
        return pb.Action(action=int(sum(request.tensor)) + int(request.module[1:]))

    def getCosts(self, request: Any, context: Any) -> Any:
        return pb.Ranges(costs=[x / 2 for x in request.tensor])


if mode == "serve":
    interface = CI.GrpcCompilerInterface(
        mode="server",
        add_server_method=pb_grpc.add_HelloServiceServicer_to_server,
        grpc_service_obj=service_server(),
        hostport=int(port),
    )
    interface.start_server()
else:
    interface = CI.GrpcCompilerInterface(
        mode="client", stub_class=pb_grpc.HelloServiceStub, hostip="127.0.0.1", hostport=int(port)
    )
    for action in (3, 4):
        interface.populate_buffer(pb.Action(action=action))
        observation = interface.evaluate()
        assert list(observation.tensor) == [action, 2 * action, 3 * action], observation
    interface.populate_buffer(pb.Action(action=-1))
    interface.evaluate()
    print("good", flush=True)
