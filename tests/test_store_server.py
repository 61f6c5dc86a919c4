# SPDX-License-Identifier: MIT
"""A real PostgreSQL server that goes away, pushes that are killed, users who may not, passwords."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import postgres
import psycopg
import pytest
from command_line import Kdyno
from descendants import until_killed
from shared_stores import server
from site_runs import small

from kdyno.errors import ToolError, UsageError
from kdyno.store.database.query import Wanted, writing
from kdyno.store.database.shared import Shared, copy_of, put
from kdyno.store.run import Run

__all__ = ["server"]

pytestmark = pytest.mark.slow
RUN = "from kdyno.cli.main import main; raise SystemExit(main())"
LIMIT_S = 60.0


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return small(tmp_path / "runs")


@pytest.fixture
def shared(server: postgres.Server) -> Iterator[Shared]:
    store = Shared(server.database())
    store.prepare()
    yield store
    store.close()


def name(shared: Shared) -> str:
    return shared.address.partition("@/")[2].partition("?")[0]


def rows(server: postgres.Server, shared: Shared) -> int:
    with server.connect(name(shared)) as connection:
        return len(connection.execute("SELECT 1 FROM runs").fetchall())


@contextmanager
def parts_held(
    server: postgres.Server, shared: Shared
) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Whoever pushes comes as far as the files of a run, and waits; a connection to watch."""
    base = name(shared)
    with server.connect(base) as watcher, server.connect(base) as holder, holder.transaction():
        holder.execute("LOCK TABLE parts IN EXCLUSIVE MODE")
        yield watcher


def pusher(connection: psycopg.Connection[tuple[object, ...]]) -> int:
    """The server's process of whoever waits for a lock."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        for (pid,) in connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database()"
        ):
            return int(str(pid))
    raise AssertionError("nobody waits")


def test_a_killed_push_leaves_nothing(server: postgres.Server, shared: Shared, run: Run) -> None:
    with parts_held(server, shared) as connection:
        line = [sys.executable, "-c", RUN, "push", run.path]
        environment = {**os.environ, "KDYNO_STORE": shared.address}
        with until_killed(line, env=environment) as process:
            pusher(connection)
        assert process.returncode == -signal.SIGKILL
    assert rows(server, shared) == 0
    assert shared.push(run).word == "pushed"
    assert rows(server, shared) == 1


def test_a_server_that_goes_away(server: postgres.Server, shared: Shared, run: Run) -> None:
    with ThreadPoolExecutor(1) as pool, parts_held(server, shared) as connection:
        pushing = pool.submit(shared.push, run)
        connection.execute("SELECT pg_terminate_backend(%s)", [pusher(connection)])
        with pytest.raises(ToolError, match=r"went away: .*a run is put there once") as message:
            pushing.result(LIMIT_S)
        assert f"/{name(shared)}" in str(message.value)
    assert rows(server, shared) == 0
    assert shared.push(run).word == "pushed"


def test_a_server_that_is_not_there(
    server: postgres.Server, shared: Shared, run: Run, kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.push(run)
    monkeypatch.setenv("KDYNO_STORE", shared.address)
    server.stop()
    try:
        output = kdyno("push", run.path)
        assert output.status == 1
        assert "cannot be reached, or went away" in output.err and "Traceback" not in output.err
        output = kdyno("list", "runs")
        assert output.status == 1 and "unset KDYNO_STORE" in output.err
    finally:
        server.start()
    # Its connections are broken, which the next question finds out by itself.
    assert [fact.name for fact in shared.listed(Wanted())] == [run.name]
    assert kdyno("push", run.path).status == 0


def test_two_that_push_at_once(server: postgres.Server, shared: Shared, run: Run) -> None:
    """The second waits for the end of the first, and finds the run there; or puts it there."""
    copy = copy_of(run)
    for ends_well, second in ((False, "pushed"), (True, "there")):
        with ThreadPoolExecutor(1) as pool, server.connect(name(shared)) as watcher:
            watcher.execute("DELETE FROM runs")
            with suppress(KeyboardInterrupt), writing(shared._engine, shared.address) as connection:
                assert put(connection, copy, shared.where).word == "pushed"
                pushing = pool.submit(Shared(shared.address).push, run)
                pusher(watcher)
                if not ends_well:
                    raise KeyboardInterrupt
            assert pushing.result(LIMIT_S).word == second
            assert rows(server, shared) == 1


def test_who_may_only_read(server: postgres.Server, shared: Shared, run: Run) -> None:
    shared.push(run)
    server.do("postgres", "DROP ROLE IF EXISTS reader")
    server.do("postgres", "CREATE USER reader")
    server.do(name(shared), "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    reader = Shared(server.address(name(shared), "reader"))
    assert [fact.name for fact in reader.listed(Wanted())] == [run.name]
    small_later = small(run.path.parent, 1)
    with pytest.raises(UsageError, match=r"this user may not do that .*; nothing of it was kept"):
        reader.push(small_later)
    assert rows(server, shared) == 1


def test_passwords_come_from_libpqs_places(
    server: postgres.Server,
    shared: Shared,
    run: Run,
    kdyno: Kdyno,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = name(shared)
    server.do(base, f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {postgres.LOCKED}")
    server.do(base, f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {postgres.LOCKED}")
    monkeypatch.setenv("KDYNO_STORE", server.address(base, postgres.LOCKED))
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    output = kdyno("push", run.path)
    assert output.status == 1 and "no password supplied" in output.err
    passes = tmp_path / "passes"
    passes.write_text(f"*:*:{base}:{postgres.LOCKED}:{postgres.PASSWORD}\n")
    passes.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passes))
    pushed = kdyno("push", run.path, "--json", "-")
    site = kdyno("report", "--all", "-o", tmp_path / "site")
    assert (pushed.status, site.status) == (0, 0), pushed.err + site.err
    # With a service file the address has not even the user.
    services = tmp_path / "services"
    services.write_text(
        f"[lab]\nhost={server.folder}\ndbname={base}\nuser={postgres.LOCKED}\n"
        f"password={postgres.PASSWORD}\n"
    )
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("KDYNO_STORE", "postgresql:///?service=lab")
    listed = kdyno("list", "runs")
    assert listed.status == 0 and run.name in listed.out
    for text in (output.err, pushed.out, pushed.err, site.out, site.err, listed.out, listed.err):
        assert postgres.PASSWORD not in text
    kept = [*run.path.rglob("*"), *(tmp_path / "site").rglob("*"), *(tmp_path / "cache").rglob("*")]
    assert len(kept) > 70
    for path in kept:
        assert not path.is_file() or postgres.PASSWORD.encode() not in path.read_bytes(), path
