# SPDX-License-Identifier: MIT
"""The site over HTTP, for one's own machine: only its pages, read only, made anew on changes."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.store.folder import Folder

_PAGE = re.compile(r"/(?:(runs|history)/)?([A-Za-z0-9_][A-Za-z0-9._-]{0,120}\.html)", re.ASCII)
"""All that is served. Whatever has another shape, encoded or not, is not there."""
_LIMIT_BYTES = 256 << 20
_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'; default-src 'none'; base-uri 'none'; "
    "form-action 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'",
    # The page's own policy names style and script by digest; both policies apply.
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_UNMADE = b"this report cannot be made now; the terminal of `kdyno serve` shows why\n"
_IDLE_S = 10.0
MOST_CONNECTIONS = 64
"""At once, each with a thread: the oldest has to go where more come."""


class SiteServer(ThreadingHTTPServer):
    """``edition`` is what pages compare to learn of news."""

    daemon_threads = True
    request_queue_size = 128
    # Else a second server on the same port would start without a word on some systems.
    allow_reuse_port = False

    def __init__(self, folder: Path, bind: str, port: int) -> None:
        self.folder = folder
        self.edition = ""
        self.absent: Callable[[str], None] = lambda _page: None
        """Called with the name of a run's page that is not there: it may make it."""
        self.problem = ""
        """Why the last such page could not be made: for the terminal alone, as it names places."""
        self._open: dict[socket.socket, None] = {}
        self._changed = threading.Condition()
        try:
            self.address_family = _family(bind)
            super().__init__((bind, port), _Handler)
        except OSError as error:
            other = port + 1 if 0 < port < 65535 else 8422
            way = f"try another: --port {other}, or --port 0 for any that is free"
            if error.errno == errno.EADDRNOTAVAIL:
                way = "give --bind an address of this machine"
            what = error.strerror or str(error)
            raise UsageError(f"cannot listen on {bind} port {port}: {what}; {way}") from error
        except OverflowError as error:
            raise UsageError(f"--port {port}: a port is a number up to 65535") from error

    @property
    def is_local(self) -> bool:
        return is_loopback(str(self.server_address[0]))

    @property
    def url(self) -> str:
        host, port = str(self.server_address[0]), self.server_address[1]
        name = f"[{host}]" if ":" in host else host
        return f"http://{name}:{port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            while len(self._open) >= MOST_CONNECTIONS:
                # Its thread reads an end and closes it; an idle one would do so by itself, later.
                with suppress(OSError):
                    next(iter(self._open)).shutdown(socket.SHUT_RDWR)
                self._changed.wait(0.1)
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.pop(request, None)
            self._changed.notify()

    def handle_error(self, request: object, client_address: object) -> None:
        """Silence: a browser that goes away in the middle is not news."""


class _Handler(BaseHTTPRequestHandler):
    server: SiteServer
    timeout = _IDLE_S
    protocol_version = "HTTP/1.1"
    server_version = "kdyno"
    sys_version = ""

    def do_GET(self) -> None:
        # A page elsewhere may point a name of its own at this machine (DNS rebinding).
        if self.server.is_local and not _is_own_name(self.headers.get("Host", "")):
            self._send(HTTPStatus.FORBIDDEN, b"not a name of this machine\n")
            return
        path = self.path.partition("?")[0]
        if path == "/edition":
            self._send(HTTPStatus.OK, self.server.edition.encode())
            return
        match = _PAGE.fullmatch("/index.html" if path == "/" else path)
        content = _read(self.server.folder, match[1] or "", match[2]) if match else None
        if content is None and match and match[1] == "runs":
            try:
                self.server.absent(match[2].removesuffix(".html"))
                self.server.problem = ""
            except (KdynoError, OSError) as problem:
                self.server.problem = str(problem)
                self._send(HTTPStatus.SERVICE_UNAVAILABLE, _UNMADE)
                return
            content = _read(self.server.folder, "runs", match[2])
        if content is None:
            self._send(HTTPStatus.NOT_FOUND, b"there is no such page\n")
        else:
            self._send(HTTPStatus.OK, content, "text/html; charset=utf-8")

    do_HEAD = do_GET

    def _send(self, status: HTTPStatus, body: bytes, kind: str = "text/plain") -> None:
        with suppress(OSError):
            self.send_response(status)
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: what others ask for is not text for this terminal."""


def _read(site: Path, folder: str, name: str) -> bytes | None:
    """A regular file of the site, no link followed on the way; None when there is none."""
    with (
        suppress(ToolError),
        Folder.open(site) as top,
        top.folder(folder) if folder else top as inside,
    ):
        return inside.read(name, _LIMIT_BYTES)
    return None


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return address == "localhost"


def _is_own_name(host: str) -> bool:
    """The Host header names this machine: an address of the loopback, or localhost."""
    with suppress(ValueError):
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    return False


def _family(bind: str) -> socket.AddressFamily:
    try:
        addresses = socket.getaddrinfo(bind, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"--bind {bind!r}: is not an address of this machine ({error}); "
            "127.0.0.1 is this machine alone, 0.0.0.0 every network"
        ) from error
    return addresses[0][0]


def watch(
    server: SiteServer,
    build: Callable[[], str],
    every_s: float,
    stop: threading.Event,
    complain: Callable[[str], None],
) -> None:
    """Builds again and again until ``stop``; ``build`` gives the edition. An error comes once."""
    message = ""
    while not stop.wait(every_s):
        before = message
        try:
            server.edition, message = build(), server.problem
        except (KdynoError, OSError) as error:
            message = str(error)
        if message not in ("", before):
            complain(message)
