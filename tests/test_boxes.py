# SPDX-License-Identifier: MIT
"""Kernels that are built for a box, from its own configuration; several boxes for one run."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from test_box import BACK, FACTS, OWN, FakeBox, fake, machine
from toy_kernel import FILES, Toy, variant

from kdyno.errors import ToolError, UsageError
from kdyno.kernels.build import localized
from kdyno.kernels.config import Wish, local_lines
from kdyno.kernels.image import KEXEC, release_of
from kdyno.machines.box import Box, own_config
from kdyno.machines.boxes import Boxes
from kdyno.machines.kinds import of_command_line
from kdyno.machines.machine import Plan
from kdyno.suites.job import Job

__all__ = ["fake", "machine"]
MAKEFILE = """
localmodconfig:
	@read answer && cd $(O) && grep -vf $(LSMOD) .config >.new && cp .new .config
bzImage: linux
	@cd $(O) && mkdir -p arch/x86/boot include/config && cp linux arch/x86/boot/bzImage
	@echo 7.3.4-toy >$(O)/include/config/kernel.release
modules: linux
modules_install:
	@cd $(O) && mkdir -p $(INSTALL_MOD_PATH)/lib/modules/7.3.4-toy/kernel
	@cd $(INSTALL_MOD_PATH)/lib/modules/7.3.4-toy && echo 1 >kernel/a.ko && ln -s / build
"""
KCONFIG = FILES["Kconfig"] + 'config MODULES\n\tbool "Modules"\n'


@pytest.mark.slow
def test_a_kernel_and_its_modules_are_packed_for_a_box(tmp_path: Path) -> None:
    toy = Toy(tmp_path, {"Makefile": FILES["Makefile"] + MAKEFILE, "Kconfig": KCONFIG})
    plain = toy.build(variant())
    assert not plain.has(KEXEC) and release_of(plain) == "7.3.4" and not plain.modular
    image = toy.build(variant("own", "CONFIG_MODULES=y"), extract=KEXEC)
    with tarfile.open(image.folder / KEXEC.name) as tar:
        names = [member.name for member in tar.getmembers() if member.isfile()]
        assert {member.uid for member in tar.getmembers()} == {0}
    top = "7.3.4-toy"
    assert sorted(names) == [f"{top}/config", f"{top}/modules/kernel/a.ko", f"{top}/vmlinuz"]
    assert image.has(KEXEC) and release_of(image) == top and image.modular
    # A kernel without modules has none to be made, and the one of before only lacks the file.
    again = toy.build(variant(), extract=KEXEC)
    assert again.digest == plain.digest and again.has(KEXEC) and not again.modular


@pytest.mark.slow
def test_the_configuration_of_a_box_as_a_source_has_it(tmp_path: Path) -> None:
    toy = Toy(tmp_path, {"Makefile": FILES["Makefile"] + MAKEFILE, "Kconfig": KCONFIG})
    recipe = toy.recipe(variant("own", "CONFIG_HZ=300"))
    config = 'CONFIG_NET=y\nCONFIG_SMP=y\nCONFIG_MODULE_SIG_KEY="mine"\n# CONFIG_SORT is not set\n'
    lines = localized(recipe, config, "CONFIG_SMP", toy.cache, "own")
    assert {"CONFIG_NET=y", "CONFIG_HZ=300"} <= set(lines)
    assert not any("SMP" in line or "MODULE_SIG_KEY" in line for line in lines)
    kept = next((toy.cache / "configs").glob("*.local"))
    kept.write_text("CONFIG_NET=y\n")
    assert localized(recipe, config, "CONFIG_SMP", toy.cache, "own") == ("CONFIG_NET=y",)
    assert localized(recipe, config, "CONFIG_NET", toy.cache, "own") != ("CONFIG_NET=y",)


def test_what_belongs_to_a_build_elsewhere_is_not_taken_over() -> None:
    config = (
        'CONFIG_CC_VERSION_TEXT="gcc"\nCONFIG_SYSTEM_TRUSTED_KEYS="debian.pem"\nCONFIG_EXT4_FS=m\n'
        "CONFIG_MODULE_SIG=y\nCONFIG_DEBUG_INFO_BTF=y\n# a comment\nCONFIG_MODULES=y\n"
    )
    lines = local_lines(config)
    assert lines[:2] == ("CONFIG_EXT4_FS=m", "CONFIG_MODULES=y")
    assert Wish("CONFIG_MODULE_SIG", "n", "").line in lines and "CONFIG_DEBUG_INFO_NONE=y" in lines


def test_a_box_is_asked_for_its_configuration_once(fake: FakeBox, tmp_path: Path) -> None:
    def ask(refresh: bool = False, fetching: bool = True) -> tuple[str, str]:
        return own_config(("rack1",), tmp_path, refresh, fetching)

    with pytest.raises(LookupError):
        ask(fetching=False)
    under_test = OWN.replace("quiet", "kdyno.boot=1")
    fake.say(state=[[0, under_test], [0, OWN]], config=[[0, "CONFIG_A=y"]], lsmod=[[0, "ext4 1 1"]])
    with pytest.raises(ToolError, match="is in a kernel under test"):
        ask()
    assert ask() == ("CONFIG_A=y\n", "ext4 1 1\n")
    fake.say(state=[[0, OWN]], config=[[0, "CONFIG_B=y"]])
    assert ask(fetching=False)[0] == ask()[0] == "CONFIG_A=y\n"
    assert ask(refresh=True)[0] == "CONFIG_B=y\n"
    config, modules = own_config(("rack1", "rack2"), tmp_path, False, True)
    assert (config, modules.split("\n")) == ("CONFIG_B=y\n", ["ext4 1 1", "", "ext4 1 1", ""])


def test_boxes_take_blocks_in_turns(
    fake: FakeBox, machine: Callable[..., Box], monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes = Boxes(replace(machine()._setup, hosts=("rack1", "rack2")))
    lines = ["\n".join(f"{k}\t{v}" for k, v in FACTS.items() if k != "machine_id")] * 2
    first, second = (f"{text}\nmachine_id\t{n * 32}" for n, text in zip("01", lines, strict=True))
    fake.say(state=[[0, OWN]], facts=[[0, first], [0, second]])
    boxes.probe(lambda _text: None)
    assert list(boxes.several()) == ["A CPU rack1", "A CPU rack2"]
    assert boxes.host_facts()["cpu_model"] == "A CPU" and "box" not in boxes.host_facts()
    monkeypatch.setattr(Box, "open", lambda box, plan, _listener: (box._host, plan.block))
    plan = Plan("new", Job(()))
    hosts = [boxes.open(replace(plan, block=block)) for block in range(3)]
    assert hosts == [("rack1", 0), ("rack2", 1), ("rack1", 2)]
    fake.say(state=[[0, BACK]])
    boxes.close()
    assert fake.names("undo") == ["undo"] * 4
    assert json.loads((fake.folder / "plan").read_text())["state"] == [[0, BACK]]


def test_two_names_of_one_box_are_refused(fake: FakeBox, machine: Callable[..., Box]) -> None:
    boxes = Boxes(replace(machine()._setup, hosts=("rack1", "rack2")))
    fake.say(state=[[0, OWN]])
    with pytest.raises(ToolError, match="rack1 and rack2 are names of one and the same box"):
        boxes.probe(lambda _text: None)
    boxes.close()


def test_a_command_line_has_no_place_for_a_host() -> None:
    of_command_line("qemu", "kernels are booted by")
    with pytest.raises(UsageError, match=r'uml and qemu\. A box has a host: .*host = "NAME"'):
        of_command_line("box", "kernels are booted by")
    with pytest.raises(UsageError, match=r"kernels are booted by uml and qemu$"):
        of_command_line("vax", "kernels are booted by")
