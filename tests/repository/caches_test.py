# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What compilers and linters found out is there for another clone, and never in the way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import changed
import pytest
import tidy

ROOT = Path(__file__).resolve().parents[2]


def clone(folder: Path) -> Path:
    """A tree with the tools and one source file, which says where it lies."""
    (folder / "tools").mkdir(parents=True)
    (folder / "build").mkdir()
    shutil.copy(ROOT / "tools/common.py", folder / "tools")
    (folder / "include").mkdir()
    (folder / "include/a.h").write_text("inline const char *here() { return __FILE__; }\n")
    (folder / "a.cpp").write_text('#include "a.h"\nconst char *file() { return here(); }\n')
    return folder


def settings(tree: Path, cache: Path | str) -> dict[str, str]:
    """What the tools set for programs that they start in this tree."""
    code = "import json, common; print(json.dumps(common.environment()))"
    command = [sys.executable, "-c", code]
    env = {k: v for k, v in os.environ.items() if not k.startswith("CCACHE_")}
    env |= {"XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        command, cwd=tree / "tools", env=env, capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def compiled(tree: Path, env: dict[str, str]) -> bytes:
    """The object, compiled as CMake has it compiled."""
    command = ["ccache", "c++", "-g", f"-I{tree}/include", f"-ffile-prefix-map={tree}=."]
    command += ["-c", f"{tree}/a.cpp", "-o", "a.o"]
    subprocess.run(command, cwd=tree / "build", env=env, check=True, timeout=60)
    return (tree / "build/a.o").read_bytes()


def hits(env: dict[str, str]) -> int:
    done = subprocess.run(
        ["ccache", "--print-stats"], env=env, capture_output=True, text=True, check=True
    )
    counts = dict(line.split("\t") for line in done.stdout.splitlines())
    return int(counts["direct_cache_hit"])


def test_a_second_clone_in_another_folder_compiles_nothing_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first, second = clone(tmp_path / "first"), clone(tmp_path / "elsewhere/deeper/second")
    one = compiled(first, settings(first, cache))
    assert hits(settings(first, cache)) == 0
    two = compiled(second, settings(second, cache))
    assert hits(settings(second, cache)) == 1
    assert one == two and str(tmp_path).encode() not in one
    (second / "include/a.h").write_text("inline const char *here() { return nullptr; }\n")
    assert compiled(second, settings(second, cache)) != two  # keyed by content
    assert hits(settings(second, cache)) == 1


def test_a_damaged_cache_is_no_error(tmp_path: Path) -> None:
    tree, cache = clone(tmp_path / "tree"), tmp_path / "cache"
    env = settings(tree, cache)
    good = compiled(tree, env)
    files = [path for path in (cache / "mlbridge/ccache").rglob("*") if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(b"\xff no such setting\n")
    (cache / "mlbridge/ccache/ccache.conf").write_text("no setting at all\n")
    assert compiled(tree, env) == good


@pytest.mark.parametrize("place", ["file", "below-a-file", "relative"])
def test_where_no_cache_can_be_written_it_lies_in_the_tree(tmp_path: Path, place: str) -> None:
    tree = clone(tmp_path / "tree")
    (tmp_path / "file").write_text("")
    where = {"file": tmp_path / "file", "below-a-file": tmp_path / "file/x", "relative": Path("x")}
    env = settings(tree, where[place])
    if place == "relative":  # which the specification of these folders has ignored
        assert Path(env["CCACHE_DIR"]) == Path.home() / ".cache/mlbridge/ccache"
    else:
        assert Path(env["CCACHE_DIR"]) == tree / "build/cache/ccache"
        assert compiled(tree, env)


def test_a_cache_that_the_user_has_chosen_stays(tmp_path: Path) -> None:
    code = "import common; print(common.environment()['CCACHE_DIR'])"
    env = os.environ | {"CCACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "tools",
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path)


def git(tree: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *who, *words], cwd=tree, check=True, capture_output=True, timeout=60)


def commit(tree: Path, name: str, days: int) -> None:
    (tree / name).write_text(name)
    git(tree, "add", ".")
    day = f"2020-01-{days:02} 12:00 +0000"
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    env = os.environ | {"GIT_COMMITTER_DATE": day, "GIT_AUTHOR_DATE": day}
    command = ["git", *who, "commit", "-q", "-m", name]
    subprocess.run(command, cwd=tree, env=env, check=True, timeout=60)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of a main with commits of the first, the third and twice the fourth day."""
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    git(main, "init", "-q")
    for name, day in (("a.cpp", 1), ("b.cpp", 3), ("c.cpp", 4), ("d.cpp", 4)):
        commit(main, name, day)
    git(tmp_path, "clone", "-q", str(main), str(tree))
    monkeypatch.setattr(changed, "ROOT", tree)
    return tree


def names(tree: Path) -> set[str]:
    since = changed.base()
    assert since
    found = changed.changed(since)
    assert found is not None
    return {str(path.relative_to(tree)) for path in found}


def test_clang_tidy_sees_what_differs_from_main(repository: Path) -> None:
    commit(repository, "e.cpp", 9)
    (repository / "a.cpp").write_text("changed")
    (repository / "new.cpp").write_text("")
    assert names(repository) == {"a.cpp", "e.cpp", "new.cpp"}


def test_clang_tidy_sees_the_last_commit_of_main_itself(repository: Path) -> None:
    assert names(repository) == {"d.cpp"}
    (repository / "a.cpp").write_text("changed")
    assert names(repository) == {"a.cpp", "d.cpp"}


def test_clang_tidy_sees_the_last_day_where_there_is_no_origin(repository: Path) -> None:
    git(repository, "remote", "remove", "origin")
    assert names(repository) == {"c.cpp", "d.cpp"}


def test_clang_tidy_sees_everything_without_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert changed.base() is None


def test_a_result_of_clang_tidy_is_of_the_text_and_not_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for folder, text in (("one", "x"), ("two", "x"), ("three", "y")):
        tree = tmp_path / folder
        tree.mkdir()
        (tree / ".clang-tidy").write_text("")
        (tree / "a.cpp").write_text(text)
        monkeypatch.setattr(tidy, "ROOT", tree)
        command = {"command": f"c++ -I{tree} -c {tree}/a.cpp"}
        found.append(tidy.key(command, {tree / "a.cpp"}, b"1"))
    assert found[0] == found[1] != found[2]


def test_a_result_that_cannot_be_kept_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(tidy, "CLEAN", tmp_path / "file")
    tidy.keep("key")
    tidy.forget_old()
    assert not tidy.was_clean("key")
