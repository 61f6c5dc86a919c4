# SPDX-License-Identifier: MIT
"""``--fail-on``: a verdict as an exit status, for scripts and CI.

The rules, in the order in which they are applied:

- 10: a watched case is slower. Small (inside ±equivalent) does not count, since the asker said
  that it does not matter; neither does what lies inside the noise floor, which is undecided.
- 1: a watched case or variant failed, or nothing that is watched was measured. A kernel that did
  not boot is not a slow kernel, and a comparison that never took place is not a pass.
- 11: a watched case is inconclusive, or slower inside the noise floor.
- 0: none of it.

Where a second run was measured to confirm the first (``confirmed``), slower is what is so in both.
In the history of a branch it is what is so at the level that its earlier tests leave.

A negative control counts only where a rule names it, the baseline's own copy never. Without rules
the status is 0, or 1 when nothing at all was measured.

Where factors are crossed, a level of a factor of kernels counts as a case does: on average and at
each level of another factor (several cells together see what one alone does not). Interactions
are no claim that something is slower. Factors of cases (-j 1 against -j 4) are settings that the
asker chose, never a regression.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict

from kdyno.errors import UsageError
from kdyno.reading.checked import values
from kdyno.reading.mistakes import meant
from kdyno.stats.verdict import lord_level
from kdyno.store.run import Run, open_run

if TYPE_CHECKING:
    from kdyno.store.verdict import Effect, FactorEffect, Verdict

Row = TypeVar("Row", "Effect", "FactorEffect")

SLOWER, INCONCLUSIVE, FAILED = 10, 11, 1
WORDS = ("slower", "inconclusive")


@dataclass(frozen=True)
class Rule:
    """One ``--fail-on``: a word, and what it watches (nothing named: everything)."""

    word: str
    targets: tuple[str, ...] = ()
    """Each a suite, a case, suite/case, or a factor."""

    def watches(self, suite: str, case: str) -> bool:
        return not self.targets or self.names(suite, case)

    def names(self, suite: str, case: str) -> bool:
        return any(target in (suite, case, f"{suite}/{case}") for target in self.targets)

    def watches_factor(self, it: FactorEffect) -> bool:
        return self.watches(it.suite, it.case) or it.factor in self.targets


def parse(fail_on: Sequence[str]) -> tuple[Rule, ...]:
    """``slower``, ``inconclusive``, ``slower:pipe,unixbench/syscall``. To be called up front."""
    rules = []
    for text in fail_on:
        word, colon, rest = text.strip().partition(":")
        if word not in WORDS:
            raise UsageError(
                f"--fail-on {text!r}: {word!r} is not one of {', '.join(WORDS)}"
                f"{meant(word, WORDS)} (write WORD or WORD:CASE,SUITE/CASE)"
            )
        targets = tuple(part.strip() for part in rest.split(",")) if colon else ()
        if colon and not all(targets):
            raise UsageError(f"--fail-on {text!r}: a case is missing after ':' or ','")
        rules.append(Rule(word, targets))
    return tuple(rules)


def check(
    rules: Iterable[Rule], cases: Collection[tuple[str, str]], factors: Collection[str] = ()
) -> None:
    """Refuses a target that is neither of the run's (suite, case) pairs nor one of its factors."""
    known = {name for suite, case in cases for name in (suite, case, f"{suite}/{case}")}
    known |= set(factors)
    for rule in rules:
        for target in rule.targets:
            if target not in known:
                hint = meant(target, sorted(known))
                there = ", ".join(sorted("/".join(pair) for pair in set(cases)))
                crossed = f", and the factors {', '.join(factors)}" if factors else ""
                raise UsageError(
                    f"--fail-on {rule.word}:{target}: the run has no such case{hint} "
                    f"(it has {there}{crossed})"
                )


def check_compares(rules: Sequence[Rule], compares: bool) -> None:
    """Refuses rules for a run of one kernel alone, which could only ever pass."""
    if rules and not compares:
        raise UsageError(
            f"--fail-on {rules[0].word}: this run measures one kernel and compares nothing; "
            "`kdyno compare RUN RUN` compares two of them"
        )


def check_verdict(rules: Sequence[Rule], verdict: Verdict) -> None:
    """Both checks, held against what a run has found."""
    check_compares(rules, not verdict.values)
    table = verdict.factors
    cases = {(it.suite, it.case) for it in verdict.effects}
    cases |= {(it.suite, it.case) for it in (table.effects if table else ())}
    if cases:
        check(rules, cases, tuple(table.factors) if table else ())


def confirmed(first: Verdict, second: Verdict) -> Verdict:
    """The second run's verdict, with ``inconclusive`` for what is slower in it alone.

    Both are of the same kernels and cases and independent, so that both call an equal kernel slower
    with the square of the chance of one: the p-values are squares of the larger one.
    """

    def both(before: Sequence[Row], after: Sequence[Row]) -> tuple[Row, ...]:
        slower = {_place(it): it for it in before if it.verdict == "slower"}
        found = []
        for it in after:
            other = slower.get(_place(it))
            if it.verdict == "slower" and (other is None or other.equivalent_too):
                it = it.model_copy(update={"verdict": "inconclusive", "equivalent_too": False})
            elif other is not None and hasattr(it, "p_value"):
                p_values = [getattr(each, "p_value", None) for each in (it, other)]
                known = [p for p in p_values if p is not None]
                it = it.model_copy(update={"p_value": max(known) ** 2 if len(known) == 2 else None})
            found.append(it)
        return tuple(found)

    changed: dict[str, object] = {"effects": both(first.effects, second.effects)}
    if first.factors is not None and second.factors is not None:
        rows = both(first.factors.effects, second.factors.effects)
        changed["factors"] = second.factors.model_copy(update={"effects": rows})
    return second.model_copy(update=changed)


def with_first(run: Run, verdict: Verdict) -> Verdict:
    """What a gate is to judge by: of a run that confirms another, both. UsageError without it."""
    name = Path(str(run.manifest().overrides.get("confirms") or "")).name
    if not name:
        return verdict
    path = run.path.parent / name
    first = open_run(path).verdict() if path.is_dir() else None
    if first is None:
        raise UsageError(
            f"{run.name} confirms {name}, whose verdict is not in {path.parent}: put that run "
            "beside it, or leave out --fail-on"
        )
    return confirmed(first, verdict)


class Test(BaseModel):
    """One line of the history of a branch, in JSON: a run that a gate judged."""

    model_config = ConfigDict(frozen=True)
    run: str
    level: float
    """At which it was judged."""
    slower: bool


def in_history(path: Path, run: str, verdict: Verdict, fail_on: Sequence[str]) -> int:
    """``exit_status`` at the level that the tests in the file leave, and the run added to them.

    A run that is there already is judged at its level again. A gate without an answer is no test.
    UsageError for a file that is no history.
    """
    tests: list[Test] = []
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), 1):
        try:
            tests.append(Test.model_validate(values(line)))
        except ValueError:
            raise UsageError(
                f"{path}, line {number}: not a test of a gate, such as "
                f"{Test(run='RUN', level=0.001, slower=False).model_dump_json()}"
            ) from None
    known = [it.level for it in tests if it.run == run]
    level = lord_level([it.slower for it in tests], 1.0 - verdict.confidence)
    status = exit_status(verdict, fail_on, known[0] if known else level)
    if not known and status != FAILED:
        new = Test(run=run, level=level, slower=status == SLOWER)
        with path.open("a", encoding="utf-8") as file:
            file.write(new.model_dump_json() + "\n")
    return status


def _place(it: Effect | FactorEffect) -> tuple[str | None, ...]:
    names = ("suite", "case", "variant", "kind", "factor", "level", "other", "at")
    return tuple(getattr(it, name, None) for name in names)


def exit_status(verdict: Verdict, fail_on: Sequence[str], level: float | None = None) -> int:
    """0, 1, 10 or 11 by the rules above; UsageError for a rule that cannot be.

    level: an effect is slower only if its ``p_value`` is at most this; else it is undecided.
    """
    rules = parse(fail_on)
    if level is not None:
        verdict = _at_level(verdict, level)
    if not rules:
        measured = any(it.ratio is not None for it in verdict.effects)
        measured |= any(it.value is not None for it in verdict.values)
        return (
            FAILED if not measured and (verdict.failed or verdict.effects or verdict.values) else 0
        )
    check_compares(rules, not verdict.values)
    table = verdict.factors
    levels = [it for it in table.effects if counts(it, table.of_cases)] if table else []
    seen = {_status(rule, it, verdict) for rule in rules for it in verdict.effects}
    seen |= {_factor_status(rule, it) for rule in rules for it in levels}
    if verdict.failed or not all(_measured(rule, verdict.effects, levels) for rule in rules):
        seen.add(FAILED)
    return worst(seen)


def worst(statuses: Collection[int]) -> int:
    """The one that goes before the others, of 0, 1, 10 and 11."""
    return next((it for it in (SLOWER, FAILED, INCONCLUSIVE) if it in statuses), 0)


def _at_level(verdict: Verdict, level: float) -> Verdict:
    effects = [
        it.model_copy(update={"verdict": "inconclusive", "equivalent_too": False})
        if it.verdict == "slower" and it.p_value is not None and it.p_value > level
        else it
        for it in verdict.effects
    ]
    return verdict.model_copy(update={"effects": tuple(effects)})


def counts(it: FactorEffect, of_cases: Collection[str]) -> bool:
    """Whether a row of the factors' table can be a regression of a kernel."""
    return it.kind != "interaction" and it.factor not in of_cases


def _measured(rule: Rule, effects: Sequence[Effect], levels: Sequence[FactorEffect]) -> bool:
    """Whether there is any figure of what the rule watches."""
    return any(it.ratio is not None for it in effects if rule.watches(it.suite, it.case)) or any(
        it.ratio is not None for it in levels if rule.watches_factor(it)
    )


def _factor_status(rule: Rule, it: FactorEffect) -> int:
    if not rule.watches_factor(it):
        return 0
    if rule.word == "slower" and it.verdict == "slower" and not it.equivalent_too:
        return SLOWER
    return INCONCLUSIVE if rule.word == it.verdict == "inconclusive" else 0


def _status(rule: Rule, it: Effect, verdict: Verdict) -> int:
    if it.variant == verdict.copy_of_baseline or not rule.watches(it.suite, it.case):
        return 0
    if it.control and not rule.names(it.suite, it.case):
        return 0
    if it.verdict == "failed":
        return FAILED
    slower = it.verdict == "slower" and not it.equivalent_too
    if rule.word == "slower" and slower and not it.inside_noise_floor:
        return SLOWER
    undecided = it.verdict == "inconclusive" or (slower and it.inside_noise_floor)
    return INCONCLUSIVE if rule.word == "inconclusive" and undecided else 0
