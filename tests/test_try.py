# SPDX-License-Identifier: MIT
"""`kdyno try`: an experiment of a few words."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdyno.errors import UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment
from kdyno.measure.commands import Trial, experiment_text
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import data_root
from kdyno.suites.catalogue import load
from kdyno.suites.job import cases_of, jobs_of

HERE = data_root()
PATCH = "kernel/patches/slow-umask.patch"


def tried(*kernels: str, **more: object) -> Experiment:
    trial = Trial(kernels, ("sort", "-n", 'a "b" \\ ü'), **more)  # type: ignore[arg-type]
    return loader.parse(experiment_text(trial, HERE), "try", HERE, vocabulary(load()))


def test_one_kernel_is_compared_with_stock() -> None:
    experiment = tried("memcpy=fsrm")
    assert experiment.baseline == "stock" and experiment.variants[1].memcpy == "fsrm"
    assert [variant.name for variant in experiment.variants] == ["stock", "fsrm"]
    assert {variant.source for variant in experiment.variants} == {"debian:linux-source-7.3"}
    assert not experiment.measure.calibrate
    (use,) = experiment.suites
    assert (use.command[-3:], use.cases) == (("sort", "-n", 'a "b" \\ ü'), ("sort",))


def test_a_command_runs_in_its_folder_where_a_guest_sees_that() -> None:
    for folder, words in {
        "/usr/share": '["env", "-C", "/usr/share", "sort"]',
        "/tmp/clone": '["sort"]',
        "/run/user/1000": '["sort"]',
    }.items():
        text = experiment_text(Trial(("stock",), ("sort",)), Path(folder))
        assert f"command = {words}\n" in text


def test_stock_alone_is_compared_with_itself() -> None:
    for experiment in (tried(), tried("stock")):
        assert experiment.measure.calibrate
        assert [variant.name for variant in experiment.variants] == ["stock"]


def test_the_first_is_the_baseline_and_parts_join() -> None:
    experiment = tried(
        "memcpy=avx2,cflags=-O3 -Wl,-z",
        "stock",
        f"patch={PATCH},config=preempt,config=CONFIG_HZ_100=y",
        "cmdline=a=1,2 b,cpus=02",
        "sysctl=vm.swappiness=10,sysctl=kernel.pid_max=4194303",
        "source=debian:linux-source-6.12",
    )
    first, stock, patched, booted, tuned, old = experiment.variants
    assert experiment.baseline == first.name == "avx2+cflags-O3-Wl-z"
    assert first.cflags == "-O3 -Wl,-z"
    assert stock.patches == ()
    assert patched.name == "slow-umask.patch+preempt+CONFIG_HZ_100-y"
    assert patched.patches == (HERE / PATCH,)
    assert (booted.cmdline, booted.cpus) == ("a=1,2 b", 2)
    assert tuned.sysctl == (("vm.swappiness", "10"), ("kernel.pid_max", "4194303"))
    assert old.source == "debian:linux-source-6.12"


def test_a_figure_of_the_command_s_own() -> None:
    experiment = tried("memcpy=fsrm", figure=r"Time: (\S+)", unit="MB/s", better="higher")
    (case,) = cases_of(experiment, load())
    assert (case.name, case.unit, case.better) == ("sort", "MB/s", "higher")
    assert case.figure == r"Time: (\S+)"
    (job,) = jobs_of(experiment, load())
    assert job.args[:5] == ("--warmups", "1", "--figure", "printed", "--")
    assert (job.operations, job.seconds) == (1, None)


@pytest.mark.parametrize(
    ("trial", "message"),
    [
        (Trial(("stok",), ("ls",)), "Did you mean stock?"),
        (Trial(("memcpy=",), ("ls",)), "'memcpy=' is not a kernel"),
        (Trial(("cflags=-O3,stock",), ("ls",)), "'stock' is not a kernel"),
        (Trial(("memcpy=fsrm,memcpy=avx2",), ("ls",)), "memcpy is there twice"),
        (Trial(("memcpy=fsrm", "memcpy=fsrm"), ("ls",)), "'fsrm' is there twice"),
        (Trial(("cpus=two",), ("ls",)), "a whole number is expected"),
        (Trial(("cpus=²",), ("ls",)), "a whole number is expected"),
        (Trial((f"cpus={'9' * 5000}",), ("ls",)), "a whole number is expected"),
        (Trial(("sysctl=a.b=1,sysctl=a.b=2",), ("ls",)), "one name is there twice"),
        (Trial(("stock",), ()), "which command?"),
        (Trial(("stock",), ("./no/such",)), "./no/such is not there"),
    ],
)
def test_what_means_nothing_is_refused(trial: Trial, message: str) -> None:
    with pytest.raises(UsageError) as error:
        experiment_text(trial, HERE)
    assert message in str(error.value)


def test_files_that_a_guest_does_not_see_are_named(tmp_path: Path) -> None:
    if not tmp_path.is_relative_to("/tmp"):
        pytest.skip("the folder for tests is not in /tmp")
    (tmp_path / "words").write_text("b\na\n")
    with pytest.raises(UsageError, match="words lies in"):
        experiment_text(Trial(("stock",), ("sort", "words")), tmp_path)
    text = experiment_text(Trial(("stock",), ("sort", "/etc/passwd")), tmp_path)
    assert '["sort", "/etc/passwd"]' in text


def test_in_qemu_instructions_are_counted_and_told_apart() -> None:
    experiment = tried("stock", "cflags=-O3", machine="qemu", metric="instructions")
    assert (experiment.machine.kind, experiment.machine.memory_bytes) == ("qemu", 512 << 20)
    assert {variant.arch for variant in experiment.variants} == {"x86_64"}
    assert (experiment.measure.metric, experiment.measure.apart) == ("instructions", True)
    alone = tried("stock", machine="qemu", metric="instructions", memory="1G")
    assert alone.measure.calibrate and alone.machine.memory_bytes == 1 << 30
