# SPDX-License-Identifier: MIT
"""``--fail-on``: a verdict as an exit status, for scripts and CI.

10: a watched case is slower; 1: it failed, or nothing that is watched was measured; 11: it is
undecided; 0: none of it, in this order. Without rules 0, or 1 when nothing at all was measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from kdyno import whole
from kdyno.errors import UsageError
from kdyno.reading.checked import values
from kdyno.reading.mistakes import meant
from kdyno.stats.verdict import lord_level
from kdyno.store.reading import content
from kdyno.store.run import Run, open_run
from kdyno.store.verdict import Effect, FactorEffect, Verdict

Row = TypeVar("Row", Effect, FactorEffect)

SLOWER, INCONCLUSIVE, FAILED = 10, 11, 1
WORDS = ("slower", "inconclusive")
_HISTORY_BYTES = 16 << 20


@dataclass(frozen=True)
class Rule:
    """One ``--fail-on``: a word, and what it watches (nothing named: everything)."""

    word: str
    targets: tuple[str, ...] = ()
    """Each a suite, a case, suite/case, or a factor."""

    def watches(self, row: Effect | FactorEffect, verdict: Verdict) -> bool:
        """A control counts only where it is named, the baseline's own copy never."""
        if isinstance(row, Effect) and row.variant == verdict.copy_of_baseline:
            return False
        if not self.targets:
            return not (isinstance(row, Effect) and row.control)
        names = {row.suite, row.case, f"{row.suite}/{row.case}"}
        if isinstance(row, FactorEffect):
            names.add(row.factor)
        return not names.isdisjoint(self.targets)

    def status(self, row: Effect | FactorEffect, verdict: Verdict) -> int:
        """What is slower inside the noise floor is undecided."""
        if not self.watches(row, verdict):
            return 0
        # A kernel that did not boot is not a slow kernel.
        if isinstance(row, Effect) and row.verdict == "failed":
            return FAILED
        if self.word == "slower":
            return SLOWER if _stops(row) else 0
        undecided = row.verdict == "inconclusive" or (_matters(row) and not _stops(row))
        return INCONCLUSIVE if undecided else 0


def _matters(row: Effect | FactorEffect) -> bool:
    """Slower by more than ±equivalent: the asker said that less does not matter."""
    return row.verdict == "slower" and not row.equivalent_too


def _stops(row: Effect | FactorEffect) -> bool:
    """And by more than the baseline differs from its own copy."""
    return _matters(row) and not (isinstance(row, Effect) and row.inside_noise_floor)


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
    names = {name for suite, case in cases for name in (suite, case, f"{suite}/{case}")}
    names |= set(factors)
    for rule in rules:
        for target in rule.targets:
            if target not in names:
                there = ", ".join(sorted("/".join(pair) for pair in set(cases)))
                crossed = f", and the factors {', '.join(factors)}" if factors else ""
                raise UsageError(
                    f"--fail-on {rule.word}:{target}: the run has no such case"
                    f"{meant(target, sorted(names))} (it has {there}{crossed})"
                )


def check_compares(rules: Sequence[Rule], compares: bool) -> None:
    """Refuses rules for a run of one kernel alone, which could only ever pass."""
    if rules and not compares:
        raise UsageError(
            f"--fail-on {rules[0].word}: this run measures one kernel and compares nothing; "
            "`kdyno compare RUN RUN` compares two of them"
        )


def check_verdict(rules: Sequence[Rule], verdict: Verdict) -> None:
    """Both checks, for the verdict of a run."""
    check_compares(rules, not verdict.values)
    table = verdict.factors
    rows: list[Effect | FactorEffect] = [*verdict.effects, *(table.effects if table else ())]
    if cases := {(row.suite, row.case) for row in rows}:
        check(rules, cases, tuple(table.factors) if table else ())


def confirmed(first: Verdict, second: Verdict) -> Verdict:
    """The second run's verdict, with ``inconclusive`` for what is slower in it alone.

    Both are of the same kernels and cases and independent, so that both call an equal kernel slower
    with the square of the chance of one: the p-values are squares of the larger one."""

    def place(row: Effect | FactorEffect) -> tuple[str | None, ...]:
        names = ("suite", "case", "variant", "kind", "factor", "level", "other", "at")
        return tuple(getattr(row, name, None) for name in names)

    def both(before: Sequence[Row], after: Sequence[Row]) -> tuple[Row, ...]:
        slower = {place(row): row for row in before if _stops(row)}
        rows = []
        for row in after:
            other = slower.get(place(row))
            if _stops(row) and other is None:
                row = row.model_copy(update={"verdict": "inconclusive"})
            elif isinstance(row, Effect) and isinstance(other, Effect):
                p_values = [p for p in (row.p_value, other.p_value) if p is not None]
                p_value = max(p_values) ** 2 if len(p_values) == 2 else None
                row = row.model_copy(update={"p_value": p_value})
            rows.append(row)
        return tuple(rows)

    changed: dict[str, object] = {"effects": both(first.effects, second.effects)}
    if first.factors is not None and second.factors is not None:
        rows = both(first.factors.effects, second.factors.effects)
        changed["factors"] = second.factors.model_copy(update={"effects": rows})
    return second.model_copy(update=changed)


def with_first(
    run: Run, verdict: Verdict, elsewhere: Callable[[str], Run | None] = lambda _name: None
) -> Verdict:
    """What a gate is to judge by: of a run that confirms another, both. UsageError without it.
    elsewhere: the other by its name, where it is not beside the run."""
    name = Path(str(run.manifest().overrides.get("confirms") or "")).name
    if not name:
        return verdict
    path = run.path.parent / name
    other = open_run(path) if path.is_dir() else elsewhere(name)
    if other is None or (first := other.verdict()) is None:
        raise UsageError(
            f"{run.name} confirms {name}, whose verdict is not there: put that run beside it (into "
            "the same folder or store), or leave out --fail-on"
        )
    return confirmed(first, verdict)


class Test(BaseModel):
    """One line of the history of a branch, in JSON: a run that a gate judged."""

    model_config = ConfigDict(frozen=True)
    run: str
    level: float
    """At which it was judged."""
    slower: bool


def in_history(path: Path, run: str, verdict: Verdict, fail_on: Sequence[str]) -> Verdict:
    """The verdict ``at_level`` that the tests in the file leave, and the run added to them.

    A run that is there already is judged at its level again. A gate without an answer is no test.
    UsageError for a file that is no history."""
    with whole.locked(path.with_name(f".{path.name}.lock")):  # another gate may add its own
        tests: list[Test] = []
        earlier = content(path, _HISTORY_BYTES, "history of a gate") if path.exists() else b""
        for number, line in enumerate(earlier.splitlines(), 1):
            try:
                tests.append(Test.model_validate(values(line)))
            except ValueError:
                raise UsageError(
                    f"{path}, line {number}: not a test of a gate, such as "
                    f"{Test(run='RUN', level=0.001, slower=False).model_dump_json()}"
                ) from None
        levels = [test.level for test in tests if test.run == run]
        level = lord_level([test.slower for test in tests], 1.0 - verdict.confidence)
        verdict = at_level(verdict, levels[0] if levels else level)
        status = exit_status(verdict, fail_on)
        if not levels and status != FAILED:
            new = Test(run=run, level=level, slower=status == SLOWER)
            lines = [*earlier.splitlines(), new.model_dump_json().encode()]
            whole.write(path, b"".join(line + b"\n" for line in lines))
    return verdict


def at_level(verdict: Verdict, level: float) -> Verdict:
    """An effect is slower only if its ``p_value`` is at most this; else it is undecided, as is
    every slower level of a factor: nothing says that one of them keeps to a level."""
    undecided = {"verdict": "inconclusive"}
    effects = tuple(
        row.model_copy(update=undecided) if _matters(row) and (row.p_value or 0.0) > level else row
        for row in verdict.effects
    )
    if (table := verdict.factors) is not None:
        rows = tuple(
            row.model_copy(update=undecided) if _matters(row) else row for row in table.effects
        )
        table = table.model_copy(update={"effects": rows})
    return verdict.model_copy(update={"effects": effects, "factors": table})


def exit_status(verdict: Verdict, fail_on: Sequence[str]) -> int:
    """0, 1, 10 or 11 by the rules above; UsageError for a rule that cannot be."""
    rules = parse(fail_on)
    if not rules:
        measured = any(effect.ratio is not None for effect in verdict.effects)
        measured |= any(value.value is not None for value in verdict.values)
        anything = verdict.failed or verdict.effects or verdict.values
        return FAILED if anything and not measured else 0
    check_compares(rules, not verdict.values)
    rows: list[Effect | FactorEffect] = [*verdict.effects]
    if (table := verdict.factors) is not None:
        rows += [row for row in table.effects if counts(row, table.of_cases)]
    statuses = {rule.status(row, verdict) for rule in rules for row in rows}
    # What is watched was measured, or it is no pass.
    measured_rows = [row for row in rows if row.ratio is not None]
    watched = [any(rule.watches(row, verdict) for row in measured_rows) for rule in rules]
    if verdict.failed or not all(watched):
        statuses.add(FAILED)
    return worst(statuses)


def worst(statuses: Collection[int]) -> int:
    """The one that goes before the others, of 0, 1, 10 and 11."""
    return next((status for status in (SLOWER, FAILED, INCONCLUSIVE) if status in statuses), 0)


def counts(row: FactorEffect, of_cases: Collection[str]) -> bool:
    """Whether a row of the factors' table can be a regression of a kernel: a level, on average and
    at each level of another factor. Factors of cases (-j 1 against -j 4) are settings."""
    return row.kind != "interaction" and row.factor not in of_cases
