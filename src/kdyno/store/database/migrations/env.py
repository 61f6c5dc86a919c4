# SPDX-License-Identifier: MIT
"""What Alembic runs: always on a connection of ours, within its transaction."""

from __future__ import annotations

from alembic import context

from kdyno.store.database.tables import METADATA, VERSIONS

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=METADATA,
    version_table=VERSIONS,
    # SQLite alters a table by writing it anew.
    render_as_batch=connection.dialect.name == "sqlite",
)
context.run_migrations()
