# SPDX-License-Identifier: MIT
"""Text from kernels, files and people, made safe to print on one line."""

from __future__ import annotations

import re
import unicodedata

# ECMA-48: CSI sequences; OSC, DCS, SOS, PM and APC strings up to their end; two-byte escapes.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)

_SHORT_LIMIT = 48
_NAME_LIMIT = 200
_TEXT_LIMIT = 2000


def name(text: str) -> str:
    """A name for a table: one line, nothing that moves the cursor or turns the writing round."""
    return _clean(text, _NAME_LIMIT) or "?"


def short(text: str) -> str:
    """A name cut to what still reads well inside a sentence or a column."""
    whole = name(text)
    return whole if len(whole) <= _SHORT_LIMIT else whole[: _SHORT_LIMIT - 1] + "…"


def sentence(text: str) -> str:
    """The same for longer text."""
    return _clean(text, _TEXT_LIMIT)


def line(text: str) -> str:
    """One line of a file or a console as it stands, indented, tabs kept, without what is unsafe."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if each in " 	" else _character(each) for each in _ESCAPES.sub("", text))


def _clean(text: str, limit: int) -> str:
    if not (text.isascii() and text.isprintable()):
        text = _ESCAPES.sub("", text[: 10 * limit])
        text = "".join(map(_character, text))
        text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _character(character: str) -> str:
    kind = unicodedata.category(character)
    if kind == "Cs":
        return "\ufffd"
    if kind in ("Zl", "Zp", "Zs") or character in "\t\n\r\v\f":
        return " "
    # Cf holds the bidirectional overrides, which can make a table say the opposite.
    return "" if kind in ("Cc", "Cf", "Co", "Cn") else character
