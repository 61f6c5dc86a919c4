# SPDX-License-Identifier: MIT
"""verdict.json: the contract that others read. Fields are added, never changed or removed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

Word = Literal["faster", "slower", "equivalent", "inconclusive", "failed"]


class Flag(BaseModel):
    """A warning about the run or one effect. ``kind`` is a short stable word."""

    model_config = ConfigDict(frozen=True)
    kind: str
    text: str
    variant: str | None = None
    suite: str | None = None
    case: str | None = None


class Effect(BaseModel):
    """Variant ÷ baseline for one case. ``ratio`` is always value ÷ baseline_value."""

    model_config = ConfigDict(frozen=True)
    suite: str
    case: str
    variant: str
    unit: str
    better: Literal["higher", "lower"]
    baseline_value: float | None
    """Median over boots, in ``unit``; None where there is no sample."""
    value: float | None
    ratio: float | None
    ci: tuple[float, float] | None
    """Behind the verdict: corrected for the number of effects (Holm). None: too few blocks."""
    ci_raw: tuple[float, float] | None = None
    """The same without the correction."""
    mean_ratio: float | None = None
    mean_ci: tuple[float, float] | None = None
    """Geometric mean of the within-block ratios with its t interval."""
    noise_floor: float | None = None
    """Largest |ratio − 1| that the A/A copy's raw interval reaches; None: not calibrated."""
    blocks: int
    verdict: Word
    equivalent_too: bool = False
    """The interval excludes 1 and lies inside ±equivalent: real but too small to matter."""
    inside_noise_floor: bool = False
    predicted_blocks: int | None = None
    """Blocks that the present spread predicts would settle an inconclusive verdict."""
    control: bool = False
    """The case does not depend on the kernel (negative control)."""
    reason: str | None = None
    """Why there is no figure (failed cases)."""


class Verdict(BaseModel):
    """One run, judged."""

    model_config = ConfigDict(frozen=True)
    schema_: int = 1
    experiment: str
    question: str = ""
    answer: str = ""
    """One sentence."""
    baseline: str
    confidence: float = 0.95
    equivalent: float = 0.01
    precision: float = 0.005
    stopped: str = ""
    """Why measuring ended: precision, max_boots, max_minutes, interrupted, failed."""
    boots: dict[str, int]
    failed: dict[str, str] = {}
    """Variant → why it did not build, boot or survive, or was skipped."""
    flags: tuple[Flag, ...] = ()
    effects: tuple[Effect, ...] = ()

    def to_json(self) -> str:
        """The file's text; ``schema_`` is written as ``schema``."""
        import json

        data = self.model_dump(mode="json")
        return json.dumps({"schema": data.pop("schema_"), **data}, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        import json

        data = json.loads(text)
        if isinstance(data, dict) and "schema" in data:
            data["schema_"] = data.pop("schema")
        return cls.model_validate(data)

    @classmethod
    def load(cls, path: Path) -> Verdict:
        return cls.from_json(path.read_text(encoding="utf-8"))
