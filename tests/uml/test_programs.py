# SPDX-License-Identifier: MIT
"""Existing programs as suites, in real guests and on the host; what they leave behind."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import EXPERIMENT, KDYNO, kdyno, uml_processes
from descendants import until, until_killed
from needed import need

from kdyno.measure.builder import Built
from kdyno.paths import cache_root
from kdyno.store.boot import BootRecord, Sample
from kdyno.store.run import list_runs
from kdyno.store.verdict import Verdict

pytestmark = pytest.mark.uml

KERNEL = EXPERIMENT.read_text().split("[[suite]]")[0]
QUICK = ("--quick", "--max-boots", "1")


def disks(owner: int | None = None) -> list[Path]:
    """Files on the disk of the boots of ``owner``, or what kdyno processes that are gone left.

    Those of others that live, from another checkout for example, are none of ours.
    """
    files = []
    for file in (cache_root() / "disks").glob("kdyno-boot-*/in/*"):
        with suppress(OSError, IndexError):  # others' are made and removed meanwhile
            files.append((file, (file.parents[1] / ".held").read_text().split()[0]))
    if owner is not None:
        return [file for file, pid in files if pid == str(owner)]
    return [file for file, pid in files if not Path(f"/proc/{pid}").exists()]


def measured(tmp_path: Path, text: str, *options: str) -> dict[str, Sample]:
    """One boot of the stock kernel: case → its sample."""
    file = tmp_path / "programs.toml"
    file.write_text(KERNEL + text)
    kdyno("run", file, *QUICK, *options, runs=tmp_path / "runs")
    (run,) = list_runs(tmp_path / "runs")
    boots = [boot for boot in run.boots() if isinstance(boot, BootRecord)]
    assert all(boot.ok for boot in boots), [boot.host.text for boot in boots]
    (stock,) = [boot for boot in boots if boot.variant == "stock"]
    return {f"{sample.suite}/{sample.case}": sample for sample in stock.samples}


def suites(*names: str) -> str:
    return "".join(f'[[suite]]\nname = "{name}"\n' for name in names)


def test_tiobench_and_fio_on_a_disk_of_their_own(built: Built, tmp_path: Path) -> None:
    need("fio", "mkfs.ext4")
    samples = measured(tmp_path, suites("tiobench", "fio"))
    assert len(samples) == 9
    assert {value.status for value in samples.values()} == {"ok"}, samples
    phases = [samples[f"tiobench/{name}"].extra for name in ("write", "read", "random_read")]
    for extra in phases:
        mean, most = extra["mean_latency_ms"], extra["max_latency_ms"]
        assert isinstance(mean, float) and isinstance(most, float) and 0 < mean <= most
        assert 0.0 <= float(str(extra["over_10s_percent"])) <= 100.0
    assert disks() == []


def test_web_server_and_client_in_one_guest(built: Built, tmp_path: Path) -> None:
    need("apache2", "ab")
    samples = measured(tmp_path, suites("apachebench", "hackbench"))
    page = samples["apachebench/default-page"]
    assert page.status == "ok" and page.score is not None and page.score > 0, page
    assert {value.interleave for value in samples.values()} == {"frozen"}
    assert {requests for requests, _ in page.reps} == {1000}
    assert float(str(page.extra["stdout"]).partition("requests_per_s: ")[2].split()[0]) > 0
    extra = {key: value for key, value in page.extra.items() if isinstance(value, float)}
    assert 0 < extra["median_ms"] <= extra["p90_ms"] <= extra["p99_ms"] <= extra["max_ms"]
    assert extra["sd_ms"] > 0


def test_a_disk_takes_turns_where_nothing_waits_for_the_host(built: Built, tmp_path: Path) -> None:
    need("fio", "mkfs.ext4")
    samples = measured(tmp_path, suites("xbench"), "--case", "disk.random.*")
    assert {value.status for value in samples.values()} == {"ok"}, samples
    assert {value.interleave for value in samples.values()} == {"frozen"}
    rates = {name.rpartition(".")[2]: value.score or 0 for name, value in samples.items()}
    assert len(rates) == 4 and min(rates.values()) > 0
    for name, sample in samples.items():  # the time of its work alone, which is fixed
        assert {done for done, _ in sample.reps} == {(16 if name.endswith("_4k") else 256) << 20}
    assert disks() == []


def test_a_kernel_is_compiled_by_the_kernel_under_test(built: Built, tmp_path: Path) -> None:
    need("bc", "flex", "bison")
    samples = measured(tmp_path, suites("kernel-compile"), "--case", "lib")
    sample = samples["kernel-compile/lib"]
    assert sample.status == "ok" and sample.score is not None, sample
    assert float(str(sample.extra["stdout"]).partition("real_s: ")[2].split()[0]) > 0
    assert sample.interleave == "frozen"
    objects, runnable = sample.extra["objects"], sample.extra["mean_runnable"]
    assert isinstance(objects, float) and objects >= 5
    assert isinstance(runnable, float) and 0 < runnable < 20
    looks = str(sample.extra["load"]).split()
    assert len(looks) > 3 and all(len(look.split(":")) == 3 for look in looks)
    cpu = sample.extra["cpu_percent"]
    assert isinstance(cpu, float) and cpu > 0


def test_programs_without_a_figure_are_errors_of_their_case(built: Built, tmp_path: Path) -> None:
    bad = {
        "nothing": "true",
        "nan": "echo Time: nan",
        "negative": "echo Time: -3",
        "text": "echo Time: soon",
        "twice": "echo Time: 1; echo Time: 2",
        "dies": "echo Time: 1; kill -9 $$",
        "good": "echo Time: 1.5",
    }
    text = "".join(
        f'[[suite]]\nname = "run"\ncases = ["{name}"]\ncommand = ["sh", "-c", "{command}"]\n'
        'figure = "Time: (.*)"\nunit = "s"\nbetter = "lower"\n'
        for name, command in bad.items()
    )
    samples = measured(tmp_path, text)
    reasons = {name.removeprefix("run/"): sample.text for name, sample in samples.items()}
    assert "no figure" in reasons["nothing"] and "printed nothing" in reasons["nothing"]
    assert "the figure is nan" in reasons["nan"]
    assert "the figure is negative" in reasons["negative"]
    assert "not a number but 'soon'" in reasons["text"]
    assert "2 figures" in reasons["twice"]
    assert "signal 9" in reasons["dies"]
    assert samples["run/good"].score == 1.5


def test_a_disk_too_small_is_an_error_of_the_case(built: Built, tmp_path: Path) -> None:
    need("fio", "mkfs.ext4")
    text = suites("tiobench") + "[factor.mb]\nsmall = { set = { mb = 4 } }\n"
    text += "large = { set = { mb = 500 } }\n"
    samples = measured(tmp_path, text, "--case", "write@*")
    assert samples["tiobench/write@small"].status == "ok"
    assert samples["tiobench/write@large"].status == "error"
    assert "the disk is too small" in samples["tiobench/write@large"].text


def test_a_kdyno_that_is_killed_leaves_no_disk_and_no_guest(built: Built, tmp_path: Path) -> None:
    need("fio", "mkfs.ext4")
    suite = tmp_path / "tiobench.toml"
    suite.write_text(KERNEL + suites("tiobench"))
    line = [*KDYNO, "run", str(suite), "--max-boots", "4"]
    with until_killed(line, env={**os.environ, "KDYNO_RUNS": str(tmp_path)}) as process:
        until(lambda: list(tmp_path.glob("[!.]*/boots/0000*")), process)
        until(uml_processes, process)
        while True:
            until(lambda: not disks(process.pid), process)  # the guest has mounted it
            # The next boot may be making its own by now: held fast, it makes none.
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if not disks(process.pid):
                break
            process.send_signal(signal.SIGCONT)
    # The kernel takes down the sandbox of a parent that is gone.
    until(lambda: not uml_processes())
    assert disks() == []


def test_the_same_suites_on_the_host(tmp_path: Path) -> None:
    need("hackbench", "fio", "apache2", "ab")
    file = tmp_path / "host.toml"
    names = suites("hackbench", "tiobench", "apachebench", "unixbench")
    file.write_text(f'name = "own"\n[machine]\nkind = "host"\n{names}')
    chosen = ("--case", "hackbench/*", "--case", "tiobench/*", "--case", "apachebench/*")
    done = kdyno(
        *("run", file, "--quick", "--max-boots", "2", *chosen, "--case", "pipe", "--json", "-"),
        runs=tmp_path / "runs",
    )
    verdict = Verdict.from_json(done.stdout)
    assert len(verdict.values) == 9
    assert all(value.value is not None for value in verdict.values), verdict.values
    assert "not-rebooted" in {flag.kind for flag in verdict.flags}
    (run,) = list_runs(tmp_path / "runs")
    image = json.loads((run.path / "images" / "running.json").read_text())
    assert image["release"] == os.uname().release
    assert disks() == []


def test_a_try_that_is_killed_goes_on_from_any_folder(built: Built, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    line = [*KDYNO, "try", "-k", "patch=slow-umask.patch", "--max-boots", "4", "--", "sleep", "0"]
    environment = {**os.environ, "KDYNO_RUNS": str(tmp_path / "runs")}
    with until_killed(line, cwd=folder, env=environment) as process:
        until(lambda: len(list(tmp_path.glob("runs/2*/boots/000*"))) >= 3, process)
    until(lambda: not uml_processes())
    (run,) = list_runs(tmp_path / "runs")
    assert run.manifest().origin == str(folder / "experiment.toml")
    before = [boot for boot in run.boots() if isinstance(boot, BootRecord)]
    done = kdyno("run", "--resume", "last", "--json", "-", runs=tmp_path / "runs")
    verdict = Verdict.from_json(done.stdout)
    assert verdict.boots == {"stock": 4, "slow-umask.patch": 4}
    after = [boot for boot in run.boots() if isinstance(boot, BootRecord)]
    assert after[: len(before)] == before and len(after) == 8


def test_any_command_in_every_kernel_without_a_file(built: Built, tmp_path: Path) -> None:
    done = kdyno(
        *("try", "-k", "stock", "-k", "patch=slow-umask.patch", *QUICK[:1], "--max-boots", "2"),
        *("--figure", "x([0-9]+)", "--unit", "words", "--better", "higher", "--json", "-"),
        *("--", "sh", "-c", "echo x$(wc -w </etc/passwd)"),
        runs=tmp_path / "runs",
    )
    verdict = Verdict.from_json(done.stdout)
    (effect,) = verdict.effects
    assert (effect.case, effect.unit, effect.better, effect.ratio) == ("sh", "words", "higher", 1.0)
    refused = kdyno("try", "-k", "memcpi=x", "--", "true", runs=tmp_path, check=[2])
    assert "Did you mean memcpy=" in refused.stderr
