# SPDX-License-Identifier: MIT
"""The README's two commands on a Debian 12 that nothing was done to, as root and as a user.

A root of minimal Debian is made from this machine's own mirror setting, on a disk of its own: a
file of a fixed size that is unlinked as soon as it is mounted, in namespaces that end with this
process. So nothing runs on and no disk stays full, however it ends. The checkout's HEAD is cloned
into it; certificates, proxies and the settings of apt, pip, uv and Go are carried in. Times go to
build/fresh.json.

The root is entered by pivot_root: Linux refuses user namespaces within a chroot (EPERM), and the
sandbox of an ordinary user is one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kdyno import whole
from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.kernels.sources import debian

ROOT = Path(__file__).parent.parent
TARGETS = ("setup", "setup-suites", "setup-tests", "check", "demo", "test")
CODENAME = "bookworm"
CHECKOUT = "/srv/kdyno"
USER = "dyno"
HOMES = {"root": "/root", "user": f"/home/{USER}"}
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENTER, WITHIN = ("fresh-enter.sh", "fresh-within.sh")

# Variables that say how this machine reaches the world, and files that do.
CARRIED = re.compile(
    r"(PIP|UV|GIT_SSL|REQUESTS|CURL|SSL_CERT)_(?!CACHE)\w+|GO(PROXY|SUMDB|FLAGS|PRIVATE|NOSUMDB|AUTH)"
    r"|(https?|ftp|all|no)_proxy|(HTTPS?|FTP|ALL|NO)_PROXY"
)
FILES = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/uv/uv.toml", "/etc/gitconfig"),
    *("/usr/local/share/ca-certificates", "/etc/ssl/certs/ca-certificates.crt"),
)
HOME_FILES = (
    *(".config/pip/pip.conf", ".pip/pip.conf", ".config/uv/uv.toml", ".config/go/env"),
    *(".gitconfig", ".netrc"),
)
APT = re.compile(r"Acquire::((https?|ftp)::|Retries|ForceIPv)", re.IGNORECASE)


@dataclass(frozen=True)
class Time:
    """One step by one person: seconds, exit status, and the disk's use after it."""

    person: str
    step: str
    status: int
    seconds: int
    used_mb: int


def sources(entries: Sequence[debian.Entry], codename: str) -> list[str]:
    """Lines for sources.list from a machine's own entries, for Debian 12 whatever it runs."""
    own = debian.groups(entries, codename)[0]
    return [f"deb {entry.uri} {entry.suite.replace(codename, CODENAME)} main" for entry in own]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of ``variables`` that the steps are given."""
    return {name: value for name, value in variables.items() if CARRIED.fullmatch(name)}


def named_files(variables: Mapping[str, str]) -> list[Path]:
    """Files that carried variables name; a folder only where it is small."""
    words = [word for value in variables.values() for word in value.replace(",", " ").split()]
    paths = [Path(word) for word in words if word.startswith("/") and Path(word).exists()]
    return [
        path
        for path in paths
        if path.resolve() != Path("/etc/ssl/certs")
        and (path.is_file() or len(list(path.iterdir())) < 100)
    ]


def apt_options(dump: str) -> str:
    """What `apt-config dump` says of proxies and the like, as a file for apt.conf.d."""
    lines = [line for line in dump.splitlines() if APT.match(line) and not line.endswith('"";')]
    return "".join(f"{line}\n" for line in lines)


def carry(into: Path, paths: Iterable[Path], top: Path = Path("/")) -> None:
    """Copies of files and folders below ``top`` at the same places below ``into``."""
    for path in paths:
        if not path.exists():
            continue
        place = into / path.relative_to(top)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, place, dirs_exist_ok=True)
        else:
            shutil.copyfile(path, place)


def apart(*words: str) -> list[str]:
    """A command line in namespaces of its own, which end with this process, however it ends."""
    return [
        *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--ipc", "--fork"),
        *("--mount-proc", "--kill-child=KILL", "--", *words),
    ]


def call(*words: str | Path, **variables: str) -> None:
    done = subprocess.run(
        list(map(str, words)), stdin=subprocess.DEVNULL, env={**os.environ, **variables}
    )
    if done.returncode != 0:
        raise ToolError(f"{words[0]} failed with status {done.returncode}")


def make_root(folder: Path) -> float:
    """root.tar and what is carried into it, in ``folder``; gives the seconds."""
    began_s = time.monotonic()
    lines = sources(debian.read_entries(), debian.codename())
    dump = ["apt-config", "dump", "Acquire"]
    options = apt_options(subprocess.check_output(dump, text=True))
    carry(folder / "carry", [*map(Path, FILES), *named_files(environment(os.environ))])
    (folder / "carry/etc/apt/apt.conf.d").mkdir(parents=True)
    (folder / "carry/etc/apt/apt.conf.d/90machine").write_text(options)
    (folder / "carry").chmod(0o700)
    (folder / "home").mkdir(mode=0o700)
    carry(folder / "home", [Path.home() / name for name in HOME_FILES], Path.home())
    (folder / "apt.conf").write_text(options)
    # What it unpacks is below the folder too; apt's own user must be able to get there.
    folder.parent.chmod(0o711)
    folder.chmod(0o711)
    (folder / "unpacked").mkdir(mode=0o755)
    call(
        *apart("mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates,sudo"),
        *(f"--aptopt={folder / 'apt.conf'}", CODENAME, str(folder / "root.tar"), *lines),
        TMPDIR=str(folder / "unpacked"),
    )
    return time.monotonic() - began_s


def words_of(folder: Path, person: str, options: argparse.Namespace) -> list[str]:
    """The command line of one person's whole visit; it writes a line for each step to fd 3."""
    disk = folder / "disk"
    with disk.open("wb") as file:
        file.truncate(options.gb << 30)
    call("mkfs.ext4", "-q", "-F", "-O", "^has_journal", disk)
    (folder / "root").mkdir(exist_ok=True)
    given = {
        **environment(os.environ),
        "PATH": SEARCH,
        "HOME": HOMES[person],
        "USER": USER if person == "user" else "root",
        "LANG": "C.UTF-8",
        "TERM": os.environ.get("TERM", "dumb"),
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in given.items()]
    (folder / "variables").touch(mode=0o600)
    (folder / "variables").write_text("\n".join([*lines, ""]))
    shutil.copyfile(ROOT / "benchmarks" / WITHIN, folder / "within")
    return apart(
        *("env", "-i", f"PATH={SEARCH}", "sh", "-eu", str(ROOT / "benchmarks" / ENTER)),
        *(str(folder), str(ROOT), person, HOMES[person], CHECKOUT),
        *(str(options.cache.resolve()) if options.cache else "", *options.targets),
    )


def visit(folder: Path, person: str, options: argparse.Namespace, times: list[Time]) -> None:
    """All steps by one person, added to ``times``; ends early after one that fails."""
    steps_in, steps_out = os.pipe()
    words = words_of(folder, person, options)
    # In a session of its own: Ctrl-C is for this process, which then ends all of it at once.
    process = subprocess.Popen(
        ["sh", "-c", f'exec 3>&{steps_out} {steps_out}>&-; exec "$@"', "sh", *words],
        stdin=subprocess.DEVNULL,
        pass_fds=(steps_out,),
        start_new_session=True,
    )
    os.close(steps_out)
    try:
        with os.fdopen(steps_in) as lines:
            for line in lines:
                step, status, seconds, used_mb = line.split()
                times.append(Time(person, step, int(status), int(seconds), int(used_mb)))
        process.wait()
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0 and all(row.status == 0 for row in times):
        raise ToolError(f"the root could not be entered (status {process.returncode})")


def table(times: Sequence[Time]) -> str:
    """Markdown: a row for each step."""
    rows = [
        f"| {row.person} | `{row.step}` | {row.seconds // 60} min {row.seconds % 60} s "
        f"| {row.used_mb / 1000:.1f} GB | {'ok' if row.status == 0 else f'status {row.status}'} |"
        for row in times
    ]
    head = "| as | step | time | disk after it | |\n| --- | --- | --: | --: | --- |"
    return "\n".join([head, *rows, ""])


def parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fresh FRESH=…", description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="demo test")
    parser.add_argument("--as", dest="people", action="append", choices=HOMES, help="both")
    parser.add_argument("--gb", type=int, default=24, help="size of the disk, 24")
    parser.add_argument("--place", type=Path, default=Path("/var/tmp"), help="folder for the disk")
    cache = os.environ.get("KDYNO_FRESH_CACHE")
    more = "a cache of kdyno's to begin with, which stays as it is; $KDYNO_FRESH_CACHE"
    parser.add_argument("--cache", type=Path, default=Path(cache) if cache else None, help=more)
    options = parser.parse_args(words)
    options.targets = options.targets or ["demo", "test"]
    options.people = options.people or list(HOMES)
    return options


def require(options: argparse.Namespace) -> None:
    """UsageError or ToolError with the way out where this machine cannot do it."""
    if os.geteuid() != 0:
        raise UsageError("a root is made and mounted by root only: sudo make fresh")
    for program, package in (("mmdebstrap", "mmdebstrap"), ("mkfs.ext4", "e2fsprogs")):
        if shutil.which(program) is None:
            raise ToolError(f"no {program}: apt-get install {package}")
    if options.cache is not None and not (options.cache / "images").is_dir():
        raise UsageError(f"--cache {options.cache}: no cache of kdyno's (it has no images)")
    free = shutil.disk_usage(options.place).free
    if free < (options.gb + 2) << 30:
        raise ToolError(
            f"{options.place}: {free / 1e9:.0f} GB free, {options.gb + 2} needed; "
            "--place DIR is another folder, --gb N a smaller disk"
        )


def main(words: Sequence[str]) -> int:
    options = parsed(words)
    require(options)
    if subprocess.run(["git", "-C", ROOT, "diff", "--quiet", "HEAD"]).returncode != 0:
        print("fresh: what is not committed is not cloned", file=sys.stderr)
    times: list[Time] = []
    try:
        with whole.scratch("fresh", options.place) as folder:
            seconds = make_root(folder)
            print(f"fresh: Debian 12 in {seconds:.0f} s", file=sys.stderr)
            for person in options.people:
                visit(folder, person, options, times)
    finally:
        print(f"\n{table(times)}")
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "fresh.json").write_text(json.dumps([asdict(row) for row in times], indent=1))
    return max((row.status for row in times), default=1)


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except KdynoError as problem:
        raise SystemExit(f"fresh: {problem}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
