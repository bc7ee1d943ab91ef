# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/results.md from what `make demo`, `bench`, `test` and `nightly` left in build/, and
into docs/choosing-a-runner.md the lines that a pass and its build need for each runner (counted in
sources that `make test` runs) and what MLBridge adds to a compiler.

    tools/results.py [--check]    only whether the counted lines are those of the page
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

from common import BUILD, ROOT, environment

PAGE = ROOT / "docs" / "results.md"
CHOOSING = ROOT / "docs" / "choosing-a-runner.md"


def load(path: Path) -> Any:
    return json.loads(path.read_text()) if path.is_file() else None


def first_line(*command: str) -> str:
    try:
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return ""
    return (done.stdout.splitlines() or [""])[0].strip()


def machine() -> list[str]:
    named = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    cpu = named[1] if named else "unknown processor"
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


def cell(value: Any, digits: int = 2) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def table(head: list[str], rows: list[list[Any]]) -> list[str]:
    rule = ["---", *["---:"] * (len(head) - 1)]
    lines = [head, rule, *([cell(value) for value in row] for row in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def section(title: str, text: str, *parts: list[str]) -> list[str]:
    return [f"## {title}", "", text, "", *chain(*parts)]


def over(value: float | None, floor: float | None) -> float | None:
    return value / floor if value and floor else None


def demo(path: Path, report: Any) -> list[str]:
    efforts = ("effort1", "effort3")
    rows = [
        [
            p["name"],
            *(p[k] for k in ("oz_text", "o2_text", "onnx_text", "server_text")),
            *(f"{p[f'{way}_text'] / p['oz_text']:.4f}" for way in ("onnx", *efforts)),
            *(float(p[f"{way}_seconds"]) for way in ("oz", "onnx", "server", *efforts)),
            p["decisions"],
            bool(p["output_identical"] and p["objects_identical"]),
        ]
        for p in report["programs"]
    ]
    head = ["program", "-Oz", "-O2", "onnx", "server", "onnx / -Oz"]
    head += ["effort 1 / -Oz", "effort 3 / -Oz", "-Oz s", "onnx s", "server s"]
    head += ["effort 1 s", "effort 3 s", "decisions", "identical"]
    found = report["over_oz"]
    mean = "Geometric means over -Oz, with 95 % intervals: " + ", ".join(
        f"{name} **{found[way]['mean']:.4f}** [{found[way]['low']:.4f}, {found[way]['high']:.4f}]"
        for way, name in (("onnx", "onnx"), ("effort1", "effort 1"), ("effort3", "effort 3"))
    )
    return section(
        "Size of real programs (`make demo`)",
        f"{measured(path)} Bytes of executable sections of each program's own objects; seconds to"
        " compile. None of these programs was seen in training. *Identical*: the program's output"
        " equals that of the -Oz build, and all engines produced the same objects. *effort N*: the"
        " smallest of -Oz and N candidates, for each object (`mlbridge flags --effort`).",
        table(head, rows),
        [mean, ""],
        decisions(report.get("engines", [])),
    )


def compared(path: Path, record: Any) -> list[str]:
    """Of programs.compare."""

    def interval(its: dict[str, Any], name: str) -> str | None:
        one = its.get(name)
        if one is None or one["low"] is None:
            return one and f"{one['mean']:.3f}"
        return f"{one['mean']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"

    columns = ["bytes", "linked", "over_outliner", "cpu", "wall", "run"]
    rows = [
        [way, *(interval(its, name) for name in columns)]
        + [its[key] for key in ("smaller", "equal", "larger")]
        for way, its in record["over_oz"].items()
    ]
    spent = [
        f"{way}: of {its['shares']['all']:.0f} s of a processor, "
        + ", ".join(
            f"{name} {seconds / its['shares']['all']:.0%}"
            for name, seconds in its["shares"].items()
            if name != "all"
        )
        + "; the rest is the front end and the code that is kept."
        for way, its in record["over_oz"].items()
        if "shares" in its
    ]
    files = sum(record["over_oz"]["-Oz"][key] for key in ("smaller", "equal", "larger"))
    return section(
        f"Candidates on {path.stem} (`programs/compare.py`)",
        f"{measured(path)} {len(record['programs'])} programs, {files} files, compiled from source"
        f" with {record['jobs']} jobs. Ratios to -Oz: geometric means over programs, with the 95 %"
        " interval of a bootstrap over programs. *linked*: with -ffunction-sections and"
        " --gc-sections on both sides; *cpu*, *wall*: of compiling; *run*: of their `work` in the"
        " catalog; then files by their bytes.",
        table(["over -Oz", *columns, "smaller", "equal", "larger"], rows),
        [*spent, ""] if spent else [],
    )


def decisions(engines: list[dict[str, Any]]) -> list[str]:
    if not engines:
        return []
    rows = []
    for e in engines:
        near, other, bad = (len(e[k]) for k in ("near_ties", "different", "objects_different"))
        which = len(e["programs"])
        rows.append([e["engine"], which, e["decisions"], e["same"], near, other, e["objects"], bad])
    head = ["engine", "programs", "decisions", "same as onnx", "near-ties", "different"]
    head += ["objects", "other bytes"]
    return [
        "The same model by other engines; *near-ties*: another action whose score is within the"
        " tolerance of the best one; *objects*: objects compared, of files for which all decisions"
        " agree.",
        "",
        *table(head, rows),
    ]


def round_trip(path: Path, runs: Any) -> list[str]:
    rows = []
    for r in runs:
        row: list[Any] = [
            f"{r['runner']}, {r['serdes'] or 'no serdes'}",
            "one core" if r["pinned"] else "free",
        ]
        for ours, floor in (("sweep_ms", "floor_sweep_ms"), ("small_us", "floor_small_us")):
            row += [r[ours], r[floor], over(r[ours], r[floor])]
        rows.append(row)
    head = ["runner", "processes", "sweep ms", "floor", "ratio", "small µs", "floor", "ratio"]
    return section(
        "Round trips (`make bench`)",
        f"{measured(path)} *Sweep*: 100 queries of 500, 1000 … 50 000 floats each, one fully"
        " connected layer to one float. *Small*: 16 floats to one int64. The floor is a"
        " hand-written program that doesn't use MLBridge; the two are measured alternately.",
        table(head, rows),
    )


def cost(path: Path, found: Any) -> list[str]:
    rows = []
    for which, one in found["sets"].items():
        for name, ratio in one["over_bare"].items():
            files = f"{one['files']} {which}, {one['groups']} groups"
            limit = one["limits"].get(name)
            rows.append([files, name, one["seconds"][name], f"{ratio:.3f}", limit])
    return section(
        "The cost of asking (`make bench`)",
        f"{measured(path)} CPU time (user and system) of compiling with the model, divided by that"
        f" of a bare plugin that runs the same groups of passes; median of {found['pairs']}"
        " alternating rounds. Files are from the larger and the smaller half of the corpus. For"
        f" `onnx`, the {found['onnx_start_up_ms']:.0f} ms that each process takes to start ONNX"
        " Runtime are not included; the start of the other engines is.",
        table(["files", "runner", "seconds", "ratio", "goal"], rows),
    )


def episodes(path: Path, runs: Any) -> list[str]:
    rows = []
    for r in runs:
        costs = [f"{r['step_ns']:.0f}", f"{r['floor_ns']:.0f}", f"{r['overhead_us']:.3f}"]
        deadline = "with" if r["deadline"] else "without"
        rows.append([r["agents"], deadline, *costs, str(r["goal_us"])])
    head = ["agents", "deadline", "step ns", "by hand", "overhead µs", "goal"]
    return section(
        "Episodes in process (`make bench`)",
        f"{measured(path)} {runs[0]['episodes']} episodes of {runs[0]['steps']} steps: the"
        " library's loop compared with a hand-written loop that evaluates the same agents for the"
        " same pass.",
        table(head, rows),
    )


def batching(path: Path, runs: Any) -> list[str]:
    keys = ["clients", "bare_one_per_second", "bare_batch_per_second", "bare_gain"]
    keys += ["one_per_second", "batch_per_second", "server_gain", "ratio"]
    head = ["clients", "bare", "in batches", "gain", "server", "in batches", "gain", "ratio"]
    return section(
        "One server, many compilers (`make bench`)",
        f"{measured(path)} Requests a second to one server over unix, each client sending its next"
        " request once it has its answer. The policy is a 300-256-128-15 network in PyTorch on one"
        " thread, called for each request or for a batch of the requests that are waiting. The"
        " baseline is the same policy behind plain sockets. Medians of alternating rounds; a gain"
        " is the median over the rounds.",
        table(head, [[r[key] for key in keys] for r in runs]),
    )


def gym(path: Path, runs: Any) -> list[str]:
    keys = "way steps_per_second over_floor seconds_for_500_steps seconds_an_episode".split()
    return section(
        "Steps of an environment (`make bench`)",
        f"{measured(path)} The same actions on the same modules of the validation programs. Each"
        " step runs a group of passes on a module and generates code for the reward; the floor does"
        " both in one opt without environment or driver. Medians of rounds; a ratio is that of the"
        " rates in one round.",
        table(
            ["way", "steps a second", "over the floor", "s for 500 steps", "s an episode"],
            [[run[key] for key in keys] for run in runs],
        ),
    )


def deployment(path: Path, run: Any) -> list[str]:
    sizes, over = run["sizes"], run["sizes"]["over_oz"]
    return section(
        "Compiling with a policy (`make bench`)",
        f"{measured(path)} {run['modules']} modules of test-A, {run['steps']} decisions of"
        " models/poset-rl's policy, the same ones in every way (`bench/deployment/run.py`)."
        " `a process each` starts an embedder and opt for each step, `environment` is the"
        " Gymnasium environment with ONNX Runtime in Python. Medians of rounds. Code of"
        f" {sizes['modules']} modules of {over['count']} programs: {sizes['policy']} bytes against"
        f" {sizes['stock']} with -Oz; geometric mean of the programs {over['mean']:.3f}"
        f" [{over['low']:.3f}, {over['high']:.3f}].",
        table(
            ["way", "seconds", "over native"],
            [[way[key] for key in ("way", "seconds", "over_native")] for way in run["ways"]],
        ),
    )


def attacks(path: Path, runs: Any) -> list[str]:
    rows = []
    for r in runs:
        times = [cell(r[k], 3) for k in ("p50_ms_before", "p50_ms_during")]
        memory = [f"{r[k]:.0f}" for k in ("rss_mb_before", "rss_mb_peak")]
        rows.append([r["attack"], r["transport"], *times, *memory, r["survived"]])
    head = ["attack", "transport", "ms before", "ms during", "MB before", "peak MB", "survived"]
    return section(
        "Hostile peers (`make bench`)",
        f"{measured(path)} A well-behaved client of a Python server goes on asking while another"
        " client attacks it (`tests/attacks/attacks.py`). Medians of the good client's round"
        " trips, and memory of the server's process.",
        table(head, rows),
    )


def served_builds(path: Path, report: Any) -> list[str]:
    keys = ["transport", "modules", "decisions", "fallbacks", "decided_differently"]
    keys += ["objects_different", "seconds", "ratio"]
    head = [*(key.replace("_", " ") for key in keys[:-1]), "over in process"]
    return section(
        "A parallel build with one server (`python -m programs.own_builds --transports`)",
        f"{measured(path)} {report['program']}, `make -j{report['jobs']}`, all compilers asking one"
        " server.",
        table(head, [[row[key] for key in keys] for row in report["builds"]]),
    )


def out_of_process(interop: Path, combinations: Any, faults: Path, injected: Any) -> list[str]:
    passed = sum(one["result"] == "passed" for one in combinations)
    return section(
        "Interoperability and fault injection (`make test`, `make nightly`)",
        f"{measured(interop)} {passed} of {len(combinations)} combinations of transport, serdes,"
        " language on each side and direction passed.",
        [
            f"{measured(faults)} {injected['injected']} faults that took effect:"
            f" {injected['correct_advice']} times the right advice, {injected['clear_error']} times"
            f" a clear error, {injected['wrong_advice']} times wrong advice, {injected['hang']}"
            f" hangs, {injected['crash']} crashes.",
            "",
        ],
    )


def held(limits: list[dict[str, Any]]) -> list[str]:
    """How many limits hold, and which do not."""
    broken = [[r["what"], cell(r["value"], 3), str(r["limit"])] for r in limits if not r["holds"]]
    lines = [
        f"{len(limits) - len(broken)} of the {len(limits)} limits that the project states for these"
        " figures hold.",
        "",
    ]
    return lines + (table(["does not hold", "measured", "limit"], broken) if broken else [])


def in_process(path: Path, rows: Any, _: Path, also: Any) -> list[str]:
    head = ["model", "engine", "µs", "session µs", "ratio", "kernels µs", "ratio"]
    head += ["start ms", "MB", "KB"]
    lines = []
    for r in rows:
        line: list[Any] = [r["model"], r["engine"], cell(r["us"], 3)]
        for floor in (r["floor_ort_us"], r["floor_kernel_us"]):
            line += [cell(floor, 3), over(r["us"], floor)]
        memory = [cell(r["rss_mb"], 1), cell(r["binary_kb"], 0)]
        lines.append([*line, float(r["startup_ms"]), *memory])
        if "c_function_us" in r:
            alone = [r["model"], "aot, its C function", cell(r["c_function_us"], 3)]
            lines.append([*alone, *[None] * (len(head) - len(alone))])
    return section(
        "Evaluations in process (`make bench`)",
        f"{measured(path)} One thread, medians. *Session*: ONNX Runtime's C API alone, everything"
        " bound beforehand. *Kernels*: the matrix products alone, by OpenBLAS or loops for this"
        " processor, whichever is faster. *Start*: from opening to the first answer in a fresh"
        " process, and the memory that this added, weights included. *KB*: what engine and network"
        " add to a stripped plugin, including the weights if they are part of it. For onnx it is"
        f" the component without ONNX Runtime's library ({cell(also['onnxruntime_kb'], 0)} KB).",
        table(head, lines),
        held(also["limits"]),
    )


def node_tests(path: Path, found: Any) -> list[str]:
    return section(
        "The ONNX project's node tests (`make test`)",
        f"{measured(path)} `native:` runs {found['run']} of those of onnx {found['onnx']}:"
        f" {found['passed']} passed, {found['failed']} failed. It refuses {found['not_claimed']}"
        " when they are opened, because they use operators or types that it doesn't support."
        f" Operators: {', '.join(found['claimed_operators'])}.",
    )


def random_networks(*paths: Path) -> list[str]:
    keys = ["networks", "elements", "outside", "errors", "refused"]
    keys += ["differ_by_instruction_set", "differ_by_threads"]
    runs = [(path, load(path)) for path in paths]
    rows = [[measured(path).rstrip("."), *(run[k] for k in keys)] for path, run in runs if run]
    if not rows:
        return []
    head = ["run", "networks", "elements", "outside tolerance", "errors", "refused"]
    head += ["differ by instruction set", "differ by threads"]
    return section(
        "Random networks (`make test`, `make nightly`)",
        "`native:` against ONNX Runtime, and against itself on other instruction sets (bit for bit)"
        " and in several threads. `tests/random-networks/reference.py` states the tolerance."
        " *Aliases* are networks whose branches and loops output values that they only pass on"
        " (inputs, outer values, the iteration number). Some of PyTorch's layers are refused.",
        table(head, rows),
    )


def outside(path: Path, found: Any) -> list[str]:
    counted = ["programs", "changed", "refused", "wrong", "crashed", "larger"]
    rows = [[row[key] for key in ("suite", "optimization", *counted)] for row in found]
    return section(
        "Programs and tests of others (`make nightly`)",
        f"{measured(path)} Each program once for each way in which it was compiled, beside the"
        " stock compiler; those that it refuses itself are left out. CONTRIBUTING says what the"
        " columns mean.",
        table(["suite", "optimization", *counted], rows),
    )


def tests(path: Path, summary: Any) -> list[str]:
    keys = ["name", "passed", "failed", "skipped"]
    rows = [[*(s[k] for k in keys), f"{s['seconds']:.0f}"] for s in summary["suites"]]
    return section(
        "Tests (`make test`)",
        f"{measured(path)} {summary['passed']} passed, {summary['failed']} failed,"
        f" {summary['skipped']} skipped.",
        table(["suite", "passed", "failed", "skipped", "seconds"], rows),
    )


def bare_machine(path: Path, report: Any) -> list[str]:
    rows = []
    for one in report["commands"]:
        code = str(one["exit_code"]) if one["exit_code"] == 0 else f"**{one['exit_code']}**"
        rows.append([f"`{one['command']}`", code, f"{one['seconds']:.1f}"])
    changed = ", without the changes beside it" if report["uncommitted_changes"] else ""
    warm = [name for name, is_warm in report["caches_warm"].items() if is_warm]
    counts, tests = report["packages"], report["tests"]
    tested = (
        " Tests: {passed} passed, {failed} failed, {skipped} skipped.".format(**tests)
        if tests
        else ""
    )
    return section(
        "A bare machine (`tools/bare-machine`)",
        f"{measured(path)} Commit {report['commit'][:12]}{changed}, in a minimal Debian"
        f" ({report['release']}) with {counts['minimal']} packages at first and {counts['after']}"
        f" in the end. Warm caches: {', '.join(warm) or 'none'}.{tested}",
        table(["command", "exit code", "seconds"], rows),
    )


def part(make: Callable[..., list[str]], *files: str) -> list[str]:
    """A part of the page, given each file's path and content; nothing while one is missing."""
    pairs = [(BUILD / file, load(BUILD / file)) for file in files]
    return [] if any(found is None for _, found in pairs) else make(*chain(*pairs))


def counted(path: str, begin: str, end: str) -> int:
    """The lines between two marks of a file that aren't blank."""
    parts = re.findall(rf"{begin}.*\n((?:.*\n)*?).*{end}", (ROOT / path).read_text())
    return sum(bool(line.strip()) for part in parts for line in part.splitlines())


def integration_lines() -> list[str]:
    """The plugin's pass is quoted in the README, the other two are those of examples/inlining."""
    example = "examples/inlining/"
    in_pass = [counted("README.md", "```cpp test=quoted", "```")]
    in_pass += [counted(f"{example}inlining.{c}", r"\[pass\]", r"\[/pass\]") for c in ("cpp", "c")]
    cmake = f"{example}CMakeLists.txt"
    in_build = {
        "`grpc:` `unix:` `shm:` `pipe:`": 0,
        "`onnx:` `native:`": 0,
        "`aot:` as a shared object": 0,
        "`aot:` linked in": counted(cmake, r"\[aot\]", r"\[/aot\]"),
        "`tfaot:`": counted(cmake, r"\[tfaot\]", r"\[/tfaot\]"),
    }
    head = ["runner", "LLVM pass", "pass in C++", "pass in C", "build"]
    return table(head, [[name, *in_pass, build] for name, build in in_build.items()])


def footprint(_: Path, found: Any) -> list[str]:
    keys = ["what", "kb", "rss_mb", "build_seconds", "compile_seconds"]
    rows = []
    for row in [*found["opt_like"], *found["plugin"]]:
        what, kb, mb, *seconds = map(row.get, keys)
        rows.append([what, cell(kb, 0), mb and cell(mb, 1), *seconds])
    return table(["", "KB", "peak MB", "build, CPU s", "compile, CPU s"], rows)


def sites(_: Path, found: Any) -> list[str]:
    of = {(row["site"], row["runner"]): row for row in found["rows"]}
    names, runners = (list(dict.fromkeys(key[at] for key in of)) for at in (0, 1))
    rows = []
    for name in names:
        asked = [of[name, runner] for runner in runners]
        rows.append([name, *(f"{row['us']} ({row['bare_us']})" for row in asked)])
    return table(["", *(f"`{runner}:`" for runner in runners)], rows)


def replaced(text: str, name: str, lines: list[str]) -> str:
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
    start, stop = text.index(begin) + len(begin), text.index(end)
    return text[:start] + "\n" + "\n".join(lines) + "\n" + text[stop:]


def main() -> int:
    before = CHOOSING.read_text()
    after = replaced(before, "lines", integration_lines())
    if "--check" in sys.argv[1:]:
        if after != before:
            print(f"{CHOOSING.relative_to(ROOT)} is not what tools/results.py makes")
        return int(after != before)
    if added := part(footprint, "bench/footprint.json"):
        after = replaced(after, "footprint", added)
    if added := part(sites, "bench/sites.json"):
        after = replaced(after, "sites", added)
    CHOOSING.write_text(after)
    campaign = "nightly" if (BUILD / "nightly/faults.json").is_file() else "test"
    parts = [
        part(demo, "demo/report.json"),
        part(compared, "candidates/test-A.json"),
        part(compared, "candidates/demo.json"),
        part(compared, "candidates/demo-run.json"),
        part(round_trip, "bench/round-trip.json"),
        part(batching, "bench/batching.json"),
        part(gym, "bench/gym.json"),
        part(deployment, "bench/deployment.json"),
        part(attacks, "bench/attacks.json"),
        part(episodes, "bench/episodes.json"),
        part(served_builds, "programs/own-builds/served.json"),
        part(cost, "bench/phase-ordering.json"),
        part(in_process, "bench/in-process.json", "bench/in-process-limits.json"),
        part(out_of_process, "test/interop.json", f"{campaign}/faults.json"),
        part(node_tests, "test/onnx-node-tests.json"),
        random_networks(
            *(BUILD / f"{run}/random-networks.json" for run in ("test", "nightly")),
            BUILD / "nightly/random-aliases.json",
            BUILD / "nightly/torch-exports.json",
        ),
        part(outside, "nightly/outside.json"),
        part(tests, "test/summary.json"),
        part(bare_machine, "bare-machine/report.json"),
    ]
    if not any(parts):
        print("nothing has been measured: run `make demo`, `make bench` or `make test` first")
        return 1
    lines = ["# Results", "", "Made by `make results`; do not edit. On this machine:", ""]
    lines += [f"- {line}" for line in machine()]
    lines.append("")
    lines += chain(*parts)
    PAGE.write_text("\n".join(lines).rstrip() + "\n")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
