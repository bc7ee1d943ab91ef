# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Connects to a Ray cluster, or starts one here."""

from __future__ import annotations

import socket

import ray

from ..errors import Unavailable
from .arguments import one_line


def connect(address: str, cpus: int) -> None:
    """Connects to the cluster at `address`; without one Ray is started here, for `cpus` processes.
    The caller ends it by `ray.shutdown`. Unavailable if no cluster is there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    own = {"num_cpus": cpus, "object_store_memory": 128 << 20}
    try:
        if port.isdigit():  # Ray itself tries for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        ray.init(address=address or "local", include_dashboard=False, log_to_driver=False,
                 logging_level="critical", **({} if address else own))  # fmt: skip
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        if not address:
            raise
        raise Unavailable(f"no Ray cluster answers at {address}: {one_line(error)}") from error
