# SPDX-License-Identifier: MIT
"""Runs, their kernels, scores, samples and files."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NUMBERS = sa.JSON().with_variant(ARRAY(sa.Integer()), "postgresql")
_FIGURES = sa.JSON().with_variant(ARRAY(sa.Float(53)), "postgresql")


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False, server_default="") for name in names]


def _figures(*names: str) -> list[sa.Column[float]]:
    return [sa.Column(name, sa.Float(53)) for name in names]


def _of_run(table: str, *columns: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.PrimaryKeyConstraint("run", *columns, name=f"pk_{table}"),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=f"fk_{table}_runs", ondelete="CASCADE"),
    ]


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("id", _KEY, autoincrement=True, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        *_texts("created", "experiment", "state", "reason", "question", "answer", "baseline"),
        *_texts("kind", "emulator", "cpu_model", "host_arch"),
        *_figures("cpus", "memory_bytes"),
        sa.Column("guest_cpus", sa.Integer),
        sa.Column("guest_memory_bytes", sa.BigInteger),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.Column("judged", sa.Boolean, nullable=False),
        sa.Column("boots", sa.Integer, nullable=False),
        sa.Column("damaged", sa.Integer, nullable=False),
        sa.Column("outside", sa.Boolean, nullable=False),
        sa.Column("files", sa.Integer, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("identity", name="uq_runs_identity"),
        sa.UniqueConstraint("name", name="uq_runs_name"),
    )
    for column in ("created", "experiment", "cpu_model"):
        op.create_index(f"ix_runs_{column}", "runs", [column])
    op.create_table(
        "kernels",
        sa.Column("run", _KEY, nullable=False),
        sa.Column("variant", sa.Text, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        *_texts("version", "source", "digest"),
        *_of_run("kernels", "variant"),
    )
    op.create_index("ix_kernels_version", "kernels", ["version"])
    op.create_table(
        "scores",
        sa.Column("run", _KEY, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("suite", "case", "variant")),
        *_texts("unit", "better", "work"),
        sa.Column("boots", sa.Integer, nullable=False),
        *_figures("value", "low", "high", "ratio", "ratio_low", "ratio_high"),
        *_texts("verdict"),
        *_of_run("scores", "place"),
    )
    op.create_index("ix_scores_case", "scores", ["case"])
    op.create_table(
        "samples",
        sa.Column("run", _KEY, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("suite", "case", "variant")),
        sa.Column("blocks", _NUMBERS, nullable=False),
        sa.Column("scores", _FIGURES, nullable=False),
        *_of_run("samples", "suite", "case", "variant"),
    )
    op.create_table(
        "parts",
        sa.Column("run", _KEY, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        *_of_run("parts", "number"),
    )


def downgrade() -> None:
    for table in ("parts", "samples", "scores", "kernels", "runs"):
        op.drop_table(table)
