# SPDX-License-Identifier: MIT
"""An experiment made of a few words: any command, timed in every kernel that is named."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

from kdyno.errors import UsageError
from kdyno.experiment.model import NAME
from kdyno.machines.kinds import KINDS
from kdyno.machines.process import ENVIRONMENT
from kdyno.measure.bench import COPY_SUFFIX
from kdyno.reading.mistakes import KeyPath, meant, spelled
from kdyno.sandbox import is_seen, named

STOCK = "stock"
DEFAULT_SOURCE = "debian:linux-source-7.3"
_SAME = ("memcpy", "config", "cflags", "compiler", "cmdline", "sysctl", "cpus", "source")
_KEYS = {"patch": "patches", **{key: key for key in _SAME}}
"""Key of a shorthand → key of the experiment file."""
_HIDDEN = ("/tmp", "/run", "/dev", "/proc", "/sys")
_PATH = ENVIRONMENT["PATH"]
_LISTS = ("config", "patch")
# A comma belongs to the value unless a new part begins behind it: cflags=-Wl,-z is one part.
_COMMA = re.compile(rf",(?=(?:{'|'.join(_KEYS)})=|{STOCK}(?:,|$))")
_NOT_NAME = re.compile(r"[^A-Za-z0-9._]+")


@dataclass(frozen=True)
class Trial:
    kernels: tuple[str, ...]
    """Shorthands, the first is the baseline: ``stock``, ``memcpy=avx2``, ``config=smp,cpus=2``."""
    command: tuple[str, ...]
    source: str = DEFAULT_SOURCE
    figure: str | None = None
    unit: str = ""
    better: str = ""
    cpus: int = 1
    memory: str = ""
    """Empty: as the machine's kind is given as a rule."""
    machine: str = "uml"
    metric: str = "time"


def experiment_text(trial: Trial, folder: Path) -> str:
    """The experiment file that asks the same; it is stored with the run and can be kept. Files that
    a shorthand names are looked for in ``folder``. UsageError for a shorthand that means
    nothing."""
    if not trial.command:
        raise UsageError("which command? For example: kdyno try -k memcpy=avx2 -- sort words.txt")
    kernels = trial.kernels or (STOCK,)
    if len(kernels) == 1 and kernels[0] != STOCK:
        kernels = (STOCK, *kernels)
    tables: dict[str, list[str]] = {}
    for shorthand in kernels:
        name, lines = _variant(shorthand, folder)
        if name in tables:
            raise UsageError(f"-k {shorthand}: {name!r} is there twice")
        tables[name] = lines
    program = Path(trial.command[0]).name
    command = in_guest(trial.command, folder)
    memory = KINDS[trial.machine].memory if trial.machine in KINDS else ""
    text = f"""\
name = "try"
question = {literal(f"Is {program} faster or slower in these kernels?")}
baseline = {literal(next(iter(tables)))}

[kernel]
source = {literal(trial.source)}
config = {literal(fragments_of(trial.cpus))}

[machine]
kind = {literal(trial.machine)}
cpus = {trial.cpus}
memory = {literal(trial.memory or memory or "1G")}
"""
    for name, body in tables.items():
        text += "\n".join(["", f"[variant.{literal(name)}]", *body, ""])
    text += f'\n[[suite]]\nname = "run"\ncommand = {literal(list(command))}\n'
    if NAME.fullmatch(program):
        text += f"cases = [{literal(program)}]\n"
    if trial.figure is not None:
        text += f"figure = {literal(trial.figure)}\nunit = {literal(trial.unit or 'of its own')}\n"
        text += f"better = {literal(trial.better or 'lower')}\n"
    elif trial.unit or trial.better:
        raise UsageError("--unit and --better go with --figure; without it the time is measured")
    measure = f"metric = {literal(trial.metric)}\n" if trial.metric != "time" else ""
    measure += "apart = true\n" if trial.metric == "instructions" else ""
    # One kernel can only be compared with itself.
    measure += "calibrate = true\n" if len(tables) == 1 else ""
    return f"{text}\n[measure]\n{measure}" if measure else text


_OPTIONS = {
    ("machine", "kind"): "--machine",
    ("machine", "cpus"): "--cpus",
    ("machine", "memory"): "--memory",
    ("kernel", "source"): "--source",
    ("measure", "metric"): "--metric",
}


def option_of(path: KeyPath) -> str:
    """How the command line says what the key of ``experiment_text`` says."""
    if path[0] == "variant" and len(path) > 2:
        short = {long: short for short, long in _KEYS.items()}.get(str(path[2]), path[2])
        return f"-k {short}=…"
    if path[0] == "suite":
        return f"--{path[2]}" if len(path) > 2 and path[2] != "command" else "the command"
    return next((option for key, option in _OPTIONS.items() if path[:2] == key), spelled(path))


def in_guest(command: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """The command as a guest runs it: in ``folder``, which it sees read-only. UsageError where it
    would not find what the person means."""
    program = command[0]
    if not ((folder / program).is_file() if "/" in program else which(program, path=_PATH)):
        raise UsageError(f"{program} is not there: no such program in {_PATH}, or no such file")
    if not (is_seen(folder) or named([str(folder)])):
        for word in command:
            if not word.startswith(("/", "-")) and (folder / word).exists() and word != ".":
                raise UsageError(
                    f"{word} lies in {folder}, which no guest is shown: each has its own "
                    f"{', '.join(_HIDDEN)}, and no home as a whole and, for root, no folder "
                    "closed to others is shown. Move it to another folder, and start there"
                )
        return command
    return ("env", "-C", str(folder), *command)


def _variant(shorthand: str, folder: Path) -> tuple[str, list[str]]:
    """(name, lines of its table)."""
    values: dict[str, list[str]] = {}
    parts = _COMMA.split(shorthand)
    for part in parts:
        key, equals, value = part.partition("=")
        if part == STOCK and len(parts) == 1:
            return STOCK, []
        if not equals or key not in _KEYS or not value.strip():
            hint = meant(key, [*(f"{name}=" for name in _KEYS), STOCK], " Did you mean {}?")
            raise UsageError(
                f"-k {shorthand}: {part!r} is not a kernel.{hint} A kernel is {STOCK}, or "
                f"{', '.join(f'{name}=…' for name in _KEYS)}, several joined by commas"
            )
        if key in values and key not in (*_LISTS, "sysctl"):
            raise UsageError(f"-k {shorthand}: {key} is there twice")
        values.setdefault(key, []).append(value)
    lines = [f"{_KEYS[key]} = {_value(key, own, folder)}" for key, own in values.items()]
    names = []
    for key, value in ((key, value) for key, own in values.items() for value in own):
        short = _NOT_NAME.sub("-", Path(value).name if key == "patch" else value).strip("-.")
        # The key is in the name where the value alone says too little.
        own = key in ("memcpy", "config", "patch", "compiler")
        names.append(short if own else f"{key}-{short}")
    name = "+".join(names)
    if name.endswith(COPY_SUFFIX):
        name += "_"
    return name[:80], lines


def _value(key: str, values: list[str], folder: Path) -> str:
    if key == "patch" or (key == "config" and any("/" in value for value in values)):
        # The run is resumed from wherever the person is then.
        values = [str(folder / value) if (folder / value).exists() else value for value in values]
    if key in _LISTS:
        return literal(list(values))
    if key == "cpus":
        if not (values[0].isascii() and values[0].isdigit() and len(values[0]) < 10):
            raise UsageError(f"cpus={values[0]}: a whole number is expected")
        return str(int(values[0]))  # TOML knows no 02
    if key == "sysctl":
        pairs = [value.partition("=") for value in values]
        if len({name for name, _, _ in pairs}) < len(pairs):
            raise UsageError(f"sysctl={',sysctl='.join(values)}: one name is there twice")
        return "{ " + ", ".join(f"{literal(k)} = {literal(v)}" for k, _, v in pairs) + " }"
    return literal(values[0])


def fragments_of(cpus: int) -> list[str]:
    """Of a kernel for which no file asks for any."""
    return ["bench", *(["smp", f"CONFIG_NR_CPUS={cpus}"] if cpus > 1 else [])]


def literal(value: Any) -> str:
    """Text, a number, a boolean or an array of these in TOML: JSON's but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
