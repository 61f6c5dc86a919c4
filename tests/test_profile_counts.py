# SPDX-License-Identifier: MIT
"""Counts of QEMU's plugins: chains of calls on traces made by hand; what an operation is made of;
counts by address, summed by function, held against each other."""

from __future__ import annotations

import io
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import effect, verdict
from fake_run import bench, machine_of, manifest_of, steady
from needed import need
from on_screen import text as on_screen
from test_counters import judged

from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Experiment, Machine
from kdyno.judge.judging import explained
from kdyno.kernels.image import Image
from kdyno.labs.profile import counts
from kdyno.labs.profile.symbols import Symbols, parse as parse_symbols
from kdyno.machines import emulator
from kdyno.machines.emulator import PLUGINS, Emulator, Tally, read_tallies, with_tallies
from kdyno.measure.builder import Built
from kdyno.measure.execution import Options
from kdyno.report import exporters
from kdyno.report.show import terminal
from kdyno.report.show.terminal import Screen
from kdyno.store.counts import CaseCounts, Counted, from_json, to_json
from kdyno.store.manifest import MachineInfo
from kdyno.store.verdict import Effect, Verdict
from kdyno.suites import score
from kdyno.suites.catalogue import UNIT
from kdyno.suites.protocol import CaseError, Sample, Transcript

NATIVE = Path(__file__).with_name("native")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("gcc")
    program = tmp_path_factory.mktemp("native") / "calls_trace"
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{PLUGINS}"]
    flags += ["-fsanitize=undefined", "-fno-sanitize-recover=all"]
    sources = [NATIVE / "calls_trace.c", PLUGINS / "calls.c"]
    subprocess.run(["gcc", *flags, "-o", program, *sources], check=True)
    return program


def chains(built: Path, trace: str) -> dict[tuple[int, ...], int]:
    """Functions, the outermost first → instructions."""
    executed: dict[str, int] = {}
    tree: dict[str, tuple[str, int]] = {}
    done = subprocess.run([built], input=trace, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in done.stdout.splitlines():
        words = line.split()
        if words[0] == "node":
            tree[words[1]] = words[2], int(words[3], 16)
        else:
            executed[words[0][1:]] = int(words[1])
    results = {}
    for node, count in executed.items():
        chain: list[int] = []
        while node != "0":
            node, function = tree[node]
            chain.append(function)
        results[tuple(reversed(chain))] = count
    return results


# f FUNCTION KERNEL INSTRUCTIONS; c and r with the stack's address: a call, a return.
TRACES = {
    "1 calls 2, which calls 3 twice": (
        "f 1 0 10|c 0x8100|f 2 0 5|c 0x80f0|f 3 0 2|r 0x80f0|f 2 0 1|"
        "c 0x80f0|f 3 0 2|r 0x80f0|f 2 0 1|r 0x8100|f 1 0 7",
        {(1,): 17, (1, 2): 7, (1, 2, 3): 4},
    ),
    "recursion has a level for each call": (
        "f 1 0 1|c 0x100|f 1 0 2|c 0xf0|f 1 0 3|r 0xf0|f 1 0 4",
        {(1,): 1, (1, 1): 6, (1, 1, 1): 3},
    ),
    "a tail call takes the place of its caller": (
        "f 1 0 1|c 0x100|f 2 0 1|f 3 0 5|r 0x100|f 1 0 1",
        {(1,): 2, (1, 2): 1, (1, 3): 5},
    ),
    # 3 never returns (longjmp), 1 goes on and calls 4: who called is known by where code was.
    "frames left without a return are forgotten": (
        "f 1 0 1|c 0x100|f 2 0 1|c 0xf0|f 3 0 1|c 0x100|f 4 0 9|r 0x100",
        {(1,): 1, (1, 2): 1, (1, 2, 3): 1, (1, 2, 3, 4): 9},
    ),
    "a system call begins anew and the program goes on": (
        "f 1 0 1|c 0x100|f 2 0 1|f 50 1 3|c 0x9000|f 51 0 4|r 0x9000|f 50 1 1|"
        "f 2 0 6|r 0x100|f 1 0 1",
        {(1,): 2, (1, 2): 7, (50,): 4, (50, 51): 4},
    ),
    # 60 switches from the stack at 0x9000 to that at 0x20000 and back.
    "another task has a stack of its own": (
        "f 50 1 1|c 0x9000|f 60 0 1|c 0x20000|f 61 0 1|r 0x20000|f 60 0 1|r 0x9000|f 50 1 1",
        {(50,): 2, (50, 60): 2, (50, 60, 61): 1},
    ),
}


@pytest.mark.parametrize("name", TRACES)
def test_instructions_are_of_the_chain_of_calls(built: Path, name: str) -> None:
    trace, expected = TRACES[name]
    assert chains(built, trace.replace("|", "\n") + "\n") == expected


def test_a_return_beyond_all_calls_begins_anew(built: Path) -> None:
    trace = TRACES["frames left without a return are forgotten"][0] + "|f 3 0 1|r 0x110|f 7 0 2|"
    assert chains(built, trace.replace("|", "\n"))[(7,)] == 2  # called before all of it


PART, HALF = (400, 600), (200, 300)
LINE = b"part 400 600\n"


def test_parts_are_read_as_far_as_they_are_whole() -> None:
    assert read_tallies(io.BytesIO(LINE + LINE + b"part 1 ")) == [PART, PART]
    assert read_tallies(io.BytesIO(LINE + b"rubbish\n" + LINE)) == [PART]
    assert read_tallies(io.BytesIO(b"")) == []


def sample(case: int, *reps: tuple[int, int]) -> Sample:
    return Sample(case, reps, 1, 1, 1, 1, {"stdout": "x"})


@pytest.mark.parametrize(
    ("reps", "parts", "user", "kernel"),
    [
        (((10, 1010), (10, 520)), [PART, HALF], "20.0", "30.0"),
        # Most parts agree; a cheaper one, without a step that the others have, is not the score.
        (((10, 520), (10, 1010), (10, 1010)), [HALF, PART, PART], "40.0", "60.0"),
    ],
)
def test_counts_are_of_the_part_that_is_the_score(
    reps: tuple[tuple[int, int], ...], parts: list[Tally], user: str, kernel: str
) -> None:
    (result,) = with_tallies(Transcript(1, results=(sample(0, *reps),)), parts).results
    assert isinstance(result, Sample) and result.reps == reps
    assert parts[score.steady(reps)][0] == 10 * float(user)
    assert result.extra == {"stdout": "x", "counted-user": user, "counted-kernel": kernel}


def test_parts_of_a_case_that_failed_are_nobodys() -> None:
    results = (sample(0, (1, 9)), CaseError(1, "it crashed"), sample(2, (1, 9)))
    first, failed, last = with_tallies(Transcript(3, results=results), [PART] * 3).results
    assert isinstance(first, Sample) and failed == results[1]
    assert isinstance(last, CaseError) and "a case before it failed" in last.reason
    (short,) = with_tallies(Transcript(1, results=results[:1]), []).results
    assert short == CaseError(0, "its counts are not whole")


def test_an_effect_says_what_its_operation_is_made_of(tmp_path: Path) -> None:
    figures = [{"counted-user": 400.0, "counted-kernel": kernel} for kernel in (1000.0, 1040.0)]
    case = {"suite": "unixbench", "case": "pipe", "unit": UNIT, "better": "lower"}
    about = {"cases": (case,), "asked": {"metric": "instructions"}, "machine": {"kind": "qemu"}}
    verdict = judged(tmp_path, ("stock", "mine"), figures, **about)
    (effect,) = verdict.effects
    assert (effect.verdict, effect.exact) == ("slower", True)
    apart = [(each.figure, each.baseline_value, each.value) for each in effect.apart]
    assert apart == [("user", 400.0, 400.0), ("kernel", 1000.0, 1040.0)]
    assert Verdict.from_json(verdict.to_json()) == verdict
    lines = on_screen(verdict, 120).partition("an operation is made of")[2].splitlines()
    row = next(line for line in lines if line.split()[:2] == ["mine", "pipe"])
    assert row.split()[2:] == ["400.0", "1,040.0", "(+40.000)"]
    assert "| 1,040.0 (+40.000) |" in exporters.markdown(verdict)


KERNEL = Symbols((0xFFFF0000, 0xFFFF0100), ("do_pipe", "memcpy"))
GUEST = Symbols((0x401000,), ("body",))


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "counts"
    file.write_text(text)
    return file


def test_parts_are_read_as_they_were_written(tmp_path: Path) -> None:
    text = "part 0\nffff0004 12\n401000 3\n@1 12\n@2 3\npart 1\npart 2\nffff0100 7\n"
    trace = counts.read_trace(written(tmp_path, text + "node 1 0 4\nnode 2 1 a\nend\n"), 11)
    addresses = [part.addresses for part in trace.parts]
    assert addresses == [{0xFFFF0004: 12, 0x401000: 3}, {}, {0xFFFF0100: 7}]
    assert trace.parts[0].nodes == {1: 12, 2: 3}
    assert (trace.chain(0), trace.chain(2)) == ((), (4, 10))


@pytest.mark.parametrize(
    "text",
    [
        "part 0\nffff 1\n",
        "",
        "part 1\nend\n",
        "ffff 1\nend\n",
        "part 0\nffff x\nend\n",
        "part 0\nffff 9999999999999999999\nend\n",
        "part 0\n@5 1\nend\n",
        "part 0\nnode 2 1 4\nend\n",
        "part 0\nnode 1 0 5\nend\n",
        "part 0\nnode 1 0 4\nnode 2 1 4\nnode 1 2 4\n@1 1\nend\n",
        "part 0\nnode 1 1 4\n@1 1\nend\n",
    ],
)
def test_what_is_not_whole_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ToolError, match="QEMU's counts are not"):
        counts.read_trace(written(tmp_path, text), 5)


def test_counts_of_too_many_cases_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "_LARGEST_BYTES", 100 << 20)
    file = tmp_path / "counts"
    file.touch()
    os.truncate(file, (200 << 20))  # and takes no room
    monkeypatch.setattr(Path, "read_bytes", lambda _path: pytest.fail("it was read"))
    with pytest.raises(ToolError, match="counts are 200 MB: count fewer cases at once"):
        counts.read_trace(file, 5)


def test_functions_and_where_they_lie() -> None:
    addresses = {0xFFFF0000: 1, 0xFFFF0008: 2, 0xFFFF0100: 4, 0x401010: 8, 0x1000: 16}
    assert counts.by_function(addresses, counts.Table(KERNEL, GUEST)) == {
        ("kernel", "do_pipe"): 3,
        ("kernel", "memcpy"): 4,
        ("user", "body"): 8,
        ("user", "?"): 16,
    }
    # What the plugin gets: where each begins and ends, and where a processor enters the kernel.
    entry = Symbols((0xFFFF0000, 0xFFFF0040), ("entry_SYSCALL_64", "entry_SYSCALL_64_safe_stack"))
    lines = ["401000 2 0", "411000 0 0", "ffff0000 3 1", "ffff0040 4 0", "100000040 1 0"]
    assert counts.Table(entry, GUEST).lines().decode().splitlines() == lines
    # What GCC put elsewhere is of its function.
    symbols = parse_symbols(["1000 T do_pipe", "2000 t do_pipe.cold", "2010 t other.cold.12"])
    assert symbols.names == ("do_pipe", "do_pipe", "other")


def test_the_steadiest_part_is_the_score_and_has_no_tick() -> None:
    reps = [(10, 1200), (10, 1005), (10, 1000), (10, 1000), (10, 1000)]
    chosen = [counts.Part({0: at}) for at in range(5)]
    assert counts.steadiest(reps, chosen) == (10, chosen[2])
    with pytest.raises(ToolError, match="4 parts of a case that had 5"):
        counts.steadiest(reps, chosen[:4])


def counted(variant: str, pipe: float) -> Counted:
    functions = {("kernel", "do_pipe"): pipe, ("kernel", "memcpy"): 30.0, ("user", "body"): 2.5}
    chains = {
        (("kernel", "entry"), ("kernel", "do_pipe")): pipe - 10,
        (("kernel", "other"), ("kernel", "do_pipe")): 10.0,
        (("user", "body"),): 2.5,
        (("kernel", "entry"), ("kernel", "do_pipe"), ("kernel", "memcpy")): 30.0,
    }
    addresses = {0xFFFFFFFF81000004: 110_000}
    case = CaseCounts("unixbench", "pipe", variant, 1000, functions, chains, addresses)  # type: ignore[arg-type]
    return Counted(variant, f"image of {variant}", "QEMU 7.2.22", (case,))


STOCK, MINE = counted("stock", 110.0), counted("mine", 151.0)


def test_the_table_shows_what_differs_who_calls_it_and_the_sum() -> None:
    screen = Screen(100, False, True)
    lines = terminal.text(counts.parts([STOCK, MINE], 15), screen).splitlines()
    assert lines[0] == "unixbench/pipe: mine − stock, instructions of an operation"
    assert [line.split() for line in lines[2:5]] == [
        ["kernel", "do_pipe", "110.000", "151.000", "+41.000"],
        ["2", "other", "functions", "32.500", "32.500", "0.000"],
        ["sum", "142.500", "183.500", "+41.000"],
    ]
    assert lines[5] == "  +41.000 by entry › do_pipe"
    assert "the length of the path, not time" in lines[-1]
    alone = terminal.text(counts.parts([STOCK], 15), screen).splitlines()
    rows = [line.split()[-2:] for line in alone[2:4]]
    assert rows == [["do_pipe", "110.000"], ["memcpy", "30.000"]]


def test_programs_and_flame_graphs_get_every_function_and_chain() -> None:
    (one,) = counts.as_json([STOCK])["counts"]
    assert (one["variant"], one["operations"], one["total"]) == ("stock", 1000, 142.5)
    assert one["functions"][0] == {"where": "kernel", "function": "do_pipe", "instructions": 110.0}
    assert one["chains"][0] == {"functions": ["entry", "do_pipe"], "instructions": 100.0}
    assert counts.folded([STOCK]).splitlines() == [
        "stock;unixbench/pipe;body 2500",
        "stock;unixbench/pipe;entry;do_pipe 100000",
        "stock;unixbench/pipe;entry;do_pipe;memcpy 30000",
        "stock;unixbench/pipe;other;do_pipe 10000",
    ]


def test_counts_are_kept_with_the_run_as_they_are(tmp_path: Path) -> None:
    assert from_json(to_json(MINE), tmp_path) == MINE
    damaged = to_json(MINE).replace(b'"frames":[', b'"frames":[99,', 1)
    with pytest.raises(ToolError, match="a chain of calls names a function that is not there"):
        from_json(damaged, tmp_path)


def slower(case: str, variant: str = "mine", unit: str = UNIT) -> Effect:
    figures = {"baseline_value": 142.5, "value": 183.5, "ci": None, "exact": True}
    about = {"variant": variant, "unit": unit, "better": "lower"}
    return effect(case, "slower", 183.5 / 142.5, **figures, **about)


def test_the_verdict_says_which_functions_and_by_how_much() -> None:
    unnamed = verdict(slower("pipe"), slower("fork"), slower("pipe", "other", "s"))
    named = explained(unnamed, {"stock": STOCK, "mine": MINE})
    pipe = named.effects[0].functions
    names = [(each.where, each.function, each.functions) for each in pipe]
    assert names == [("kernel", "do_pipe", 1), ("others", "", 2)]
    assert [each.value - each.baseline_value for each in pipe] == [41.0, 0.0]
    assert sum(each.value for each in pipe) == 183.5
    assert [one.functions for one in named.effects[1:]] == [(), ()]
    assert Verdict.from_json(named.to_json()) == named
    lines = on_screen(named, 100).splitlines()
    at = lines.index("instructions by function")
    assert [line.split() for line in lines[at + 2 : at + 4]] == [
        ["mine", "pipe", "do_pipe", "110.000", "151.000", "+41.000"],
        ["mine", "pipe", "2", "others", "32.500", "32.500", "0.000"],
    ]
    assert "| mine | pipe | do\\_pipe | 110.000 | 151.000 | +41.000 |" in exporters.markdown(named)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("uml", r"--method count and \[machine\] kind = 'uml': its code runs"),
        ("qemu", r'goes with \[measure\] metric = "instructions"'),
    ],
)
def test_only_what_is_counted_can_be_counted_by_function(kind: str, why: str) -> None:
    experiment = replace(bench(steady({})).experiment, machine=Machine(kind=kind))
    with pytest.raises(UsageError, match=why):
        counts.require(experiment)


@pytest.mark.slow
@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("version", "number"),
    [("7.2.22", 1), ("8.2.4", 1), ("9.0.3", 2), ("9.1.0", 3), ("10.0.2", 3), ("10.10.0", 3)],
)
def test_each_qemu_has_its_plugin_interface(tmp_path: Path, version: str, number: int) -> None:
    assert emulator.interface_of(version) == number
    suffix = b"_inline\0" if number == 1 else b"_inline_per_vcpu\0"
    for name in (emulator.COUNTS, emulator.TALLY):
        file = emulator.library(name, tmp_path, Emulator("/usr/bin/qemu-system-x86_64", version))
        content = file.read_bytes()
        assert content.startswith(b"\x7fELF")
        assert b"qemu_plugin_register_vcpu_insn_exec" + suffix in content


def test_a_verdict_is_explained_by_the_emulator_that_counted_it_alone() -> None:
    counting = bench(steady({}), ("stock", "mine"))
    machine_of(counting).emulator = "QEMU 10.0.2"
    earlier = manifest_of(counting)
    was = MachineInfo(kind="qemu", emulator="QEMU 7.2.22")
    with pytest.raises(UsageError, match=r"counted by QEMU 7\.2\.22, and this is QEMU 10\.0\.2"):
        counts.of_run(counting, earlier.model_copy(update={"machine": was}), print)
    same = earlier.model_copy(update={"machine": None})
    assert [job.operations for job in counts.of_run(counting, same, print).jobs] == [4000]


def test_what_is_profiled_is_linked_as_its_symbols_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = Image("l", tmp_path, "x86_64", 64, "7.3", {})
    image = replace(link, digest="d")

    def built_of(experiment: Experiment, *_: object) -> Built:
        return Built({"stock": replace(image, links=(link,) * experiment.measure.layouts)})

    monkeypatch.setattr(counts, "check", lambda *_, **__: None)
    monkeypatch.setattr(counts, "built_of", built_of)
    monkeypatch.setattr(counts, "tree_of", lambda *_: None)
    monkeypatch.setattr(counts, "bench_of", lambda _one, _suites, images, *_: images)
    experiment = bench(("stock",)).experiment
    experiment = replace(experiment, measure=replace(experiment.measure, layouts=8))
    images: Any = counts.ready(experiment, {}, Options(tmp_path, tmp_path))
    assert images["stock"].link(0).digest == "d"
