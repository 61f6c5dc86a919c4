# SPDX-License-Identifier: MIT
"""kdyno doctor."""

from __future__ import annotations

from kdyno.verbs.output import Json, check_writable, show, write_json

NAME = "doctor"
EXAMPLES = "Examples: kdyno doctor | kdyno doctor --json -"


def verb(json: Json = None) -> int:
    """Show what this machine lacks for kdyno, and how to install it."""
    from kdyno.doctor.doctor import examine, install_line, suites_line, this_family

    check_writable(json)
    findings = examine()
    line = install_line(findings, this_family())
    bad = [finding for finding in findings if finding.need.required and not finding.ok]
    if json is not None:
        value = {
            "ok": not bad,
            "install": line,
            "needs": [
                {
                    "name": finding.need.name,
                    "required": finding.need.required,
                    "ok": finding.ok,
                    "problem": finding.problem,
                    "purpose": finding.need.purpose,
                }
                for finding in findings
            ],
        }
        write_json(value, json)
    if json != "-":
        for finding in findings:
            word = "ok" if finding.ok else ("MISSING" if finding.need.required else "missing")
            why = "" if finding.ok else f": {finding.problem}"
            show(f"{word:8} {finding.need.name:18} {finding.need.purpose}{why}")
        if line is not None:
            show(f"\nTo install what is missing: {line}")
            if (suites := suites_line(findings, this_family())) is not None:
                show(f"For the suites alone: {suites}")
        elif any(not finding.ok for finding in findings):
            show("\nInstall what is missing by your distribution's own tool.")
        else:
            show("\nNothing is missing.")
    return 1 if bad else 0
