# SPDX-License-Identifier: MIT
"""What a box is, before it measures: how it is asked, what it lacks, what would disturb it, and the
configuration of its own kernel."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from kdyno import whole
from kdyno.errors import ToolError
from kdyno.experiment.model import Box as Settings, Experiment
from kdyno.machines import facts
from kdyno.machines.ssh import Remote
from kdyno.reading.checked import values_in

ROOM = "/var/lib/kdyno"
_SURROUNDINGS_S = 180.0
"""With package databases and boot loaders."""
_FIELD = re.compile(r"([a-z_]{1,40})\t(.{0,4000})")
_NO_PMU = "its CPU, or the virtual machine that it is, shows no hardware counters"

_SCRIPT = f"room={ROOM}\n" + Path(__file__).with_name("box.sh").read_text("utf-8")


def call(function: str) -> str:
    """A function of box.sh with the command's arguments."""
    return f'{_SCRIPT}{function} "$@"'


STATE = "cat /proc/sys/kernel/random/boot_id && uname -r && cat /proc/cmdline"


@dataclass(frozen=True)
class State:
    """Which boot of which kernel answers."""

    boot_id: str
    release: str
    words: tuple[str, ...]
    """Of its command line."""

    @property
    def own(self) -> bool:
        """The box's own kernel, as its boot loader starts it."""
        return not any(word.startswith("kdyno.boot=") for word in self.words)


def state_of(text: str) -> State | None:
    """From what ``STATE`` prints."""
    lines = text.splitlines()
    if len(lines) < 3 or len(lines[0]) != 36:
        return None
    return State(lines[0], lines[1][:200], tuple(lines[2].split()))


def fields_of(text: str) -> dict[str, str]:
    """Lines of a name, a tab and a value; what is no such line is left out."""
    pairs = map(_FIELD.fullmatch, text.splitlines())
    fields = (pair.groups() for pair in pairs if pair)
    return {name: "".join(filter(str.isprintable, value.strip())) for name, value in fields}


def number_of(text: str) -> int:
    """0 of what is none."""
    return int(text) if re.fullmatch(r"\d{1,15}", text) else 0


def cpus_of(text: str) -> list[int]:
    """``0-3,6`` as numbers; none of what is no such list, and 4,096 at most."""
    numbers: set[int] = set()
    for part in text.split(","):
        if match := re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip()):
            numbers |= {*range(int(match[1]), int(match[2] or match[1]) + 1)}
    return sorted(numbers)[:4096]


def connect(remote: Remote) -> dict[str, str]:
    """As root there, by sudo if need be; what the box is. ToolError where that cannot be."""
    answer = remote.ask("id -u")
    if not answer.reached:
        why = answer.last or "no answer"
        raise ToolError(
            f"box {remote.host!r}: ssh does not reach it: {why}. `ssh {shlex.quote(remote.host)}` "
            "must work without a question"
        )
    if answer.status == 0 and not re.fullmatch(r"\d+", answer.text.strip()):
        raise ToolError(
            f"box {remote.host!r}: its shell prints words of its own before a command's. "
            f"`ssh {shlex.quote(remote.host)} id -u` must print a number alone"
        )
    remote.sudo = answer.text.strip() != "0"
    if remote.sudo and (answer := remote.ask("id -u")).text.strip() != "0":
        raise ToolError(
            f"box {remote.host!r}: kdyno is not root there, and `sudo -n` does not work: "
            f"{answer.last}. It boots kernels, so it needs either"
        )
    return fields_of(remote.must("it cannot be examined", call("facts")))


def surroundings(remote: Remote) -> dict[str, str]:
    """``connect``, with what else may matter to measurements. ToolError."""
    fields = connect(remote)
    own_kernel(remote)
    text = remote.must("it cannot be examined", call("surroundings"), limit_s=_SURROUNDINGS_S)
    return fields | fields_of(text)


def own_kernel(remote: Remote) -> State:
    """Which boot of the box's own kernel runs; ToolError for one under test."""
    state = state_of(remote.must("it cannot be examined", STATE))
    if state is None or not state.own:
        raise ToolError(
            f"box {remote.host!r} is in a kernel under test, which says nothing of its own: reset "
            "it, or wait for the run that works there"
        )
    return state


def kept(cache: Path, host: str, suffix: str) -> Path:
    """The file about a box."""
    return cache / "boxes" / f"{hashlib.sha256(host.encode()).hexdigest()[:16]}{suffix}"


_CONFIG = 'zcat /proc/config.gz 2>/dev/null || cat "/boot/config-$(uname -r)"'
_LSMOD = "PATH=$PATH:/usr/sbin:/sbin lsmod"


def own_config(hosts: Sequence[str], cache: Path, refresh: bool, fetching: bool) -> tuple[str, str]:
    """(the configuration of the first one's own kernel, the modules that any has loaded), as they
    were when somebody first asked: a run can be resumed with the same kernels. refresh: asks again.
    ToolError; LookupError without ``fetching`` where nobody has asked."""
    config, modules = "", []
    for host in hosts:
        saved = kept(cache, host, ".json")
        if refresh or not saved.is_file():
            if not fetching:
                raise LookupError(host)
            with Remote(host) as remote:
                connect(remote)
                state = own_kernel(remote)
                text = remote.must("its kernel has no configuration in /proc or /boot", _CONFIG)
                answer = [state.release, text, remote.must("no list of modules", _LSMOD)]
            saved.parent.mkdir(parents=True, exist_ok=True)
            whole.write(saved, json.dumps(answer).encode())
        _release, text, listed = values_in(saved)
        config = config or text
        modules.append(listed)
    return config, "\n".join(modules)


def lacks(
    fields: Mapping[str, str], settings: Settings, *, cpus: int = 1, counters: Sequence[str] = ()
) -> list[str]:
    """What keeps kdyno from booting kernels on a box, each with the way out. counters: that are
    read there, of experiment.model.COUNTERS."""
    problems = []
    if fields.get("arch") != "x86_64":
        problems.append(f"it is {fields.get('arch') or 'no known machine'}; kdyno boots x86_64")
    if not fields.get("systemd"):
        problems.append("it does not run systemd, whose `systemctl kexec` stops services first")
    if not fields.get("kexec"):
        problems.append("there is no kexec: install kexec-tools")
    if not (disabled := fields.get("kexec_disabled")):
        problems.append("its kernel is built without kexec (CONFIG_KEXEC)")
    elif disabled != "0":
        problems.append("its kernel refuses kexec (kernel.kexec_load_disabled) until it is reset")
    if fields.get("lockdown", "") not in ("", "none"):
        problems.append(
            f"its kernel is locked down ({fields['lockdown']}), which refuses kexec of kernels "
            "that are not signed: Secure Boot has to be off"
        )
    if not fields.get("bwrap"):
        problems.append("there is no bubblewrap, in which cases run: install it")
    if not fields.get("watchdog") and settings.watchdog and not settings.power:
        problems.append(
            "there is no watchdog, so a kernel that hangs needs somebody who resets the box. "
            "[box] watchdog = false (doctor: --no-watchdog) accepts that; "
            'power = "COMMAND" resets it from here'
        )
    if (there := len(cpus_of(fields.get("cpus", "")))) < cpus:
        problems.append(f"cpus = {cpus}, and it has {there}")
    if (hardware := facts.hardware(counters)) and not fields.get("pmu"):
        problems.append(f"[measure] counters, metric: {', '.join(hardware)}: {_NO_PMU}")
    return problems


def examine(experiment: Experiment, counters: Sequence[str], cache: Path) -> None:
    """For ``Kind.examine``. A box in a kernel under test is not judged by that one."""
    machine = experiment.machine
    cpus = max(variant.cpus or machine.cpus for variant in experiment.variants)
    for host in machine.all_hosts:
        refuse_busy(cache, host)
        with Remote(host) as remote:
            fields, state = connect(remote), state_of(remote.ask(STATE).text)
            if state is None or state.own:
                refuse(host, lacks(fields, experiment.box, cpus=cpus, counters=counters))


def lock(cache: Path, host: str) -> AbstractContextManager[None]:
    """Of the one kdyno of this machine that measures there. ToolError for a second one."""

    def held(holder: str) -> None:
        raise ToolError(f"box {host!r}: another kdyno of this machine has it ({holder})")

    return whole.locked(kept(cache, host, ".lock"), held)


def refuse_busy(cache: Path, host: str) -> None:
    """What only examines a box does not keep others from it, and disturbs none that measures."""
    with lock(cache, host):
        pass


def refuse(host: str, problems: Sequence[str]) -> None:
    if problems:
        raise ToolError(f"box {host!r}: {'; '.join(problems)}")


def disturbing(fields: Mapping[str, str]) -> list[str]:
    """What is worth knowing of a box before it measures, and prevents nothing."""
    get, notes = fields.get, []
    trust = "see that a reset ends in a kernel you trust"
    default, release = get("default_kernel", ""), get("release", "")
    # A unified image's name may count its attempts to boot, and has a suffix.
    of_release = rf"(?<![\w.+]){re.escape(release)}(\+\d+(-\d+)?)?(\.efi)?(?![\w.+-])"
    if not default:
        notes.append(f"what its boot loader starts by default cannot be read: {trust}")
    elif default != get("booted") and not re.search(of_release, default):
        notes.append(f"its boot loader starts {default} by default, and {release} runs: {trust}")
    if get("package") == "none":
        notes.append(f"its kernel {release} is of no package: {trust}")
    if not get("generator"):
        notes.append("there is neither mkinitramfs nor dracut: no kernel with modules boots there")
    if get("watchdog") and get("watchdog_builtin"):
        notes.append(
            "its watchdog is built in and stops at a kexec: a kernel that hangs at its start needs "
            "you. watchdog.stop_on_reboot=0 on the box's own command line lets it go on"
        )
    if not get("pstore"):
        notes.append("its firmware keeps no last words (pstore): a panic is called a reset")
    if get("governor", "performance") not in ("", "performance"):
        notes.append(f"governor {get('governor')}: [box] quiet = true sets performance")
    if get("turbo") in ("1", "on"):
        notes.append("turbo is on: [box] quiet = true switches it off")
    if get("smt") == "on":
        notes.append("SMT is on: [box] quiet = true switches it off")
    if get("timers", "0") != "0":
        notes.append(f"{get('timers')} timers are active: [box] quiet = true stops them")
    if get("services"):
        notes.append(
            f"services run that a case may meet: {get('services')}. Stop those that it can spare"
        )
    if not get("pmu"):
        notes.append(f"{_NO_PMU}: cases are timed there, and not counted")
    return notes
