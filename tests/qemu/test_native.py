# SPDX-License-Identifier: MIT
"""Native kernels in QEMU: counts that agree to the last digit, guests that go wrong, programs and
a disk of this machine, turns."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from booting import booted, case, command
from descendants import adopt, descendants, until
from real_kernels import built_kernels

from kdyno.experiment.model import SuiteUse
from kdyno.kernels.image import Image
from kdyno.machines import emulator
from kdyno.machines.emulator import TALLY, Plugin, library
from kdyno.machines.guest import guest_program
from kdyno.machines.process import Outcome
from kdyno.machines.qemu import Chance
from kdyno.measure import turns
from kdyno.measure.bench import Bench, bench_of, plan_of
from kdyno.measure.builder import Built
from kdyno.paths import cache_root
from kdyno.store.verdict import Verdict
from kdyno.suites.protocol import CaseError, Sample
from kdyno.verbs.subject import load

EXPERIMENT = Path(__file__).with_name("known.toml")
# Also `uml`: real kernels, one test at a time.
pytestmark = [pytest.mark.qemu, pytest.mark.uml, pytest.mark.needs("qemu-system-x86_64")]


@pytest.fixture(scope="module")
def built() -> Built:
    return built_kernels(EXPERIMENT)


@pytest.fixture(scope="module")
def stock(built: Built) -> Image:
    return built.images["stock"]


@pytest.fixture(scope="module", autouse=True)
def _guests_of_its_own() -> None:
    adopt()


def ran(outcome: Outcome) -> Outcome:
    assert outcome.host.status == "ok", outcome.host
    return outcome


def sample(outcome: Outcome, number: int = 0) -> Sample:
    result = outcome.transcript.result(number)
    assert isinstance(result, Sample), (result, outcome.host)
    return result


def printed(outcome: Outcome, number: int = 0) -> str:
    return sample(outcome, number).extra["stdout"]


def counts(outcome: Outcome) -> list[tuple[tuple[int, int], ...]]:
    """(operations, instructions) of each part of each case."""
    return [sample(ran(outcome), at).reps for at in range(len(outcome.transcript.results))]


def failure(outcome: Outcome) -> str:
    """Its reason."""
    assert outcome.host.status == "failed", outcome.host
    return outcome.host.reason


def ended_at_a_limit(image: Image, bench: str) -> Outcome:
    """A limit in time that comes after the boot, which takes longer on a busy machine."""
    for limit_s in (5, 20, 80):
        outcome = booted(image, case(bench, timeout_s=3000.0), limit_s=limit_s)
        if failure(outcome) != "hang":
            break
    return outcome


def test_an_empty_job_boots_and_says_what_it_is(stock: Image) -> None:
    outcome = ran(booted(stock))
    hello = outcome.transcript.hello
    assert hello is not None and hello.release.startswith("7.3")
    assert (hello.machine, hello.word_bits, hello.cpus) == ("x86_64", 64, 1)
    assert "-icount" in outcome.command


@pytest.mark.parametrize(
    ("words", "copies"), [("", "plain"), ("setcpuid=fsrm", "fsrm"), ("setcpuid=erms", "erms")]
)
def test_a_kernel_tells_how_it_copies(stock: Image, words: str, copies: str) -> None:
    hello = booted(stock, cmdline=words).transcript.hello
    assert hello is not None and hello.copies == copies


def test_counts_agree_to_the_last_digit_in_and_outside_the_sandbox(stock: Image) -> None:
    job = (case("syscall", operations=20_000), case("pipe", operations=4_000))
    first = counts(booted(stock, *job))
    assert counts(booted(stock, *job, sandboxed=False)) == first
    assert all(len(parts) == 400 for parts in first)
    # Another memory, and instructions of 2 ns: ticks fall elsewhere, and no other part changes.
    number = next(number for number in range(1, 99) if Chance.of(number).shift)
    other = counts(booted(stock, *job, draw=number))
    assert other != first
    for mine, parts in zip(other, first, strict=True):
        ((usual, times),) = Counter(parts).most_common(1)
        assert times > 200 and Counter(mine).most_common(1)[0][0] == usual


def test_the_reading_of_the_clock_is_in_no_count(stock: Image) -> None:
    """Parts of one operation and of fifty: what they differ by is not an operation's."""
    one = booted(stock, case("syscall", operations=400), case("syscall", operations=20_000))
    (short, _), (long, _) = (Counter(parts).most_common(1)[0] for parts in counts(one))
    assert short[0] == 1 and long[0] == 50
    # Ten instructions begin and end the loop; reading the clock twice takes some eighty.
    assert 0 <= 50 * short[1] - long[1] < 50 * 20


def test_a_rare_cost_is_five_per_cent_whatever_a_write_takes(tmp_path: Path) -> None:
    """rare-cost.patch measures by the kernel's clock how long writes are. Here a nanosecond is an
    instruction, far from the speed of any CPU."""
    body = EXPERIMENT.read_text(encoding="utf-8").replace('patches = ["known-path.patch"]\n', "")
    own = 'patches = ["rare-cost.patch"]\ncflags = { "fs/pipe.c" = "-DKDYNO_EVERY=400" }'
    body = body.replace('cflags = { "fs/pipe.c" = "-DKDYNO_MORE=41" }', own)
    (tmp_path / "rare.toml").write_text(body, encoding="utf-8")
    file = tmp_path / "verdict.json"
    words = ("--case", "pipe", "--case", "syscall", "--max-boots", "3")
    command = [sys.executable, "-m", "kdyno", "run", tmp_path / "rare.toml", *words]
    subprocess.run([*command, "--runs", tmp_path, "--json", file], check=True)
    pipe, syscall = sorted(
        Verdict.from_json(file.read_bytes()).effects, key=lambda effect: effect.case
    )
    # In the usual write is the call of the function alone, some ten instructions of 1,450.
    usual = (pipe.value or 0) / (pipe.baseline_value or 1)
    assert not pipe.exact and usual == pytest.approx(1.008, abs=0.003)
    assert (pipe.parts_ratio or 0) / usual == pytest.approx(1.05, abs=0.004)
    assert syscall.exact and syscall.ratio == 1.0


def test_41_instructions_are_found_exactly_and_nowhere_else(built: Built, tmp_path: Path) -> None:
    file = tmp_path / "verdict.json"
    command = [sys.executable, "-m", "kdyno", "run", EXPERIMENT, "--runs", tmp_path, "--json", file]
    done = subprocess.run([*command, "--fail-on", "slower"], capture_output=True, text=True)
    assert done.returncode == 10, done.stdout + done.stderr  # the gate of docs/ci
    verdict = Verdict.from_json(file.read_bytes())
    more = {
        effect.case: (effect.value or 0) - (effect.baseline_value or 0)
        for effect in verdict.effects
    }
    assert {name: round(value, 3) for name, value in more.items()} == {
        "syscall": 0.0, "pipe": 41.0, "fscopy-1024": 0.0, "dhry2reg": 0.0,
    }  # fmt: skip
    assert all(effect.exact for effect in verdict.effects)
    assert set(verdict.boots.values()) == {3}
    assert "with 41.000 more instructions an operation" in verdict.answer
    (caveat,) = [flag.text for flag in verdict.flags if flag.kind == "machine"]
    assert "not time" in caveat and emulator.find().version in caveat


def kdyno(*words: str | Path) -> str:
    """What it says on stdout."""
    command = [sys.executable, "-m", "kdyno", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_41_are_in_one_function_of_one_chain_and_the_sum_is_theirs(
    built: Built, tmp_path: Path
) -> None:
    """In the run's verdict, its report, and instruction by instruction."""
    own = ("--runs", tmp_path)
    kdyno("run", EXPERIMENT, *own, "--case", "pipe", "--case", "fscopy-1024")
    data = json.loads(kdyno("profile", "last", *own, "--method", "count", "--json", "-"))
    stock, mine = (each for each in data["counts"] if each["case"] == "pipe")
    before, after = (
        {tuple(count["functions"]): count["instructions"] for count in counts["chains"]}
        for counts in (stock, mine)
    )
    differing = {name: after[name] - before[name] for name in before if after[name] != before[name]}
    assert differing == {
        ("entry_SYSCALL_64", "do_syscall_64", "ksys_write", "vfs_write", "anon_pipe_write"): 41.0
    }
    for counts in (stock, mine):
        assert sum(count["instructions"] for count in counts["chains"]) == pytest.approx(
            counts["total"]
        )

    (file,) = tmp_path.glob("*/verdict.json")
    verdict = Verdict.from_json(file.read_bytes())
    pipe, files = sorted(verdict.effects, key=lambda value: value.case == "fscopy-1024")
    counted = (pipe.value or 0) - (pipe.baseline_value or 0)
    explained = sum(function.value - function.baseline_value for function in pipe.functions)
    assert explained / counted == pytest.approx(1.0, abs=1e-4)
    assert pipe.functions[0].function == "anon_pipe_write"
    assert [function.where for function in files.functions] == ["others"]
    assert "anon_pipe_write" in kdyno("report", "last", *own)

    words = ("--annotate", "anon_pipe_write", "--json", "-")
    (tables,) = json.loads(kdyno("profile", "last", *own, *words))["annotated"]
    added = [row["variant"] for row in tables["rows"] if row["baseline"] is None]
    assert [(each["instruction"], each["executions"]) for each in added] == [("nop", 1.0)] * 41
    both = [row["baseline"] for row in tables["rows"] if row["baseline"] is not None]
    assert sum(each["executions"] for each in both) == pytest.approx(110.0, abs=1e-3)


def test_a_command_of_the_hosts_is_counted_with_program_and_kernel_apart(stock: Image) -> None:
    sort = command("sort", "-n", "/usr/share/common-licenses/GPL-3", operations=5)
    jobs = (case("pipe"), sort)
    counter = library(TALLY, cache_root(), emulator.find())
    output = os.fdopen(os.memfd_create("tally"), "w+b")
    plugin = Plugin(counter, output, f"kernel {1 << 63}\n".encode())
    outcome = booted(stock, *jobs, plugin=plugin, tally=True)
    # The plugin changes nothing; beside the host's files a part may have a tick more.
    assert min(counts(outcome)[0]) == min(counts(booted(stock, *jobs))[0])
    result = sample(outcome, 1)
    user, kernel = (float(result.extra[f"counted-{name}"]) for name in ("user", "kernel"))
    assert user > 1e5 and kernel > 1e5
    # The score is the CPU time of the command's processes; who started them is in here too.
    assert user + kernel == pytest.approx(min(ns / done for done, ns in result.reps), rel=0.05)


def test_a_panic_is_a_failed_boot_with_the_kernels_own_words(stock: Image) -> None:
    outcome = booted(stock, case("pipe"), case("fault-panic"))
    assert failure(outcome) == "panic" and "Kernel panic" in outcome.host.text
    sample(outcome)


def test_an_init_that_is_not_there_or_dies_is_reported(stock: Image) -> None:
    assert failure(booted(stock, cmdline="rdinit=/nowhere init=/nowhere")) == "init-died"


def test_a_guest_that_stays_silent_is_killed_at_the_limit(stock: Image) -> None:
    assert failure(ended_at_a_limit(stock, "fault-hang")) == "timeout"


def test_a_case_that_hangs_crashes_or_eats_memory_costs_only_itself(stock: Image) -> None:
    faults = [case(f"fault-{name}") for name in ("segv", "oom", "exit")]
    cases = (case("fault-hang", timeout_s=0.5), *faults, case("pipe"))
    outcome = ran(booted(stock, *cases, memory=64 << 20))
    for number in range(4):
        assert isinstance(outcome.transcript.result(number), CaseError)
    sample(outcome, 4)


def test_a_guest_that_floods_its_console_is_ended(stock: Image) -> None:
    # Its serial port is so slow that the limit in time comes first, or that in bytes.
    outcome = ended_at_a_limit(stock, "fault-flood")
    assert failure(outcome) in ("flood", "timeout") and len(outcome.console) < 3 << 20


def test_a_kernel_that_is_none_is_reported_in_qemus_words(tmp_path: Path) -> None:
    broken = tmp_path / "linux"
    broken.write_bytes(Path("/bin/true").read_bytes())  # an ELF file, but no kernel
    broken.chmod(0o644)
    (tmp_path / "config").touch()
    tmp_path.chmod(0o755)
    image = Image("x", tmp_path, "x86_64", 64, "7.3", {})
    assert failure(booted(image, sandboxed=False)) == "emulator"


def test_nothing_is_left_when_kdyno_is_killed(built: Built, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kdyno", "run", EXPERIMENT, "--runs", tmp_path]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: descendants(b"-icount"), process)
    finally:
        process.kill()
        process.wait()
    # The kernel takes down the sandbox of a parent that is gone.
    until(lambda: not descendants(b"-icount"))


def test_a_guest_runs_this_machines_programs_and_sees_no_more_than_they_need(stock: Image) -> None:
    look = "sort /etc/passwd | head -n 1; ls /tmp /ro* /run/kdyno; find / -xdev -name kdyno.job"
    write = "touch /usr/x 2>&1 || :; mknod /tmp/disk b 254 0 2>&1 || :"
    outcome = ran(booted(stock, command("sh", "-c", look), command("sh", "-c", write)))
    first = sorted(Path("/etc/passwd").read_text().splitlines(), key=str.encode)[0]
    assert printed(outcome) == f"{first}\n/root:\n\n/run/kdyno:\nhost\n\n/tmp:\n"
    refused = printed(outcome, 1)
    assert "Read-only file system" in refused and "not permitted" in refused


def test_what_a_program_costs_is_its_own_cpu_time_and_not_the_hosts(stock: Image) -> None:
    outcome = booted(stock, command("sleep", "0.2"), case("shell", "1", operations=5))
    # And not 200 million.
    assert sum(count for _, count in sample(outcome).reps) < 20_000_000
    each = [count / operations for operations, count in sample(outcome, 1).reps]
    assert len(each) == 5 and max(each) < 1.1 * min(each)


def test_a_case_on_a_disk_has_one_that_nobody_else_can_find(stock: Image) -> None:
    folder, left = cache_root() / "disks", []

    def files() -> set[Path]:
        own: set[Path] = set()
        for file in folder.glob("kdyno-boot-*/in/disk"):
            with suppress(OSError, IndexError):  # others' are made and removed meanwhile
                if (file.parents[1] / ".held").read_text().split()[0] == str(os.getpid()):
                    own.add(file)
        return own

    def begun(_case: str) -> None:
        left.append(files() - before)

    before = files()
    write = "dd if=/dev/zero of=/run/disk/file bs=4k count=100 conv=fsync 2>&1; df -T /run/disk"
    write_case = command("sh", "-c", write)
    outcome = ran(booted(stock, write_case, disk_bytes=64 << 20, listener=begun))
    assert "409600 bytes" in printed(outcome) and "ext4" in printed(outcome)
    assert left == [set()]  # gone as soon as the guest has greeted


def test_suites_of_programs_and_of_a_disk_are_counted_where_somebody_insists(
    tmp_path: Path,
) -> None:
    text = EXPERIMENT.read_text(encoding="utf-8")
    head, tail = text.index("[[suite]]"), text.index("[measure]")
    suites = """[[suite]]
name = "hackbench"
cases = ["pipes"]

[[suite]]
name = "fio"
cases = ["write-4k"]

"""
    file = tmp_path / "programs.toml"
    text = text[:head] + suites + text[tail:] + "insist = true\nmax_boots = 2\n"
    file.write_text(text.replace('"128M"', '"256M"'))
    path = tmp_path / "verdict.json"
    line = [sys.executable, "-m", "kdyno", "run", file, "--quick", "--runs", tmp_path / "runs"]
    done = subprocess.run([*line, "--json", path], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(path.read_text())
    effects = {each["case"]: each for each in verdict["effects"]}
    assert {effect["unit"] for effect in effects.values()} == {"instructions/operation"}
    assert all(1e6 < effect["value"] < 1e10 for effect in effects.values())
    first, second = [each["text"] for each in verdict["flags"] if each["kind"] == "not-decided"]
    assert "hackbench/pipes: how often" in first and "fio/write-4k: it waits" in second


def test_an_emulated_clock_goes_by_the_time_stamp_counter(stock: Image) -> None:
    """The guest goes by the tick rate that QEMU says."""
    khz = emulator.ticks_khz(guest_program(cache_root(), 64))
    if khz == 0:
        pytest.skip("this CPU's time-stamp counter does not always go alike")
    source = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    outcome = ran(booted(stock, command("cat", source), way="tcg", ticks_khz=khz))
    assert printed(outcome) in ("tsc-early\n", "tsc\n")
    assert outcome.host.host_clock_s is not None and outcome.host.guest_clock_s is not None


NAMES = ("stock", "pipe-41")
LOOP = "i=0; while [ $i -lt 20 ]; do cat /proc/version >/dev/null; i=$((i+1)); done"


@pytest.fixture
def bench() -> Bench:
    experiment, suites = load(EXPERIMENT)
    experiment = dataclasses.replace(
        experiment,
        suites=(
            SuiteUse("unixbench", ("pipe",), 0.05),
            SuiteUse("run", ("loop",), 0.2, command=("sh", "-c", LOOP)),
        ),
        machine=dataclasses.replace(experiment.machine, accel="tcg"),
        measure=dataclasses.replace(experiment.measure, metric="time"),
    )
    images = built_kernels(EXPERIMENT).images
    return bench_of(experiment, suites, images, None, cache_root(), lambda _text: None)


def test_guests_take_turns_and_those_that_are_frozen_stand_still(bench: Bench) -> None:
    effort = {("unixbench", "pipe"): 0.05, ("run", "loop"): 0.2}
    plans = [plan_of(bench, name, turns=True, draw=7) for name in NAMES]
    result = turns.measure(bench, plans, "1:0", first_index=0, effort=effort)
    boots = [record for record, _ in result]
    for boot in boots:
        assert boot.ok, boot.host
        assert [sample.interleave for sample in boot.samples] == ["turns", "frozen"]
        assert "chardev=monitor,mode=control" in boot.job.command
    for ours, theirs in zip(boots[0].samples, boots[1].samples, strict=True):
        assert [done for done, _ in ours.reps] == [done for done, _ in theirs.reps]
    assert [flag.kind for flag in bench.caveats()] == ["emulated-time"]
