# SPDX-License-Identifier: MIT
"""What a difference of two shipped kernels is due to: shares that add up, and their table."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest
from command_line import Kdyno, effect, verdict
from hypothesis import given, strategies as st

from kdyno.bisect import attribution
from kdyno.bisect.attribution import Attribution, attributions, shares, table
from kdyno.errors import UsageError
from kdyno.kernels import config as kconfig
from kdyno.kernels.config import rebuildable
from kdyno.store.verdict import Verdict

CELLS = {
    "source-first+config-first": 100.0,
    "source-first+config-second": 104.0,
    "source-second+config-first": 110.0,
    "source-second+config-second": 120.0,
}


def judged(values: Mapping[str, float], failed: Mapping[str, str] | None = None) -> Verdict:
    """Counts of ``first``, 101, and of the others."""
    effects = []
    for variant, value in values.items():
        ratio = value / 101.0
        about = {"variant": variant, "unit": "instructions", "better": "lower", "exact": True}
        about |= {"baseline_value": 101.0, "value": value, "ci": (ratio, ratio)}
        effects.append(effect("pipe", "slower", ratio, **about))
    return verdict(*effects, baseline="first", failed=failed or {})


def test_a_share_is_what_changing_the_factor_adds_in_all_orders() -> None:
    values = {(0, 0): 100.0, (0, 1): 104.0, (1, 0): 110.0, (1, 1): 120.0}
    # The first alone +10, after the second +16; the second alone +4, after the first +10.
    assert shares(values) == (13.0, 7.0)


@given(
    st.integers(1, 3).flatmap(
        lambda n: st.lists(st.floats(-1e6, 1e6), min_size=2**n, max_size=2**n)
    )
)
def test_shares_add_up_to_the_whole(values: list[float]) -> None:
    count = len(values).bit_length() - 1
    cells = dict(zip(product((0, 1), repeat=count), values, strict=True))
    assert math.fsum(shares(cells)) == pytest.approx(values[-1] - values[0], abs=1e-6)


def test_total_is_shares_and_what_remains() -> None:
    (own,) = attributions(judged({"second": 123.0, **CELLS}))
    assert own.shares == pytest.approx({"source": 13.0, "config": 7.0}, rel=1e-6)
    assert own.total == pytest.approx(22.0)
    assert own.remains == pytest.approx(2.0)
    assert own.exact
    assert table([own], "Why?").splitlines() == [
        "Why?",
        "",
        "instructions            first     second      total     source     config    remains",
        "unixbench/pipe          101.0      123.0      +22.0      +13.0       +7.0       +2.0",
        "                                            +21.8 %    +12.9 %    +6.93 %    +1.98 %",
        "",
        "total = source + config + remains",
    ]


def test_a_combination_that_failed_leaves_the_total_alone() -> None:
    values = {"second": 123.0, **CELLS}
    del values["source-second+config-first"]
    why = {"source-second+config-first": "does not build"}
    (own,) = attributions(judged(values, why))
    assert own.total == pytest.approx(22.0)
    assert own.shares is None
    assert own.remains is None
    assert "not apart: source-second+config-first: does not build" in table([own], "Why?")


def test_options_that_counting_has_no_use_for_are_refused(kdyno: Kdyno) -> None:
    result = kdyno("compare", "--attribute", "a", "b", "--fail-on", "slower", "-o", "t.txt")
    assert result.status == 2 and "leave out -o, --fail-on" in result.err


def test_what_cannot_be_asked_leaves_no_folder(
    kdyno: Kdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("not of one source")

    monkeypatch.setattr(attribution, "side", lambda *_: None)
    monkeypatch.setattr(attribution, "experiment_of", refuse)
    names = ("debian:linux-image-amd64", "debian:linux-image-6.12-amd64")
    result = kdyno("compare", "--attribute", *names)
    assert result.status == 2 and "not of one source" in result.err
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize(
    "variants",
    [
        ["mine"],
        [],
        ["source-first", "source-first+source-first"],
        ["source-first", "config-second"],
        ["source-first+config-first", "source-second+config-first"],
    ],
)
def test_another_run_is_refused(variants: list[str]) -> None:
    names = re.escape(", ".join(sorted([*variants, "second"])))
    with pytest.raises(UsageError, match=rf"variants {names}: .*not made by .*--attribute"):
        attributions(judged({"second": 1.0, **dict.fromkeys(variants, 2.0)}))


def test_what_is_not_the_same_in_every_boot_is_marked() -> None:
    own = Attribution("unixbench", "spawn", "instructions", 1e5, 2e5, False, {"config": 1e5})
    lines = table([own], "Why?").splitlines()
    assert lines[3].startswith("unixbench/spawn ~ ")
    assert lines[-1].startswith("~  not the same in every boot")


def test_a_shipped_configuration_becomes_one_without_modules_keys_and_debug_data() -> None:
    config = """\
CONFIG_CC_VERSION_TEXT="gcc-12 (Debian 12.2.0-14) 12.2.0"
CONFIG_CC_OPTIMIZE_FOR_PERFORMANCE=y
CONFIG_HZ=250
CONFIG_EXT4_FS=m
CONFIG_9P_FS=m
# CONFIG_SLUB_DEBUG is not set
CONFIG_DEBUG_INFO_BTF=y
CONFIG_SYSTEM_TRUSTED_KEYS="debian/certs.pem"
CONFIG_DEBUG_LIST=y
"""
    lines = rebuildable(config)
    assert lines[:6] == (
        "CONFIG_CC_OPTIMIZE_FOR_PERFORMANCE=y",
        "CONFIG_HZ=250",
        "# CONFIG_EXT4_FS is not set",
        "CONFIG_9P_FS=y",
        "# CONFIG_SLUB_DEBUG is not set",
        "CONFIG_DEBUG_LIST=y",
    )
    assert {"CONFIG_9P_FS=y", *lines[6:]} == {f"CONFIG_{name}=y" for name in kconfig._GUEST}
