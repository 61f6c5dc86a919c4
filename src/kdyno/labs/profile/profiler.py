# SPDX-License-Identifier: MIT
"""The profiler around one boot or around a group, and what it found added to a profile."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kdyno import whole
from kdyno.errors import ToolError
from kdyno.labs.profile import gmon, perf, sampled
from kdyno.labs.profile.record import (
    FUNCTIONS_MOST,
    OUTSIDE,
    STACKS_MOST,
    FunctionTime,
    Method,
    Profile,
    ProfiledBoot,
    Stack,
)
from kdyno.labs.profile.symbols import Symbols, symbols_of
from kdyno.machines.machine import Machine, Outcome, Plan, run_to_end
from kdyno.suites.record import Done, Sample

_BOOT_MOST_S = 1e7
"""Of CPU time: no boot has as much, but a kernel may say so, or write it into its data."""
GPROF_EVENT = "profil, 100 Hz"
_GMON, _PERF_DATA = "gmon.out", "perf.data"
_GPROF_NOTES = (
    "gprof counts the UML kernel's own code only: not the host's kernel, not the guest's programs",
    "the kernels are built with CONFIG_GPROF: every call of a function in C is counted as well, "
    "which costs time of its own; functions in assembly, memcpy among them, have no count",
)


class Profiler:
    """perf or gprof, for all boots of one profile."""

    def __init__(self, method: str, frame_pointers: bool, sandboxed: bool) -> None:
        self.method: Method = "perf" if method == "perf" else "gprof"
        self._sandboxed = sandboxed
        self.event = GPROF_EVENT
        self.notes: tuple[str, ...] = _GPROF_NOTES
        self._frame_pointers = frame_pointers
        self._symbols: dict[Path, Symbols] = {}
        if method == "perf":
            ability = perf.ability()
            self.event, self.notes = ability.event, ability.notes
            if not frame_pointers:
                self.notes += (
                    "these kernels have no frame pointers: stacks show the host's kernel and the "
                    "one function above it. --stacks builds kernels that have them",
                )

    def empty(
        self, variant: str, image: str, operations: Mapping[str, int], *notes: str
    ) -> Profile:
        """A profile without boots."""
        return Profile(
            variant, self.method, self.event, image, dict(operations), (), (), (*self.notes, *notes)
        )

    def boot(self, machine: Machine, plan: Plan, so_far: Profile, block: int) -> Profile:
        """``so_far`` with one more boot; ToolError with the reason when the boot failed."""
        with whole.scratch("profile") as folder:
            outcome = run_to_end(machine.open(self._watched(plan, folder)), machine.clock)
            return self._read(machine, so_far, outcome, block, folder)

    def group(
        self,
        machine: Machine,
        plans: Sequence[Plan],
        so_far: Mapping[str, Profile],
        block: int,
        run: Callable[[Sequence[Plan]], Mapping[str, Outcome]],
    ) -> dict[str, Profile]:
        """As ``boot``, for guests that are alive together; ``run`` has them do their work.

        ToolError when one of them failed: their seconds are compared with each other's.
        """
        with whole.scratch("profile") as parent:
            folders = {plan.variant: parent / str(at) for at, plan in enumerate(plans)}
            for folder in folders.values():
                folder.mkdir(0o700)
            outcomes = run([self._watched(plan, folders[plan.variant]) for plan in plans])
            found = {}
            for name, outcome in outcomes.items():
                try:
                    found[name] = self._read(machine, so_far[name], outcome, block, folders[name])
                except ToolError as problem:
                    raise ToolError(f"{name}: {problem}") from None
            return found

    def _watched(self, plan: Plan, folder: Path) -> Plan:
        """The plan with the profiler around it, which leaves its data in ``folder``."""
        if self.method == "gprof":
            return dataclasses.replace(plan, left=((_GMON, folder / _GMON),))
        return dataclasses.replace(plan, beside=tuple(perf.record(folder / _PERF_DATA, self.event)))

    def _read(
        self, machine: Machine, so_far: Profile, outcome: Outcome, block: int, folder: Path
    ) -> Profile:
        so_far = self._noted(so_far)
        cpu_s = _done(outcome)
        programs = machine.programs(so_far.variant)
        if self.method == "gprof":
            file = folder / _GMON
            data = file.read_bytes() if file.is_file() else b""
            if not data:
                raise ToolError(
                    "gmon.out is missing: the kernel did not reach its clean end, where it writes "
                    f"it. Its last words: {_last_words(outcome)}"
                )
            counted = gmon.functions(gmon.parse(data), self._of(programs.kernel))
            return _added(so_far, ProfiledBoot(block, cpu_s, counted), ())
        samples = perf.script(folder / _PERF_DATA)
        weight = sum(it.weight for it in samples if isinstance(it, perf.Sample))
        if not weight:
            raise ToolError("perf recorded no sample")
        each_s = 1e-9 if self.event == perf.SOFTWARE else (cpu_s or 0.0) / weight
        reader = sampled.Reader(
            self._of(programs.kernel), self._of(programs.guest), self._frame_pointers
        )
        found = sampled.attribute(samples, reader, each_s)
        return _added(so_far, ProfiledBoot(block, cpu_s, found.functions), found.stacks)

    def _noted(self, so_far: Profile) -> Profile:
        """One boot outside of the sandbox is enough for the whole profile to say so."""
        if self._sandboxed or OUTSIDE in so_far.notes:
            return so_far
        return dataclasses.replace(so_far, notes=(*so_far.notes, OUTSIDE))

    def _of(self, program: Path) -> Symbols:
        if program not in self._symbols:
            self._symbols[program] = symbols_of(program)
        return self._symbols[program]


def _done(outcome: Outcome) -> float | None:
    """CPU seconds of a boot that did all of its work; ToolError for one that did not."""
    host = outcome.host
    if host.status != "ok":
        raise ToolError(f"{host.reason}: {host.text}")
    for result in outcome.transcript.results:
        if not isinstance(result, Sample | Done):
            raise ToolError(f"case {result.case} of the job did not do its work: {result.reason}")
    if host.user_s is None or host.sys_s is None:
        return None
    return host.user_s + host.sys_s


def _last_words(outcome: Outcome) -> str:
    lines = outcome.console.decode("utf-8", "replace").split("\n")
    said = [line.strip()[:200] for line in lines if line.strip()]
    return " / ".join(said[-2:]) or "none"


def _added(so_far: Profile, boot_: ProfiledBoot, stacks: tuple[Stack, ...]) -> Profile:
    """Stacks are means over the boots; of very many the smallest are dropped."""
    boot_ = dataclasses.replace(boot_, functions=_believable(boot_.functions))
    before, after = len(so_far.boots), len(so_far.boots) + 1
    total = {(it.where, it.frames): it.seconds * before for it in so_far.stacks}
    for it in stacks:
        total[it.where, it.frames] = total.get((it.where, it.frames), 0.0) + it.seconds
    kept = sorted(total.items(), key=lambda item: (-item[1], item[0]))[:STACKS_MOST]
    return dataclasses.replace(
        so_far,
        boots=tuple(sorted((*so_far.boots, boot_), key=lambda it: it.block)),
        stacks=tuple(Stack(where, frames, s / after) for (where, frames), s in kept),
    )


def _believable(functions: tuple[FunctionTime, ...]) -> tuple[FunctionTime, ...]:
    """As many as a profile has, the others as one. ToolError for more seconds than a boot has."""
    total_s = sum(it.seconds for it in functions)
    if total_s > _BOOT_MOST_S:
        raise ToolError(f"the profile says {total_s:.3g} s of CPU for one boot: it is not believed")
    kept, rest = functions[: FUNCTIONS_MOST - 1], functions[FUNCTIONS_MOST - 1 :]
    if len(rest) < 2:
        return functions
    rest_s = sum(it.seconds for it in rest)
    return (*kept, FunctionTime("kernel", f"[{len(rest)} other functions]", rest_s))
