# SPDX-License-Identifier: MIT
"""Kernels that somebody else built: which they are, what is taken of a package, what is refused.

Packages are packed here by dpkg-deb; their kernel is a bzImage with a few bytes of ELF in it.
"""

from __future__ import annotations

import gzip
import lzma
import os
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_tree import FakeApt, make_deb
from needed import need
from test_qemu import request, words
from toy_kernel import write_files

from kdyno.errors import ToolError, UsageError
from kdyno.experiment.loader import parse
from kdyno.experiment.model import Experiment, Variant
from kdyno.kernels import installed
from kdyno.kernels.image import KEXEC, Image, release_of
from kdyno.machines.cpus import place
from kdyno.machines.machine import Method, Setup
from kdyno.machines.qemu import Chance, Qemu, first_files
from kdyno.measure import builder
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import cache_root
from kdyno.report.page import options_section

VERSION = "6.1.0-50-amd64"
CONFIG = (
    '#\nCONFIG_CC_VERSION_TEXT="gcc-12 (Debian 12.2.0-14) 12.2.0"\nCONFIG_X86=y\n'
    "CONFIG_X86_64=y\nCONFIG_SMP=y\nCONFIG_HZ=250\nCONFIG_PVH=y\n"
)
ELF = b"\x7fELF" + b"kernel" * 100


def quiet(_text: str, _part: float | None) -> None:
    pass


def bzimage(content: bytes = ELF) -> bytes:
    """As Documentation/arch/x86/boot.rst has it: setup sectors, code, what is packed."""
    payload = gzip.compress(content, mtime=0)
    head = bytearray(3 * 512)
    head[0x1F1] = 2
    head[0x202:0x208] = b"HdrS\x0f\x02"
    struct.pack_into("<II", head, 0x248, 64, len(payload))
    return bytes(head) + b"\xcc" * 64 + payload + b"\0" * 32


def kernel_files(root: Path) -> Path:
    files = {
        f"boot/vmlinuz-{VERSION}": bzimage(),
        f"boot/config-{VERSION}": CONFIG,
        f"lib/modules/{VERSION}/kernel/drivers/virtio/virtio.ko": b"\0depends=\0",
        f"lib/modules/{VERSION}/modules.builtin": "kernel/fs/ext4.ko\n",
        f"lib/modules/{VERSION}/modules.dep": "what depmod made\n",
        "usr/share/doc/x": "no kernel",
    }
    return write_files(root, files)


def packed(root: Path, version: str = "6.1.170-1") -> Path:
    return make_deb(root, f"linux-image-{VERSION}", version)


def fetched(image: str, cache: Path, *, refresh: bool = False) -> Image:
    return installed.fetch(installed.parse(image), cache, quiet, refresh=refresh)


@pytest.mark.needs("dpkg-deb")
def test_of_a_package_kernel_config_and_modules_are_kept_and_recorded(tmp_path: Path) -> None:
    file = packed(kernel_files(tmp_path / "package"))
    image = fetched(f"deb:{file}", tmp_path / "cache")
    assert (image.version, image.arch, image.word_bits, image.smp) == (VERSION, "x86_64", 64, True)
    assert image.installed and image.digest == image.folder.name
    assert image.kernel.read_bytes() == ELF
    assert image.vmlinuz.read_bytes() == bzimage()
    names = {
        str(path.relative_to(image.modules)) for path in image.modules.rglob("*") if path.is_file()
    }
    assert names == {"kernel/drivers/virtio/virtio.ko", "modules.builtin"}
    assert image.build["inputs"]["compiler"] == "gcc-12 (Debian 12.2.0-14) 12.2.0"
    assert image.build["source"] == f"deb:{file}"
    assert image.build["options"]["HZ"] == "250"
    assert fetched(f"deb:{file}", tmp_path / "cache") == image
    # The same kernel, installed here, is the same image.
    home = kernel_files(tmp_path / "system")
    file = home / f"boot/vmlinuz-{VERSION}"
    request = installed.Request(installed.parse(f"path:{file}"), tmp_path / "cache", quiet)
    own = installed._installed(
        request, lambda scratch: installed._of_system(file, scratch, home / "lib/modules")
    )
    assert own.digest == image.digest


@pytest.mark.slow
@pytest.mark.needs("rpmbuild", "rpm2cpio", "cpio")
def test_an_rpm_has_its_kernel_beside_its_modules(tmp_path: Path) -> None:
    root = kernel_files(tmp_path / "root")
    for name, file in (("vmlinuz", f"vmlinuz-{VERSION}"), ("config", f"config-{VERSION}")):
        (root / "boot" / file).rename(root / "lib/modules" / VERSION / name)
    spec = tmp_path / "toy.spec"
    spec.write_text(
        "Name: kernel-core\nVersion: 6.1.0\nRelease: 1\nSummary: toy\nLicense: MIT\n"
        "AutoReqProv: no\n%global __os_install_post %{nil}\n%global debug_package %{nil}\n"
        f"%description\ntoy\n%install\ncp -r {root}/lib %{{buildroot}}/\n%files\n/lib\n"
    )
    line = ["rpmbuild", "-bb", "--quiet", "--define", f"_topdir {tmp_path}/rpm", str(spec)]
    subprocess.run(line, check=True, capture_output=True)
    (file_of,) = (tmp_path / "rpm").rglob("*.rpm")
    image = fetched(f"rpm:{file_of}", tmp_path / "cache")
    assert image.version == VERSION and image.kernel.read_bytes() == ELF
    assert (image.modules / "kernel/drivers/virtio/virtio.ko").is_file()


@pytest.mark.slow
@pytest.mark.needs("dpkg-deb")
def test_other_content_is_another_image(tmp_path: Path) -> None:
    first = fetched(f"deb:{packed(kernel_files(tmp_path / 'a'))}", tmp_path / "cache")
    root = kernel_files(tmp_path / "b")
    (root / f"boot/config-{VERSION}").write_text(CONFIG + "CONFIG_PREEMPT_RT=y\n")
    other = fetched(f"deb:{packed(root, version='6.1.170-2')}", tmp_path / "cache")
    assert first.digest != other.digest
    options = {"a": first.build["options"], "b": other.build["options"]}
    assert dict(installed.differing(options)) == {"PREEMPT_RT": {"a": "n", "b": "y"}}


def test_a_kernel_that_this_user_cannot_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = kernel_files(tmp_path / "system") / f"boot/vmlinuz-{VERSION}"
    monkeypatch.setattr(os, "access", lambda path, _mode: path != file)  # root may read all
    with pytest.raises(UsageError, match=rf"this user cannot read {file}\. sudo chmod a\+r"):
        fetched(f"path:{file}", tmp_path / "cache")


@pytest.mark.needs("dpkg-deb")
def test_links_of_a_package_lead_nowhere(tmp_path: Path) -> None:
    root = kernel_files(tmp_path / "package")
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    (root / f"boot/config-{VERSION}").unlink()
    (root / f"boot/config-{VERSION}").symlink_to(secret)
    with pytest.raises(UsageError, match="there is no configuration"):
        fetched(f"deb:{packed(root)}", tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache/installed").iterdir() if path.name[0] != "."]


@pytest.mark.needs("dpkg-deb")
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (f"boot/vmlinuz-{VERSION}", b"MZ no kernel", "is no bzImage"),
        (f"boot/vmlinuz-{VERSION}", bzimage(b"no ELF"), "is no ELF file"),
        (f"boot/vmlinuz-{VERSION}", bzimage()[:-40], "is damaged or cut short"),
        (f"boot/config-{VERSION}", b"CONFIG_ARM64=y\n", "not a kernel for x86"),
        ("boot/vmlinuz-7.0", bzimage(), "holds 2 kernels"),
    ],
)
def test_what_is_no_kernel_is_refused(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    root = kernel_files(tmp_path / "package")
    (root / name).write_bytes(content)
    with pytest.raises(UsageError, match=words):
        fetched(f"deb:{packed(root)}", tmp_path / "cache")


@pytest.mark.needs("dpkg-deb")
def test_a_package_that_is_cut_short_is_a_failure(tmp_path: Path) -> None:
    file = packed(kernel_files(tmp_path / "package"))
    file.write_bytes(file.read_bytes()[:-300])
    with pytest.raises(ToolError, match="failed with status"):
        fetched(f"deb:{file}", tmp_path / "cache")


@pytest.mark.slow
@pytest.mark.needs("dpkg-deb")
def test_a_meta_package_leads_to_the_kernel_and_what_is_gone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, meta, cache = f"linux-image-{VERSION}", "debian:linux-image-amd64", tmp_path / "cache"
    packages = {each: ["6.1.170-1", "6.1.162-1"] for each in (name, "linux-image-amd64")}
    packages |= {"linux-image-cloud-amd64": [], "linux-image-amd64-dbg": []}
    apt = FakeApt(monkeypatch, packed(kernel_files(tmp_path / "package")), packages, name)
    assert not installed.at_hand(installed.parse(meta), cache)
    image = fetched(meta, cache)
    assert image.build["package"] == f"{name} 6.1.170-1"
    assert image.build["source"] == meta
    assert fetched(meta, cache) == image
    assert fetched(meta, cache, refresh=True) == image
    assert fetched(f"{meta}=6.1.162-1", cache).digest == image.digest
    assert apt.downloads == [f"{name} 6.1.170-1", f"{name} 6.1.162-1"]
    assert installed.at_hand(installed.parse(meta), cache)
    absent = r"as 6\.1\.170-1, 6\.1\.162-1, not as 6\.1\.1-1.*deb:FILE"
    with pytest.raises(UsageError, match=absent):
        fetched(f"{meta}=6.1.1-1", cache)
    with pytest.raises(UsageError, match="Did you mean linux-image-amd64") as gone:
        fetched("debian:linux-image-amd46", cache)
    assert "-dbg" not in str(gone.value)


def with_modules(folder: Path, files: dict[str, bytes], builtin: str = "") -> Image:
    image = Image("digest", folder, "x86_64", 64, VERSION, {"source": "deb:x"}, installed=True)
    write_files(image.modules / "kernel", files)
    write_files(folder, {f"modules/{VERSION}/modules.builtin": builtin, "config": CONFIG})
    return image


def test_modules_come_after_what_they_depend_on(tmp_path: Path) -> None:
    """What stands in .modinfo of Debian's own, recorded from 6.1."""
    image = with_modules(
        tmp_path,
        {
            "drivers/virtio/virtio_pci.ko": b"license=GPL\0depends=virtio_ring,virtio\0intree=Y\0",
            "drivers/virtio/virtio_ring.ko": b"\0depends=virtio\0",
            "drivers/virtio/virtio.ko": b"\0depends=\0",
            "fs/ext4/ext4.ko": b"\0softdep=pre: crc32c\0depends=jbd2,mbcache\0",
            "fs/jbd2/jbd2.ko": b"\0depends=crc16\0",
            "fs/mbcache.ko": b"\0depends=\0",
            "crypto/crc32c_generic.ko": b"\0depends=\0",
            "sound/unused.ko": b"\0depends=gone\0",
        },
        "kernel/lib/crc16.ko\nkernel/drivers/char/virtio-console.ko\n",
    )
    modules = installed.needed(image, ("virtio_pci", "virtio_console", "ext4"))
    assert [name for name, _ in modules] == [
        *("virtio", "virtio_ring", "virtio_pci"),
        *("jbd2", "mbcache", "crc32c_generic", "ext4"),
    ]
    with pytest.raises(UsageError, match=r"has no 9p, neither built in nor as a module"):
        installed.needed(image, ("9p",))
    with pytest.raises(UsageError, match=r"has no gone, .*unused needs it"):
        installed.needed(image, ("unused",))
    circle = {"a.ko": b"\0depends=b\0", "b.ko": b"\0depends=a\0"}
    round_trip = installed.needed(with_modules(tmp_path / "circle", circle), ("a",))
    assert [name for name, _ in round_trip] == ["b", "a"]
    # Packed ones are unpacked.
    need("xz")
    content = b"\0depends=\0" + b"code" * 1000
    packed = with_modules(tmp_path / "packed", {"net/9p.ko.xz": lzma.compress(content)})
    assert installed.needed(packed, ("9p",)) == (("9p", content),)


BASE = 0xFFFFFFFF81000000


def table(symbols: list[tuple[int, str]], new: bool) -> bytes:
    """As scripts/kallsyms.c writes it, before 6.4 and since: letters stand for themselves, and one
    token for more of them."""
    tokens = [chr(number) if 32 < number < 127 else "zz" for number in range(256)]
    tokens[1] = "sys_"
    names, marks = b"", []
    for number, (_address, name) in enumerate(symbols):
        if number % 256 == 0:
            marks.append(len(names))
        packed = name.replace("sys_", "\1").encode()
        long = bytes([len(packed) & 0x7F | 0x80, len(packed) >> 7])
        names += (long if len(packed) > 127 else bytes([len(packed)])) + packed

    def part(content: bytes) -> bytes:
        return content + bytes(-len(content) % 8)

    texts = [token.encode() + b"\0" for token in tokens]
    places = [sum(map(len, texts[:at])) for at in range(256)]
    offsets = part(struct.pack(f"<{len(symbols)}i", *(BASE - 1 - symbol[0] for symbol in symbols)))
    base, count = struct.pack("<Q", BASE), part(struct.pack("<I", len(symbols)))
    listed = part(names) + part(struct.pack(f"<{len(marks)}I", *marks))
    coded = part(b"".join(texts)) + part(struct.pack("<256H", *places))
    head = b"\x7fELF" + b"\x90" * 100 + b"\xff" * 24
    if new:
        return head + count + listed + coded + offsets + base
    return head + offsets + base + count + listed + b"seqs-of-names..." + coded


@pytest.mark.parametrize("new", [False, True])
def test_symbols_are_read_as_kallsyms_packs_them(tmp_path: Path, new: bool) -> None:
    symbols = [(BASE + 16 * at, f"tsys_{at}") for at in range(5000)]
    symbols[7] = (BASE + 112, "T" + "long_" * 30)
    file = tmp_path / "vmlinux"
    file.write_bytes(table(symbols, new))
    result = list(installed.lines(file, percpu=True))
    assert len(result) == 5000
    assert result[3] == f"{BASE + 48:016x} t sys_3"
    assert result[7] == f"{BASE + 112:016x} T " + "long_" * 30
    cut = table(symbols, new=True)[:-100]
    for content in (b"\x7fELF" + bytes(10_000), cut):
        file.write_bytes(content)
        with pytest.raises(ToolError, match="no table of symbols"):
            list(installed.lines(file, percpu=True))


@pytest.mark.parametrize("content", [b"", b"x" * 5000])
def test_a_damaged_archive_for_another_machine_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / KEXEC.name).write_bytes(content)
    with pytest.raises(ToolError, match=r"kexec\.tar: damaged; delete the folder"):
        release_of(Image("x", tmp_path, "x86_64", 64, "7.3", {"extracts": [KEXEC.name]}))


def test_an_installed_kernel_gets_its_modules_and_a_pc(tmp_path: Path) -> None:
    files = first_files(b"init", b"{}", Chance.of(0), modules=(("a", b"A" * 5), ("b", b"BB")))
    assert files.index(b"modules/00.ko\0") < files.index(b"A" * 5) < files.index(b"modules/01.ko\0")
    boot = request(sandboxed=True, disk_bytes=1 << 20, modules=lambda _names: ())
    line = words(boot)
    assert "pc,acpi=off,hpet=off,smm=off,usb=off,vmport=off" in line
    assert {"virtio-serial-pci,max_ports=1,ioeventfd=off"} <= set(line)
    assert {"kdyno.installed=yes", "cryptomgr.notests=1", "nokaslr"} <= set(line[-1].split())
    own = words(replace(boot, modules=None))
    assert "virtio-serial-device,max_ports=1" in own and "kdyno.installed=yes" not in own[-1]


IMAGE = 'image = "debian:linux-image-amd64"\n'


def parsed(variants: str, top: str = "") -> Experiment:
    head = f'{top}name = "x"\nbaseline = "a"\n[machine]\nkind = "qemu"\n'
    tail = '[[suite]]\nname = "run"\ncommand = "true"\n'
    return parse(head + variants + tail, "x.toml", Path(), vocabulary({}))


def test_an_image_stands_where_a_source_does() -> None:
    own, shipped = parsed(
        '[kernel]\nsource = "debian:linux-source-7.3"\ncflags = "-O3"\ncmdline = "quiet"\n'
        f"[variant.a]\n[variant.b]\n{IMAGE}sysctl = {{ vm.swappiness = 1 }}\n"
    ).variants
    assert (own.source, own.image, own.cflags) == ("debian:linux-source-7.3", "", "-O3")
    assert (shipped.source, shipped.image) == ("", "debian:linux-image-amd64")
    assert (shipped.cflags, shipped.cmdline) == ("", "quiet")
    assert shipped.sysctl == (("vm.swappiness", "1"),)
    assert parsed(f"[kernel]\n{IMAGE}[variant.a]\n[variant.b]\n")


@pytest.mark.parametrize("skipping", [False, True])
def test_a_point_release_that_is_gone_is_refused_or_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skipping: bool
) -> None:
    image = with_modules(tmp_path, {"x.ko": b""})

    def fetch(spec: installed.SourceSpec, *_more: object, **_words: object) -> Image:
        if spec.rest == "linux-image-gone":
            raise UsageError("the Debian archive has no package linux-image-gone")
        return image

    monkeypatch.setattr(installed, "fetch", fetch)
    gone = 'image = "debian:linux-image-gone"\n'
    experiment = parsed(
        f"[variant.a]\n{IMAGE}[variant.b]\n{gone}[variant.c]\n{gone}",
        f"skip-unsupported = {str(skipping).lower()}\n",
    )
    if skipping:
        recipes = builder.check(experiment, tmp_path, quiet)
        assert recipes.digests == {"a": "digest"}
        why = "skipped: the Debian archive has no package linux-image-gone"
        assert recipes.skipped == {"b": why, "c": why} and recipes.absent == ()
    else:
        with pytest.raises(UsageError, match=r"x\.toml:\d+: variant\.b\.image: the Debian archive"):
            builder.check(experiment, tmp_path, quiet)


@pytest.mark.parametrize(("cmdline", "noted"), [("", True), ('cmdline = "quiet"\n', False)])
def test_two_names_of_one_image_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cmdline: str, noted: bool
) -> None:
    image = with_modules(tmp_path, {"x.ko": b""})
    monkeypatch.setattr(installed, "fetch", lambda *_more, **_words: image)
    twins = parsed(f"[variant.a]\n{IMAGE}[variant.b]\n{IMAGE}{cmdline}")
    notes = builder.check(twins, tmp_path, quiet).notes
    assert [note.partition(":")[0] for note in notes] == ["b is the same kernel as a"] * noted


def test_the_page_shows_where_configurations_differ() -> None:
    values = {f"X{number}": "y" for number in range(400)}
    builds = {
        "old": {"options": {**values, "HZ": "250", "SMP": "y"}},
        "new": {"options": {"HZ": "1000", "SMP": "y", "<b>": "m" * 200}},
        "built": {"inputs": {}},
    }
    evidence: Any = SimpleNamespace(builds=builds, verdict=None)
    page = str(options_section(evidence))
    assert "402 options differ; the first 300" in page
    assert page.index("CONFIG_HZ") < page.index("CONFIG_X0")
    assert "CONFIG_SMP" not in page and "<b>" not in page and "m" * 61 not in page
    same: Any = SimpleNamespace(builds={"old": builds["old"], "copy": builds["old"]}, verdict=None)
    assert options_section(same) is None


@pytest.mark.slow
@pytest.mark.needs("qemu-system-x86_64", "gcc")
def test_a_run_says_how_installed_kernels_were_started(tmp_path: Path) -> None:
    image = with_modules(tmp_path, {"x.ko": b""})
    image = replace(image, build={"source": "deb:x", "options": {"PVH": "y"}})
    variants, method = {"a": Variant("a", "", image="deb:x", arch="x86_64")}, Method("instructions")
    setup = Setup(variants, {"a": image}, place(1), 1 << 28, None, 1, cache_root(), method)
    _what, flag = Qemu(setup).caveats()
    assert flag.kind == "installed" and "nokaslr" in flag.text
    assert "cryptomgr.notests=1" in flag.text and "kdyno.installed" not in flag.text
    bare = replace(image, build={"source": "deb:x", "options": {}})
    with pytest.raises(UsageError, match="without CONFIG_PVH"):
        Qemu(replace(setup, images={"a": bare}))
