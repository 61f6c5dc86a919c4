# SPDX-License-Identifier: MIT
"""From an experiment's variants to images: everything cheap is checked before anything slow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kdyno import deferred
from kdyno.errors import BuildError, UsageError
from kdyno.experiment.cross import VARIANT, option_of
from kdyno.experiment.model import ConfigFragment, Experiment, Variant
from kdyno.kernels import cpu, scheduler
from kdyno.kernels.build import Report, build, configure_all, final_config, localized, silent
from kdyno.kernels.compiler import identify, refusal
from kdyno.kernels.config import (
    LostOptions,
    Option,
    Wish,
    has_sysctl,
    nearest_sysctl,
    never,
    options,
    unmet,
    values_of,
    wishes,
)
from kdyno.kernels.image import KEXEC, Image
from kdyno.kernels.leavings import FLAG
from kdyno.kernels.recipe import Recipe, recipe_of
from kdyno.kernels.routines.routine import Routine, of_variant
from kdyno.kernels.source import Progress, SourceSpec, Tree, at_hand, fetch, parse as parse_source
from kdyno.machines.kinds import KINDS
from kdyno.paths import data_root
from kdyno.reading.mistakes import KeyPath, Mistakes

_require_correct = deferred("kdyno.kernels.routines.checking:require_correct")
_own_config: Callable[..., tuple[str, str]] = deferred("kdyno.machines.examination:own_config")
_image_spec: Callable[[str], SourceSpec] = deferred("kdyno.kernels.installed:parse")
_image_at_hand: Callable[[SourceSpec, Path], bool] = deferred("kdyno.kernels.installed:at_hand")
_fetch_image: Callable[..., Image] = deferred("kdyno.kernels.installed:fetch")


@dataclass(frozen=True)
class Recipes:
    """What is to be built, and what was left out and why."""

    of: Mapping[str, Recipe]
    skipped: Mapping[str, str]
    notes: tuple[str, ...] = ()
    """What is worth knowing before they are built."""
    absent: tuple[str, ...] = ()
    """Sources and images that are not on this machine and were not to be fetched: their variants
    are in none of the others."""
    installed: Mapping[str, Image] = field(default_factory=dict)
    """What is not built, but measured as somebody else built it."""

    @property
    def digests(self) -> dict[str, str]:
        """Variant → digest of its image, built or not."""
        built = {name: recipe.digest for name, recipe in self.of.items()}
        return built | {name: image.digest for name, image in self.installed.items()}


@dataclass(frozen=True)
class Built:
    """Images by variant; ``failed``: variant → why there is none."""

    images: Mapping[str, Image]
    failed: Mapping[str, str] = field(default_factory=dict)


def check(
    experiment: Experiment,
    cache: Path,
    progress: Progress,
    *,
    refresh: bool = False,
    fetching: bool = True,
    new: bool = False,
    report: Report = silent,
) -> Recipes:
    """Fetch the sources, work out every recipe, and find all that is wrong with them. UsageError
    with every mistake, before anything is built. fetching: False leaves out variants whose source
    would have to come from elsewhere. new: of an experiment that has no run yet, two variants have
    to differ."""
    mistakes = experiment.mistakes()
    trees: dict[str, Tree | None] = {}
    recipes: dict[str, Recipe] = {}
    skipped: dict[str, str] = {}
    shipped: dict[str, Image | None] = {}
    for variant in experiment.variants:
        if variant.image:
            try:
                _installed_image(experiment, variant, cache, progress, shipped, refresh, fetching)
            except UsageError as problem:
                # A point release leaves the archive some day; what is wrong with a file stays so.
                gone = variant.image.startswith("debian:") and not problem.key
                if gone and experiment.skip_unsupported and variant.name != experiment.baseline:
                    skipped[variant.name] = f"skipped: {problem}"
                    shipped.pop(variant.image, None)  # the next of this image has the same reason
                else:
                    mistakes.add(_place(variant, problem.key or "image", mistakes), str(problem))
            continue
        routines = of_variant(variant.memcpy, variant.routines)
        key, lacking = _unsupported(variant, routines)
        if lacking:
            if not experiment.skip_unsupported or variant.name == experiment.baseline:
                mistakes.add(
                    _place(variant, key, mistakes),
                    f"variant {variant.name!r}: {lacking}. Leave it out, or set "
                    "`skip-unsupported = true` at the top of the experiment to have it skipped",
                )
            skipped[variant.name] = f"skipped: {lacking}"
            continue
        # A routine that copies wrong is not worth a kernel, let alone a measurement.
        _require_correct(routines, cache)
        try:
            if variant.source not in trees:
                trees[variant.source] = None
                spec = parse_source(variant.source)
                if fetching or at_hand(spec, cache):
                    trees[variant.source] = fetch(spec, cache, progress, refresh=refresh)
        except UsageError as problem:
            mistakes.add(_place(variant, "source", mistakes), str(problem))
        try:
            if (tree := trees[variant.source]) is None:
                identify(variant.compiler)
            elif recipe := _recipe(experiment, variant, tree, cache, refresh, fetching):
                recipes[variant.name] = recipe
                _refuse_small_xstate(variant, recipe)
            else:
                trees["the configuration of the box"] = None
                continue
        except UsageError as problem:
            mistakes.add(_place(variant, problem.key or "patches", mistakes), str(problem))
            continue
        _check_words(variant, recipes.get(variant.name), mistakes)
    notes = _check_options(experiment, recipes, cache, mistakes, report)
    _check_bootable(experiment, recipes, cache, mistakes)
    if new:
        notes += _check_twins(experiment, mistakes)
    mistakes.raise_any()
    absent = [name for name, part in (*trees.items(), *shipped.items()) if part is None]
    images = {v.name: image for v in experiment.variants if (image := shipped.get(v.image))}
    firsts: dict[object, str] = {}
    for each in (variant for variant in experiment.variants if variant.name in images):
        settings = (each.cmdline, each.sysctl, each.cpus, each.program_bits)
        first = firsts.setdefault((images[each.name].digest, *settings), each.name)
        if first != each.name:
            notes.append(f"{each.name} is the same kernel as {first}: both are {each.image}")
    return Recipes(recipes, skipped, tuple(dict.fromkeys(notes)), tuple(absent), images)


def _installed_image(
    experiment: Experiment,
    variant: Variant,
    cache: Path,
    progress: Progress,
    images: dict[str, Image | None],
    refresh: bool,
    fetching: bool,
) -> None:
    """Add a variant's image to those that are known. UsageError where it does not fit."""
    if experiment.measure.layouts:
        raise UsageError(
            f"variant {variant.name!r}: [layout] (--layouts) links kernels that kdyno builds, and "
            "an image is linked already"
        )
    if variant.image not in images:
        images[variant.image] = None
        spec = _image_spec(variant.image)
        if fetching or _image_at_hand(spec, cache):
            images[variant.image] = _fetch_image(spec, cache, progress, refresh=refresh)
    image = images[variant.image]
    if image is None:
        return
    if image.arch != variant.arch:
        raise UsageError(
            f"variant {variant.name!r}: {variant.image} is of arch {image.arch!r}: write "
            f"arch = {image.arch!r} beside it",
            key="arch",
        )
    bits = variant.program_bits
    if bits not in (None, image.word_bits) and (
        bits == 64 or "IA32_EMULATION" not in image.build["options"]
    ):
        raise UsageError(
            f"variant {variant.name!r}: {variant.image} runs no {bits}-bit programs", key="programs"
        )


def _recipe(
    experiment: Experiment, variant: Variant, tree: Tree, cache: Path, refresh: bool, fetching: bool
) -> Recipe | None:
    """Its recipe, on top of the machine's own configuration where ``config`` names that; None
    where the machine would have to be asked. UsageError for a machine that has none."""
    if experiment.measure.layouts:
        variant = replace(variant, cflags=f"{variant.cflags} {FLAG}".strip())
    machine, recipe = experiment.machine, recipe_of(variant, tree)
    origins = {part.origin for part in variant.config}
    owner = next((kind for kind in KINDS.values() if kind.own_name in origins), None)
    hosts = machine.all_hosts
    if owner is not None and owner.name != machine.kind:
        raise UsageError(
            f'variant {variant.name!r}: config = ["{owner.fragment}"] is the configuration of '
            f'{owner.label}; it goes with [machine] kind = "{owner.name}"',
            key="config",
        )
    if owner is None or not hosts[0]:  # no name: refused elsewhere
        return recipe
    try:
        config, lsmod = _own_config(hosts, cache, refresh, fetching)
    except LookupError:
        return None
    lines = localized(recipe, config, lsmod, cache, variant.name)
    # What the architecture sets is said once, whatever the box has.
    free = (line for line in lines if option_of(line) not in recipe.arch.config)
    own = ConfigFragment(f"{hosts[0]}'s own configuration", tuple(free))
    return recipe_of(replace(variant, config=(own, *variant.config)), tree)


def _check_bootable(
    experiment: Experiment, recipes: Mapping[str, Recipe], cache: Path, mistakes: Mistakes
) -> None:
    """What a kernel needs on the machine, and its final configuration does not have."""
    kind = KINDS[experiment.machine.kind]
    if not kind.fragment or mistakes.paths:
        return
    text = (data_root() / "kernel" / "config" / kind.own_name).read_text(encoding="utf-8")
    needs = wishes([ConfigFragment(kind.own_name, tuple(text.splitlines()))])
    for variant in experiment.variants:
        recipe = recipes.get(variant.name)
        config = final_config(cache, recipe) if recipe else None
        if config is not None and (lost := unmet(needs, config)):
            options = [wish.option for wish, _value in lost]
            names = ", ".join(options[:6]) + (" and others" if len(options) > 6 else "")
            text = f"variant {variant.name!r} would not start on {kind.label}: without {names}. "
            text += f'config = ["{kind.fragment}"] begins with the configuration of its own kernel'
            mistakes.add(_place(variant, "config", mistakes), text)


def _place(variant: Variant, key: str, mistakes: Mistakes) -> KeyPath:
    """Where the file gives ``key`` to the variant: in its own table, a level, or [kernel]."""
    has = mistakes.positions.has
    tables: list[KeyPath] = [
        ("variant", variant.name),
        *(("variant", b) if a == VARIANT else ("factor", a, b) for a, b in variant.levels),
        ("variant", variant.name.partition("+")[0]),
        ("kernel",),
    ]
    own = next(filter(has, tables), tables[0])
    return next(((*table, key) for table in tables if has((*table, key))), own)


def _check_words(variant: Variant, recipe: Recipe | None, mistakes: Mistakes) -> None:
    """Flags that the compiler refuses, sysctls that the source does not have."""
    compiler = recipe.compiler if recipe else identify(variant.compiler)
    bits = recipe.arch.word_bits if recipe else 64
    for file, flags in (("*", variant.cflags), *variant.file_cflags):
        if flags and (why := refusal(compiler, flags, bits)):
            path = _place(variant, "cflags", mistakes)
            inner = (*path, file) if mistakes.positions.has((*path, file)) else path
            mistakes.add(inner, f"{compiler.name} does not take {flags}: {why}", value=flags)
    if recipe is None:
        return
    for name, _value in variant.sysctl:
        tree, last = recipe.tree.path, name.rpartition(".")[2].encode()
        files = recipe.changes.files.values()
        patched = any(b'"%b"' % last in (content or b"") for content in files)
        if not patched and not has_sysctl(tree, name):
            text = f"the source has no sysctl {name}: no code of it names {last.decode()!r}"
            text += f"; nearest: {near}" if (near := nearest_sysctl(tree, name)) else ""
            mistakes.add(_place(variant, "sysctl", mistakes), text, value=name)


def _check_options(
    experiment: Experiment,
    recipes: Mapping[str, Recipe],
    cache: Path,
    mistakes: Mistakes,
    report: Report,
) -> list[str]:
    """What Kconfig makes of every variant; notes on those that it gives fewer CPUs than the machine
    has, or whose options come to the same."""
    variants = {variant.name: variant for variant in experiment.variants}
    lost: dict[str, list[tuple[Wish, str]]] = {}
    declared: dict[str, Mapping[str, Option]] = {}
    notes: list[str] = []
    for name, recipe in recipes.items():
        if final_config(cache, recipe) is None:
            if (key := recipe.kconfig_digest) not in declared:
                declared[key] = options(recipe.tree.path, recipe.changes, recipe.arch)
            whys = [(wish, never(wish, declared[key], recipe.arch)) for wish in recipe.wishes]
            if refused := [(wish, why) for wish, why in whys if why]:
                lost[name] = refused
    # What the Kconfig files say takes no time; Kconfig itself is asked about the others.
    for name, problem in configure_all({} if lost else recipes, cache, report).items():
        if isinstance(problem, LostOptions):
            lost[name] = problem.lost
        # Another kernel that does not even configure fails when it is built, alone.
    for name, wish, why in ((name, *item) for name, items in lost.items() for item in items):
        path = _place(variants[name], "config", mistakes)
        entry = f"{wish.line} (from {wish.origin})"
        if own := re.fullmatch(r".*\.config\[(\d+)\]", wish.origin):
            path, entry = (*path, int(own[1]) - 1), wish.line
        mistakes.add(path, f"{entry}: {why}", value=wish.option)
    alike: dict[tuple[object, ...], str] = {}
    for name, recipe in recipes.items():
        config = final_config(cache, recipe)
        if config is not None:
            values, cpus = values_of(config), variants[name].cpus
            most = int(values.get("CONFIG_NR_CPUS", 1)) if values.get("CONFIG_SMP") == "y" else 1
            text = f"its kernel is for {most} (CONFIG_SMP, CONFIG_NR_CPUS)"
            if cpus is not None and cpus > most:
                mistakes.add(_place(variants[name], "cpus", mistakes), f"{cpus} CPUs: {text}")
            elif cpus is None and (wanted := experiment.machine.cpus) > most:
                notes.append(f"{name} does not have the machine's {wanted} CPUs: {text}")
        if config is not None and not mistakes.paths:
            same = replace(variants[name], name="", levels=(), config=(), best=())
            first = alike.setdefault((config, recipe.changes.digest(), same), name)
            if first != name and variants[first].config != variants[name].config:
                notes.append(f"{name} is the same kernel as {first}: its options change nothing")
    return notes


def _check_twins(experiment: Experiment, mistakes: Mistakes) -> list[str]:
    """Two variants in which nothing differs; but that the best routine on this CPU, or the first
    that it can run, is another one's, is only worth a note."""
    notes: list[str] = []
    firsts: dict[Variant, Variant] = {}
    for variant in experiment.variants:
        first = firsts.setdefault(replace(variant, name="", levels=(), best=()), variant)
        text = f"{variant.name} is the same kernel as {first.name}"
        if first is not variant and variant.all_routines:
            routines = ", ".join(f"{k} = {v}" for k, v in variant.all_routines.items())
            notes.append(f"{text} here: {routines}")
        elif first is not variant:
            levels = variant.levels
            place = ("factor", levels[-1][0]) if levels else ("variant", variant.name)
            text += ": nothing differs. For the noise floor set calibrate = true in [measure]"
            mistakes.add(place, text)
    return notes


def changed(experiment: Experiment, recipes: Recipes, before: Mapping[str, str]) -> str | None:
    """A variant that is not what it was, before anything is built; None: none is known to be.
    before: variant → identity. That of a variant with a scheduler is known when this is built
    too."""
    loaded = {variant.name for variant in experiment.variants if variant.scheduler is not None}
    new = (name for name, digest in recipes.digests.items() if before.get(name, digest) != digest)
    return next((name for name in new if name not in loaded), None)


def build_all(
    experiment: Experiment,
    recipes: Recipes,
    cache: Path,
    *,
    jobs: int | None = None,
    report: Report = silent,
    notify: Callable[[str], None] = lambda _text: None,
) -> Built:
    """Build every recipe, the baseline first: the others start from its object tree. A variant that
    does not build is in ``failed``; the others go on. Options that do not survive are a UsageError
    before the first compilation."""
    images: dict[str, Image] = dict(recipes.installed)
    schedulers = {variant.name: variant.scheduler for variant in experiment.variants}
    failed: dict[str, str] = dict(recipes.skipped)
    baseline, measure = experiment.baseline, experiment.measure
    packed = KEXEC if KINDS[experiment.machine.kind].fragment else None

    def make(name: str, recipe: Recipe) -> None:
        # The baseline's copy is the same code, linked otherwise.
        links = measure.layouts * (1 + (name == baseline and measure.calibrate))
        image = build(
            recipe, cache, name=name, jobs=jobs, report=report, links=links, extract=packed
        )
        if source := schedulers.get(name):
            program = scheduler.build(source, recipe.tree, image.kernel, image.digest, cache)
            image = replace(image, scheduler=program)
        images[name] = image

    def settle(name: str, recipe: Recipe) -> None:
        for problem in configure_all({name: recipe}, cache, report).values():
            raise problem

    for step in (settle, make):
        for name, recipe in sorted(recipes.of.items(), key=lambda item: item[0] != baseline):
            try:
                if name not in failed:
                    step(name, recipe)
            except BuildError as problem:
                if name == baseline:
                    raise
                failed[name] = str(problem)
                notify(str(problem))
    return Built(images, failed)


def _refuse_small_xstate(variant: Variant, recipe: Recipe) -> None:
    """UML before 6.13 has a fixed place for a process's registers; AMX's do not fit. Its first user
    process would panic with "ptrace set fp regs failed". Later kernels ask the host for the
    size."""
    path = "arch/x86/um/user-offsets.c"
    original, text = recipe.tree.path / path, recipe.changes.files.get(path)
    if text is None and original.is_file():
        text = original.read_bytes()
    small = variant.arch.startswith("um") and b"HOST_FP_SIZE, 2696" in (text or b"")
    if small and "amx_tile" in cpu.flags():
        raise UsageError(
            f"variant {variant.name!r}: User Mode Linux {recipe.tree.version} cannot run on a CPU "
            "with AMX: it keeps 2696 bytes of registers a process, AMX needs 11008. "
            'Add patches = ["um-6.12-xstate.patch"] to [kernel], or take a later kernel'
        )


def _unsupported(variant: Variant, routines: Iterable[Routine]) -> tuple[str, str]:
    """(key of the file, what of its value this CPU lacks); the second is empty where nothing is."""
    for routine in routines:
        if missing := cpu.missing(routine.requires):
            which = f"{routine.function} routine {routine.name!r}"
            return "memcpy", f"{which} needs {', '.join(missing)}, which this CPU lacks"
    flags = [variant.cflags, *(flags for _file, flags in variant.file_cflags)]
    lacking = ", ".join(dict.fromkeys(cpu.missing(cpu.needed_by(" ".join(flags)))))
    return "cflags", f"its cflags need {lacking}, which this CPU lacks" if lacking else ""
