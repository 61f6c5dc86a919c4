# SPDX-License-Identifier: MIT
"""Tuning with a clock that is made up: the planted best is found, gains are predicted."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kdyno.errors import ToolError, UsageError
from kdyno.kernels import cpu
from kdyno.labs.memcpy.make.shape import Shape
from kdyno.labs.memcpy.time.loads import Load
from kdyno.labs.memcpy.tune import search as tuning
from kdyno.labs.memcpy.tune import tables as shown
from kdyno.labs.memcpy.tune.prediction import given_share, predict, share_of
from kdyno.labs.memcpy.tune.result import Tuned
from kdyno.labs.memcpy.tune.search import (
    Round,
    choose,
    halving,
    over_copies,
    plain_shapes,
    with_large,
)
from kdyno.labs.memcpy.tune.verify import experiment_text
from kdyno.labs.profile.record import FunctionTime, Profile, ProfiledBoot
from kdyno.report.show import terminal
from kdyno.stats.effect import paired_effect
from kdyno.store.verdict import Effect, Verdict

BEST = "sse-64-overlap-rep-1024"


@pytest.fixture(autouse=True)
def any_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuning must choose alike whatever this machine has."""
    monkeypatch.setattr(cpu, "missing", lambda _requires: ())


class Clock:
    """A trial: a shape's time depends on its name; the noise is seeded, 1 % strong."""

    def __init__(self, best: str, never: str = "") -> None:
        self.best, self.never = best, never
        self.trials: list[tuple[int, float]] = []

    def __call__(
        self, names: Sequence[str], seconds: float, seed: int
    ) -> Mapping[str, Sequence[float]]:
        self.trials.append((len(names), seconds))
        dice = random.Random(seed)
        found = {}
        for name in names:
            away = sum(a != b for a, b in zip(name.split("-"), self.best.split("-"), strict=False))
            away += abs(name.count("-") - self.best.count("-"))
            ns = 10.0 * (1 + 0.1 * away)
            found[name] = [ns * dice.gauss(1.0, 0.01) for _ in range(6)]
        found.pop(self.never, None)
        return found


def every(shapes: Sequence[Shape]) -> list[str]:
    return [shape.name for shape in shapes]


def test_the_planted_best_is_found_in_the_budget() -> None:
    clock = Clock(BEST)
    stages = over_copies(plain_shapes(), clock, 4096)
    choice = choose(stages, ["glibc"], clock, seconds=60, seed=1, prepare=every)
    assert choice.best == BEST
    assert list(choice.finalists)[-1] == "glibc" and len(choice.finalists) == 6
    # The best loop is in the final, whatever ways of treating large blocks were added to it.
    assert "sse-64-overlap" in choice.finalists
    assert sum(seconds for _count, seconds in clock.trials) == pytest.approx(60)
    counts = [count for count, _seconds in clock.trials]
    assert counts[0] == len(plain_shapes()) and counts[-1] == 6
    assert choice.tried > len(plain_shapes())
    assert {it.stage for it in choice.rounds} == {"loops", "large"}


def test_the_same_seed_chooses_the_same() -> None:
    both = [
        choose(
            over_copies(plain_shapes(), clock, 4096), [], clock, seconds=1, seed=9, prepare=every
        )
        for clock in (Clock(BEST), Clock(BEST))
    ]
    assert both[0] == both[1]


def test_thresholds_beyond_the_largest_copy_are_not_tried() -> None:
    shape = Shape("memcpy", "sse", 64)
    assert with_large(shape, 511) == []
    assert {it.large_from for it in with_large(shape, 2048)} == {512, 1024, 2048}
    kinds = {(it.large, it.large_from) for it in with_large(shape, 1 << 20)}
    assert ("non-temporal", 1 << 20) in kinds and ("non-temporal", 4096) not in kinds


def test_who_fails_while_timed_or_checked_is_out() -> None:
    clock = Clock("sse-64-overlap", never="sse-64-overlap")
    choice = choose(
        over_copies(plain_shapes(), clock, 64),
        [],
        clock,
        seconds=1,
        seed=1,
        prepare=lambda shapes: [it.name for it in shapes if it.registers == "sse"],
    )
    assert choice.best != "sse-64-overlap" and choice.best.startswith("sse-")
    with pytest.raises(ToolError, match="no shape of stage 'loops' could be timed"):
        choose(over_copies([], clock, 64), [], clock, seconds=1, seed=1, prepare=every)


def test_halving_keeps_the_fastest() -> None:
    rounds: list[Round] = []
    clock = Clock("a-b-c-d")
    names = ["x-x-x-x", "a-x-x-x", "a-b-x-x", "a-b-c-x", "a-b-c-d", "y-y-y-y", "z-z-z-z", "z-y-x-w"]
    assert halving(names, clock, 8.0, 1, 2, "loops", rounds) == ["a-b-c-d", "a-b-c-x"]
    assert [(count, seconds) for count, seconds in clock.trials] == [(8, 4.0), (4, 4.0)]
    assert [len(it.kept) for it in rounds] == [4, 2]


def test_only_the_registers_that_were_asked_for() -> None:
    assert {it.registers for it in plain_shapes(["avx2"])} == {"avx2"}
    with pytest.raises(UsageError, match="--registers mmx: there are general"):
        plain_shapes(["mmx"])
    names = [it.name for it in plain_shapes()]
    assert len(names) == len(set(names)) > 20
    assert len(names) > tuning.FINALISTS


def test_prediction_is_amdahls() -> None:
    ratio = paired_effect([10.0] * 8, [5.0] * 8)
    found = predict(given_share("40%"), ratio)
    assert found is not None and found.ratio == pytest.approx(0.8)
    assert found.ends == pytest.approx((0.8, 0.8)) and found.bound == pytest.approx(0.6)
    assert given_share("0.35").value == 0.35
    assert predict(given_share("40%"), paired_effect([], [])) is None


@pytest.mark.parametrize("text", ["0", "1", "100%", "-3%", "x", "nan", ""])
def test_no_share(text: str) -> None:
    with pytest.raises(UsageError, match="give a share between 0 and 1"):
        given_share(text)


def profile(*functions: FunctionTime) -> Profile:
    return Profile("stock", "gprof", "clock", "", {}, (ProfiledBoot(0, None, functions),))


def test_the_share_of_a_profile() -> None:
    boots = profile(
        FunctionTime("kernel", "memcpy_orig", 3.0),
        FunctionTime("kernel", "vfs_write", 6.0),
        FunctionTime("user", "memcpy", 1.0),
    )
    found = share_of(boots, "stock.json")
    assert found.value == pytest.approx(0.3) and found.of == "the kernel's own time"
    with pytest.raises(UsageError, match=r"stock\.json: no time in memcpy_orig"):
        share_of(profile(FunctionTime("kernel", "vfs_write", 6.0)), "stock.json")


def test_the_experiment_of_verify_is_one(tmp_path: Path) -> None:
    from kdyno.experiment.loader import parse
    from kdyno.labs.memcpy.make.shape import generate
    from kdyno.measure.vocabulary import vocabulary
    from kdyno.suites.catalogue import load

    file = tmp_path / "mine.S"
    file.write_text(generate(Shape("memcpy", "sse", 64), "mine"))
    text = experiment_text(file, "debian:linux-source-7.3", ("pipe", "xbench/cpu.gcd"))
    found = parse(text, str(tmp_path / "mine.toml"), tmp_path, vocabulary(load()))
    assert [it.name for it in found.variants] == ["stock", "tuned"]
    assert [(it.name, it.cases) for it in found.suites] == [
        ("unixbench", ("pipe",)),
        ("xbench", ("cpu.gcd",)),
    ]
    with pytest.raises(UsageError, match="give CASE of unixbench"):
        experiment_text(file, "debian:linux-source-7.3", ("/pipe",))


def tuned() -> Tuned:
    shape = Shape("memcpy", "sse", 64)
    ratio = paired_effect([10.0] * 8, [5.0] * 8)
    choice = tuning.Choice(shape.name, {shape.name: (5.0,) * 8, "orig": (10.0,) * 8}, (), 30)
    load = Load("L1", "distribution", 8, 4096, "recorded", 300.0)
    told = predict(given_share("40%"), ratio)
    return Tuned(shape, "", load, choice, {"orig": ratio}, {"bad": "bytes"}, {}, told)


def effect(case: str, ratio: float, better: str, control: bool = False) -> Effect:
    return Effect.model_construct(
        suite="unixbench",
        case=case,
        variant="tuned",
        better=better,
        ratio=ratio,
        ci=(ratio - 0.05, ratio + 0.05),
        control=control,
    )


def test_predicted_stands_beside_measured() -> None:
    verdict = Verdict.model_construct(
        effects=(
            effect("pipe", 1.25, "higher"),
            effect("build", 0.8, "lower"),
            effect("dhry2reg", 3.0, "higher", control=True),
        )
    )
    assert shown.measured_ratio(verdict) == pytest.approx(0.8)
    text = terminal.text(shown.parts(tuned(), verdict))
    assert "sse-64-overlap is the fastest of 30 shapes" in text
    assert "with 40.0 % of the time that was given in memcpy, −20.0 % of that time" in text
    assert "geometric mean of these cases (no controls): −20.0 %" in text
    assert "refused: 1 shape; bad: bytes" in text
    value = shown.to_json(tuned(), verdict)
    assert value["predicted"]["time_ratio"] == pytest.approx(0.8)
    assert value["measured"]["cases"][0]["ci"] == pytest.approx((1 / 1.3, 1 / 1.2))


def test_without_a_share_nothing_is_predicted() -> None:
    from dataclasses import replace

    text = terminal.text(shown.parts(replace(tuned(), prediction=None)))
    assert "No prediction: give memcpy's share" in text
