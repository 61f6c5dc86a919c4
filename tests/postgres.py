# SPDX-License-Identifier: MIT
"""A PostgreSQL server in a folder of its own, that only this test session reaches."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import needed
import psycopg
from psycopg import sql

OWNER, LOCKED, PASSWORD = "kdyno", "locked", "sesame-7"
"""LOCKED is a user who has to give the PASSWORD; OWNER need not."""
_NOBODY = 65534
_HBA = f"local all {LOCKED} scram-sha-256\nlocal all all trust\n"


class Server:
    """Listens on a socket in ``folder``, on no network."""

    def __init__(self, folder: Path) -> None:
        program_path = needed.path_of("postgres")
        assert program_path is not None
        self._bin = Path(program_path).resolve().parent
        self.folder = folder
        self._data = folder / "data"
        self._databases = 0
        folder.chmod(0o755)
        if os.geteuid() == 0:  # it refuses to run as root
            os.chown(folder, _NOBODY, _NOBODY)
        self._do("initdb", "-D", self._data, "-U", OWNER, "-A", "trust", "--no-sync", "-E", "UTF8")
        self._as_owner(["tee", str(self._data / "pg_hba.conf")], _HBA)

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        log = self.folder / "log"
        self._do("pg_ctl", "-D", self._data, "-l", log, "-o", options, "-w", "start")

    def stop(self) -> None:
        """As if the machine had lost its power: nobody is told."""
        self._do("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")

    def database(self) -> str:
        """The address of a new, empty one."""
        self._databases += 1
        name = f"store{self._databases}"
        self.do("postgres", f"CREATE DATABASE {name}")
        return self.address(name)

    def address(self, name: str, user: str = OWNER) -> str:
        return f"postgresql://{user}@/{name}?host={self.folder}"

    def connect(self, database: str) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(dbname=database, host=str(self.folder), user=OWNER, autocommit=True)

    def do(self, database: str, command: str) -> None:
        with self.connect(database) as connection:
            connection.execute(sql.SQL(command))  # type: ignore[arg-type]

    def _do(self, program: str, *words: object) -> None:
        self._as_owner([str(self._bin / program), *map(str, words)])

    def _as_owner(self, command: list[str], text: str = "") -> None:
        if os.geteuid() == 0:
            owner = [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
            command = ["setpriv", *owner, *command]
        # A file, not a pipe: the server keeps what its starter had open.
        with tempfile.TemporaryFile() as message:
            done = subprocess.run(
                command, input=text.encode(), stdout=message, stderr=message, cwd=self.folder
            )
            message.seek(0)
            assert done.returncode == 0, message.read().decode()


@contextmanager
def server() -> Iterator[Server]:
    """Ended and removed afterwards, whatever a test did to it."""
    needed.need("postgres", "setpriv")
    # Not pytest's folder: the path of a socket may have 107 letters.
    with tempfile.TemporaryDirectory(prefix="kdyno-pg-", ignore_cleanup_errors=True) as folder:
        running = Server(Path(folder))
        try:
            running.start()
            running.do("postgres", f"CREATE USER {LOCKED} PASSWORD '{PASSWORD}'")
            yield running
        finally:
            running.stop()
