# SPDX-License-Identifier: MIT
"""Schedulers that are programs: ``kernel/sched/NAME.bpf.c``, built for one kernel. The kernel's own
tree brings the library that loads them, and its image the types that they are compiled against: so
one is built when its image is there. The kernel is the same whichever is loaded."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kdyno import whole
from kdyno.command import capture
from kdyno.errors import BuildError, UsageError
from kdyno.experiment.model import SUFFIX, Variant, called, is_scheduler_file
from kdyno.kernels import leavings
from kdyno.kernels.compiler import for_tree, identify
from kdyno.kernels.config import Wish
from kdyno.kernels.sources.tree import Tree
from kdyno.paths import data_root
from kdyno.sandbox import confined

NEEDED = "CONFIG_SCHED_CLASS_EXT"
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


def list_schedulers() -> dict[str, str]:
    """Name → its help, in the order of names."""
    files = sorted(folder().glob(f"*{SUFFIX}"))
    texts = {called(file.name): _HELP.search(file.read_text(encoding="utf-8")) for file in files}
    return {name: match[1] if match else "" for name, match in texts.items()}


def refuse_unfit(variant: Variant, wishes: Sequence[Wish], tree: Tree) -> None:
    """UsageError where the variant's kernel could not be given its scheduler."""
    if variant.scheduler is None:
        return
    if not any(wish.option == NEEDED and wish.value == "y" for wish in wishes):
        raise UsageError(
            f"variant {variant.name!r}: scheduler = {called(variant.scheduler)!r} is loaded into a "
            f'kernel with {NEEDED}=y. Add "sched-ext" to config, of all variants: then they share '
            "one kernel",
            key="scheduler",
        )
    try:
        for_tree("clang", tree.path)
    except UsageError as problem:
        raise UsageError(f"a scheduler is compiled by clang: {problem}", key="scheduler") from None


def build(scheduler: str, tree: Tree, kernel: Path, image: str, cache: Path) -> Scheduler:
    """``scheduler`` for the kernel in the file ``kernel``, whose image has the digest ``image``.
    From the cache where it was built before. BuildError with the compiler's words."""
    source = Path(scheduler) if is_scheduler_file(scheduler) else folder() / f"{scheduler}{SUFFIX}"
    name = called(scheduler)
    clang = for_tree("clang", tree.path)
    loader = _loader(tree, cache)
    headers = sorted(folder().glob("*.h"))  # what it may include beside types and library
    digest = _digest(
        *(loader.name.encode(), image.encode(), clang.version.encode()),
        *(repr(_CLANG).encode(), name.encode(), source.read_bytes()),
        *(header.read_bytes() for header in headers),
    )

    def compile_into(work: Path, aside: Path) -> None:
        for file in (source, *headers):
            (work / file.name).write_bytes(file.read_bytes())
        run = partial(_run, f"scheduler {name!r}", work, (kernel, loader))
        # The loader is of the kernel's own tree: it may have laid a link there.
        leavings.write(work / "vmlinux.h", run(loader / "loader", "header", kernel))
        target = f"{name}.bpf.o"
        # The same bytes wherever the folders lie.
        plain = [f"-ffile-prefix-map={folder}={folder.name}" for folder in (work, loader)]
        words = [*_CLANG, "-fdebug-compilation-dir=.", *plain, f"-I{work}", f"-I{loader}"]
        run(clang.path, *words, "-c", work / source.name, "-o", work / target)
        _keep(work, target, aside / target)

    place = _once(cache, f"{name}-{digest}", compile_into)
    return Scheduler(name, place / f"{name}.bpf.o", loader / "loader", digest)


def _loader(tree: Tree, cache: Path) -> Path:
    """The folder with the loader and the headers of the library, of this kernel tree."""
    source = folder() / "loader.c"
    parts = (tree.digest.encode(), identify("gcc").version.encode(), source.read_bytes())

    def compile_into(work: Path, aside: Path) -> None:
        objects, root = work / "libbpf", work / "root"
        objects.mkdir()
        run = partial(_run, "the loader of schedulers", work, (tree.path, source))
        run(
            *("make", "-s", "-C", tree.path / _LIBBPF, f"-j{os.cpu_count() or 1}"),
            *(f"OUTPUT={objects}/", f"DESTDIR={root}", "prefix="),
            *("install_headers", objects / "libbpf.a"),
        )
        run(
            *(*_CC, "-I", root / "include", "-I", tree.path / "tools/include/uapi"),
            *(source, objects / "libbpf.a", "-lelf", "-lz", "-o", work / "loader"),
        )
        _keep(work, "loader", aside / "loader", 0o755)
        (aside / "bpf").mkdir()
        for file in sorted((work / _HEADERS).iterdir()):
            _keep(work, f"{_HEADERS}/{file.name}", aside / "bpf" / file.name)

    return _once(cache, f"loader-{_digest(*parts, repr(_CC).encode())}", compile_into)


def _once(cache: Path, name: str, compile_into: Callable[[Path, Path], None]) -> Path:
    """The folder ``name`` of the cache, filled at need by (folder to work in, folder to fill)."""
    place = cache / "schedulers" / name
    if not place.is_dir():
        with whole.locked(place.parent / ".lock"):
            if not place.is_dir():
                with whole.scratch("build", cache / "work") as work, whole.folder(place) as aside:
                    compile_into(work, aside)
    return place


def _run(name: str, work: Path, reads: Sequence[Path], *words: str | Path) -> bytes:
    """A command's standard output, in the sandbox; files that it leaves in ``work`` are not
    trusted. BuildError where it fails."""
    inside = confined([str(word) for word in words], reads=reads, writes=[work])
    settings = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": "/tmp"}
    result = capture(inside, env=settings, apart=True)
    if result.status != 0:
        text = (result.complaint.strip() or result.output.strip())[-_SHOWN_BYTES:]
        raise BuildError(f"{name} did not build:\n{text}")
    return result.stdout


def _keep(work: Path, name: str, to: Path, mode: int = 0o644) -> None:
    """A product of the build, as an ordinary file of ours."""
    to.write_bytes(leavings.read(work, name))
    to.chmod(mode)


def _digest(*parts: bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()[:32]
