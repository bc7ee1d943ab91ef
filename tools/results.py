# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/results.md from what `make demo`, `bench`, `test` and `nightly` left in build/."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import BUILD, ROOT, environment

PAGE = ROOT / "docs" / "results.md"


def load(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


def first_line(*command: str) -> str:
    try:
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return ""
    return (done.stdout.splitlines() or [""])[0].strip()


def machine() -> list[str]:
    cpu = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return [
        f"{cpu}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB; {system},"
        f" Linux {platform.release()}",
        f"{first_line('clang-22', '--version')}; {first_line('g++', '--version')};"
        f" Python {platform.python_version()}",
    ]


def measured(path: Path) -> str:
    when = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.timezone.utc)
    return f"Measured {when:%Y-%m-%d}; `{path.relative_to(ROOT)}`."


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return ["| " + " | ".join(row) + " |" for row in [head, rule, *rows]]


def number(value: Any, digits: int = 2) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def demo(path: Path) -> list[str]:
    report = load(path)
    if report is None:
        return []
    rows = []
    for p in report["programs"]:
        ratio = p["onnx_text"] / p["oz_text"]
        texts = [str(p[k]) for k in ("oz_text", "o2_text", "onnx_text", "server_text")]
        seconds = [number(float(p[k])) for k in ("oz_seconds", "onnx_seconds", "server_seconds")]
        same = number(bool(p["output_identical"] and p["objects_identical"]))
        rows.append([p["name"], *texts, f"{ratio:.4f}", *seconds, str(p["decisions"]), same])
    head = ["program", "-Oz", "-O2", "onnx", "server", "onnx / -Oz"]
    head += ["-Oz s", "onnx s", "server s", "decisions", "identical"]
    return [
        "## Size of real programs (`make demo`)",
        "",
        measured(path)
        + " Bytes of executable sections of each program's own objects; seconds to compile."
        " None of these programs was seen in training. *Identical*: the program's output is that"
        " of the -Oz build, and the objects of all ways of asking are the same.",
        "",
        *table(head, rows),
        "",
        f"Geometric mean of onnx over -Oz: **{report['geomean_onnx_over_oz']:.4f}**",
        "",
        *decisions(report.get("engines", [])),
    ]


def decisions(engines: list[dict[str, Any]]) -> list[str]:
    if not engines:
        return []
    rows = []
    for e in engines:
        near, other, bad = (len(e[k]) for k in ("near_ties", "different", "objects_different"))
        counts = [e["decisions"], e["same"], near, other, e["objects"], bad]
        rows.append([e["engine"], *map(str, counts)])
    head = ["engine", "decisions", "same as onnx", "near-ties", "different"]
    head += ["objects", "other bytes"]
    return [
        "The same model by other engines; *near-ties*: another action with a score within the"
        " tolerance of the best; *objects*: of the files decided the same.",
        "",
        *table(head, rows),
        "",
    ]


def round_trip(path: Path) -> list[str]:
    runs = load(path)
    if runs is None:
        return []
    rows = []
    for r in runs:
        values = [r["sweep_ms"], r["floor_sweep_ms"], r["small_us"], r["floor_small_us"]]
        sweep, sweep_floor, small, small_floor = (None if v is None else float(v) for v in values)
        rows.append(
            [
                f"{r['runner']}, {r['serdes'] or 'no serdes'}",
                "one core" if r["pinned"] else "free",
                number(sweep),
                number(sweep_floor),
                number(sweep / sweep_floor if sweep and sweep_floor else None),
                number(small),
                number(small_floor),
                number(small / small_floor if small and small_floor else None),
            ]
        )
    head = ["runner", "processes", "sweep ms", "floor", "ratio", "small µs", "floor", "ratio"]
    return [
        "## Round trips (`make bench`)",
        "",
        measured(path)
        + " *Sweep*: 100 queries of 500, 1000 … 50 000 floats each, one fully connected layer to"
        " one float. *Small*: 16 floats to one int64. The floor is a program that uses nothing of"
        " MLBridge, measured in turns with it.",
        "",
        *table(head, rows),
        "",
    ]


def cost(path: Path) -> list[str]:
    found = load(path)
    if found is None:
        return []
    rows = []
    for which, one in found["sets"].items():
        for name, ratio in one["over_bare"].items():
            limit = number(one["limits"].get(name))
            cells = [f"{one['files']} {which}, {one['groups']} groups", name]
            rows.append([*cells, f"{one['seconds'][name]:.2f}", f"{ratio:.3f}", limit])
    return [
        "## The cost of asking (`make bench`)",
        "",
        measured(path)
        + " User and system CPU of compiles with the model over that of a bare plugin that runs the"
        f" same groups; median of {found['pairs']} rounds in turns. Files are from the larger and"
        " the smaller half of the corpus. Starting ONNX Runtime takes"
        f" {found['onnx_start_up_ms']:.0f} ms of each process besides; that of the others is"
        " included.",
        "",
        *table(["files", "runner", "seconds", "ratio", "goal"], rows),
        "",
    ]


def episodes(path: Path) -> list[str]:
    runs = load(path)
    if runs is None:
        return []
    rows = []
    for r in runs:
        costs = [f"{r['step_ns']:.0f}", f"{r['floor_ns']:.0f}", f"{r['overhead_us']:.3f}"]
        deadline = "with" if r["deadline"] else "without"
        rows.append([str(r["agents"]), deadline, *costs, str(r["goal_us"])])
    head = ["agents", "deadline", "step ns", "by hand", "overhead µs", "goal"]
    return [
        "## Episodes in process (`make bench`)",
        "",
        measured(path)
        + f" {runs[0]['episodes']} episodes of {runs[0]['steps']} steps: the asking loop of"
        " environments, and a loop by hand that evaluates the same agents for the same pass.",
        "",
        *table(head, rows),
        "",
    ]


def batching(path: Path) -> list[str]:
    runs = load(path)
    if runs is None:
        return []
    rows = []
    for r in runs:
        counts = [r["bare_one_per_second"], r["bare_batch_per_second"], number(r["bare_gain"])]
        counts += [r["one_per_second"], r["batch_per_second"], number(r["server_gain"])]
        rows.append([*map(str, [r["clients"], *counts]), number(r["ratio"])])
    head = ["clients", "bare", "in batches", "gain", "server", "in batches", "gain", "ratio"]
    return [
        "## One server, many compilers (`make bench`)",
        "",
        measured(path)
        + " Requests a second to one server over unix, each client asking anew once it has its"
        " answer; the policy is a network 300-256-128-15 in PyTorch on one thread, asked for each"
        " request or for a batch of what is there. Beside it the same behind bare sockets. Medians"
        " of rounds in turns; the gains are of the rounds.",
        "",
        *table(head, rows),
        "",
    ]


def attacks(path: Path) -> list[str]:
    runs = load(path)
    if runs is None:
        return []
    rows = []
    for r in runs:
        times = [number(r[k], 3) for k in ("p50_ms_before", "p50_ms_during")]
        memory = [f"{r[k]:.0f}" for k in ("rss_mb_before", "rss_mb_peak")]
        rows.append([r["attack"], r["transport"], *times, *memory, number(r["survived"])])
    head = ["attack", "transport", "median ms", "during it", "MB", "at most", "survived"]
    return [
        "## Hostile peers (`make bench`)",
        "",
        measured(path)
        + " A good client of a server in Python asks on while another one attacks the server;"
        " `tests/attacks/attacks.py` says how. Medians of the good client's round trips, and memory"
        " of the server's process.",
        "",
        *table(head, rows),
        "",
    ]


def served_builds(path: Path) -> list[str]:
    report = load(path)
    if report is None:
        return []
    keys = ("modules", "decisions", "fallbacks", "decided_differently", "objects_different")
    rows = [
        [
            row["transport"],
            *(str(row[k]) for k in keys),
            *map(number, (row["seconds"], row["ratio"])),
        ]
        for row in report["builds"]
    ]
    head = ["transport", "modules", "decisions", "fallbacks", "decided differently"]
    head += ["objects different", "seconds", "over in process"]
    return [
        "## A parallel build with one server (`python -m programs.served_builds`)",
        "",
        measured(path)
        + f" {report['program']}, `make -j{report['jobs']}`, all compilers asking one server.",
        "",
        *table(head, rows),
        "",
    ]


def out_of_process(interop: Path, faults: Path) -> list[str]:
    combinations, injected = load(interop), load(faults)
    if combinations is None or injected is None:
        return []
    passed = sum(one["result"] == "passed" for one in combinations)
    return [
        "## Two sides, and what happens between them (`make test`)",
        "",
        f"{measured(interop)} {passed} of {len(combinations)} combinations of transport, serdes,"
        " language of either side and direction passed; the others are refused by name.",
        "",
        f"{measured(faults)} {injected['injected']} faults that took effect:"
        f" {injected['correct_advice']} times the right advice, {injected['clear_error']} times a"
        f" clear error, {injected['wrong_advice']} times wrong advice, {injected['hang']} hangs,"
        f" {injected['crash']} crashes.",
        "",
    ]


def held(limits: list[dict[str, Any]]) -> list[str]:
    """How many limits hold, and which do not."""
    broken = [row for row in limits if not row["holds"]]
    lines = [
        f"{len(limits) - len(broken)} of the {len(limits)} limits that the project states for these"
        " figures hold.",
        "",
    ]
    if broken:
        head = ["does not hold", "measured", "limit"]
        cells = [[r["what"], number(r["value"], 3), str(r["limit"])] for r in broken]
        lines += [*table(head, cells), ""]
    return lines


def in_process(path: Path, limits: Path) -> list[str]:
    rows, also = load(path), load(limits)
    if rows is None or also is None:
        return []
    head = ["model", "engine", "µs", "session µs", "ratio", "kernels µs", "ratio"]
    head += ["start ms", "MB", "KB"]
    lines = []
    for r in rows:
        us, session, kernels = r["us"], r["floor_ort_us"], r["floor_kernel_us"]
        ratios = [number(us / floor if floor else None) for floor in (session, kernels)]
        start, memory = number(float(r["startup_ms"])), number(float(r["rss_mb"]), 1)
        size = number(r["binary_kb"], 0)
        line = [r["model"], r["engine"], number(us, 3), number(session, 3), ratios[0]]
        lines.append([*line, number(kernels, 3), ratios[1], start, memory, size])
        if "c_function_us" in r:
            alone = [r["model"], "aot, its C function", number(r["c_function_us"], 3)]
            lines.append([*alone, *["–"] * (len(head) - len(alone))])
    return [
        "## Evaluations in process (`make bench`)",
        "",
        measured(path)
        + " One thread, medians. *Session*: ONNX Runtime's C API alone, everything bound"
        " beforehand. *Kernels*: the matrix products alone, by OpenBLAS or loops for this"
        " processor, whichever is faster. *Start*: from opening to the first answer in a fresh"
        " process, and the memory that this added, weights included. *KB*: what engine and network"
        " add to a stripped plugin, weights included where they are in it; of onnx its component,"
        f" beside which ONNX Runtime's library has {number(also['onnxruntime_kb'], 0)} KB.",
        "",
        *table(head, lines),
        "",
        *held(also["limits"]),
    ]


def node_tests(path: Path) -> list[str]:
    found = load(path)
    if found is None:
        return []
    return [
        "## The ONNX project's node tests (`make test`)",
        "",
        measured(path)
        + f" `native:` runs {found['run']} of those of onnx {found['onnx']}: {found['passed']}"
        f" passed, {found['failed']} failed. It refuses {found['not_claimed']} at opening, which"
        " use operators or types that it does not claim. Operators:"
        f" {', '.join(found['claimed_operators'])}.",
        "",
    ]


def random_networks(*paths: Path) -> list[str]:
    rows = []
    for path in paths:
        found = load(path)
        if found is not None:
            counts = [found[k] for k in ("networks", "elements", "outside", "errors", "refused")]
            counts += [found["differ_by_instruction_set"], found["differ_by_threads"]]
            rows.append([measured(path).rstrip("."), *map(str, counts)])
    if not rows:
        return []
    head = ["run", "networks", "elements", "outside tolerance", "errors", "refused"]
    head += ["differ by instruction set", "differ by threads"]
    return [
        "## Random networks (`make test`, `make nightly`)",
        "",
        "`native:` against ONNX Runtime, and against itself on other instruction sets (bit for bit)"
        " and in several threads. `tests/random-networks/reference.py` states the tolerance."
        " Aliases are branches and loops that give out what they see; of PyTorch's layers some are"
        " refused.",
        "",
        *table(head, rows),
        "",
    ]


def tests(path: Path) -> list[str]:
    summary = load(path)
    if summary is None:
        return []
    rows = [
        [s["name"], str(s["passed"]), str(s["failed"]), str(s["skipped"]), f"{s['seconds']:.0f}"]
        for s in summary["suites"]
    ]
    return [
        "## Tests (`make test`)",
        "",
        measured(path)
        + f" {summary['passed']} passed, {summary['failed']} failed, {summary['skipped']} skipped.",
        "",
        *table(["suite", "passed", "failed", "skipped", "seconds"], rows),
        "",
    ]


def bare_machine(path: Path) -> list[str]:
    report = load(path)
    if report is None:
        return []
    rows = []
    for one in report["commands"]:
        code = str(one["exit_code"]) if one["exit_code"] == 0 else f"**{one['exit_code']}**"
        rows.append([f"`{one['command']}`", code, f"{one['seconds']:.1f}"])
    changed = ", without the changes beside it" if report["uncommitted_changes"] else ""
    warm = [name for name, is_warm in report["caches_warm"].items() if is_warm]
    counts, tests = report["packages"], report["tests"]
    tested = f" Tests: {tests['passed']} passed, {tests['failed']} failed," if tests else ""
    return [
        "## A bare machine (`tools/bare-machine`)",
        "",
        measured(path)
        + f" Commit {report['commit'][:12]}{changed}, in a minimal Debian ({report['release']}) of"
        f" {counts['minimal']} packages, in the end {counts['after']}. Warm caches:"
        f" {', '.join(warm) or 'none'}.{tested}"
        + (f" {tests['skipped']} skipped." if tests else ""),
        "",
        *table(["command", "exit code", "seconds"], rows),
        "",
    ]


def main() -> int:
    parts = [
        demo(BUILD / "demo/report.json"),
        round_trip(BUILD / "bench/round-trip.json"),
        batching(BUILD / "bench/batching.json"),
        attacks(BUILD / "bench/attacks.json"),
        episodes(BUILD / "bench/episodes.json"),
        served_builds(BUILD / "programs/own-builds/served.json"),
        cost(BUILD / "bench/phase-ordering.json"),
        in_process(BUILD / "bench/in-process.json", BUILD / "bench/in-process-limits.json"),
        out_of_process(BUILD / "test/interop.json", BUILD / "test/faults.json"),
        node_tests(BUILD / "test/onnx-node-tests.json"),
        random_networks(
            *(BUILD / f"{run}/random-networks.json" for run in ("test", "nightly")),
            BUILD / "nightly/random-aliases.json",
            BUILD / "nightly/torch-exports.json",
        ),
        tests(BUILD / "test/summary.json"),
        bare_machine(BUILD / "bare-machine/report.json"),
    ]
    if not any(parts):
        print("nothing has been measured: run `make demo`, `make bench` or `make test` first")
        return 1
    lines = ["# Results", "", "Made by `make results`; do not edit. On this machine:", ""]
    lines += [f"- {line}" for line in machine()]
    lines.append("")
    for part in parts:
        lines += part
    PAGE.write_text("\n".join(lines).rstrip() + "\n")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
