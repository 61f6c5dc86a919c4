# SPDX-License-Identifier: MIT
"""kdyno serve: this machine's own pages and nothing else, whatever is asked for."""

from __future__ import annotations

import re
import resource
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from command_line import FASTER, Kdyno, kdyno, stored, verdict
from site_runs import at_once, small
from test_docs_examples import examples

from kdyno.errors import ToolError, UsageError
from kdyno.report.site.build import build_site
from kdyno.report.site.server import MOST_CONNECTIONS, SiteServer, is_loopback, watch

__all__ = ["kdyno"]

Asked = Callable[..., tuple[int, dict[str, str], bytes]]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    at_once(monkeypatch)
    (tmp_path / "secret.html").write_text("secret")
    small(tmp_path / "runs")
    build_site(tmp_path / "runs", tmp_path / "site", live=True)
    return tmp_path / "site"


@pytest.fixture
def server(site: Path) -> Iterator[SiteServer]:
    with SiteServer(site, "127.0.0.1", 0) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def ask(server: SiteServer) -> Asked:
    def go(
        path: str, method: str = "GET", host: str | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host if host is not None else "localhost:1")
        connection.endheaders()
        said = connection.getresponse()
        found = said.status, dict(said.getheaders()), said.read()
        connection.close()
        return found

    return go


def raw(server: SiteServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=10) as line:
        line.sendall(request)
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(65536), b""))


def test_pages_are_served_as_they_are(ask: Asked, site: Path) -> None:
    for path in site.rglob("*.html"):
        status, headers, body = ask(f"/{path.relative_to(site)}")
        assert status == 200 and body == path.read_bytes()
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert ask("/")[2] == (site / "index.html").read_bytes()
    assert ask("/?x=1")[0] == 200
    status, headers, body = ask("/index.html", "HEAD")
    assert status == 200 and body == b"" and int(headers["Content-Length"]) > 1000


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


@pytest.mark.parametrize("path", HOSTILE_PATHS, ids=lambda it: it[:30])
def test_nothing_else_is_served(ask: Asked, site: Path, path: str) -> None:
    import os

    (site / "link.html").symlink_to(site.parent / "secret.html")
    (site / "runs" / "link.html").symlink_to(site.parent / "secret.html")
    (site / "out").symlink_to(site.parent)
    (site / "folder.html").mkdir()
    os.mkfifo(site / "pipe.html")
    status, _headers, body = ask(path)
    assert status == 404 and b"secret" not in body and b"root:" not in body


def test_a_linked_folder_of_pages_is_not_followed(ask: Asked, site: Path, tmp_path: Path) -> None:
    (site / "runs").rename(tmp_path / "elsewhere")
    (site / "runs").symlink_to(tmp_path / "elsewhere")
    (page,) = (tmp_path / "elsewhere").glob("*.html")
    assert ask(f"/runs/{page.name}")[0] == 404


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
    said = raw(server, request_)
    assert b" 200 " not in said.split(b"\r\n")[0] and b"secret" not in said
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


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.1.1.1", "evil.example", "")))


def test_what_changes_gets_a_new_edition(server: SiteServer, ask: Asked, site: Path) -> None:
    runs, stop, said = site.parent / "runs", threading.Event(), []
    built = iter([0, 1, 2, 2, 3])

    def build() -> str:
        step = next(built)
        if step == 1:
            small(runs, 1)
        if step == 2:
            raise ToolError("no space left")
        if step == 3:
            stop.set()
        return build_site(runs, site, live=True).edition

    first = build()
    server.edition = first
    assert ask("/edition")[2].decode() == first
    watch(server, build, 0.0, stop, said.append)
    assert ask("/edition")[2].decode() == server.edition != first
    assert said == ["no space left"]
    assert len(re.findall(rb'href="runs/', ask("/")[2])) == 2


def test_live_pages_ask_and_others_do_not(site: Path, tmp_path: Path) -> None:
    text = (site / "index.html").read_text()
    assert "connect-src 'self'" in text and 'fetch("/edition"' in text
    build_site(tmp_path / "runs", tmp_path / "still")
    for path in (tmp_path / "still").rglob("*.html"):
        assert "fetch(" not in path.read_text() and "connect-src" not in path.read_text()


def test_a_port_in_use_is_told_with_the_way_out(
    server: SiteServer, kdyno: Kdyno, site: Path
) -> None:
    port = server.server_address[1]
    runs = site.parent / "runs"
    said = kdyno("serve", "--port", port, "--runs", runs)
    assert said.status == 2 and f"port {port}: Address already in use" in said.err
    assert "--port" in said.err and "Traceback" not in said.err
    for words, told in (
        (("--bind", "no.such.host.invalid"), "--bind 'no.such.host.invalid'"),
        (("--bind", "203.0.113.9", "--port", 0), "cannot listen on 203.0.113.9"),
    ):
        refused = kdyno("serve", "--runs", runs, *words)
        assert refused.status == 2 and told in refused.err
    assert "no such folder" in kdyno("serve", "--runs", site / "nowhere").err
    assert kdyno("serve", "--port", 70000).status == 2


def test_a_cache_that_cannot_be_written_is_told_with_the_way_out(
    kdyno: Kdyno, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")  # as much in the way as a closed folder, for root too
    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path / "file"))
    said = kdyno("serve", "--port", 0, "--runs", site.parent / "runs")
    assert said.status in (1, 2) and "KDYNO_CACHE names another cache folder" in said.err


def test_a_port_beyond_the_last(site: Path) -> None:
    with (
        pytest.raises(UsageError, match="a port is a number up to 65535"),
        SiteServer(site, "127.0.0.1", 65536),
    ):
        pass


@pytest.mark.parametrize(
    "line",
    [
        "kdyno serve --port 0",
        *(pytest.param(it, marks=pytest.mark.slow) for it in examples("serve")),
    ],
)
def test_the_command_serves_until_it_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    run = stored(tmp_path / "runs", verdict(FASTER))
    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path / "cache"))
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from kdyno.cli.main import main; raise SystemExit(main())"
    )
    command = [*shlex.split(line)[1:], "--runs", str(tmp_path / "runs")]
    with subprocess.Popen(
        [sys.executable, "-c", code, *command], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        if "Address already in use" in told:
            pytest.skip(f"{line}: its port is taken on this machine")
        found = re.match(r"http://127\.0\.0\.1:(\d+)/", told)
        assert found, told
        connection = HTTPConnection("127.0.0.1", int(found[1]), timeout=10)
        connection.request("GET", f"/runs/{run.name}.html")
        assert b"Is mine faster?" in connection.getresponse().read()
        connection.close()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert (process.returncode, rest) == (0, "ended\n")
