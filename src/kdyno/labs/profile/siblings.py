# SPDX-License-Identifier: MIT
"""Images that exist for profiling only: a variant and one more fragment of configuration."""

from __future__ import annotations

from dataclasses import replace

from kdyno.errors import ToolError, UsageError
from kdyno.experiment.layer import normal_line, option_of
from kdyno.experiment.model import ConfigFragment, Experiment, Variant
from kdyno.paths import data_root

GPROF, FRAMES = "gprof", "frames"
_SMP = "CONFIG_SMP"


def with_fragment(experiment: Experiment, name: str) -> Experiment:
    """The same experiment with the fragment ``name`` of kernel/config/ in every variant.

    UsageError where a variant wants what the fragment cannot have.
    """
    fragment = _read(name)
    return replace(
        experiment, variants=tuple(_with(variant, fragment) for variant in experiment.variants)
    )


def _with(variant: Variant, fragment: ConfigFragment) -> Variant:
    wanted = {option_of(line): line for line in fragment.lines}
    for own in variant.config:
        for line in own.lines:
            option = option_of(line)
            if option == _SMP and option in wanted and line != wanted[option]:
                raise UsageError(
                    f"variant {variant.name!r} has {line} (from {own.origin}), and gprof cannot "
                    "profile a kernel for several CPUs. Leave it out with --variant, or take "
                    "--method perf"
                )
    return replace(variant, config=(*variant.config, fragment), cpus=None)


def _read(name: str) -> ConfigFragment:
    path = data_root() / "kernel" / "config" / f"{name}.config"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise ToolError(f"{path}: {problem.strerror}") from None
    lines = tuple(line for raw in text.splitlines() if (line := normal_line(raw.strip())))
    return ConfigFragment(f"{name}.config, for the profile", lines)
