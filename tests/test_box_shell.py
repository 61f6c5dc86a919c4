# SPDX-License-Identifier: MIT
"""What runs on a box (machines/box.sh), run here, with its paths in a folder."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from kdyno.machines.examination import ROOM, call, fields_of


def test_a_full_disk_leaves_no_folder_of_ours(tmp_path: Path) -> None:
    script = call("own").replace(ROOM, f"{tmp_path}/kdyno")
    full = "echo() { return 1; }\n"  # as the shell's own does without space
    command = ["sh", "-c", full + script, "sh", "new token", "new"]
    assert subprocess.run(command, check=False).returncode == 1
    assert not (tmp_path / "kdyno").exists()
    subprocess.run(["sh", "-c", script, "sh", "old token", "old"], check=True)
    assert subprocess.run(command, check=False).returncode == 1
    assert (tmp_path / "kdyno" / "owner").read_text() == "old token\n", "it was there before"


def test_the_file_that_says_who_has_a_box(tmp_path: Path) -> None:
    def status(function: str, *args: str) -> int:
        script = call(function).replace(ROOM, f"{tmp_path}/kdyno")
        command = ["sh", "-c", script.replace("/run/", f"{tmp_path}/"), "sh", *args]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode

    owner = tmp_path / "kdyno" / "owner"
    assert status("own", "a rack1 1", "a rack1") == 0
    assert status("own", "b rack1 2", "b rack1") == 1
    assert status("own", "a rack1 3", "a rack1") == 0, "who has its lock knows that it is dead"
    assert (status("renew", "a rack1 1", "9"), status("load", "d", "", "", "a rack1 1")) == (3, 3)
    assert status("settle", "a rack1 1", "9", "") == 3
    assert status("settle", "a rack1 3", "3600", "") == 0
    assert owner.stat().st_mtime > time.time() + 1800 and (tmp_path / "kdyno-until").exists()
    os.utime(owner, (0, 0))
    assert status("own", "b rack1 2", "b rack1") == 0
    assert owner.read_text() == "b rack1 2\n"
    assert sorted(path.name for path in owner.parent.iterdir()) == ["images", "owner"]


def test_what_brings_the_box_back_is_put_there_whole(tmp_path: Path) -> None:
    script = call("prepare_return").replace(ROOM, str(tmp_path))
    script = f"systemctl() {{ :; }}\n{script.replace('/etc/systemd', f'{tmp_path}/etc')}"
    subprocess.run(["sh", "-c", script, "sh", "600", "180"], check=True)
    system = tmp_path / "etc/system"
    unit = system / "kdyno-return.service"
    assert f"ExecStart=/bin/sh {system}/kdyno-return.sh 600\n" in unit.read_text()
    assert (system / "sysinit.target.wants" / unit.name).resolve() == unit
    assert (tmp_path / "etc/system.conf.d/kdyno.conf").read_text().endswith("Sec=180\n")
    lines = (system / "kdyno-return.sh").read_text().splitlines()
    assert lines[:2] == [f"room={tmp_path}", "until=$1"]
    assert 'echo "$now" 2>/dev/null >"$room/returned"' in lines, "nothing was put in too early"
    assert lines.index("kexec -u") < lines.index("SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl reboot")


def test_nothing_is_left_of_what_was_put_there(tmp_path: Path) -> None:
    room, folder = tmp_path / "kdyno", "etc/systemd/system"
    script = call("undo").replace(ROOM, str(room))
    for path in ("/etc/systemd", "/run/modprobe.d", "/lib/modules", "/sys/kernel"):
        script = script.replace(path, f"{tmp_path}{path}")
    for name in (
        *(f"{folder}/kdyno-return.service", f"{folder}/kdyno-return.sh"),
        *(f"{folder}/sysinit.target.wants/kdyno-return.service", "run/modprobe.d/kdyno.conf"),
        *("etc/systemd/system.conf.d/kdyno.conf", "kdyno/images/d/modules/a.ko"),
        *(f"{folder}/other.service", "lib/modules/6.1.0/a.ko", "sys/kernel/kexec_loaded"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("0")
    (tmp_path / "lib/modules/6.12.1").symlink_to(room / "images/d/modules")
    subprocess.run(["sh", "-c", f"systemctl() {{ :; }}\n{script}", "sh", ""], check=True)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert left == {f"{folder}/other.service", "lib/modules/6.1.0/a.ko", "sys/kernel/kexec_loaded"}


def test_a_reboot_is_no_kexec_of_what_is_loaded(tmp_path: Path) -> None:
    for name in ("kexec", "systemd-run"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/calls\n')
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for verb in ("kexec", "reboot"):
        command = ["sh", "-c", call("go"), "sh", verb]
        subprocess.run(command, check=True, env=environment)
    first, second, third = (tmp_path / "calls").read_text().splitlines()
    assert first.endswith("--setenv=SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl kexec")
    assert second == "kexec -u"
    assert third.endswith("--setenv=SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl reboot")


def test_a_box_has_booted_and_is_quiet_before_its_cpus_are_counted(tmp_path: Path) -> None:
    online = tmp_path / "sys/devices/system/cpu/online"
    online.parent.mkdir(parents=True)
    online.write_text("0-3\n")
    (tmp_path / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\n')
    (tmp_path / "systemctl").chmod(0o755)
    # Not on the machine that runs the tests.
    script = call("settle").replace("/sys/", f"{tmp_path}/sys/")
    script = script.replace("/run/", f"{tmp_path}/").replace(ROOM, f"{tmp_path}/kdyno")
    settled = subprocess.run(
        ["sh", "-c", script, "sh", "", "60", "quiet"],
        check=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert fields_of(settled.stdout) == {"quiet_irqbalance": "stopped", "cpus": "0-3"}
    first, *_, active, stop = (tmp_path / "calls").read_text().splitlines()
    assert first == "is-system-running --wait"
    assert (active, stop) == ("is-active --quiet irqbalance", "stop irqbalance")


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
    (tmp_path / "grub").mkdir()
    (tmp_path / "grub/grub.cfg").write_text(
        f"""if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
else
   set default="{entry}"
fi
menuentry 'Debian' --class debian $menuentry_id_option 'gnulinux-simple' {{
\tlinux\t/vmlinuz-6.12 root=UUID=1 ro
}}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced' {{
\tmenuentry 'Debian, with Linux 6.1' --class debian $menuentry_id_option 'gnulinux-6.1' {{
\t\tlinux\t/vmlinuz-6.1 root=UUID=1 ro
\t}}
}}
menuentry 'Memory test' {{
\tlinux16\t/memtest
}}
"""
    )
    (tmp_path / "grub/grubenv").write_text(f"# GRUB Environment Block\nsaved_entry={saved}\n###")
    # Neither this machine's own loader nor its tools.
    script = call("default_kernel").replace("/boot/grub", f"{tmp_path}/grub")
    script = script.replace("/sys/", f"{tmp_path}/sys/")
    for tool in ("grubby", "grub2-editenv", "grub-editenv"):
        (tmp_path / tool).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / tool).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", "-c", script], check=True, env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == kernel


def test_a_kernel_that_is_of_no_package_is_not_taken_for_one(tmp_path: Path) -> None:
    """rpm says so on its standard output."""
    for tool, text, status in (
        ("dpkg", "", 1),
        ("rpm", "file /lib/modules/6.1 is not owned by any package", 1),
        ("pacman", "linux", 0),
    ):
        (tmp_path / tool).write_text(f"#!/bin/sh\necho {text}\nexit {status}\n")
        (tmp_path / tool).chmod(0o755)
    command = ["sh", "-c", call("package")]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for owner in ("linux", "none"):
        done = subprocess.run(
            command, check=True, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert done.stdout.strip() == owner
        (tmp_path / "pacman").write_text("#!/bin/sh\nexit 1\n")
