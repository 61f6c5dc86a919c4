# SPDX-License-Identifier: MIT
"""Queries of a store: which runs, and their rows. No query reads a boot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, exists, func, or_, select

from kdyno.errors import ToolError
from kdyno.store.database.facts import Facts, Kernel, read_facts, read_row, read_score
from kdyno.store.database.schema import KERNELS, MACHINES, PARTS, RUNS, SCORES
from kdyno.store.samples import Score

NEWEST = 1000
MOST = 100_000
"""Runs of a store that a list or a page shows unless another number is given, and at all."""
_ESCAPE = "\\"
_NEWEST_FIRST = (RUNS.c.created.desc(), RUNS.c.name.desc())


@dataclass(frozen=True)
class Wanted:
    """Which runs. Patterns: * is any text, ? any character; capitals do not matter."""

    experiment: str | None = None
    case: str | None = None
    """CASE or SUITE/CASE."""
    kernel: str | None = None
    """A version, with or without v; or a word of the source, such as a git tag."""
    cpu: str | None = None
    """The CPU's model, of any of its machines."""
    limit: int | None = None
    """The newest so many."""

    @property
    def filters(self) -> bool:
        return any((self.experiment, self.case, self.kernel, self.cpu))


def _numbers(wanted: Wanted) -> Any:
    """The numbers of the runs."""
    query = select(RUNS.c.id).order_by(*_NEWEST_FIRST)
    if wanted.experiment:
        query = query.where(_like(RUNS.c.experiment, wanted.experiment))
    if wanted.cpu:
        one = exists().where(MACHINES.c.run == RUNS.c.id, _like(MACHINES.c.cpu_model, wanted.cpu))
        query = query.where(or_(_like(RUNS.c.cpu_model, wanted.cpu), one))
    if wanted.kernel:
        kernel = or_(
            _like(KERNELS.c.version, wanted.kernel.removeprefix("v")),
            _like(KERNELS.c.version, wanted.kernel),
            _like(KERNELS.c.source, f"*{wanted.kernel}*"),
        )
        query = query.where(exists().where(KERNELS.c.run == RUNS.c.id, kernel))
    if wanted.case:
        suite, slash, case = wanted.case.rpartition("/")
        named = _like(SCORES.c.case, case)
        if slash:
            named = and_(named, _like(SCORES.c.suite, suite))
        query = query.where(exists().where(SCORES.c.run == RUNS.c.id, named))
    return query.limit(wanted.limit).subquery()


def listed(connection: Connection, wanted: Wanted) -> list[Facts]:
    """Newest first."""
    numbers = _numbers(wanted)
    return _facts(connection, _runs().join(numbers, numbers.c.id == RUNS.c.id))


def kernels(connection: Connection, wanted: Wanted) -> Mapping[str, Sequence[Kernel]]:
    """Identity of a run → its kernels, the baseline's first."""
    by_run: dict[str, list[Kernel]] = {}
    for row in _rows(connection, wanted, KERNELS, Kernel):
        if (kernel := read_row(Kernel, row)) is not None:
            by_run.setdefault(row.identity, []).append(kernel)
    return by_run


def scores(connection: Connection, wanted: Wanted) -> Mapping[str, Sequence[Score]]:
    """Identity of a run → its scores, in the run's order."""
    by_run: dict[str, list[Score]] = {}
    for row in _rows(connection, wanted, SCORES, Score):
        if (score := read_score(row)) is not None:
            by_run.setdefault(row.identity, []).append(score)
    return by_run


def named(connection: Connection, text: str, most: int) -> list[Facts]:
    """Runs that a word means: of that name; else that begin or end so; else that have it in their
    name. ``last`` is the newest."""
    query, name, part = _runs(), RUNS.c.name, _escaped(text)
    if text == "last":
        return _facts(connection, query.limit(1))
    begins, ends = name.like(f"{part}%", escape=_ESCAPE), name.like(f"%{part}", escape=_ESCAPE)
    for way in (name == text, or_(begins, ends), name.like(f"%{part}%", escape=_ESCAPE)):
        if facts := _facts(connection, query.where(way).limit(most)):
            return facts
    return []


def names(connection: Connection, most: int) -> list[str]:
    """The newest runs'."""
    query = select(RUNS.c.name).order_by(RUNS.c.created.desc()).limit(most)
    return [name for name in connection.scalars(query) if isinstance(name, str)]


def parts(connection: Connection, identity: str) -> tuple[int, int]:
    """(the run's number, how many parts its files are in); the run is there."""
    query = (
        select(RUNS.c.id, func.count(PARTS.c.number))
        .outerjoin(PARTS, PARTS.c.run == RUNS.c.id)
        .where(RUNS.c.identity == identity)
        .group_by(RUNS.c.id)
    )
    number, count = connection.execute(query).one()
    return number, count


def part(connection: Connection, number: int, place: int) -> bytes:
    query = select(PARTS.c.content).where(PARTS.c.run == number, PARTS.c.number == place)
    content = connection.execute(query).scalar_one()
    if not isinstance(content, bytes):
        raise ToolError("an archive of a run is none")
    return content


def _runs() -> Select[Any]:
    return select(*(RUNS.c[field.name] for field in fields(Facts))).order_by(*_NEWEST_FIRST)


def _facts(connection: Connection, query: Select[Any]) -> list[Facts]:
    rows = connection.execute(query)
    return [facts for row in rows if (facts := read_facts(row)) is not None]


def _rows(connection: Connection, wanted: Wanted, table: Table, kind: type) -> Sequence[Any]:
    numbers = _numbers(wanted)
    query = (
        select(RUNS.c.identity, *(table.c[field.name] for field in fields(kind)))
        .join(RUNS, RUNS.c.id == table.c.run)
        .join(numbers, numbers.c.id == RUNS.c.id)
        .order_by(table.c.run, table.c.place)
    )
    return connection.execute(query).all()


def _like(column: Any, pattern: str) -> ColumnElement[bool]:
    text = _escaped(pattern.lower()).replace("*", "%").replace("?", "_")
    return func.lower(column).like(text, escape=_ESCAPE)


def _escaped(text: str) -> str:
    for letter in (_ESCAPE, "%", "_"):
        text = text.replace(letter, _ESCAPE + letter)
    return text.replace("\0", "").encode("utf-8", "replace").decode()
