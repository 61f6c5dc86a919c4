# SPDX-License-Identifier: MIT
"""kdyno doctor --kvm: what it says where there is no KVM, what it says of a run, and the run
itself, by emulation: no machine of ours has KVM."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import Kdyno, effect, kdyno, verdict

from kdyno.cli import doctor
from kdyno.cli.doctor import Precision, against_itself, precisions
from kdyno.machines import emulator
from kdyno.measure.execution import Options
from kdyno.paths import cache_root
from kdyno.store.run import Run
from kdyno.store.verdict import Effect

__all__ = ["kdyno"]


@pytest.mark.parametrize("lacking", ["QEMU", "KVM"])
def test_where_it_cannot_be_it_says_why_and_what_else_there_is(
    kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setattr(emulator, "missing", lambda: "no QEMU" if lacking == "QEMU" else None)
    monkeypatch.setattr(emulator, "why_no_kvm", lambda: "no KVM")
    output = kdyno("doctor", "--kvm")
    assert (output.status, output.out) == (1, "")
    assert f"no kernel can be timed under KVM here: no {lacking}. " in output.err
    assert "--metric instructions" in output.err
    assert kdyno("doctor", "--kvm", "--on", "local").status == 2


def copied(case: str, ci: tuple[float, float] | None, variant: str = "stock.copy") -> Effect:
    more = {"variant": variant, "ci_raw": ci, "blocks": 8 if ci else 5}
    return effect(case, "inconclusive", 1.0, **more)


def test_precision_is_half_of_the_interval_of_no_difference(
    kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    effects = [copied("pipe", (0.98, 0.98 * 1.0404)), copied("spawn", None)]
    effects.append(copied("pipe", (2.0, 3.0), "mine"))
    pipe, spawn = precisions(verdict(*effects, copy_of_baseline="stock.copy"))
    assert pipe.half_width == pytest.approx(0.02)
    assert (pipe.case, pipe.groups, pipe.differs) == ("pipe", 8, False)
    assert spawn == Precision("spawn", 5, None, False)
    differing = copied("pipe", (1.01, 1.02))
    (other,) = precisions(verdict(differing, copy_of_baseline="stock.copy"))
    assert other.differs

    monkeypatch.setattr(emulator, "missing", lambda: None)
    monkeypatch.setattr(emulator, "why_no_kvm", lambda: "")
    run = Run(tmp_path / "run")
    for own, status, words in (
        (effects, 1, "spawn        no interval: 5 groups, and six are needed\n"),
        (effects[:1], 0, "pipe         ±2.00 %, 8 groups\n"),
        ([differing], 1, "DIFFERS"),
        ([], 1, ""),
    ):
        judged = verdict(*own, copy_of_baseline="stock.copy")
        monkeypatch.setattr(doctor, "against_itself", lambda *_, judged=judged: (run, judged))
        output = kdyno("doctor", "--kvm")
        assert output.status == status and words in output.out
        report = json.loads(kdyno("doctor", "--kvm", "--json", "-").out)
        assert report["ok"] == (status == 0) and report["run"] == str(run.path)


@pytest.mark.qemu
@pytest.mark.uml
@pytest.mark.needs("qemu-system-x86_64")
def test_the_run_itself_by_emulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Another kdyno that measures on this machine is nothing to wait for here.
    monkeypatch.setattr("kdyno.machines.cpus._LOCK", f"\0kdyno-test-{os.getpid()}-kvm")
    options = Options(cache_root(), tmp_path / "runs", beside=True)
    run, verdict = against_itself("tcg", options, boots=2)
    assert run.manifest().interleave == "turns"
    assert verdict.boots == {"stock": 2, "stock.copy": 2} and verdict.failed == {}
    rows = precisions(verdict)
    assert [row.case for row in rows] == ["syscall", "pipe", "fscopy-1024", "context1", "spawn"]
    assert all(row == Precision(row.case, 2, None, False) for row in rows)
    assert "emulated-time" in {flag.kind for flag in verdict.flags}
