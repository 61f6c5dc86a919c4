# SPDX-License-Identifier: MIT
"""What builds leave in the cache: images, and trunks.

An image is a bootable file, named by the digest of what went into it. A trunk is the object tree of
an earlier build, of which the next works on a copy: time stamps decide what make compiles again, so
every file that differs must be newer than the trunk's objects (`Start.fresh`)."""

from __future__ import annotations

import math
import os
import re
import shutil
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from kdyno import whole
from kdyno.command import capture
from kdyno.errors import ToolError
from kdyno.kernels import leavings
from kdyno.kernels.changes import BUILD_SOURCE
from kdyno.kernels.recipe import Recipe, foreign_suffix, image_folder
from kdyno.kernels.scheduler import Scheduler
from kdyno.kernels.sources.tree import read_manifest, sha256_of
from kdyno.reading.checked import adapter, values_in
from kdyno.sandbox import confined

KEEP = 6
"""Trunks of each architecture."""
# Above this many differing files a build from scratch is the simpler and as quick way.
MOST_FILES = 300
_OPTION = re.compile(rb"\bCONFIG_\w+")
_READ_OPTION = re.compile(rb"include/config/(\w+)")
_SOURCE_FILE = re.compile(BUILD_SOURCE.encode() + rb"/([^\s\\:;,()'\"]+)")
_IN_USE_S = 3600
"""A trunk that was used in the last hour may be the one another build copies just now."""


@dataclass(frozen=True)
class Image:
    """A built kernel. ``kernel`` is the file that a machine here boots; of an installed one also
    ``vmlinuz``, as its package has it and a boot loader or kexec takes it, and ``modules``."""

    digest: str
    folder: Path
    arch: str
    word_bits: int
    version: str
    build: dict[str, Any]
    """How it was built: inputs, commands, seconds, objects compiled."""
    scheduler: Scheduler | None = None
    """The program that is to decide in it who runs; None: the kernel itself."""
    links: tuple[Image, ...] = ()
    """The same code linked in other orders, where [layout] asks for them."""
    installed: bool = False
    """It was built by somebody else, and is measured as it is."""

    def link(self, number: int) -> Image:
        """Of its links, which go round; itself where it has none."""
        return self.links[number % len(self.links)] if self.links else self

    def has(self, extract: Extract | None) -> bool:
        return extract is None or (self.folder / extract.name).is_file()

    @property
    def kernel(self) -> Path:
        return self.folder / "linux"

    @cached_property
    def content(self) -> str:
        """Digest of the kernel's bytes: two recipes may give the same kernel."""
        return sha256_of(self.kernel)

    @property
    def vmlinuz(self) -> Path:
        """Of an installed image: the bzImage."""
        return self.folder / "vmlinuz"

    @property
    def modules(self) -> Path:
        """Of an installed image: what is ``/lib/modules/VERSION`` where it is installed, without
        the files that depmod makes; ``.ko``, ``.ko.xz`` or ``.ko.zst``. Not there where the kernel
        has none."""
        return self.folder / "modules" / self.version

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @cached_property
    def smp(self) -> bool:
        """Whether it can use more than one CPU."""
        return self._built_in("SMP")

    @cached_property
    def apic(self) -> bool:
        """Whether it drives the CPU's local APIC."""
        return self._built_in("X86_LOCAL_APIC")

    @property
    def modular(self) -> bool:
        """Whether it has modules, which an initramfs or /lib/modules is to show it."""
        return self.modules.is_dir() or (self.has(KEXEC) and self._built_in("MODULES"))

    def _built_in(self, option: str) -> bool:
        return f"\nCONFIG_{option}=y\n" in self.config.read_text(encoding="utf-8")


def find(cache: Path, recipe: Recipe) -> Image | None:
    """The image of ``recipe`` when it was built before."""
    folder = image_folder(cache, recipe)
    try:
        # Another commit may have the same tree.
        build = {**values_in(folder / "build.json"), "source": recipe.tree.description}
    except (OSError, ValueError, TypeError):
        return None
    if not (folder / "linux").is_file():
        return None
    with suppress(OSError):  # a cache that others own and this user only reads
        os.utime(folder)
    arch = recipe.arch
    return Image(recipe.digest, folder, arch.name, arch.word_bits, recipe.tree.version, build)


def install(cache: Path, recipe: Recipe, work: Path, files: dict[str, Path]) -> Image:
    """Put the finished files of a build under the image's name, whole or not at all."""
    folder = image_folder(cache, recipe)
    if (there := find(cache, recipe)) is not None:
        # The same image was built before: it may be booting, and only lacks a file beside it.
        for name, file in files.items():
            if not (folder / name).exists():
                os.link(file, folder / name)
        return there
    aside = work / f"image-{recipe.layout}"
    aside.mkdir()
    for name, file in files.items():
        os.link(file, aside / name)
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    if folder.exists():
        # Where locks do not hold, another node may have put it there since; else it is damaged.
        if (there := find(cache, recipe)) is not None:
            return there
        folder.rename(work / f"damaged-{time.monotonic_ns()}")
    whole.into_place(aside, folder)
    if (image := find(cache, recipe)) is None:
        raise ToolError(f"{folder}: written, but it cannot be read back")
    return image


@dataclass(frozen=True)
class Extract:
    """``flags`` ask the compiler to write more than objects, and must not change the code: the
    image keeps the name that it has without them."""

    name: str
    """Of the file that is kept beside the image."""
    flags: str
    collect: Callable[[Path, Path], object]
    """(object tree, file to write), after make and before the tree is kept or deleted."""
    installs: bool = False
    """make also packs the kernel as boot loaders take it, and installs its modules into
    ``INSTALLED`` of the object tree."""

    def compiled_by(self, recipe: Recipe) -> Recipe:
        """The recipe as make sees it; its objects are no start for a build without the flags."""
        return replace(recipe, cflags=f"{recipe.cflags} {self.flags}".strip())


INSTALLED = "installed"
RELEASE = re.compile(r"[0-9][\w.+~-]{0,60}")
"""As ``uname -r`` prints one; it names folders."""


def _pack(objects: Path, file: Path) -> None:
    """A tar of RELEASE/vmlinuz, RELEASE/config and, where it has some, RELEASE/modules."""
    release = leavings.read_text(objects, "include/config/kernel.release").strip()
    if not RELEASE.fullmatch(release):
        raise ToolError(f"the kernel calls itself {release[:80]!r}, which is no name for a folder")
    modules = f"{INSTALLED}/lib/modules/{release}"
    places = {"arch/x86/boot/bzImage": "vmlinuz", ".config": "config", modules: "modules"}
    for name in ("arch/x86/boot/bzImage", ".config"):
        leavings.require_file(objects, name)
    moved = [f"--transform=flags=r;s,^{old},{release}/{new}," for old, new in places.items()]
    present = [name for name in places if (objects / name).exists()]
    # The links there lead into the source and the object tree.
    left_out = [f"--exclude={modules}/{name}" for name in ("build", "source")]
    fixed = ["--sort=name", "--owner=0", "--group=0", "--mtime=@0", "--mode=go=rX,u+rwX"]
    argv = ["tar", "-cf", str(file), *fixed, *moved, *left_out, "-C", str(objects), *present]
    file.touch()
    done = capture(confined(argv, reads=[objects], writes=[file]))
    shutil.rmtree(objects / INSTALLED, ignore_errors=True)
    if done.status != 0:
        raise ToolError(f"the kernel's modules were not packed: {done.output[-300:].strip()}")


KEXEC = Extract("kexec.tar", "", _pack, installs=True)
"""What another machine needs of a kernel besides its initramfs."""


def release_of(image: Image) -> str:
    """What ``uname -r`` prints in it, and its modules' folder is called."""
    if not image.has(KEXEC):
        return image.version
    packed = image.folder / KEXEC.name
    first = None
    with suppress(tarfile.TarError), tarfile.open(packed) as tar:
        first = tar.next()
    release = first.name.partition("/")[0] if first else ""
    if not RELEASE.fullmatch(release):
        raise ToolError(f"{packed}: damaged; delete the folder, and it is built again")
    return release


@dataclass(frozen=True)
class Start:
    """Where a build starts: a trunk's object tree, and the files that must look new."""

    objects: Path | None = None
    fresh: frozenset[str] = frozenset()
    restored: frozenset[str] = frozenset()
    """Files that the trunk had changed and this variant does not: to be shown as in the tree."""
    same_flags: bool = False
    stale: float = math.inf
    """About how many objects are compiled; infinite: all."""


@dataclass(frozen=True)
class _Trunk:
    """What a trunk was built from, as it lies beside it in trunk.json."""

    source: str
    tree: Path
    arch: str
    compiler: str
    cflags: str
    config: frozenset[str]
    changed: dict[str, str]
    """Path of a changed file → digest of the change."""
    foreign: frozenset[str]
    """Whose code had a hand in these objects, see recipe.py."""
    namesakes: str = ""
    deleted: frozenset[str] = frozenset()
    """Files of ``changed`` that are no more."""
    final: frozenset[str] = frozenset()
    """Lines of the final configuration that set something."""
    readers: dict[str, int] = field(default_factory=dict)
    """Such a line's option → how many objects were compiled by it."""


def _trunk_of(recipe: Recipe, config: str = "") -> _Trunk:
    """config: the final one, where it is known."""
    changes = recipe.changes
    return _Trunk(
        source=recipe.tree.digest,
        tree=recipe.tree.path,
        arch=recipe.arch.name,
        compiler=recipe.compiler.version,
        cflags=recipe.cflags,
        config=frozenset(wish.line for wish in recipe.wishes),
        changed={path: changes.only((path,)).digest() for path in changes.files},
        deleted=changes.deleted,
        foreign=recipe.foreign,
        namesakes=recipe.namesakes,
        final=frozenset(line for line in config.splitlines() if line.startswith("CONFIG_")),
    )


def choose(
    cache: Path, recipe: Recipe, final: str | None = None, *, same_objects: bool = False
) -> Start:
    """The trunk that leaves least to compile; Start() when there is none to use. final: the .config
    that the recipe leads to, where it is known: one option may be read by one object or by all.
    same_objects: only one without objects that this kernel lacks, which make leaves there."""
    best = _nearest(_trunks(cache), _trunk_of(recipe, final or ""), same_objects)
    if best.objects is not None:
        with suppress(FileNotFoundError):  # another build has dropped it since
            os.utime(best.objects.parent)
            return best
    return Start()


def stale_objects(cache: Path, builds: Iterable[tuple[Recipe, str | None]]) -> Iterator[float]:
    """About how many objects each of these compiles, one after the other, as ``Start.stale``.
    builds: recipes with their final .config, where it is known."""
    trunks = list(_trunks(cache))
    for recipe, final in builds:
        target = _trunk_of(recipe, final or "")
        yield _nearest(trunks, target).stale
        alike = (trunk.readers for _, trunk in trunks if trunk.arch == target.arch)
        later = replace(target, readers=next(filter(None, alike), {}))
        trunks.append((cache / "trunks" / recipe.digest, later))


@lru_cache(maxsize=64)
def _flag_options(tree: Path) -> frozenset[str]:
    """Options that Kbuild's own Makefiles ask about: by most of them all objects get other flags,
    which no object's record says."""
    manifest = read_manifest(tree)
    names = (name for name in manifest if re.fullmatch(r"Makefile|scripts/Makefile\.\w+", name))
    texts = (leavings.read(tree, name) for name in names if not manifest[name].endswith(" link"))
    return frozenset(os.fsdecode(name) for text in texts for name in _OPTION.findall(text))


def _nearest(
    trunks: Iterable[tuple[Path, _Trunk]], target: _Trunk, same_objects: bool = False
) -> Start:
    best, least = Start(), math.inf
    for folder, trunk in trunks:
        alike = (trunk.arch, trunk.compiler) == (target.arch, target.compiler)
        usable = alike and trunk.foreign <= target.foreign
        if not usable or (files := _different_files(folder, trunk, target)) is None:
            continue
        same = target.final and (trunk.source, trunk.final) == (target.source, target.final)
        if same_objects and not same:
            continue
        same_flags = trunk.cflags == target.cflags
        differing = trunk.final ^ target.final if trunk.final and target.final else ()
        options = {line.partition("=")[0] for line in differing}
        whole = not same_flags or any(each in _flag_options(target.tree) for each in options)
        if target.final and trunk.readers:
            objects = sum(trunk.readers.get(option, 0) for option in options)
        else:
            objects = 20 * len(trunk.config ^ target.config)
        cost = len(files) + objects + 10_000 * whole
        if cost < least:
            restored = files - target.changed.keys()
            stale = math.inf if whole else len(files) + objects
            best, least = Start(folder / "obj", files, restored, same_flags, stale), cost
    return best


def compiled_sources(cache: Path, recipe: Recipe) -> frozenset[str] | None:
    """Files of the source that compiling this configuration reads, as the object tree of an earlier
    build of it says, of this source or one that differs in few files. None: there is none."""
    wanted = _trunk_of(recipe)
    alike = (wanted.arch, wanted.compiler, wanted.config)
    for folder, trunk in _trunks(cache):
        same = (trunk.arch, trunk.compiler, trunk.config) == alike
        if same and _different_files(folder, trunk, wanted) is not None:
            records = _records(folder / "obj")
            names = {name for record in records for name in _SOURCE_FILE.findall(record)}
            return frozenset(map(os.fsdecode, names))
    return None


def _records(objects: Path) -> Iterator[bytes]:
    """Of each object what it was compiled from and by, as Kbuild's .NAME.o.cmd has it."""
    for folder, _folders, files in os.walk(objects):
        for file in files:
            if file.endswith(".cmd"):
                yield leavings.read(objects, str(Path(folder, file).relative_to(objects)))


def keep(cache: Path, recipe: Recipe, objects: Path) -> None:
    """Move the object tree of a finished build into the trunks; drop the oldest ones."""
    place = cache / "trunks" / f"{recipe.digest}{foreign_suffix(recipe.foreign)}"
    if place.exists():
        return
    leavings.disarm(objects)
    readers = Counter(
        f"CONFIG_{option.decode('ascii', 'replace')}"
        for record in _records(objects)
        for option in set(_READ_OPTION.findall(record))
    )
    config = leavings.read_text(objects, ".config")
    trunk = replace(_trunk_of(recipe, config), readers=dict(readers))
    aside = objects.parent / "trunk"
    aside.mkdir()
    objects.rename(aside / "obj")
    (aside / "trunk.json").write_bytes(adapter(_Trunk).dump_json(trunk))
    place.parent.mkdir(parents=True, exist_ok=True)
    whole.into_place(aside, place)
    alike = (folder for folder, trunk in _trunks(cache) if trunk.arch == recipe.arch.name)
    with suppress(FileNotFoundError):  # another build drops them now; the next one drops the rest
        newest = sorted(alike, key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in newest[KEEP:]:
            if time.time() - folder.stat().st_mtime > _IN_USE_S:
                whole.remove(folder, cache / "work")


def _different_files(folder: Path, trunk: _Trunk, target: _Trunk) -> frozenset[str] | None:
    """Files of the target that the trunk in that folder had otherwise or not at all. None where
    they are too many, not known, or where make would not see what is different."""

    def differing(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
        return {path for path in {**before, **after} if before.get(path) != after.get(path)}

    if trunk.namesakes != target.namesakes:
        return None
    files = differing(trunk.changed, target.changed)
    if trunk.source != target.source:
        # A file changed on both sides in the same way is the same file only if both say so;
        # taking it as different costs one compilation and can never be wrong.
        try:
            files |= differing(read_manifest(trunk.tree), read_manifest(target.tree))
        except (OSError, ValueError):
            return None
    there = {
        path
        for path in files - target.deleted
        if path in target.changed or os.path.lexists(target.tree / path)
    }
    if len(there) > MOST_FILES:
        return None
    # Make compiles again what read a file that is gone, but takes the file's own object for up to
    # date where a Makefile still asks for it. And a link has no time stamp of its own that make
    # would look at.
    listed = {PurePosixPath(path).parent for path in files if path.endswith(("Makefile", "Kbuild"))}
    gone = [PurePosixPath(path) for path in files - there if path.endswith((".c", ".S"))]
    alone = (path for path in gone if path.parent not in listed)
    stale = any((folder / "obj" / path.with_suffix(".o")).exists() for path in alone)
    linked = any((target.tree / path).is_symlink() for path in there)
    return None if stale or linked else frozenset(there)


def _trunks(cache: Path) -> Iterator[tuple[Path, _Trunk]]:
    for record in sorted((cache / "trunks").glob("*/trunk.json")):
        try:
            # Of the future, after a clock was set back: make would not see what is changed now.
            if record.stat().st_mtime <= time.time():
                yield record.parent, adapter(_Trunk).validate_python(values_in(record))
        except (OSError, ValueError):
            whole.remove(record.parent, cache / "work")
