# SPDX-License-Identifier: MIT
"""The rows of a store and their tables, the same on SQLite and PostgreSQL.

``runs``, ``kernels``, ``machines`` and ``scores`` are what lists, filters and histories ask for,
``samples`` are figures for SQL by hand, ``parts`` a run's files, byte for byte.
A change of a table needs a migration: see migrations/."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import sqlalchemy as sa
from pydantic import Field, ValidationError
from sqlalchemy.dialects.postgresql import ARRAY

from kdyno.errors import ToolError, UsageError
from kdyno.reading.checked import adapter
from kdyno.store.comparable import label_of, machine_of
from kdyno.store.manifest import Manifest
from kdyno.store.run import Run
from kdyno.store.samples import Samples, Score
from kdyno.store.verdict import Verdict

HEAD = "0002"
"""The newest migration. Here, too, so that comparing does not load Alembic."""
VERSIONS = "kdyno_version"
"""The table in which Alembic keeps the migration that a database is at."""
MIGRATIONS = Path(__file__).parent / "migrations"
_MOST, _MOST_BYTES = (1 << 31) - 1, (1 << 63) - 1
"""Of what columns hold: a hostile verdict says that it has 10^30 blocks."""
_INDEXED = 200
"""Characters; PostgreSQL refuses to index much more than 2,000 bytes."""
ODD = "its row in the store holds what no kdyno writes"

_Whole = Annotated[int, Field(ge=0)]
_Figure = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True)
class Facts:
    """A row of ``runs``, as the table has it. Text is as it was stored."""

    identity: str
    name: Annotated[str, Field(min_length=1)]
    digest: str
    created: str
    """UTC, ISO 8601."""
    experiment: str = ""
    state: str = "damaged"
    """running, finished, interrupted, failed, or damaged."""
    reason: str = ""
    """Why measuring ended, or what is damaged."""
    question: str = ""
    answer: str = ""
    baseline: str = ""
    kind: str = ""
    emulator: str = ""
    cpu_model: str = ""
    host_arch: str = ""
    cpus: _Figure | None = None
    memory_bytes: _Figure | None = None
    guest_cpus: _Whole | None = None
    guest_memory_bytes: _Whole | None = None
    counts: Mapping[str, _Whole] = field(default_factory=dict)
    """Verdict → effects, without controls and the baseline's copy."""
    judged: bool = False
    boots: _Whole = 0
    damaged: _Whole = 0
    outside: bool = False
    """At least one boot was outside the sandbox."""
    files: _Whole = 0
    size_bytes: _Whole = 0

    @property
    def sentence(self) -> str:
        """The verdict's, or why there is none."""
        return self.answer if self.judged else self.reason


@dataclass(frozen=True)
class Kernel:
    """A row of ``kernels``, the baseline's at place 0."""

    variant: str
    version: str
    """Its release as far as it is known, else ""."""
    source: str
    digest: str


@dataclass(frozen=True)
class Machine:
    """A row of ``machines``: as the verdict calls it. A run of one machine has one row."""

    name: str
    cpu_model: str


@dataclass(frozen=True)
class Series:
    """A row of ``samples``: the score of a case of a variant in each block, in the case's unit."""

    suite: str
    case: str
    variant: str
    blocks: list[int]
    scores: list[float]


# The tables.

METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)
_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""SQLite numbers rows by itself in an INTEGER PRIMARY KEY only."""
_TYPES: dict[Any, Any] = {
    **{str: sa.Text, bool: sa.Boolean, int: sa.Integer, float: sa.Float(53), Mapping: sa.JSON},
    # An array where there are arrays, else JSON.
    list[int]: sa.JSON().with_variant(ARRAY(sa.Integer()), "postgresql"),
    list[float]: sa.JSON().with_variant(ARRAY(sa.Float(53)), "postgresql"),
}


def _of_run() -> sa.Column[Any]:
    key = sa.ForeignKey("runs.id", ondelete="CASCADE")
    return sa.Column("run", _KEY, key, nullable=False, primary_key=True)


def _columns(record: type, **required: dict[str, Any]) -> list[sa.Column[Any]]:
    """One for each field of a row's dataclass; text is "" by default, except for ``required``:
    column → its further options."""
    columns = []
    for name, hint in get_type_hints(record).items():
        kinds = get_args(hint)
        optional = NoneType in kinds
        kind = kinds[0] if optional else hint if hint in _TYPES else get_origin(hint)
        type_ = sa.BigInteger if kind is int and name.endswith("_bytes") else _TYPES[kind]
        options = required.get(name, {"server_default": ""} if kind is str else {})
        columns.append(sa.Column(name, type_, nullable=optional or kind is float, **options))
    return columns


RUNS = sa.Table(
    "runs",
    METADATA,
    sa.Column("id", _KEY, primary_key=True, autoincrement=True),
    *_columns(Facts, identity={"unique": True}, name={"unique": True}, digest={}),
    sa.Index(None, "created"),
    sa.Index(None, "experiment"),
    sa.Index(None, "cpu_model"),
)
"""``identity`` is the same wherever the run is copied to; ``digest`` that of its content. Of an
index both speak of the folder: its name, and a stamp of its files."""

KERNELS = sa.Table(
    "kernels",
    METADATA,
    _of_run(),
    *_columns(Kernel, variant={"primary_key": True}),
    sa.Column("place", sa.Integer, nullable=False),
    sa.Index(None, "version"),
)

MACHINES = sa.Table(
    "machines",
    METADATA,
    _of_run(),
    sa.Column("place", sa.Integer, primary_key=True),
    *_columns(Machine),
    sa.Index(None, "cpu_model"),
)

SCORES = sa.Table(
    "scores",
    METADATA,
    _of_run(),
    sa.Column("place", sa.Integer, primary_key=True),
    *_columns(Score, suite={}, case={}, variant={}),
    sa.Index(None, "case"),
)

SAMPLES = sa.Table(
    "samples",
    METADATA,
    _of_run(),
    *_columns(Series, **{key: {"primary_key": True} for key in ("suite", "case", "variant")}),
)

PARTS = sa.Table(
    "parts",
    METADATA,
    _of_run(),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
"""A run's files: tar, compressed by gzip, some hundred boots each."""


# Versions of them.

_LOCK = 0x6B64796E6F
"""Of PostgreSQL's advisory locks, for those who change tables: "kdyno"."""


def revision(connection: sa.Connection) -> str | None:
    """The migration that the database is at; None where there are no tables of kdyno."""
    if not sa.inspect(connection).has_table(VERSIONS):
        return None
    return connection.scalar(sa.select(sa.column("version_num")).select_from(sa.table(VERSIONS)))


def require(connection: sa.Connection, where: str) -> None:
    """UsageError unless the tables are today's."""
    version = revision(connection)
    if version is None:
        raise UsageError(f"{where} is empty: the first `kdyno push RUN` makes its tables")
    if version > HEAD:
        raise UsageError(
            f"{where} has tables of a later kdyno ({version}, this one knows up to {HEAD}): "
            "it takes that kdyno"
        )
    if version < HEAD:
        raise UsageError(
            f"{where} has tables of an earlier kdyno ({version}, this one's are {HEAD}); "
            "`kdyno push --upgrade` changes them, and then all who use it need this kdyno"
        )


def prepare(connection: sa.Connection, where: str, *, upgrade: bool = False) -> str | None:
    """Makes the tables of an empty database, or ``upgrade``s older ones, within the transaction.

    The version that was there before; UsageError where it is another and ``upgrade`` is not set."""
    version = revision(connection)
    if version is not None and (version >= HEAD or not upgrade):
        require(connection, where)
        return version
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        version = revision(connection)  # somebody may have been quicker
    if version is None:
        if sa.inspect(connection).has_table(RUNS.name):
            raise UsageError(
                f"{where} has a table {RUNS.name!r} that is not kdyno's; give a database of its own"
            )
        create(connection)
    elif version != HEAD:
        from alembic import command  # slow to import, and hardly ever needed
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, HEAD)
    return version


def create(connection: sa.Connection) -> None:
    """Today's tables, in an empty database."""
    METADATA.create_all(connection)
    versions = sa.Table(VERSIONS, sa.MetaData(), sa.Column("version_num", sa.Text, nullable=False))
    versions.create(connection)
    connection.execute(versions.insert(), {"version_num": HEAD})


# From a run to its rows.


def identity_of(manifest: Manifest, experiment_text: str) -> str:
    """The same for a run wherever it is copied to and whatever its folder is called.

    Of what is written once, when a run begins: its time to the microsecond, its seed, its
    experiment. What a resumed run changes is not in it."""
    parts = (manifest.created, str(manifest.seed), manifest.experiment, manifest.baseline)
    text = "\n".join((*parts, experiment_text))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def facts_of(
    manifest: Manifest, verdict: Verdict | None, identity: str, name: str, digest: str
) -> Facts:
    """What is known without reading the boots."""
    guest, host = manifest.machine, manifest.host
    words = ("cpu_model", "host_arch")
    of_host: dict[str, Any] = {key: str(host.get(key) or "")[:_INDEXED] for key in words}
    numbers = {key: host.get(key) for key in ("cpus", "memory_bytes")}
    of_host |= {key: own for key, own in numbers.items() if isinstance(own, float)}
    of_verdict: dict[str, Any] = {}
    if verdict is not None:
        compared = (e for e in verdict.effects if e.variant != verdict.copy_of_baseline)
        counts = Counter(effect.verdict for effect in compared if not effect.control)
        of_verdict = {"counts": counts, "judged": True, "outside": verdict.outside}
        of_verdict |= {"question": verdict.question, "answer": verdict.answer}
    return Facts(
        identity,
        name,
        digest,
        created=manifest.created,
        experiment=manifest.experiment,
        state=manifest.state,
        reason=manifest.stopped,
        baseline=manifest.baseline,
        kind=guest.kind,
        emulator=guest.emulator,
        **of_host,
        guest_cpus=guest.cpus if guest.built else None,
        guest_memory_bytes=guest.memory_bytes if guest.built else None,
        **of_verdict,
    )


def kernels_of(run: Run, manifest: Manifest, verdict: Verdict | None) -> list[Kernel]:
    """The baseline's first."""
    kernels = {}
    for variant in {manifest.baseline: 0, **(verdict.boots if verdict else manifest.images)}:
        image: dict[str, Any] = {}
        with suppress(ToolError):
            image = run.image(variant)
        version = label_of(run, manifest, variant)
        if version == variant:
            version = str(image.get("release") or image.get("version") or "")
        source, digest = str(image.get("source") or ""), manifest.images.get(variant, "")
        name = text(variant)
        kernels[name] = Kernel(name, version[:80], source[:500], digest[:80])
    return list(kernels.values())


def machines_of(run: Run, manifest: Manifest) -> list[Machine]:
    hosts = manifest.machines or {machine_of(run, manifest): manifest.host}
    return [
        Machine(name, str(host.get("cpu_model") or "")[:_INDEXED]) for name, host in hosts.items()
    ]


def scores_of_verdict(verdict: Verdict) -> list[Score]:
    """Which cases a run has, without reading a boot: for a list's filters, and nothing else."""
    nothing = (None, None, None, None, None)
    return [
        Score(*effect.key[:2], "", "", effect.variant, "", effect.blocks, 1.0, *nothing, "")
        for effect in verdict.effects
    ]


def series_in(samples: Samples) -> list[Series]:
    return [
        Series(*key, sorted(blocks), [blocks[at] for at in sorted(blocks)])
        for key, blocks in samples.scores.items()
    ]


def text(value: Any) -> str:
    """No database takes lone surrogates, and PostgreSQL no NUL."""
    return str(value).encode("utf-8", "replace").decode().replace("\0", "")[:4000]


def row_of(record: Any) -> dict[str, Any]:
    """Of a dataclass, with what no database takes made harmless."""

    def harmless(key: str, value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, list):
            return [harmless(key, each) for each in value]
        if isinstance(value, int) and not isinstance(value, bool):
            return max(-_MOST, min(value, _MOST_BYTES if key.endswith("_bytes") else _MOST))
        return value

    return {key: harmless(key, own) for key, own in vars(record).items()}


def rows_of(table: sa.Table, records: Iterable[Any], run: int) -> list[dict[str, Any]]:
    """Those of a run, with its number, and numbered themselves where the table has a place."""
    return [
        {**row, "run": run, "place": place} if "place" in table.c else {**row, "run": run}
        for place, row in enumerate(map(row_of, records))
    ]


T = TypeVar("T")


def read_row(kind: type[T], row: Any) -> T | None:
    """A row of a table as one of these dataclasses; None for one that is odd."""
    with suppress(ValidationError):
        value: T = adapter(kind).validate_python(row._asdict())
        return value
    return None


def read_facts(row: Any) -> Facts | None:
    """A row of ``runs``. One that is odd is a damaged run of that name; None: it has no name."""
    if (facts := read_row(Facts, row)) is not None:
        return facts
    own = [getattr(row, key) for key in ("identity", "name", "created", "experiment")]
    identity, name, created, experiment = (each if isinstance(each, str) else "" for each in own)
    if not (name and isinstance(own[0], str)):
        return None
    return Facts(identity, name, "", created, experiment, reason=ODD)


def read_score(row: Any) -> Score | None:
    """None for one without a figure. An interval or a ratio that says nothing is not there."""
    score = read_row(Score, row)
    if score is None:
        return None

    def odd(low: float | None, high: float | None) -> bool:
        # SQLite may have the text "Infinity".
        return low is None or high is None or not 0 < low <= high < math.inf

    if odd(score.low, score.high):
        score = replace(score, low=None, high=None)
    if odd(score.ratio, score.ratio):
        score = replace(score, ratio=None)
    if score.ratio is None or odd(score.ratio_low, score.ratio_high):
        score = replace(score, ratio_low=None, ratio_high=None)
    return score
