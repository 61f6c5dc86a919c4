# SPDX-License-Identifier: MIT
"""verdict.json: the contract that others read. Fields are added, never changed or removed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, computed_field

from kdyno.errors import UsageError
from kdyno.reading.checked import values
from kdyno.store.reading import first_mistake

Word = Literal["faster", "slower", "equivalent", "inconclusive", "failed"]

RATIO_MOST, SCORE_MOST = 1e15, 1e100
"""Beyond these, and at or below 0, nothing was measured: no logarithm and no chart has a place."""
MOST_FIGURES, LONGEST = 100, 100
"""Of each kind in an effect; in the name of one."""


def _within(least: float, most: float) -> BeforeValidator:
    """None for a figure, or an interval with an end, that says nothing: NaN and infinity too, as
    numbers and as text."""

    def checked(value: Any) -> Any:
        ends = value if isinstance(value, list | tuple) else (value,)
        numbers = [math.nan if isinstance(end, str) else end for end in ends]
        numbers = [end for end in numbers if isinstance(end, int | float)]
        return value if all(least <= end <= most for end in numbers) else None

    return BeforeValidator(checked)


NO_SANDBOX, IN_ONE_BOOT = "no-sandbox", "not-rebooted"
"""Flags: of a run of which at least one boot was outside the sandbox; of repetitions that were all
in one boot."""

Confidence = Annotated[float, Field(ge=0.5, le=0.9999)]
"""As an experiment may ask for it."""
Score = Annotated[float | None, _within(1 / SCORE_MOST, SCORE_MOST)]
Ratio = Annotated[float | None, _within(1 / RATIO_MOST, RATIO_MOST)]
Share = Annotated[float | None, _within(0, RATIO_MOST)]
Interval = Annotated[tuple[float, float] | None, _within(1 / RATIO_MOST, RATIO_MOST)]
ScoreInterval = Annotated[tuple[float, float] | None, _within(1 / SCORE_MOST, SCORE_MOST)]


class Frozen(BaseModel):
    """Base of all parts of a verdict."""

    model_config = ConfigDict(frozen=True)


class Flag(Frozen):
    """A warning about the run or one effect. ``kind`` is a short stable word."""

    kind: str
    text: str
    variant: str | None = None
    suite: str | None = None
    case: str | None = None


class RoundSpread(Frozen):
    """Two levels of variance, of an effect whose guests took turns. Of log ratios, robust."""

    within: float
    """Standard deviation of one round within its group: what the machine did meanwhile."""
    between: float
    """Of groups, beyond what their rounds explain: boots of one kernel differ."""
    of_group: float
    """Of a group's value, as it is."""
    rounds: float
    """Mean number of rounds in a group."""


class LinkSpread(Frozen):
    """Of an effect that was measured in several links of each kernel. Standard deviations of log
    ratios; their squares add up to the variance of one group of one link."""

    links: int
    layout: float
    """Of links: the accident that one link is. With one boot of each link, boots are in it."""
    boot: float | None = None
    """Of groups or boots of one link, beyond what their rounds explain. None: one boot of each."""
    round: float | None = None
    """What rounds explain of a group; None: no turns were taken."""
    one_link: Share = None
    """|ratio − 1| up to which one link of either kernel says nothing: 19 of 20 are within."""
    worst: Ratio = None
    """The ratio in the link in which it is farthest from 1."""
    worst_alone: bool = False
    """That link alone would have had the verdict faster or slower, by more than ``equivalent``."""


class FunctionCounts(Frozen):
    """Instructions of one operation that a function executes itself, in both kernels."""

    where: Literal["kernel", "user", "others"]
    function: str
    """Empty: all that are not named. In tables also a row that stands for several."""
    baseline_value: Annotated[float, Field(ge=0, le=SCORE_MOST)]
    value: Annotated[float, Field(ge=0, le=SCORE_MOST)]
    functions: Annotated[int, Field(ge=1)] = 1
    """How many it stands for."""

    @property
    def more(self) -> float:
        return self.value - self.baseline_value


class Apart(Frozen):
    """One of the figures that a counted operation is made of: medians over boots."""

    figure: Annotated[str, Field(max_length=LONGEST)]
    """user, kernel: instructions of programs and of the kernel. cycles-user, cycles-kernel,
    page-faults-user …: events of a counter beside the time."""
    baseline_value: Annotated[float, Field(ge=0, le=SCORE_MOST)]
    value: Annotated[float, Field(ge=0, le=SCORE_MOST)]


class StratumEffect(Frozen):
    """An effect on one of several machines, or on one model of CPU."""

    stratum: Annotated[str, Field(max_length=400)]
    """The machine's name, or the CPU's model."""
    ratio: Ratio
    ci: Interval
    """Not corrected; None: fewer than six blocks."""
    blocks: int


class Strata(Frozen):
    """An effect by the machines that it was measured on: docs/team.md."""

    machines: Annotated[tuple[StratumEffect, ...], Field(max_length=10_000)]
    cpu_models: Annotated[tuple[StratumEffect, ...], Field(max_length=10_000)] = ()
    """Empty where all machines have the same."""
    p_value: Annotated[float, Field(ge=0, le=1)] | None = None
    """Of "all machines have the same effect"; None where fewer than two can be tested."""
    i_squared: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the scatter between machines that their blocks do not explain."""
    differs: bool = False
    """The test, corrected for the number of effects, says that they do not."""

    def ordered(self) -> list[StratumEffect]:
        """From the least to the greatest ratio, of those with an interval, as the test has only
        these: models of CPU, or machines where these differ inside a model."""

        def sorted_of(strata: Sequence[StratumEffect]) -> list[StratumEffect]:
            tested = [each for each in strata if each.ci is not None] or strata
            return sorted(tested, key=lambda each: each.ratio or 1.0)

        def span(strata: Sequence[StratumEffect]) -> float:
            return (strata[-1].ratio or 1.0) / (strata[0].ratio or 1.0) - 1.0

        machines, models = sorted_of(self.machines), sorted_of(self.cpu_models)
        return models if models and span(models) >= span(machines) / 2 else machines


class Throughput(Frozen):
    """An effect by summed times: what a typical turn leaves out is in it."""

    ratio: Ratio
    ci: Interval
    """At the level at which the verdict was found."""
    ci_raw: Interval = None
    tail: bool = False
    """It disagrees with the typical turn, and by more than does not matter."""
    decides: bool = False
    """The verdict rests on it and not on ``ci`` of the effect."""
    slow_turns: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Share of the variant's turns far slower than its typical one, beyond the baseline's share."""


class Quantile(Frozen):
    """A quantile of a case's latencies, by blocks; less is better."""

    figure: Annotated[str, Field(max_length=LONGEST)]
    """As the case's suite calls it, such as ``p99_ms``."""
    ratio: Ratio
    ci: Interval
    blocks: int
    verdict: Word
    equivalent_too: bool = False


class Effect(Frozen):
    """Variant ÷ baseline for one case. ``ratio`` is always variant ÷ baseline, paired in blocks."""

    suite: str
    case: str
    variant: str
    unit: str
    better: Literal["higher", "lower"]
    baseline_value: Score
    """Median over boots, in ``unit``; None where there is no sample."""
    value: Score
    """The same of the variant's boots by themselves: value ÷ baseline_value is not ``ratio``, which
    is paired within blocks. ``paired_value`` is what is shown."""
    ratio: Ratio
    ci: Interval
    """Behind the verdict: corrected for all that the run claims. None: too few blocks."""
    ci_raw: Interval = None
    """The same without the correction."""
    mean_ratio: Ratio = None
    mean_ci: Interval = None
    """Geometric mean of the within-block ratios with its t interval."""
    noise_floor: Share = None
    """Largest |ratio − 1| that the A/A copy's raw interval reaches; None: not calibrated."""
    blocks: int
    verdict: Word
    equivalent_too: bool = False
    """The interval excludes 1 and lies inside ±equivalent: real but too small to matter."""
    inside_noise_floor: bool = False
    differs: bool = False
    """Runs compared without a verdict: beyond the spread within the runs; drift is not known."""
    predicted_blocks: int | None = None
    """Blocks that the present spread predicts would settle an inconclusive verdict."""
    p_value: Annotated[float, Field(ge=0, le=1)] | None = None
    """1 − confidence of the whole run at which it is faster or slower by Holm's correction, which
    is coarser than the verdict's; the run's where the sum decides. None: few blocks, and counts."""
    control: bool = False
    """The case does not depend on the kernel (negative control)."""
    exact: bool = False
    """Counted, with the same count in every boot: ``ci`` is the ratio itself."""
    parts_ratio: Ratio = None
    """Counted: the ratio of the means of all parts of a boot, what is done now and then among them;
    ``ratio`` is that of the parts which most agree with, as long as both say the same."""
    reason: str | None = None
    """Why there is no figure (failed cases)."""
    throughput: Throughput | None = None
    """None where only one figure of each boot is known, and for counts."""
    quantiles: Annotated[tuple[Quantile, ...], Field(max_length=MOST_FIGURES)] = ()
    """Only where the case prints latencies."""
    spread: RoundSpread | None = None
    """Only where guests took turns, in four groups or more."""
    links: LinkSpread | None = None
    """Only where kernels were linked several times: ``blocks`` is then their number."""
    apart: Annotated[tuple[Apart, ...], Field(max_length=MOST_FIGURES)] = ()
    """What a counted operation is made of: instructions of programs and of the kernel, misses."""
    strata: Strata | None = None
    """Only where the blocks come from several machines."""
    functions: Annotated[tuple[FunctionCounts, ...], Field(max_length=100)] = ()
    """Which functions a counted difference is in, where that was counted (kdyno profile --method
    count): the largest first, and one row for all others. They add up to the whole operation."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.suite, self.case, self.variant

    @computed_field  # type: ignore[prop-decorator]
    @property
    def paired_value(self) -> float | None:
        """baseline_value × ratio, in ``unit``: the variant's value on a machine on which the
        baseline's is ``baseline_value``. None where either is not known."""
        if self.baseline_value is None or self.ratio is None:
            return None
        return self.baseline_value * self.ratio


class GroupEffect(Frozen):
    """Variant ÷ baseline for a group of a suite's cases: above 1 is better, whatever they measure.

    In every block it is the harmonic mean of the cases' ratios (of a time the ratio's inverse)."""

    suite: str
    group: str
    variant: str
    ratio: Ratio
    ci: Interval
    """Corrected for all that the run claims."""
    ci_raw: Interval = None
    blocks: int
    verdict: Word
    equivalent_too: bool = False
    predicted_blocks: int | None = None
    throughput: Throughput | None = None


class FactorEffect(Frozen):
    """What a level of a factor does, against the factor's reference level."""

    suite: str
    case: str
    """Without its own levels: ``whole``, or ``fscopy-*`` for several cases."""
    unit: str
    better: Literal["higher", "lower"]
    kind: Literal["main", "conditional", "interaction"]
    factor: str
    level: str
    reference: str
    other: str | None = None
    """conditional: the factor at whose level ``at``; interaction: with which factor's level."""
    at: str | None = None
    at_reference: str | None = None
    ratio: Ratio
    """main, conditional: score at ``level`` ÷ at ``reference``. interaction: this ratio at
    ``at`` ÷ the same at ``at_reference``; 1 where the two effects just multiply."""
    ci: Interval
    """Corrected for all that the run claims."""
    ci_raw: Interval = None
    blocks: int
    verdict: Word
    equivalent_too: bool = False
    predicted_blocks: int | None = None
    throughput: Throughput | None = None
    averaged: int = 1
    """Combinations of the remaining factors' levels behind it."""
    left_out: int = 0
    """Combinations without it because a cell is missing."""


Row = TypeVar("Row", Effect, GroupEffect, FactorEffect)


def by_sums(row: Effect | GroupEffect | FactorEffect) -> bool:
    """Its verdict rests on summed times."""
    return row.throughput is not None and row.throughput.decides


def deciding(effect: Row) -> Row:
    """With the ratio and the interval that the verdict rests on, which may be those of the sum."""
    own = effect.throughput
    if own is None or not own.decides:
        return effect
    return effect.model_copy(update={"ratio": own.ratio, "ci": own.ci, "ci_raw": own.ci_raw})


class FactorTable(Frozen):
    factors: dict[str, tuple[str, ...]]
    """Factor → its levels, the reference first."""
    of_cases: tuple[str, ...] = ()
    """Those of them that set something in a case, such as -j; the others make kernels."""
    summary: tuple[str, ...] = ()
    """One line for each case and factor, for people."""
    effects: tuple[FactorEffect, ...] = ()
    missing: tuple[str, ...] = ()
    """Warnings that name the cells without figures."""


class CaseValue(Frozen):
    """A case of a run that compares nothing: the host's own kernel."""

    suite: str
    case: str
    unit: str
    better: Literal["higher", "lower"]
    value: Score
    """Median over the repetitions of the whole job; None where there is none."""
    ci: ScoreInterval = None
    """Interval of the median, in ``unit``, of repetitions on ONE boot of the kernel."""
    repetitions: int
    reason: str | None = None
    counters: dict[str, Annotated[float, Field(ge=0, le=SCORE_MOST)]] = {}
    """Counter, with its side → its events per operation, the median over the repetitions."""


class Verdict(Frozen):
    schema_: int = Field(default=1, alias="schema")
    experiment: str
    question: str = ""
    answer: str = ""
    """One sentence."""
    baseline: str
    confidence: Confidence = 0.95
    equivalent: Annotated[float, Field(ge=0, le=RATIO_MOST)] = 0.01
    precision: Annotated[float, Field(ge=0, le=RATIO_MOST)] = 0.005
    stopped: str = ""
    """Why measuring ended: precision, max_boots, max_minutes, interrupted, failed."""
    boots: dict[str, int]
    failed: dict[str, str] = {}
    """Variant → why it did not build, boot or survive, or was skipped."""
    flags: tuple[Flag, ...] = ()
    effects: tuple[Effect, ...] = ()
    copy_of_baseline: str | None = None
    """The variant that is the baseline once more (A/A), when the run was calibrated."""
    values: tuple[CaseValue, ...] = ()
    """Only for a run that compares nothing."""
    groups: Annotated[tuple[GroupEffect, ...], Field(max_length=10_000)] = ()
    """Of suites whose cases have groups, such as XBench."""
    factors: FactorTable | None = None
    """Main effects and interactions, when the experiment crosses factors."""
    tool: str = ""
    """Version of the kdyno that judged; empty: not known."""
    rule: str = ""
    """Name and version of the statistics behind the words; empty: ``hl-signedrank-holm/1``."""

    @property
    def outside(self) -> bool:
        return any(flag.kind == NO_SANDBOX for flag in self.flags)

    @property
    def in_one_boot(self) -> bool:
        return any(flag.kind == IN_ONE_BOOT for flag in self.flags)

    def effect_of(self, key: tuple[str, str, str]) -> Effect | None:
        """With the figures that its verdict rests on."""
        return next((deciding(effect) for effect in self.effects if effect.key == key), None)

    def to_data(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)

    def to_json(self) -> str:
        text = json.dumps(self.to_data(), indent=1, ensure_ascii=False)
        # A reason may quote a console that was not UTF-8; lone surrogates cannot be written.
        return text.encode("utf-8", "replace").decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Verdict:
        """ValueError (pydantic's among them) when it is not a verdict."""
        return cls.model_validate(values(text))

    @classmethod
    def from_bytes(cls, data: bytes, path: Path) -> Verdict:
        """As from_json; what is wrong is a UsageError that names the file and the key."""
        try:
            verdict = cls.from_json(data)
        except ValueError as error:
            what = first_mistake(error) if isinstance(error, ValidationError) else str(error)[:200]
            way_out = "`kdyno judge RUN` judges its boots again"
            raise UsageError(f"{path}: is not a verdict: {what}. {way_out}") from None
        if verdict.schema_ != 1:
            which = "a later kdyno" if verdict.schema_ > 1 else "no kdyno that was released"
            raise UsageError(f"{path}: schema {verdict.schema_} is of {which}; this reads 1")
        return verdict


_KINDS_MOST = 100


class Kinds:
    """Flags by what they are about, so that very many rows can be asked for theirs."""

    def __init__(self, flags: Iterable[Flag]) -> None:
        self._of: dict[tuple[str | None, ...], dict[str, int]] = {}
        for place, flag in enumerate(flags):
            own = self._of.setdefault((flag.variant, flag.suite, flag.case), {})
            if len(own) < _KINDS_MOST:
                own.setdefault(flag.kind, place)

    def about(self, variant: str, suite: str = "", case: str = "") -> tuple[str, ...]:
        """The short words of the flags about a row, or about all, each once, in their order."""
        keys = product((variant, None), (suite, None), (case, None))
        flags = sorted((at, kind) for key in keys for kind, at in self._of.get(key, {}).items())
        return tuple(dict.fromkeys(kind for _, kind in flags))
