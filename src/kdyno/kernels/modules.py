# SPDX-License-Identifier: MIT
"""Modules of an installed kernel that a guest needs before it can be spoken to, in their order.

A package has no modules.dep: depmod makes it where the package is installed. What it is made of
stands in each module: ``depends`` and ``softdep``, in its section .modinfo.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from kdyno.errors import UsageError
from kdyno.kernels.image import Image
from kdyno.kernels.installed import decompressed

_MOST_BYTES = 32 << 20
_MOST = 100
_DEPENDS = re.compile(rb"(?:^|\0)depends=([\w,-]*)\0")
_SOFT = re.compile(rb"(?:^|\0)softdep=pre: ([\w -]*?)(?: post:[^\0]*)?\0")
_PARTS = re.compile(r"\.ko(?:\.\w+)?$")


def name_of(file: str) -> str:
    """As the kernel calls a module: ``9pnet_virtio`` of ``kernel/net/9p/9pnet_virtio.ko.xz``."""
    return _PARTS.sub("", file.rpartition("/")[2]).replace("-", "_")


def needed(image: Image, names: Iterable[str]) -> tuple[tuple[str, bytes], ...]:
    """(name, content) of the modules ``names`` and of what they depend on, as they are to be
    loaded; nothing for what is built into the kernel. UsageError where one is neither."""
    files = {name_of(path.name): path for path in sorted(image.modules.glob("kernel/**/*.ko*"))}
    builtin = _builtin(image.modules / "modules.builtin")
    order: dict[str, bytes] = {}

    def add(name: str, by: str, soft: bool = False) -> None:
        # The kernel asks for crc32c and the like by an alias; generic code answers everywhere.
        own = next(
            (
                module
                for module in (name, f"{name}_generic")
                if module in files or module in builtin
            ),
            None,
        )
        if own is None and not soft:
            raise UsageError(
                f"image {image.build.get('source')}: its kernel has no {name}, neither built in "
                f"nor as a module, and {by} needs it"
            )
        if own is None or own in builtin or own in order or len(order) >= _MOST:
            return
        content = decompressed(files[own], _MOST_BYTES)
        hard, softs = _DEPENDS.search(content), _SOFT.findall(content)
        for other in hard[1].decode().split(",") if hard else ():
            if other:
                add(other.replace("-", "_"), own)
        for other in b" ".join(softs).decode().split():
            add(other.replace("-", "_"), own, soft=True)
        order[own] = content

    for name in names:
        add(name, "a guest in QEMU")
    return tuple(order.items())


def _builtin(file: Path) -> frozenset[str]:
    if not file.is_file():
        return frozenset()
    return frozenset(map(name_of, file.read_text("utf-8", "replace").splitlines()))
