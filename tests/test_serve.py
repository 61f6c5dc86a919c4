# SPDX-License-Identifier: MIT
"""kdyno serve: this machine's own pages and nothing else, whatever is asked for."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path

import pytest
from command_line import FASTER, Kdyno, stored, verdict
from serving import Asked, ask, server, site
from site_runs import small
from test_docs_examples import examples

from kdyno.errors import ToolError, UsageError
from kdyno.report.site.build import build_site
from kdyno.report.site.server import SiteServer, is_loopback, watch

__all__ = ["ask", "server", "site"]


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


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.1.1.1", "evil.example", "")))


def test_what_changes_gets_a_new_edition(server: SiteServer, ask: Asked, site: Path) -> None:
    runs, stop, message = site.parent / "runs", threading.Event(), []
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
    watch(server, build, 0.0, stop, message.append)
    assert ask("/edition")[2].decode() == server.edition != first
    assert message == ["no space left"]
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
    output = kdyno("serve", "--port", port, "--runs", runs)
    assert output.status == 2 and f"port {port}: Address already in use" in output.err
    assert "--port" in output.err and "Traceback" not in output.err
    for words, each in (
        (("--bind", "no.such.host.invalid"), "--bind 'no.such.host.invalid'"),
        (("--bind", "203.0.113.9", "--port", 0), "cannot listen on 203.0.113.9"),
    ):
        refused = kdyno("serve", "--runs", runs, *words)
        assert refused.status == 2 and each in refused.err
    assert "no such folder" in kdyno("serve", "--runs", site / "nowhere").err
    assert kdyno("serve", "--port", 70000).status == 2


def test_a_cache_that_cannot_be_written_is_told_with_the_way_out(
    kdyno: Kdyno, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")  # as much in the way as a closed folder, for root too
    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path / "file"))
    output = kdyno("serve", "--port", 0, "--runs", site.parent / "runs")
    assert output.status in (1, 2) and "KDYNO_CACHE names another cache folder" in output.err


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
        *(pytest.param(example, marks=pytest.mark.slow) for example in examples("serve")),
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
        message = process.stderr.readline()
        if "Address already in use" in message:
            pytest.skip(f"{line}: its port is taken on this machine")
        match = re.match(r"http://127\.0\.0\.1:(\d+)/", message)
        assert match, message
        connection = HTTPConnection("127.0.0.1", int(match[1]), timeout=10)
        connection.request("GET", f"/runs/{run.name}.html")
        assert b"Is mine faster?" in connection.getresponse().read()
        connection.close()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert (process.returncode, rest) == (0, "ended\n")
