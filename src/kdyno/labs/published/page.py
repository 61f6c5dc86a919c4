# SPDX-License-Identifier: MIT
"""One page for all published experiments: claims, own figures, today's answers; and its verb."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jinja2

from kdyno.labs.memcpy import results
from kdyno.labs.published.answers import (
    CONTROL,
    LESS,
    Answer,
    Evidence,
    Row,
    Source,
    answer,
    collect,
    kept,
)
from kdyno.labs.published.article import (
    NO_SPREAD,
    Article,
    Ask,
    Check,
    Checked,
    Table,
    check,
    load,
    names,
)
from kdyno.reading.checked import values_in
from kdyno.report import figures, plain
from kdyno.report.charts.vega import Spec, alone, filled
from kdyno.report.show.grid import escaped, markdown, of_rows
from kdyno.store.verdict import Verdict, deciding
from kdyno.verbs.options import Json, Runs, argument, option
from kdyno.verbs.output import check_writable, say, write, write_json
from kdyno.verbs.subject import find_run

_WORDS = {word: word for word in ("faster", "slower", "equivalent", "inconclusive", "failed")}
_WORDS["inconclusive"] = "undecided"


@dataclass(frozen=True)
class Claim:
    article: Article
    own: Checked
    answers: tuple[Answer, ...]

    @property
    def check(self) -> Check:
        return self.own.claim

    @property
    def heading(self) -> str:
        return _capital(self.check.text)

    @property
    def unit(self) -> str:
        """Of its printed figures; "" where they have none or are of several tables."""
        table = self.article.tables.get(self.check.table)
        units = table.units if table else {}
        return units.get(self.check.figure, units.get("default", ""))

    @property
    def expected(self) -> str:
        """The word that effects of today would have if the claim held: faster, slower, equivalent;
        "" where its figures do not decide."""
        if self.check.expect or self.check.printed or not self.own.figures:
            return self.check.expect
        if self.check.low < 1.0 < self.check.high:
            return "equivalent" if math.isfinite(self.check.high - self.check.low) else ""
        tables = self.article.all_tables.items()
        better = {table.better for name, table in tables if self.check.table in ("", name)}
        if better not in ({"higher"}, {"lower"}):
            return ""
        return "faster" if (self.check.low >= 1.0) == (better == {"higher"}) else "slower"

    @property
    def today(self) -> str:
        """In a few words."""
        answers = [answer for answer in self.answers if not answer.ask.instead]
        if not answers:
            return "not asked"
        rows = self.rows
        words = (carried(self.expected, rows) or summary(rows)) if rows else ""
        if all(answer.rows for answer in answers):
            return words
        return f"{words}; partly answered" if words else "not answered yet"

    @property
    def rows(self) -> list[Row]:
        """Today's figures, without those that are of another comparison."""
        return [row for answer in self.answers if not answer.ask.instead for row in answer.rows]

    @property
    def by_source(self) -> list[tuple[tuple[Source, str], list[Row]]]:
        """((source, what it compares instead), its rows)."""
        rows: dict[tuple[Source, str], list[Row]] = {}
        for each in self.answers:
            if each.source is not None:
                rows.setdefault((each.source, each.ask.instead), []).extend(each.rows)
        return list(rows.items())


def claims(article: Article, evidence: Evidence) -> list[Claim]:
    """In the article's order."""
    return [
        Claim(article, check(article, each), tuple(answer(ask, evidence) for ask in each.today))
        for each in article.checks
    ]


def page(
    articles: Sequence[Article], evidence: Evidence, pictures: Mapping[str, str] | None = None
) -> str:
    """The page as Markdown. ``pictures``: name of a chart → the link that shows it."""
    by_article = [(article, claims(article, evidence)) for article in articles]
    every = [claim for _, each in by_article for claim in each]
    texts: dict[tuple[Source, Row], str] = {}

    def before(claim: Claim, source: Source, rows: Sequence[Row]) -> str:
        """The heading of the earlier claim whose table has all these rows, or ""."""
        headings = {texts.setdefault((source, row), claim.heading) for row in rows}
        return "" if len(headings) > 1 else (headings - {claim.heading} or {""}).pop()

    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "md": escaped,
        "capital": _capital,
        "anchor": lambda heading: re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-"),
        "figures": _figures,
    }
    used = [one.source for each in every for one in each.answers]
    template = Path(__file__).with_name("page.md.jinja").read_text(encoding="utf-8")
    text = environment.from_string(template).render(
        claims=every,
        articles=by_article,
        before=before,
        no_spread=NO_SPREAD,
        pictures=pictures or {},
        sources=[source for source in evidence.sources if source in used],
    )
    return f"{text.rstrip()}\n"


def as_json(articles: Sequence[Article], evidence: Evidence) -> dict[str, Any]:
    return {
        "schema": 1,
        "claims": [
            {
                "article": article.name,
                "text": claim.check.text,
                "own_figures": claim.own.word,
                "today": claim.today,
                "rows": [asdict(row) for one in claim.answers for row in one.rows],
            }
            for article in articles
            for claim in claims(article, evidence)
        ],
    }


def carried(expected: str, rows: Sequence[Row]) -> str:
    """``carried today``, ``not carried`` or ``differs``; "" where rows or claim have no direction.

    Negative controls say nothing about a claim."""
    words = {
        "equivalent" if row.equivalent_too else row.verdict
        for row in rows
        if row.verdict in ("faster", "slower", "equivalent") and not row.what.endswith(CONTROL)
    }
    if not expected or not any(row.verdict for row in rows):
        return ""
    if not words or words == {expected}:
        return "carried today" if words else "undecided"
    return "differs" if expected in words else "not carried"


def summary(rows: Iterable[Row]) -> str:
    """``4 faster, 1 equivalent (0.28 % worse to 10.2 % better)``: all figures of a claim in a few
    words, whichever way their units go."""
    every = list(rows)
    ordered = sorted((row for row in every if row.ratio), key=lambda row: row.gain)
    if not ordered:
        return "; ".join(f"{row.what}: {row.text} {row.unit}" for row in every[:2])
    counts = {word: sum(row.verdict == word for row in every) for word in _WORDS}
    words = ", ".join(f"{count} {_WORDS[word]}" for word, count in counts.items() if count)
    ends = dict.fromkeys(
        f"{figures.size(row.ratio)} {'better' if row.gain > 0 else 'worse'}"
        if row.gain
        else "no difference"
        for row in (ordered[0], ordered[-1])
    )
    return f"{words} ({' to '.join(ends)})" if words else " to ".join(ends)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _figures(rows: Sequence[Row]) -> str:
    """A row for each figure, a column for each comparison; the other way round where narrower."""

    def cell(row: Row) -> str:
        interval = "exact" if row.exact else ""
        if row.ci is not None and not row.exact:
            interval = figures.interval(row.ci).removesuffix(" %")
        verdict = _WORDS.get(row.verdict, row.verdict) + (" ≈" if row.equivalent_too else "")
        return " ".join(filter(None, (row.text, interval and f"({interval})", verdict)))

    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        unit = LESS if row.unit.endswith(LESS) else "" if row.ratio else row.unit
        name = f"{row.what}, {unit}" if unit else row.what
        cells.setdefault(name, {})[row.compared] = cell(row)
    compared = list(dict.fromkeys(row.compared for row in rows))
    if len(cells) < len(compared):
        cells = {of: {name: row[of] for name, row in cells.items() if of in row} for of in compared}
        compared = list(dict.fromkeys(name for row in cells.values() for name in row))
    every = [[name, *(row.get(of, "") for of in compared)] for name, row in cells.items()]
    return markdown(of_rows(["", *compared], every))


Rows = list[dict[str, Any]]


def pictures(articles: Sequence[Article], evidence: Evidence) -> dict[str, tuple[str, str]]:
    """Chart → (SVG that stands alone, what it says in words), of those that there are data for."""
    drawn = {"jobs": _jobs, "sizes": _sizes}
    drawings = {
        claim.chart: drawn[claim.chart](article, claim.today, evidence)
        for article in articles
        for claim in article.checks
        if claim.chart
    }
    return {
        name: (alone(*drawing) + "\n", drawing[1])
        for name, drawing in drawings.items()
        if drawing is not None
    }


def _chart(name: str, **values: Any) -> Spec:
    """Of charts.json, with every text ``$key`` replaced by what is given for it."""
    return filled(values_in(Path(__file__).with_name("charts.json"))[name], **values)


def _jobs(article: Article, asks: Sequence[Ask], evidence: Evidence) -> tuple[Spec, str]:
    """How long a compile takes by the number of jobs: as published, and today."""
    panels: dict[str, Rows] = {}
    for name, printed in article.tables.items():
        if "jobs" in printed.factors:
            system = plain.short(article.title.partition(":")[0])
            panels[f"{plain.short(name).replace('_', ' ')}, {system}"] = _times(printed)
    for ask in asks:
        for run in evidence.runs.get(ask.run, ()):
            where = run.source.machine.partition(",")[0]
            for case, rows in _times_today(run.verdict, ask.suite).items():
                title = f"today: {run.source.name}, {plain.short(case)}, {where}"
                panels.setdefault(title, rows)  # runs stand with the newest first
    specs, words = [], []
    for title, rows in panels.items():
        lines = list(dict.fromkeys(row["line"] for row in rows))
        jobs = sorted({row["jobs"] for row in rows})
        specs.append(_chart("jobs of one", title=title, rows=rows, lines=lines, jobs=jobs))
        row = max(rows, key=lambda row: abs(math.log(row["at"])))
        way = "down" if row["at"] < 1.0 else "up"
        at = f"{row['line']} and {figures.count(row['jobs'], 'job')}"
        words.append(f"{title}: {way} to {row['at']:.2f} with {at}")
    text = f"Time of a compile by jobs, one CPU with one job is 1. {'; '.join(words)}."
    return _chart("jobs", panels=specs), text


def _times(table: Table) -> Rows:
    rows, base = [], table.cells[table.baseline]["real_s"]
    for cell, row in table.cells.items():
        levels = dict(zip(table.factors, cell, strict=True))
        jobs = int(levels.pop("jobs"))
        rows.append({"line": " ".join(levels.values()), "jobs": jobs, "at": row["real_s"] / base})
    return rows


def _times_today(verdict: Verdict | None, suite: str) -> dict[str, Rows]:
    """suite/case → its times by jobs, of cases with a number of them; the baseline's with 1: 1."""
    if verdict is None:
        return {}
    times: dict[str, dict[tuple[str, int], float]] = {}
    for effect in map(deciding, verdict.effects):
        case, _, jobs = effect.case.rpartition("@")
        compiles = effect.suite == suite and jobs.isdigit()
        if compiles and effect.baseline_value and effect.ratio:
            of = times.setdefault(f"{suite}/{case}", {})
            of[verdict.baseline, int(jobs)] = effect.baseline_value
            of[effect.variant, int(jobs)] = effect.baseline_value * effect.ratio
    return {
        name: [
            {"line": plain.short(line), "jobs": jobs, "at": value / base}
            for (line, jobs), value in of.items()
        ]
        for name, of in times.items()
        if (base := of.get((verdict.baseline, 1)))
    }


def _sizes(_article: Article, asks: Sequence[Ask], evidence: Evidence) -> tuple[Spec, str] | None:
    """The published routine's time ÷ the kernel's own, by size."""
    routine, own = asks[0].routine, asks[0].against
    for _source, bench in evidence.files.get(results.KIND, ()):
        if not {routine, own} <= set(bench.ns):
            continue
        rows: Rows = []
        for each in results.curve(bench, ("L1", "fixed", "aligned")):
            effect = results.against(bench, routine, own, each)
            low, high = effect.ci or (None, None)
            if effect.ratio is not None:
                rows.append({"bytes": each.most, "at": effect.ratio, "low": low, "high": high})
        if len(rows) < 3:
            continue
        more = f"{plain.short(bench.cpu)}; below the dashed line the published routine is quicker"
        ticks = list(range(512, rows[-1]["bytes"] + 1, 512))
        ends = ", ".join(f"{row['at']:.2f} at {row['bytes']} bytes" for row in (rows[0], rows[-1]))
        first = next((row["bytes"] for row in rows if row["at"] < 1), None)
        crossing = f"; below 1 from {first} bytes" if first else ""
        spec = _chart("sizes", more=more, rows=rows, ticks=ticks)
        return spec, f"Time of the published routine ÷ the kernel's own loop: {ends}{crossing}."
    return None


def published(
    what: list[str] | None = argument(
        "RUN",
        "Runs (path, name or last), and JSON files of memcpy bench, memcpy histogram and "
        "vectorize [those that come with kdyno].",
        None,
    ),
    output: str | None = option(
        "-o --output FILE", "Write there, with pictures in a folder beside.", None
    ),
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Answer the claims of published experiments from runs.

    Examples:
      kdyno lab published
      kdyno lab published last -o page.md
      kdyno lab published 3f2a 81bc survey.json --json -
    """
    check_writable(json, output)
    paths = kept()
    if what:
        files = [Path(word).expanduser() for word in what]
        paths = [
            file if file.suffix == ".json" and file.is_file() else find_run(word, runs).path
            for word, file in zip(what, files, strict=True)
        ]
    evidence = collect(paths)
    articles = [load(name) for name in names()]
    if json is not None:
        write_json(as_json(articles, evidence), json)
        if json == "-" and output is None:
            return 0
    if output is None or output == "-":
        write(page(articles, evidence), "-")
        return 0
    links: dict[str, str] = {}
    folder = Path(output).parent / "pictures"
    for name, (svg, text) in pictures(articles, evidence).items():
        folder.mkdir(exist_ok=True)
        file = folder / f"published-{name}.svg"
        write(svg, str(file))
        links[name] = f"![{text}](pictures/{file.name})"
    write(page(articles, evidence, links), output)
    say(f"written: {output}{f', with pictures in {folder}' if links else ''}")
    return 0


VERBS = {"published": published}
