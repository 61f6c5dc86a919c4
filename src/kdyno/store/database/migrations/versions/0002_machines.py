# SPDX-License-Identifier: MIT
"""The machines of a run: one that was measured on several CPU models is found by each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_BETWEEN = " + "
"""Of several models in ``runs.cpu_model``."""


def upgrade() -> None:
    machines = op.create_table(
        "machines",
        sa.Column("run", _KEY, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        *(
            sa.Column(name, sa.Text, nullable=False, server_default="")
            for name in ("name", "cpu_model")
        ),
        sa.PrimaryKeyConstraint("run", "place", name="pk_machines"),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name="fk_machines_runs", ondelete="CASCADE"),
    )
    op.create_index("ix_machines_cpu_model", "machines", ["cpu_model"])
    runs = sa.table("runs", sa.column("id"), sa.column("cpu_model"))
    recorded = op.get_bind().execute(sa.select(runs.c.id, runs.c.cpu_model)).all()
    # What the nodes of runs from before were called is in their files alone.
    rows = [
        {"run": number, "place": place, "name": model, "cpu_model": model}
        for number, models in recorded
        for place, model in enumerate(filter(None, str(models).split(_BETWEEN)))
    ]
    if rows:
        op.bulk_insert(machines, rows)
