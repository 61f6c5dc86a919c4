# SPDX-License-Identifier: MIT
"""A command that wants out of the sandbox, in every view, started by root and by another user."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from arms import Arm, both

from kdyno import sandbox
from kdyno.sandbox import BUILD, VIEWS, Sandbox, View

pytestmark = pytest.mark.needs("sandbox")
every_view = pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
LIMIT_S = 60

# Says what it has done; nothing here harms a host that lets it.
MOUNTS = """
did() { echo "DID $*"; }
try() {
    for place in / /usr /etc /proc/sys /sys /tmp/given; do
        mount -o remount,rw $place && did remounted $place
        mount -o remount,bind,rw $place && did remounted the bind of $place
        umount -l $place && did unmounted $place
    done
    for file in /etc/passwd /usr/bin/env /proc/sys/kernel/core_pattern /proc/sysrq-trigger \\
        /proc/sys/kernel/sysrq /sys/kernel/uevent_helper /tmp/given/file; do
        (: >> $file) && did opened $file
    done
    (: > /tmp/given/new) && did made a file
    ln /tmp/given/file /tmp/mine/link-$1 && did linked
    chmod 0666 /dev/null && did changed the null device
    chroot /proc/1/root true && did gone to the root of the first process
}
try plain
# As root of a user namespace of its own, which it may make where the machine lets everybody.
functions=$(sed -n '/^did()/,/^}$/p' /tmp/mine/script)
unshare -Urm true && unshare -Urm sh -c "$functions; try deep"
mknod /tmp/mine/disk b 8 0 && did made a device
setpriv --dump
"""


def run(argv: list[str], **more: object) -> str:
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=LIMIT_S, check=False, **more
    )  # type: ignore[call-overload]
    return str(done.stdout + done.stderr)


@pytest.mark.slow
@every_view
@both
def test_the_mounts_stay_as_they_are_and_nothing_is_written(arm: Arm, view: View) -> None:
    with arm.place() as folder:
        given, mine = folder / "given", folder / "mine"
        for each in (given, mine):
            each.mkdir()
            os.chown(each, arm.uid, arm.uid)
        (given / "file").write_text("as it was\n")
        (given / "file").chmod(0o666)
        (mine / "script").write_text(MOUNTS)
        if arm.root:
            sandbox.hand_over(mine, view)
        box = Sandbox(view, ((given, "/tmp/given"),), ((mine, "/tmp/mine"),))
        output = run(arm.sandboxed(box, MOUNTS))
        assert [line for line in output.splitlines() if line.startswith("DID")] == [], output
        assert {f"uid: {view.uid}", f"egid: {view.uid}"} < set(output.splitlines()), output
        assert "no_new_privs: 1" in output and "Inheritable capabilities: [none]" in output
        assert [path.name for path in given.iterdir()] == ["file"]
        assert (given / "file").read_text() == "as it was\n"


@contextmanager
def listening(folder: Path) -> Iterator[dict[str, str]]:
    """Sockets that anybody may talk to, of three families: what perl says to reach each."""
    file, abstract = folder / "socket", f"kdyno-attack-{os.getpid()}"
    with (
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as nameless,
        socket.create_server(("127.0.0.1", 0)) as network,
    ):
        named.bind(str(file))
        file.chmod(0o777)
        nameless.bind(f"\0{abstract}")
        for each in (named, nameless):
            each.listen()
        port = network.getsockname()[1]
        yield {
            "a socket in a file": f'AF_UNIX, pack_sockaddr_un("{file}")',
            "an abstract socket": f'AF_UNIX, pack_sockaddr_un("\\0{abstract}")',
            "the network": f'AF_INET, pack_sockaddr_in({port}, inet_aton("127.0.0.1"))',
        }


@every_view
@both
def test_no_socket_of_the_host_is_reached(arm: Arm, view: View) -> None:
    assert shutil.which("perl"), "perl is essential on Debian, and kernels need it"
    with arm.place() as folder, listening(folder) as ways:
        tries = "".join(
            f"{{ my ($family, $to) = ({way}); socket(my $s, $family, SOCK_STREAM, 0);"
            f" print qq(REACHED {name}\\n) if connect($s, $to); }}\n"
            for name, way in ways.items()
        )
        code = f"use Socket; {tries} print qq(tried all\\n);"
        outside = run(["perl", "-e", code])
        assert outside.count("REACHED") == len(ways), outside
        script = f"perl -e {sandboxed_word(code)}"
        output = run(arm.sandboxed(Sandbox(view), script))
        assert output == "tried all\n"


def sandboxed_word(text: str) -> str:
    """One word of a shell script."""
    return "'" + text.replace("'", "'\\''") + "'"


@every_view
@both
def test_homes_and_the_data_of_services_are_not_there(arm: Arm, view: View) -> None:
    with arm.place() as folder:
        (folder / "secret").write_text("a secret\n")
        homes = [Path.home(), Path("/root"), Path("/home"), Path("/var/lib"), Path("/run")]
        look = f"find {' '.join(map(str, homes))} -type f; echo tried all"
        output = run(arm.sandboxed(Sandbox(view), f"cat {folder}/secret; {look}"))
        assert "a secret" not in output and "tried all" in output
        assert [line for line in output.splitlines() if line.startswith("/")] == [], output


@every_view
@both
def test_no_process_of_the_host_is_seen_or_killed(arm: Arm, view: View) -> None:
    become = ["setpriv", f"--reuid={arm.uid}", f"--regid={arm.uid}", "--clear-groups", "--"]
    bystander = subprocess.Popen([*(become if os.geteuid() == 0 else []), "sleep", "600"])
    try:
        script = (
            f"kill -9 {bystander.pid} && echo KILLED; kill -STOP {os.getpid()} && echo STOPPED;"
            "kill -9 1; cat /proc/1/mem 2> /dev/null | head -c 1;"
            "ls /proc | grep -c '^[0-9]'; kill -9 -1; echo alone"
        )
        output = run(arm.sandboxed(Sandbox(view), script)).splitlines()
        assert "KILLED" not in output and "STOPPED" not in output
        processes = next(int(line) for line in output if line.isdigit())
        assert processes <= 6, output
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@both
def test_a_fork_bomb_ends_at_its_number(arm: Arm) -> None:
    # A user of its own: others of this view may be at work on this machine.
    view = replace(BUILD, uid=61000 + os.getpid() % 180, processes=60)
    bomb = (
        "$| = 1; my $n = 0; while ($n < 500) { my $p = fork; last unless defined $p;"
        " if (!$p) { sleep 600; exit } $n++ } print qq($n\\n); kill 9, -1;"
    )
    output = run(arm.sandboxed(Sandbox(view), f"perl -e {sandboxed_word(bomb)}"))
    counted = next(int(line) for line in output.splitlines() if line.isdigit())
    assert 40 <= counted < 60


@every_view
@both
def test_nothing_outlives_the_one_who_started_it(arm: Arm, view: View) -> None:
    with arm.place() as folder:
        mine = folder / "mine"
        mine.mkdir()
        os.chown(mine, arm.uid, arm.uid)
        for name in ("born", "dies"):
            os.mkfifo(mine / name)
            (mine / name).chmod(0o666)
        box = Sandbox(view, (), ((mine, "/tmp/mine"),))
        # A session of its own, deaf to everything, and of a parent that is gone.
        daemon = 'trap "" TERM HUP INT; exec 3> /tmp/mine/dies; echo x > /tmp/mine/born; sleep 600'
        script = f"(setsid sh -c {sandboxed_word(daemon)} &) ; sleep 600"
        started = subprocess.Popen(arm.sandboxed(box, script))
        with (mine / "dies").open() as dies:
            assert (mine / "born").read_text() == "x\n"
            started.send_signal(signal.SIGKILL)
            started.wait()
            assert dies.read() == ""


@both
def test_what_it_leaves_behind_belongs_to_nobody_who_matters(arm: Arm) -> None:
    with arm.place() as folder:
        mine = folder / "mine"
        mine.mkdir()
        os.chown(mine, arm.uid, arm.uid)
        if arm.root:
            sandbox.hand_over(mine, BUILD)
        box = Sandbox(BUILD, (), ((mine, "/tmp/mine"),))
        run(arm.sandboxed(box, "cp /bin/sh /tmp/mine/sh; chmod 6755 /tmp/mine/sh"))
        left = (mine / "sh").stat()
        assert left.st_uid == (BUILD.uid if arm.root else arm.uid)
        assert left.st_gid == (BUILD.uid if arm.root else arm.uid)
