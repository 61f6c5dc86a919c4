# SPDX-License-Identifier: MIT
"""What a kernel's own tests (KUnit) said at boot: KTAP lines on a console, read with suspicion.

The format: Documentation/dev-tools/ktap.rst in Linux. A guest's console is not trusted: what is
missing, cut, repeated or contradicts itself is a problem, never a pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

WANTED = ("memcpy", "string", "usercopy")
"""The suites of kernel/config/kunit.config."""
_STAMP = re.compile(r"^(?:<\d>)?\[ *\d+\.\d+\](?:\[[^\]]*\])? ?")
_RESULT = re.compile(r"^( *)(ok|not ok) (\d{1,6})(?: -)?(?: ([^\s#]{1,200}))?(?: *# *(.*))?$")
_SUBTEST = re.compile(r"^ *# Subtest: (\S{1,200})\s*$")
_PLAN = re.compile(r"^( *)1\.\.(\d{1,6})\s*$")
_MOST_PROBLEMS = 20


@dataclass(frozen=True)
class Suite:
    """One suite's tests, in order: (name, "passed", "failed" or "skipped")."""

    name: str
    tests: tuple[tuple[str, str], ...]
    planned: int | None
    result: str | None
    """The suite's own line; None where the console ends before it."""

    def problems(self) -> tuple[str, ...]:
        found = [f"{self.name}: {test} failed" for test, state in self.tests if state == "failed"]
        if self.result is None:
            found.append(f"{self.name}: cut short, it has no result")
        elif self.result == "failed" and not found:
            found.append(f"{self.name}: failed")
        if self.planned is not None and self.planned != len(self.tests):
            found.append(f"{self.name}: {len(self.tests)} of {self.planned} tests reported")
        if self.result == "passed" and not any(state == "passed" for _, state in self.tests):
            found.append(f"{self.name}: no test passed")
        return tuple(found)


@dataclass(frozen=True)
class KunitReport:
    """What all suites said, and what is wrong with it."""

    suites: tuple[Suite, ...]
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def summary(self) -> str:
        """``memcpy 6 of 6, string 36 of 36``, or the problems."""
        counts = [
            f"{suite.name} {sum(state == 'passed' for _, state in suite.tests)}"
            f" of {len(suite.tests)}"
            for suite in self.suites
        ]
        return ", ".join(counts) if self.passed else "; ".join(self.problems)

    def as_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "problems": list(self.problems),
            "suites": {suite.name: dict(suite.tests) for suite in self.suites},
        }


def parse_ktap(console: str, wanted: Iterable[str] = WANTED) -> KunitReport:
    """The report in ``console``; a wanted suite that is not there is a problem."""
    suites: list[Suite] = []
    name = ""
    planned: int | None = None
    tests: list[tuple[str, str]] = []
    for line in console.splitlines():
        text = _STAMP.sub("", line.rstrip("\r"))
        if match := _SUBTEST.match(text):
            if name and text.startswith("        "):
                continue  # parameters of one test have a list of their own
            if name:
                suites.append(Suite(name, tuple(tests), planned, None))
            name, planned, tests = match[1], None, []
        elif (match := _PLAN.match(text)) and name and planned is None and len(match[1]) == 4:
            planned = int(match[2])
        elif (match := _RESULT.match(text)) and name:
            state = "passed" if match[2] == "ok" else "failed"
            if state == "passed" and (match[5] or "").upper().startswith("SKIP"):
                state = "skipped"
            if len(match[1]) == 4:
                tests.append((match[4] or f"test {match[3]}", state))
            elif not match[1]:
                own = match[4] == name
                suites.append(Suite(name, tuple(tests), planned, state if own else None))
                name, planned, tests = "", None, []
    if name:
        suites.append(Suite(name, tuple(tests), planned, None))
    problems = [problem for suite in suites for problem in suite.problems()]
    names = [suite.name for suite in suites]
    problems += [f"{name}: did not run" for name in wanted if name not in names]
    problems += [
        f"{name}: reported twice" for name in dict.fromkeys(names) if names.count(name) > 1
    ]
    return KunitReport(tuple(suites), tuple(problems[:_MOST_PROBLEMS]))
