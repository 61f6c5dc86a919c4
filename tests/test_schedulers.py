# SPDX-License-Identifier: MIT
"""The key ``scheduler``, and what follows from it before a guest boots."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from test_qemu import request, words
from vocabularies import knowing

from kdyno.errors import UsageError
from kdyno.experiment.loader import parse
from kdyno.experiment.model import Experiment, Variant
from kdyno.kernels import scheduler
from kdyno.kernels.config import Wish
from kdyno.kernels.image import Image
from kdyno.kernels.scheduler import Scheduler, list_schedulers, refuse_unfit
from kdyno.kernels.sources.tree import Tree
from kdyno.machines import guest, qemu
from kdyno.machines.cpus import Placement
from kdyno.machines.guest import Built
from kdyno.machines.machine import Setup
from kdyno.machines.process import Ended
from kdyno.machines.qemu import Chance
from kdyno.measure.builder import Recipes, changed
from kdyno.suites.protocol import Transcript

MACHINES = {"uml": ("um", "um32"), "qemu": ("x86_64", "i386"), "host": ()}
WORDS = knowing(suites={"unixbench": ("pipe",)}, schedulers=("4bsd", "ule"), machines=MACHINES)


def parsed(tmp_path: Path, tables: str, kind: str = "qemu") -> list[Variant]:
    head, suite = 'name = "x"\nquestion = "?"\n', '[[suite]]\nname = "unixbench"\n'
    text = f'{head}{tables}\n[machine]\nkind = "{kind}"\n{suite}'
    return list(parse(text, "x.toml", tmp_path, WORDS).variants)


def variants(tmp_path: Path, keys: str, kernel: str = "", kind: str = "qemu") -> list[Variant]:
    source = f'baseline = "a"\n[kernel]\nsource = "debian:linux-x"\n{kernel}\n'
    return parsed(tmp_path, f"{source}[variant.a]\n[variant.b]\n{keys}", kind)


def test_a_scheduler_goes_by_its_name_and_fair_is_the_kernels_own(tmp_path: Path) -> None:
    (tmp_path / "mine.bpf.c").write_text("")
    mine = str(tmp_path / "mine.bpf.c")
    for keys, below, kind, schedulers in (
        ('scheduler = "4bsd"', "", "qemu", [None, "4bsd"]),
        ('scheduler = "fair"', 'scheduler = "ule"', "qemu", ["ule", None]),
        ('scheduler = "fair"', "", "uml", [None, None]),
        # A file goes by its path from the experiment's folder.
        ('scheduler = "mine.bpf.c"', "", "qemu", [None, mine]),
        ('scheduler = "./mine.bpf.c"', "", "qemu", [None, mine]),
    ):
        own = variants(tmp_path, keys, below, kind)
        assert [variant.scheduler for variant in own] == schedulers
    # It is a factor like others.
    factor = '[factor.scheduler]\nfair = {}\nule = { scheduler = "ule" }'
    cross = parsed(tmp_path, f'baseline = "fair"\n[kernel]\nsource = "debian:linux-x"\n{factor}')
    assert [(each.name, each.scheduler) for each in cross] == [("fair", None), ("ule", "ule")]


@pytest.mark.parametrize(
    ("keys", "kind", "message"),
    [
        ("scheduler = 4", "qemu", "scheduler: 4, an integer"),
        ('scheduler = "gone.bpf.c"', "qemu", "no file"),
        ('scheduler = "a-b.bpf.c"', "qemu", "letters, digits and _"),
        ('scheduler = "ule"\narch = "i386"', "qemu", "a 32-bit kernel does not call"),
        ('scheduler = "ule"', "host", "runs the kernel as it is: leave scheduler out"),
    ],
)
def test_a_wrong_scheduler_is_refused(keys: str, kind: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a-b.bpf.c").write_text("")
    with pytest.raises(UsageError) as refused:
        if kind == "host":
            parsed(tmp_path, f"[variant.running]\n{keys}", kind)
        else:
            variants(tmp_path, keys, kind=kind)
    assert message in str(refused.value)


def test_the_projects_own_say_what_they_are_and_call_themselves_by_their_names() -> None:
    schedulers = list_schedulers()
    assert set(schedulers) >= {"fifo", "4bsd", "ule"}
    for name, text in schedulers.items():
        assert 20 < len(text) < 100, name
        source = (scheduler.folder() / f"{name}{scheduler.SUFFIX}").read_text(encoding="utf-8")
        assert re.findall(r'\.name = "(.*)"', source) == [name]


def test_a_kernel_without_sched_ext_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = Variant("fast", "debian:x", arch="x86_64", scheduler="/somewhere/mine.bpf.c")
    given, tree = (
        Wish(scheduler.NEEDED, "y", "sched-ext.config"),
        cast(Tree, SimpleNamespace(path="")),
    )
    monkeypatch.setattr(scheduler, "for_tree", lambda _name, _tree: None)
    refuse_unfit(variant, [given], tree)
    refuse_unfit(replace(variant, scheduler=None), [], tree)
    with pytest.raises(UsageError, match=r"'fast': scheduler = 'mine'.*Add \"sched-ext\" to conf"):
        refuse_unfit(variant, [Wish(scheduler.NEEDED, "n", "x")], tree)

    def absent(name: str, _tree: object) -> None:
        raise UsageError(f"no {name} on PATH", key="compiler")

    monkeypatch.setattr(scheduler, "for_tree", absent)
    with pytest.raises(UsageError, match="compiled by clang: no clang on PATH") as refused:
        refuse_unfit(variant, [given], tree)
    assert refused.value.key == "scheduler"


def built(tmp_path: Path) -> Scheduler:
    for name in ("loader", "ule.bpf.o"):
        (tmp_path / name).write_bytes(name.encode())
    return Scheduler("ule", tmp_path / "ule.bpf.o", tmp_path / "loader", "5" * 32)


def test_a_guest_is_given_the_loader_the_program_and_its_name(tmp_path: Path) -> None:
    images = built(tmp_path)
    line = " ".join(words(request(scheduler=images)))
    assert " kdyno.scheduler=ule" in line
    assert "kdyno.scheduler" not in " ".join(words(request()))
    files = qemu.first_files(b"p", b"job", Chance.of(0), scheduler=images)
    assert b"scheduler/loader" in files and b"ule.bpf.o" in files
    assert b"scheduler/" not in qemu.first_files(b"p", b"job", Chance.of(0))


def test_a_run_goes_on_though_a_scheduler_is_part_of_what_its_variants_are() -> None:
    """It was refused: the kernel's digest alone is not what such a variant's identity is."""
    variants = (Variant("fair", ""), Variant("ule", "", scheduler="ule"))
    experiment = Experiment("x", "?", "fair", variants, ())
    recipes = Recipes({name: SimpleNamespace(digest="k") for name in ("fair", "ule")}, {})  # type: ignore[dict-item]
    assert changed(experiment, recipes, {"fair": "k", "ule": "k and ule"}) is None
    assert changed(experiment, recipes, {"fair": "another", "ule": "k and ule"}) == "fair"
    assert changed(experiment, recipes, {}) is None


def test_an_identity_for_each_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Built, "_program", lambda _self, _variant: tmp_path)
    image = Image("a" * 32, tmp_path, "x86_64", 64, "7.3", {"seconds": 3})
    images = {"fair": image, "ule": replace(image, scheduler=built(tmp_path))}
    placement = Placement(frozenset((1,)), frozenset((0,)))
    machine = Built(Setup({}, images, placement, 1 << 28, None, 1, tmp_path))
    assert machine.identity("fair") == image.digest
    assert machine.identity("ule") not in (image.digest, images["ule"].scheduler)
    assert len(machine.identity("ule")) == 32
    assert machine.described("fair") == {"digest": image.digest, "seconds": 3}
    assert machine.described("ule")["scheduler"] == {"name": "ule", "digest": "5" * 32}
    assert machine.programs("ule").kernel == machine.programs("fair").kernel


def test_a_scheduler_that_was_thrown_out_is_a_failed_boot_with_the_kernels_reason() -> None:
    message = Transcript(0, fatal="scheduler: ule is not in charge (disabled, none): task stall")
    result = guest.diagnosis_of("", Ended(0, "", 1.0), message, True)
    assert result is not None and result.reason == "scheduler"
    assert result.text == "ule is not in charge (disabled, none): task stall"
