# SPDX-License-Identifier: MIT
"""What a file holds, checked against its model by pydantic: all mistakes at once, in kdyno's words.
A model is a pydantic class or a plain dataclass with annotated fields."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, PlainValidator, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from kdyno.errors import UsageError
from kdyno.reading.mistakes import MOST, KeyPath, Mistakes, quoted, spelled, stands_where

T = TypeVar("T")
_WANTED = {
    "bool_type": "true or false",
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "text",
    "list_type": "an array",
    "tuple_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
    "dataclass_type": "a table",
}
_WORD = re.compile(r"'([^']*)'")
_UNKNOWN = "unexpected_keyword_argument"


class Refused(ValueError):
    """Valid JSON perhaps, but nothing that kdyno or a guest of it writes."""


def values(text: str | bytes, *, finite: bool = False) -> Any:
    """What JSON holds. ValueError also for a text that is nested too deeply, and for a key that an
    object has twice: every reader may see something else in such a text. ``finite``: for NaN and
    Infinity, too."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for key, value in pairs:
            if key in table:
                raise Refused(f"the key {key[:60]!r} is there twice")
            table[key] = value
        return table

    def no_number(name: str) -> NoReturn:
        raise Refused(f"{name} is not a number")

    try:
        constant = no_number if finite else None
        return json.loads(text, object_pairs_hook=once, parse_constant=constant)
    except RecursionError:
        raise Refused("nested too deeply") from None


def values_in(path: Path, most_bytes: int = 64 << 20) -> Any:
    """``values`` of a file. OSError where it cannot be opened; ValueError also where it is no
    regular file (opening a named pipe would wait for its writer) or larger than that."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Refused("is not a regular file")
        text = file.read(most_bytes + 1)
    if len(text) > most_bytes:
        raise Refused(f"larger than {most_bytes >> 20} MiB")
    return values(text)


def model_in(path: Path, model: type[T], absent: str) -> T:
    """A file that kdyno wrote, as its model. UsageError where it cannot be opened (absent: what
    that means) or holds something else."""
    try:
        value: T = adapter(model).validate_python(values_in(path))
        return value
    except OSError as problem:
        raise UsageError(f"{path.parent}: {problem.strerror}: {absent}") from problem
    except ValueError as problem:
        raise UsageError(f"{path}: cannot be read: {str(problem)[:200]}") from problem


class FromFile(BaseModel):
    """A table of a file: nothing is converted, and unknown keys are refused."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", populate_by_name=False)


class FromTool(FromFile):
    """The same of a file that kdyno writes: later versions may write more."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class Closed:
    """For a dataclass: a table that has no other keys."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")


def _inside(_value: object) -> None:
    raise PydanticCustomError(_UNKNOWN, "unknown key")


INSIDE = PlainValidator(_inside)
"""Marks a field that no file may set: to a file's author its name is an unknown key."""


def wrong(
    at: str | KeyPath,
    what: str,
    near: str | None = None,
    allowed: Iterable[str] = (),
    value: object = None,
) -> PydanticCustomError:
    """For a validator to raise: a mistake at ``at`` below its own place (text: dotted once)."""
    path = tuple(at.split(".", 1)) if isinstance(at, str) else at
    return PydanticCustomError("at_key", "wrong", {"at": (path, what, near, list(allowed), value)})


def check(model: type[T], data: object, origin: str, text: str = "", way: str = "") -> T:
    """``data`` as ``model``. UsageError with every mistake; ``text``: the TOML that it was read
    from, for line numbers; ``way``: how to get a file that is right."""
    mistakes = Mistakes(origin, text, way=way)
    value = read(model, data, mistakes)
    mistakes.raise_any()
    return value


def check_json(model: type[T], text: bytes, origin: str, kind: str, way: str) -> T:
    """As ``check``, for JSON that says `"schema": 1, "kind": KIND` of itself."""
    try:
        data = values(text)
    except ValueError as problem:
        raise UsageError(f"{origin}: not JSON ({problem}); {way}") from None
    head = (data.get("kind"), repr(data.get("schema"))) if isinstance(data, dict) else None
    if head != (kind, "1"):
        raise UsageError(f'{origin}: no "kind": "{kind}" of schema 1; {way}')
    return check(model, data, origin, way=way)


adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""Of a model; made when it is first wanted."""


def read(
    model: type[T],
    data: object,
    mistakes: Mistakes,
    path: KeyPath = (),
    context: object = None,
    home: Callable[[str], str] = lambda _key: "",
) -> T:
    """``data``, which stands at ``path`` of the file, as ``model``. Every mistake is noted, and its
    key taken out of the data, so that the rest can be checked; raises where no rest is valid. home:
    where an unknown key belongs, for the message."""
    wrong_keys = [_NOWHERE]
    while wrong_keys:
        try:
            value: T = adapter(model).validate_python(data, context=context)
            return value
        except ValidationError as problem:
            errors = problem.errors(include_url=False)[:MOST]
        # What lacks a key because that was taken out is no mistake of its own.
        follows = [mistakes.has((*path, *error["loc"])) for error in errors]
        places = [
            error["loc"] if old else _note(error, model, mistakes, path, home)
            for error, old in zip(errors, follows, strict=True)
        ]
        wrong_keys = [holder for place in places if (holder := _holder(data, place))]
        for table, key in wrong_keys:
            table.pop(key, None)
    mistakes.raise_any()
    raise AssertionError("an error without a mistake")


_Holder = tuple[dict[str | int, Any], str | int]
_NOWHERE: _Holder = ({}, "")


def _holder(data: Any, path: KeyPath) -> _Holder | None:
    """The innermost table on the path, and its key there."""
    holder = None
    for part in path:
        if isinstance(data, dict) and part in data:
            holder = (data, part)
        elif not (isinstance(data, list) and isinstance(part, int) and part < len(data)):
            break
        data = data[part]
    return holder


def _note(
    error: ErrorDetails, model: Any, mistakes: Mistakes, above: KeyPath, home: Callable[[str], str]
) -> KeyPath:
    """Adds pydantic's error in kdyno's words; its place below ``above``."""
    place: KeyPath = tuple(part for part in error["loc"] if part != "[key]")
    path = (*above, *place)
    kind, value = error["type"], error["input"]
    context: Mapping[str, Any] = error.get("ctx", {})
    near, allowed = None, list[str]()
    what = f"{quoted(value)} {error['msg'].removeprefix('Input ')}"
    if kind in ("extra_forbidden", _UNKNOWN):
        near, value = str(path[-1]), None
        what = "unknown key" + (f" here; it belongs in {home(near)}" if home(near) else "")
        allowed = [*keys_of(next(_models(_annotation_at(model, place[:-1])), object))]
    elif kind == "literal_error":
        near = value if isinstance(value, str) else None
        what = f"{quoted(value)} is not known"
        allowed = _WORD.findall(context["expected"])
    elif kind == "too_long":
        what = f"{context['actual_length']} entries. Allowed: {context['max_length']} at most"
    elif kind == "missing":
        what, value = "is missing", None
    elif kind in _WANTED:
        what = stands_where(value, _WANTED[kind])
        if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
            name = spelled(path) + (".NAME" if kind == "dict_type" else "")
            what = f"[[…]] begins one entry of several: write [{name}], in single brackets"
        elif kind == "dict_type" and any(_models(_annotation_at(model, place))):
            what = stands_where(value, "a table of tables")
    elif kind == "value_error":
        what = str(context["error"])
    elif kind == "at_key":
        below, what, near, allowed, at_fault = context["at"]
        place, value = (*place, *below), at_fault or value
    mistakes.add((*above, *place), what, allowed=allowed, near=near, value=value)
    return place


def _annotation_at(model: Any, path: KeyPath) -> Any:
    """The annotation of what stands at ``path`` of a table of this model."""
    for part in path:
        if isinstance(model, type) and (fields := _fields(model)):
            model = fields.get(str(part), model)
        else:
            model = next(_models(model), object)
    return model


def keys_of(model: type) -> tuple[str, ...]:
    """The keys that a file's table of this model may have."""
    return tuple(_fields(model))


def tables_of(model: type) -> dict[str, tuple[str, ...]]:
    """Key → the keys of the tables that stand there."""
    inner = {key: next(_models(annotation), None) for key, annotation in _fields(model).items()}
    return {key: keys_of(table) for key, table in inner.items() if table}


@cache
def _fields(model: type) -> dict[str, Any]:
    if issubclass(model, BaseModel):
        return {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    if not dataclasses.is_dataclass(model):
        return {}
    hints = get_type_hints(model, include_extras=True)
    fields = {}
    for field in dataclasses.fields(model):
        metadata = getattr(hints[field.name], "__metadata__", ())
        aliases = [info.alias for info in metadata if isinstance(info, FieldInfo) and info.alias]
        if INSIDE not in metadata:
            fields[aliases[0] if aliases else field.name] = hints[field.name]
    return fields


def _models(annotation: Any) -> Iterator[type]:
    """Those within ``list[Model]``, ``dict[str, Model]`` and the like."""
    if isinstance(annotation, type) and (
        dataclasses.is_dataclass(annotation) or issubclass(annotation, BaseModel)
    ):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
