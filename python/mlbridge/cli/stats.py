# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge stats`: what a running server, or each of several, has done."""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..errors import Error
from .arguments import AT, JSON, Parser, address
from .common import DONE, FAILED, CommandError, printable, show, table

#: Seconds that a server may take to say what it has done.
DEADLINE = 5.0
#: The columns of the table of several servers.
COLUMNS = ("connections", "streams", "requests", "replies", "errors", "refused", "latency-p99-us")


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge stats`."""
    parser.describe(
        """\
Asks a running server what it has done so far, for all compilers together. Of several servers it
prints a row for each and their sum, and fails if one doesn't answer.""",
        """\
example:
  mlbridge stats unix:/tmp/policy.sock --json
  mlbridge stats grpc:first:50051,second:50051""",
    )
    parser.add_argument(
        "uri", metavar="URI", type=address, help=AT.replace("where", "where it listens")
    )
    parser.option("--json", JSON)


def run(options: argparse.Namespace) -> int:
    """Print the statistics of the server, or servers."""
    servers = servers_of(options.uri)
    if servers is None:
        show(ask(options.uri), as_json=options.json)
        return DONE
    with ThreadPoolExecutor(max_workers=len(servers)) as pool:
        answers = list(pool.map(asked, servers.values()))
    rows = {
        name: answer if isinstance(answer, dict) else {"error": answer}
        for name, answer in zip(servers, answers, strict=True)
    }
    sum_row = total([row for row in rows.values() if "error" not in row])
    if options.json:
        print(json.dumps({"servers": rows, "sum": sum_row}))
    else:
        show_table(rows, sum_row)
    silent = {name: row["error"] for name, row in rows.items() if "error" in row}
    for name, why in silent.items():
        print(f"mlbridge stats: {name}: {printable(why)}", file=sys.stderr)
    return FAILED if silent else DONE


def ask(uri: str) -> dict[str, Any]:
    """The statistics of the server there, numbers as such."""
    from .._core import Model

    statistics = Model.open(uri, deadline=DEADLINE).statistics()
    numbers: dict[str, Any] = dict(statistics)
    for name, text in statistics.items():
        with contextlib.suppress(ValueError, RecursionError):  # one that is no number
            numbers[name] = json.loads(text)
    return numbers


def asked(uri: str) -> dict[str, Any] | str:
    """The statistics of the server there, or why there are none."""
    try:
        return ask(uri)
    except (Error, OSError) as error:
        return str(error)


def servers_of(uri: str) -> dict[str, str] | None:
    """A URI for each server of a list, or of a name with several addresses; None if there is one.

    Raises CommandError if none of the names has an address.
    """
    scheme, _, rest = uri.partition(":")
    place, mark, options = rest.removeprefix("//").partition("?")
    elements = place.split(",")
    if scheme != "grpc" or "call=" in options:
        return None
    if not all(elements) or len(set(elements)) < len(elements):
        return None  # opening it says what is wrong
    found: dict[str, str] = {}
    missing: list[str] = []
    for element in elements:
        host, colon, port = element.rpartition(":")
        named = f"{options}&tls-name={host}" if needs_name(host, options) else options
        places = addresses(host, port) if colon and is_name(host) else [element]
        missing += [] if places else [f"'{host}' has no address"]
        for one in places or [element]:
            label = element if one == element else f"{element} ({one.rpartition(':')[0]})"
            found[label] = f"{scheme}:{one}{'?' if mark else ''}{named}"
    if len(missing) == len(elements):
        raise CommandError(f"{uri}: {'; '.join(missing)}")
    return found if len(found) > 1 or len(elements) > 1 else None


def is_name(host: str) -> bool:
    """Whether a host is no address, and none that gRPC's place of the library knows as one."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host.strip("[]"))
            return False
    return host != "localhost"


def needs_name(host: str, options: str) -> bool:
    """Whether the certificate of an address has to be compared with the name it came from."""
    return "tls-ca=" in options and "tls-name=" not in options and is_name(host)


def addresses(host: str, port: str) -> list[str]:
    """The addresses of a name, with the port."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    hosts = dict.fromkeys(str(entry[4][0]) for entry in found)
    return [f"[{one}]:{port}" if ":" in one else f"{one}:{port}" for one in hosts]


def total(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of counts, the greatest maximum, and how many servers there are of these.

    Percentiles and means of several servers can't be had from those of each.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    result: dict[str, Any] = {"servers": len(rows)}
    for name in names:
        values = [row[name] for row in rows if isinstance(row.get(name), int | float)]
        if "-max" in name and values:
            result[name] = max(values)
        elif "latency-" not in name and "-mean" not in name and values:
            result[name] = sum(values)
    return result


def show_table(rows: Mapping[str, Mapping[str, Any]], sum_row: Mapping[str, Any]) -> None:
    """Print a row for each server, and the sum."""

    def cells(row: Mapping[str, Any]) -> list[object]:
        if "error" in row:
            return ["no answer", *[""] * (len(COLUMNS) - 1)]
        return [row.get(name, "") for name in COLUMNS]

    lines = [[name, *cells(row)] for name, row in rows.items()]
    table(("server", *COLUMNS), [*lines, ["sum", *cells(sum_row)]], left=("server",))
