# SPDX-License-Identifier: MIT
"""What machines have in common that boot kernels which kdyno built, as processes of the host."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from kdyno.kernels.image import Image
from kdyno.machines.events import Events
from kdyno.machines.facts import available_bytes
from kdyno.machines.machine import Footprint, Programs, Setup
from kdyno.machines.program import guest_program


class Built:
    """The images of a run, each with the guest program of its word size."""

    overhead_bytes: int
    """What a guest takes beside its memory."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.clock = Events()
        for variant in setup.images:
            self._program(variant)

    def _image(self, variant: str) -> Image:
        return self._setup.images[variant]

    def _program(self, variant: str) -> Path:
        """Where a variant asks for programs of one word size, of that; else of its kernel's."""
        bits = self._setup.variants[variant].program_bits or self._image(variant).word_bits
        return guest_program(self._setup.cache, bits)

    def _cpus(self, variant: str) -> int:
        """As many as the variant asks for, of a kernel that has more than one."""
        asked = self._setup.variants[variant].cpus or self._setup.cpus
        return asked if self._image(variant).smp else 1

    def identity(self, variant: str) -> str:
        image = self._image(variant)
        if image.scheduler is None:
            return image.digest
        both = f"{image.digest} {image.scheduler.digest}"
        return hashlib.sha256(both.encode()).hexdigest()[: len(image.digest)]

    def described(self, variant: str) -> dict[str, Any]:
        image = self._image(variant)
        loaded = image.scheduler
        scheduler = {"scheduler": {"name": loaded.name, "digest": loaded.digest}} if loaded else {}
        return {"digest": image.digest, **image.build, **scheduler}

    def programs(self, variant: str) -> Programs:
        return Programs(self._image(variant).kernel, self._program(variant))

    def footprint(self) -> Footprint:
        return Footprint(self._setup.memory_bytes + self.overhead_bytes, available_bytes())

    def close(self) -> None:
        self.clock.close()
