# SPDX-License-Identifier: MIT
"""The cross: variants from [kernel], [variant.NAME] and factors of kernels; cells of cases from
factors of cases, which are measured side by side in one boot. A variant's own keys and those of its
cell's levels stand above [kernel]: config, patches, cmdline and sysctl add (a value for the same
option or sysctl replaces), the other keys replace. Within one level nothing may contradict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from os.path import commonprefix
from pathlib import Path
from typing import Any, TypeVar

from kdyno.errors import UsageError
from kdyno.experiment.model import (
    BEST,
    NAME,
    OWN_MEMCPY,
    OWN_SCHEDULER,
    PROGRAMS,
    ConfigFragment,
    Layer,
    Level,
    Pairs,
    Place,
    SuiteUse,
    Variant,
    Vocabulary,
    exists,
    names_in,
)
from kdyno.reading.checked import keys_of
from kdyno.reading.mistakes import KeyPath, Mistakes, meant, quoted, spelled
from kdyno.store.boot import plain_name

MOST_CELLS = 10_000
VARIANT = "variant"
"""The factor that several [variant.NAME] are, where these are crossed with others."""
RUNNING = "running"
"""Name of the one variant of a machine that boots nothing."""
REPLACING = (
    *("source", "image", "arch", "cflags", "compiler", "memcpy", "routines", "scheduler"),
    *("cpus", "programs"),
)
BUILDING = ("source", "config", "patches", "cflags", "compiler", "memcpy", "routines", "scheduler")
"""Keys that say how a kernel is built, or need its source."""
_LINE = re.compile(r'CONFIG_(\w+)=(y|m|n|-?\d+|0[xX][0-9a-fA-F]+|"(?:\\.|[^"\\])*")', re.ASCII)
_LINE_RULE = 'a line is CONFIG_X=y, =m, =n, =NUMBER, ="TEXT", or "# CONFIG_X is not set"'
_LARGEST_CONFIG_BYTES = 1 << 20
L = TypeVar("L", bound=Layer)
Origins = dict[str, tuple[str, str]]
"""Option → its last line, and where that comes from."""


def placed(layer: L, path: KeyPath, place: Place, machine: str, mistakes: Mistakes) -> L:
    """The layer that stands at ``path`` of the file, with the fragments that its ``config`` names:
    looked up beside the experiment, and then in those of kdyno. Beside NAME.config may lie
    NAME.MACHINE.config, with what kernels for that kind of machine need besides."""
    fragments: list[ConfigFragment] = []
    before: Origins = {}
    for index, entry in enumerate(layer.config):
        at = (*path, "config", index)
        if (line := normal_line(entry)) is not None:
            named = [ConfigFragment(spelled(at), (line,))]
        elif "=" in entry or entry.startswith("#") or entry.upper().startswith("CONFIG_"):
            what = f"{quoted(entry)} is not a configuration line: {_LINE_RULE}"
            mistakes.add(at, what, value=entry)
            continue
        else:
            named = _from_files(at, entry, place, machine, mistakes)
        for fragment in named:
            if problem := _contradiction(before, fragment):
                mistakes.add(at, problem, value=entry)
            before |= _origins(fragment)
            fragments.append(fragment)
    if layer.image and (why := place.vocabulary.no_images.get(machine)):
        mistakes.add((*path, "image"), f"the machine {quoted(machine)} {why}")
    return replace(layer, path=path, fragments=tuple(fragments))


def normal_line(line: str) -> str | None:
    """The line as a .config has it; None when it is not a configuration line."""
    if match := _LINE.fullmatch(line):
        return line if match[2] != "n" else f"# CONFIG_{match[1]} is not set"
    return line if re.fullmatch(r"# CONFIG_\w+ is not set", line, re.ASCII) else None


def option_of(line: str) -> str:
    """``CONFIG_X`` of a normal line."""
    return line.split(" ", 2)[1] if line.startswith("#") else line.partition("=")[0]


def _origins(fragment: ConfigFragment) -> Origins:
    return {option_of(line): (line, fragment.origin) for line in fragment.lines}


def _contradiction(before: Origins, last: ConfigFragment) -> str | None:
    """How the last fragment contradicts an earlier one, or None."""
    for line in last.lines:
        other, origin = before.get(option_of(line), (line, ""))
        if other != line:
            return f"{line!r} (from {last.origin}) contradicts {other!r} (from {origin})"
    return None


def _from_files(
    at: KeyPath, entry: str, place: Place, machine: str, mistakes: Mistakes
) -> list[ConfigFragment]:
    folders = [place.folder, *place.vocabulary.fragment_dirs]
    # A program that lies beside the experiment may have a fragment's name.
    candidates = [folder / name for name in (f"{entry}.config", entry) for folder in folders]
    file = next((candidate for candidate in candidates if exists(candidate)), None)
    if file is None:
        stems = (Path(name).stem for folder in folders for name in names_in(folder, "*.config"))
        names = sorted({stem for stem in stems if "." not in stem})
        hint = meant(entry.removesuffix(".config"), names, '. Did you mean "{}"?') or "."
        what = f"{quoted(entry)} is neither a fragment nor a file beside the experiment{hint}"
        what += f" Fragments: {', '.join(names) or 'none'}; or write CONFIG_X=y"
        mistakes.add(at, what, value=entry)
        return []
    besides = file.with_name(f"{file.stem}.{machine}.config")
    fragments = []
    for path in (file, besides) if file.suffix == ".config" and exists(besides) else (file,):
        try:
            if path.stat().st_size > _LARGEST_CONFIG_BYTES:
                mistakes.add(at, f"{path.name} is larger than 1 MB, so it is not a fragment")
                continue
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            mistakes.add(at, f"{path.name} cannot be read: {problem}", value=entry)
            continue
        lines: dict[str, tuple[str, int]] = {}
        for number, raw in enumerate(text.splitlines(), start=1):
            stripped = raw.strip()
            if (line := normal_line(stripped)) is not None:
                earlier, before = lines.setdefault(option_of(line), (line, number))
                if earlier != line:
                    what = f"line {before} has {earlier!r}, line {number} {line!r}"
                    mistakes.add(at, f"{path.name} contradicts itself: {what}", value=path.name)
            elif stripped and not stripped.startswith("#"):
                what = f"{quoted(stripped)} is not a configuration line: {_LINE_RULE}"
                mistakes.add(at, f"{path.name}, line {number}: {what}", value=path.name)
        fragments.append(ConfigFragment(path.name, tuple(line for line, _number in lines.values())))
    return fragments


def variants(
    kernel: Layer,
    explicit: Mapping[str, Layer],
    factors: Mapping[str, Mapping[str, Layer]],
    default_arch: str,
    mistakes: Mistakes,
) -> tuple[Variant, ...]:
    """Every cell, ``VARIANT+LEVEL+LEVEL``, in the file's order. factors: factor → level → layer."""
    named = {name: levels for name, levels in factors.items() if levels}
    if not explicit and not named:
        return ()
    axes = [explicit, *named.values()] if explicit else list(named.values())
    if (count := prod(map(len, axes))) > MOST_CELLS:
        what = f"the factors make {count} variants; at most {MOST_CELLS} are allowed. "
        mistakes.add(("factor",), f"{what}Drop a factor, or split the experiment")
        return ()
    cells: dict[str, Variant] = {}
    files: dict[str, str] = {}
    for chosen in product(*(axis.items() for axis in axes)):
        words = [word for word, _layer in chosen]
        name = "+".join(words)
        path = ("factor",) if named else ("variant", name)
        if name in cells:
            mistakes.add(path, f"two cells have the same name {quoted(name)}. Rename a level")
        elif not NAME.fullmatch(name):
            mistakes.add(path, f"the name {quoted(name)} of a cell has more than 80 letters")
        else:
            if (other := files.setdefault(plain_name(name), name)) != name:
                what = f"its file would be that of {quoted(other)}, {plain_name(name)}.json"
                mistakes.add(path, f"{quoted(name)}: {what}. Rename one of the two")
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
    _check_contradictions(own, mistakes)
    layers = (kernel, *own)
    # What stands nearer to the variant is written later: vm.dirty_ratio undoes vm.dirty_bytes.
    sysctls: dict[str, str] = {}
    for layer in layers:
        for option, setting in layer.sysctl.items():
            sysctls.pop(option, None)
            sysctls[option] = setting
    chosen: dict[str, Any] = {
        key: value
        for layer in layers
        for key in REPLACING
        if (value := getattr(layer, key, None)) is not None
    }
    variant = Variant(
        name=name,
        source="",
        arch=chosen.get("arch", default_arch),
        cmdline=" ".join(layer.cmdline.strip() for layer in layers if layer.cmdline.strip()),
        sysctl=tuple(sysctls.items()),
        cpus=chosen.get("cpus"),
        program_bits=PROGRAMS.get(chosen.get("programs", "")),
        levels=levels,
    )
    # Of source and image what stands nearer to the variant.
    own_image = any(layer.image for layer in own)
    if own_image or (kernel.image and not any(layer.source for layer in own)):
        # How [kernel] builds others is not about a variant that is built already.
        for layer in own if own_image else layers:
            for key in BUILDING:
                at = (*layer.path, key)
                if getattr(layer, key) and not mistakes.has(at):
                    what = f"image is a kernel that is built already: leave {key} out. cmdline and "
                    mistakes.add(at, f"{what}sysctl go with it; another kernel is another variant")
        return replace(variant, image=chosen["image"])
    if "source" not in chosen and not any(
        mistakes.has((*layer.path, key)) for layer in layers for key in ("source", "image")
    ):
        mistakes.add(
            kernel.path,
            "source is missing: which kernel? For example "
            'source = "debian:linux-source-6.12" in [kernel]',
        )
    cflags = dict(chosen.get("cflags", ()))
    memcpy, scheduler = chosen.get("memcpy"), chosen.get("scheduler")
    fragments = [fragment for layer in own for fragment in layer.fragments]
    # A variant's value of an option replaces that of [kernel].
    options = {option_of(line) for fragment in fragments for line in fragment.lines}
    below = (
        replace(part, lines=tuple(line for line in part.lines if option_of(line) not in options))
        for part in kernel.fragments
    )
    return replace(
        variant,
        source=chosen.get("source", ""),
        config=(*(fragment for fragment in below if fragment.lines), *fragments),
        patches=tuple(dict.fromkeys(patch for layer in layers for patch in layer.patches)),
        cflags=cflags.pop("*", ""),
        file_cflags=tuple(sorted(cflags.items())),
        compiler=chosen.get("compiler", "gcc"),
        memcpy=None if memcpy == OWN_MEMCPY else memcpy,
        routines=tuple(pair for pair in chosen.get("routines", ()) if pair[1] != OWN_MEMCPY),
        scheduler=None if scheduler == OWN_SCHEDULER else scheduler,
    )


_WHICH = "which one applies in a cell that has both?"


def _check_contradictions(layers: Sequence[Layer], mistakes: Mistakes) -> None:
    """Two dimensions of a cell that set one thing differently would silently not be crossed."""
    before: Origins = {}
    sysctls: dict[str, tuple[str, Layer]] = {}
    first: dict[str, Layer] = {}
    for layer in layers:
        for fragment in layer.fragments:  # those inside one layer: see placed
            if problem := _contradiction(before, fragment):
                mistakes.add((*layer.path, "config"), problem)
        for fragment in layer.fragments:
            before |= _origins(fragment)
        for key, value in layer.sysctl.items():
            other, owner = sysctls.setdefault(key, (value, layer))
            if other != value:
                what = f"{key} = {value} contradicts {key} = {other} in {spelled(owner.path)}"
                mistakes.add((*layer.path, "sysctl"), what)
        for key in REPLACING:
            given = getattr(layer, key, None)
            if given is not None and given != getattr(first.setdefault(key, layer), key):
                what = f"{key} is set here and in {spelled(first[key].path)}: {_WHICH}"
                mistakes.add((*layer.path, key), what)


def running(
    machine: str,
    kernel: Layer,
    explicit: Mapping[str, Layer],
    factors: Iterable[str],
    mistakes: Mistakes,
) -> tuple[Variant, ...]:
    """For the kind of machine called ``machine``, which boots nothing. [kernel] and
    [variant.running] may name a source, for cases that compile one."""
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
    layers = [kernel, *(layer for name, layer in explicit.items() if name == RUNNING)]
    for layer in layers:
        for key in keys_of(type(layer)):
            if key != "source" and getattr(layer, key):
                what = f"the machine {quoted(machine)} runs the kernel as it is: leave {key} out"
                mistakes.add((*layer.path, key), what)
    sources = [layer.source for layer in layers if layer.source]
    return (Variant(name=RUNNING, source=sources[-1] if sources else "", arch=machine),)


def with_best(variant: Variant, vocabulary: Vocabulary, mistakes: Mistakes) -> Variant:
    """The variant with a routine's name in place of "best", and why it is that one."""
    routines = variant.all_routines
    try:
        best = {
            function: vocabulary.best(function, variant.arch)
            for function, name in sorted(routines.items())
            if name == BEST
        }
    except UsageError as problem:
        mistakes.add(("variant", variant.name), str(problem))
        return variant
    routines |= {function: name for function, (name, _why) in best.items()}
    memcpy = routines.pop("memcpy", None)
    reasons = tuple((function, why) for function, (_name, why) in best.items())
    return replace(variant, memcpy=memcpy, routines=tuple(routines.items()), best=reasons)


CaseFactors = Mapping[str, Mapping[str, Level]]
"""Factor → level → what it does, in the file's order."""


def cells(
    uses: Iterable[SuiteUse], factors: CaseFactors, vocabulary: Vocabulary, mistakes: Mistakes
) -> tuple[SuiteUse, ...]:
    """The uses, those that a factor touches once for each of its levels. A case that no factor
    touches is measured once. A factor that touches no case is a mistake, and so are very many."""
    cells: list[SuiteUse] = []
    setters: dict[str, str] = {}
    for factor, levels in factors.items():
        for name in {name for level in levels.values() for name in level.set}:
            if (first := setters.setdefault(name, factor)) != factor:
                what = f"{name} is set by the factor {first} too: {_WHICH}"
                mistakes.add(("factor", factor), what)
    touched: set[str] = set()
    cases: set[str] = set()
    settings: set[str] = set()
    for use in uses:
        # In the user's own command line a level may set any {name}.
        own = re.findall(r"\{([a-z][a-z0-9_]*)\}", " ".join(use.command))
        groups: dict[tuple[str, ...], list[str]] = {}
        for case in use.cases:
            names = {*own, *vocabulary.settings.get(use.name, {}).get(case, ())}
            touching = tuple(
                factor
                for factor, levels in factors.items()
                if any(level.case == case or names & level.set.keys() for level in levels.values())
            )
            groups.setdefault(touching, []).append(case)
            touched.update(touching)
            settings.update(names)
            cases.add(case)
        for touching, grouped in groups.items():
            crossed = {factor: factors[factor] for factor in touching}
            if (count := len(cells) + prod(map(len, crossed.values()))) > MOST_CELLS:
                what = f"the factors make {count} cells of cases; at most {MOST_CELLS} are allowed"
                mistakes.add(("factor",), f"{what}. Drop a factor, or split the experiment")
                return ()
            cells += _cells_of(replace(use, cases=tuple(grouped)), crossed)
    for factor, levels in factors.items():
        if factor not in touched:
            wanted = sorted({name for level in levels.values() for name in level.set})
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
    named = [level.case for levels in factors.values() for level in levels.values() if level.case]
    cells = []
    for cell in product(*(levels.items() for levels in factors.values())):
        picked = {level.case for _name, level in cell if level.case}
        if cases := tuple(case for case in use.cases if picked <= {case}):
            cells.append(
                replace(
                    use,
                    cases=cases,
                    settings=tuple(pair for _name, level in cell for pair in level.set.items()),
                    levels=tuple(zip(factors, (name for name, _level in cell), strict=True)),
                    family=commonprefix(named) + "*" if picked else "",  # noqa: RUF071
                )
            )
    return cells
