# SPDX-License-Identifier: MIT
"""Profiles of real boots: a delay in one function is found in that function.

gprof needs a kernel of its own, a whole build; its file format is tested without one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import EXPERIMENT, kdyno
from needed import need

from kdyno.errors import ToolError
from kdyno.experiment.model import Variant
from kdyno.kernels.image import Image
from kdyno.labs.profile import perf
from kdyno.labs.profile.boots import Profiler
from kdyno.labs.profile.record import Profile, stored_profiles
from kdyno.machines.cpus import place
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import Plan, Setup, run_to_end
from kdyno.measure.builder import Built
from kdyno.paths import cache_root
from kdyno.store.run import list_runs
from kdyno.suites.job import CaseJob, Job

pytestmark = pytest.mark.uml


def require_perf() -> None:
    need("perf")
    try:
        perf.ability()
    except ToolError as problem:
        pytest.skip(str(problem))


def kernel_s(profile: Profile, function: str) -> float:
    by_block = profile.seconds("kernel", function)
    return sum(by_block.values()) / len(by_block)


def test_perf_finds_the_function_that_was_slowed(built: Built, tmp_path: Path) -> None:
    require_perf()
    file, folded = tmp_path / "out.json", tmp_path / "out.folded"
    arguments = ("--method", "perf", "--case", "syscall", "--seconds", "0.3")
    kdyno("profile", EXPERIMENT, *arguments, "--boots", "1", runs=tmp_path)
    (run,) = list_runs(tmp_path)
    first = stored_profiles(run)
    assert {name: len(value.boots) for name, value in first.items()} == {
        "stock": 1,
        "slow-umask": 1,
    }
    # The same work in both, fixed by the baseline, and kept when the profile goes on.
    assert first["stock"].operations == first["slow-umask"].operations
    more = ("--boots", "2", "--json", file, "--folded", folded)
    kdyno("profile", "last", *arguments, *more, runs=tmp_path)
    by_variant = stored_profiles(run)
    assert [len(value.boots) for value in by_variant.values()] == [2, 2]
    assert by_variant["stock"].boots[0] == first["stock"].boots[0]
    slow, stock = (kernel_s(by_variant[name], "__do_sys_umask") for name in ("slow-umask", "stock"))
    slow += kernel_s(by_variant["slow-umask"], "sys_umask")
    stock += kernel_s(by_variant["stock"], "sys_umask")
    assert slow > stock
    (delta,) = json.loads(file.read_text())["differences"]
    top = [
        function["function"] for function in delta["functions"][:8] if function["where"] == "kernel"
    ]
    assert any("umask" in name for name in top), top
    # Three kinds of time.
    wheres = {entry["where"] for entry in json.loads(file.read_text())["profiles"][0]["functions"]}
    assert wheres == {"kernel", "host", "user"}
    for profile in by_variant.values():
        for boot in profile.boots:
            assert boot.cpu_s is not None and boot.functions
    assert "slow-umask (perf);UML kernel;" in folded.read_text()
    refused = kdyno("profile", "last", "--case", "pipe", runs=tmp_path, check=(2,))
    assert "--replace" in refused.stderr


def profiled(stock: Image, method: str, bench: str, operations: int) -> None:
    """One profiled boot of a kernel, whatever comes of it."""
    case = CaseJob("x", "x", bench, seconds=None, operations=operations)
    setup = Setup(
        variants={"stock": Variant("stock", "")},
        images={"stock": stock},
        placement=place(1),
        memory_bytes=1 << 30,
        timeout_s=None,
        cpus=1,
        cache=cache_root(),
    )
    profiler = Profiler(method, False)
    empty = profiler.empty("stock", stock.digest, {})
    machine = KINDS["uml"].make(setup)
    profiler.boots(
        machine,
        [Plan("stock", Job((case,)))],
        {"stock": empty},
        0,
        lambda plans: {"stock": run_to_end(machine.open(plans[0]), machine.clock)},
    )


def test_a_kernel_that_leaves_no_gmon_out_is_a_failed_boot(stock: Image) -> None:
    with pytest.raises(ToolError, match=r"gmon\.out is missing: the kernel did not reach"):
        profiled(stock, "gprof", "syscall", 200_000)


def test_work_that_fails_is_no_profile(stock: Image) -> None:
    require_perf()
    with pytest.raises(ToolError, match="did not do its work"):
        profiled(stock, "perf", "fault-exit", 1000)
