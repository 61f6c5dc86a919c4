# SPDX-License-Identifier: MIT
"""Build the image of a recipe: start from a trunk, configure, make, install."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from kdyno import sandbox, space, whole
from kdyno.command import capture, require, shown, stream
from kdyno.errors import BuildError, KdynoError, ToolError, UsageError
from kdyno.kernels import foreign, layout, leavings
from kdyno.kernels import image as images
from kdyno.kernels import trunk as trunks
from kdyno.kernels.changes import Changes
from kdyno.kernels.config import lost_options, unmet
from kdyno.kernels.image import Extract, Image, has
from kdyno.kernels.progress import (
    BuildProgress,
    Report,
    compiled_object,
    error_lines,
    expected_objects,
    is_link,
    silent,
)
from kdyno.kernels.recipe import Recipe
from kdyno.kernels.trunk import Start
from kdyno.kernels.view import BUILD_OBJECTS, BUILD_SOURCE, flatten, lay
from kdyno.views import BUILD, around

LEAST_FREE_BYTES = 700_000_000
# A build that failed with less than this free failed for lack of space, whatever it says.
FULL_BYTES = 1_000_000
_CCACHE = "/tmp/kdyno/ccache"
_COMPILED_KEPT_S = 30 * 24 * 3600
# The same in every build, so that equal inputs give equal images.
_FIXED = (
    "KBUILD_BUILD_TIMESTAMP=2020-01-01",
    "KBUILD_BUILD_USER=kdyno",
    "KBUILD_BUILD_HOST=kdyno",
    "KBUILD_BUILD_VERSION=1",
    "LOCALVERSION=",
)


@dataclass
class _Build:
    """One build under way: its folders, how make is run in it, what it said so far."""

    name: str
    recipe: Recipe
    cache: Path
    work: Path
    start: Start
    sandboxed: bool
    jobs: int
    report: Report
    extract: Extract | None = None
    links: int = 0
    began_s: float = field(default_factory=time.monotonic)
    objects: int = 0
    total: int | None = None
    commands: list[str] = field(default_factory=list)
    tiny: bytes | None = None
    """The .config that `make tinyconfig` left, where it was made already."""

    @property
    def compiled(self) -> Recipe:
        return self.extract.compiled_by(self.recipe) if self.extract else self.recipe

    @property
    def obj(self) -> Path:
        return self.work / "obj"

    @property
    def full(self) -> bool:
        """Everything is compiled."""
        return self.start.objects is None or not self.start.same_flags

    @property
    def log(self) -> Path:
        return self.work / "build.log"

    def tell(self, phase: str, detail: str = "") -> None:
        elapsed_s = time.monotonic() - self.began_s
        self.report(BuildProgress(self.name, phase, self.objects, self.total, elapsed_s, detail))


def build(
    recipe: Recipe,
    cache: Path,
    *,
    name: str,
    sandboxed: bool = True,
    jobs: int | None = None,
    report: Report = silent,
    from_scratch: bool = False,
    extract: Extract | None = None,
    links: int = 0,
) -> Image:
    """The image of ``recipe``, from the cache when it is there.

    name: the variant, for messages. extract: what must lie beside the image too. links: as many
    images more, of the same objects linked in orders that the seeds 1, 2 … draw. Raises
    BuildError with the compiler's lines, UsageError for options that did not survive, ToolError
    when the machine is at fault.
    """
    if (found := _found(cache, recipe, links)) and has(found, extract):
        return found
    _require_tools(sandboxed)

    def waiting(text: str) -> None:
        report(BuildProgress(name, "waiting", 0, None, 0.0, text))

    with images.building(cache, recipe.digest, waiting):
        if (found := _found(cache, recipe, links)) and has(found, extract):
            return found
        whole.sweep(cache / "work")  # what killed builds left may be the space that is missing
        space.require(cache, LEAST_FREE_BYTES)
        _remove_old_compile_caches(cache)
        start = (
            Start(None, frozenset(), frozenset(), False)
            if from_scratch
            else trunks.choose(cache, extract.compiled_by(recipe) if extract else recipe)
        )
        with whole.scratch("build", cache / "work") as work:
            count = jobs or os.cpu_count() or 1
            job = _Build(name, recipe, cache, work, start, sandboxed, count, report, extract, links)
            try:
                return _run(job)
            except (BuildError, OSError) as problem:
                raise _explained(job, problem) from problem


def _found(cache: Path, recipe: Recipe, links: int) -> Image | None:
    """With as many links; None where any of them is missing."""
    own = [images.find(cache, it) for it in (recipe, *_linked(recipe, links))]
    there = [it for it in own if it is not None]
    return replace(there[0], links=tuple(there[1:])) if len(there) == len(own) else None


def _linked(recipe: Recipe, links: int) -> Iterator[Recipe]:
    return (replace(recipe, layout=seed) for seed in range(1, links + 1))


def configure(
    recipe: Recipe,
    cache: Path,
    *,
    name: str,
    sandboxed: bool = True,
    report: Report = silent,
) -> None:
    """``configure_all`` for one recipe; raises why it has no configuration."""
    for problem in configure_all({name: recipe}, cache, sandboxed, report).values():
        raise problem


def configure_all(
    recipes: Mapping[str, Recipe], cache: Path, sandboxed: bool = True, report: Report = silent
) -> dict[str, KdynoError]:
    """Make the final .config of recipes without building, so that lost options show early.

    Does nothing where the configuration or the image is in the cache already. Variant → why it has
    none: LostOptions, BuildError where Kconfig itself fails. Kconfig is compiled once for all that
    have the same.
    """
    alike: dict[str, dict[str, Recipe]] = {}
    for name, recipe in recipes.items():
        if final_config(cache, recipe) is None:
            alike.setdefault(recipe.kconfig_digest, {})[name] = recipe
    problems: dict[str, KdynoError] = {}
    if not alike:
        return problems
    _require_tools(sandboxed)
    whole.sweep(cache / "work")  # what killed builds left may be the space that is missing
    space.require(cache, LEAST_FREE_BYTES)
    start = Start(None, frozenset(), frozenset(), False)
    for group in alike.values():
        with whole.scratch("build", cache / "work") as work:
            name, recipe = next(iter(group.items()))
            job = _Build(name, recipe, cache, work, start, sandboxed, 1, report)
            job.obj.mkdir()
            wrap = _Wrapper(job)
            for name, recipe in group.items():
                job.name, job.recipe = name, recipe
                try:
                    _configure(job, wrap)
                except UsageError as problem:
                    problems[name] = problem
                except BuildError as problem:
                    problems[name] = _explained(job, problem)
                except OSError as problem:
                    raise _explained(job, problem) from problem
    return problems


def final_config(cache: Path, recipe: Recipe) -> str | None:
    """The final .config of a recipe that was configured or built before."""
    image = images.find(cache, recipe)
    place = _known_config(cache, recipe) or (image.config if image else None)
    return place.read_text(encoding="utf-8", errors="replace") if place else None


def _remove_old_compile_caches(cache: Path) -> None:
    """Those of sources that nobody built from for a month."""
    for folder in (cache / "ccache").glob("?" * foreign.SUFFIX_LETTERS):
        if folder.is_dir() and time.time() - folder.stat().st_mtime > _COMPILED_KEPT_S:
            shutil.rmtree(folder, ignore_errors=True)


def _require_tools(sandboxed: bool) -> None:
    require("make", "to build kernels")
    sandbox.require(sandboxed)


def _saved_config(cache: Path, recipe: Recipe, parts: frozenset[str] | None = None) -> Path:
    """Of the recipe's foreign parts, or of the given ones."""
    mark = foreign.suffix(recipe.foreign if parts is None else parts)
    return cache / "configs" / f"{recipe.config_digest}{mark}.config"


def _known_config(cache: Path, recipe: Recipe) -> Path | None:
    """The final .config as this recipe's builds, or those of the source alone, left it."""
    places = (_saved_config(cache, recipe, it) for it in _readable(recipe.foreign))
    return next((place for place in places if place.is_file()), None)


def _readable(parts: frozenset[str]) -> tuple[frozenset[str], ...]:
    return (parts, foreign.source_of(parts))


def _run(job: _Build) -> Image:
    job.tell("copy")
    if job.start.objects is None:
        job.obj.mkdir()
    else:
        copied = capture(["cp", "-a", "--reflink=auto", str(job.start.objects), str(job.obj)])
        if copied.status != 0:
            raise ToolError(f"cannot copy the object tree: {copied.output.strip()}")
    wrap = _Wrapper(job)
    _configure(job, wrap)
    job.total = _expected_total(job)
    job.tell("compile")

    def line(text: str) -> None:
        if compiled_object(text):
            job.objects += 1
            job.tell("compile", text.split()[-1])
        elif is_link(text):
            job.tell("link", text.split()[-1])

    goal = [job.recipe.arch.goal, f"-j{job.jobs}"]
    if wrap.make(goal, line) != 0:
        raise BuildError("make failed")
    job.tell("install")
    _check_file_flags(job)
    made = _install(job, job.recipe)
    kept = job.full or job.objects > 300
    if job.links:
        made = replace(made, links=_link_again(job, lambda: wrap.make(goal, line)))
    if kept:
        trunks.keep(job.cache, job.compiled, job.obj)
    job.tell("done")
    return made


def _link_again(job: _Build, make: Callable[[], int]) -> tuple[Image, ...]:
    """The objects that there are, linked in drawn orders. Nothing is compiled: of all that make
    looks at, the linker script alone is newer than what was made of it."""
    script = layout.script_of(job.obj)
    own = leavings.read_text(job.obj, script)
    sections = layout.sections_of(job.obj)
    links = []
    for recipe in _linked(job.recipe, job.links):
        if (there := images.find(job.cache, recipe)) is None:
            job.began_s, job.objects, job.total = time.monotonic(), 0, None
            leavings.write(job.obj / script, layout.drawn(own, sections, recipe.layout).encode())
            if make() != 0:
                raise BuildError(f"make failed with the functions in the order {recipe.layout}")
            there = _install(job, recipe)
        links.append(there)
    # Whoever starts from this tree has the linker's own order.
    leavings.write(job.obj / script, own.encode())
    return tuple(links)


class _Wrapper:
    """How make is called: in the sandbox at fixed paths, or plainly without one."""

    def __init__(self, job: _Build) -> None:
        self._job = job
        overlay = job.work / "overlay"
        overlay.mkdir()
        tree, start = job.recipe.tree.path, job.start
        shown_files: dict[str, bytes | None] = dict(job.recipe.changes.files)
        executable = set(job.recipe.changes.executable)
        for path in start.restored:
            if (tree / path).is_file():
                shown_files[path] = (tree / path).read_bytes()
                if (tree / path).stat().st_mode & 0o100:
                    executable.add(path)
        changes, fresh = Changes(shown_files, frozenset(executable)), set(start.fresh)
        # What the compiler writes beside an object is in no compile cache.
        self._ccache = None if job.extract else shutil.which("ccache")
        if job.sandboxed:
            view = lay(tree, changes, overlay, fresh)
            self._source, self._objects = BUILD_SOURCE, BUILD_OBJECTS
            self._mounts = view.mounts()
        else:
            self._source, self._objects = str(flatten(tree, changes, overlay, fresh)), str(job.obj)
            self._mounts = ()

    def make(self, arguments: list[str], line: object = None) -> int:
        """Run make in the object tree; its exit status."""
        job = self._job
        command = ["make", "-C", self._source, f"O={self._objects}", *job.recipe.arch.make]
        command += job.recipe.compiler.make_arguments(self._ccache)
        if job.compiled.cflags:
            command.append(f"KCFLAGS={job.compiled.cflags}")
        command += [*_FIXED, *arguments]
        job.commands.append(shown(command))
        return self._exec(command, line)

    def _exec(self, command: list[str], line: object) -> int:
        job = self._job
        compiled, own = foreign.compile_cache(job.cache, job.recipe.foreign)
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LC_ALL": "C",
            "HOME": "/tmp",
            "CCACHE_DIR": _CCACHE if job.sandboxed else str(compiled),
            "CCACHE_MAXSIZE": "2G",
            # The paths inside are the same for every build; stay clear of the user's settings.
            "CCACHE_CONFIGPATH": "/dev/null",
            "CCACHE_TEMPDIR": "/tmp/kdyno-ccache" if job.sandboxed else str(job.work / "ccache"),
            **({} if own else {"CCACHE_READONLY": "1", "CCACHE_NOSTATS": "1"}),
        }
        compiled.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # a cache that others own and this user only reads
            os.utime(compiled)
        if job.sandboxed:
            sandbox.hand_over(job.obj, BUILD)
            shared = ((compiled, _CCACHE),)
            if own:
                sandbox.hand_over(compiled, BUILD)
            around_compiler = around(Path(job.recipe.compiler.path))
            box = sandbox.Sandbox(
                BUILD,
                read_only=(*around_compiler, *self._mounts, *(() if own else shared)),
                writable=((job.obj, BUILD_OBJECTS), *(shared if own else ())),
                chdir=BUILD_OBJECTS,
            )
            command = box.argv(command)
        return stream(
            command,
            log=job.log,
            env=environment,
            line=line if callable(line) else (lambda _text: None),
        )


def _configure(job: _Build, wrap: _Wrapper) -> None:
    """Leave the final .config in the object tree, from the cache or by Kconfig."""
    dotconfig = job.obj / ".config"
    if known := _known_config(job.cache, job.recipe):
        content = known.read_bytes()
        if not dotconfig.exists() or leavings.read(job.obj, ".config") != content:
            leavings.write(dotconfig, content)
        return
    job.tell("configure")
    if job.tiny is None:
        if wrap.make(["tinyconfig"]) != 0:
            raise BuildError("make tinyconfig failed")
        job.tiny = leavings.read(job.obj, ".config")
    asked = "".join(f"{wish.line}\n" for wish in job.recipe.wishes)
    leavings.write(dotconfig, job.tiny + asked.encode())
    if wrap.make(["olddefconfig"]) != 0:
        raise BuildError("make olddefconfig failed")
    text = leavings.read_text(job.obj, ".config")
    if lost := unmet(job.recipe.wishes, text):
        tree, arch = job.recipe.tree.path, job.recipe.arch
        raise lost_options(job.name, lost, text, tree, job.recipe.changes, arch)
    saved = _saved_config(job.cache, job.recipe)
    saved.parent.mkdir(parents=True, exist_ok=True)
    whole.write(saved, text.encode())


def _expected_total(job: _Build) -> int | None:
    if not job.full:
        return None  # nobody knows what make will find out of date
    try:
        return int((job.cache / f"objects-{job.recipe.arch.name}").read_text())
    except (OSError, ValueError):
        text = leavings.read_text(job.obj, ".config")
        return expected_objects(text.count("=y\n"))


def _check_file_flags(job: _Build) -> None:
    """BuildError when flags for a named file did not reach its compilation."""
    for path, flags in job.recipe.file_cflags:
        source = Path(path)
        record = str(source.parent / f".{source.stem}.o.cmd")
        try:
            said = leavings.read(job.obj, record).decode("utf-8", "replace")
        except OSError:
            raise BuildError(
                f"cflags for {path!r}: this configuration does not compile that file"
            ) from None
        # Kbuild joins the words of a command line by single blanks.
        if " ".join(flags.split()) not in " ".join(said.split()):
            raise BuildError(
                f"cflags for {path!r} did not reach it: another folder's Makefile compiles it"
            )


def _install(job: _Build, recipe: Recipe) -> Image:
    for name in (recipe.arch.image, ".config"):
        leavings.require_file(job.obj, name)
    if job.full and not recipe.layout:
        (job.cache / f"objects-{job.recipe.arch.name}").write_text(str(job.objects))
    record = {
        "inputs": recipe.inputs,
        "source": job.recipe.tree.description,
        "version": job.recipe.tree.version,
        "changed_files": sorted(job.recipe.changes.files),
        "seconds": round(time.monotonic() - job.began_s, 2),
        "objects": job.objects,
        "from_trunk": job.start.objects is not None,
        "commands": job.commands,
    }
    (job.work / "build.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    files = {
        "linux": job.obj / job.recipe.arch.image,
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


def _explained(job: _Build, problem: Exception) -> KdynoError:
    """The failure with the compiler's lines, its log kept where the message says."""
    if isinstance(problem, OSError):
        return ToolError(f"{problem.filename or job.cache}: {problem.strerror}; the build stopped")
    failed = job.cache / "failed" / f"{job.recipe.digest}.log"
    failed.parent.mkdir(parents=True, exist_ok=True)
    text = job.log.read_text(errors="replace") if job.log.exists() else ""
    failed.write_text(text)
    lines = error_lines(text)
    full = shutil.disk_usage(job.cache).free < FULL_BYTES
    if full or any("No space left" in line for line in lines):
        return ToolError(
            f"{job.name!r} was not built to its end: {space.no_space(job.cache)}. Free some; "
            "KDYNO_CACHE names another cache folder"
        )
    said = "\n".join(f"  {line}" for line in lines) or f"  {problem}"
    if str(problem) != "make failed":
        said = f"  {problem}\n{said}" if lines else f"  {problem}"
    return BuildError(f"variant {job.name!r} did not build:\n{said}\nwhole log: {failed}")
