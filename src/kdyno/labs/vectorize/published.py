# SPDX-License-Identifier: MIT
"""The published table of vectorised loops, file by file, beside a survey of today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kdyno.errors import ToolError, UsageError
from kdyno.labs.published.article import load as load_article
from kdyno.labs.vectorize.survey import Survey

NAME = "simd-in-the-kernel"


@dataclass(frozen=True)
class PublishedLoops:
    """What the article counted: loops that its compiler vectorised, by file."""

    title: str
    system: str
    loops: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.loops.values())


def load() -> PublishedLoops:
    """ToolError when the file that comes with kdyno cannot be read."""
    try:
        article = load_article(NAME)
    except UsageError as problem:
        raise ToolError(str(problem)) from None
    return PublishedLoops(article.title, article.system, article.loops)


def beside(published: PublishedLoops, survey: Survey) -> list[tuple[str, int, list[int | None]]]:
    """(file, published, on each side today) for each published file; None: not compiled today.

    A file that a kernel no longer has, or that the configuration leaves out, is not a zero.
    """
    counts = [side.files() for side in survey.sides]
    compiled = [{loop.file for loop in side.loops} for side in survey.sides]
    # A file without a single loop leaves no trace in its record but its object does.
    built = [{it.object.rpartition(".")[0] for it in side.records.objects} for side in survey.sides]
    return [
        (
            file,
            loops,
            [
                count.get(file, 0) if file in known or file.rpartition(".")[0] in objects else None
                for count, known, objects in zip(counts, compiled, built, strict=True)
            ],
        )
        for file, loops in sorted(published.loops.items(), key=lambda it: (-it[1], it[0]))
    ]
