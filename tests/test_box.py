# SPDX-License-Identifier: MIT
"""A box by an ssh that answers in recorded words: its stages, refusals, and what became of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import string
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toy_kernel import FILES, Toy, variant, write_files

from kdyno.errors import ToolError, UsageError
from kdyno.experiment.loader import parse
from kdyno.experiment.model import Box as Settings, Machine, Variant
from kdyno.kernels.build import localized
from kdyno.kernels.config import Wish, local_lines
from kdyno.kernels.image import KEXEC, Image, release_of
from kdyno.machines import box as module, examination
from kdyno.machines.box import Box, Boxes
from kdyno.machines.cpus import place
from kdyno.machines.examination import cpus_of, disturbing, lacks, own_config, state_of
from kdyno.machines.kinds import KINDS, of_command_line
from kdyno.machines.machine import Method, Plan, Setup, run_to_end
from kdyno.machines.process import Outcome
from kdyno.machines.ssh import PUT, Remote
from kdyno.measure import bench
from kdyno.measure.builder import Recipes
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites.catalogue import load
from kdyno.suites.job import CaseJob, Job

SSH = """#!{python}
# An ssh that takes the words of each script from a file; the last of them stays.
import json, os, shlex, sys, time
folder = {folder!r}
if "exit" in sys.argv:
    sys.exit(0)
words = shlex.split(sys.argv[-1])
words = words[2:] if words[0] == "sudo" else words
script, args = words[2], words[4:]
names, plan = json.load(open(folder + "/names")), json.load(open(folder + "/plan"))
name = "job" if "kdyno/guest" in script and " job " in script else names.get(script, "other")
args = [script] if name == "job" else args
with open(folder + "/log", "a") as log:
    log.write(json.dumps([name, *args]) + "\\n")
if name == "put":
    sys.stdin.buffer.read()
answers = plan.get(name, [[0, ""]])
status, text = answers[0]
if len(answers) > 1:
    plan[name] = answers[1:]
    json.dump(plan, open(folder + "/plan", "w"))
if text == "RUN":
    os.execvp("sh", ["sh", "-c", "exec 3>&1 1>&2; exec " + {guest!r} + " job /dev/stdin --fd 3"])
token = open(folder + "/token").read() if os.path.exists(folder + "/token") else ""
if name == "load":
    open(folder + "/token", "w").write(args[1].split("kdyno.boot=")[1])
(sys.stderr if status else sys.stdout).write(text.replace("TOKEN", token) + "\\n")
sys.exit(status)
"""
TEXT = """
name = "x"
baseline = "a"
[kernel]
source = "debian:linux-source-7.3"
[variant.a]
{a}
[variant.b]
{b}
[machine]
kind = "box"
host = "rack1"
{more}
[[suite]]
name = "run"
cases = ["a"]
command = ["true"]
"""
FACTS = {
    "arch": "x86_64",
    "cpus": "0-3",
    "cpu_model": "A CPU",
    "memory_kb": "1000000",
    "machine_id": "0" * 32,
    "systemd": "systemd 252",
    "kexec": "kexec",
    "kexec_disabled": "0",
    "lockdown": "none",
    "free_kb": "9000000",
    "generator": "mkinitramfs",
    "bwrap": "bwrap",
    "watchdog": "/dev/watchdog0",
    "pstore": "erst",
    "release": "6.1.0",
    "default_kernel": "/vmlinuz-6.1.0",
    "package": "linux-image-6.1.0: /lib/modules/6.1.0",
    "pmu": "cpu",
}


def facts(**changed: str) -> list[Any]:
    """The answer of a box with these facts."""
    return [[0, "\n".join(f"{name}\t{value}" for name, value in {**FACTS, **changed}.items())]]


OWN = f"{'a' * 36}\n6.1.0\nBOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet panic=0\n"
NEW = f"{'b' * 36}\n6.12.1\nroot=/dev/sda1 kdyno.boot=TOKEN\n"
BACK = f"{'c' * 36}\n6.1.0\nroot=/dev/sda1 ro\n"
GONE = [255, "ssh: connect to host rack1 port 22: Connection timed out"]
OOPS = "pstore erst\nOops#1 Part2\n<4>[ 1.9] x\nOops#1 Part1\n<1>[ 2.0] BUG: unable to handle it\n"
PANIC = "pstore erst\nPanic#1 Part1\n<0>[ 5.1] Kernel panic - not syncing: sysrq triggered crash\n"
CASE = CaseJob("unixbench", "syscall", "getppid", seconds=None, operations=1000)
PLAN = Plan("new", Job((CASE,)))
SETTINGS = Settings(boot_timeout_s=0.1)


class FakeBox:
    """What the other end says, and what it was asked; ``remotes`` are closed in the end."""

    def __init__(self, folder: Path, guest: Path, remotes: ExitStack) -> None:
        self.folder, self.remotes = folder, remotes
        (folder / "bin").mkdir()
        script = folder / "bin" / "ssh"
        script.write_text(SSH.format(python=sys.executable, folder=str(folder), guest=str(guest)))
        script.chmod(0o755)
        scripts = {**vars(module), **vars(examination)}
        names = {
            text: name.strip("_").lower()
            for name, text in scripts.items()
            if name.isupper() and isinstance(text, str)
        }
        functions = re.findall(r"^(\w+)\(\)", examination._SCRIPT, re.MULTILINE)
        names |= {examination.call(function): function for function in functions}
        (folder / "names").write_text(json.dumps({**names, "id -u": "id", PUT: "put"}))
        self.plan: dict[str, list[Any]] = {
            "id": [[0, "0"]],
            "facts": facts(),
            "settle": [[0, "cpus\t0-3"]],
            "look": [[0, "0.50 0.40 0.30 1/99 999"]],
            "job": [[0, "RUN"]],
        }
        files = ("vmlinuz", "linux", "config", "modules/6.12.1/kernel/a.ko")
        write_files(folder / "image", dict.fromkeys(files, "\nCONFIG_SMP=y\n"))
        self.image = Image("d" * 32, folder / "image", "x86_64", 64, "6.12.1", {}, installed=True)

    def say(self, **answers: list[Any]) -> None:
        self.plan |= answers
        (self.folder / "plan").write_text(json.dumps(self.plan))

    def setup(self, **fields: Any) -> Setup:
        variants = {"new": Variant("new", "", cmdline="quiet mitigations=off")}
        setup = Setup(variants, {"new": self.image}, place(1), 1 << 28, None, 2, self.folder)
        return replace(setup, **{"hosts": ("rack1",), "box": SETTINGS, **fields})

    def box(self, **fields: Any) -> Box:
        """This end of it; ``fields`` of its setup."""
        box = Box(self.setup(**fields))
        self.remotes.callback(box._lock.close)
        return box

    @property
    def log(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]

    def names(self, *wanted: str) -> list[str]:
        return [
            " ".join(each[:2]) if each[0] == "go" else each[0]
            for each in self.log
            if each[0] in wanted
        ]


@pytest.fixture
def fake(tmp_path: Path, guest_build: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBox]:
    program = guest_build / "kdyno-guest-64"
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    for name, value_s in ("POLL_S", 0.01), ("ANSWER_S", 0), ("DOWN_S", 0), ("_KEXEC_WATCHDOG_S", 0):
        monkeypatch.setattr(module, name, value_s)
    monkeypatch.setattr(module, "guest_program", lambda *_: program)
    monkeypatch.setattr("kdyno.machines.guest.guest_program", lambda *_: program)
    monkeypatch.setattr("kdyno.machines.guest.disk_image", lambda *_: pytest.fail("a disk here"))
    with ExitStack() as remotes:
        yield FakeBox(tmp_path, program, remotes)


def booted(box: Box, fake: FakeBox, *states: Any, **answers: list[Any]) -> Outcome:
    """One boot; ``states``: what answers when it is asked which boot it is, one after the other."""
    fake.say(state=[state if isinstance(state, list) else [0, state] for state in (OWN, *states)])
    box.probe(lambda _text: None)
    fake.say(**{**json.loads((fake.folder / "plan").read_text()), **answers})
    job = Job((CASE,), (("vm.swappiness", "10"),))
    shared = ((fake.folder / "bin", "programs"),)
    return run_to_end(box.open(Plan("new", job, shared=shared, disk_bytes=1 << 20)), box.clock)


@pytest.mark.slow
def test_folders_that_cases_read_are_copied_once_and_the_disk_is_empty(fake: FakeBox) -> None:
    box = fake.box()
    outcome = booted(box, fake, OWN, NEW, NEW, NEW.replace("b" * 36, "d" * 36), NEW)
    assert outcome.host.status == "ok", outcome.host.text
    plan = replace(PLAN, shared=((fake.folder / "bin", "programs"),))
    run_to_end(box.open(plan), box.clock)
    copies = [each for each in fake.log if each[0] == "put" and "/shared/" in each[2]]
    assert copies == [["put", "bin", "/var/lib/kdyno/shared/0"]]
    folders = [each for each in fake.log if each[0] == "empty_folder"]
    assert folders == [["empty_folder", str(257 << 10), "60908"]]
    first, second = (each[1] for each in fake.log if each[0] == "job")
    assert "--ro-bind /var/lib/kdyno/shared/0 /tmp/shared/programs" in first
    assert "--bind /var/lib/kdyno/disk /tmp/shared/disk" in first
    assert "shared/programs" in second and "shared/disk" not in second


@pytest.mark.slow
@pytest.mark.parametrize(
    ("away", "interrupts"),
    [
        ([0, "7"], "7 moved off the measured CPUs"),
        ([0, "\x1b[2J"], "0 moved off the measured CPUs"),
        ([255, "gone"], None),
    ],
)
def test_a_boot_from_the_own_kernel_and_back_again(
    fake: FakeBox, away: list[Any], interrupts: str | None
) -> None:
    box = fake.box(box=replace(SETTINGS, quiet=True))
    settled = "cpus\t0-3\nunknown\tBOOT_IMAGE=/vmlinuz mitigations=off"
    outcome = booted(box, fake, OWN, NEW, NEW, BACK, away=[away], settle=[[0, settled]])
    assert (outcome.host.status, outcome.host.text) == ("ok", "")
    assert outcome.transcript.bye is not None
    flags = [(flag.kind, flag.text) for flag in outcome.host.flags]
    assert flags == [("no-effect", "cmdline: mitigations=off")], "GRUB's own word is nobody's"
    before = outcome.host.before
    assert before["box_cpus"] == "2,3" and "unknown" not in before
    assert before.get("quiet_interrupts") == interrupts
    assert (before["runnable_tasks"], before["load_1min"]) == (1.0, 0.5)
    assert outcome.host.user_s is None, "the CPU time would be that of ssh"
    assert "steal_s" not in outcome.host.after, "nor was anything else seen of the box's CPUs"
    box.close()
    order = fake.names("own", "undo", "modules", "initramfs", "load", "go", "sysctl", "job")
    assert order == [
        *("own", "undo", "modules", "initramfs", "modules", "load", "go kexec", "sysctl", "job"),
        *("go reboot", "undo"),
    ]
    (installed,) = (each for each in fake.log if each[0] == "prepare_return")
    ((_, digest, cmdline, watchdog, _owner),) = [each for each in fake.log if each[0] == "load"]
    assert (digest, watchdog, installed[-1]) == ("d" * 32, "armed", "0")
    words = cmdline.split()
    assert words[:5] == ["root=/dev/sda1", "ro", "quiet", "quiet", "mitigations=off"]
    assert words[5:9] == ["panic=10", "oops=panic", "softlockup_panic=1", "nmi_watchdog=panic"]
    assert "watchdog.stop_on_reboot=0" in words
    assert fake.log[-1] == ["undo", ""]
    facts = box.host_facts()
    assert (facts["cpu_model"], facts["cpus"], facts["host_kernel"]) == ("A CPU", 4.0, "6.1.0")


CLOSED = [255, "closed"]
WENT_WRONG = {
    "refused": ([BACK], {"load": [1, "kexec_load failed: not permitted"]}, "kexec-refused"),
    "nothing happened": ([OWN], {}, "kexec-refused"),
    "another kernel": ([NEW.replace("6.12.1", "6.12.10")], {}, "wrong-kernel"),
    "panic": ([BACK], {"last_words": [0, PANIC]}, "panic"),
    "hang": ([BACK], {"last_words": [0, "watchdog\npstore erst"]}, "hang"),
    "no network": ([BACK], {"last_words": [0, "returned 600\npstore"]}, "no-network"),
    "reset": ([BACK], {"last_words": [0, "pstore "]}, "reset"),
    "unread words": ([BACK], {"last_words": GONE}, "reset"),
    "lost": ([GONE], {}, "box-lost"),
    "oops": ([BACK], {"last_words": [0, OOPS]}, "oops"),
    "panic in the job": ([NEW, BACK], {"job": CLOSED, "last_words": [0, PANIC]}, "panic"),
    "hang in the job": ([NEW, GONE, BACK], {"job": CLOSED, "last_words": [0, "watchdog"]}, "hang"),
    "the connection": ([NEW, NEW], {"job": [255, "closed by remote host"]}, "connection"),
    "the program": ([NEW, NEW], {"job": [3, "no such program"]}, "no-result"),
    "a sysctl": ([NEW], {"sysctl": [1, "no such setting"]}, "job-refused"),
    "no time for the job": ([NEW], {"settle": [1, "a full disk"]}, "job-refused"),
    "panic before the job": ([NEW, BACK], {"settle": GONE, "last_words": [0, PANIC]}, "panic"),
    "CPUs that are off": ([NEW], {"settle": [0, "quiet_smt\ton to off\ncpus\t0"]}, "job-refused"),
    "room for {disk}": ([NEW], {"empty_folder": [1, "9 KB are free"]}, "job-refused"),
}
"""What → (what is there afterwards, the answers of commands, the reason of the failure)."""


@pytest.mark.slow
@pytest.mark.parametrize("what", WENT_WRONG)
def test_what_became_of_a_boot(what: str, fake: FakeBox) -> None:
    states, answers, reason = WENT_WRONG[what]
    every = {name: [answer] for name, answer in answers.items()}
    outcome = booted(fake.box(), fake, OWN, *states, **every)
    assert (outcome.host.status, outcome.host.reason) == ("failed", reason), outcome.host.text
    if "panic" in what:
        assert "sysrq triggered crash" in outcome.host.text
    if what == "unread words":
        assert "its last words cannot be read (ssh: connect to host" in outcome.host.text
    if what == "oops":
        assert "BUG: unable to handle it" in outcome.host.text
    if "CPUs that" in what:
        expected = "cpus = 2, and 1 are online; [box] quiet = true switched SMT off"
        assert outcome.host.text == expected and not fake.names("job")


@pytest.mark.slow
def test_remote_power_is_the_last_way(fake: FakeBox, tmp_path: Path) -> None:
    box = fake.box(box=replace(SETTINGS, power=f"touch {tmp_path}/cycled"))
    outcome = booted(box, fake, OWN, *[GONE] * 12, BACK, last_words=[[0, "pstore "]])
    assert (tmp_path / "cycled").exists()
    assert outcome.host.reason in ("reset", "box-lost")


@pytest.mark.slow
def test_a_box_that_does_not_come_back_ends_the_run(fake: FakeBox) -> None:
    box = fake.box()
    assert booted(box, fake, OWN, GONE).host.reason == "box-lost"
    with pytest.raises(ToolError, match=r"'rack1' does not answer any more.*--resume"):
        box.open(PLAN)


@pytest.mark.slow
def test_after_a_failure_the_next_boot_begins_in_the_own_kernel(fake: FakeBox) -> None:
    box = fake.box()
    booted(box, fake, OWN, NEW, NEW, job=[[3, "no such program"]])
    fake.say(state=[[0, NEW], [0, BACK], [0, NEW]], job=[[0, "RUN"]])
    outcome = run_to_end(box.open(PLAN), box.clock)
    assert (outcome.host.status, outcome.host.before["boot"]) == ("ok", "firmware")
    assert fake.names("go") == ["go kexec", "go reboot", "go kexec"]


@pytest.mark.slow
def test_a_refused_kexec_is_tried_once_more_from_the_own_kernel_booted_anew(fake: FakeBox) -> None:
    """The kernel under test that ran before may have refused it, or its first process was dead."""
    refusal = [1, "Failed to connect to bus"]
    outcome = booted(fake.box(), fake, NEW, NEW, BACK, NEW, load=[refusal, [0, ""]])
    assert (outcome.host.status, outcome.host.before["boot"]) == ("ok", "firmware")
    # The reboot did nothing either, so it was forced.
    assert fake.names("load", "go", "force") == ["load", "go reboot", "force", "load", "go kexec"]


@pytest.mark.slow
def test_a_refusal_of_the_own_kernel_just_booted_is_believed(fake: FakeBox) -> None:
    box = fake.box()
    booted(box, fake, OWN, NEW, NEW, job=[[3, "no such program"]])
    fake.say(state=[[0, NEW], [0, BACK]], load=[[1, "kexec_load failed"]])
    outcome = run_to_end(box.open(PLAN), box.clock)
    assert outcome.host.reason == "kexec-refused"
    assert fake.names("go") == ["go kexec", "go reboot"]


@pytest.mark.slow
def test_an_interrupted_boot_is_waited_for_and_ends_in_the_own_kernel(
    fake: FakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_remote: Remote) -> None:
        raise KeyboardInterrupt

    box, notices = fake.box(), list[str]()
    fake.say(state=[[0, OWN]])
    box.probe(notices.append)
    with monkeypatch.context() as ctrl_c, pytest.raises(KeyboardInterrupt):
        ctrl_c.setattr(Remote, "hang_up", interrupt)
        box.open(PLAN)
    fake.say(state=[GONE, [0, NEW], [0, BACK]])
    box.close()
    assert any("rack1: waiting for it to boot" in text for text in notices)
    assert fake.names("go", "undo") == ["undo", "go kexec", "go reboot", "undo"]


@pytest.mark.slow
def test_of_the_kdynos_of_one_machine_one_has_a_box(fake: FakeBox) -> None:
    fake.say(state=[[0, OWN]])
    first, second = fake.box(), fake.box()
    first.probe(lambda _text: None)
    with pytest.raises(ToolError, match=rf"'rack1': another kdyno .*process {os.getpid()}\)"):
        second.probe(lambda _text: None)
    second.close()
    first.close()
    fake.box().probe(lambda _text: None)
    assert fake.names("own", "undo") == ["own", "undo", "undo", "own", "undo"]


@pytest.mark.slow
def test_a_box_that_another_kdyno_has_taken_is_left_alone(fake: FakeBox) -> None:
    box = fake.box()
    fake.say(state=[[0, OWN]], load=[[3, "another kdyno has taken it: b rack1 1"]])
    box.probe(lambda _text: None)
    with pytest.raises(ToolError, match="'rack1': another kdyno has taken it: b rack1 1"):
        box.open(PLAN)
    box.close()
    assert fake.names("load", "go", "undo") == ["undo", "load"]


def test_a_watchdog_that_stops_at_a_kexec_is_noted(fake: FakeBox) -> None:
    box = fake.box()
    box._facts = {**FACTS, "watchdog_builtin": "yes"}
    (note,) = disturbing(box._facts)
    assert "watchdog.stop_on_reboot=0 on the box's own command line" in note
    box_flag, flag = box.caveats()
    assert flag.kind == "no-watchdog"
    assert flag.text.startswith("no watchdog, after a kexec from the box's own, until ")
    box._facts = FACTS
    assert box.caveats() == (box_flag,)


@pytest.mark.slow
def test_a_kernel_of_an_earlier_run_is_left_first(fake: FakeBox) -> None:
    """kdyno was killed: its kernel runs there, and what it put there lies there."""
    fake.say(state=[[0, NEW], [0, BACK]])
    notices: list[str] = []
    fake.box().probe(notices.append)
    assert fake.names("go", "undo") == ["go reboot", "undo"]
    assert any("a kernel of an earlier run" in text for text in notices)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("arch", "aarch64", "kdyno boots x86_64"),
        ("systemd", "", "does not run systemd"),
        ("kexec", "", "install kexec-tools"),
        ("kexec_disabled", "1", "kexec_load_disabled"),
        ("lockdown", "integrity", "locked down .integrity.*Secure Boot"),
        ("watchdog", "", r"\[box\] watchdog = false"),
        ("cpus", "0", "cpus = 2, and it has 1"),
    ],
)
def test_a_box_that_cannot_is_refused_before_anything_is_done(
    name: str, value: str, text: str, fake: FakeBox
) -> None:
    fake.say(facts=facts(**{name: value}))
    box = fake.box()
    with pytest.raises(ToolError, match=text):
        box.probe(lambda _text: None)
    box.close()
    assert not fake.names("own", "put", "load", "go", "undo")


@pytest.mark.slow
def test_the_cpus_of_every_variant_must_be_there(fake: FakeBox) -> None:
    fake.say()
    with pytest.raises(ToolError, match="'rack1': cpus = 8, and it has 4"):
        fake.box(variants={"new": Variant("new", "", cpus=8)}).probe(lambda _text: None)


@pytest.mark.slow
def test_ways_to_a_box_that_do_not_work(fake: FakeBox) -> None:
    for answers, message in (
        ([GONE], "`ssh rack1` must work"),
        ([[0, "Welcome!\n0"]], "`ssh rack1 id -u` must print a number alone"),
        ([[0, "1000"], [1, "sudo: a password is required"]], "sudo: a password is required"),
    ):
        fake.say(id=answers)
        with Remote("rack1") as remote, pytest.raises(ToolError, match=message):
            examination.connect(remote)


@pytest.mark.slow
def test_a_copy_that_ends_without_a_word_has_a_reason(fake: FakeBox, tmp_path: Path) -> None:
    tar = tmp_path / "modules.tar"
    tar.write_bytes(b"")
    message = "rack1: modules.tar was not copied: the copy ended early"
    for copy in (Remote.put, partial(Remote.unpack, name="modules")):
        fake.say(put=[[1, ""]])
        with Remote("rack1") as remote, pytest.raises(ToolError, match=message):
            copy(remote, tar, place="/var/lib/kdyno/x")


@pytest.mark.slow
def test_a_box_on_which_another_kdyno_works_is_refused(fake: FakeBox) -> None:
    fake.say(state=[[0, OWN]], own=[[1, "another kdyno works there"]])
    with pytest.raises(ToolError, match="another kdyno works there"):
        fake.box().probe(lambda _text: None)


@pytest.mark.slow
@pytest.mark.parametrize("root", ["root=UUID=1-2", "root=/dev/disk/by-uuid/1-2"])
def test_a_kernel_without_an_initramfs_needs_a_root_that_it_finds(fake: FakeBox, root: str) -> None:
    box = fake.box()
    shutil.rmtree(fake.image.modules)
    fake.say(state=[[0, OWN.replace("root=/dev/sda1", root)]])
    with pytest.raises(ToolError, match=rf"new has no modules .* {root} is nothing that"):
        box.probe(lambda _text: None)
    box.close()
    rooted = Variant("new", "", cmdline="root=/dev/sda2")
    fake.box(variants={"new": rooted}).probe(lambda _text: None)


@pytest.mark.slow
def test_images_have_to_fit_together(fake: FakeBox, tmp_path: Path) -> None:
    shutil.copytree(fake.image.folder, tmp_path / "other")
    other = replace(fake.image, digest="e" * 32, folder=tmp_path / "other")
    images = {"new": fake.image, "other": other}
    for each in images.values():
        os.truncate(each.vmlinuz, 100 << 20)
    box = fake.box(variants={name: Variant(name, "") for name in images}, images=images)
    fake.say(state=[[0, OWN]], facts=facts(free_kb=str(500 << 10)))
    with pytest.raises(ToolError, match=r"500 MB are free in /var/lib, and 656 .* for new, other"):
        box.probe(lambda _text: None)
    assert not [each for each in fake.log if each[:2] == ["put", "vmlinuz"]]


@pytest.mark.slow
def test_of_a_box_that_is_ready_nothing_is_kept_but_what_was_asked(fake: FakeBox) -> None:
    letters = string.ascii_lowercase
    many = [f"{a}{b}{c}\t1" for a, b, c in product(letters, letters[:8], letters[:8])]
    answer = [0, "\n".join([*many, "quiet_smt\ton to off", "cpus\t0-3"])]
    outcome = booted(fake.box(), fake, OWN, NEW, NEW, settle=[answer])
    assert outcome.host.status == "ok"
    before = outcome.host.before
    assert before["quiet_smt"] == "on to off" and len(before) < 20


def test_a_machine_of_several_has_a_name_that_a_boot_may_have() -> None:
    own = SimpleNamespace(host_facts=lambda: {"cpu_model": "x" * 100})
    boxes = SimpleNamespace(_boxes={"h" * 252 + "1": own, "h" * 252 + "2": own})
    names = list(Boxes.several(boxes))  # type: ignore[arg-type]
    assert [(len(name), name[-1]) for name in names] == [(200, "1"), (200, "2")]


def test_words_of_a_box_are_a_strangers() -> None:
    assert state_of("x\ny\n") is None
    assert state_of(OWN) is not None and state_of(OWN).own  # type: ignore[union-attr]
    fields = examination.fields_of("a\tb\nno field\nc\t\x1b[2Jd\n" + "e\t" + "x" * 5000)
    assert fields == {"a": "b", "c": "[2Jd"}
    assert cpus_of("0-3,6") == [0, 1, 2, 3, 6]
    assert cpus_of("0-999999,x,-3") == []
    assert len(cpus_of("0-9999")) == 4096
    texts = ("12", "x", "", "-1", "9" * 5000)
    assert [*map(examination.number_of, texts)] == [12, 0, 0, 0, 0]
    assert disturbing({**FACTS, "pstore": "", "governor": "powersave", "smt": "on"}) == [
        "its firmware keeps no last words (pstore): a panic is called a reset",
        "governor powersave: [box] quiet = true sets performance",
        "SMT is on: [box] quiet = true switches it off",
    ]
    assert lacks(FACTS, Settings()) == []
    assert lacks({**FACTS, "watchdog": ""}, Settings(watchdog=False)) == []
    assert lacks({**FACTS, "watchdog": ""}, Settings(power="ipmitool power cycle")) == []
    for name, value, beginning in (
        ("bwrap", "", "there is no bubblewrap"),
        ("kexec_disabled", "1", "its kernel refuses kexec (kernel.kexec_load_disabled) until"),
        ("kexec_disabled", "", "its kernel is built without kexec"),
    ):
        (bare,) = lacks({**FACTS, name: value}, Settings())
        assert bare.startswith(beginning)


def test_what_a_reset_of_a_box_ends_in_is_noted() -> None:
    def notes(**changed: str) -> list[str]:
        return disturbing({**FACTS, **changed})

    assert notes(default_kernel="/boot/efi/0f/6.1.0/linux") == []
    assert notes(default_kernel="/EFI/Linux/debian-6.1.0+3.efi") == []
    assert notes(default_kernel="/vmlinuz-linux", booted="/vmlinuz-linux") == []
    trust = "see that a reset ends in a kernel you trust"
    other = "its boot loader starts /vmlinuz-6.1.0-2 by default, and 6.1.0 runs"
    assert notes(default_kernel="/vmlinuz-6.1.0-2") == [f"{other}: {trust}"]
    unread = "what its boot loader starts by default cannot be read"
    assert notes(default_kernel="") == [f"{unread}: {trust}"]
    assert notes(package="none") == [f"its kernel 6.1.0 is of no package: {trust}"]
    assert notes(services="cron postgresql@15-main") == [
        "services run that a case may meet: cron postgresql@15-main. Stop those that it can spare"
    ]


@pytest.mark.slow
def test_what_a_box_lacks_is_refused_before_anything_is_built_or_booted(fake: FakeBox) -> None:
    cache = fake.folder
    text = TEXT.format(a="", b="cpus = 3", more="")
    experiment = parse(text, "x.toml", cache, vocabulary(load()))
    examine = partial(KINDS["box"].examine, experiment, cache=cache)
    fake.say(state=[[0, OWN]], facts=facts(pmu=""))
    expected = r"'rack1': .* metric: cycles: its CPU, .* shows no hardware counters"
    with pytest.raises(ToolError, match=expected):
        examine(("cycles", "page-faults"))
    examine(("page-faults",))
    box = fake.box(method=Method(counters=("cycles",)))
    with pytest.raises(ToolError, match=expected):
        box.probe(lambda _text: None)
    with pytest.raises(ToolError, match="another kdyno of this machine has it"):
        examine(())
    box.close()
    fake.say(facts=facts(cpus="0"))
    with pytest.raises(ToolError, match="cpus = 3, and it has 1"):
        examine(())
    # A kernel under test may lack what the box has.
    fake.say(state=[[0, NEW]])
    examine(("cycles",))
    fake.say(state=[[0, NEW], [0, BACK]], facts=[*facts(kexec_disabled="1"), *facts()])
    fake.box().probe(lambda _text: None)
    assert not fake.names("load")
    KINDS["uml"].examine(experiment, ("cycles",), cache)


@pytest.mark.parametrize(("size", "status"), [(1 << 20, 0), ((1 << 20) + 1, 255)])
def test_more_than_a_megabyte_is_no_answer(fake: FakeBox, size: int, status: int) -> None:
    fake.say(other=[[0, "x" * (size - 1)]])  # and the end of its line
    with Remote("rack1") as remote:
        answer = remote.ask("true")
    assert (answer.status, len(answer.text)) == (status, 1 << 20)


@pytest.mark.slow
def test_words_on_the_remote_command_line_stay_words(fake: FakeBox) -> None:
    fake.say()
    odd = "$(touch /tmp/x); 'a' \"b\" `c` \\ \n*"
    with Remote("rack1") as remote:
        remote.ask("printf %s", odd)
        remote.sudo = True
        remote.ask("printf %s", odd)
    assert fake.log == [["other", odd], ["other", odd]]


IGNORED = TEXT.format(
    a='scheduler = "fifo"', b='programs = "32-bit"', more='memory = "2G"\n[layout]'
)


def test_keys_that_a_box_would_not_notice_are_refused() -> None:
    experiment = parse(IGNORED, "x.toml", Path("/"), vocabulary(load()))
    best = Variant("c", "", arch="x86_64", best=(("memcpy", "this CPU has it"),))
    with pytest.raises(UsageError) as refusal:
        bench.check_machine(replace(experiment, variants=(*experiment.variants, best)))
    lines = str(refusal.value).splitlines()
    for beginning in (
        "x.toml:6: variant.a: scheduler is loaded by a guest's first process: leave it out",
        'x.toml:8: variant.b: programs = "32-bit": a box runs its own: leave it out',
        "x.toml:13: machine.memory: a box has its own memory: leave it out",
        "x.toml:14: layout: several links of each kernel",
        'variant.c: "best" is a routine for the CPU of this machine: name one',
    ):
        assert any(beginning in line for line in lines), (beginning, lines)


def test_programs_of_a_box_are_not_looked_for_here(
    fake: FakeBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "guest_program", lambda *_: tmp_path / "guest")
    suites = load()
    text = IGNORED.replace('name = "run"\ncases = ["a"]\ncommand = ["true"]', 'name = "fio"')
    text += '[[suite]]\nname = "run"\ncommand = "nosuchprogram"\n'
    experiment = parse(text, "x.toml", Path("/"), vocabulary(suites))
    monkeypatch.setitem(bench.ENVIRONMENT, "PATH", str(tmp_path))
    assert bench.check_cases(experiment, suites, tmp_path, Recipes({}, {})) == ()
    here = replace(experiment, machine=Machine("qemu"))
    with pytest.raises(UsageError, match="no program 'nosuchprogram'"):
        bench.check_cases(here, suites, tmp_path, Recipes({}, {}))


def test_features_are_hidden_by_the_command_line_of_a_box(fake: FakeBox) -> None:
    box = fake.box(variants={"new": Variant("new", "", cmdline="quiet", memcpy="plain")})
    assert box._cmdline("new", "t").split()[:2] == ["clearcpuid=fsrm,erms", "quiet"]


# Kernels that are built for a box; several boxes for one run.


MAKEFILE = """
localmodconfig:
	@read answer && cd $(O) && grep -vf $(LSMOD) .config >.new && cp .new .config
bzImage: linux
	@cd $(O) && mkdir -p arch/x86/boot include/config && cp linux arch/x86/boot/bzImage
	@echo 7.3.4-toy >$(O)/include/config/kernel.release
modules: linux
modules_install:
	@cd $(O) && mkdir -p $(INSTALL_MOD_PATH)/lib/modules/7.3.4-toy/kernel
	@cd $(INSTALL_MOD_PATH)/lib/modules/7.3.4-toy && echo 1 >kernel/a.ko && ln -s / build
"""
KCONFIG = FILES["Kconfig"] + 'config MODULES\n\tbool "Modules"\n'


@pytest.mark.slow
def test_a_kernel_and_its_modules_are_packed_for_a_box(tmp_path: Path) -> None:
    toy = Toy(tmp_path, {"Makefile": FILES["Makefile"] + MAKEFILE, "Kconfig": KCONFIG})
    plain = toy.build(variant())
    assert not plain.has(KEXEC) and release_of(plain) == "7.3.4" and not plain.modular
    image = toy.build(variant("own", "CONFIG_MODULES=y"), extract=KEXEC)
    with tarfile.open(image.folder / KEXEC.name) as tar:
        names = [member.name for member in tar.getmembers() if member.isfile()]
        assert {member.uid for member in tar.getmembers()} == {0}
    top = "7.3.4-toy"
    assert sorted(names) == [f"{top}/config", f"{top}/modules/kernel/a.ko", f"{top}/vmlinuz"]
    assert image.has(KEXEC) and release_of(image) == top and image.modular
    # A kernel without modules has none to be made, and the one of before only lacks the file.
    again = toy.build(variant(), extract=KEXEC)
    assert again.digest == plain.digest and again.has(KEXEC) and not again.modular


@pytest.mark.slow
def test_the_configuration_of_a_box_as_a_source_has_it(tmp_path: Path) -> None:
    toy = Toy(tmp_path, {"Makefile": FILES["Makefile"] + MAKEFILE, "Kconfig": KCONFIG})
    recipe = toy.recipe(variant("own", "CONFIG_HZ=300"))
    config = 'CONFIG_NET=y\nCONFIG_SMP=y\nCONFIG_MODULE_SIG_KEY="mine"\n# CONFIG_SORT is not set\n'
    lines = localized(recipe, config, "CONFIG_SMP", toy.cache, "own")
    assert {"CONFIG_NET=y", "CONFIG_HZ=300"} <= set(lines)
    assert not any("SMP" in line or "MODULE_SIG_KEY" in line for line in lines)
    kept = next((toy.cache / "configs").glob("*.local"))
    kept.write_text("CONFIG_NET=y\n")
    assert localized(recipe, config, "CONFIG_SMP", toy.cache, "own") == ("CONFIG_NET=y",)
    assert localized(recipe, config, "CONFIG_NET", toy.cache, "own") != ("CONFIG_NET=y",)


def test_what_belongs_to_a_build_elsewhere_is_not_taken_over() -> None:
    config = (
        'CONFIG_CC_VERSION_TEXT="gcc"\nCONFIG_SYSTEM_TRUSTED_KEYS="debian.pem"\nCONFIG_EXT4_FS=m\n'
        "CONFIG_MODULE_SIG=y\nCONFIG_DEBUG_INFO_BTF=y\n# a comment\nCONFIG_MODULES=y\n"
    )
    lines = local_lines(config)
    assert lines[:2] == ("CONFIG_EXT4_FS=m", "CONFIG_MODULES=y")
    assert Wish("CONFIG_MODULE_SIG", "n", "").line in lines and "CONFIG_DEBUG_INFO_NONE=y" in lines


@pytest.mark.slow
def test_a_box_is_asked_for_its_configuration_once(fake: FakeBox, tmp_path: Path) -> None:
    def ask(refresh: bool = False, fetching: bool = True) -> tuple[str, str]:
        return own_config(("rack1",), tmp_path, refresh, fetching)

    with pytest.raises(LookupError):
        ask(fetching=False)
    under_test = OWN.replace("quiet", "kdyno.boot=1")
    fake.say(state=[[0, under_test], [0, OWN]], config=[[0, "CONFIG_A=y"]], lsmod=[[0, "ext4 1 1"]])
    with pytest.raises(ToolError, match="is in a kernel under test"):
        ask()
    assert ask() == ("CONFIG_A=y\n", "ext4 1 1\n")
    fake.say(state=[[0, OWN]], config=[[0, "CONFIG_B=y"]])
    assert ask(fetching=False)[0] == ask()[0] == "CONFIG_A=y\n"
    assert ask(refresh=True)[0] == "CONFIG_B=y\n"
    config, modules = own_config(("rack1", "rack2"), tmp_path, False, True)
    assert (config, modules.split("\n")) == ("CONFIG_B=y\n", ["ext4 1 1", "", "ext4 1 1", ""])


@pytest.mark.slow
def test_boxes_take_blocks_in_turns(fake: FakeBox, monkeypatch: pytest.MonkeyPatch) -> None:
    boxes = Boxes(fake.setup(hosts=("rack1", "rack2")))
    two = [*facts(machine_id="0" * 32), *facts(machine_id="1" * 32)]
    fake.say(state=[[0, OWN]], facts=two)
    boxes.probe(lambda _text: None)
    assert list(boxes.several()) == ["A CPU rack1", "A CPU rack2"]
    assert boxes.host_facts()["cpu_model"] == "A CPU" and "box" not in boxes.host_facts()
    monkeypatch.setattr(Box, "open", lambda box, plan, _listener: (box._host, plan.block))
    plan = Plan("new", Job(()))
    hosts = [boxes.open(replace(plan, block=block)) for block in range(3)]
    assert hosts == [("rack1", 0), ("rack2", 1), ("rack1", 2)]
    fake.say(state=[[0, BACK]])
    boxes.close()
    assert fake.names("undo") == ["undo"] * 4
    assert json.loads((fake.folder / "plan").read_text())["state"] == [[0, BACK]]


@pytest.mark.slow
def test_two_names_of_one_box_are_refused(fake: FakeBox) -> None:
    boxes = Boxes(fake.setup(hosts=("rack1", "rack2")))
    fake.say(state=[[0, OWN]])
    with pytest.raises(ToolError, match="rack1 and rack2 are names of one and the same box"):
        boxes.probe(lambda _text: None)
    boxes.close()


def test_a_command_line_has_no_place_for_a_host() -> None:
    of_command_line("qemu", "kernels are booted by")
    with pytest.raises(UsageError, match=r'uml and qemu\. A box has a host: .*host = "NAME"'):
        of_command_line("box", "kernels are booted by")
    with pytest.raises(UsageError, match=r"kernels are booted by uml and qemu$"):
        of_command_line("vax", "kernels are booted by")
