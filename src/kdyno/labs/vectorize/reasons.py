# SPDX-License-Identifier: MIT
"""Why a compiler left a loop alone: its words, sorted into a dozen reasons in plain ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

OTHER = "other"
REASONS: Mapping[str, str] = MappingProxyType(
    {
        "branches": "a branch or an early way out inside the loop",
        "trips": "how often it runs cannot be known before it starts (lists, strings, retries)",
        "call": "calls a function, or touches memory that cannot be followed",
        "pointers": "the next address comes out of memory: linked, not flat data",
        "dependence": "a turn needs what an earlier turn wrote",
        "aliasing": "what it reads and writes may overlap, and a test for that was not worth it",
        "volatile": "volatile, atomic or assembly inside",
        "nest": "an outer loop whose inner loops are not simple enough",
        "layout": "the elements do not lie one after the other",
        "type": "no vector instruction for this type or operation",
        "reduction": "a value carried from turn to turn in a way with no vector form",
        "short": "too few turns to fill a vector",
        "unprofitable": "possible, but slower by the compiler's estimate",
        OTHER: "other",
    }
)

_RULES = (
    ("volatile", r"volatile|__asm__|irregular stmt|atomic|ordered memory"),
    ("short", r"iteration count (?:too )?small|not have enough iterations|small trip count"
              r"|iteration count smaller"),
    ("unprofitable", r"not profitable|not worthwhile|never be profitable|not beneficial"
                     r"|cost[- ]model indicates"),
    ("branches", r"control flow|early exit|multiple exits|cannot identify array bounds"
                 r"|loop control flow is not understood|not if-convert|latch block not empty"
                 r"|switch statement"),
    ("trips", r"number of iterations cannot be computed|could not determine number of loop"
              r"|iterations is not computable|trip count"),
    ("nest", r"nested loops|inner loops|inner-loop|outerloop|loop nest|not the innermost loop"
             r"|outer loop"),
    ("pointers", r"is not affine|step unknown|linked|gather/scatter|pointer chas"),
    ("call", r"contains function calls|call instruction cannot|clobbers memory"
             r"|function call|library call|may throw|nested-cycle call"),
    ("dependence", r"data dependence|backward loop carried|dependence distance"),
    ("aliasing", r"versioning for alias|possible alias|cannot check memory|unsafe dependent memory"
                 r"|runtime (?:alias|memory) check|cannot prove it is safe to reorder memory"),
    ("reduction", r"def-use cycle|reduc|could not be identified as|used outside (?:of )?the loop"
                  r"|unsupported use in stmt|value that could not"),
    ("layout", r"not consecutive|array mode|strided|interleav|bad data references|load_lanes"
               r"|store_lanes|permut"),
    ("type", r"no vectype|unsupported data-type|not supported|cannot be vectorized|unsupported"
             r"|can't determine vectorization factor|operation"),
)  # fmt: skip
_COMPILED = tuple((name, re.compile(rule, re.IGNORECASE)) for name, rule in _RULES)
# Followed by what it means, or said of every loop that is given up.
_EMPTY = re.compile(
    r"(?:bad loop form|couldn't vectorize loop|bad data dependence|bad data references"
    r"|loop not vectorized|bad operation or unsupported loop bound)\.?\s*$"
)
# Said on the way, of loops that are vectorised as well.
_ASIDE = re.compile(
    r"misalign|epilogue loop|versioning for alias required|alignment may not|not consecutive access"
    r"|Unsupported pattern|Unknown def-use cycle pattern|SLP|use not simple|original stmt"
    r"|no array mode|lanes<|unexpected pattern|evolution of|reduction: not"
    r"|Loop costings may not|worthwhile"
)


def reason_of(messages: Iterable[str]) -> tuple[str, str]:
    """(reason, the compiler's words) of the messages about one missed loop, in their order.

    GCC tries every vector width and says on the way what would not stop it alone: the last
    message that says what did stop it counts, the asides only where there is no other.
    """
    said = [text.strip() for text in messages]
    telling = [text for text in said if not _EMPTY.match(text)]
    firm = [text for text in telling if not _ASIDE.search(text)]
    vague = [text for text in firm if text.startswith("not vectorized: loop contains function")]
    specific = [text for text in firm if text not in vague]
    for candidates in (specific, telling if not firm else [], vague, telling, said):
        for text in reversed(candidates):
            for name, rule in _COMPILED:
                if rule.search(text):
                    return name, text
    return OTHER, (telling or said or [""])[-1]
