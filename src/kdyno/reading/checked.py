# SPDX-License-Identifier: MIT
"""What a file holds, checked against a model: all mistakes at once, in kdyno's words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from kdyno.errors import UsageError
from kdyno.reading.mistakes import Mistakes, quoted, stands_where
from kdyno.reading.position import KeyPath, Positions

_MOST = 1000
"""Mistakes that are looked at."""
_WANTED = {
    "bool_type": "true or false",
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "text",
    "list_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
}
_WORD = re.compile(r"'([^']*)'")


def values(text: str | bytes) -> Any:
    """What JSON holds. ValueError (or RecursionError) also for a key that an object has twice: of
    such a text every reader may see something else."""
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (key, _), *_rest = (it for at, it in enumerate(pairs) if it[0] in dict(pairs[:at]))
        raise ValueError(f"the key {key[:60]!r} is there twice")
    return found


class FromFile(BaseModel):
    """A table of a file: nothing is converted, and no key is there that nobody reads."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", populate_by_name=False)


class FromTool(FromFile):
    """The same of a file that kdyno writes: later versions may write more."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


M = TypeVar("M", bound=BaseModel)


def wrong(
    key: str, what: str, near: str | None = None, allowed: Iterable[str] = ()
) -> PydanticCustomError:
    """For a model to raise where keys do not fit each other: a mistake at ``key`` (dotted)."""
    words = list(allowed)
    return PydanticCustomError("at_key", "wrong", {"at": (key, what, near, words)})


def check(model: type[M], data: object, origin: str, text: str = "", way: str = "") -> M:
    """``data`` as ``model``. UsageError with every mistake; ``text``: the TOML that it was read
    from, for line numbers; ``way``: how to get a file that is right."""
    try:
        return model.model_validate(data)
    except ValidationError as problem:
        _refuse(problem, model, Mistakes(origin, Positions(text)), way)


def check_json(model: type[M], given: bytes, origin: str, kind: str, way: str) -> M:
    """As ``check``, for JSON that says `"schema": 1, "kind": KIND` of itself."""
    try:
        data = values(given)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{origin}: not JSON ({problem}); {way}") from None
    head = (data.get("kind"), repr(data.get("schema"))) if isinstance(data, dict) else None
    if head != (kind, "1"):
        raise UsageError(f'{origin}: no "kind": "{kind}" of schema 1; {way}')
    return check(model, data, origin, way=way)


def _refuse(
    problem: ValidationError, model: type[BaseModel], mistakes: Mistakes, way: str
) -> NoReturn:
    for error in problem.errors(include_url=False)[:_MOST]:
        path: KeyPath = tuple(error["loc"])
        kind, found = error["type"], error["input"]
        context: Mapping[str, Any] = error.get("ctx", {})
        if kind == "extra_forbidden":
            key = str(path[-1])
            allowed = list(_keys(model, path[:-1]))
            mistakes.add(path, "unknown key", allowed=allowed, near=key)
        elif kind == "literal_error":
            words = _WORD.findall(context["expected"])
            mistakes.add(
                path,
                f"{quoted(found)} is not known",
                allowed=words,
                found=found,
                near=found if isinstance(found, str) else None,
            )
        elif kind == "missing":
            mistakes.add(path, "is missing")
        elif kind in _WANTED:
            mistakes.add(path, stands_where(found, _WANTED[kind]), found=found)
        elif kind == "value_error":
            mistakes.add(path, str(context["error"]), found=found)
        elif kind == "at_key":
            key, what, near, allowed = context["at"]
            mistakes.add((*path, *key.split(".", 1)), what, allowed=allowed, near=near)
        else:
            said = error["msg"].removeprefix("Input ")
            mistakes.add(path, f"{quoted(found)} {said}", found=found)
    mistakes.raise_any(way)
    raise AssertionError("an error without a mistake") from problem


def _keys(model: type[BaseModel], path: KeyPath) -> Iterator[str]:
    """The keys that the table at ``path`` may have."""
    for part in path:
        if isinstance(part, str) and (field := _fields(model).get(part)) is not None:
            model = next(_models(field), model)
    yield from _fields(model)


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {it.alias or name: it.annotation for name, it in model.model_fields.items()}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Those within ``list[Model]``, ``dict[str, Model]`` and the like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
