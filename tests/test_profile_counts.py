# SPDX-License-Identifier: MIT
"""Counts by address: read from what QEMU's plugin writes, summed by function, held against."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Experiment, Machine, Measure, SuiteUse, Variant
from kdyno.labs.profile.count_tables import as_json, differences, parts
from kdyno.labs.profile.counts import CaseCounts, by_function, read_parts, require, steadiest
from kdyno.labs.profile.symbols import Symbols
from kdyno.machines import plugin
from kdyno.machines.emulator import Emulator
from kdyno.report.show import terminal
from kdyno.report.show.terminal import Screen

KERNEL = Symbols((0xFFFF0000, 0xFFFF0100), ("do_pipe", "memcpy"))
GUEST = Symbols((0x401000,), ("body",))


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "counts"
    file.write_text(text)
    return file


def test_parts_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = written(tmp_path, "part 0\nffff0004 12\n401000 3\npart 1\npart 2\nffff0100 7\nend\n")
    assert read_parts(file) == [{0xFFFF0004: 12, 0x401000: 3}, {}, {0xFFFF0100: 7}]


@pytest.mark.parametrize(
    "text",
    [
        "part 0\nffff 1\n",
        "",
        "part 1\nend\n",
        "ffff 1\nend\n",
        "part 0\nffff x\nend\n",
        "part 0\nffff 9999999999999999999\nend\n",
    ],
)
def test_what_is_not_whole_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ToolError, match="QEMU's counts are not"):
        read_parts(written(tmp_path, text))


def test_functions_are_the_kernels_or_the_programs() -> None:
    part = {0xFFFF0000: 1, 0xFFFF0008: 2, 0xFFFF0100: 4, 0x401010: 8, 0x1000: 16}
    assert by_function(part, KERNEL, GUEST) == {
        ("kernel", "do_pipe"): 3,
        ("kernel", "memcpy"): 4,
        ("user", "body"): 8,
        ("user", "?"): 16,
    }


def test_the_steadiest_part_is_the_score_and_has_no_tick() -> None:
    reps = [(10, 1200), (10, 1005), (10, 1000), (10, 1000), (10, 1000)]
    chosen = [{0: at} for at in range(5)]
    assert steadiest(reps, chosen) == (10, chosen[2])
    with pytest.raises(ToolError, match="4 parts of a case that had 5"):
        steadiest(reps, chosen[:4])


def counted(variant: str, pipe: float) -> CaseCounts:
    functions = {("kernel", "do_pipe"): pipe, ("kernel", "memcpy"): 30.0, ("user", "body"): 2.5}
    return CaseCounts("unixbench", "pipe", variant, 1000, functions)  # type: ignore[arg-type]


def test_rows_add_up_to_the_difference() -> None:
    rows = differences(counted("stock", 110.0), counted("mine", 151.0))
    assert [(row.function, row.more) for row in rows[:1]] == [("do_pipe", 41.0)]
    assert sum(row.more for row in rows) == 41.0


def test_the_table_shows_what_differs_and_the_sum() -> None:
    found = [counted("stock", 110.0), counted("mine", 151.0)]
    screen = Screen(100, False, True)
    shown = terminal.text(parts(found, "stock", 15), screen).splitlines()
    assert shown[0] == "unixbench/pipe: mine − stock, instructions of an operation"
    assert [line.split() for line in shown[2:5]] == [
        ["kernel", "do_pipe", "110.000", "151.000", "+41.000"],
        ["2", "other", "functions", "32.500", "32.500", "0.000"],
        ["sum", "142.500", "183.500", "+41.000"],
    ]
    assert "the length of the path, not time" in shown[-1]
    alone = terminal.text(parts(found[:1], "stock", 15), screen).splitlines()
    assert [line.split()[-2:] for line in alone[2:4]] == [
        ["do_pipe", "110.000"],
        ["memcpy", "30.000"],
    ]


def test_programs_get_every_function() -> None:
    (one,) = as_json([counted("stock", 110.0)], "stock")["counts"]
    assert (one["variant"], one["operations"], one["total"]) == ("stock", 1000, 142.5)
    assert one["functions"][0] == {"where": "kernel", "function": "do_pipe", "instructions": 110.0}


@pytest.mark.parametrize(
    ("kind", "metric", "why"),
    [
        ("uml", "time", r"--method count and \[machine\] kind = 'uml': its code runs"),
        ("qemu", "time", r'goes with \[measure\] metric = "instructions"'),
    ],
)
def test_only_what_is_counted_can_be_counted_by_function(kind: str, metric: str, why: str) -> None:
    experiment = Experiment(
        "e", "?", "a", (Variant("a", ""),), (SuiteUse("s", ("c",)),),
        Machine(kind=kind), Measure(metric=metric),
    )  # fmt: skip
    with pytest.raises(UsageError, match=why):
        require(experiment)


def test_a_later_qemu_has_another_interface(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"QEMU 7\.2 to 8\.2, and this is 10\.0\.3"):
        plugin.count_plugin(tmp_path, Emulator("/usr/bin/qemu-system-x86_64", "10.0.3"))


@pytest.mark.needs("gcc")
def test_the_plugin_builds_without_a_warning(tmp_path: Path) -> None:
    made = plugin.count_plugin(tmp_path, Emulator("/usr/bin/qemu-system-x86_64", "7.2.22"))
    assert made.read_bytes().startswith(b"\x7fELF")
