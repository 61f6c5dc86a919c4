# SPDX-License-Identifier: MIT
"""Untrusted JSON, to checked values or one readable reason."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.reading.checked import adapter, values

Name = Annotated[str, Field(min_length=1, max_length=200)]
_TEXT_LIMIT = 1 << 16


def _clipped(value: Any) -> Any:
    # A kernel's last words may hold anything: they are made storable, never refused.
    if not isinstance(value, str):
        return value
    return value[:_TEXT_LIMIT].encode("utf-8", "replace").decode()


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else _clipped(value)


Text = Annotated[str, BeforeValidator(_clipped)]
"""Free text; cut at 64 Ki characters, lone surrogates replaced."""
Count = Annotated[int, Field(ge=0, le=1 << 62)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Fact = Annotated[float | bool | str | None, BeforeValidator(_finite)]
Facts = Annotated[dict[Name, Fact], Field(max_length=1000)]
"""Facts of a host: name → number or text."""


AS_WRITTEN = ConfigDict(
    frozen=True, strict=True, allow_inf_nan=False, extra="ignore", populate_by_name=True
)
"""No coercion, no infinities; keys of later versions are ignored. Of a plain dataclass that is read
back it is the ``__pydantic_config__``."""


class Record(BaseModel):
    """Base of what is read back."""

    model_config = AS_WRITTEN

    def to_json(self, indent: int | None = None) -> bytes:
        """The text of a file, or of a line of one."""
        return self.model_dump_json(by_alias=True, indent=indent).encode() + b"\n"


T = TypeVar("T")


def content(path: Path, most_bytes: int, what: str, error: type[KdynoError] = UsageError) -> bytes:
    """A whole file of at most so many bytes; ``error`` says why not. what: "profile", say."""
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror}") from problem
    if len(data) > most_bytes:
        raise error(f"{path}: more than {most_bytes >> 20} MiB: no {what}")
    return data


def first_mistake(error: ValidationError) -> str:
    """``KEY: WHAT``, without what the file's author wrote there."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part)[:60] for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def parse(kind: type[T], data: bytes, path: Path) -> T:
    """A record or a dataclass, or ToolError with the path, the key and what is wrong."""
    try:
        record: T = adapter(kind).validate_json(data)
        values(data)  # which takes a key's last value for its only one
        return record
    except ValidationError as error:
        raise ToolError(f"{path}: damaged: {first_mistake(error)}") from None
    except ValueError as error:
        raise ToolError(f"{path}: damaged: {str(error)[:200]}") from None
