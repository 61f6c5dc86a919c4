# SPDX-License-Identifier: MIT
"""Build the image of a recipe: start from a trunk, configure, make, install."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kdyno import sandbox, whole
from kdyno.command import TOO_LONG, capture, require, stream
from kdyno.errors import BuildError, KdynoError, ToolError, UsageError
from kdyno.experiment.cross import option_of
from kdyno.experiment.model import ConfigFragment, Variant
from kdyno.kernels import image as images, leavings
from kdyno.kernels.changes import BUILD_OBJECTS, BUILD_SOURCE, Changes, flatten, lay
from kdyno.kernels.config import LostOptions, local_lines, lost_options, parse_line, unmet
from kdyno.kernels.image import INSTALLED, Extract, Image, Start
from kdyno.kernels.recipe import (
    SUFFIX_LETTERS,
    Recipe,
    compile_cache,
    foreign_suffix,
    recipe_of,
    source_parts,
)
from kdyno.kernels.routines.routine import FUNCTIONS
from kdyno.kernels.sources.tree import Tree
from kdyno.sandbox import BUILD, around

LEAST_FREE_BYTES = 700_000_000
# A build that failed with less than this free failed for lack of space, whatever it says.
_FULL_BYTES = 1_000_000
_CCACHE = "/tmp/kdyno/ccache"
_UNUSED_KEPT_S = 30 * 24 * 3600
_KEPT_OBJECTS = 100
"""A build that compiled more than this is a better start for the next than what it started from."""
# The same in every build, so that equal inputs give equal images.
_FIXED = (
    "KBUILD_BUILD_TIMESTAMP=2020-01-01",
    "KBUILD_BUILD_USER=kdyno",
    "KBUILD_BUILD_HOST=kdyno",
    "KBUILD_BUILD_VERSION=1",
    "LOCALVERSION=",
)
# Kbuild's short form: two spaces, the step, the file. Host tools count as well.
_STEP = re.compile(r"^  [A-Z]+\b.* \S+$")
_COMPILED = re.compile(r"^  (CC|AS) +(?:\[M\] +)?(\S+)$")
_ERROR = re.compile(
    r"(?:\b(?:error|Error)\b[: ]|undefined reference|multiple definition|No rule to make"
    r"|\*\*\* |not found|cannot find|No such file|No space left|^bwrap: )"
)
_ERROR_LINES, _LINE_LETTERS = 12, 2000
_KEPT_LOG_BYTES = 8 << 20
"""Of the beginning, and of the end, of a failed build's log: of a longer one the middle goes."""
_ROUNDS = 8
"""Options that are lost take along those that depend on them."""


@dataclass(frozen=True)
class BuildProgress:
    """One step of a build. ``total`` is None while nobody can know it."""

    variant: str
    phase: str
    """copy, configure, compile, link, install, collect, done, waiting"""
    objects: int
    total: int | None
    elapsed_s: float
    detail: str = ""

    @property
    def left_s(self) -> float | None:
        """Seconds left at the pace so far; None before that means anything."""
        if self.total is None or self.objects < 10:
            return None
        return max(0.0, self.elapsed_s / self.objects * (self.total - self.objects))


Report = Callable[[BuildProgress], None]


def silent(_progress: BuildProgress) -> None:
    """A Report that shows nothing."""


def error_lines(log: str) -> list[str]:
    """The compiler's and make's own lines about what failed, in order, without repeats. Where only
    make complains, the lines before its complaint are the failed program's."""
    lines = [line for line in log.splitlines() if line.strip() and line[:2] != "$ "]
    errors = [at for at, line in enumerate(lines) if _ERROR.search(line)]
    own = [lines[at] for at in errors if not lines[at].startswith(("make", "gmake"))]
    if not own and errors:
        own = lines[max(0, errors[0] - 4) : errors[0]] + [lines[at] for at in errors]
    ended = [line for line in lines[-1:] if line.startswith(TOO_LONG)]
    first = list(dict.fromkeys([*ended, *(own or lines[-4:])]))[:_ERROR_LINES]
    return [line[:_LINE_LETTERS] for line in first]


@dataclass
class _Build:
    """A build in progress: its folders, how make is run in it, its counts."""

    name: str
    recipe: Recipe
    cache: Path
    work: Path
    report: Report
    start: Start = field(default_factory=Start)
    jobs: int = 1
    extract: Extract | None = None
    links: int = 0
    began_s: float = field(default_factory=time.monotonic)
    objects: int = 0
    total: int | None = None
    commands: list[str] = field(default_factory=list)
    mounts: tuple[tuple[Path, str], ...] = ()
    """The source's parts, (path on the host, path inside), where there is a sandbox."""

    def __post_init__(self) -> None:
        self.obj, self.log = self.work / "obj", self.work / "build.log"
        # Of the last full build of this architecture.
        self.ratio_file = self.cache / f"objects-per-option-{self.recipe.arch.name}"
        # Everything is compiled.
        self.full = self.start.objects is None or not self.start.same_flags
        self.compiled = self.extract.compiled_by(self.recipe) if self.extract else self.recipe
        overlay = self.work / "overlay"
        overlay.mkdir()
        tree = self.recipe.tree.path
        files: dict[str, bytes | None] = dict(self.recipe.changes.files)
        executable = set(self.recipe.changes.executable)
        for path in self.start.restored:
            if (tree / path).is_file():
                files[path] = (tree / path).read_bytes()
                if (tree / path).stat().st_mode & 0o100:
                    executable.add(path)
        changes = Changes(files, frozenset(executable))
        if sandbox.require():
            self.source, self.objects_at = BUILD_SOURCE, BUILD_OBJECTS
            self.mounts = lay(tree, changes, overlay, self.start.fresh)
        else:
            self.source = str(flatten(tree, changes, overlay, self.start.fresh))
            self.objects_at = str(self.obj)

    def tell(self, phase: str, detail: str = "") -> None:
        elapsed_s = time.monotonic() - self.began_s
        self.report(BuildProgress(self.name, phase, self.objects, self.total, elapsed_s, detail))

    def compile(self, failure: str = "make failed") -> None:
        """make the kernel, and report each object. BuildError."""

        def line(text: str) -> None:
            if _COMPILED.match(text):
                self.objects += 1
                self.tell("compile", text.split()[-1])
            elif _STEP.match(text) and ("vmlinux" in text or text.startswith("  LINK")):
                self.tell("link", text.split()[-1])

        goals = [self.recipe.arch.goal]
        installs = self.extract is not None and self.extract.installs
        modular = "\nCONFIG_MODULES=y\n" in leavings.read_text(self.obj, ".config")
        if installs:
            goals += ["bzImage", *(["modules"] if modular else [])]
        # Neither make nor ccache, which need not preprocess, sees what .incbin brings into an
        # object, such as User Mode Linux' stub: only another command line makes another one.
        # piggy.S, which is generated, brings in the kernel.
        made_of = f"{self.recipe.tree.digest} {self.recipe.changes.digest()} {self.compiled.cflags}"
        inputs = hashlib.sha256(made_of.encode()).hexdigest()[:16]
        flags = [f"AFLAGS_{each}.o=-DKDYNO_INPUTS=0x{inputs}" for each in self.recipe.embedding]
        flags.append(f"AFLAGS_piggy.o=-DKDYNO_BUILD=0x{time.monotonic_ns():x}")
        self.make(*flags, *goals, f"-j{self.jobs}", line=line, failure=failure)
        if installs and modular:
            place = f"INSTALL_MOD_PATH={self.objects_at}/{INSTALLED}"
            # depmod is called where they are installed in earnest.
            self.make("modules_install", place, "INSTALL_MOD_STRIP=1", "DEPMOD=true")

    def make(
        self,
        *arguments: str,
        failure: str = "",
        line: Callable[[str], None] = lambda _line: None,
        defaults: bool = False,
    ) -> None:
        """Run make in the object tree, in the sandbox at fixed paths or plainly. BuildError.
        defaults: whatever it asks about is answered by an empty line."""
        # What the compiler writes beside an object is in no compile cache.
        ccache = None if self.extract and self.extract.flags else shutil.which("ccache")
        command = ["make", "-C", self.source, f"O={self.objects_at}", *self.recipe.arch.make]
        command += self.recipe.compiler.make_arguments(ccache)
        if self.compiled.cflags:
            command.append(f"KCFLAGS={self.compiled.cflags}")
        command += [*_FIXED, *arguments]
        if defaults:
            command = ["sh", "-c", 'yes "" | "$@"', "sh", *command]
        self.commands.append(shlex.join(command))
        compiled, own = compile_cache(self.cache, self.recipe.foreign)
        inside = sandbox.require()
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LC_ALL": "C",
            "HOME": "/tmp",
            "CCACHE_DIR": _CCACHE if inside else str(compiled),
            "CCACHE_MAXSIZE": "2G",
            # Kbuild lists the headers of each object, so ccache need not preprocess it to know
            # them. All read the configuration's: only the same configuration is a hit.
            "CCACHE_DEPEND": "1",
            "CCACHE_NAMESPACE": self.recipe.namesakes,
            # The paths inside are the same for every build; stay clear of the user's settings.
            "CCACHE_CONFIGPATH": "/dev/null",
            "CCACHE_TEMPDIR": "/tmp/kdyno-ccache" if inside else str(self.work / "ccache"),
            **({} if own else {"CCACHE_READONLY": "1", "CCACHE_NOSTATS": "1"}),
        }
        compiled.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # a cache that others own and this user only reads
            os.utime(compiled)
        if inside:
            sandbox.hand_over(self.obj, BUILD)
            shared = ((compiled, _CCACHE),)
            if own:
                sandbox.hand_over(compiled, BUILD)
            compiler = around(Path(self.recipe.compiler.path))
            command = sandbox.Sandbox(
                BUILD,
                read_only=(*compiler, *self.mounts, *(() if own else shared)),
                writable=((self.obj, BUILD_OBJECTS), *(shared if own else ())),
                chdir=BUILD_OBJECTS,
            ).argv(command)
        if stream(command, log=self.log, env=environment, line=line) != 0:
            raise BuildError(failure or f"make {arguments[0]} failed")


def build(
    recipe: Recipe,
    cache: Path,
    *,
    name: str,
    jobs: int | None = None,
    report: Report = silent,
    from_scratch: bool = False,
    extract: Extract | None = None,
    links: int = 0,
) -> Image:
    """The image of ``recipe``, from the cache when it is there. name: the variant, for messages.
    extract: what must lie beside the image too. links: as many images more, of the same objects
    linked in orders by the seeds 1, 2 …. Raises BuildError with the compiler's lines, UsageError
    for options that did not survive, ToolError when the machine is at fault."""
    if (image := _find(cache, recipe, links)) and image.has(extract):
        return image

    def waiting(holder: str) -> None:
        text = f"{holder} is building the same image; waiting for it"
        report(BuildProgress(name, "waiting", 0, None, 0.0, text))

    with whole.locked(cache / "images" / f".{recipe.digest}.lock", waiting):
        if (image := _find(cache, recipe, links)) and image.has(extract):
            return image
        start = Start()
        if not from_scratch:
            compiled = extract.compiled_by(recipe) if extract else recipe
            final = final_config(cache, compiled)
            # What a compiler leaves for an extract is of every object that is there.
            start = images.choose(
                cache, compiled, final, same_objects=bool(extract and extract.flags)
            )
        count = jobs or os.cpu_count() or 1
        with _begun(name, recipe, cache, report, start, count, extract, links) as job:
            return _run(job)


@contextmanager
def _begun(name: str, recipe: Recipe, cache: Path, *more: Any) -> Iterator[_Build]:
    """A build in a folder of its own. Its failure gets the compiler's lines."""
    require("make", "to build kernels")
    whole.sweep(cache / "work")  # what killed builds left may be the space that is missing
    whole.require_space(cache, LEAST_FREE_BYTES)
    # Compilations of sources, and programs of Kconfigs, that nobody built from for a month.
    for folder in (*(cache / "ccache").glob("?" * SUFFIX_LETTERS), *(cache / "kconfig").glob("*")):
        if folder.is_dir() and time.time() - folder.stat().st_mtime > _UNUSED_KEPT_S:
            whole.remove(folder, cache / "work")
    with whole.scratch("build", cache / "work") as work:
        try:
            yield _Build(name, recipe, cache, work, *more)
        except (BuildError, OSError) as problem:
            raise _explained(name, recipe, cache, work, problem) from problem


def _find(cache: Path, recipe: Recipe, links: int) -> Image | None:
    """With as many links; None where any of them is missing."""
    wanted = (recipe, *_linked(recipe, links))
    present = [image for digest in wanted if (image := images.find(cache, digest)) is not None]
    return replace(present[0], links=tuple(present[1:])) if len(present) == links + 1 else None


def _linked(recipe: Recipe, links: int) -> Iterator[Recipe]:
    return (replace(recipe, layout=seed) for seed in range(1, links + 1))


def configure_all(
    recipes: Mapping[str, Recipe], cache: Path, report: Report = silent
) -> dict[str, KdynoError]:
    """Make the final .config of recipes without building, so that lost options show early. Does
    nothing where the configuration or the image is in the cache already. Variant → why it has none:
    LostOptions, BuildError where Kconfig itself fails."""
    problems: dict[str, KdynoError] = {}
    for name, recipe in recipes.items():
        try:
            if final_config(cache, recipe) is None:
                with _begun(name, recipe, cache, report) as job:
                    _configure(job)
        except (UsageError, BuildError) as problem:
            problems[name] = problem
    return problems


def accepted(
    variant: Variant, tree: Tree, lines: tuple[str, ...], cache: Path, report: Report = silent
) -> tuple[tuple[str, ...], Recipe]:
    """Those of ``lines``, on top of the variant's own, that Kconfig accepts in the tree; and the
    recipe with them. LostOptions where the variant's own do not survive; BuildError."""
    for _round in range(_ROUNDS):
        own = (*variant.config, ConfigFragment("its configuration", lines))
        recipe = recipe_of(replace(variant, config=own), tree)
        problem = configure_all({variant.name: recipe}, cache, report).get(variant.name)
        if problem is None:
            return lines, recipe
        if not isinstance(problem, LostOptions):
            raise problem
        lost = {wish.option for wish, _why in problem.lost}
        left = tuple(line for line in lines if option_of(line) not in lost)
        if left == lines:
            raise problem
        lines = left
    raise BuildError(f"{variant.name}: its configuration does not come to rest")


def localized(recipe: Recipe, config: str, lsmod: str, cache: Path, name: str) -> tuple[str, ...]:
    """The lines of a configuration of elsewhere as this source has it, with the recipe's own wishes
    and of its modules those alone that ``lsmod`` lists: ``make localmodconfig``. BuildError."""
    lines = "\n".join((*local_lines(config), *(wish.line for wish in recipe.wishes), ""))
    key = hashlib.sha256(f"{recipe.config_digest}\0{lines}\0{lsmod}".encode()).hexdigest()[:32]
    saved = cache / "configs" / f"{key}{foreign_suffix(recipe.foreign)}.local"
    if not saved.is_file():
        with _begun(name, recipe, cache, silent) as job:
            job.obj.mkdir()
            leavings.write(job.obj / ".config", lines.encode())
            leavings.write(job.obj / "lsmod", lsmod.encode())
            job.make("olddefconfig")
            job.make("localmodconfig", f"LSMOD={job.objects_at}/lsmod", defaults=True)
            saved.parent.mkdir(parents=True, exist_ok=True)
            whole.write(saved, leavings.read_text(job.obj, ".config").encode())
    final = saved.read_text(encoding="utf-8", errors="replace").splitlines()
    return tuple(line for line in final if parse_line(line))


def final_config(cache: Path, recipe: Recipe) -> str | None:
    """The final .config of a recipe that was configured or built before."""
    image = images.find(cache, recipe)
    place = _known_config(cache, recipe) or (image.config if image else None)
    return place.read_text(encoding="utf-8", errors="replace") if place else None


def _saved_config(cache: Path, recipe: Recipe, parts: frozenset[str]) -> Path:
    return cache / "configs" / f"{recipe.config_digest}{foreign_suffix(parts)}.config"


def _known_config(cache: Path, recipe: Recipe) -> Path | None:
    """The final .config as this recipe's builds, or those of the source alone, left it."""
    readable = (recipe.foreign, source_parts(recipe.foreign))
    places = (_saved_config(cache, recipe, parts) for parts in readable)
    return next((place for place in places if place.is_file()), None)


def _run(job: _Build) -> Image:
    job.tell("copy")
    if job.start.objects is not None:
        _copy(job.start.objects, job.obj)
    _configure(job)
    if math.isinf(job.start.stale):  # else nobody knows what make will find out of date
        per_option = job.recipe.arch.objects_per_option
        with suppress(OSError, ValueError):
            per_option = float(job.ratio_file.read_text())
        job.total = round(per_option * _options_set(job))
    job.tell("compile")
    job.compile()
    job.tell("install")
    _check_file_flags(job)
    _check_routines(job)
    image = _install(job, job.recipe)
    kept = job.full or job.objects > _KEPT_OBJECTS
    if job.links:
        image = replace(image, links=_link_again(job))
    if kept:
        images.keep(job.cache, job.compiled, job.obj)
    job.tell("done")
    return image


def _copy(objects: Path, to: Path) -> None:
    if (copied := capture(["cp", "-a", "--reflink=auto", str(objects), str(to)])).status != 0:
        raise ToolError(f"cannot copy the object tree: {copied.output.strip()}")


def _link_again(job: _Build) -> tuple[Image, ...]:
    """The objects that there are, linked in random orders. Nothing is compiled: of all that make
    looks at, the linker script alone is newer than what was made of it."""
    script = leavings.script_of(job.obj)
    own = leavings.read_text(job.obj, script)
    sections = leavings.sections_of(job.obj)

    def put(text: str) -> None:
        leavings.require_file(job.obj, script)  # make ran since: a folder may be a link by now
        leavings.write(job.obj / script, text.encode())

    links = []
    for recipe in _linked(job.recipe, job.links):
        if (image := images.find(job.cache, recipe)) is None:
            job.began_s, job.objects, job.total = time.monotonic(), 0, None
            put(leavings.reordered(own, sections, recipe.layout))
            job.compile(f"make failed with the functions in the order {recipe.layout}")
            image = _install(job, recipe)
        links.append(image)
    # Whoever starts from this tree has the linker's own order.
    put(own)
    return tuple(links)


def _configure(job: _Build) -> None:
    """Leave the final .config in the object tree, from the cache or by Kconfig. Kconfig's program
    and the smallest configuration are made once for all recipes that have the same Kconfig and run
    the same foreign code: that takes four times as long as one configuration."""
    dotconfig = job.obj / ".config"
    if config := _known_config(job.cache, job.recipe):
        job.obj.mkdir(exist_ok=True)
        content = config.read_bytes()
        if not dotconfig.exists() or leavings.read(job.obj, ".config") != content:
            leavings.write(dotconfig, content)
        return
    job.tell("configure")
    name = hashlib.sha256(job.recipe.kconfig_digest.encode()).hexdigest()[:32]
    kconfig = job.cache / "kconfig" / name
    empty = not job.obj.exists()
    if kconfig.is_dir():
        with suppress(OSError):  # a cache that others own and this user only reads
            os.utime(kconfig)
        if empty:
            _copy(kconfig, job.obj)
        tiny = leavings.read(kconfig, ".config")
    else:
        job.obj.mkdir(exist_ok=True)
        job.make("tinyconfig", f"-j{os.cpu_count() or 1}")
        tiny = leavings.read(job.obj, ".config")
        if empty:
            leavings.disarm(job.obj)
            aside = job.work / "kconfig"
            _copy(job.obj, aside)
            kconfig.parent.mkdir(parents=True, exist_ok=True)
            whole.into_place(aside, kconfig)
    wishes = "".join(f"{wish.line}\n" for wish in job.recipe.wishes)
    leavings.write(dotconfig, tiny + wishes.encode())
    job.make("olddefconfig")
    text = leavings.read_text(job.obj, ".config")
    if lost := unmet(job.recipe.wishes, text):
        tree, arch = job.recipe.tree.path, job.recipe.arch
        raise lost_options(job.name, lost, text, tree, job.recipe.changes, arch)
    saved = _saved_config(job.cache, job.recipe, job.recipe.foreign)
    saved.parent.mkdir(parents=True, exist_ok=True)
    whole.write(saved, text.encode())


def _check_file_flags(job: _Build) -> None:
    """BuildError when flags for a named file did not reach its compilation."""
    for path, flags in job.recipe.file_cflags:
        record = Path(path).with_name(f".{Path(path).stem}.o.cmd")
        try:
            command = leavings.read(job.obj, str(record)).decode("utf-8", "replace")
        except OSError:
            what = f"cflags for {path!r}: this configuration does not compile that file"
            raise BuildError(what) from None
        # Kbuild joins the words of a command line by single blanks.
        if " ".join(flags.split()) not in " ".join(command.split()):
            what = f"cflags for {path!r} did not reach it: another folder's Makefile compiles it"
            raise BuildError(what)


def _check_routines(job: _Build) -> None:
    """BuildError when the file of a routine is no part of such a kernel."""
    for path in FUNCTIONS.values():
        is_routine = b"ROUTINE_START" in (job.recipe.changes.files.get(path) or b"")
        if is_routine and not (job.obj / path).with_suffix(".o").is_file():
            arch = job.recipe.arch.name
            raise BuildError(f"{path}: this source's kernels of arch {arch!r} do without that file")


def _options_set(job: _Build) -> int:
    return leavings.read_text(job.obj, ".config").count("=y\n")


def _install(job: _Build, recipe: Recipe) -> Image:
    for name in (recipe.arch.image, ".config"):
        leavings.require_file(job.obj, name)
    if job.full and not recipe.layout:
        job.ratio_file.write_text(str(job.objects / max(1, _options_set(job))))
    record = {
        "inputs": recipe.inputs,
        "source": recipe.tree.description,
        "version": recipe.tree.version,
        "changed_files": sorted(recipe.changes.files),
        "seconds": round(time.monotonic() - job.began_s, 2),
        "objects": job.objects,
        "from_trunk": job.start.objects is not None,
        "commands": job.commands,
    }
    (job.work / "build.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    files = {
        "linux": job.obj / recipe.arch.image,
        "config": job.obj / ".config",
        "build.log": job.log,
        "build.json": job.work / "build.json",
    }
    if job.extract:
        job.tell("collect", job.extract.name)
        files[job.extract.name] = job.work / job.extract.name
        job.extract.collect(job.obj, files[job.extract.name])
    if job.links:
        # The next link writes where these lie, and would write into the image.
        files = {
            name: Path(shutil.copy(file, job.work / f"{recipe.layout}-{name}"))
            for name, file in files.items()
        }
    return images.install(job.cache, recipe, job.work, files)


def _explained(
    name: str, recipe: Recipe, cache: Path, work: Path, problem: Exception
) -> KdynoError:
    """The failure with the compiler's lines, its log kept where the message says."""
    if isinstance(problem, OSError) and problem.errno not in whole.NO_SPACE:
        return ToolError(f"{problem.filename or cache}: {problem.strerror}; the build stopped")
    log = work / "build.log"
    log_name = _shortened(log)
    lines = error_lines(log.read_text(errors="replace") if log_name else "")
    full = isinstance(problem, OSError) or shutil.disk_usage(cache).free < _FULL_BYTES
    if full or any("No space left" in line for line in lines):
        return ToolError(
            f"{name!r} was not built to its end: {whole.no_space(cache)}. Free some; "
            "KDYNO_CACHE names another cache folder"
        )
    failed = cache / "failed" / f"{recipe.digest}.log"
    errors = "\n".join(f"  {line}" for line in lines) or f"  {problem}"
    if str(problem) != "make failed":
        errors = f"  {problem}\n{errors}" if lines else f"  {problem}"
    if log_name:
        failed.parent.mkdir(parents=True, exist_ok=True)
        log.replace(failed)
        errors += f"\n{log_name}: {failed}"
    return BuildError(f"variant {name!r} did not build:\n{errors}")


def _shortened(log: Path) -> str:
    """Takes the middle out of a log that is too long to be read; what to call the rest. Empty where
    there is no log."""
    if not log.exists():
        return ""
    with log.open("r+b") as file:
        surplus = file.seek(0, os.SEEK_END) - 2 * _KEPT_LOG_BYTES
        if surplus <= 0:
            return "whole log"
        file.seek(-_KEPT_LOG_BYTES, os.SEEK_END)
        end = file.read()
        file.seek(_KEPT_LOG_BYTES)
        file.write(b"\n[%d bytes were taken out here]\n" % surplus + end)
        file.truncate()
    return "log without its middle"
