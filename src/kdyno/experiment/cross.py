# SPDX-License-Identifier: MIT
"""The cross: variants from [kernel], [variant.NAME] and factors of kernels; cells of cases from
factors of cases.

A variant has two levels. What it and the factor levels of its cell say stands above what [kernel]
says: config, patches, cmdline and sysctl add (a value for the same option or sysctl replaces), the
other keys replace. Within one level nothing may contradict anything.

A factor of cases sets something in a case's arguments, or its levels are cases. Its cells are cases
of one boot, side by side, so they cost no kernel and no boot of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from os.path import commonprefix
from typing import Annotated, Any

from pydantic import PlainValidator

from kdyno.errors import UsageError
from kdyno.experiment.layer import (
    BEST,
    OWN_MEMCPY,
    OWN_SCHEDULER,
    Layer,
    Vocabulary,
    contradiction,
    option_of,
)
from kdyno.experiment.model import (
    NAME,
    PROGRAMS,
    ConfigFragment,
    Pairs,
    SuiteUse,
    Text,
    Variant,
)
from kdyno.reading.checked import Closed, keys_of, wrong
from kdyno.reading.mistakes import Mistakes, quoted, spelled, stands_where

MOST_VARIANTS = 10_000
VARIANT = "variant"
"""The factor that several [variant.NAME] are, where these are crossed with others."""
RUNNING = "running"
"""Name of the one variant of a machine that boots nothing."""
REPLACING = (
    *("source", "arch", "cflags", "compiler", "memcpy", "routines", "scheduler"),
    *("cpus", "programs"),
)
_SETTING = re.compile(r"[a-z][a-z0-9_]{0,39}")
_SETTING_RULE = "a setting is 1 to 40 of a-z, 0-9 and _, and begins with a letter"


def variants(
    kernel: Layer,
    explicit: Mapping[str, Layer],
    factors: Mapping[str, Mapping[str, Layer]],
    default_arch: str,
    mistakes: Mistakes,
) -> tuple[Variant, ...]:
    """Every cell, named ``VARIANT+LEVEL+LEVEL``, in the file's order.

    factors: factor → level → layer.
    """
    named = {name: levels for name, levels in factors.items() if levels}
    if not explicit and not named:
        return ()
    count = prod(map(len, named.values())) * max(1, len(explicit))
    if count > MOST_VARIANTS:
        what = f"the factors make {count} variants; at most {MOST_VARIANTS} are allowed. "
        mistakes.add(("factor",), f"{what}Drop a factor, or split the experiment")
        return ()
    cells: dict[str, Variant] = {}
    axes = [explicit, *named.values()] if explicit else list(named.values())
    for chosen in product(*(axis.items() for axis in axes)):
        words = [word for word, _layer in chosen]
        name = "+".join(words)
        path = ("factor",) if named else ("variant", name)
        if name in cells:
            mistakes.add(path, f"two cells have the same name {quoted(name)}. Rename a level")
        elif not NAME.fullmatch(name):
            mistakes.add(path, f"the name {quoted(name)} of a cell has more than 80 letters")
        else:
            levels = tuple(zip(named, words[len(axes) - len(named) :], strict=True))
            if len(explicit) > 1 and named:
                levels = ((VARIANT, words[0]), *levels)
            layers = [layer for _word, layer in chosen]
            cells[name] = _combined(name, levels, kernel, layers, default_arch, mistakes)
    return tuple(cells.values())


def _combined(
    name: str,
    levels: Pairs,
    kernel: Layer,
    own: Sequence[Layer],
    default_arch: str,
    mistakes: Mistakes,
) -> Variant:
    _refuse_contradictions(own, mistakes)
    layers = (kernel, *own)
    given = [
        (key, value)
        for layer in layers
        for key in REPLACING
        if (value := getattr(layer, key, None)) is not None
    ]
    chosen: dict[str, Any] = dict(given)
    if "source" not in chosen and not any(mistakes.has((*it.path, "source")) for it in layers):
        mistakes.add(
            kernel.path,
            "source is missing: which kernel? For example "
            'source = "debian:linux-source-6.12" in [kernel]',
        )
    cflags, file_cflags = chosen.get("cflags", ("", ()))
    memcpy, scheduler = chosen.get("memcpy"), chosen.get("scheduler")
    fragments = [fragment for layer in own for fragment in layer.fragments]
    # What the variant says of an option goes before what [kernel] says of it.
    options = {option_of(line) for fragment in fragments for line in fragment.lines}
    below = (
        replace(it, lines=tuple(line for line in it.lines if option_of(line) not in options))
        for it in kernel.fragments
    )
    return Variant(
        name=name,
        source=chosen.get("source", ""),
        arch=chosen.get("arch", default_arch),
        config=(*(fragment for fragment in below if fragment.lines), *fragments),
        patches=tuple(dict.fromkeys(patch for layer in layers for patch in layer.patches)),
        cflags=cflags,
        file_cflags=file_cflags,
        compiler=chosen.get("compiler", "gcc"),
        cmdline=" ".join(layer.cmdline.strip() for layer in layers if layer.cmdline.strip()),
        sysctl=tuple(sorted({k: v for layer in layers for k, v in layer.sysctl}.items())),
        memcpy=None if memcpy == OWN_MEMCPY else memcpy,
        routines=tuple(pair for pair in chosen.get("routines", ()) if pair[1] != OWN_MEMCPY),
        scheduler=None if scheduler == OWN_SCHEDULER else scheduler,
        cpus=chosen.get("cpus"),
        program_bits=PROGRAMS.get(chosen.get("programs", "")),
        levels=levels,
    )


def _refuse_contradictions(layers: Sequence[Layer], mistakes: Mistakes) -> None:
    """Two dimensions of a cell that set one thing differently would silently not be crossed."""
    before: list[ConfigFragment] = []
    sysctls: dict[str, tuple[str, Layer]] = {}
    first: dict[str, Layer] = {}
    for layer in layers:
        for fragment in layer.fragments:  # inside one layer it is told where the layer is read
            if problem := contradiction([*before, fragment]):
                mistakes.add((*layer.path, "config"), problem)
        before += layer.fragments
        for key, value in layer.sysctl:
            other, owner = sysctls.setdefault(key, (value, layer))
            if other != value:
                what = f"{key} = {value} contradicts {key} = {other} in {spelled(owner.path)}"
                mistakes.add((*layer.path, "sysctl"), what)
        for key in REPLACING:
            given = getattr(layer, key, None)
            if given is not None and given != getattr(first.setdefault(key, layer), key):
                what = f"{key} is set here and in {spelled(first[key].path)}: "
                what += "which one applies in a cell that has both?"
                mistakes.add((*layer.path, key), what)


def running(
    machine: str,
    kernel: Layer,
    explicit: Mapping[str, Layer],
    factors: Iterable[str],
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
        what = f"the machine {quoted(machine)} builds no kernels: no factor of kernels"
        mistakes.add(("factor", name), what)
    layers = [kernel, *([explicit[RUNNING]] if RUNNING in explicit else [])]
    for layer in layers:
        for key in keys_of(Layer):
            if key != "source" and getattr(layer, key):
                what = f"the machine {quoted(machine)} runs the kernel as it is: leave {key} out"
                mistakes.add((*layer.path, key), what)
    sources = [layer.source for layer in layers if layer.source]
    return (Variant(name=RUNNING, source=sources[-1] if sources else "", arch=machine),)


def with_best(variant: Variant, vocabulary: Vocabulary, mistakes: Mistakes) -> Variant:
    """The variant with a routine's name wherever it asks for the best, and why it is that one."""
    chosen: dict[str, tuple[str, str]] = {}
    for function, name in (("memcpy", variant.memcpy), *variant.routines):
        if name == BEST:
            try:
                chosen[function] = vocabulary.best(function, variant.arch)
            except UsageError as problem:
                mistakes.add(("variant", variant.name), str(problem))
                return variant
    memcpy = chosen["memcpy"][0] if variant.memcpy == BEST else variant.memcpy
    routines = tuple(
        (function, chosen[function][0] if name == BEST else name)
        for function, name in variant.routines
    )
    best = tuple((function, why) for function, (_name, why) in sorted(chosen.items()))
    return replace(variant, memcpy=memcpy, routines=routines, best=best)


def _settings(value: object) -> Pairs:
    if not isinstance(value, dict):
        raise ValueError(stands_where(value, "a table of tables"))
    for name, given in value.items():
        if not _SETTING.fullmatch(name):
            raise wrong((name,), f"{quoted(name)} is not a setting: {_SETTING_RULE}")
        if isinstance(given, bool) or not isinstance(given, int | float | str):
            raise wrong((name,), stands_where(given, "a number or text"))
        if not str(given).isprintable() or not str(given):
            raise wrong((name,), f"{quoted(given)} is empty or contains a control character")
    return tuple((name, str(given)) for name, given in value.items())


@dataclass(frozen=True)
class CaseLevel(Closed):
    """One level of a factor of cases: what fills ``{name}`` in arguments, or the case that this
    level is: ``{ set = { jobs = 4 } }`` or ``{ case = "fscopy-256" }``."""

    set: Annotated[Pairs, PlainValidator(_settings)] = ()
    case: Text = ""


CaseFactors = Mapping[str, Mapping[str, CaseLevel]]
"""Factor → level → what it does, in the file's order."""


def cells(
    uses: Iterable[SuiteUse], factors: CaseFactors, vocabulary: Vocabulary, mistakes: Mistakes
) -> tuple[SuiteUse, ...]:
    """The uses, those that a factor touches once for each of its levels.

    A case that no factor touches is measured once. A factor that touches no case is a mistake.
    """
    cells: list[SuiteUse] = []
    touched: set[str] = set()
    cases: set[str] = set()
    settings: set[str] = set()
    for use in uses:
        # In the user's own command line a level may set any {name}.
        own = re.findall(r"\{([a-z][a-z0-9_]*)\}", " ".join(use.command))
        groups: dict[tuple[str, ...], list[str]] = {}
        for case in use.cases:
            names = {*own, *vocabulary.settings.get(use.name, {}).get(case, ())}
            mine = tuple(
                factor
                for factor, levels in factors.items()
                if any(it.case == case or names & dict(it.set).keys() for it in levels.values())
            )
            groups.setdefault(mine, []).append(case)
            touched.update(mine)
            settings.update(names)
            cases.add(case)
        for mine, grouped in groups.items():
            cells += _cells_of(replace(use, cases=tuple(grouped)), {it: factors[it] for it in mine})
    for factor, levels in factors.items():
        if factor not in touched:
            wanted = sorted({name for level in levels.values() for name, _value in level.set})
            what = f"has a setting {' or '.join(wanted)}" if wanted else "is one of its levels"
            what = f"no case of this experiment {what}, so the factor changes nothing"
            mistakes.add(("factor", factor), what, allowed=sorted(settings) if wanted else ())
            continue
        for name, level in levels.items():
            if level.case and level.case not in cases:
                mistakes.add(
                    ("factor", factor, name),
                    f"{quoted(level.case)} is not a case that a [[suite]] here measures",
                    allowed=[case for use in uses for case in use.cases],
                    near=level.case,
                )
    return tuple(cells)


def _cells_of(use: SuiteUse, factors: CaseFactors) -> list[SuiteUse]:
    if not factors:
        return [use]
    named = [it.case for levels in factors.values() for it in levels.values() if it.case]
    cells = []
    for cell in product(*(levels.items() for levels in factors.values())):
        picked = {level.case for _name, level in cell if level.case}
        if cases := tuple(case for case in use.cases if picked <= {case}):
            cells.append(
                replace(
                    use,
                    cases=cases,
                    settings=tuple(pair for _name, level in cell for pair in level.set),
                    levels=tuple(zip(factors, (name for name, _level in cell), strict=True)),
                    family=commonprefix(named) + "*" if picked else "",  # noqa: RUF071
                )
            )
    return cells
