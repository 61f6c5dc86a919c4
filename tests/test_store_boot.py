# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdyno.errors import KdynoError, ToolError
from kdyno.store.boot import BootFlag, BootHost, BootJob, BootRecord, Sample, read_boot
from kdyno.store.folder import Folder


def boot(index: int = 7, block: int = 2, variant: str = "stock", score: float = 2.5) -> BootRecord:
    return BootRecord(
        job=BootJob(index=index, block=block, variant=variant, command=("linux", "mem=1G")),
        host=BootHost(
            status="ok",
            wall_s=3.25,
            before={"steal": 0.0, "governor": "performance", "temperature": None},
            flags=(BootFlag(kind="steal", text="2 % of the time was stolen"),),
        ),
        samples=(
            Sample(suite="unixbench", case="pipe", score=score, reps=((100.0, 4e7),), user_ns=5),
            Sample(suite="unixbench", case="execl", status="error", text="exit status 3"),
        ),
    )


def written(folder: Path, **changed: bytes) -> Path:
    record = boot()
    path = folder / record.folder_name
    path.mkdir()
    names = {"job": "job.json", "host": "host.json", "samples": "samples.jsonl"}
    files = dict(record.files(b"booting\n")) | {names[key]: data for key, data in changed.items()}
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


def read(path: Path) -> BootRecord:
    with Folder.open(path) as folder:
        return read_boot(folder)


def test_a_boot_comes_back_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert path.name == "0007-stock"
    names = sorted(file.name for file in path.iterdir())
    assert names == ["console.log", "host.json", "job.json", "samples.jsonl"]
    assert read(path) == boot()


@pytest.mark.parametrize(
    ("part", "data", "says"),
    [
        ("job", b"{", "EOF"),
        ("job", b"[" * 100_000, "recursion"),
        ("job", b'{"index": -1, "block": 0, "variant": "stock"}', "index"),
        ("job", b'{"index": 7, "block": "2", "variant": "stock"}', "block"),
        ("job", b'{"index": 8, "block": 2, "variant": "stock"}', "belongs to 0008-stock"),
        ("job", b'{"index": 7, "block": 2, "variant": "%s"}' % (b"x" * 300), "200"),
        ("host", b'{"status": "fine"}', "status"),
        ("host", b'{"status": "ok", "wall_s": -1}', "wall_s"),
        ("host", b'{"status": "ok", "wall_s": Infinity}', "wall_s"),
        ("host", b"null", "host.json"),
        ("samples", b'{"suite": "u", "case": "pipe", "score": NaN}\n', "score"),
        ("samples", b'{"suite": "u", "case": "pipe", "score": 0}\n', "score"),
        ("samples", b'{"suite": "u", "case": "pipe", "score": "9"}\n', "score"),
        ("samples", b'{"suite": "u", "case": "pipe", "score": 1e999}\n', "score"),
        ("samples", b'{"suite": "u", "case": "pipe"}\n', "without a score"),
        ("samples", b'{"suite": "u", "case": "pipe", "status": "skip", "score": 1}\n', "with a"),
        ("samples", b'{"suite": "u", "case": "pipe", "score": 1}', "middle of a line"),
        ("samples", b'{"suite": "u", "case": "pipe", "score": 1}\n' * 2, "twice"),
        ("samples", b'{"suite": "u", "case": "p", "score": 1, "reps": [[1]]}\n', "reps"),
        ("samples", b"\n" * 20_000, "lines"),
        ("samples", b"\xff\n", "samples.jsonl"),
    ],
)
def test_damage_is_told_with_its_place(tmp_path: Path, part: str, data: bytes, says: str) -> None:
    path = written(tmp_path, **{part: data})
    with pytest.raises(ToolError) as told:
        read(path)
    assert says in str(told.value)
    assert str(path) in str(told.value)


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"status": "ok"}')
    path = written(tmp_path)
    (path / "host.json").unlink()
    (path / "host.json").symlink_to(secret)
    with pytest.raises(ToolError, match="symbolic link"):
        read(path)
    (path / "host.json").unlink()
    os.mkfifo(path / "host.json")
    with pytest.raises(ToolError, match="not a regular file"):
        read(path)
    (path / "host.json").unlink()
    (path / "host.json").mkdir()
    with pytest.raises(ToolError):
        read(path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    with (path / "samples.jsonl").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(ToolError, match="at most"):
        read(path)


def test_a_kernels_last_words_can_be_stored(tmp_path: Path) -> None:
    host = BootHost(
        status="failed",
        reason="panic",
        console_tail="\ud800\x1b[2J" + "x" * 100_000,
        before={"temperature": float("nan")},
    )
    assert host.before == {"temperature": None}
    assert len(host.console_tail) == 1 << 16
    again = BootHost.model_validate_json(host.model_dump_json())
    assert again == host


def test_a_variants_name_cannot_leave_the_folder() -> None:
    assert boot(variant="../../etc/x y").folder_name == "0007-etc-x-y"
    assert boot(variant="漢字").folder_name == "0007-unnamed"
    assert len(boot(variant="v" * 200).folder_name) == 85


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
keys = st.sampled_from(
    sorted({*BootJob.model_fields, *BootHost.model_fields, *Sample.model_fields})
)
contents = st.binary(max_size=300) | st.dictionaries(keys, json_values, max_size=12).map(
    lambda value: json.dumps(value).encode() + b"\n"
)


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(part=st.sampled_from(["job.json", "host.json", "samples.jsonl"]), data=contents)
def test_no_content_raises_anything_else(tmp_path: Path, part: str, data: bytes) -> None:
    path = tmp_path / boot().folder_name
    if not path.exists():
        written(tmp_path)
    before = (path / part).read_bytes()
    try:
        (path / part).write_bytes(data)
        try:
            record = read(path)
        except KdynoError as error:
            assert str(path) in str(error)
        else:
            assert record.folder_name == path.name
    finally:
        (path / part).write_bytes(before)
