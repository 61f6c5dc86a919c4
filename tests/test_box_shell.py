# SPDX-License-Identifier: MIT
"""What runs on a box (machines/box.sh), run here, with its paths in a folder."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from test_host_scripts import tool
from toy_kernel import write_files

from kdyno.machines.examination import ROOM, call, fields_of


def run(function: str, box: Path, *arguments: str, before: str = "", status: int = 0) -> str:
    """A function's output; in the folder ``box`` are its programs and all that it changes or reads,
    so that nothing of the machine that runs the tests is."""
    script = call(function).replace(ROOM, f"{box}/kdyno")
    for path in ("/etc/systemd", "/run/", "/lib/modules", "/sys/", "/boot/grub"):
        script = script.replace(path, f"{box}{path}")
    (box / "run").mkdir(exist_ok=True)
    done = subprocess.run(
        ["sh", "-c", f"{before}\n{script}", "sh", *arguments],
        env={"PATH": f"{box}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def test_a_full_disk_leaves_no_folder_of_ours(tmp_path: Path) -> None:
    full = "echo() { return 1; }"  # as the shell's own does without space
    run("own", tmp_path, "new token", "new", before=full, status=1)
    assert not (tmp_path / "kdyno").exists()
    run("own", tmp_path, "old token", "old")
    run("own", tmp_path, "new token", "new", before=full, status=1)
    assert (tmp_path / "kdyno" / "owner").read_text() == "old token\n", "it was there before"


def test_the_file_that_says_who_has_a_box(tmp_path: Path) -> None:
    owner = tmp_path / "kdyno" / "owner"
    run("own", tmp_path, "a rack1 1", "a rack1")
    run("own", tmp_path, "b rack1 2", "b rack1", status=1)
    run("own", tmp_path, "a rack1 3", "a rack1")  # who has its lock knows that it is dead
    run("renew", tmp_path, "a rack1 1", "9", status=3)
    run("load", tmp_path, "d", "", "", "a rack1 1", status=3)
    run("settle", tmp_path, "a rack1 1", "9", "", status=3)
    run("settle", tmp_path, "a rack1 3", "3600", "")
    assert owner.stat().st_mtime > time.time() + 1800 and (tmp_path / "run/kdyno-until").exists()
    os.utime(owner, (0, 0))
    run("own", tmp_path, "b rack1 2", "b rack1")
    assert owner.read_text() == "b rack1 2\n"
    assert sorted(path.name for path in owner.parent.iterdir()) == ["images", "owner"]


def test_what_brings_the_box_back_is_put_there_whole(tmp_path: Path) -> None:
    run("prepare_return", tmp_path, "600", "180", before="systemctl() { :; }")
    settings = tmp_path / "etc/systemd"
    unit = settings / "system/kdyno-return.service"
    assert f"ExecStart=/bin/sh {settings}/system/kdyno-return.sh 600\n" in unit.read_text()
    assert (settings / "system/sysinit.target.wants" / unit.name).resolve() == unit
    assert (settings / "system.conf.d/kdyno.conf").read_text().endswith("Sec=180\n")
    lines = (settings / "system/kdyno-return.sh").read_text().splitlines()
    assert lines[:2] == [f"room={tmp_path}/kdyno", "until=$1"]
    assert 'echo "$now" 2>/dev/null >"$room/returned"' in lines, "nothing was put in too early"
    assert lines.index("kexec -u") < lines.index("SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl reboot")


def test_nothing_is_left_of_what_was_put_there(tmp_path: Path) -> None:
    folder = "etc/systemd/system"
    files = (
        *(f"{folder}/kdyno-return.service", f"{folder}/kdyno-return.sh"),
        *(f"{folder}/sysinit.target.wants/kdyno-return.service", "run/modprobe.d/kdyno.conf"),
        *("etc/systemd/system.conf.d/kdyno.conf", "kdyno/images/d/modules/a.ko"),
        *(f"{folder}/other.service", "lib/modules/6.1.0/a.ko", "sys/kernel/kexec_loaded"),
    )
    write_files(tmp_path, dict.fromkeys(files, "0"))
    (tmp_path / "lib/modules/6.12.1").symlink_to(tmp_path / "kdyno/images/d/modules")
    run("undo", tmp_path, "", before="systemctl() { :; }")
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert left == {f"{folder}/other.service", "lib/modules/6.1.0/a.ko", "sys/kernel/kexec_loaded"}


def test_a_reboot_is_no_kexec_of_what_is_loaded(tmp_path: Path) -> None:
    for name in ("kexec", "systemd-run"):
        tool(tmp_path, name, f'echo {name} "$@" >>{tmp_path}/calls')
    for verb in ("kexec", "reboot"):
        run("go", tmp_path, verb)
    first, second, third = (tmp_path / "calls").read_text().splitlines()
    assert first.endswith("--setenv=SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl kexec")
    assert second == "kexec -u"
    assert third.endswith("--setenv=SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl reboot")


def test_a_box_has_booted_and_is_quiet_before_its_cpus_are_counted(tmp_path: Path) -> None:
    write_files(tmp_path, {"sys/devices/system/cpu/online": "0-3\n"})
    tool(tmp_path, "systemctl", f'echo "$@" >>{tmp_path}/calls')
    words = "BOOT_IMAGE=/vmlinuz mitigation=off"
    line = f'Unknown kernel command line parameters "{words}", will be passed to user space.'
    tool(tmp_path, "dmesg", f"echo '[    0.03] {line}'; echo '[    0.04] x'")
    fields = fields_of(run("settle", tmp_path, "", "60", "quiet"))
    assert fields == {"quiet_irqbalance": "stopped", "cpus": "0-3", "unknown": words}
    first, *_, active, stop = (tmp_path / "calls").read_text().splitlines()
    assert first == "is-system-running --wait"
    assert (active, stop) == ("is-active --quiet irqbalance", "stop irqbalance")


GRUB = """if [ "${next_entry}" ] ; then
   set default="${next_entry}"
else
   set default="ENTRY"
fi
menuentry 'Debian' --class debian $menuentry_id_option 'gnulinux-simple' {
\tlinux\t/vmlinuz-6.12 root=UUID=1 ro
}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced' {
\tmenuentry 'Debian, with Linux 6.1' --class debian $menuentry_id_option 'gnulinux-6.1' {
\t\tlinux\t/vmlinuz-6.1 root=UUID=1 ro
\t}
}
menuentry 'Memory test' {
\tlinux16\t/memtest
}
"""


@pytest.mark.parametrize(
    ("entry", "saved", "kernel"),
    [
        ("0", "", "/vmlinuz-6.12"),
        ("${saved_entry}", "", "/vmlinuz-6.12"),
        ("${saved_entry}", "gnulinux-advanced>gnulinux-6.1", "/vmlinuz-6.1"),
        ("Debian, with Linux 6.1", "", "/vmlinuz-6.1"),
        ("Memory test", "", "/memtest"),
        ("2", "", ""),
        ("1>0", "", ""),
    ],
)
def test_the_kernel_that_a_boot_loader_starts(
    entry: str, saved: str, kernel: str, tmp_path: Path
) -> None:
    environment = f"# GRUB Environment Block\nsaved_entry={saved}\n###"
    files = {"grub.cfg": GRUB.replace("ENTRY", entry), "grubenv": environment}
    write_files(tmp_path / "boot/grub", files)
    for name in ("grubby", "grub2-editenv", "grub-editenv"):
        tool(tmp_path, name, "exit 1")
    assert run("default_kernel", tmp_path).strip() == kernel


def test_a_kernel_that_is_of_no_package_is_not_taken_for_one(tmp_path: Path) -> None:
    """rpm says so on its standard output."""
    tool(tmp_path, "dpkg", "exit 1")
    tool(tmp_path, "rpm", "echo file /lib/modules/6.1 is not owned by any package; exit 1")
    tool(tmp_path, "pacman", "echo linux")
    assert run("package", tmp_path).strip() == "linux"
    tool(tmp_path, "pacman", "exit 1")
    assert run("package", tmp_path).strip() == "none"
