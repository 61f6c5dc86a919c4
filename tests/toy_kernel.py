# SPDX-License-Identifier: MIT
"""A kernel of a few lines that is built by the same make calls as Linux, in a fraction of a second.

It compiles with the real gcc, prints what Kbuild prints, keeps ``.NAME.o.cmd`` beside each
object, and lets time stamps, command lines and the options that a file names decide what is
compiled again. Its image is a program that says what it was built from.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from kdyno import sandbox
from kdyno.experiment.model import ConfigFragment, Variant
from kdyno.kernels.build import BuildProgress, build, configure_all
from kdyno.kernels.image import Image
from kdyno.kernels.recipe import Recipe, recipe_of
from kdyno.kernels.source import Tree, fetch, parse

_DATA = Path(__file__).parent / "data" / "toy"
FILES: Mapping[str, str] = {
    str(file.relative_to(_DATA)): file.read_text()
    for file in sorted(_DATA.rglob("*"))
    if file.is_file()
}
"""Path → text, as they lie in data/toy."""
OBJECTS = {"init/main.o", "lib/sort.o", "lib/string.o", "kernel/time.o", "arch/x86/lib/memcpy_64.o"}
"""What a full build of the defaults compiles."""


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Path below the folder → content."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def make_source(folder: Path, changed: Mapping[str, str] | None = None) -> Path:
    """The toy's source in ``folder``, with some files' text replaced or added."""
    return write_files(folder, {**FILES, **(changed or {})})


def make_tree(cache: Path, source: Path) -> Tree:
    """The folder as a pristine tree of the cache."""
    return fetch(parse(f"path:{source}"), cache, lambda _text, _part: None)


def diff(folder: Path, source: Path, changed: Mapping[str, str | None], name: str) -> Path:
    """A patch file ``folder/NAME.patch`` that gives the source these texts; None deletes."""
    work = folder / f"{name}-work"
    before = {path: (source / path).read_text() for path in changed if (source / path).exists()}
    write_files(work / "a", before)
    write_files(work / "b", {path: text for path, text in changed.items() if text is not None})
    argv = ["diff", "-ruN", "a", "b"]
    output = subprocess.run(argv, cwd=work, capture_output=True, text=True)
    assert output.returncode == 1, output.stderr
    patch = folder / f"{name}.patch"
    patch.write_text(output.stdout)
    return patch


def variant(name: str = "stock", *config: str, **fields: object) -> Variant:
    """A variant of the toy; ``config``: CONFIG_ lines."""
    fragments = (ConfigFragment("toy.config", config),) if config else ()
    return Variant(name=name, source="path:toy", config=fragments, **fields)  # type: ignore[arg-type]


class Toy:
    """A toy source with its tree in a cache of its own; ``lines`` is what builds reported.

    trusted: source and patches count as kdyno's own, so that every build may start from every
    other one's objects.
    """

    def __init__(
        self,
        folder: Path,
        changed: Mapping[str, str] | None = None,
        *,
        sandboxed: bool = True,
        trusted: bool = True,
    ) -> None:
        self.trusted = trusted
        self.folder = folder
        self.cache = folder / "cache"
        self.source = make_source(folder / "toy", changed)
        self.tree = make_tree(self.cache, self.source)
        self.sandboxed = sandboxed
        self.steps: list[BuildProgress] = []

    @property
    def sandboxed(self) -> bool:
        return not sandbox._waived

    @sandboxed.setter
    def sandboxed(self, wanted: bool) -> None:
        sandbox._waived = not wanted

    def patch(self, name: str, changed: Mapping[str, str | None]) -> Path:
        return diff(self.folder, self.source, changed, name)

    def edit(self, name: str, path: str, old: str, new: str) -> Path:
        """A patch that replaces ``old`` by ``new`` in one file of the source."""
        text = (self.source / path).read_text()
        assert old in text
        return self.patch(name, {path: text.replace(old, new)})

    def recipe(self, request: Variant) -> Recipe:
        recipe = recipe_of(request, self.tree)
        return replace(recipe, foreign=frozenset()) if self.trusted else recipe

    def build(self, request: Variant, **options: object) -> Image:
        return self.build_recipe(self.recipe(request), request.name, **options)

    def build_recipe(self, recipe: Recipe, name: str = "toy", **options: object) -> Image:
        self.steps = []
        report: Callable[[BuildProgress], None] = self.steps.append
        given = {"jobs": 2, "report": report, **options}
        return build(recipe, self.cache, name=name, **given)  # type: ignore[arg-type]

    def configure(self, recipe: Recipe, name: str = "toy") -> None:
        for problem in configure_all({name: recipe}, self.cache).values():
            raise problem

    @property
    def compiled(self) -> set[str]:
        """Objects that the last build compiled."""
        return {step.detail for step in self.steps if step.phase == "compile" and step.detail}

    def leftovers(self) -> list[str]:
        """What lies in the cache's work folder."""
        return sorted(path.name for path in (self.cache / "work").glob("*"))


def says(image: Image) -> str:
    """What the image prints when it runs."""
    return subprocess.run([image.kernel], capture_output=True, text=True, check=True).stdout.strip()
