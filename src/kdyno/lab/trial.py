# SPDX-License-Identifier: MIT
"""A first boot of every image with nothing to do: how it runs user code, and whether it starts.

It also brings the images into the host's page cache, so that no variant's first measured boot
pays for reading its file.
"""

from __future__ import annotations

from collections.abc import Callable

from kdyno.errors import ToolError
from kdyno.lab.booting import Bench, request
from kdyno.machines.uml import boot, supports_seccomp
from kdyno.store.verdict import Flag


def mode_of(bench: Bench, told: Callable[[str], None]) -> str:
    """ "seccomp" where the host allows it, else "ptrace", the same for every variant.

    An image that fails for another reason is not judged here: the loop counts its failures.
    ToolError when not even the sandbox starts.
    """
    for name in dict.fromkeys(bench.variants):
        outcome = boot(request(bench, name, empty=True, mode="seccomp"))
        if outcome.host.status == "ok":
            continue
        if outcome.host.reason == "sandbox":
            raise ToolError(f"the sandbox does not start: {outcome.host.text}")
        if outcome.host.reason == "no-seccomp":
            told("this host does not let UML use seccomp; all variants run in ptrace mode, slower")
            return "ptrace"
        told(f"{name}: its first boot failed ({outcome.host.reason}: {outcome.host.text})")
    return "seccomp"


def mode_flags(bench: Bench) -> tuple[Flag, ...]:
    """A warning where variants cannot run in the same mode."""
    if bench.mode != "seccomp":
        text = "UML ran in ptrace mode: system calls cost more than in seccomp mode"
        return (Flag(kind="ptrace-mode", text=text),)
    old = [name for name in bench.variants if not supports_seccomp(bench.images[name].kernel)]
    if not old:
        return ()
    if len(old) == len(bench.variants):
        return (Flag(kind="ptrace-mode", text="these kernels know only UML's ptrace mode"),)
    text = (
        f"{', '.join(old)}: too old for UML's seccomp mode and ran in ptrace mode, the others in "
        "seccomp mode; what crosses the system call boundary is not comparable"
    )
    return (Flag(kind="mixed-modes", text=text),)
