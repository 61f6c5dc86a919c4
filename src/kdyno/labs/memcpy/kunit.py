# SPDX-License-Identifier: MIT
"""A routine in a kernel that tests itself: build it with KUnit, boot it once, read what it says.

The kernel's tests write KTAP lines on the console at boot; the format is in
Documentation/dev-tools/ktap.rst in Linux. A guest's console is not trusted: what is missing, cut,
repeated or contradicts itself is a problem, never a pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kdyno.experiment import loader
from kdyno.experiment.model import Experiment, Machine
from kdyno.kernels.routines.routine import Routine, list_routines
from kdyno.labs.memcpy.counting import ready
from kdyno.measure.bench import plan_of
from kdyno.measure.boot import boot
from kdyno.measure.execution import Options
from kdyno.measure.vocabulary import vocabulary

SUITES = ("memcpy", "string", "usercopy")
"""The suites of kernel/config/kunit.config."""
_VARIANT = "tested"
_MACHINE = Machine(memory_bytes=256 << 20, timeout_s=120.0)
_STAMP = re.compile(r"^(?:<\d>)?\[ *\d+\.\d+\](?:\[[^\]]*\])? ?")
_RESULT = re.compile(r"^( *)(ok|not ok) (\d{1,6})(?: -)?(?: ([^\s#]{1,200}))?(?: *# *(.*))?$")
_SUBTEST = re.compile(r"^ *# Subtest: (\S{1,200})\s*$")
_PLAN = re.compile(r"^( *)1\.\.(\d{1,6})\s*$")
_MOST_PROBLEMS = 20


def kernel_tests(
    routine: Routine | None,
    source: str,
    options: Options,
    config: Sequence[str] = (),
    patches: Sequence[str] = (),
) -> KunitReport:
    """The report of the memcpy, string and usercopy tests of a kernel that has ``routine``.

    config, patches: further ones, as an experiment file names them. UsageError, BuildError and
    ToolError as the builder and the machine raise them; a guest that dies is a problem in
    the report."""
    keys: dict[str, Any] = {"source": source, "config": ["small", "kunit", *config]}
    keys["patches"] = list(patches)
    if routine is not None:
        # By its name where the project has it, else by its file.
        ours = routine in list_routines(function=routine.function)
        name = routine.name if ours else str(routine.path.absolute())
        memcpy = routine.function == "memcpy"
        keys |= {"memcpy": name} if memcpy else {"routines": {routine.function: name}}
    variant = loader.variant(_VARIANT, keys, "kdyno lab memcpy check", Path.cwd(), vocabulary({}))
    experiment = Experiment("kunit", "", _VARIANT, (variant,), (), machine=_MACHINE)
    bench = ready(experiment, {}, options)
    # Results of tests are logged as information, which "quiet" hides.
    outcome = boot(bench, replace(plan_of(bench, _VARIANT), cmdline="loglevel=7"))
    bench.machine.close()
    return parse_ktap(outcome.console.decode("utf-8", "replace"))


@dataclass(frozen=True)
class KunitReport:
    """The tests of all suites in their order: (name, "passed", "failed" or "skipped"); and what is
    wrong with the report."""

    suites: Mapping[str, Sequence[tuple[str, str]]]
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def summary(self) -> str:
        """``memcpy 6 of 6, string 36 of 36``, or the problems."""
        return "; ".join(self.problems) or ", ".join(
            f"{name} {sum(state == 'passed' for _, state in tests)} of {len(tests)}"
            for name, tests in self.suites.items()
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "problems": list(self.problems),
            "suites": {name: dict(tests) for name, tests in self.suites.items()},
        }


def parse_ktap(console: str, expected: Iterable[str] = SUITES) -> KunitReport:
    """The report in ``console``; an expected suite that is not there is a problem."""
    suites: dict[str, list[tuple[str, str]]] = {}
    problems: list[str] = []
    repeated: list[str] = []
    name = ""
    planned: int | None = None
    tests: list[tuple[str, str]] = []

    def end(result: str | None) -> None:
        """Of the suite's own line; None where the console ends before it."""
        failed = [f"{name}: {test} failed" for test, state in tests if state == "failed"]
        problems.extend(failed)
        if result is None:
            problems.append(f"{name}: cut short, it has no result")
        elif result == "failed" and not failed:
            problems.append(f"{name}: failed")
        if planned is not None and planned != len(tests):
            problems.append(f"{name}: {len(tests)} of {planned} tests reported")
        if result == "passed" and not any(state == "passed" for _, state in tests):
            problems.append(f"{name}: no test passed")
        if name in suites:
            repeated.append(f"{name}: reported twice")
        suites[name] = tests

    for line in console.splitlines():
        text = _STAMP.sub("", line.rstrip("\r"))
        if match := _SUBTEST.match(text):
            if name and text.startswith("        "):
                continue  # parameters of one test have a list of their own
            if name:
                end(None)
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
                end(state if match[4] == name else None)
                name, planned, tests = "", None, []
    if name:
        end(None)
    problems += [f"{suite}: did not run" for suite in expected if suite not in suites]
    problems += dict.fromkeys(repeated)
    return KunitReport(suites, tuple(problems[:_MOST_PROBLEMS]))
