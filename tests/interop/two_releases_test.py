# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The nightly campaign itself: which release it takes, and that it tells right from wrong."""

from __future__ import annotations

from pathlib import Path

from building import ROOT
from two_releases import Release, git, outcome, release_before

PRESENT = Release("present", ROOT)


def test_the_release_before_is_the_newest_tag_of_an_earlier_commit(tmp_path: Path) -> None:
    def commit(*tags: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@y")
        git(*who, "commit", "-q", "--allow-empty", "-m", "x", tree=tmp_path)
        for tag in tags:
            git("tag", tag, tree=tmp_path)

    git("init", "-q", tree=tmp_path)
    commit()
    commit("other")
    assert release_before(tmp_path) == ""
    commit("v0.2.0")
    assert release_before(tmp_path) == "", "it is the present one"
    commit()
    assert release_before(tmp_path) == "v0.2.0"
    commit("v0.3.0", "very")
    assert release_before(tmp_path) == "v0.2.0"


def test_peers_that_understand_each_other(tmp_path: Path) -> None:
    uri = f"unix:{tmp_path}/s"
    assert outcome(PRESENT, PRESENT, uri, "json", ("serve", "ask")) == "passed"


def test_a_peer_that_fails_is_said(tmp_path: Path) -> None:
    broken = Release("broken", tmp_path)
    peer = tmp_path / "tests" / "interop" / "peer.py"
    peer.parent.mkdir(parents=True)
    peer.write_text("raise SystemExit('no such version')\n")
    uri = f"unix:{tmp_path}/s"
    for releases in ((PRESENT, broken), (broken, PRESENT)):
        assert "no such version" in outcome(*releases, uri, "json", ("serve", "ask"))
