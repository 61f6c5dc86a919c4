# SPDX-License-Identifier: MIT
"""The compiler that builds a variant: found on PATH, and identified by its --version."""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from kdyno.command import capture
from kdyno.errors import UsageError
from kdyno.kernels.sources.tree import sha256_of
from kdyno.sandbox import confined

_NAME = re.compile(r"^[A-Za-z0-9_./+-]+$")
_FILE_FLAG = re.compile(r"-(?:include|imacros)\s+\S+")
_NUMBERS = r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})"
_VERSION = re.compile(rf"version {_NUMBERS}")
_PACKAGED = ("/usr/bin/", "/bin/", "/usr/lib/ccache/")
"""Where a distribution's compilers are, whose first line tells each build of them apart."""
_PARTS = ("cc1", "clang", "as")
_LIBRARY = re.compile(r"=> (/\S*(?:LLVM|clang)\S*)")
_WANTED = Path("scripts/min-tool-version.sh")
_CLANGS = tuple(f"clang-{number}" for number in range(40, 10, -1))
"""Names that are looked for, the newest first."""
DEBIAN = "clang-19"
"""Debian 12's newest."""
TODAYS = (17, 0, 1)
"""The oldest clang that Linux 7.3 is built with."""


@dataclass(frozen=True)
class Compiler:
    """``name`` as the experiment has it; ``version`` is the first line of --version, and a digest
    where it is none of a distribution's."""

    name: str
    path: str
    version: str
    clang: bool

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """Of its version; None where it says none."""
        match = _VERSION.search(self.version)
        return tuple(map(int, match.groups())) if match else None

    def make_arguments(self, ccache: str | None) -> list[str]:
        front = f"{Path(ccache).name} " if ccache else ""
        line = [f"CC={front}{self.path if '/' in self.name else self.name}"]
        if self.clang:
            # Kbuild looks the target up by SUBARCH and knows this one only as x86.
            line += [f"HOSTCC={self.name}", "CLANG_TARGET_FLAGS_x86_64=x86_64-linux-gnu"]
        return line


def _present(*names: str) -> list[Compiler]:
    return [identify(name) for name in names if shutil.which(name)]


def for_tree(name: str, tree: Path) -> Compiler:
    """``identify``, with a clang that is new enough for the kernel source at ``tree``. "clang" is
    the newest clang-N where plain clang is too old or not there. UsageError where none will do."""
    least = _least_clang(tree) if name.startswith("clang") else None
    if least is None:
        return identify(name)
    compilers = _present(name, *_CLANGS) if name == "clang" else [identify(name)]
    for compiler in compilers:
        if (compiler.numbers or least) >= least:
            return compiler
    there = compilers[0].version if compilers else "no clang on PATH"
    raise UsageError(
        f"compiler {name!r}: this kernel wants clang {'.'.join(map(str, least))} or later; here: "
        f"{there}. On Debian: apt-get install --no-install-recommends {DEBIAN}",
        key="compiler",
    )


def missing_clang() -> str | None:
    """For doctor, which knows no tree: None where a clang is there that today's kernels take."""
    compilers = _present("clang", *_CLANGS)
    newest = max(compilers, key=lambda compiler: compiler.numbers or (), default=None)
    if newest is None:
        return "no clang on PATH"
    old = newest.numbers is not None and newest.numbers < TODAYS
    return f"{newest.version}, and Linux 7 wants {TODAYS[0]} or later" if old else None


def _least_clang(tree: Path) -> tuple[int, ...] | None:
    """The oldest that the tree's own build takes for this machine's kernels; None: it does not say.
    Of several, for other architectures, the oldest."""
    try:
        script = (tree / _WANTED).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    part = re.search(r"^llvm\)(.*?);;", script, re.MULTILINE | re.DOTALL)
    versions = re.findall(rf"echo {_NUMBERS}", part[1]) if part else []
    return min((tuple(map(int, number)) for number in versions), default=None)


def _content(path: str) -> str:
    """Of a compiler of somebody's own: tomorrow it may be another one that calls itself the same.
    With what a driver or script calls, and the libraries that a clang is made of."""
    seen = [Path(path)]
    answers = (capture(confined([path, f"-print-prog-name={each}"], reads=seen)) for each in _PARTS)
    programs = {path, *(each.output.strip() for each in answers)}
    programs = {each for each in programs if "/" in each and shutil.which(each)}
    for each in sorted(programs):
        listed = capture(confined(["ldd", each], reads=[*seen, Path(each)])).output
        programs |= {own for own in _LIBRARY.findall(listed) if Path(own).is_file()}
    digests = "".join(sha256_of(Path(each)) for each in sorted(programs))
    return hashlib.sha256(digests.encode()).hexdigest()[:12]


@functools.cache
def identify(name: str) -> Compiler:
    """Find ``name`` on PATH; UsageError with the compilers that are there otherwise."""
    path = shutil.which(name) if _NAME.match(name) else None
    if path is None:
        names = ("gcc", "clang", *(f"gcc-{number}" for number in range(8, 20)), *_CLANGS[::-1])
        there = ", ".join(name for name in names if shutil.which(name)) or "none"
        raise UsageError(
            f"compiler {name!r} is not on this machine (found: {there}). "
            "Install it, or name one of those under `compiler`.",
            key="compiler",
        )
    # An experiment may name any program of the machine, or one that came with it.
    result = capture(confined([path, "--version"], reads=[Path(path)]))
    first = result.output.splitlines()[0].strip() if result.output.strip() else ""
    if result.status != 0 or not first:
        raise UsageError(f"compiler {name!r} ({path}) does not answer --version", key="compiler")
    if not path.startswith(_PACKAGED):
        first += f" ({_content(path)})"
    return Compiler(name, path, first, "clang" in first.lower())


@functools.cache
def refusal(compiler: Compiler, flags: str, word_bits: int) -> str | None:
    """Why ``compiler`` does not take these flags, in its own words; None where it takes them."""
    # A file that flags name is one of the source, found from where make runs.
    words = _FILE_FLAG.sub("", flags).split()
    argv = [compiler.path, f"-m{word_bits}", "-c", "-o", "/dev/null", *words]
    result = capture(confined([*argv, "-x", "c", "/dev/null"], reads=[Path(compiler.path)]))
    if result.status == 0:
        return None
    lines = re.findall(r"error: (.*)", result.output)
    near = re.search(r"did you mean .*?\?", result.output)
    text = "; ".join(dict.fromkeys(lines)) or result.output.strip()[-300:] or "it failed"
    if near and near[0] not in text:
        text += f"; {near[0]}"
    return text.replace("‘", "'").replace("’", "'")
