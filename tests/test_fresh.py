# SPDX-License-Identifier: MIT
"""`make fresh` without making anything: what it takes from the machine and how it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import fresh
from benchmarks.fresh import Time
from kdyno.errors import ToolError
from kdyno.kernels.sources.debian import Entry

OWN = [
    Entry("http://mirror.example/debian", "trixie"),
    Entry("http://mirror.example/debian", "trixie-updates"),
    Entry("http://other.example/apt", "nodistro"),
    Entry("http://mirror.example/security", "trixie-security"),
]


def test_the_mirror_is_the_machines_own_and_the_release_is_12() -> None:
    assert fresh.sources(OWN, "trixie") == [
        "deb http://mirror.example/debian bookworm main",
        "deb http://mirror.example/debian bookworm-updates main",
        "deb http://mirror.example/security bookworm-security main",
    ]
    with pytest.raises(ToolError, match="no Debian archive"):
        fresh.sources(OWN[2:3], "trixie")


def test_how_the_machine_reaches_the_world_is_carried_and_nothing_else() -> None:
    carried = {"PIP_CERT": "/x.pem", "UV_INDEX_URL": "u", "https_proxy": "p", "NO_PROXY": "l"}
    carried |= {"SSL_CERT_FILE": "/c", "GOPROXY": "g", "REQUESTS_CA_BUNDLE": "/c"}
    others = {"HOME": "/root", "PATH": "/bin", "KDYNO_CACHE": "/c", "GOROOT": "x"}
    others |= {"UV_CACHE_DIR": "/c", "PIP_CACHE_DIR": "/c"}
    assert fresh.environment({**carried, **others}) == carried


def test_files_that_variables_name_are_carried(tmp_path: Path) -> None:
    file, folder = tmp_path / "ca.pem", tmp_path / "wheels"
    file.write_text("certificate")
    folder.mkdir()
    (folder / "a.whl").write_text("wheel")
    values = {"PIP_CERT": str(file), "PIP_FIND_LINKS": f"{folder} https://x/", "UV_X": "/no/such"}
    assert fresh.named_files(values) == [file, folder]
    fresh.carry(tmp_path / "into", [file, folder, Path("/no/such")])
    assert (tmp_path / "into" / file.relative_to("/")).read_text() == "certificate"
    assert (tmp_path / "into" / folder.relative_to("/") / "a.whl").read_text() == "wheel"
    # Of apt's settings its proxies are.
    dump = (
        'Acquire "";\nAcquire::http "";\nAcquire::http::Proxy "http://p.example:3128";\n'
        'Acquire::Retries "3";\nAcquire::Languages "en";\nAPT::Architecture "amd64";\n'
    )
    expected = 'Acquire::http::Proxy "http://p.example:3128";\nAcquire::Retries "3";\n'
    assert fresh.apt_options(dump) == expected


def test_it_is_asked_for_a_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KDYNO_FRESH_CACHE", "/kernels")
    whole = fresh.parsed([])
    assert (whole.targets, whole.people) == (["demo", "test"], ["root", "user"])
    assert whole.cache == Path("/kernels")
    part = fresh.parsed(["--as", "user", "check"])
    assert (part.targets, part.people) == (["check"], ["user"])
    with pytest.raises(SystemExit):
        fresh.parsed(["chekc"])
    assert "invalid choice: 'chekc'" in capsys.readouterr().err


def test_the_table_of_times() -> None:
    times = [Time("root", "demo", 0, 433, 5120), Time("user", "test", 2, 61, 900)]
    assert fresh.table(times).splitlines()[2:] == [
        "| root | `demo` | 7 min 13 s | 5.1 GB | ok |",
        "| user | `test` | 1 min 1 s | 0.9 GB | status 2 |",
    ]
