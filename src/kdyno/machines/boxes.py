# SPDX-License-Identifier: MIT
"""Several boxes for one run: each block of boots lies on one of them, and they take the blocks in
turns. So a slow box biases nothing, and whether all have the same effect is tested: each of them is
a stratum of the verdict, as the nodes of a cluster are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace

from kdyno.errors import ToolError
from kdyno.machines import facts
from kdyno.machines.box import CAN, Box
from kdyno.machines.host import HOST_PLACES
from kdyno.machines.machine import Listener, Plan, Setup
from kdyno.machines.process import ProcessSession
from kdyno.store.comparable import common_facts
from kdyno.store.verdict import Flag


class Boxes:
    """Two boxes or more, which all have every image."""

    can = CAN
    emulator = ""
    places = HOST_PLACES

    def __init__(self, setup: Setup) -> None:
        self._boxes = {host: Box(replace(setup, hosts=(host,))) for host in setup.hosts}
        own = self._boxes[setup.hosts[0]]
        self.clock = own.clock
        # The same on all of them.
        self.identity, self.described = own.identity, own.described
        self.programs, self.footprint = own.programs, own.footprint
        for box in list(self._boxes.values())[1:]:
            box.clock.close()
            box.clock = self.clock

    def probe(self, notice: Callable[[str], None]) -> None:
        for box in self._boxes.values():
            box.probe(notice)
        identities = [box.host_facts().get("machine_id", host) for host, box in self._boxes.items()]
        if len(set(identities)) < len(identities):
            raise ToolError(f"{' and '.join(self._boxes)} are names of one and the same box")

    def several(self) -> Mapping[str, facts.Facts]:
        every = {host: box.host_facts() for host, box in self._boxes.items()}
        return {
            f"{own.get('cpu_model') or 'unknown CPU'} {host}": own for host, own in every.items()
        }

    def host_facts(self) -> facts.Facts:
        common = common_facts([dict(own) for own in self.several().values()])
        return {name: value for name, value in common.items() if isinstance(value, float | str)}

    def caveats(self) -> tuple[Flag, ...]:
        return tuple(
            dict.fromkeys(caveat for box in self._boxes.values() for caveat in box.caveats())
        )

    def open(self, plan: Plan, listener: Listener = lambda _case: None) -> ProcessSession:
        return tuple(self._boxes.values())[plan.block % len(self._boxes)].open(plan, listener)

    def close(self) -> None:
        """All of them, whatever becomes of one."""
        with ExitStack() as every:
            for box in self._boxes.values():
                every.callback(box.close)
