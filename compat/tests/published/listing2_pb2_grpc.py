# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What grpcio-tools makes of listing2.proto, written by hand so that the tests don't need it."""

from __future__ import annotations

from typing import Any

import grpc
import listing2_pb2 as pb  # type: ignore[import-not-found] # protoc makes it


class HelloServiceStub:
    def __init__(self, channel: grpc.Channel) -> None:
        self.queryCompiler = channel.unary_unary(
            "/hello.HelloService/queryCompiler",
            request_serializer=pb.Action.SerializeToString,
            response_deserializer=pb.Observation.FromString,
        )
        self.getAdvice = channel.unary_unary(
            "/hello.HelloService/getAdvice",
            request_serializer=pb.Observation.SerializeToString,
            response_deserializer=pb.Action.FromString,
        )


def handler(method: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        method,
        request_deserializer=pb.Observation.FromString,
        response_serializer=lambda reply: reply.SerializeToString(),
    )


def add_HelloServiceServicer_to_server(servicer: Any, server: Any) -> None:
    for service in ("hello.HelloService", "hello.CostService"):
        methods = {"getAdvice": handler(servicer.getAdvice)}
        if service == "hello.CostService":
            methods = {"getAdvice": handler(servicer.getCosts)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
