# SPDX-License-Identifier: MIT
"""Variants from layers: [kernel] below, then each [variant.NAME] crossed with all factors.

There are two levels. What a variant and the factor levels of its cell say stands above what
[kernel] says: config, patches, cmdline and sysctl add (a value for the same option or sysctl
replaces), the other keys replace. Within one level nothing may contradict anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from kdyno.experiment.fragment import contradiction, layered
from kdyno.experiment.keys import KERNEL_KEYS
from kdyno.experiment.layer import REPLACING, Layer
from kdyno.experiment.model import PROGRAMS, Variant
from kdyno.experiment.routines import OWN_MEMCPY
from kdyno.experiment.schedulers import OWN_SCHEDULER
from kdyno.experiment.table import NAME
from kdyno.reading.mistakes import Mistakes, quoted, spelled

MOST_VARIANTS = 10_000

VARIANT = "variant"
"""The factor that several [variant.NAME] are, where these are crossed with others."""

Factors = Mapping[str, Mapping[str, Layer]]
"""Factor → level → layer, in the file's order."""


def variants(
    kernel: Layer,
    explicit: Mapping[str, Layer],
    factors: Factors,
    default_arch: str,
    mistakes: Mistakes,
) -> tuple[Variant, ...]:
    """Every cell, named ``VARIANT+LEVEL+LEVEL``, in the file's order."""
    named = {name: levels for name, levels in factors.items() if levels}
    if not explicit and not named:
        return ()
    count = prod(map(len, named.values())) * max(1, len(explicit))
    if count > MOST_VARIANTS:
        mistakes.add(
            ("factor",),
            f"the factors make {count} variants; at most {MOST_VARIANTS} are allowed. "
            "Drop a factor, or split the experiment",
        )
        return ()
    made: dict[str, Variant] = {}
    dimensions = [explicit] if explicit else []
    for chosen in product(*(axis.items() for axis in (*dimensions, *named.values()))):
        cell = chosen[len(dimensions) :]
        name = "+".join(word for word, _layer in chosen)
        path = ("factor",) if named else ("variant", name)
        if not NAME.fullmatch(name):
            if named and all(NAME.fullmatch(word) for word, _layer in chosen):
                mistakes.add(path, f"the name {quoted(name)} of a cell has more than 80 letters")
            continue
        if name in made:
            mistakes.add(path, f"two cells have the same name {quoted(name)}. Rename a level")
            continue
        levels = tuple(zip(named, (word for word, _layer in cell), strict=True))
        if len(explicit) > 1 and named:
            levels = ((VARIANT, chosen[0][0]), *levels)
        layers = [layer for _word, layer in chosen]
        made[name] = _combined(name, levels, kernel, layers, default_arch, mistakes)
    return tuple(made.values())


def _combined(
    name: str,
    levels: tuple[tuple[str, str], ...],
    kernel: Layer,
    layers: Sequence[Layer],
    default_arch: str,
    mistakes: Mistakes,
) -> Variant:
    _refuse_contradictions(layers, mistakes)
    chosen: dict[str, Any] = {}
    for key in REPLACING:
        for layer in (kernel, *layers):
            if getattr(layer, key) is not None:
                chosen[key] = getattr(layer, key)
                if key == "cflags":
                    chosen["file_cflags"] = layer.file_cflags
    if "source" not in chosen:
        mistakes.add(
            kernel.path,
            "source is missing: which kernel? For example "
            'source = "debian:linux-source-6.12" in [kernel]',
        )
    memcpy, scheduler = chosen.get("memcpy"), chosen.get("scheduler")
    own = [fragment for layer in layers for fragment in layer.config]
    return Variant(
        name=name,
        source=chosen.get("source", ""),
        arch=chosen.get("arch", default_arch),
        config=layered(kernel.config, tuple(own)),
        patches=tuple(
            dict.fromkeys(patch for layer in (kernel, *layers) for patch in layer.patches)
        ),
        cflags=chosen.get("cflags", ""),
        file_cflags=chosen.get("file_cflags", ()),
        compiler=chosen.get("compiler", "gcc"),
        cmdline=" ".join(layer.cmdline for layer in (kernel, *layers) if layer.cmdline),
        sysctl=tuple(sorted({k: v for la in (kernel, *layers) for k, v in la.sysctl}.items())),
        memcpy=None if memcpy == OWN_MEMCPY else memcpy,
        routines=tuple(it for it in chosen.get("routines", ()) if it[1] != OWN_MEMCPY),
        scheduler=None if scheduler == OWN_SCHEDULER else scheduler,
        cpus=chosen.get("cpus"),
        program_bits=PROGRAMS.get(chosen.get("programs", "")),
        levels=levels,
    )


def _refuse_contradictions(layers: Sequence[Layer], mistakes: Mistakes) -> None:
    """Two dimensions of a cell that set one thing differently would silently not be crossed."""
    fragments = [(fragment, layer) for layer in layers for fragment in layer.config]
    for index, (_fragment, layer) in enumerate(fragments):
        # Inside one layer this was told already, where the layer was read.
        others = [f for f, owner in fragments[:index] if owner is not layer]
        if text := contradiction([*others, fragments[index][0]]):
            mistakes.add((*layer.path, "config"), text)
    sysctls: dict[str, tuple[str, Layer]] = {}
    for layer in layers:
        for key, value in layer.sysctl:
            other, owner = sysctls.setdefault(key, (value, layer))
            if other != value:
                mistakes.add(
                    (*layer.path, "sysctl"),
                    f"{key} = {value} contradicts {key} = {other} in {spelled(owner.path)}",
                )
    for key in REPLACING:
        having = [layer for layer in layers if getattr(layer, key) is not None]
        for layer in having[1:]:
            if (getattr(layer, key), layer.file_cflags) != (
                getattr(having[0], key),
                having[0].file_cflags,
            ):
                mistakes.add(
                    (*layer.path, key),
                    f"{key} is set here and in {spelled(having[0].path)}: "
                    "which one applies in a cell that has both?",
                )


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
