# SPDX-License-Identifier: MIT
"""A verb of the command line: its name, its function, its examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature
from typing import Any, get_type_hints


@dataclass(frozen=True)
class Verb:
    """What ``VERBS`` of a verb's module lists."""

    name: str
    function: Callable[..., int]
    """Returns the exit status; its documentation is the help."""
    examples: tuple[str, ...]


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

    def called(**given: Any) -> int:
        for name, kind in bundles.items():
            given[name] = kind(**{it.name: given.pop(it.name) for it in fields(kind)})
        return verb(**given)

    called.__doc__ = verb.__doc__
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {it.name: it.annotation for it in parameters}
    return called
