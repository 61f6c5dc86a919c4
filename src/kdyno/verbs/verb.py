# SPDX-License-Identifier: MIT
"""A verb of the command line: its name, its function, its options, its examples."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature
from typing import Any, get_type_hints

import typer

from kdyno import deferred


@dataclass(frozen=True)
class Verb:
    """What ``VERBS`` of a verb's module lists."""

    name: str
    function: Callable[..., int]
    """Returns the exit status; its documentation is the help."""
    examples: tuple[str, ...]


_PLAIN = re.compile(r"[\w./][\w./@%+=:,-]*")
"""Words that no shell takes for more than a word: it puts them into the line as they are, or has
them evaluated. Others are not offered."""


def offered(place: str) -> Callable[[typer.Context, str], list[str]]:
    """What the shell is offered when Tab is pressed: those words of the function at ``place`` that
    begin with what was typed. Whatever goes wrong gives no words and no message: the shell shows
    its own file names."""

    def offer(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            words = deferred(place)(ctx, incomplete)
            return [
                word for word in words if word.startswith(incomplete) and _PLAIN.fullmatch(word)
            ]
        except Exception:  # a traceback would end up on the person's command line
            return []

    return offer


def option(words: str, help: str, offer: str = "", **more: Any) -> Any:
    """``words``: flags, and what stands for the value: "-o --output FILE". ``offer``: a place, as
    of ``offered``; ``more``: as typer's."""
    flags = [word for word in words.split() if word.startswith("-")]
    metavar = " ".join(word for word in words.split() if not word.startswith("-")) or None
    completion = offered(offer) if offer else None
    return typer.Option(*flags, metavar=metavar, help=help, autocompletion=completion, **more)


def argument(metavar: str, help: str, offer: str = "") -> Any:
    """As ``option``, for what stands without a flag."""
    completion = offered(offer) if offer else None
    return typer.Argument(metavar=metavar, help=help, autocompletion=completion)


def flat(verb: Callable[..., int]) -> Callable[..., int]:
    """The function as typer takes it: a dataclass of options becomes its fields.

    ValueError where a name comes twice.
    """
    parameters: list[Parameter] = []
    bundles: dict[str, type] = {}

    def add(name: str, default: object, kind: object) -> None:
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))

    hints = get_type_hints(verb, include_extras=True)
    for own in inspect.signature(verb).parameters.values():
        kind = hints[own.name]
        if not (isinstance(kind, type) and is_dataclass(kind)):
            add(own.name, own.default, kind)
            continue
        bundles[own.name] = kind
        kinds = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            none = field.default is MISSING
            add(field.name, Parameter.empty if none else field.default, kinds[field.name])

    def call(**given: Any) -> int:
        for name, kind in bundles.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        return verb(**given)

    call.__doc__ = verb.__doc__
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call
