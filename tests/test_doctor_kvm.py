# SPDX-License-Identifier: MIT
"""kdyno doctor --kvm: what it says where there is no KVM, what it says of a run, and the run
itself, by emulation: no machine of ours has KVM."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import Kdyno, kdyno

from kdyno.cli import doctor
from kdyno.cli.doctor import Precision, against_itself, precisions
from kdyno.machines import emulator
from kdyno.measure.execution import Options
from kdyno.paths import cache_root
from kdyno.store.run import Run
from kdyno.store.verdict import Effect, Verdict

__all__ = ["kdyno"]


@pytest.mark.parametrize("lacking", ["QEMU", "KVM"])
def test_where_it_cannot_be_it_says_why_and_what_else_there_is(
    kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setattr(emulator, "missing", lambda: "no QEMU" if lacking == "QEMU" else None)
    monkeypatch.setattr(emulator, "why_no_kvm", lambda: "no KVM")
    said = kdyno("doctor", "--kvm")
    assert (said.status, said.out) == (1, "")
    assert f"no kernel can be timed under KVM here: no {lacking}. " in said.err
    assert "--metric instructions" in said.err
    assert kdyno("doctor", "--kvm", "--on", "local").status == 2


def effect(case: str, ci: tuple[float, float] | None, variant: str = "stock.copy") -> Effect:
    return Effect(
        suite="unixbench",
        case=case,
        variant=variant,
        unit="loops/s",
        better="higher",
        baseline_value=1.0,
        value=1.0,
        ratio=1.0,
        ci=None,
        ci_raw=ci,
        blocks=8 if ci else 5,
        verdict="inconclusive",
    )


def test_precision_is_half_of_the_interval_of_no_difference(
    kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    effects = [effect("pipe", (0.98, 0.98 * 1.0404)), effect("spawn", None)]
    effects.append(effect("pipe", (2.0, 3.0), "mine"))
    values = {"experiment": "x", "baseline": "stock", "boots": {}, "copy_of_baseline": "stock.copy"}
    verdict = Verdict(effects=tuple(effects), **values)  # type: ignore[arg-type]
    pipe, spawn = precisions(verdict)
    assert pipe.half_width == pytest.approx(0.02)
    assert (pipe.case, pipe.groups, pipe.differs) == ("pipe", 8, False)
    assert spawn == Precision("spawn", 5, None, False)
    (other,) = precisions(verdict.model_copy(update={"effects": (effect("pipe", (1.01, 1.02)),)}))
    assert other.differs

    monkeypatch.setattr(emulator, "missing", lambda: None)
    monkeypatch.setattr(emulator, "why_no_kvm", lambda: "")
    run = Run(tmp_path / "run")
    for own, status, words in (
        (effects, 1, "spawn        no interval: 5 groups, and six are needed\n"),
        (effects[:1], 0, "pipe         ±2.00 %, 8 groups\n"),
        ([effect("pipe", (1.01, 1.02))], 1, "DIFFERS"),
        ([], 1, ""),
    ):
        judged = verdict.model_copy(update={"effects": tuple(own)})
        monkeypatch.setattr(doctor, "against_itself", lambda *_, judged=judged: (run, judged))
        said = kdyno("doctor", "--kvm")
        assert said.status == status and words in said.out
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
