# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge run` with unmodified compilers: right programs and an end, whatever a policy does."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest
from advising import BOTH, HANGS, PROGRAM, Place, evicting_network, inlining_network
from sampling import LLVM_19

from mlbridge.files import shipped_model
from mlbridge.llvm_channel.log import TrainingLog

SITES = ("inliner", "regalloc-eviction", "regalloc-priority")
ALL = (
    "--advise=inliner=policy.py:inline",
    "--advise=regalloc-eviction=policy.py:evict",
    "--advise=regalloc-priority=policy.py:priority",
)


def decisions(folder: Path, site: str, name: str) -> list[list[float]]:
    """The decisions of each compiler of a `--log` folder, in the order in which they ran."""
    paths = sorted(folder.glob(f"{site}-*.log"), key=lambda path: path.stat().st_mtime_ns)
    return [
        [float(o[name].flat[0]) for c in TrainingLog(path).contexts() for o in c.observations]
        for path in paths
    ]


@BOTH
def test_all_advisors_at_once_and_the_program_is_right(version: int, place: Place) -> None:
    ran = place.run(*ALL, "--", f"clang-{version}", "-O2", str(PROGRAM), "-o", "program")
    assert (ran.code, ran.said) == (0, "")
    assert place.must("./program") == place.expected()
    for site in SITES:
        assert ran.sites[site]["compilers"] == 1
        assert ran.sites[site]["decisions"] > 5
        assert ran.sites[site]["defaults"] == 0
    assert not place.left


@BOTH
@pytest.mark.parametrize("site", ["inliner", "regalloc-eviction"])
def test_a_function_and_a_network_decide_alike(site: str, version: int, place: Place) -> None:
    inlines = site == "inliner"
    (inlining_network if inlines else evicting_network)(place.folder / "policy.onnx")
    name = "inlining_decision" if inlines else "index_to_evict"
    function = "inline" if inlines else "evict"
    found = []
    for policy in (f"policy.py:{function}", "policy.onnx", "native:policy.onnx"):
        log = "log-" + policy.replace(":", "-")
        advised = f"--advise={site}={policy}"
        compiler = [f"clang-{version}", "-O2", "-c", str(PROGRAM), "-o", "program.o"]
        ran = place.run(advised, "--log", log, "--", *compiler)
        assert (ran.code, ran.said) == (0, "")
        (made,) = decisions(place.folder / log, site, name)
        assert len(made) == ran.sites[site]["decisions"] > 5
        found.append((made, (place.folder / "program.o").read_bytes()))
    assert found[0] == found[1] == found[2]
    place.must(f"clang-{version}", "-O2", "-c", PROGRAM, "-o", "stock.o")
    assert (place.folder / "stock.o").read_bytes() != found[0][1], "it decided nothing"


@BOTH
def test_opt_and_llc(version: int, place: Place) -> None:
    module = place.module(version)
    opt = [f"opt-{version}", "-passes=default<Oz>", module, "-o", "small.bc"]
    ran = place.run("--advise=inliner=policy.py:inline", "--", *opt)
    assert (ran.code, ran.said) == (0, "") and ran.sites["inliner"]["decisions"] > 5
    llc = [f"llc-{version}", "-filetype=obj", "-relocation-model=pic", "small.bc", "-o", "small.o"]
    ran = place.run(*ALL[1:], "--log=log", "--", *llc)
    assert (ran.code, ran.said) == (0, "")
    numbers = ran.sites["regalloc-eviction"]
    assert numbers["decisions"] > 5
    (log,) = (place.folder / "log").glob("regalloc-eviction-*")
    contexts = list(TrainingLog(log).contexts())
    assert numbers["contexts"] == len(contexts) > 0
    assert numbers["decisions"] == sum(map(len, contexts))
    place.must(f"clang-{version}", "small.o", "-o", "program")
    assert place.must("./program") == place.expected()


# What the stock compiler would hang or crash at, or would silently take.
TRAPS = [
    ("inliner", "raises", "no idea"),
    ("inliner", "text", "inlining_decision"),
    ("inliner", "two", "inlining_decision"),
    ("inliner", "big", "the policy answered 33: expected 0 or 1"),
    ("inliner", "endless", "no answer in 0.1 s"),
    ("inliner", "silent", "no answer in 0.1 s"),
    ("regalloc-eviction", "big", "answered 33: expected an index from 0 to 32"),
    ("regalloc-eviction", "negative", "answered -1: expected an index"),
    ("regalloc-eviction", "masked", "its mask is 0, so it can't be evicted"),
    ("regalloc-eviction", "raises", "no idea"),
    ("regalloc-priority", "nan", "it is not finite"),
    ("regalloc-priority", "negative", "answered -1.0: expected a number from 0"),
]


@pytest.mark.parametrize(
    ("site", "policy", "says", "version"),
    [
        *((*trap, 22) for trap in TRAPS),
        # The host does not know the version; the compilers differ where the answer is used.
        *(
            pytest.param(*trap, *LLVM_19.values, marks=LLVM_19.marks)
            for trap in TRAPS
            if trap[1] == "masked"
        ),
    ],
)
def test_a_policy_that_fails(site: str, policy: str, says: str, version: int, place: Place) -> None:
    advised = [f"--advise={site}=policy.py:{policy}", "--deadline=100ms"]
    compiler = [f"clang-{version}", "-O2", str(PROGRAM), "-o", "program"]
    ran = place.run(*advised, "--", *compiler)
    assert ran.code == 0
    numbers = ran.sites[site]
    assert numbers["defaults"] >= numbers["failures"] > 0
    assert says in numbers["first-failure"]
    assert says in ran.said.splitlines()[-1]
    assert ran.said.count("Traceback") <= 1
    assert place.must("./program") == place.expected()
    (place.folder / "program").unlink()
    ran = place.run(*advised, "--on-failure=fail", "--", *compiler)
    assert ran.code == 1 and says in ran.said
    assert not (place.folder / "program").exists()
    assert not place.left


@pytest.mark.parametrize(
    ("policy", "code", "says"),
    [("ends", 1, "with exit code 0"), ("killed", 128 + 9, "by signal 9")],
)
def test_a_policy_that_ends_the_process(policy: str, code: int, says: str, place: Place) -> None:
    (place.folder / "other.c").write_text("int other(int x) { return x; }\n")
    words = ["clang-22", "-O2", "-c", str(PROGRAM), "other.c"]  # each in a process of its own
    ran = place.run(f"--advise=inliner=policy.py:{policy}", "--", *words)
    assert ran.code == code
    named = f"the host of inliner=policy.py:{policy}"
    assert ran.said == f"mlbridge run: {named} was ended {says}; the compiler is, too\n"
    assert ran.sites == {}
    assert not list(place.folder.glob("program*")) and not list(place.folder.glob("*.tmp*"))


ASKS = """#!/usr/bin/env python3
import json, os, signal, sys
from pathlib import Path

BASE = next(word.partition("=")[2] for word in sys.argv if "channel-base=" in word)
met = Path("met").open("w", buffering=1)

def on_signal(number, frame):
    met.write("signal\\n")
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    if signal.sigtimedwait([number], 0.5):
        met.write("signal\\n")
    os._exit(1)

signal.signal(signal.SIGTERM, on_signal)
asked = {"name": "a", "port": 0, "shape": [1], "type": "int64_t"}
advice = {**asked, "name": "inlining_decision"}
header = json.dumps({"features": [asked], "advice": advice}).replace(", ", ",").replace(": ", ":")
out = os.open(BASE + ".out", os.O_WRONLY)
answers = os.open(BASE + ".in", os.O_RDONLY)
os.write(out, (header + '\\n{"context":"f"}\\n{"observation":0}\\n').encode() + bytes(8) + b"\\n")
os.read(answers, 8)
met.write("end of channel\\n")
signal.pause()
"""


@pytest.mark.parametrize("policy", ["ends", "killed"])
def test_a_compiler_that_is_left_gets_one_signal_and_no_end(policy: str, place: Place) -> None:
    """At a second signal, and at the end of its channel, clang leaves its temporary files."""
    fake = place.folder / "clang"
    fake.write_text(ASKS)
    fake.chmod(0o755)
    ran = place.run(f"--advise=inliner=policy.py:{policy}", "--", "./clang")
    assert "was ended" in ran.said
    assert (place.folder / "met").read_text() == "signal\n"


def test_a_model_in_the_compiler_and_one_over_the_channel(place: Place) -> None:
    words = ["clang-22", "-O2", "-mllvm", "-inliner-model=native:a.onnx", "-c", str(PROGRAM)]
    ran = place.run(ALL[0], "--", *words)
    assert ran.code == 2 and "mlbridge flags inliner" in ran.said


def test_what_is_known_in_process_only(place: Place) -> None:
    shipped = shipped_model("regalloc-eviction")
    advised = f"--advise=regalloc-eviction={shipped}"
    ran = place.run(advised, "--", "clang-22", "-O2", "-c", str(PROGRAM), "-o", "program.o")
    assert ran.code == 0 and "mlbridge flags regalloc-eviction" in ran.said
    assert "missing" not in ran.said


@BOTH
def test_the_default_of_the_inliner(version: int, place: Place) -> None:
    options = [f"clang-{version}", "-O2", "-c", str(PROGRAM), "-o", "program.o"]
    ran = place.run("--advise=inliner=policy.py:raises", "--log=log", "--", *options)
    numbers = ran.sites["inliner"]
    assert numbers["defaults"] == numbers["decisions"] > 0
    made = decisions(place.folder / "log", "inliner", "inlining_decision")
    if version < 22:  # it does not send its own decision without damage to a feature
        assert set(made[0]) == {0.0}
    else:
        assert made == decisions(place.folder / "log", "inliner", "inlining_default")
        assert set(made[0]) == {0.0, 1.0}


@BOTH
def test_every_feature_of_the_inliner_is_itself(version: int, place: Place) -> None:
    compiler = [f"clang-{version}", "-O2", "-c", str(PROGRAM), "-o", "program.o"]
    ran = place.run(ALL[0], "--log=log", "--", *compiler)
    assert ran.code == 0
    (log,) = (place.folder / "log").iterdir()
    (context,) = TrainingLog(log).contexts()
    assert context.stacked("callee_basic_block_count").max() > 1


@BOTH
def test_features_that_the_compiler_does_not_send(version: int, place: Place) -> None:
    inlining_network(place.folder / "policy.onnx", "callee_users", "no_such")
    compiler = [f"clang-{version}", "-O2", str(PROGRAM), "-o", "program"]
    advised = "--advise=inliner=policy.onnx"
    ran = place.run(advised, "--", *compiler)
    assert ran.code == 0
    assert ran.sites["inliner"]["defaults"] == ran.sites["inliner"]["decisions"] > 0
    assert "'no_such'" in ran.said
    assert "'callee_users'" not in ran.said
    assert place.must("./program") == place.expected()
    assert place.run(advised, "--on-failure=fail", "--", *compiler).code == 1
    ran = place.run(advised, "--missing=zero", "--on-failure=fail", "--", *compiler)
    assert (ran.code, ran.said, ran.sites["inliner"]["defaults"]) == (0, "", 0)
    assert place.must("./program") == place.expected()


def test_a_driver_that_compiles_two_files_then_assembles_and_links(place: Place) -> None:
    (place.folder / "other.c").write_text("int other(int x) { return x; }\n")
    (place.folder / "more.S").write_text(
        "  .globl more\nmore:\n  ret\n  .section .note.GNU-stack\n"
    )
    words = ["clang-22", "-Werror", "-O2", str(PROGRAM), "other.c", "more.S", "-o", "program"]
    ran = place.run(ALL[0], "--log=log", "--", *words)
    assert (ran.code, ran.said) == (0, "")
    assert ran.sites["inliner"]["compilers"] == 2
    assert len(list((place.folder / "log").iterdir())) == 1  # other.c asks nothing
    assert place.must("./program") == place.expected()


def test_a_parallel_build(place: Place) -> None:
    (place.folder / "Makefile").write_text(
        "all: $(foreach n,1 2 3 4 5,out/$(n).o)\n"
        f"out/%.o: {PROGRAM}\n\t$(CC) -O2 -DN=$* -c $< -o $@\n"
    )
    (place.folder / "out").mkdir()
    policy = place.folder / "policy.py"
    run = " ".join(place.command(f"--advise=inliner={policy}:inline", "--log=log"))
    place.must("make", "-j3", f"CC={run} -- clang-22")
    made = decisions(place.folder / "log", "inliner", "inlining_decision")
    assert len(made) == 5
    assert len(made[0]) > 5 and all(found == made[0] for found in made)
    objects = {path.read_bytes() for path in (place.folder / "out").iterdir()}
    assert len(objects) == 1
    assert not place.left


def test_the_compiler_s_own_failures_are_passed_on(place: Place) -> None:
    (place.folder / "wrong.c").write_text("int wrong(\n")
    plain = place.call("clang-22", "-c", "wrong.c")
    ran = place.run(ALL[0], "--", "clang-22", "-c", "wrong.c")
    assert (ran.code, ran.said) == (plain.returncode, plain.stderr)
    fake = place.folder / "clang"
    fake.write_text("#!/bin/sh\nkill -9 $$\n")
    fake.chmod(0o755)
    assert place.run(ALL[0], "--", "./clang").code == 128 + 9


def test_options_pass_through_unchanged(place: Place) -> None:
    for name in ("clang++", "opt", "llc"):
        (place.folder / name).write_text('#!/bin/sh\nfor word; do echo "<$word>"; done\n')
        (place.folder / name).chmod(0o755)
    odd = ["-DX=a b", "--", "--advise", "", "*"]
    shown = [f"<{word}>" for word in odd]

    def words(*command: str, site: str = "regalloc-eviction=policy.py:evict") -> list[str]:
        return place.must(*place.command("--advise", site, "--", *command, *odd)).splitlines()

    driver = words("./clang++")
    assert driver[-len(odd) :] == shown
    added = driver[: -len(odd)]
    assert (added[0], added[-1]) == ("<--start-no-unused-arguments>", "<--end-no-unused-arguments>")
    assert added[1:5] == [
        "<-Xclang>",
        "<-mllvm>",
        "<-Xclang>",
        "<-regalloc-enable-advisor=release>",
    ]
    assert words("./clang++", "-cc1as") == ["<-cc1as>", *shown]
    front_end = words("./clang++", "-cc1")
    assert front_end[: len(odd) + 1] == ["<-cc1>", *shown]
    assert front_end[len(odd) + 1 :: 2] == ["<-mllvm>", "<-mllvm>"]
    assert words("./llc")[2:] == shown
    assert words("./opt", site="inliner=policy.py:inline")[2:] == shown


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--advise=inliner=policy.py:inline", "--", "make"], 2, 'make CC="mlbridge run'),
        (["--advise=inliner=policy.py:inline", "--", "llc-22"], 2, "llc does not decide that"),
        (["--advise=regalloc-priority=policy.py:priority", "--", "opt-22"], 2, "does not decide"),
        (["--advise=inliner=policy.py:inline"], 2, "after --"),
        (["--advise=unroll=policy.py:inline", "--", "clang-22"], 2, "one of inliner, regalloc"),
        (["--", "clang-22"], 2, "state each optimization once"),
        (["--advise=inliner=none.onnx", "--", "clang-22"], 1, "none.onnx is not there"),
        (["--advise=inliner=policy.py:inline", "--", "no-such-clang"], 1, "no command no-such"),
    ],
)
def test_what_cannot_be_run(words: list[str], code: int, says: str, place: Place) -> None:
    ran = place.run(*words)
    assert ran.code == code and says in ran.said and ran.said.count("\n") == 1
    assert not place.left


class Waiting:
    """A run whose compiler waits for an answer that its policy doesn't give."""

    def __init__(self, place: Place, *files: str) -> None:
        asked = place.folder / "asked"
        os.mkfifo(asked)
        # Inherited by the compiler and all that it starts: it ends when they have.
        self.alive, inherited = os.pipe()
        words = ["--advise=inliner=policy.py:silent", "--deadline=60s"]
        self.process = subprocess.Popen(
            place.command(*words, "--", "clang-22", "-O2", "-c", *files),
            cwd=place.folder,
            env={**place.env, "ASKED": str(asked)},
            pass_fds=[inherited],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(inherited)
        descriptor = os.open(asked, os.O_RDONLY | os.O_NONBLOCK)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        assert poll.poll(HANGS * 1000), "the policy was not asked"
        os.close(descriptor)

    def must_be_gone(self) -> None:
        assert select.select([self.alive], [], [], HANGS)[0], "the compiler is still there"
        os.close(self.alive)


@pytest.mark.parametrize("files", [1, 2], ids=["in the driver", "in processes of their own"])
def test_a_host_that_is_killed_takes_the_compiler_along(files: int, place: Place) -> None:
    (place.folder / "other.c").write_text("int other(int x) { return x; }\n")
    run = Waiting(place, *[str(PROGRAM), "other.c"][:files])
    run.process.kill()
    run.process.wait(HANGS)
    run.must_be_gone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_forwarded(number: signal.Signals, place: Place) -> None:
    run = Waiting(place, str(PROGRAM))
    run.process.send_signal(number)
    assert run.process.wait(HANGS) == 128 + number
    run.must_be_gone()
    assert not place.left
    assert not list(place.folder.glob("*.o"))
