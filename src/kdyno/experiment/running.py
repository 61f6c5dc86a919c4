# SPDX-License-Identifier: MIT
"""The one variant of an experiment on the host: the kernel that runs there, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping

from kdyno.experiment.keys import KERNEL_KEYS
from kdyno.experiment.layer import Layer
from kdyno.experiment.model import Variant
from kdyno.reading.mistakes import Mistakes, quoted

RUNNING = "running"
"""Name of its one variant."""


def running(
    machine: str,
    kernel: Layer,
    explicit: Mapping[str, Layer],
    factors: Mapping[str, object],
    mistakes: Mistakes,
) -> tuple[Variant, ...]:
    """For the kind of machine called ``machine``, which boots nothing.

    [kernel] and [variant.running] may name a source, for cases that compile one.
    """
    for name in explicit:
        if name != RUNNING:
            mistakes.add(
                ("variant", name),
                f"on the machine {quoted(machine)} there is one variant, {quoted(RUNNING)}: the "
                "kernel that runs. Run the file under each kernel, then `kdyno compare RUN RUN`",
            )
    for name in factors:
        mistakes.add(
            ("factor", name),
            f"the machine {quoted(machine)} builds no kernels: no factor of kernels",
        )
    layers = [kernel, *(layer for name, layer in explicit.items() if name == RUNNING)]
    for layer in layers:
        for key in KERNEL_KEYS:
            if key != "source" and getattr(layer, key):
                mistakes.add(
                    (*layer.path, key),
                    f"the machine {quoted(machine)} runs the kernel as it is: leave {key} out",
                )
    sources = [layer.source for layer in layers if layer.source]
    return (Variant(name=RUNNING, source=sources[-1] if sources else "", arch=machine),)
