# SPDX-License-Identifier: MIT
"""Kernels that somebody else built, as they are installed: ``image`` of an experiment; the modules
that a guest needs of them, and their symbols. What is taken of a package or a system is the kernel,
its configuration and its modules, and the digest is that of this content: a package and the same
kernel installed here are one image. All of it is unpacked in the sandbox, within sizes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from kdyno import deferred, whole
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.image import Image
from kdyno.kernels.sources import tree as trees
from kdyno.kernels.sources.tree import Progress, Request, SourceSpec
from kdyno.reading.checked import values_in
from kdyno.reading.mistakes import meant
from kdyno.sandbox import confined

_offered: Callable[..., Any] = deferred("kdyno.kernels.sources.debian:offered")

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
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+(?:=[A-Za-z0-9.+:~-]+)?")
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
    **{mark: f"{program} -dc" for mark, program in trees.PACKERS.items()},
    b"\x02\x21\x4c\x18": "lz4 -dc",
    b"\x5d\0\0": "xz --format=lzma -dc",
}
_Files = tuple[str, Mapping[str, Path]]
"""What of a package or a system is taken: its version, and name in the image → file."""


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
    record = cache / "sources" / "debian" / f"image-{spec.rest}.json"
    return spec.kind != "debian" or _recorded(cache, record) is not None


def fetch(spec: SourceSpec, cache: Path, progress: Progress, *, refresh: bool = False) -> Image:
    """The image of ``spec``, fetched and unpacked into ``cache`` unless it is there already.
    refresh: the package's newest version, where another was fetched before. UsageError for what is
    no kernel or is not in the archive, ToolError for a network, disk or program that failed."""
    request = Request(spec, cache, progress, refresh)
    with whole.cache_errors(cache, MOST_BYTES // 4):
        facts: dict[str, str] = {}
        if spec.kind == "debian":
            image, facts = _of_archive(request)
        elif spec.kind == "path":
            image = _installed(request, partial(_of_system, Path(spec.rest)))
        else:
            image = _of_file(request, Path(spec.rest))
    return replace(image, build={**image.build, "source": str(spec), **facts})


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
    record = request.home / f"image-{request.spec.rest}.json"
    before = trees.read_json(record) or {}
    if not request.refresh and (image := _recorded(request.cache, record)) is not None:
        return image, {"package": str(before.get("package"))}
    name, _, version = request.spec.rest.partition("=")
    with request.locked("debian"):  # the lists are shared by all packages
        for _step in range(_MOST_STEPS):
            apt, version = _offered(request, name, version, "linux-image")
            if (further := _LEADS_TO.search(apt.depends(name, version))) is None:
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
    checksum = trees.sha256_of(file)
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
        for program in (reader.split()[0], writer.split()[0]):
            if shutil.which(program) is None:
                install = {"dpkg-deb": "dpkg"}.get(program, program)
                raise ToolError(f"image {origin} needs {program}: apt-get install {install}")
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
    paths = [path for path, status in trees.walk(str(root)) if stat.S_ISREG(status.st_mode)]
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
    return version, files


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
    return version, files


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
            elif os.access(file, os.R_OK):
                shutil.copyfile(file, place)
            else:
                raise UsageError(
                    f"image {origin}: this user cannot read {file}. sudo chmod a+r {file} lets "
                    "everybody read it"
                )
            place.chmod(0o644)
        lines = trees.manifest_lines(ready, list(trees.walk(str(ready))), origin, request.progress)
        digest = trees.digest_of([f"installed {_FORMAT}", *lines])[:32]
        if (image := find(request.cache, digest)) is not None:
            return image
        with (ready / "config").open(encoding="utf-8", errors="replace") as config:
            text = config.read(_MOST_CONFIG)
        arch = architecture(text, origin)
        (ready / "linux").write_bytes(unpacked_kernel(ready / "vmlinuz", origin))
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
    if (image := find(request.cache, digest)) is None:
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
        file.seek(start + length - 4)
        size = file.read(4)  # of what comes out, for the loader; gzip itself ends with that
    if magic[:2] != b"\x1f\x8b":
        length -= 4
    kernel = decompressed(vmlinuz, _MOST_KERNEL_BYTES, start, length, magic)
    if not kernel.startswith(b"\x7fELF"):
        raise UsageError(f"image {origin}: what its bzImage carries is no ELF file")
    if size != struct.pack("<I", len(kernel)):
        raise UsageError(f"image {origin}: its bzImage is damaged or cut short")
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
    inside = confined(["sh", "-c", line, str(file.absolute())], reads=[file])
    return trees.run(inside, called=[line])


def differing(options: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """(option, variant → value) where configurations differ; ``n`` where it is not set."""
    for name in sorted({name for own in options.values() for name in own}):
        values = {variant: own.get(name, "n") for variant, own in options.items()}
        if len(set(values.values())) > 1:
            yield name, values


# Modules that a guest needs before it can be spoken to, in their order. A package has no
# modules.dep: depmod makes it where the package is installed. What it is made of stands in each
# module: ``depends`` and ``softdep``, in its section .modinfo.
_MOST_MODULE_BYTES = 32 << 20
_MOST_MODULES = 100
_DEPENDS = re.compile(rb"(?:^|\0)depends=([\w,-]*)\0")
_SOFT = re.compile(rb"(?:^|\0)softdep=pre: ([\w -]*?)(?: post:[^\0]*)?\0")
_PARTS = re.compile(r"\.ko(?:\.\w+)?$")


def name_of(file: str) -> str:
    """As the kernel calls a module: ``9pnet_virtio`` of ``kernel/net/9p/9pnet_virtio.ko.xz``."""
    return _PARTS.sub("", file.rpartition("/")[2]).replace("-", "_")


def needed(image: Image, names: Iterable[str]) -> tuple[tuple[str, bytes], ...]:
    """(name, content) of the modules ``names`` and of what they depend on, as they are to be
    loaded; nothing for what is built into the kernel. UsageError where one is neither."""
    files = {name_of(path.name): path for path in sorted(image.modules.glob("kernel/**/*.ko*"))}
    listed = image.modules / "modules.builtin"
    lines = listed.read_text("utf-8", "replace").splitlines() if listed.is_file() else ()
    builtin = frozenset(map(name_of, lines))
    order: dict[str, bytes] = {}
    begun = set[str]()

    def add(name: str, by: str, soft: bool = False) -> None:
        # The kernel asks for crc32c and the like by an alias; generic code answers everywhere.
        names = (name, f"{name}_generic")
        own = next((each for each in names if each in files or each in builtin), None)
        if own is None and not soft:
            raise UsageError(
                f"image {image.build.get('source')}: its kernel has no {name}, neither built in "
                f"nor as a module, and {by} needs it"
            )
        if own is None or own in builtin or own in begun or len(begun) >= _MOST_MODULES:
            return
        begun.add(own)  # two that need each other, which no kernel builds, have no order
        content = decompressed(files[own], _MOST_MODULE_BYTES)
        hard, softs = _DEPENDS.search(content), _SOFT.findall(content)
        for other in hard[1].decode().split(",") if hard else ():
            if other:
                add(other.replace("-", "_"), own)
        for other in b" ".join(softs).decode().split():
            add(other.replace("-", "_"), own, soft=True)
        order[own] = content

    for name in names:
        add(name, "a guest in QEMU")
    return tuple(order.items())


# The functions of a kernel's ELF file that was stripped, by the table that the kernel itself has.
# Debian's packages have no System.map but that of the package with debug data. What /proc/kallsyms
# shows lies in the file's read-only data (scripts/kallsyms.c in Linux): names, compressed by a
# table of 256 tokens, and 32-bit offsets from a base. Nothing says where; the tokens of the digits,
# which stand for themselves, and a table that fits them do. The order of the parts changed in 6.4.
SYMBOLS = "System.map"
"""The file beside an installed image with its functions."""
_DIGITS = re.compile(b"".join(b"%d\0" % digit for digit in range(10)))
_TOKENS = 256
_EACH = 256
"""Symbols between two entries of the table of markers."""
_FEWEST_SYMBOLS, _MOST_SYMBOLS = 4000, 2_000_000
_MOST_NAME_BYTES = 512
_BASE_AND_NUMBER = re.compile(
    rb"\0\0[\0\x20\x40\x60\x80\xa0\xc0\xe0][\x80-\xbf]\xff{4}[\0-\xff]{2}[\0-\x1f]\0{5}"
)
"""A base, which is that of the kernel's text and so a multiple of 2 MiB, and a number of symbols
below two million, each in 8 bytes."""
_NAME = re.compile(rb"[A-Za-z][\x21-\x7e]+")


def symbols(image: Image) -> Path:
    """The file with the symbols of an installed image, made when it is asked for first."""
    file = image.folder / SYMBOLS
    if not file.is_file():
        percpu = "KALLSYMS_ABSOLUTE_PERCPU" in image.build["options"]
        whole.write(file, "".join(f"{line}\n" for line in lines(image.kernel, percpu)).encode())
    return file


def lines(kernel: Path, percpu: bool) -> Iterator[str]:
    """``ADDRESS KIND NAME`` of each symbol, as ``nm`` has it; ToolError where there is no table.
    percpu: CONFIG_KALLSYMS_ABSOLUTE_PERCPU, by which offsets of code are negative."""
    data = kernel.read_bytes()
    with suppress(struct.error):  # a table that is cut short
        for digits in _DIGITS.finditer(data):
            for start, tokens in _tables(data, digits.start()):
                after = _even(start + len(b"".join(tokens)) + _TOKENS) + 2 * _TOKENS
                for names, offsets, base in _parts(data, start, after):
                    yield from _symbols(data, names, offsets, base, tokens, percpu)
                    return
    raise ToolError(f"{kernel}: no table of symbols in it (CONFIG_KALLSYMS)")


def _tables(data: bytes, digits: int) -> Iterator[tuple[int, list[bytes]]]:
    """(beginning, tokens) of the table in which the digits stand, each at its own number."""
    second = digits
    for _token in range(ord("0") - 1):
        second = data.rfind(b"\0", 0, second - 1) + 1
        if digits - second > 1 << 12:
            return
    # What lies before the first token need not end in a zero.
    for start in range((second - 2) // 8 * 8, max(0, second - _MOST_NAME_BYTES), -8):
        tokens = data[start : start + (1 << 14)].split(b"\0", _TOKENS)[:_TOKENS]
        *places, at = accumulate((len(token) + 1 for token in tokens), initial=0)
        index = data[_even(start + at) : _even(start + at) + 2 * _TOKENS]
        if len(tokens) == _TOKENS and index == struct.pack(f"<{len(places)}H", *places):
            yield start, tokens
            return


def _parts(data: bytes, tokens: int, after: int) -> Iterator[tuple[list[bytes], int, int]]:
    """(packed names, place of the offsets, base)."""
    # Until 6.4: offsets, base, number, names, markers.
    for match in _BASE_AND_NUMBER.finditer(data):
        base, count = struct.unpack("<QI", match[0][:12])
        if (names := _names(data, match.end(), count)) is not None:
            yield names, match.start() - _even(4 * count), base
    # Since: number, names, markers, tokens, their index, offsets, base.
    end = tokens - 4 if data[tokens - 4 : tokens] == bytes(4) else tokens
    marks = [struct.unpack_from("<I", data, end - 4)[0]]
    while marks[-1] and len(marks) < _MOST_SYMBOLS // _EACH:
        marks.append(struct.unpack_from("<I", data, end - 4 * (len(marks) + 1))[0])
        if marks[-1] >= marks[-2]:
            return
    last = _even(end - 4 * len(marks) - marks[0])
    for start in range(last, max(8, last - _EACH * _MOST_NAME_BYTES), -8):
        (count,) = struct.unpack_from("<I", data, start - 8)
        if -(-count // _EACH) == len(marks) and (names := _names(data, start, count)) is not None:
            yield names, after, struct.unpack_from("<Q", data, after + _even(4 * count))[0]


def _even(size: int) -> int:
    """The next multiple of 8."""
    return -(-size // 8) * 8


def _names(data: bytes, start: int, count: int) -> list[bytes] | None:
    """Packed; None where the markers that follow them do not fit."""
    names, marks, at = list[bytes](), list[int](), start
    if not _FEWEST_SYMBOLS < count < _MOST_SYMBOLS:
        return None
    for number in range(count):
        if number % _EACH == 0:
            marks.append(at - start)
        if at + 2 > len(data):
            return None
        length = data[at]
        at += 1
        if length & 0x80:  # since 6.1
            length = length & 0x7F | data[at] << 7
            at += 1
        names.append(data[at : at + length])
        at += length
    table = struct.pack(f"<{len(marks)}I", *marks)
    return names if data[_even(at) : _even(at) + len(table)] == table else None


def _symbols(
    data: bytes, names: list[bytes], offsets: int, base: int, tokens: list[bytes], percpu: bool
) -> Iterator[str]:
    numbers = struct.iter_unpack("<i", data[offsets : offsets + 4 * len(names)])
    for packed, (offset,) in zip(names, numbers, strict=False):
        symbol = b"".join(tokens[byte] for byte in packed)
        if percpu:
            address = base - 1 - offset if offset < 0 else offset
        else:
            address = base + (offset & 0xFFFFFFFF)
        if len(symbol) < _MOST_NAME_BYTES and _NAME.fullmatch(symbol):
            yield f"{address:016x} {chr(symbol[0])} {symbol[1:].decode('ascii')}"
