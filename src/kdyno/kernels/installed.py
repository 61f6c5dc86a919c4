# SPDX-License-Identifier: MIT
"""Kernels that somebody else built, as they are installed: ``image`` of an experiment.

A package is fetched and checked by apt, or is a file; what is taken of it is the kernel, its
configuration and its modules. Its digest is that of this content, so that a package and the same
kernel installed here are one image. All of it is unpacked in the sandbox, within sizes.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kdyno import deferred, whole
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.image import Image
from kdyno.kernels.sources import tree as trees
from kdyno.kernels.sources.tree import Progress, Request, SourceSpec
from kdyno.reading.checked import values_in
from kdyno.reading.mistakes import meant
from kdyno.sandbox import confined

_offered: Callable[..., Any] = deferred("kdyno.kernels.sources.debian:offered")
_sha256_of: Callable[[Path], str] = deferred("kdyno.kernels.sources.archive:sha256_of")

FORMS: Mapping[str, str] = {
    "debian": "debian:PACKAGE or debian:PACKAGE=VERSION, for example debian:linux-image-amd64",
    "deb": "deb:FILE",
    "rpm": "rpm:FILE",
    "path": "path:FILE, for example path:/boot/vmlinuz-6.1.0-50-amd64, its modules in /lib/modules",
}
"""Kind of image → how it is written."""
MOST_BYTES = 4_000_000_000
"""Of all that is unpacked. Debian's 6.1 with its modules has 400 MB, with debug data the double."""
_MOST_KERNEL_BYTES = 512 << 20
_MOST_CONFIG = 4 << 20
_FORMAT = 1
"""Raise it when what is kept of a package changes."""
_PACKAGE = re.compile(r"([a-z0-9][a-z0-9+.-]+)(?:=([A-Za-z0-9.+:~-]+))?")
_LEADS_TO = re.compile(r"(?:^|[,\s])(linux-image-[a-z0-9+.-]+) \(= ([^)\s]+)\)")
_MOST_STEPS = 4
_KERNEL = re.compile(
    r"(?:boot/vmlinuz-(?P<boot>\d[\w.+~-]*)|(?:usr/)?lib/modules/(?P<lib>\d[\w.+~-]*)/vmlinuz)"
)
_MODULE = re.compile(r"(?:usr/)?lib/modules/(\d[\w.+~-]*)/(kernel/.+\.ko(?:\.(?:xz|zst|gz))?)")
_MODULE_LISTS = ("modules.builtin", "modules.builtin.modinfo", "modules.order")
_COMPILER = re.compile(r'^CONFIG_CC_VERSION_TEXT="(.*)"$', re.MULTILINE)
_OPTION = re.compile(r"^CONFIG_(\w+)=(.*)$", re.MULTILINE)
_PACKERS = {
    b"\xfd7zXZ\0": "xz -dc",
    b"\x1f\x8b": "gzip -dc",
    b"BZh": "bzip2 -dc",
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"\x02\x21\x4c\x18": "lz4 -dc",
    b"\x5d\0\0": "xz --format=lzma -dc",
}


class _Files(NamedTuple):
    """What of a package or a system is taken: name in the image → file."""

    version: str
    files: Mapping[str, Path]


def parse(text: str) -> SourceSpec:
    """Take ``KIND:REST`` apart. UsageError says what is wrong with it and what is allowed."""
    kind, colon, rest = text.partition(":")
    if not colon or not rest or kind not in FORMS:
        hint = meant(kind, FORMS, " Did you mean {}:?")
        raise UsageError(
            f"image {text!r} is no installed kernel.{hint} Allowed: {'; '.join(FORMS.values())}"
        )
    if kind == "debian" and not _PACKAGE.fullmatch(rest):
        raise UsageError(f"image {text!r}: {rest!r} is not a Debian package. {FORMS['debian']}")
    return SourceSpec(kind, rest)


def at_hand(spec: SourceSpec, cache: Path) -> bool:
    """Whether ``fetch`` needs no network."""
    return spec.kind != "debian" or _recorded(cache, _record_of(spec, cache)) is not None


def fetch(spec: SourceSpec, cache: Path, progress: Progress, *, refresh: bool = False) -> Image:
    """The image of ``spec``, fetched and unpacked into ``cache`` unless it is there already.

    refresh: the package's newest version, where another was fetched before. UsageError for what
    is no kernel or is not in the archive, ToolError for a network, disk or program that failed.
    """
    request = Request(spec, cache, progress, refresh)
    with whole.cache_errors(cache, MOST_BYTES // 4):
        if spec.kind == "debian":
            image, facts = _of_archive(request)
        else:
            file = Path(spec.rest)
            collect = partial(_of_system, file) if spec.kind == "path" else None
            image = _installed(request, collect) if collect else _of_file(request, file)
            facts = {}
    return replace(image, build={**image.build, "source": str(spec), **facts})


def _record_of(spec: SourceSpec, cache: Path) -> Path:
    return cache / "sources" / "debian" / f"image-{spec.rest}.json"


def _recorded(cache: Path, record: Path) -> Image | None:
    data = trees.read_json(record)
    return find(cache, str(data.get("image"))) if data else None


def find(cache: Path, digest: str) -> Image | None:
    """The image of this digest, where it is in the cache."""
    folder = cache / "installed" / digest
    try:
        build = values_in(folder / "build.json")
        arch, version = build["inputs"]["arch"], build["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    bits = 64 if arch == "x86_64" else 32
    return Image(digest, folder, arch, bits, version, build, installed=True)


def _of_archive(request: Request) -> tuple[Image, dict[str, str]]:
    """By apt; a package without a kernel, as linux-image-amd64, leads to the one that has it."""
    record = _record_of(request.spec, request.cache)
    before = trees.read_json(record) or {}
    if not request.refresh and (image := _recorded(request.cache, record)) is not None:
        return image, {"package": str(before.get("package"))}
    match = _PACKAGE.fullmatch(request.spec.rest)
    assert match is not None
    name, version = match[1], match[2] or ""
    with request.locked("debian"):  # the lists are shared by all packages
        for _step in range(_MOST_STEPS):
            apt, version = _offered(request, name, version, "linux-image")
            further = _LEADS_TO.search(apt.depends(name, version))
            if further is None:
                break
            name, version = further[1], further[2]
        package = f"{name} {version}"
        image = _recorded(request.cache, record)
        if image is None or before.get("package") != package:
            with request.scratch() as scratch:
                whole.require_space(request.cache, MOST_BYTES // 4)
                file = apt.download(name, version, scratch, request.progress)
                image = _of_file(replace(request, spec=SourceSpec("deb", str(file))), file)
    facts = {"package": package}
    trees.write_json(record, {"source": str(request.spec), "image": image.digest, **facts})
    return image, facts


def _of_file(request: Request, file: Path) -> Image:
    """Of a package's file; unpacked once for the same content."""
    checksum = _sha256_of(file)
    record = request.cache / "sources" / "packages" / f"{_FORMAT}-{checksum}.json"
    if (image := _recorded(request.cache, record)) is not None:
        return image
    origin = f"{request.spec.kind}:{file.name}"

    def unpack(scratch: Path) -> _Files:
        into = scratch / "package"
        into.mkdir()
        reader, writer = {
            "deb": ("dpkg-deb --fsys-tarfile {}", "tar --extract --no-same-owner -C {}"),
            "rpm": ("rpm2cpio {}", "cpio -idm --quiet --no-absolute-filenames -D {}"),
        }[request.spec.kind]
        for program in (reader, writer):
            if shutil.which(program.split()[0]) is None:
                missing = program.split()[0]
                install = {"dpkg-deb": "dpkg"}.get(missing, missing)
                raise ToolError(f"image {origin} needs {missing}: apt-get install {install}")
        request.progress(f"unpacking {file.name}", None)
        places = (shlex.quote(str(path.absolute())) for path in (file, into))
        line = f"{reader} | head -c {MOST_BYTES} | {writer}".format(*places)
        # tar and cpio fail where they are given no whole archive.
        trees.run(confined(["sh", "-c", line], reads=[file], writes=[into]), called=[line])
        return _of_package(into, origin)

    image = _installed(request, unpack)
    trees.write_json(record, {"source": origin, "image": image.digest})
    return image


def _of_package(root: Path, origin: str) -> _Files:
    """The files of an unpacked package. Links are not followed: it may have them lead anywhere."""
    paths = [
        path for path, status in trees.walk(str(root)) if (status.st_mode & 0o170000) == 0o100000
    ]
    kernels = {
        match["boot"] or match["lib"]: path for path in paths if (match := _KERNEL.fullmatch(path))
    }
    if len(kernels) != 1:
        raise UsageError(
            f"image {origin}: the package holds {len(kernels)} kernels (boot/vmlinuz-VERSION); the "
            "package of an installed kernel holds one"
        )
    ((version, kernel),) = kernels.items()
    files = {"vmlinuz": root / kernel}
    for path in paths:
        folder, _, name = path.rpartition("/")
        if path == f"boot/config-{version}" or path.endswith(f"lib/modules/{version}/config"):
            files["config"] = root / path
        elif (match := _MODULE.fullmatch(path)) and match[1] == version:
            files[f"modules/{version}/{match[2]}"] = root / path
        elif name in _MODULE_LISTS and folder.endswith(f"lib/modules/{version}"):
            files[f"modules/{version}/{name}"] = root / path
    return _Files(version, files)


def _of_system(kernel: Path, _scratch: Path, modules: Path = Path("/lib/modules")) -> _Files:
    """Of a kernel that is installed here."""
    origin = f"path:{kernel}"
    if not kernel.name.startswith("vmlinuz-"):
        raise UsageError(
            f"image {origin}: the file's name does not tell its version: vmlinuz-VERSION"
        )
    version = kernel.name.removeprefix("vmlinuz-")
    files = {"vmlinuz": kernel, "config": kernel.with_name(f"config-{version}")}
    for file in files.values():
        if not file.is_file():
            raise UsageError(f"image {origin}: there is no file {file}")
    home = modules / version
    for path, _status in trees.walk(str(home)) if home.is_dir() else ():
        if path in _MODULE_LISTS or _MODULE.fullmatch(f"lib/modules/{version}/{path}"):
            files[f"modules/{version}/{path}"] = home / path
    return _Files(version, files)


def _installed(request: Request, collect: Callable[[Path], _Files]) -> Image:
    """Put what is collected into the cache, whole or not at all, under its digest."""
    origin = str(request.spec)
    home = request.cache / "installed"
    home.mkdir(parents=True, exist_ok=True)
    with whole.scratch("image", home) as scratch:
        version, files = collect(scratch)
        if "config" not in files:
            raise UsageError(
                f"image {origin}: there is no configuration (config-{version}) with it"
            )
        ready = scratch / "ready"
        for name, file in files.items():
            place = ready / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if file.is_relative_to(scratch):
                file.rename(place)
            else:
                shutil.copyfile(file, place)
            place.chmod(0o644)
        lines = trees.manifest_lines(ready, list(trees.walk(str(ready))), origin, request.progress)
        digest = trees.digest_of([f"installed {_FORMAT}", *lines])[:32]
        if (image := find(request.cache, digest)) is not None:
            return image
        with (ready / "config").open(encoding="utf-8", errors="replace") as config:
            text = config.read(_MOST_CONFIG)
        arch = architecture(text, origin)
        kernel = unpacked_kernel(ready / "vmlinuz", origin)
        (ready / "linux").write_bytes(kernel)
        compiler = _COMPILER.search(text)
        build = {
            "inputs": {"arch": arch, "compiler": compiler[1] if compiler else "not recorded"},
            "version": version,
            "options": dict(_OPTION.findall(text)),
        }
        (ready / "build.json").write_text(json.dumps(build, indent=1), encoding="utf-8")
        if (home / digest).exists():  # damaged: find would have read it
            (home / digest).rename(scratch / "damaged")
        whole.into_place(ready, home / digest)
    image = find(request.cache, digest)
    if image is None:
        raise ToolError(f"{home / digest}: written, but it cannot be read back")
    return image


def architecture(config: str, origin: str) -> str:
    """``x86_64`` or ``i386``, as a configuration says; UsageError for others."""
    if "\nCONFIG_X86=y\n" not in config:
        raise UsageError(f"image {origin} is not a kernel for x86: kdyno boots those alone")
    return "x86_64" if "\nCONFIG_X86_64=y\n" in config else "i386"


def unpacked_kernel(vmlinuz: Path, origin: str) -> bytes:
    """The ELF file that a bzImage carries (Documentation/arch/x86/boot.rst in Linux: payload_offset
    and payload_length count from the end of the setup sectors)."""
    with vmlinuz.open("rb") as file:
        head = file.read(0x250)
        if len(head) < 0x250 or head[0x202:0x206] != b"HdrS":
            raise UsageError(f"image {origin}: the kernel is no bzImage of x86")
        (offset, length) = struct.unpack_from("<II", head, 0x248)
        start = ((head[0x1F1] or 4) + 1) * 512 + offset
        file.seek(start)
        magic = file.read(6)
    if magic[:2] != b"\x1f\x8b":
        length -= 4  # the size that comes out, for the loader
    kernel = decompressed(vmlinuz, _MOST_KERNEL_BYTES, start, length, magic)
    if not kernel.startswith(b"\x7fELF"):
        raise UsageError(f"image {origin}: what its bzImage carries is no ELF file")
    return kernel


def decompressed(
    file: Path, most_bytes: int, start: int = 0, length: int = 1 << 40, magic: bytes = b""
) -> bytes:
    """A packed part of a file, or a file that is not packed, in the sandbox. ToolError."""
    if not magic:
        with file.open("rb") as stream:
            magic = stream.read(6)
    packer = next((how for mark, how in _PACKERS.items() if magic.startswith(mark)), None)
    if packer is None:
        return file.read_bytes()[:most_bytes]
    if shutil.which(packer.split()[0]) is None:
        raise ToolError(f"{file.name} is packed: {packer.split()[0]} is not installed")
    line = f'tail -c +{start + 1} "$0" | head -c {length} | {packer} | head -c {most_bytes}'
    return trees.run(
        confined(["sh", "-c", line, str(file.absolute())], reads=[file]), called=[line]
    )


def differing(
    options: Mapping[str, Mapping[str, str]],
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """(option, variant → value) where configurations differ; ``n`` where it is not set."""
    for name in sorted({name for own in options.values() for name in own}):
        values = {variant: own.get(name, "n") for variant, own in options.items()}
        if len(set(values.values())) > 1:
            yield name, values
