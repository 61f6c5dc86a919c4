# SPDX-License-Identifier: MIT
"""Options that belong together: a dataclass of them is one parameter of a verb."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, Signature
from typing import Any, get_type_hints


def unbundled(verb: Callable[..., int]) -> Callable[..., int]:
    """``verb`` as typer takes it: each parameter that is a dataclass, taken apart into its fields.

    ValueError where a name comes twice.
    """
    flat: list[Parameter] = []
    bundles: dict[str, type] = {}

    def add(name: str, default: object, kind: object) -> None:
        flat.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))

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
    called.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    called.__annotations__ = {it.name: it.annotation for it in flat}
    return called
