# SPDX-License-Identifier: MIT
"""Who asks `kdyno serve` for what is none of its pages, under other names, or without an end."""

from __future__ import annotations

import os
import resource
import socket
import threading
from pathlib import Path

import pytest
from serving import Asked, ask, server, site

from kdyno.report.site.server import MOST_CONNECTIONS, SiteServer

__all__ = ["ask", "server", "site"]


def raw(server: SiteServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=10) as line:
        line.sendall(request)
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(65536), b""))


HOSTILE_PATHS = (
    *("/../secret.html", "/runs/../../secret.html", "/%2e%2e/secret.html", "//secret.html"),
    *("/runs/..%2f..%2fsecret.html", "/..%5csecret.html", "/runs/%2e%2e%2f%2e%2e%2fsecret.html"),
    *(
        "/.kdyno-site",
        "/.data/",
        "/.lock",
        "/runs/",
        "/runs",
        "/history",
        "/link.html",
        "/out/x.html",
    ),
    *("/runs/link.html", "/index.html%00", "/index.html/", "/runs/./index.html", "/INDEX.HTML"),
    *(
        "/etc/passwd",
        "file:///etc/passwd",
        "http://localhost/etc/passwd",
        "/pipe.html",
        "*",
        "/folder.html",
    ),
    *("/" + "a" * 5000 + ".html", "/%ff.html", "/edition/", "/index.html;x", "/~root.html"),
)


@pytest.mark.slow
@pytest.mark.parametrize("path", HOSTILE_PATHS, ids=lambda value: value[:30])
def test_nothing_else_is_served(ask: Asked, site: Path, path: str) -> None:
    (site / "link.html").symlink_to(site.parent / "secret.html")
    (site / "runs" / "link.html").symlink_to(site.parent / "secret.html")
    (site / "out").symlink_to(site.parent)
    (site / "folder.html").mkdir()
    os.mkfifo(site / "pipe.html")
    status, _headers, body = ask(path)
    assert status == 404 and b"secret" not in body and b"root:" not in body


@pytest.mark.slow
def test_a_linked_folder_of_pages_is_not_followed(ask: Asked, site: Path, tmp_path: Path) -> None:
    (site / "runs").rename(tmp_path / "elsewhere")
    (site / "runs").symlink_to(tmp_path / "elsewhere")
    (page,) = (tmp_path / "elsewhere").glob("*.html")
    assert ask(f"/runs/{page.name}")[0] == 404


@pytest.mark.slow
@pytest.mark.parametrize(
    "request_",
    [
        b"GET /../secret.html HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"GET /\0/../secret.html HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /secret.html\r\n",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
        b"GET / HTTP/1.1\r\nHost: [\r\n\r\n",
        b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\n\r\n",
        b"",
    ],
)
def test_broken_requests_do_no_harm(server: SiteServer, ask: Asked, request_: bytes) -> None:
    message = raw(server, request_)
    assert b" 200 " not in message.split(b"\r\n")[0] and b"secret" not in message
    assert ask("/")[0] == 200


def test_other_sites_cannot_point_their_name_here(ask: Asked) -> None:
    for host in ("evil.example", "evil.example:8421", "localhost.evil.example", "", "10.0.0.1"):
        assert ask("/", host=host)[0] == 403
    for host in ("localhost", "127.0.0.1:8421", "[::1]:80", "LOCALHOST:1"):
        assert ask("/", host=host)[0] == 200


@pytest.mark.slow
def test_a_thousand_idle_connections_keep_nobody_out(server: SiteServer, ask: Asked) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    before, idle = threading.active_count(), []
    try:
        for _ in range(1000):
            idle.append(socket.create_connection(server.server_address[:2], timeout=10))
        assert ask("/")[0] == 200
        assert threading.active_count() <= before + MOST_CONNECTIONS + 1
        assert idle[0].recv(1) == b""  # the oldest had to go
    finally:
        for line in idle:
            line.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert ask("/")[0] == 200
