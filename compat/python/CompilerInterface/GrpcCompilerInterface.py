# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model's side of a gRPC service of the user's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

from .BaseCompilerInterface import BaseCompilerInterface, default_deadline

_LARGEST = 200 * 1024 * 1024
_OPTIONS = [
    ("grpc.max_send_message_length", _LARGEST),
    ("grpc.max_receive_message_length", _LARGEST),
    ("grpc.so_reuseport", 0),  # otherwise two servers may share a port, and calls go to either
]


class GrpcCompilerInterface(BaseCompilerInterface):
    """mode "client" (training: the compiler is the server) or "server" (inference).

    As a client, `evaluate` calls the stub's queryCompiler with the message of `populate_buffer`; of
    a service without such a method, its only one besides getAdvice. As a server, the constructor
    serves until the process ends or `stop` is called, as in the release; with `blocking=False` it
    returns. A port that is taken is tried again for `deadline` seconds; then it is an OSError.
    """

    def __init__(
        self,
        mode: str,
        stub_class: Callable[[Any], Any] | None = None,
        hostip: str = "127.0.0.1",
        hostport: int = 50051,
        add_server_method: Callable[[Any, Any], None] | None = None,
        grpc_service_obj: Any = None,
        *,
        deadline: float | None = -1.0,
        blocking: bool = True,
    ) -> None:
        super().__init__("protobuf")
        self.mode = mode
        self.host = hostip
        self.server_port = hostport
        self.deadline = default_deadline() if deadline is not None and deadline < 0 else deadline
        self.add_server_method = add_server_method
        self.grpc_service_obj = grpc_service_obj
        self.server: Any = None
        self.channel: Any = None
        if mode == "client":
            if stub_class is None:
                raise ValueError("mode 'client' needs a stub_class")
            import grpc

            self.channel = grpc.insecure_channel(f"{hostip}:{hostport}", options=_OPTIONS[:2])
            self.stub = stub_class(self.channel)
        elif mode == "server":
            if add_server_method is None or grpc_service_obj is None:
                raise ValueError("mode 'server' needs add_server_method and grpc_service_obj")
            self.start_server(blocking=blocking)
        else:
            raise ValueError(f"mode {mode!r} is unknown; there are 'client' and 'server'")

    def __del__(self) -> None:
        channel = getattr(self, "channel", None)
        if channel is not None:
            channel.close()

    def _method(self) -> Callable[..., Any]:
        methods: dict[str, Callable[..., Any]] = {
            n: m for n, m in vars(self.stub).items() if callable(m)
        }
        if "queryCompiler" in methods:
            return methods["queryCompiler"]
        others = [m for n, m in methods.items() if n != "getAdvice"]
        if len(others) != 1:
            raise AttributeError(
                f"the service has no method queryCompiler; it has {', '.join(methods) or 'none'}"
            )
        return others[0]

    def evaluate(self, mode: str | None = None) -> Any:
        """Calls the compiler with the buffered message; its reply. Waits until its server is there,
        at most for the deadline; raises grpc.RpcError."""
        out = self.serdes_obj.getOutputBuffer()
        return self._method()(out, timeout=self.deadline, wait_for_ready=True)

    def start_server(self, *, blocking: bool = True) -> None:
        """Serves; does nothing as a client or if the server runs already."""
        if self.mode != "server" or self.server is not None:
            return
        import grpc

        assert self.add_server_method is not None
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=20), options=_OPTIONS)
        self.add_server_method(self.grpc_service_obj, server)
        place = f"{self.host}:{self.server_port}"
        end = None if self.deadline is None else time.monotonic() + self.deadline
        pause = 0.05
        while True:
            try:
                port = server.add_insecure_port(place)
            except RuntimeError:
                port = 0
            if port:
                break
            if end is not None and time.monotonic() + pause > end:
                raise OSError(f"cannot listen at {place}: the port is taken")
            time.sleep(pause)
            pause = min(pause * 1.2, 2.0)
        self.server_port = port
        self.server = server
        server.start()
        if blocking:
            server.wait_for_termination()

    def stop(self) -> None:
        """Ends the server."""
        if self.server is not None:
            self.server.stop(grace=1.0).wait()
            self.server = None
