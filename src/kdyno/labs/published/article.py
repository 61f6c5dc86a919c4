# SPDX-License-Identifier: MIT
"""A published experiment: its tables as printed, its claims, and both held against its own figures.

Each is a file of published/: tables of figures over the cross of factors, claims as ranges that
figures have to lie in, and what one can ask today about each."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from kdyno.errors import UsageError
from kdyno.paths import data_root
from kdyno.reading.checked import FromFile, check as checked, wrong
from kdyno.reading.mistakes import meant
from kdyno.report import effects, figures, plain
from kdyno.report.show.grid import Cell as GridCell, Column, Grid
from kdyno.report.show.terminal import Part
from kdyno.store.verdict import Effect, FactorEffect, Verdict, deciding

PREFIX = "published:"
NO_SPREAD = "no spread was published: no verdict"

Cell = tuple[str, ...]
"""One level of each factor."""


Level = Annotated[str, Field(strict=False, coerce_numbers_to_str=True)]
"""As the article prints it; numbers are taken as text."""
Levels = Annotated[
    list[Level], BeforeValidator(lambda value: value if isinstance(value, list) else [value])
]


class Today(FromFile):
    """Where kdyno measures what a table holds."""

    suite: str
    cases: dict[str, str] = Field(default_factory=dict)
    """Figure → case, where the names differ."""
    figure: str = ""
    """For a cross: the figure that a case's score is."""
    levels: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Factor → published level → today's level, where the names differ."""


class Table(FromFile):
    factors: dict[str, list[Level]]
    """Factor → levels. The first of each is the baseline's."""
    figures: dict[str, list[float]]
    """Figure → printed numbers, of every cell of the cross; the last factor moves first."""
    better: Literal["higher", "lower"] | None = None
    samples: int | None = None
    """Runs behind a figure; None where the text does not say."""
    mean: bool = False
    units: dict[str, str] = Field(default_factory=dict)
    percent: dict[str, list[float]] = Field(default_factory=dict)
    """Figure → the percentages of ``total`` that are printed beside it."""
    today: Today | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Table:
        count = math.prod(map(len, self.factors.values()))
        for key in ("figures", "percent"):
            for name, numbers in getattr(self, key).items():
                if len(numbers) != count:
                    what = f"{len(numbers)} numbers for the {count} cells of the cross of factors"
                    raise wrong(f"{key}.{name}", what)
        return self

    @cached_property
    def cells(self) -> dict[Cell, dict[str, float]]:
        """Cell → figure → printed number."""
        return {
            cell: {name: numbers[at] for name, numbers in self.figures.items()}
            for at, cell in enumerate(product(*self.factors.values()))
        }

    @property
    def baseline(self) -> Cell:
        return tuple(levels[0] for levels in self.factors.values())

    @property
    def variants(self) -> list[Cell]:
        return [cell for cell in self.cells if cell != self.baseline]

    def ratio(self, cell: Cell, figure: str, against: Cell | None = None) -> float | None:
        """Of two printed numbers; None where one is missing or zero."""
        value = self.cells[cell].get(figure)
        base = self.cells[self.baseline if against is None else against].get(figure)
        return value / base if value is not None and base else None


What = Literal[
    "effect", "group", "factor", "profile", "share", "sizes", "places", "reasons", "copies", "forms"
]


class Ask(FromFile):
    """What is asked today about a claim, and which run or file has the answer: one
    ``[[check.today]]``. Names may be patterns, as in a shell."""

    what: What = "effect"
    run: str = ""
    """The experiment."""
    suite: str = ""
    case: str = ""
    variant: str = "*"
    factor: str = ""
    level: str = "*"
    other: str = "*"
    """The factor at whose levels ``factor`` is looked at; empty: averaged over the others."""
    function: str = ""
    routine: str = ""
    against: str = ""
    flags: str = "*"
    reason: str = ""
    job: str = ""
    instead: str = ""
    """What is compared there in place of what the claim compares: its figures answer another
    question, and are no answer to the claim."""
    bytes: list[int] = Field(default_factory=list)
    """The smallest and the largest size; for forms, each size."""

    def fits(self, **names: str) -> bool:
        """Whether every name is one that is asked about."""
        return all(fnmatchcase(name, getattr(self, key)) for key, name in names.items())


class Check(FromFile):
    """A claim as a range that figures have to lie in: one ``[[check]]``."""

    text: str
    figure: str = ""
    """A name or a pattern; empty: nothing in the tables says anything about this claim."""
    table: str = ""
    """Empty: every table that has the figure."""
    low: float = Field(default=-math.inf, alias="min")
    high: float = Field(default=math.inf, alias="max")
    where: dict[str, Levels] = Field(default_factory=dict)
    factor: str = ""
    start: Level = Field(default="", alias="from")
    end: Level = Field(default="", alias="to")
    value: bool | None = None
    """Whether the printed numbers are meant, not their ratios to the baseline's. None: they are
    where levels are named and no factor to compare along."""
    share: float = 1.0
    """Part of the figures that must lie in the range."""
    partial: bool = False
    """The figures are a selection, which cannot settle the claim."""
    note: str = ""
    question: str = ""
    expect: Literal["", "faster", "slower", "equivalent"] = ""
    """What today's effects are if the claim holds, where its own figures do not decide."""
    carries: str = ""
    """What of the answer carries over to the claim, honestly, in a sentence."""
    today: list[Ask] = Field(default_factory=list)
    unasked: str = ""
    """In place of question, carries and today: why nothing is asked."""
    chart: Literal["", "jobs", "sizes"] = ""
    """What is drawn of its article and of what is asked today."""

    @property
    def printed(self) -> bool:
        return bool(self.where) and not self.factor if self.value is None else self.value


class Article(FromFile):
    name: str = ""
    """Of its file."""
    title: str
    system: str = ""
    tables: dict[str, Table] = Field(alias="table", min_length=1)
    checks: list[Check] = Field(default_factory=list, alias="check")
    loops: dict[str, int] = Field(default_factory=dict)
    """Source file → loops in it that were vectorised."""

    @model_validator(mode="after")
    def _is_whole(self) -> Article:
        for claim in self.checks:
            if claim.table and claim.table not in self.all_tables:
                raise ValueError(f"check {claim.text!r}: no table {claim.table!r}")
        return self

    @cached_property
    def all_tables(self) -> dict[str, Table]:
        """Those of the file, and how printed percentages differ from computed ones."""
        tables = dict(self.tables)
        for table in self.tables.values():
            shares = {}
            for name, percents in table.percent.items():
                rows = zip(percents, table.figures[name], table.figures["total"], strict=True)
                shares[name] = [percent / (100.0 * own / total) for percent, own, total in rows]
            if shares:
                tables["printed ÷ computed percentage"] = Table(
                    factors=table.factors, figures=shares, better=table.better
                )
        return tables


def names() -> tuple[str, ...]:
    """All that come with kdyno."""
    return tuple(sorted(path.stem for path in (data_root() / "published").glob("*.toml")))


def load(name: str) -> Article:
    """``athlon64x2-kernel-compile`` or the beginning of one name; UsageError names them all."""
    name = name.removeprefix(PREFIX)
    articles = names()
    matches = [one for one in articles if name and one.startswith(name)]
    matches = [name] if name in articles else matches
    if len(matches) != 1:
        hint = "" if matches else meant(name, articles, f" Did you mean {PREFIX}{{}}?")
        which = f"{len(matches)} begin so" if matches else "there is no such article"
        raise UsageError(f"{PREFIX}{name}: {which}.{hint} There are: {', '.join(articles)}")
    return load_file(data_root() / "published" / f"{matches[0]}.toml")


def load_file(path: Path) -> Article:
    """UsageError names the file and the key."""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise UsageError(f"{path}: cannot be read: {problem}") from None
    return checked(Article, data, str(path), text).model_copy(update={"name": path.stem})


@dataclass(frozen=True)
class Checked:
    """A claim, held against the figures that were printed with it."""

    claim: Check
    figures: tuple[tuple[str, float], ...]
    """(what, number) of every figure that the claim speaks of."""

    @property
    def inside(self) -> int:
        """How many of them are as the claim means."""
        return sum(self.claim.low <= number <= self.claim.high for _, number in self.figures)

    @property
    def word(self) -> Literal["holds", "does not hold", "not settled", "not checked"]:
        """It holds when enough of the figures lie in its range."""
        if not self.figures:
            return "not checked"
        if self.claim.partial:
            return "not settled"
        enough = self.inside >= self.claim.share * len(self.figures)
        return "holds" if enough else "does not hold"

    def text(self, number: float, unit: str = "") -> str:
        return f"{number:.4g} {unit}".rstrip() if self.claim.printed else figures.effect(number)

    def range(self, unit: str = "") -> str:
        """What the claim means: ``at least +10.0 %``."""
        low, high = self.claim.low, self.claim.high
        ends = dict.fromkeys(self.text(end, unit) for end in (low, high) if math.isfinite(end))
        side = "at least " if high == math.inf else "at most " if low == -math.inf else ""
        return side + " to ".join(ends)

    def reach(self, unit: str = "") -> str:
        """``from +1.00 % (this) to +9.00 % (that)``."""
        lowest, highest = (pick(self.figures, key=lambda pair: pair[1]) for pick in (min, max))
        low, high = self.text(lowest[1], unit), self.text(highest[1], unit)
        return f"from {low} ({lowest[0]}) to {high} ({highest[0]})"


def check(article: Article, claim: Check) -> Checked:
    numbers = []
    for name, table in article.all_tables.items():
        if claim.table and name != claim.table:
            continue
        several = "" if claim.table else f"{name} "
        for figure in (name for name in table.figures if fnmatchcase(name, claim.figure)):
            for cell, against in _pairs(table, claim):
                printed = table.cells[cell].get(figure)
                number = printed if claim.printed else table.ratio(cell, figure, against)
                if number is not None:
                    level = () if len(table.cells) == 2 and not claim.printed else cell
                    numbers.append((several + " ".join([*level, figure]), number))
    return Checked(claim, tuple(numbers))


def _pairs(table: Table, claim: Check) -> Iterator[tuple[Cell, Cell]]:
    """(cell, what it is compared with) for every cell that the claim speaks of."""
    for cell in table.cells:
        level = dict(zip(table.factors, cell, strict=True))
        if any(level.get(name) not in wanted for name, wanted in claim.where.items()):
            continue
        if claim.factor:
            if level.get(claim.factor) != claim.end:
                continue
            level[claim.factor] = claim.start
            against = tuple(level.values())
            if against in table.cells:
                yield cell, against
        elif claim.printed or cell != table.baseline:
            yield cell, table.baseline


def parts(article: Article) -> Iterator[Part]:
    """The article on a terminal: its ratios, and its claims against its own figures."""
    yield from filter(None, (article.title, article.system))
    for name, table in article.all_tables.items():
        runs = "number of runs not given"
        if table.samples:
            runs = f"{'mean of ' if table.mean else ''}{table.samples} runs"
            runs = "one run each" if table.samples == 1 else runs
        better = f", {table.better} is better" if table.better else ""
        against = f", against {'+'.join(table.baseline)}" if table.variants else ""
        yield from ("", f"{name}: {runs}{better}{against}", _grid(table))
        if table.variants:
            yield NO_SPREAD
    yield from ("", "the article's claims against its own figures")
    for claim in article.checks:
        own = check(article, claim)
        yield f"  {own.word}: {claim.text}"
        text = "no printed figure says anything about it"
        if own.figures:
            side = "meant: " if math.isfinite(claim.high - claim.low) else ""
            text = f"{own.inside} of {len(own.figures)} figures; they go {own.reach()}"
            if len(own.figures) == 1:
                text = f"the figures give {own.text(own.figures[0][1])}"
            text += f"; {side}{own.range()}"
        yield f"      {text}"
        if claim.note:
            yield f"      {claim.note}"


def _grid(table: Table) -> Grid:
    """Figures with the effect where two cells are compared, else cells with the effects."""

    def change(cell: Cell, figure: str) -> str:
        if cell == table.baseline:
            return f"{table.cells[cell][figure]:g}"
        return figures.effect(table.ratio(cell, figure))

    if len(table.cells) > 2:
        columns = [Column("", "+".join)]
        columns += [Column(name, partial(change, figure=name), "number") for name in table.figures]
        return Grid(columns, list(table.cells))
    columns = [Column("", str)]
    for cell in (table.baseline, *table.variants):
        columns.append(Column("+".join(cell), table.cells[cell].get, "number", "{:g}".format))
    columns += [Column("effect", partial(change, cell), "number") for cell in table.variants]
    return Grid(columns, list(table.figures))


def as_json(article: Article, verdict: Verdict | None = None) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": article.name,
        "title": article.title,
        "tables": {
            name: {
                "+".join(cell): {figure: table.ratio(cell, figure) for figure in table.figures}
                for cell in table.variants
            }
            for name, table in article.all_tables.items()
        },
        "claims": [
            {"text": own.claim.text, "word": own.word, "figures": own.figures}
            for own in (check(article, claim) for claim in article.checks)
        ],
    }
    if verdict is not None:
        value["today"] = [
            {
                "what": pair.what,
                "table": pair.table,
                "published_ratio": pair.published,
                "opposite": pair.opposite,
                **{key: getattr(pair.today, key) for key in ("ratio", "ci", "verdict")},
            }
            for pair in beside(article, verdict)
        ]
    return value


@dataclass(frozen=True)
class Beside:
    what: str
    published: float
    table: str
    today: Effect | FactorEffect
    better: Literal["higher", "lower"] | None
    """Of the table."""

    @property
    def opposite(self) -> bool:
        """More is better of one, less of the other, as of scores and counted instructions."""
        return self.better not in (None, self.today.better)


def beside(article: Article, verdict: Verdict) -> list[Beside]:
    """Today's effects that measure what the article did, in the order of its tables."""
    pairs: list[Beside] = []
    for name, table in article.tables.items():
        if table.today is not None and len(table.factors) == 1:
            pairs += _variants_beside(name, table, table.today, verdict)
        elif table.today is not None and verdict.factors is not None:
            pairs += _factors_beside(name, table, table.today, verdict.factors.effects)
    return pairs


def _variants_beside(name: str, table: Table, today: Today, verdict: Verdict) -> Iterator[Beside]:
    for cell, figure in product(table.variants, table.figures):
        ratio = table.ratio(cell, figure)
        for effect in verdict.effects:
            same = fnmatchcase(effect.case, today.cases.get(figure, figure))
            own = effect.ratio is not None and effect.variant != verdict.copy_of_baseline
            if effect.suite == today.suite and same and own and ratio is not None:
                what = f"{effect.suite}/{effect.case}: {effect.variant}"
                yield Beside(what, ratio, name, deciding(effect), table.better)


def _factors_beside(
    name: str, table: Table, today: Today, judged: tuple[FactorEffect, ...]
) -> Iterator[Beside]:
    def printed(factor: str, level: str) -> str:
        """What the article calls a level of today."""
        published = {new: old for old, new in today.levels.get(factor, {}).items()}
        return published.get(level, level)

    for effect in judged:
        same = effect.suite == today.suite and effect.factor in table.factors
        if not same or effect.kind == "interaction":
            continue
        start, end = printed(effect.factor, effect.reference), printed(effect.factor, effect.level)
        where = {}
        if effect.other is not None:
            where[effect.other] = [printed(effect.other, effect.at or "")]
        keys = {"text": "", "where": where, "factor": effect.factor, "from": start, "to": end}
        cells = _pairs(table, Check.model_validate(keys))
        ratios = [table.ratio(cell, today.figure, base) for cell, base in cells]
        logs = [math.log(ratio) for ratio in ratios if ratio is not None]
        if logs:
            at = f" at {effect.other} {effect.at}" if effect.other else ""
            what = f"{name}: {effect.factor} {effect.level}{at} ({effect.case})"
            ratio = math.exp(sum(logs) / len(logs))
            yield Beside(what, ratio, name, deciding(effect), table.better)


def beside_parts(article: Article, verdict: Verdict) -> Iterator[Part]:
    """Today's effects beside the published ones, on a terminal."""
    yield f"{plain.name(verdict.experiment)} beside “{article.title}”"
    pairs = beside(article, verdict)
    if not pairs:
        yield "no case of this run measures what the article did"
        return

    def word(pair: Beside) -> GridCell:
        ci = pair.today.ci
        inside = ci is not None and ci[0] <= pair.published <= ci[1]
        note = ", the published figure lies in it" if inside else ""
        if pair.opposite:
            note = f", of which {'more' if pair.today.better == 'higher' else 'less'} is better"
        return GridCell(pair.today.verdict + note, tone=pair.today.verdict)

    columns = (
        Column("", lambda pair: pair.what),
        Column("published", lambda pair: pair.published, "number", figures.effect),
        Column("today", lambda pair: effects.effect(pair.today), "effect"),
        Column("interval", lambda pair: effects.interval(pair.today), "number"),
        Column("verdict today", word, "verdict"),
    )
    yield Grid(columns, pairs)
    yield f"{NO_SPREAD} about how far the two are apart"
