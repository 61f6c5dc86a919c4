# SPDX-License-Identifier: MIT
"""Changes of bytes, of JSON and of TOML that readers are likely to stumble over."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

TEXTS = (
    "", " ", "a" * 300, "a" * 70_000, "\x1b[31m", "\x00", "\u202e", "\ud800", "../../etc/passwd",
    "</script><script>alert(1)</script>", "=cmd|' /C calc'!A0", "%s%n{0}{x}", "nan", "1e999", "/",
    "\n", "stock", "-1", "[" * 50,
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 0.0, -0.0, 1e-308, 5e-324, 1e308, -1e308, float("nan"), float("inf"), 1 << 31,
    1 << 63, 1 << 64, 10**40, 0.1, 1.0000000001, 3, 100_000,
)  # fmt: skip
_MOST_ITEMS = 300
VALUES: tuple[Any, ...] = (*TEXTS, *NUMBERS, None, True, False, [], {}, [[]], [None], {"a": {}})
TOML = (
    b'""', b'"\\u001b[31m"', b"1e308", b"-1", b"nan", b"inf", b"0", b"true", b"[]", b"{}", b"[[1]]",
    b'"""', b"1979-05-27", b"99999999999999999999", b'"%"', b'"1e999%"', b'"-5%"', b'["\\u0000"]',
    b'"' + b"a" * 5000 + b'"', b'"../x"', b'"/etc/passwd"', b"{ a = 1 }", b'"host"', b'"uml"',
)  # fmt: skip


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Bytes with one or a few places changed."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(found) + 1)
        length = rng.choice((1, 1, 2, 8, 100))
        how = rng.randrange(6)
        if how == 0 and found:
            found[min(at, len(found) - 1)] ^= 1 << rng.randrange(8)
        elif how == 1:
            found[at : at + length] = b""
        elif how == 2:
            found[at:at] = rng.randbytes(length)
        elif how == 3:
            found[at:at] = found[at : at + length] * rng.choice((1, 2, 50))
        elif how == 4:
            del found[at:]
        else:
            found[at:at] = rng.choice(
                (b"\xff\xfe", b"\x00", b"\x1b[31m", b"\r\n", b'"', b"[" * 2000)
            )
    return bytes(found)


def mutated_json(rng: random.Random, data: bytes) -> bytes:
    """The JSON text with one or a few of its values, keys or lengths changed."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return mutated(rng, data)
    for _ in range(rng.choice((1, 1, 1, 2, 6))):
        value = _changed(rng, value)
    if rng.random() < 0.05:
        return mutated(rng, json.dumps(value).encode())
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _changed(rng: random.Random, value: Any) -> Any:
    """One kind of place changed, once or wherever it is: a report may break only when every
    ``baseline_value`` is 0. All kinds of place are as likely, however many there are of each."""
    places: dict[tuple[str, ...], list[_Path]] = {}
    _walk(value, (), places)
    if not places:
        return copy.deepcopy(rng.choice(VALUES))
    found = places[rng.choice(sorted(places))]
    new, how = rng.choice(VALUES), rng.random()
    for path in found if rng.random() < 0.4 else [rng.choice(found)]:
        above = value
        for step in path[:-1]:
            above = above[step]
        last = path[-1]
        if how < 0.1 and isinstance(above, dict):
            del above[last]
        elif how < 0.16 and isinstance(above, dict):
            above[rng.choice(TEXTS)] = above.pop(last)
        elif how < 0.22 and isinstance(above, list):
            above.extend(copy.deepcopy(above[last]) for _ in range(rng.choice((1, 3, 200))))
        elif how < 0.6 and isinstance(above[last], float):
            above[last] = new if isinstance(new, int | float) else rng.choice(NUMBERS)
        else:
            above[last] = copy.deepcopy(new)
    return value


_Path = tuple[Any, ...]


def _walk(value: Any, path: _Path, places: dict[tuple[str, ...], list[_Path]]) -> None:
    """Every place by its kind: the keys on the way, with one sign for all items of a list."""
    steps: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        steps = list(value.items())
    elif isinstance(value, list):
        steps = list(enumerate(value[:_MOST_ITEMS]))
    for step, part in steps:
        below = (*path, step)
        kind = tuple("[]" if isinstance(it, int) else it for it in below)
        places.setdefault(kind, []).append(below)
        _walk(part, below, places)


def mutated_text(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """TOML with values replaced, lines moved, left out, doubled or taken from ``others``."""
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(lines))
        how = rng.randrange(8)
        if how <= 2 and b"=" in lines[at]:
            lines[at] = lines[at].split(b"=")[0] + b"= " + rng.choice(TOML)
        elif how == 3:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif how == 4:
            lines[at : at + 1] = []
        elif how == 5:
            lines.insert(at, rng.choice(rng.choice(others).split(b"\n")))
        elif how == 6:
            lines[at] = mutated(rng, lines[at])
        else:
            lines[at] = lines[at].replace(b'"', rng.choice((b"", b"'", b'"', b'\\"')), 1)
        lines = lines or [b""]
    return b"\n".join(lines)
