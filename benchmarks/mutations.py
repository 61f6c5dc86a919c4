# SPDX-License-Identifier: MIT
"""Changes of bytes, of JSON and of TOML that readers are likely to stumble over."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import random
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

MARK = "kdynox"
"""An element, a handler or an address of this name in what was written: it came out of a text."""

TEXTS = (
    "", " ", "a" * 201, "a" * 70_000, "\x1b[31m", "\x1b]0;x\x07", "\x9b2J", "\x00", "\u202e",
    "\ud800", "../../etc/passwd", ".", "..", "/", "a/b", f"</script><{MARK}>", f'"><{MARK}>',
    f"<{MARK} onload={MARK}()>", f"' onfocus={MARK}() x='", f"javascript:{MARK}()",
    f"</style><{MARK}>", f"--><{MARK}>", f"]]><{MARK}>", f"&lt;{MARK}&gt;", f"|<{MARK}>|",
    f"`<{MARK}>", "=cmd|' /C calc'!A0", "%s%n{0}{x}", "[bold]x[/nothing]", "nan", "1e999",
    "\n", "a\r\nb", "\t",
    "stock", "-1", "--help", "[" * 50, "é\u0301\u0301" * 60, "漢字", "2026-13-45T99:99",
    "\\", "'", "x\u2028y",
)  # fmt: skip
FLOATS = (
    (0.0, -0.0), (5e-324, 1e-308, 1e-300, 1e-16), (1e15, 1.1e15, 1e16, 1e300, 1e308),
    (-1.0, -1e308), (float("nan"), float("inf"), -float("inf")),
    (1e-9, 0.5, 1 - 1e-16, 1.0, 1.0000000001, 3.0, 1e9),
)  # fmt: skip
"""By what is odd about them, each as likely."""
INTS = (
    (0,), (1, 2, 3, 17, 200), (100_000, 10_000_000, 1 << 31), (-1, -(1 << 63)),
    (1 << 53, 1 << 62, 1 << 63, 1 << 64, 10**40, 10**400),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    *TEXTS, *chain(*FLOATS), *chain(*INTS), None, True, False, [], {}, [[]], [None], {"a": {}},
)  # fmt: skip
TOML = (
    b'""', b'"\\u001b[31m"', b"1e308", b"-1", b"nan", b"inf", b"0", b"true", b"[]", b"{}", b"[[1]]",
    b'"""', b"1979-05-27", b"99999999999999999999", b'"%"', b'"1e999%"', b'"-5%"', b'["\\u0000"]',
    b'"' + b"a" * 5000 + b'"', b'"../x"', b'"/etc/passwd"', b"{ a = 1 }", b'"host"', b'"uml"',
)  # fmt: skip
_MOST_ITEMS = 300
_MANY = 3000
_KEY = re.compile(rb'"[^"\\]+": ')


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Bytes with one or a few places changed."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(changed) + 1)
        length = rng.choice((1, 1, 2, 8, 100))
        how = rng.randrange(6)
        if how == 0 and changed:
            changed[min(at, len(changed) - 1)] ^= 1 << rng.randrange(8)
        elif how == 1:
            changed[at : at + length] = b""
        elif how == 2:
            changed[at:at] = rng.randbytes(length)
        elif how == 3:
            changed[at:at] = changed[at : at + length] * rng.choice((1, 2, 50))
        elif how == 4:
            del changed[at:]
        else:
            changed[at:at] = rng.choice(
                (b"\xff\xfe", b"\x00", b"\x1b[31m", b"\r\n", b'"', b"[" * 2000)
            )
    return bytes(changed)


def mutated_json(rng: random.Random, data: bytes) -> bytes:
    """The JSON text with a few of its values, keys or lengths changed.

    Most values stay of their kind: what has another one is refused at once by whoever reads it.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return mutated(rng, data)
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        value = _changed(rng, value)
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    how = rng.random()
    if how < 0.03:
        return mutated(rng, text)
    keys = list(_KEY.finditer(text))
    if how < 0.06 and keys:
        # The later one counts: a reader that looks at the text and one that parses it disagree.
        key = rng.choice(keys)
        twice = key[0] + json.dumps(rng.choice(VALUES)).encode() + b", "
        return text[: key.start()] + twice + text[key.start() :]
    return text


def places_of(data: bytes) -> int:
    """How many kinds of place the JSON text has; 1 for what is none."""
    try:
        return max(1, len(_places(json.loads(data))))
    except (ValueError, RecursionError):
        return 1


_Path = tuple[Any, ...]
"""Keys and places in lists; of a kind of place: keys, and ``[]`` for all items of a list."""


def _places(value: Any, path: _Path = ()) -> dict[_Path, list[_Path]]:
    """Every place by its kind."""
    places: dict[_Path, list[_Path]] = {}
    steps = value.items() if isinstance(value, dict) else ()
    steps = enumerate(value) if isinstance(value, list) else steps
    for step, part in list(steps)[:_MOST_ITEMS]:
        own = "[]" if isinstance(value, list) else step
        places.setdefault((own,), []).append((step,))
        for kind, paths in _places(part).items():
            places.setdefault((own, *kind), []).extend((step, *below) for below in paths)
    return places


def _at(value: Any, path: _Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _changed(rng: random.Random, value: Any) -> Any:
    """One kind of place changed, once or wherever it is: a report may break only when every
    ``baseline_value`` is 0. All kinds of place are as likely, however many there are of each. Or
    several figures at once, in all tables of a kind: one that is odd is left out, and only what is
    computed from two of them breaks."""
    places = _places(value)
    if not places:
        return copy.deepcopy(rng.choice(VALUES))
    kinds, everywhere = [rng.choice(sorted(places))], rng.random() < 0.5
    tables: dict[_Path, list[_Path]] = {}
    for kind, paths in sorted(places.items()):
        old = _at(value, paths[0])
        if isinstance(old, int | float):
            tables.setdefault(kind[:-2] if kind[-1] == "[]" else kind[:-1], []).append(kind)
    figures = bool(tables) and rng.random() < 0.5
    if figures:
        (kinds,) = rng.choices(list(tables.values()), list(map(len, tables.values())))
        part = rng.choice((0.1, 0.3, 0.6))
        kinds = [kind for kind in kinds if rng.random() < part]
    for kind in kinds:
        paths = places[kind]
        if not figures:
            paths = paths if everywhere else [rng.choice(paths)]
        change = _change(rng, value, _at(value, paths[0]), figures)
        for path in paths:
            # An earlier change may have taken it away, or put something else there.
            with contextlib.suppress(KeyError, IndexError, TypeError, AttributeError):
                change(_at(value, path[:-1]), path[-1])
    return value


def _change(rng: random.Random, value: Any, old: Any, figures: bool) -> Callable[[Any, Any], None]:
    """What is done to a place that has ``old``: gone, called otherwise, of another kind, or, most
    often, of the same kind but odd."""
    how = 1.0 if figures else rng.random()
    name, other = rng.choice(TEXTS), rng.choice(VALUES)
    alike = _alike(rng, value, old)

    def change(above: Any, last: Any) -> None:
        if how < 0.08:
            del above[last]
        elif how < 0.14:
            above[name] = above.pop(last)
        else:
            above[last] = copy.deepcopy(other) if how < 0.22 else alike(above[last])

    return change


def _alike(rng: random.Random, value: Any, old: Any) -> Callable[[Any], Any]:
    """Old value → one of the same kind, but odd. The same one wherever it is put."""
    if isinstance(old, bool):
        return lambda flag: not flag
    if isinstance(old, int | float) and rng.random() < 0.2:
        factor = rng.choice((-1, 2, 10, 1000) if isinstance(old, int) else (-1, 1000, 1 + 1e-12))
        return lambda number: number * factor
    if isinstance(old, str):
        texts = _texts(value) if rng.random() < 0.3 else []
        text, joined = rng.choice(texts or TEXTS), rng.random() < 0.2
        return lambda before: f"{before}{text}" if joined else text
    if isinstance(old, list):
        return rng.choice(_LISTS)
    if isinstance(old, dict):
        name, many = rng.choice(TEXTS), rng.choice((5, _MANY))
        return functools.partial(rng.choice(_TABLES), name=name, many=many)
    kinds = INTS if isinstance(old, int) else FLOATS
    new = rng.choice(rng.choice(kinds) if isinstance(old, int | float) else VALUES)
    return lambda _old: copy.deepcopy(new)


_LISTS: tuple[Callable[[Any], Any], ...] = (
    lambda items: [],
    lambda items: items[:1],
    lambda items: items[:-1],
    lambda items: items[::-1],
    lambda items: copy.deepcopy(items * 2),
    lambda items: [*items, *copy.deepcopy(items[-1:])],
    lambda items: (
        copy.deepcopy(items * (_MANY // len(items))) if 0 < len(items) <= _MOST_ITEMS else items
    ),
)
_TABLES: tuple[Callable[..., Any], ...] = (
    lambda table, name, many: {},
    lambda table, name, many: {**table, name: _first(table)},
    lambda table, name, many: table | {f"{name[:9]}{n}": _first(table) for n in range(many)},
    lambda table, name, many: {name: _first(table)},
    lambda table, name, many: dict(list(table.items())[:1]),
)


def _first(table: Any) -> Any:
    return copy.deepcopy(next(iter(table.values()), None))


def _texts(value: Any) -> list[str]:
    """All texts of the document: words that are known in one place may be odd in another."""
    if isinstance(value, str):
        return [value]
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    parts = parts[:_MOST_ITEMS] if isinstance(parts, list) else []
    return [text for part in parts for text in _texts(part)]


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
