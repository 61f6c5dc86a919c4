# SPDX-License-Identifier: MIT
"""Schedulers that are programs: ``kernel/sched/NAME.bpf.c``, built for one kernel.

The kernel's own tree brings the library that loads them, and its image the types that they are
compiled against: so a scheduler belongs to an image, and is built when that is there. The kernel is
the same whichever is loaded.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kdyno import sandbox, whole
from kdyno.command import capture
from kdyno.errors import BuildError, UsageError
from kdyno.experiment.layer import SUFFIX, called, is_scheduler_file
from kdyno.experiment.model import Variant
from kdyno.kernels import leavings
from kdyno.kernels.compiler import Compiler, for_tree, identify
from kdyno.kernels.config import Wish
from kdyno.kernels.source import Tree
from kdyno.paths import data_root
from kdyno.sandbox import BUILD, around

NEEDED = "CONFIG_SCHED_CLASS_EXT"
FRAGMENT = "sched-ext"
"""The fragment that brings it, with what it needs."""
LOADER = "loader.c"
_LIBBPF, _HEADERS = "tools/lib/bpf", "root/include/bpf"
_HELP = re.compile(r"^// help: (.+)$", re.MULTILINE)
_CC = ("gcc", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-static", "-s")
_CLANG = (
    *("--target=bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Wextra", "-Werror"),
    *("-Wno-missing-declarations", "-Wno-unused-parameter"),
    "-D__TARGET_ARCH_x86",
)
_SHOWN_BYTES = 3000


@dataclass(frozen=True)
class Scheduler:
    """One that was built for a kernel."""

    name: str
    program: Path
    """What the kernel is given."""
    loader: Path
    """The static program that gives it to the kernel."""
    digest: str
    """Of all that went into it, the kernel's types among them."""


def folder() -> Path:
    """Where the project's own are."""
    return data_root() / "kernel" / "sched"


def _headers() -> tuple[Path, ...]:
    """What a scheduler may include beside the kernel's types and the library."""
    return tuple(sorted(folder().glob("*.h")))


def list_schedulers() -> dict[str, str]:
    """Name → its help, in the order of names."""
    found = {}
    for file in sorted(folder().glob(f"*{SUFFIX}")):
        said = _HELP.search(file.read_text(encoding="utf-8"))
        found[called(file.name)] = said[1] if said else ""
    return found


def refuse_unfit(variant: Variant, wishes: Sequence[Wish]) -> None:
    """UsageError where the variant's kernel could not be given its scheduler."""
    if variant.scheduler is None:
        return
    asked = {wish.option: wish.value for wish in wishes}
    if asked.get(NEEDED) != "y":
        raise UsageError(
            f"variant {variant.name!r}: scheduler = {called(variant.scheduler)!r} is loaded into a "
            f'kernel with {NEEDED}=y. Add "{FRAGMENT}" to config, of all variants: then they share '
            "one kernel"
        )


def build(
    scheduler: str, tree: Tree, kernel: Path, image: str, cache: Path, sandboxed: bool
) -> Scheduler:
    """``scheduler`` for the kernel in the file ``kernel``, whose image has the digest ``image``.

    From the cache where it was built before. BuildError with the compiler's words.
    """
    source = Path(scheduler) if is_scheduler_file(scheduler) else folder() / f"{scheduler}{SUFFIX}"
    name = called(scheduler)
    clang = for_tree("clang", tree.path)
    loader = _loader(tree, cache, sandboxed)
    parts = (
        *(loader.name.encode(), image.encode(), clang.version.encode()),
        *(repr(_CLANG).encode(), name.encode(), source.read_bytes()),
        *(header.read_bytes() for header in _headers()),
    )
    made = cache / "schedulers" / f"{name}-{_digest(parts)}"
    if not made.is_dir():
        with whole.locked(cache / "schedulers" / ".lock"):
            if not made.is_dir():
                _compile(name, source, kernel, loader, clang, made, sandboxed)
    digest = made.name.rpartition("-")[2]
    return Scheduler(name, made / f"{name}.bpf.o", loader / "loader", digest)


def _digest(parts: Sequence[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()[:32]


@dataclass(frozen=True)
class _Shop:
    """A folder where commands of a build run: in the sandbox at fixed paths, or plainly."""

    name: str
    work: Path
    """What they leave is here; it is not trusted."""
    shown: tuple[tuple[Path, str], ...]
    """(path on the host, name): read-only."""
    sandboxed: bool
    compiler: Path | None = None

    def place(self, name: str) -> str:
        """Of what is shown, as the commands see it."""
        if self.sandboxed:
            return f"/tmp/kdyno/{name}"
        return str(next(path for path, called in self.shown if called == name))

    @property
    def here(self) -> str:
        return "/tmp/kdyno/work" if self.sandboxed else str(self.work)

    def run(self, *command: str) -> bytes:
        """What it says on stdout. BuildError where it fails."""
        argv = list(command)
        if self.sandboxed:
            sandbox.hand_over(self.work, BUILD, again=True)
            argv = sandbox.Sandbox(
                BUILD,
                read_only=(
                    *(around(self.compiler) if self.compiler else ()),
                    *((path, self.place(name)) for path, name in self.shown),
                ),
                writable=((self.work, self.here),),
                chdir=self.here,
            ).argv(argv)
        settings = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": "/tmp"}
        done = capture(argv, env=settings, apart=True)
        if done.status != 0:
            said = (done.complaint.strip() or done.output.strip())[-_SHOWN_BYTES:]
            raise BuildError(f"{self.name} did not build:\n{said}")
        return done.stdout


def _loader(tree: Tree, cache: Path, sandboxed: bool) -> Path:
    """The folder with the loader and the headers of the library, of this kernel tree."""
    source = folder() / LOADER
    parts = (tree.digest.encode(), identify("gcc").version.encode(), source.read_bytes())
    made = cache / "schedulers" / f"loader-{_digest((*parts, repr(_CC).encode()))}"
    if made.is_dir():
        return made
    with whole.locked(cache / "schedulers" / ".lock"):
        if made.is_dir():
            return made
        with whole.scratch("build", cache / "work") as work:
            (work / "libbpf").mkdir()
            shown = ((tree.path, "src"), (source.parent, "sched"))
            shop = _Shop("the loader of schedulers", work, shown, sandboxed)
            here, library = shop.here, f"{shop.place('src')}/{_LIBBPF}"
            shop.run(
                *("make", "-s", "-C", library, f"-j{os.cpu_count() or 1}"),
                *(f"OUTPUT={here}/libbpf/", f"DESTDIR={here}/root", "prefix="),
                *("install_headers", f"{here}/libbpf/libbpf.a"),
            )
            shop.run(
                *(*_CC, "-I", f"{here}/root/include"),
                *("-I", f"{shop.place('src')}/tools/include/uapi"),
                *(f"{shop.place('sched')}/{LOADER}", f"{here}/libbpf/libbpf.a"),
                *("-lelf", "-lz", "-o", f"{here}/loader"),
            )
            with whole.folder(made) as aside:
                _keep(work, "loader", aside / "loader", 0o755)
                (aside / "bpf").mkdir()
                for file in sorted((work / _HEADERS).iterdir()):
                    _keep(work, f"{_HEADERS}/{file.name}", aside / "bpf" / file.name, 0o644)
    return made


def _compile(
    name: str,
    source: Path,
    kernel: Path,
    loader: Path,
    clang: Compiler,
    made: Path,
    sandboxed: bool,
) -> None:
    with whole.scratch("build", made.parent.parent / "work") as work:
        for file in (source, *_headers()):
            (work / file.name).write_bytes(file.read_bytes())
        shown = ((kernel, "vmlinux"), (loader, "loader"))
        shop = _Shop(f"scheduler {name!r}", work, shown, sandboxed, Path(clang.path))
        types = shop.run(f"{shop.place('loader')}/loader", "header", shop.place("vmlinux"))
        (work / "vmlinux.h").write_bytes(types)
        shop.run(
            *(clang.name, *_CLANG, "-I", shop.here, "-I", shop.place("loader")),
            *("-c", f"{shop.here}/{source.name}", "-o", f"{shop.here}/{name}.bpf.o"),
        )
        with whole.folder(made) as aside:
            _keep(work, f"{name}.bpf.o", aside / f"{name}.bpf.o", 0o644)


def _keep(work: Path, name: str, to: Path, mode: int) -> None:
    """What was built, as an ordinary file of ours."""
    to.write_bytes(leavings.read(work, name))
    to.chmod(mode)
