# SPDX-License-Identifier: MIT
"""A small site, the server of its pages in this process, and somebody who asks it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import pytest
from site_runs import small

from kdyno.report.site.build import build_site
from kdyno.report.site.server import SiteServer

Answer = tuple[int, dict[str, str], bytes]
Asked = Callable[..., Answer]


def answer(port: int, path: str, method: str = "GET", host: str = "localhost:1") -> Answer:
    """Status, headers and body from the server on this port."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    response = connection.getresponse()
    result = response.status, dict(response.getheaders()), response.read()
    connection.close()
    return result


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "secret.html").write_text("secret")
    small(tmp_path / "runs")
    build_site(tmp_path / "runs", tmp_path / "site", live=True)
    return tmp_path / "site"


@pytest.fixture
def server(site: Path) -> Iterator[SiteServer]:
    with SiteServer(site, "127.0.0.1", 0) as result:
        thread = threading.Thread(target=result.serve_forever, args=(0.01,))
        thread.start()
        yield result
        result.shutdown()
        thread.join()


@pytest.fixture
def ask(server: SiteServer) -> Asked:
    return partial(answer, server.server_address[1])
