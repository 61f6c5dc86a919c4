# SPDX-License-Identifier: MIT
"""The scripts around fio, httpd and ab, with stand-ins for the three."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from kdyno.paths import data_root

SCRIPTS = data_root() / "guest" / "programs"

AB_TABLE = """Complete requests:      {complete}
Failed requests:        {failed}
Non-2xx responses:      {other}
Requests per second:    7170.69 [#/sec] (mean)
"""


def tool(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def script(
    name: str, folder: Path, *words: str, shell: str = "sh"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shell, str(SCRIPTS / name), *words],
        env={"PATH": f"{folder}:{os.defpath}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
    )


def fio_output(side: str, error: int = 0) -> str:
    idle = {"io_bytes": 0, "runtime": 0, "total_ios": 0, "clat_ns": {"max": 5, "mean": 5}}
    idle |= {"lat_ns": {"min": 1, "max": 0, "mean": 0}}
    bins = {"1000": 96, "2500000000": 3, "11000000000": 1}
    busy = {"io_bytes": 64 << 20, "runtime": 2000, "total_ios": 100}
    busy |= {"clat_ns": {"max": 5, "mean": 5, "bins": bins}}
    busy |= {"lat_ns": {"min": 1, "max": 12e9, "mean": 2.5e6}}
    job = {"jobname": "tio", "error": error, "job options": {"name": "tio"}}
    job |= {"read": idle, "write": idle, side: busy, "usr_cpu": 5.0, "sys_cpu": 7.5}
    # fio's own way of writing JSON: one key a line, a blank before the colon.
    text = json.dumps({"fio version": "fio-3.33", "jobs": [job]}, indent=2)
    return text.replace('":', '" :')


def fake_fio(folder: Path, message: str) -> None:
    (folder / "said").write_text(message)
    tool(folder, "fio", f'echo "$*" >>{folder}/calls\ncat "{folder}/said"')


@pytest.mark.parametrize("phase", ["write", "random_write", "read", "random_read"])
def test_a_phase_of_tiobench(tmp_path: Path, phase: str) -> None:
    side = "write" if "write" in phase else "read"
    log = tmp_path / "calls"
    fake_fio(tmp_path, fio_output(side))
    done = script("tiobench.sh", tmp_path, phase, str(tmp_path), "2", "1", "10")
    assert done.returncode == 0, done.stderr
    figures = dict(line.split(": ") for line in done.stdout.splitlines())
    assert {key: float(value) for key, value in figures.items()} == {
        "mb_per_s": 32.0,
        "cpu_percent": 25.0,
        "mean_latency_ms": 2.5,
        "max_latency_ms": 12000.0,
        "over_2s_percent": 4.0,
        "over_10s_percent": 1.0,
    }
    *before, measured = log.read_text().splitlines()
    assert [("--rw=write" in call) for call in before] == ([] if phase == "write" else [True])
    rw = {"write": "write", "random_write": "randwrite", "read": "read", "random_read": "randread"}
    assert f"--rw={rw[phase]}" in measured.split()
    assert "--numjobs=2" in measured and "--bs=4096" in measured and "--size=1M" in measured
    assert ("--number_ios=5" in measured) == phase.startswith("random")
    assert ("--end_fsync=1" in measured) == (side == "write")
    assert ("--create_on_open=1" in measured) == (phase == "write")
    # The files of an earlier phase are used.
    (tmp_path / "tiobench").mkdir(exist_ok=True)
    for number in (0, 1):
        (tmp_path / "tiobench" / f"file.{number}").write_bytes(bytes(1 << 20))
    log.unlink()
    assert script("tiobench.sh", tmp_path, phase, str(tmp_path), "2", "1", "10").returncode == 0
    assert len(log.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message", "reason"),
    [
        (["read", "{dir}", "2", "900000000", "10"], "{}", "the disk is too small:"),
        (["read", "{dir}/none", "2", "1", "10"], "{}", "no disk:"),
        (["reed", "{dir}", "2", "1", "10"], "{}", "phase reed is none of write"),
        (["read", "{dir}", "2", "1", "1"], "{}", "1 operations are fewer than 2 threads"),
        (["read", "{dir}", "2", "1", "10"], "{}", "fio gave no result"),
        (["read", "{dir}", "2", "1", "10"], fio_output("read", 28), "no result, error 28"),
        (["write", "{dir}", "2", "1", "10"], None, "fio failed: fio: no space left"),
    ],
)
def test_what_tiobench_refuses(
    tmp_path: Path, words: list[str], message: str | None, reason: str
) -> None:
    if message is None:
        tool(tmp_path, "fio", "echo 'fio: no space left'; exit 1")
    else:
        fake_fio(tmp_path, message)
    done = script(
        "tiobench.sh", tmp_path, *(word.replace("{dir}", str(tmp_path)) for word in words)
    )
    assert done.returncode != 0
    assert reason in done.stdout + done.stderr
    assert "mb_per_s" not in done.stdout


FIO_WITH_MOMENTS = """\
echo "$*" >asked
for word; do
    case $word in
    --exec_prerun=*) before=${word#*=} ;;
    --exec_postrun=*) after=${word#*=} ;;
    esac
done
sh -c "$before > xbench.prerun.txt 2>&1" # as fio runs it
echo '"write" : { "bw_bytes" : 5'
sh -c "$after > xbench.postrun.txt 2>&1"
"""


def test_a_disk_item_is_timed_from_where_fio_begins_to_where_it_ends(tmp_path: Path) -> None:
    tool(tmp_path, "fio", FIO_WITH_MOMENTS)
    folder = tmp_path / "disk"
    folder.mkdir()
    done = script("disk.sh", tmp_path, "randwrite", "256k", str(folder), "1048576")
    assert done.returncode == 0, done.stderr
    begin, figure, end = done.stdout.splitlines()
    assert (begin, end) == ("kdyno: timed from here", "kdyno: timed to here")
    assert figure == '"write" : { "bw_bytes" : 5'
    request = (folder / "asked").read_text().split()
    assert {"--rw=randwrite", "--bs=256k", "--io_size=1048576", "--direct=1"} <= set(request)
    assert [path.name for path in folder.iterdir()] == ["asked"]
    tool(tmp_path, "fio", "echo 'fio: no space left' >&2; exit 1")
    failed = script("disk.sh", tmp_path, "write", "4k", str(folder), "4096")
    assert (failed.returncode, failed.stderr) == (1, "fio: no space left\n")


def test_a_make_of_equal_jobs_does_each_once_and_fails_with_make(tmp_path: Path) -> None:
    words = ("make-jobs.sh", tmp_path, str(tmp_path), "3", "5", "10")
    done = script(*words, shell="bash")
    assert done.returncode == 0, done.stderr
    begin, *figures, end = (line.split(": ") for line in done.stdout.splitlines())
    assert [begin, end] == [["kdyno", "timed from here"], ["kdyno", "timed to here"]]
    assert [figure[0] for figure in figures] == ["real_s", "user_s", "sys_s", "cpu_percent"]
    assert not (tmp_path / "make-jobs").exists()
    tool(tmp_path, "make", f'cp "$3/Makefile" {tmp_path}/seen; echo "$*" >{tmp_path}/asked; exit 2')
    failed = script(*words, shell="bash")
    assert failed.returncode == 2
    assert (tmp_path / "asked").read_text().endswith("-j3\n")
    lines = (tmp_path / "seen").read_text().splitlines()
    goals = [line for line in lines if line.startswith("all:")]
    assert goals == [f"all: job{i}" for i in range(1, 6)]
    assert "$$i -lt 10" in lines[-1]


def fake_web(folder: Path, *, complete: int = 1000, failed: int = 0, other: int = 0) -> None:
    tool(
        folder,
        "apache2",
        'log=$(sed -n "s/^ErrorLog //p" "$2")\n'
        'grep -q "^Listen 127.0.0.1:8123$" "$2" || exit 9\n'
        'echo "AH1: resuming normal operations" >"$log"\n'
        "exec sleep 20",
    )
    (folder / "table").write_text(AB_TABLE.format(complete=complete, failed=failed, other=other))
    quantiles = "".join(f"{i},{1 + i / 100:.3f}\n" for i in range(101))
    (folder / "quantiles").write_text("Percentage served,Time in ms\n" + quantiles)
    tool(folder, "ab", f'cp "{folder}/quantiles" "$7"\ncat "{folder}/table"')


def test_the_web_test_gives_rate_and_request_times(tmp_path: Path) -> None:
    fake_web(tmp_path)
    done = script("apachebench.sh", tmp_path, str(tmp_path), "1000", "20", "8123")
    assert done.returncode == 0, done.stderr
    begin, end, *lines = done.stdout.splitlines()
    assert (begin, end) == ("kdyno: timed from here", "kdyno: timed to here")
    figures = {k: float(v) for k, v in (line.split(": ") for line in lines)}
    assert figures["requests_per_s"] == 7170.69
    assert figures["mean_ms"] == pytest.approx(1.5, abs=1e-4)
    assert figures["sd_ms"] == pytest.approx(12**-0.5, rel=1e-3)
    assert (figures["median_ms"], figures["p99_ms"], figures["max_ms"]) == (1.5, 1.99, 2.0)
    assert not (tmp_path / "httpd").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"failed": 1}, "1 of 1000 requests failed"),
        ({"complete": 990}, "10 of 1000 requests failed"),
        ({"other": 1000}, "1000 of 1000 requests failed"),
        (None, "port 8123 is in use"),
    ],
)
def test_what_fails_the_web_test(
    tmp_path: Path, change: dict[str, int] | None, reason: str
) -> None:
    fake_web(tmp_path, **(change or {}))
    if change is None:
        taken = "(98)Address already in use: AH00072: make_sock"
        tool(tmp_path, "apache2", f"echo '{taken}' >&2; exit 1")
    done = script("apachebench.sh", tmp_path, str(tmp_path), "1000", "20", "8123")
    assert done.returncode != 0 and reason in done.stderr
    assert "requests_per_s" not in done.stdout
    assert not (tmp_path / "httpd").exists()
