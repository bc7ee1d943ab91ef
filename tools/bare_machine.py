# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs `make demo` and `make test`, or COMMAND, on the commit in a minimal Debian of its own.

    tools/bare-machine [--cache DIR] [--release bookworm|trixie] [COMMAND ...]

The root is made by debootstrap or mmdebstrap, with make and git added, from this machine's apt
sources; pip's configuration, certificates and proxies are this machine's too. Nothing of them is
written into the tree. DIR keeps the caches of apt, pip, ccache and linters for the next time. Each
command has mounts and processes of its own, which the kernel ends with it, so that whatever happens
nothing stays mounted; the root is deleted. Results: build/bare-machine/report.json, logs beside it.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from common import BUILD, ROOT
from result_tables import section

HOME = BUILD / "bare-machine"
RELEASES = ("bookworm", "trixie")
COMMANDS = ("make demo", "make test")
USER = "/root"  # who is at home there
TREE = "/src/mlbridge"  # in the root
MOUNTS = Path("/proc/self/mounts")
CACHE = "/var/cache/bare-machine"
CACHES = {"user": "XDG_CACHE_HOME"}  # of pip, compilers and linters
BUNDLE = "/tmp/mlbridge.bundle"
BUNDLED = "/etc/ssl/certs/ca-certificates.crt"
# Variables that a command is given: settings of pip, proxies, certificates.
PASSED = re.compile(
    r"PIP_(?!CACHE_DIR$)\w+|(https?|no|ftp)_proxy|JOBS|SSL_CERT_FILE|(REQUESTS|CURL)_CA_BUNDLE",
    re.IGNORECASE,
)

# What a command sees. Arguments: the root, "source target ro|rw" for each folder of this machine,
# "--", the command.
INSIDE = """set -e
root=$1; shift
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
while [ "$1" != -- ]; do
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
  shift 3
done
shift
chroot "$root" "$@" || exit $?
exit 0
"""


class BareMachineError(Exception):
    """The root could not be made or used; the message says why."""


# ------------------------------------------------------------------- what is taken from the machine


def sources(texts: dict[str, str], machine: str, release: str) -> list[str]:
    """Debian's own entries of the machine's apt sources (file: text), as lines for `release`."""
    suite = re.compile(rf"{machine}(-updates|-security|/updates)?")
    lines: dict[str, None] = {}

    def add(options: str, uri: str, suites: list[str], components: str) -> None:
        for name in suites:
            if suite.fullmatch(name):
                lines[f"deb {options}{uri} {release}{name[len(machine) :]} {components}"] = None

    for name, text in texts.items():
        if not name.endswith(".sources"):
            for line in text.splitlines():
                match = re.match(r"\s*deb\s+(\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+(.*)", line)
                if match:
                    add(match[1] or "", match[2], [match[3]], match[4])
            continue
        for stanza in re.split(r"\n\s*\n", text):
            found = re.findall(r"^([\w-]+)\s*:\s*(.*(?:\n[ \t].*)*)", stanza, re.MULTILINE)
            field = {key.lower(): value for key, value in found}
            if "deb" not in field.get("types", "").split() or field.get("enabled") == "no":
                continue
            key = field.get("signed-by", "")
            options = f"[signed-by={key}] " if key.startswith("/") else ""
            for uri in field.get("uris", "").split():
                add(options, uri, field["suites"].split(), field.get("components", ""))
    return list(lines)


def machine_sources(release: str) -> list[str]:
    apt = Path("/etc/apt")
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.*"))]
    texts = {
        str(p): p.read_text() for p in files if p.suffix in (".list", ".sources") and p.is_file()
    }
    lines = sources(texts, platform.freedesktop_os_release()["VERSION_CODENAME"], release)
    if not lines:
        raise BareMachineError("no apt source of this machine is of Debian's own suites")
    return lines


def apt_settings() -> str:
    """How this machine's apt reaches its archives: proxies, certificates, retries, clocks."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    wanted = re.compile(r"Acquire::(https?::|Check-|Force|Retries)")
    return "".join(f"{line}\n" for line in dump.splitlines() if wanted.match(line))


def pip_files() -> dict[Path, str]:
    """pip's configuration: file of this machine, and where it lies in the root."""
    home = Path.home()
    named = os.environ.get("PIP_CONFIG_FILE", "")
    places = {
        Path("/etc/xdg/pip/pip.conf"): "/etc/xdg/pip/pip.conf",
        Path("/etc/pip.conf"): "/etc/pip.conf",
        home / ".pip/pip.conf": f"{USER}/.pip/pip.conf",
        home / ".config/pip/pip.conf": f"{USER}/.config/pip/pip.conf",
        Path(named): named,
    }
    return {source: place for source, place in places.items() if place and source.is_file()}


def local_paths(text: str) -> list[Path]:
    """Folders and files that a configuration names, as paths or file: URLs."""
    found: dict[Path, None] = {}
    for line in text.splitlines():
        if line.lstrip().startswith(("#", ";")):
            continue
        for word in re.split(r"[\s=]+", line):
            path = Path(unquote(urlparse(word).path) if word.startswith("file:") else word)
            if path.is_absolute() and path.exists():
                # The pages of an index lead to files beside it.
                index = path.name == "simple" and len(path.parts) > 2
                found[path.parent if index else path] = None
    return list(found)


def copy(source: Path, root: Path, place: str | None = None) -> None:
    target = root / (place or str(source)).lstrip("/")
    if source.is_file() and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def configure(root: Path, release: str) -> list[Path]:
    """Writes the machine's configuration into the root; the folders that it needs besides."""
    (root / "etc/apt/sources.list").write_text("\n".join(machine_sources(release)) + "\n")
    (root / "etc/apt/apt.conf.d/99machine").write_text(apt_settings())
    for name in ("/etc/resolv.conf", "/etc/hosts"):
        (root / name.lstrip("/")).unlink(missing_ok=True)
        copy(Path(name), root)
    settings = [value for name, value in os.environ.items() if PASSED.fullmatch(name)]
    for source, place in pip_files().items():
        copy(source, root, place)
        settings.append(source.read_text())
    folders = []
    for path in local_paths("\n".join(settings)):
        if path.is_dir():
            folders.append(path)
        else:
            copy(path, root)
    # Debian's certificates are made anew in the root when their package comes; these are kept then.
    copy(Path(BUNDLED), root)
    copy(Path(BUNDLED), root, "/usr/local/share/ca-certificates/machine.crt")
    return folders


# --------------------------------------------------------------------------------------- the root


class Root:
    """A minimal Debian, the folders of this machine that it sees, and what its commands printed."""

    def __init__(self, folder: Path, release: str, cache: Path | None) -> None:
        self.folder = folder
        self.release = release
        self.binds: list[str] = []
        self.env = {"HOME": USER, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        self.env.update((k, v) for k, v in os.environ.items() if PASSED.fullmatch(k))
        self.debs = cache / "apt" / release if cache else None
        if cache and self.debs:
            (self.debs / "partial").mkdir(parents=True, exist_ok=True)
            self.binds += [str(self.debs), "/var/cache/apt/archives", "rw"]
            for name, variable in CACHES.items():
                (cache / name).mkdir(exist_ok=True)
                self.binds += [str(cache / name), f"{CACHE}/{name}", "rw"]
                self.env[variable] = f"{CACHE}/{name}"

    def apart(self, log: Path, *command: str | Path) -> int:
        """Runs a program with mounts and processes of its own, ended with it or with this one."""
        apart = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork"]
        process = subprocess.Popen(
            [*apart, "--kill-child", "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for this program, which ends that one
        )
        assert process.stdout
        try:
            with log.open("wb") as kept:
                while chunk := os.read(process.stdout.fileno(), 1 << 16):
                    kept.write(chunk)
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.buffer.flush()
        finally:
            process.kill()
            process.wait()
        return process.returncode

    def run(self, log: Path, command: str) -> int:
        """Runs a shell command in the root, from the clone if it is there."""
        env = [f"{name}={value}" for name, value in self.env.items()]
        script = f"cd {TREE} 2>/dev/null || cd /; {command}"
        inside = ["env", "-i", *env, "sh", "-c", script]
        return self.apart(log, "sh", "-c", INSIDE, "sh", self.folder, *self.binds, "--", *inside)

    def make(self) -> str:
        """Makes the root; the tool that did."""
        tool = next((t for t in ("debootstrap", "mmdebstrap") if shutil.which(t)), None)
        if tool is None:
            raise BareMachineError("needs debootstrap or mmdebstrap; apt-get install one")
        main = [line for line in machine_sources(self.release) if f" {self.release} " in line]
        uri = re.sub(r"^deb (\[[^]]*\] )?", "", main[0]).split()[0] if main else ""
        if not uri:
            raise BareMachineError(f"no apt source of this machine has the suite of {self.release}")
        options = ["--variant=minbase", "--include=make,git"]
        settings = self.folder.with_suffix(".apt")
        settings.write_text(apt_settings())
        if tool == "mmdebstrap":
            options.append(f"--aptopt={settings}")
        elif self.debs:
            options.append(f"--cache-dir={self.debs}")
        log = HOME / "root.log"
        if self.apart(log, tool, *options, self.release, self.folder, uri) != 0:
            raise BareMachineError(f"{tool} failed; its log is {log}")
        for folder in configure(self.folder, self.release):
            self.binds += [str(folder), str(folder), "ro"]
        return tool

    def clone(self) -> tuple[str, bool]:
        """Clones the tree's commit; the commit, and whether the tree has changes besides."""
        git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT)]

        def ask(*words: str) -> str:
            done = subprocess.run([*git, *words], capture_output=True, text=True, check=False)
            if done.returncode:
                raise BareMachineError(f"git {words[0]} failed: {done.stderr.strip()}")
            return done.stdout.strip()

        ask("bundle", "create", str(self.folder) + BUNDLE, "HEAD")
        clone = f"git clone --quiet {BUNDLE} {TREE} && rm {BUNDLE}"
        if self.run(HOME / "clone.log", clone) != 0:
            raise BareMachineError(f"cloning failed; its log is {HOME / 'clone.log'}")
        return ask("rev-parse", "HEAD"), bool(ask("status", "--porcelain"))

    def packages(self) -> int:
        query = ["chroot", str(self.folder), "dpkg-query", "-W", "-f=${db:Status-Status}\n"]
        done = subprocess.run(query, capture_output=True, text=True, check=True)
        return done.stdout.split().count("installed")

    def collect(self) -> dict[str, int] | None:
        """Copies reports and logs of the clone; the counts of its tests, if there were any."""
        build = self.folder / TREE.lstrip("/") / "build"
        for pattern in ("test/*.json", "test/*.log", "demo/*.json", "package.log"):
            for path in build.glob(pattern):
                target = HOME / path.relative_to(build)
                target.parent.mkdir(exist_ok=True)
                shutil.copy(path, target)
        summary = build / "test/summary.json"
        if not summary.is_file():
            return None
        counts = json.loads(summary.read_text())
        return {key: counts[key] for key in ("passed", "failed", "skipped")}

    def delete(self) -> None:
        """Deletes the root; never through a mount."""
        for attempt in range(5):
            mounts = [line.split()[1] for line in MOUNTS.read_text().splitlines()]
            inside = [m for m in mounts if m.startswith(f"{self.folder}/")]
            if inside:
                raise BareMachineError(f"{inside[0]} is mounted; {self.folder} is left as it is")
            command = ["rm", "-rf", "--one-file-system", "--preserve-root=all", str(self.folder)]
            if subprocess.run(command, check=False).returncode == 0:
                break
            time.sleep(attempt)  # processes that were killed may not have gone yet
        self.folder.with_suffix(".apt").unlink(missing_ok=True)


def is_warm(folder: Path) -> bool:
    return any(p.is_file() for p in folder.rglob("*") if p.name != "lock")


def try_out(release: str, cache: Path | None, commands: list[str]) -> dict[str, Any]:
    """The report: everything that was done and found."""
    warm = {k: bool(cache and is_warm(cache / k)) for k in (f"apt/{release}", *CACHES)}
    root = Root(HOME / f"root-{release}", release, cache)
    root.delete()  # of a run that was killed
    report: dict[str, Any] = {"release": release}
    try:
        start = time.monotonic()
        report["made_by"] = root.make()
        report["commit"], report["uncommitted_changes"] = root.clone()
        report["root_seconds"] = round(time.monotonic() - start, 1)
        if report["uncommitted_changes"]:
            print("bare-machine: the tree has uncommitted changes, which are not tried", flush=True)
        report["caches_warm"] = {name.split("/")[0]: value for name, value in warm.items()}
        report["packages"] = {"minimal": root.packages()}
        report["commands"] = []
        for number, command in enumerate(commands, 1):
            print(f"bare-machine: {command}", flush=True)
            start = time.monotonic()
            code = root.run(HOME / f"command-{number}.log", command)
            seconds = round(time.monotonic() - start, 1)
            report["commands"].append({"command": command, "exit_code": code, "seconds": seconds})
        report["packages"]["after"] = root.packages()
        report["tests"] = root.collect()
    finally:
        root.delete()
    return report


def write_section(path: Path, report: dict[str, Any]) -> None:
    """Writes beside the report what docs/results.md says of it."""
    changed = ", without the changes beside it" if report["uncommitted_changes"] else ""
    warm = [name for name, is_warm in report["caches_warm"].items() if is_warm]
    tests = report["tests"] or {}
    counts = ", ".join(f"{tests[kind]} {kind}" for kind in tests)
    section(
        path,
        "A bare machine (`tools/bare-machine`)",
        f"Commit {report['commit'][:12]}{changed}, in a minimal Debian ({report['release']}) with"
        f" {report['packages']['minimal']} packages at first and {report['packages']['after']} in"
        f" the end. Warm caches: {', '.join(warm) or 'none'}. Tests: {counts or 'none'}.",
        report["commands"],
    )


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="tools/bare-machine", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keeps what is downloaded")
    parser.add_argument("--release", choices=RELEASES, default=RELEASES[0])
    parser.add_argument("command", nargs=argparse.REMAINDER, help="instead of the two")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        parser.exit(1, "bare-machine: needs root, for chroot and mounts: sudo tools/bare-machine\n")
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # chroot, debootstrap
    command = options.command
    commands = [command[0] if len(command) == 1 else shlex.join(command)] if command else COMMANDS

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    HOME.mkdir(parents=True, exist_ok=True)
    report_path = HOME / "report.json"
    with (HOME / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            report_path.unlink(missing_ok=True)
            cache = options.cache and options.cache.resolve()
            report = try_out(options.release, cache, list(commands))
        except BlockingIOError:
            print("bare-machine: another one is running in this tree", file=sys.stderr)
            return 1
        except (BareMachineError, OSError) as error:
            print(f"bare-machine: {error}", file=sys.stderr)
            return 1
        report_path.write_text(json.dumps(report, indent=1) + "\n")
        write_section(report_path, report)
    for one in report["commands"]:
        verdict = "ok" if one["exit_code"] == 0 else f"exit code {one['exit_code']}"
        print(f"bare-machine: {report['release']}: {one['command']}: {verdict}, {one['seconds']} s")
    print(f"bare-machine: {report_path.relative_to(ROOT)}")
    return int(any(one["exit_code"] for one in report["commands"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
