# SPDX-License-Identifier: MIT
"""A verdict's own words: what verdict.json says to people, made from the rest of it."""

from __future__ import annotations

from kdyno.report import factors, figures
from kdyno.report.sentence import answer
from kdyno.store.manifest import Manifest
from kdyno.store.verdict import Verdict


def worded(verdict: Verdict, manifest: Manifest | None = None) -> Verdict:
    """The verdict with its answer, and a line for each case and factor of a cross.

    manifest: of its run, which names the kernel that was measured alone.
    """
    if table := verdict.factors:
        lines = factors.summary(table, verdict.equivalent)
        verdict = verdict.model_copy(
            update={"factors": table.model_copy(update={"summary": lines})}
        )
    said = _of_values(verdict, manifest) if verdict.values else answer(verdict)
    return verdict.model_copy(update={"answer": said})


def _of_values(verdict: Verdict, manifest: Manifest | None) -> str:
    measured = [value for value in verdict.values if value.value is not None]
    kernel = (manifest.host if manifest else {}).get("host_kernel", "unknown")
    most = max((value.repetitions for value in measured), default=0)
    return (
        f"The running kernel {kernel}: {figures.count(len(measured), 'case')} of "
        f"{len(verdict.values)} measured, {figures.count(most, 'repetition')} at most; nothing is "
        "compared here (`kdyno compare RUN RUN` compares runs)."
    )
