# SPDX-License-Identifier: MIT
"""Real kernels that spin now and then: what the sum of turns says that a typical one does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import kdyno
from real_kernels import built_kernels

from kdyno.store.verdict import Verdict

pytestmark = pytest.mark.uml
EXPERIMENT = Path(__file__).parent / "rare.toml"


def test_a_cost_of_one_turn_in_some_is_never_called_equivalent(tmp_path: Path) -> None:
    built_kernels(EXPERIMENT)
    file = tmp_path / "verdict.json"
    kdyno("run", EXPERIMENT, "--case", "pipe", "--json", file, runs=tmp_path)
    verdict = Verdict.from_json(file.read_text(encoding="utf-8"))
    effects = {effect.variant: effect for effect in verdict.effects}
    rare, often = effects["rare"].throughput, effects["often"].throughput
    assert rare is not None and often is not None
    # About 5 % in sum, both, on any CPU; how well that is seen is a matter of what else runs here.
    for effect in effects.values():
        assert effect.verdict in ("slower", "inconclusive") and not effect.equivalent_too
    # Whenever the sum has lost 1 % for certain, the tail is named.
    assert rare.tail or rare.ci is None or rare.ci[1] > 1 / 1.01
    if rare.tail:
        assert effects["rare"].verdict == "slower" and rare.decides
    # That a cost which every turn has its share of is no tail is a judgement with its error: once a
    # busy machine gave one. A recorded run holds it.
    flagged = {own.variant for own in verdict.flags if own.kind == "tail"}
    assert flagged == {name for name, own in effects.items() if own.throughput.tail}
