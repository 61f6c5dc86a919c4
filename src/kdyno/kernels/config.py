# SPDX-License-Identifier: MIT
"""A kernel's configuration: architectures, requested options, those that olddefconfig dropped and
why; and which sysctls a source has."""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kdyno.command import capture
from kdyno.errors import UsageError
from kdyno.experiment.model import ConfigFragment
from kdyno.kernels.changes import Changes
from kdyno.reading.checked import adapter
from kdyno.reading.mistakes import meant, nearest
from kdyno.sandbox import confined


@dataclass(frozen=True)
class Arch:
    """How Kbuild is called, what it builds, and which file is the bootable image."""

    name: str
    make: tuple[str, ...]
    """Words of every make call."""
    goal: str
    """What make is asked to build."""
    image: str
    """The bootable file, from the top of the object tree."""
    word_bits: int
    runs: tuple[int, ...]
    """Word sizes of the programs that its kernels run."""
    config: Mapping[str, str]
    """Options that make this the architecture it is; an experiment cannot override them."""
    objects_per_option: float = 1.5
    """Of a first build, for each option at y; later ones have that of the build before."""


ARCHS: Mapping[str, Arch] = {
    file.stem: adapter(Arch).validate_python(
        {"name": file.stem, **tomllib.loads(file.read_text("utf-8"))}
    )
    for file in sorted(Path(__file__).with_name("archs").glob("*.toml"))
}


def arch(name: str) -> Arch:
    """The architecture called ``name``; UsageError with the known ones otherwise."""
    if name not in ARCHS:
        raise UsageError(f"arch {name!r} is not one that kdyno builds ({', '.join(ARCHS)})")
    return ARCHS[name]


_OPTION_LINE = re.compile(r"(CONFIG_\w+)=(.*)$|# (CONFIG_\w+) is not set$")
_SOURCE = re.compile(r'\s*source\s+"([^"]+)"')
_KCONFIG = re.compile(
    r"\s*(menuconfig|config|choice|endchoice|menu|endmenu|if|endif|comment|mainmenu|help)\b\s*(.*)"
)
_ATTRIBUTE = re.compile(
    r"\s+(depends on|range|prompt|def_bool|def_tristate|bool|tristate|int|hex|string)\b\s*(.*)"
)
_SYMBOL = re.compile(r"(?<![\w\"$(])(?=[0-9_]*[A-Z])[A-Z0-9_]+\b")
_FORMS = {
    "bool": (r"[yn]", "y or n"),
    "tristate": (r"[ymn]", "y, m or n"),
    "int": (r"-?\d+", "a whole number"),
    "hex": (r"0[xX][0-9a-fA-F]+", "a number like 0x10"),
    "string": (r'".*"', 'a text in quotes, "…"'),
}
_SHOWN = 4
"""Options that are named as what another one depends on."""
_CODE = ("block", "fs", "init", "ipc", "kernel", "lib", "mm", "net", "security", "arch")


@dataclass(frozen=True)
class Wish:
    """One option that somebody asked for; value ``n`` means not set."""

    option: str
    value: str
    origin: str

    @property
    def line(self) -> str:
        return f"# {self.option} is not set" if self.value == "n" else f"{self.option}={self.value}"


def parse_line(line: str) -> tuple[str, str] | None:
    """(option, value) of a configuration line, value ``n`` for "is not set"; None for others."""
    match = _OPTION_LINE.match(line)
    return (match[1] or match[3], match[2] if match[1] else "n") if match else None


def values_of(dotconfig: str) -> dict[str, str]:
    """Option → value of a configuration; ``n`` for "is not set"."""
    return dict(filter(None, map(parse_line, dotconfig.splitlines())))


def wishes(fragments: Iterable[ConfigFragment]) -> tuple[Wish, ...]:
    """All wishes, sorted by option; a later fragment overrides an earlier one."""
    chosen = {
        parsed[0]: Wish(*parsed, fragment.origin)
        for fragment in fragments
        for parsed in filter(None, map(parse_line, fragment.lines))
    }
    return tuple(chosen[option] for option in sorted(chosen))


_OF_A_BUILD = (
    r"CONFIG_(?:(?:CC|RUSTC|BINDGEN)_VERSION_TEXT|(?:DEBUG_INFO|MODULE_SIG|WERROR|LOCALVERSION"
    r"|BUILD_SALT|SYSTEM_TRUSTED|SYSTEM_REVOCATION|SYSTEM_BLACKLIST|{})(?:_\w+)?)"
)
"""Names of versions, keys that others hold, debug data: a kernel built elsewhere has its own."""
_NOT_LOCAL = re.compile(_OF_A_BUILD.format("SECURITY_LOCKDOWN_LSM|IMA_APPRAISE_MODSIG|KEXEC_SIG"))
_NOT_REBUILDABLE = re.compile(_OF_A_BUILD.format("MODVERSIONS"))


def local_lines(config: str) -> tuple[str, ...]:
    """Of a whole configuration, what a kernel that is built here can take over."""
    off = ("DEBUG_INFO_BTF", "IMA_APPRAISE_MODSIG", "MODULE_SIG", "SECURITY_LOCKDOWN_LSM")
    return (
        *(
            line
            for line in config.splitlines()
            if (parsed := parse_line(line)) and not _NOT_LOCAL.fullmatch(parsed[0])
        ),
        *(f"# CONFIG_{name} is not set" for name in off),
        "CONFIG_DEBUG_INFO_NONE=y",
    )


_GUEST = (
    *("VIRTIO_MENU", "VIRTIO", "VIRTIO_MMIO", "VIRTIO_MMIO_CMDLINE_DEVICES", "VIRTIO_CONSOLE"),
    *("VIRTIO_BLK", "NETWORK_FILESYSTEMS", "NET_9P", "NET_9P_VIRTIO", "9P_FS"),
)
"""What a guest of ours must have built in; all other modules are left out."""


def rebuildable(config: str) -> tuple[str, ...]:
    """The lines of a shipped configuration for a kernel without modules that boots as a guest."""
    lines: dict[str, str] = {}
    for line in config.splitlines():
        if (parsed := parse_line(line)) and not _NOT_REBUILDABLE.fullmatch(parsed[0]):
            lines[parsed[0]] = f"# {parsed[0]} is not set" if parsed[1] == "m" else line
    lines |= {f"CONFIG_{name}": f"CONFIG_{name}=y" for name in _GUEST}
    return tuple(lines.values())


def unmet(wanted: Iterable[Wish], dotconfig: str) -> list[tuple[Wish, str]]:
    """Wishes that the final .config does not honour, each with the value it has instead."""
    final = values_of(dotconfig)
    values = ((wish, final.get(wish.option, "n")) for wish in wanted)
    return [(wish, value) for wish, value in values if value != wish.value]


@dataclass
class Option:
    """An option as a kernel's Kconfig files declare it, all its definitions together."""

    kind: str = ""
    """bool, tristate, int, hex or string."""
    prompt: bool = False
    """Without one it cannot be set: other options select it."""
    ranges: list[str] = field(default_factory=list)
    depends: list[str] = field(default_factory=list)
    """All of them have to hold, where there is one definition."""
    choice: str = ""
    """FILE:LINE of the choice that it is an answer of; empty: of none."""


class LostOptions(UsageError):
    def __init__(self, name: str, lost: list[tuple[Wish, str]]) -> None:
        """name: of the variant. lost: each with why."""
        listed = "\n".join(f"  {wish.line}   (from {wish.origin}): {why}" for wish, why in lost)
        super().__init__(
            f"variant {name!r}: these requested options did not survive `make olddefconfig`:\n"
            + listed,
            key="config",
        )
        self.lost = lost


def options(tree: Path, changes: Changes, arch: Arch) -> dict[str, Option]:
    """Every option that the changed tree's Kconfig declares for ``arch``: those in the files that
    its top one leads to."""
    word = next((word.removeprefix("ARCH=") for word in arch.make if word.startswith("ARCH=")), "")
    family = {"x86_64": "x86", "i386": "x86"}.get(word, word)
    declared: dict[str, Option] = {}
    waiting, visited = ["Kconfig"], set[str]()
    while waiting:
        path = waiting.pop().replace("$(SRCARCH)", family).replace("$(HEADER_ARCH)", "x86")
        if path in visited:
            continue
        visited.add(path)
        content = changes.files.get(path)
        # A tree of others may name files elsewhere, or links to them, or to each other, and what
        # no file can be called: there Path.is_file raises.
        file = Path(os.path.realpath(tree / path.replace("\0", "")))
        if content is None and file.is_relative_to(tree.resolve()) and os.path.isfile(file):  # noqa: PTH113
            content = file.read_bytes()
        waiting += _declared(path, (content or b"").decode("utf-8", "replace"), declared)
    return declared


def _declared(path: str, text: str, declared: dict[str, Option]) -> list[str]:
    """Adds the options of one file to ``declared``; the files that it names."""
    files: list[str] = []
    choice = ""
    around: list[list[str]] = [[]]  # what holds for all within each if, menu and choice
    option: Option | None = None
    # A help text ends where a line is indented less than its first one: entries of a choice may be
    # indented as well. None: no help text; 0: its first line is to come.
    help_columns: int | None = None
    # Each run of blanks is looked at from its beginning alone: it may have a million of them.
    lines = re.sub(r"(?<!\s)\s*(?:\\\n\s*)+", " ", text).expandtabs().splitlines()
    for number, line in enumerate(lines, start=1):
        columns = len(line) - len(line.lstrip())
        if help_columns is not None and (not line.strip() or columns >= (help_columns or 1)):
            help_columns = help_columns or columns
            continue
        help_columns = None
        if source := _SOURCE.match(line):
            files.append(source[1])
        elif entry := _KCONFIG.match(line):
            word, rest = entry.groups()
            if word == "help":
                help_columns = 0
            elif word in ("config", "menuconfig"):
                option = declared.setdefault(f"CONFIG_{rest.strip()}", Option())
                option.depends += [condition for level in around for condition in level]
                option.choice = option.choice or choice
            elif word == "comment":
                option = Option()  # nobody's: its conditions are of no option, nor of the level
            elif word in ("if", "menu", "choice"):
                around.append([rest] if word == "if" else [])
                choice = f"{path}:{number}" if word == "choice" else choice
                option = None
            elif word.startswith("end") and len(around) > 1:
                around.pop()
                choice = "" if word == "endchoice" else choice
                option = None
        elif attribute := _ATTRIBUTE.match(line):
            word, rest = attribute.groups()
            if word == "depends on":
                (around[-1] if option is None else option.depends).append(rest)
            elif option is not None and word == "range":
                option.ranges.append(rest)
            elif option is not None:
                option.prompt |= rest.startswith('"') and not word.startswith("def_")
                option.kind = option.kind or word.removeprefix("def_").replace("prompt", "")
    return files


def never(wish: Wish, declared: Mapping[str, Option], arch: Arch) -> str | None:
    """Why no configuration of the kernel can have the wish, by what its Kconfig declares; None
    where one may."""
    if wish.value == "n":
        return None
    if (option := declared.get(wish.option)) is None:
        # Without the prefix, which would make every short name look near.
        names = [symbol.removeprefix("CONFIG_") for symbol in declared]
        near = meant(wish.option.removeprefix("CONFIG_"), names, "; nearest: CONFIG_{}")
        return f"a kernel of arch {arch.name} has no such option{near}"
    form, allowed = _FORMS.get(option.kind, (".*", ""))
    return None if re.fullmatch(form, wish.value) else f"it is {allowed}"


def lost_options(
    name: str, lost: list[tuple[Wish, str]], final: str, tree: Path, changes: Changes, arch: Arch
) -> LostOptions:
    """The error for wishes that ``unmet`` finds in the configuration ``final``, each with why."""
    declared = options(tree, changes, arch)
    values = values_of(final)

    def why(wish: Wish, got: str) -> str:
        if reason := never(wish, declared, arch):
            return reason
        option = declared.get(wish.option, Option())
        if not option.prompt:
            return f"it cannot be set, only other options select it; it is {got}"
        if option.ranges and got != "n":
            return f"it became {got}; its range is {' or '.join(option.ranges)}"
        if not (symbols := dict.fromkeys(_SYMBOL.findall(" ".join(option.depends)))):
            return f"it became {got}: another option selects it"
        here = [f"{symbol}={values.get(f'CONFIG_{symbol}', 'n')}" for symbol in symbols]
        # First what may be missing; an expression can hold without some of it.
        here.sort(key=lambda text: not text.endswith("=n"))
        needs = " && ".join(dict.fromkeys(option.depends))
        return f"it became {got}; it depends on {needs[:200]}, and here {', '.join(here[:_SHOWN])}"

    return LostOptions(name, [(wish, why(wish, got)) for wish, got in lost])


@functools.cache
def has_sysctl(tree: Path, name: str) -> bool:
    """Whether any code of the tree has the last part of the name as a text. A kernel may still be
    without it: by its configuration, or in another folder of /proc/sys."""
    last = name.rpartition(".")[2]
    words = ["-qF", f'"{last}"']
    return any(_searched(tree, words, folders)[0] != 1 for folders in (_CODE, ("drivers",)))


@functools.cache
def nearest_sysctl(tree: Path, name: str) -> str | None:
    """The sysctl of the tree whose last part is most like that of ``name``: its last part."""
    output = _searched(tree, ["-hoE", r'procname[[:space:]]*=[[:space:]]*"[^"]+"'], _CODE)[1]
    return nearest(name.rpartition(".")[2], re.findall(r'"([^"]+)"', output))


def _searched(tree: Path, words: list[str], folders: Iterable[str]) -> tuple[int, str]:
    """(status, output) of grep over C files: status 1 where there is no match."""
    places = [str(tree / folder) for folder in folders if (tree / folder).is_dir()]
    if not places:
        return 1, ""
    argv = ["grep", "-rs", "--include=*.[ch]", *words, "--", *places]
    result = capture(confined(argv, reads=[tree]))
    return result.status, result.output
