# SPDX-License-Identifier: MIT
"""Changes of bytes, of JSON and of TOML that readers are likely to stumble over."""

from __future__ import annotations

import copy
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
    return _with_a_key_twice(rng, text) if how < 0.06 else text


def places_of(data: bytes) -> int:
    """How many kinds of place the JSON text has; 1 for what is none."""
    try:
        return max(1, len(_places(json.loads(data))))
    except (ValueError, RecursionError):
        return 1


def _with_a_key_twice(rng: random.Random, text: bytes) -> bytes:
    """The later one counts: a reader that looks at the text and one that parses it disagree."""
    keys = list(_KEY.finditer(text))
    if not keys:
        return text
    match = rng.choice(keys)
    value = json.dumps(rng.choice(VALUES)).encode()
    return text[: match.start()] + match[0] + value + b", " + text[match.start() :]


def _changed(rng: random.Random, value: Any) -> Any:
    """One kind of place changed, once or wherever it is: a report may break only when every
    ``baseline_value`` is 0. All kinds of place are as likely, however many there are of each."""
    places = _places(value)
    if not places:
        return copy.deepcopy(rng.choice(VALUES))
    if rng.random() < 0.5 and (rows := _rows(rng, value, places)):
        _make_odd(rng, value, rows)
        return value
    paths = places[rng.choice(sorted(places))]
    chosen = paths if rng.random() < 0.5 else [rng.choice(paths)]
    how = rng.random()
    if how < 0.08:
        change = _gone
    elif how < 0.14:
        name = rng.choice(TEXTS)
        change = _called(name)
    elif how < 0.22:
        other = copy.deepcopy(rng.choice(VALUES))
        change = _set(lambda _old: copy.deepcopy(other))
    else:
        like = _alike(rng, value, _at(value, chosen[0]))
        change = _set(like)
    for path in chosen:
        try:
            change(_at(value, path[:-1]), path[-1])
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
    return value


def _rows(
    rng: random.Random, value: Any, places: dict[tuple[str, ...], list[_Path]]
) -> list[_Path]:
    """All tables of a kind; of the kinds, rather one with many figures."""
    figures = {
        kind: sum(map(_is_figure, _at(value, paths[0]).values()))
        for kind, paths in sorted({(): [()], **places}.items())
        if isinstance(_at(value, paths[0]), dict)
    }
    if not any(figures.values()):
        return []
    (kind,) = rng.choices(list(figures), list(figures.values()))
    return {(): [()], **places}[kind]


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) or (
        isinstance(value, list) and len(value) == 2 and all(isinstance(end, float) for end in value)
    )


def _make_odd(rng: random.Random, value: Any, rows: Sequence[_Path]) -> None:
    """Several figures at once, in all tables of a kind: one that is odd is left out, and only
    what is computed from two of them breaks."""
    part = rng.choice((0.1, 0.3, 0.6))
    for key, old in list(_at(value, rows[0]).items()):
        if _is_figure(old) and rng.random() < part:
            ends = old if isinstance(old, list) else [old]
            odd = [_alike(rng, value, end) for end in ends]
            like = _each(odd) if isinstance(old, list) else odd[0]
            for path in rows:
                row = _at(value, path)
                if isinstance(row, dict) and key in row:
                    row[key] = like(row[key])


def _each(changes: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def changed(old: Any) -> Any:
        if not isinstance(old, list) or len(old) != len(changes):
            return old
        return [change(item) for change, item in zip(changes, old, strict=True)]

    return changed


_Path = tuple[Any, ...]
_Change = Callable[[Any, Any], None]


def _at(value: Any, path: _Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _gone(above: Any, last: Any) -> None:
    del above[last]


def _called(name: str) -> _Change:
    def change(above: Any, last: Any) -> None:
        if isinstance(above, dict):
            above[name] = above.pop(last)

    return change


def _set(new: Callable[[Any], Any]) -> _Change:
    def change(above: Any, last: Any) -> None:
        above[last] = new(above[last])

    return change


def _alike(rng: random.Random, value: Any, old: Any) -> Callable[[Any], Any]:
    """Old value → one of the same kind, but odd. The same one wherever it is put."""
    if isinstance(old, bool):
        return lambda flag: not flag
    if isinstance(old, int | float) and rng.random() < 0.2:
        factor = rng.choice((-1, 2, 10, 1000) if isinstance(old, int) else (-1, 1000, 1 + 1e-12))
        return lambda number: number * factor if isinstance(number, type(old)) else number
    if isinstance(old, int | float):
        number = rng.choice(rng.choice(INTS if isinstance(old, int) else FLOATS))
        return lambda _it: number
    if isinstance(old, str):
        texts = _texts(value) if rng.random() < 0.3 else []
        text = rng.choice(texts or TEXTS)
        joined = rng.random() < 0.2
        return lambda before: f"{before}{text}" if joined else text
    if isinstance(old, list):
        return rng.choice(_LISTS)
    if isinstance(old, dict):
        return _table(rng)
    new = rng.choice(VALUES)
    return lambda _it: copy.deepcopy(new)


_LISTS: tuple[Callable[[Any], Any], ...] = (
    lambda _it: [],
    lambda items: items[:1],
    lambda items: items[:-1],
    lambda items: items[::-1],
    lambda items: copy.deepcopy(items * 2),
    lambda items: [*items, *copy.deepcopy(items[-1:])],
    lambda items: (
        copy.deepcopy(items * (_MANY // len(items))) if 0 < len(items) <= _MOST_ITEMS else items
    ),
)


def _table(rng: random.Random) -> Callable[[Any], Any]:
    how, name, many = rng.random(), rng.choice(TEXTS), rng.choice((5, _MANY))

    def changed(table: Any) -> Any:
        if how < 0.2 or not table:
            return {}
        key = next(iter(table))
        if how < 0.5:
            return {**table, name: copy.deepcopy(table[key])}
        if how < 0.6:
            return {
                **table,
                **{f"{key}{number}": copy.deepcopy(table[key]) for number in range(many)},
            }
        return {name: copy.deepcopy(table[key])} if how < 0.8 else {key: table[key]}

    return changed


def _texts(value: Any) -> list[str]:
    """All texts of the document: words that are known in one place may be odd in another."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [*value, *(text for part in value.values() for text in _texts(part))]
    if isinstance(value, list):
        return [text for part in value[:_MOST_ITEMS] for text in _texts(part)]
    return []


def _places(value: Any) -> dict[tuple[str, ...], list[_Path]]:
    """Every place by its kind: the keys on the way, with one sign for all items of a list."""
    places: dict[tuple[str, ...], list[_Path]] = {}
    _walk(value, (), places)
    return places


def _walk(value: Any, path: _Path, places: dict[tuple[str, ...], list[_Path]]) -> None:
    steps: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        steps = list(value.items())[:_MOST_ITEMS]
    elif isinstance(value, list):
        steps = list(enumerate(value[:_MOST_ITEMS]))
    for step, part in steps:
        below = (*path, step)
        kind = tuple("[]" if isinstance(step, int) else step for step in below)
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
