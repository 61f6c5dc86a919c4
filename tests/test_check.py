# SPDX-License-Identifier: MIT
"""kdyno check of what is right: the cost, what is cached, what would be fetched, notes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import EXPERIMENT, Kdyno
from toy_kernel import make_source

from kdyno.kernels.changes import Changes
from kdyno.kernels.config import arch, options
from kdyno.measure import builder

SUITE = '[[suite]]\nname = "unixbench"\ncases = ["pipe"]\nseconds = 0.5\n'
TOY = (
    'name = "x"\nbaseline = "stock"\n[kernel]\nsource = "path:toy"\n[variant.stock]\n'
    "[variant.mine]\n{}\n[measure]\nmax_boots = 30\n" + SUITE
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_source(tmp_path / "toy")
    return tmp_path


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_what_a_run_will_cost_and_what_is_cached(kdyno: Kdyno, folder: Path) -> None:
    (folder / "x.toml").write_text(TOY.format('config = ["CONFIG_HZ=250"]'), encoding="utf-8")
    first = json.loads(kdyno("check", "x.toml", "--json", "-").out)
    assert first["ok"] and first["mistakes"] == first["notes"] == [] and first["fetch"] == []
    assert (first["kernels"], first["cached"], first["builds"]) == (2, 0, 0)
    # Nothing was built here: a guess, the second kernel from the first one's objects.
    assert first["build_s"] == 480 and first["disk_bytes"] > 700e6
    assert first["measure_minutes"] == pytest.approx(2 * 30 * (0.3 + 1.4 * 0.5) / 60)
    assert set(first["variants"]) == {"stock", "mine"} and not (folder / "cache/images").exists()
    assert kdyno("build", "x.toml", "--variant", "stock").status == 0
    result = kdyno("check", "x.toml")
    assert result.status == 0
    assert "x: no mistake found\nkernels    2, 1 in the cache, 1 to build: about " in result.out
    assert " (by 1 of before)\nmeasuring  at most about 1 min " in result.out
    dry = kdyno("run", "x.toml", "--dry-run")
    assert (dry.status, dry.out.partition("disk")[0]) == (0, result.out.partition("disk")[0])
    assert not (folder / "runs").exists()


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_options_that_change_nothing_are_a_note(kdyno: Kdyno, folder: Path) -> None:
    (folder / "x.toml").write_text(TOY.format('config = ["CONFIG_HZ=100"]'), encoding="utf-8")
    result = kdyno("check", "x.toml")
    assert result.status == 0
    assert "note       mine is the same kernel as stock: its options change nothing\n" in result.out


@pytest.mark.slow
def test_nothing_is_fetched_unless_requested(
    kdyno: Kdyno, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def network(*_: object, **__: object) -> None:
        raise AssertionError("fetched")

    monkeypatch.setattr(builder, "fetch", network)
    (folder / "x.toml").write_text(EXPERIMENT, encoding="utf-8")
    result = kdyno("check", "x.toml")
    assert result.status == 0
    assert "to fetch   debian:linux-source-7.3: about 0.2 GB, 2 GB unpacked\n" in result.out
    assert "(--fetch): patches, options, sysctls of debian:linux-source-7.3\n" in result.out
    with pytest.raises(AssertionError, match="fetched"):
        kdyno("check", "x.toml", "--fetch")


def test_mistakes_as_json_one_by_one(kdyno: Kdyno, folder: Path) -> None:
    (folder / "x.toml").write_text('name = 5\n[measure]\nseed = "x"\n', encoding="utf-8")
    result = kdyno("check", "x.toml", "--json", "-")
    value = json.loads(result.out)
    assert result.status == 2 and not value["ok"]
    assert [line.partition(": ")[0] for line in value["mistakes"]][-2:] == ["x.toml:1", "x.toml:3"]


@pytest.mark.slow
def test_what_runs_on_the_host_builds_nothing_and_needs_its_program(
    kdyno: Kdyno, folder: Path
) -> None:
    text = f'name = "h"\n[machine]\nkind = "host"\n{SUITE}'
    (folder / "h.toml").write_text(text, encoding="utf-8")
    result = kdyno("build", "h.toml", "--dry-run", "--json", "-")
    assert result.status == 0 and json.loads(result.out) == {"images": {}, "failed": {}}
    assert "nothing to build: the machine 'host' runs the kernel as it is" in result.err
    result = kdyno("check", "h.toml")
    assert result.status == 0 and "kernels" not in result.out
    text = text.replace(SUITE, '[[suite]]\nname = "run"\ncommand = "nosuchprogram x"\n')
    (folder / "h.toml").write_text(text, encoding="utf-8")
    result = kdyno("check", "h.toml")
    assert result.status == 2
    assert "h.toml:6: suite[1].command: no program 'nosuchprogram' in /usr" in result.err


def test_options_are_those_of_the_architecture(tmp_path: Path) -> None:
    (tmp_path / "arch/um").mkdir(parents=True)
    (tmp_path / "arch/x86/um").mkdir(parents=True)
    (tmp_path / "Kconfig").write_text('source "arch/$(SRCARCH)/Kconfig"\n')
    (tmp_path / "arch/um/Kconfig").write_text(
        'menu "Of UML"\n\tdepends on UML\nconfig A\n\tint "A"\n\trange 1 5\n\thelp\n'
        "\t  A bool of help, and\n\t  config HELP\nendmenu\nif B\nconfig C\n"
        '\ttristate\n\tprompt "C"\nendif\nconfig D\n\tdef_bool y\n'
        'source "arch/$(HEADER_ARCH)/um/Kconfig"\n'
    )
    # As kernel/Kconfig.hz is written: entries of a choice are indented, and so is a help text that
    # reads like one.
    (tmp_path / "arch/x86/Kconfig").write_text(
        'choice\n\tprompt "Timer"\n\thelp\n\t config NOT_ONE\n\n\tconfig ONLY_X86\n\t\tbool "x"\n'
        "\thelp\n\t  text\n\nendchoice\n"
    )
    (tmp_path / "arch/x86/um/Kconfig").write_text('config B\n\tbool "B"\n')
    um = options(tmp_path, Changes(), arch("um"))
    assert {name: (value.kind, value.prompt) for name, value in um.items()} == {
        "CONFIG_A": ("int", True),
        "CONFIG_C": ("tristate", True),
        "CONFIG_D": ("bool", False),
        "CONFIG_B": ("bool", True),
    }
    assert (um["CONFIG_A"].ranges, um["CONFIG_A"].depends) == (["1 5"], ["UML"])
    assert um["CONFIG_C"].depends == ["B"] and um["CONFIG_D"].depends == []
    assert set(options(tmp_path, Changes(), arch("x86_64"))) == {"CONFIG_ONLY_X86"}
