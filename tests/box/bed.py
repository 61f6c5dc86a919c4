# SPDX-License-Identifier: MIT
"""A box in QEMU: a small Debian on a virtual disk that is reached by ssh on loopback.

QEMU emulates (TCG), and a reset loads the distribution's kernel again, so it plays the part of a
boot loader with its default. A disk is made once and kept; what a
test writes is gone with its QEMU.
It is as much of a machine as kdyno needs of one: a network, a hardware watchdog (i6300esb), and a
store that survives a reset for the kernel's last words (ACPI ERST, by pstore).
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kdyno import whole
from kdyno.command import capture, dying_with_us
from kdyno.kernels import installed
from kdyno.machines import emulator

PACKAGES = (
    "systemd-sysv,openssh-server,kexec-tools,udev,kmod,initramfs-tools,linux-image-amd64,iproute2,"
    "bubblewrap,zstd,fio"
)
NEWER = r"^linux-image-6\.12[0-9.]*\+deb12-amd64$"
_EXCLUDED = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/locale/*",
    *(
        f"/lib/modules/*/kernel/{each}/*"
        for each in ("sound", "drivers/gpu", "drivers/media", "drivers/net/wireless", "drivers/usb")
    ),
)
_INITRAMFS = "MODULES=list\nCOMPRESS=zstd\nCOMPRESSLEVEL=1\nFSTYPE=ext4\n"
# Of initramfs-tools, where each program that they copy costs an emulated CPU seconds in every
# mkinitramfs, and udev in every boot: the list's modules are loaded without it.
_WITHOUT = (
    "hooks/dmsetup hooks/fsck hooks/keymap hooks/resume hooks/thermal hooks/udev "
    "scripts/init-bottom/udev scripts/init-top/all_generic_ide scripts/init-top/keymap "
    "scripts/init-top/udev scripts/local-premount/resume"
)
_MODULES = "virtio_pci\nvirtio_blk\nvirtio_net\next4\ni6300esb\n"
_NETWORK = """[Unit]
DefaultDependencies=no
Before=ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'ip link set eth0 up && ip addr add 10.0.2.15/24 dev eth0'
[Install]
WantedBy=multi-user.target
"""
# What a box of this kind has no use for and an emulated CPU would be busy with for long.
_MASKED = (
    "apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer "
    "e2scrub_reap.service getty@tty1.service serial-getty@ttyS0.service systemd-timesyncd.service "
    "systemd-logind.service systemd-hwdb-update.service systemd-random-seed.service "
    "systemd-update-utmp.service systemd-journal-flush.service kexec.service kexec-load.service "
    "systemd-journal-catalog-update.service systemd-tmpfiles-clean.timer console-getty.service "
    "keyboard-setup.service "
    # The initramfs has loaded what there is a device for, and devtmpfs has its nodes.
    "systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket "
    "systemd-udev-trigger.service modprobe@.service sys-kernel-debug.mount "
    "sys-kernel-tracing.mount sys-fs-fuse-connections.mount dev-hugepages.mount "
    "dev-mqueue.mount systemd-sysusers.service systemd-remount-fs.service systemd-binfmt.service "
    "proc-sys-fs-binfmt_misc.automount getty-static.service systemd-modules-load.service "
    "kmod-static-nodes.service systemd-sysctl.service systemd-tmpfiles-setup-dev.service "
    "systemd-update-utmp-runlevel.service systemd-tmpfiles-setup.service "
    "systemd-user-sessions.service"
)
_KERNEL_MODULES = (
    "virtio virtio_ring virtio_pci virtio_pci_modern_dev virtio_pci_legacy_dev virtio_blk ext4 "
    "jbd2 mbcache crc16 crc32c_generic crc32c-intel libcrc32c i6300esb watchdog "
    "virtio_net net_failover failover"
)
# A package with a kernel and the few modules that this box uses: $1 root, $2 version, $3 file.
_PACK = f"""
pack() {{
    root=$1 version=$2 file=$3
    rm -rf deb; mkdir -p deb/DEBIAN deb/boot
    cp "$root/boot/vmlinuz-$version" "$root/boot/config-$version" deb/boot
    for name in {_KERNEL_MODULES}; do
        (cd "$root" && find -L "lib/modules/$version" -name "$name.ko*" -not -path '*/build/*') |
            while read -r module; do install -D "$root/$module" "deb/$module"; done
    done
    cp "$root/lib/modules/$version"/modules.builtin* "deb/lib/modules/$version"
    cp "$root/lib/modules/$version/modules.order" "deb/lib/modules/$version"
    printf '%s\\n' "Package: linux-image-$version" "Version: 1" "Architecture: amd64" \\
        "Maintainer: nobody <nobody@localhost>" "Description: for a box" >deb/DEBIAN/control
    dpkg-deb -Zgzip -z1 -b deb "$file" >/dev/null
}}
cd "$1"
mkdir root; tar -C root -xf "$2"
mkfs.ext4 -q -F -d root "$3/disk" 1400M
cp -L root/vmlinuz root/initrd.img "$3"
own=$(cd root/lib/modules && ls | head -n 1)
pack root "$own" "$3/own.deb"
dpkg-deb -x "$4" newer
newer=$(cd newer/lib/modules && ls)
pack newer "$newer" "$3/newer.deb"
"""
# Before there is a kernel, whose package packs an initramfs of some thousand modules by default.
_EARLY_HOOK = f"""install -d "$1/etc/initramfs-tools/conf.d"
printf '{_INITRAMFS}' >"$1/etc/initramfs-tools/conf.d/kdyno"
"""
_HOOK = f"""set -eu
root="$1"
install -d "$root/root/.ssh" "$root/usr/share/initramfs-tools/modules.d"
cat "$KDYNO_BED/key.pub" >"$root/root/.ssh/authorized_keys"
printf '{_MODULES}' >"$root/usr/share/initramfs-tools/modules.d/kdyno"
(cd "$root/usr/share/initramfs-tools" && rm -f {_WITHOUT})
# Programs that look in vain for what else is to be mounted or started: a seventh of a boot.
rm -f "$root"/lib/systemd/system-generators/* "$root"/lib/systemd/system-environment-generators/*
cat >"$root/etc/systemd/system/bed-network.service" <<'END'
{_NETWORK}END
printf 'UseDNS no\\nUsePAM no\\n' >"$root/etc/ssh/sshd_config.d/bed.conf"
echo '/dev/vda / ext4 rw,noatime 0 0' >"$root/etc/fstab"
echo box >"$root/etc/hostname"
chroot "$root" systemctl enable bed-network.service
chroot "$root" systemctl mask {_MASKED}
chroot "$root" update-initramfs -u -k all
"""


@dataclass(frozen=True)
class Disk:
    """What a bed boots; the files are shared by all tests and never written to."""

    folder: Path

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def image(self) -> Path:
        return self.folder / "disk"


def disk(cache: Path) -> Disk:
    """From the cache, or made now, which takes a minute and the machine's own apt mirror."""
    name = hashlib.sha256(
        "\\0".join((PACKAGES, NEWER, *_EXCLUDED, _EARLY_HOOK, _HOOK, _PACK)).encode()
    ).hexdigest()[:16]
    folder = cache / "box-bed" / name
    with whole.locked(folder.parent / ".lock"):
        if not folder.is_dir():
            with whole.folder(folder) as aside:
                _make(aside)
    return Disk(folder)


def _make(folder: Path) -> None:
    with whole.scratch("bed", Path("/var/tmp")) as work:
        _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key"))
        (work / "hook").write_text(_HOOK)
        (work / "hook").chmod(0o755)
        work.chmod(0o755)
        shutil.copy(folder / "key.pub", work)
        tar = work / "root.tar"
        _do(
            *("mmdebstrap", "--mode=unshare", "--variant=minbase", f"--include={PACKAGES}"),
            *(f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED),
            *("--aptopt=APT::Install-Recommends false", f"--essential-hook={_EARLY_HOOK}"),
            f"--customize-hook={work}/hook",
            *("bookworm", str(tar)),
            KDYNO_BED=str(work),
        )
        names = capture(["apt-cache", "search", "--names-only", NEWER]).output.split("\n")
        package = sorted(name.split()[0] for name in names if name)[-1]
        assert capture(["apt-get", "download", package], cwd=work).status == 0, package
        (deb,) = work.glob("*.deb")
        _do("fakeroot", "sh", "-ec", _PACK, "sh", *map(str, (work, tar, folder, deb)))
        # A boot loader that unpacks the kernel saves an emulated CPU five seconds in each boot.
        packed = folder / "vmlinuz"
        (folder / "vmlinux").write_bytes(installed.unpacked_kernel(packed, str(packed)))


def _do(*argv: str, **settings: str) -> None:
    done = capture(argv, env={**os.environ, **settings})
    assert done.status == 0, f"{argv[0]}: {done.output[-2000:]}"


CMDLINE = (
    "root=/dev/vda rw console=ttyS0 loglevel=4 panic=5 net.ifnames=0 mitigations=off nokaslr "
    "cryptomgr.notests systemd.show_status=0 audit=0 raid=noautodetect random.trust_cpu=on "
    "tsc=reliable no_timer_check nowatchdog"
)


@dataclass
class Bed:
    """A box that runs. ``ssh_folder``: to be put first on PATH; its ssh knows the host ``box``."""

    disk: Disk
    folder: Path
    options: tuple[str, ...] = ()
    """More of QEMU's."""
    name: str = "box"
    """For ssh."""
    beside: Bed | None = None
    """Another one, which this one's ssh knows too. Their disks are copies, so that the machine's
    identity comes by the command line."""
    port: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def ssh_folder(self) -> Path:
        return self.folder / "bin"

    @property
    def console(self) -> str:
        return (self.folder / "console").read_text(encoding="utf-8", errors="replace")

    @property
    def cmdline(self) -> str:
        identity = hashlib.sha256(self.name.encode()).hexdigest()[:32]
        return f"{CMDLINE} systemd.machine_id={identity}"

    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = self.port or free.getsockname()[1]
        self._ssh()
        erst = f"memory-backend-file,id=erst,mem-path={self.folder}/erst,size=64K,share=on"
        argv = [
            # With a thread for each CPU one was seen to stop for good, deep in its kernel.
            *("qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=single"),
            # A CPU with wide registers, which are saved at each switch, costs a fifth more.
            *("-cpu", "Nehalem,+rdrand", "-smp", "2", "-m", "1G"),
            *("-nodefaults", "-display", "none"),
            *("-kernel", str(self.disk.folder / "vmlinux")),
            *("-initrd", str(self.disk.folder / "initrd.img"), "-append", self.cmdline),
            *("-drive", f"file={self.disk.image},format=raw,if=virtio,cache=unsafe,snapshot=on"),
            *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-:22"),
            *("-device", "virtio-net-pci,netdev=net,romfile=", "-device", "virtio-rng-pci"),
            *("-device", "i6300esb", "-action", "watchdog=reset"),
            *("-object", erst, "-device", "acpi-erst,memdev=erst"),
            *("-plugin", f"file={self._plugin()}"),
            *("-serial", f"file:{self.folder}/console"),
            *("-monitor", f"unix:{self.folder}/monitor,server=on,wait=off"),
            *self.options,
        ]
        if os.geteuid() == 0:
            # Kernels are built beside it, and a machine that gets no CPU is one that hangs. Against
            # other sessions, as builds are, its number alone counts: sched(7), "autogroup".
            own = 'echo -15 >/proc/self/autogroup 2>/dev/null; exec nice -n -15 "$@"'
            argv = ["sh", "-c", own, "sh", *argv]
        argv = dying_with_us(argv)
        with (self.folder / "qemu.log").open("ab") as log:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _plugin(self) -> Path:
        file, interface = self.folder / "forget.so", emulator.interface_of(emulator.find().version)
        flags = ("-shared", "-fPIC", "-O2", f"-I{emulator.PLUGINS}", f"-DINTERFACE={interface}")
        _do("gcc", *flags, "-o", str(file), str(Path(__file__).with_name("forget.c")))
        return file

    def _ssh(self) -> None:
        """The person's configuration, as far as a test has a person."""
        self.ssh_folder.mkdir(exist_ok=True)
        config = self.folder / "ssh_config"
        config.write_text(
            (f"Include {self.beside.folder}/ssh_config\n" if self.beside else "")
            + f"Host {self.name}\n HostName 127.0.0.1\n Port {self.port}\n User root\n"
            f" IdentityFile {self.disk.key}\n IdentitiesOnly yes\n"
            f" UserKnownHostsFile {self.folder}/known_hosts\n StrictHostKeyChecking accept-new\n"
        )
        script = self.ssh_folder / "ssh"
        script.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
        script.chmod(0o755)

    def monitor(self, command: str) -> str:
        """What QEMU answers to ``system_reset``, ``set_link net off``."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(10)
            line.connect(f"{self.folder}/monitor")
            while b"(qemu)" not in (greeting := line.recv(4096)):
                assert greeting, "QEMU ended"
            line.sendall(command.encode() + b"\n")
            answer = b""
            while b"(qemu)" not in answer:
                answer += (part := line.recv(4096))
                assert part, f"QEMU ended: {answer!r}"
        return answer.decode()

    def hang(self) -> None:
        """Every CPU with its interrupts off: halted for good, or in a loop of one instruction where
        it may not halt; a loop costs an emulator a CPU. Through QEMU's stub for gdb (`info gdb`,
        "Remote Protocol": registers 16 to 18 are rip, eflags and cs)."""
        until_s = time.monotonic() + 10
        while self.monitor("info registers -a").count("HLT=1") < 2 and time.monotonic() < until_s:
            time.sleep(0.1)
        place = f"{self.folder}/gdb"
        self.monitor(f"gdbserver unix:{place},server=on,wait=off")
        with socket.socket(socket.AF_UNIX) as line, line.makefile("rb") as answers:
            line.settimeout(20)
            line.connect(place)

            def packet() -> str:
                while answers.read(1) != b"$":
                    pass
                content = b""
                while (letter := answers.read(1)) != b"#":
                    content += letter
                answers.read(2)
                line.sendall(b"+")
                return content.decode()

            def order(text: str) -> str:
                line.sendall(f"${text}#{sum(text.encode()) % 256:02x}".encode())
                # That the machine stopped for us is reported between the answers.
                while (answer := packet()).startswith("T"):
                    pass
                return answer

            # A single register is read by those alone who have asked what registers there are.
            assert order("qXfer:features:read:target.xml:0,ffb").startswith("l<?xml")
            for cpu in (1, 2):
                assert order(f"Hg{cpu}") == "OK"
                place_of_code = int.from_bytes(bytes.fromhex(order("p10")), "little")
                eflags = int.from_bytes(bytes.fromhex(order("p11")), "little")
                in_kernel = not int.from_bytes(bytes.fromhex(order("p12")), "little") & 3
                code = "f4ebfd" if in_kernel else "ebfe"
                assert order(f"M{place_of_code:x},{len(code) // 2}:{code}") == "OK"
                assert order(f"P11={(eflags & ~0x200).to_bytes(4, 'little').hex()}") == "OK"
            assert order("D") == "OK"

    def put(self, path: str, text: str) -> None:
        """A small file there, on its disk at once."""
        command = f"printf %s {shlex.quote(text)} >{path} && sync && echo ok"
        assert self.ask(command) == "ok", path

    def ask(self, command: str, limit_s: float = 60) -> str:
        """What the box prints; empty where it does not answer."""
        words = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", self.name, command)
        done = capture([str(self.ssh_folder / "ssh"), *words], apart=True, limit_s=limit_s)
        return done.output.strip() if done.status == 0 else ""

    def until_up(self, limit_s: float = 1500) -> None:
        until_s = time.monotonic() + limit_s
        while not self.ask("uname -r"):
            assert self.process is not None and self.process.poll() is None, "QEMU ended"
            assert time.monotonic() < until_s, self.console[-3000:]
            time.sleep(1)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def running(cache: Path, folder: Path, *options: str, **names: Any) -> Iterator[Bed]:
    """A box that answers. names: ``name`` and ``beside``."""
    bed = Bed(disk(cache), folder, options, **names)
    bed.start()
    try:
        bed.until_up()
        yield bed
    finally:
        bed.stop()
