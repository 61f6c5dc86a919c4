# SPDX-License-Identifier: MIT
"""Where a shared store is: KDYNO_STORE, checked, and shown without what is secret.

Nothing heavy is imported here: whether there is a store is asked by every verb."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from kdyno.errors import UsageError

VARIABLE = "KDYNO_STORE"
_KINDS = ("postgresql", "sqlite")
_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_WAY_OUT = (
    "passwords come from libpq's own places: ~/.pgpass (or PGPASSFILE), a service file, PGPASSWORD"
)
_SHAPE = "postgresql://[USER@]HOST[:PORT]/DATABASE, postgresql:///?service=NAME or sqlite:///FILE"
_IN_TEXT = re.compile(r"(?<=://)[^/@\s]*:[^/\s]*@")
_NAMED = re.compile(rf"(?i)\b({'|'.join(_SECRETS)})=('[^']*'|[^\s&]*)")


def configured() -> str | None:
    """The shared store that the environment names, checked; None where it names none."""
    text = os.environ.get(VARIABLE, "").strip()
    return checked(text) if text else None


def checked(text: str) -> str:
    """The address as it is. UsageError, which never quotes a password, for anything else."""
    try:
        parts = urlsplit(text)
        password, _port = parts.password, parts.port
        options = dict(
            parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        )
    except ValueError:
        raise UsageError(f"{VARIABLE}: is not an address; give {_SHAPE}") from None
    if password is not None or any(name.lower() in _SECRETS for name in options):
        raise UsageError(f"{VARIABLE}: {masked(text)} holds a password; take it out: {_WAY_OUT}")
    if parts.scheme not in _KINDS or (parts.scheme == "sqlite" and not _file(text)):
        raise UsageError(f"{VARIABLE}: {masked(text)}: give {_SHAPE}")
    return text


def masked(text: str) -> str:
    """The text with *** where an address in it has a password."""
    text = _NAMED.sub(lambda match: f"{match[1]}=***", text)
    return _IN_TEXT.sub(lambda match: f"{match[0].partition(':')[0]}:***@", text)


def location(address: str) -> str:
    """For people and pages: host and database, without user and options."""
    parts = urlsplit(address)
    if parts.scheme == "sqlite":
        return f"sqlite:///{_file(address)}"
    options = dict(parse_qsl(parts.query))
    if "service" in options:
        return f"postgresql service {options['service']}"
    host = parts.netloc.rpartition("@")[2]
    there = f" ({options['host']})" if not host and "host" in options else ""
    return f"postgresql://{host}{parts.path}{there}"


def sqlite_file(address: str) -> Path | None:
    """Of an address of SQLite."""
    return Path(_file(address)) if address.startswith("sqlite:") else None


def _file(address: str) -> str:
    """sqlite:///relative or sqlite:////absolute, as SQLAlchemy has it."""
    rest = address.removeprefix("sqlite:///")
    return "" if rest == address else unquote(rest.partition("?")[0])
