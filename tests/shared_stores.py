# SPDX-License-Identifier: MIT
"""Stores to push to: SQLite always, a real PostgreSQL among the slow tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import postgres
import pytest

from kdyno.store.database.shared import Shared

KINDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    with postgres.server() as running:
        yield running


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    running: postgres.Server = request.getfixturevalue("server")
    return running.database()


@pytest.fixture
def shared(address: str) -> Iterator[Shared]:
    store = Shared(address)
    yield store
    store.close()
