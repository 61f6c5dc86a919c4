# SPDX-License-Identifier: MIT
"""kdyno's command line: the verbs, and how an error becomes a message and an exit status."""

from __future__ import annotations

import errno
import io
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperArgument

from kdyno import __version__
from kdyno.cli import (
    build,
    calibrate,
    check,
    compare,
    doctor,
    join,
    judge,
    listing,
    push,
    report,
    run,
    serve,
    try_,
)
from kdyno.errors import Interrupted, KdynoError
from kdyno.labs.memcpy import verbs as memcpy
from kdyno.labs.profile import verb as profile
from kdyno.labs.published import verb as published
from kdyno.labs.vectorize import verb as vectorize
from kdyno.verbs.bundle import unbundled
from kdyno.verbs.output import say, show
from kdyno.whole import NO_SPACE, no_space

INTERRUPTED = Interrupted.exit_status

app = typer.Typer(
    name="kdyno",
    help="A dynamometer for kernels: did this change make the kernel faster, by how much, "
    "how sure are we, and where does it come from?",
    epilog="Start with: kdyno doctor; then kdyno run EXPERIMENT --quick. "
    "Exit status: 0 measured, 1 tool or environment, 2 usage, "
    "10 slower and 11 inconclusive (with --fail-on), 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        show(f"kdyno {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


def _one_a_line(examples: str) -> str:
    r"""A verb's "Examples: one | two", one a line; \b keeps the help from joining them again."""
    lines = examples.removeprefix("Examples: ").split(" | ")
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


for verb in (
    doctor,
    listing,
    check,
    build,
    run,
    try_,
    calibrate,
    judge,
    join,
    compare,
    profile,
    published,
    report,
    serve,
    push,
    vectorize,
):
    app.command(verb.NAME, epilog=_one_a_line(verb.EXAMPLES))(unbundled(verb.verb))

laboratory = typer.Typer(
    help=memcpy.HELP,
    epilog=_one_a_line(memcpy.EXAMPLES),
    no_args_is_help=True,
    rich_markup_mode=None,
)
for verb in memcpy.VERBS:
    laboratory.command(verb.NAME, epilog=_one_a_line(verb.EXAMPLES))(verb.verb)
app.add_typer(laboratory, name=memcpy.NAME)


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted("terminated")


def _prepare_streams() -> None:
    """stdin, stdout and stderr that can be used, whatever the caller closed or set."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # Else the next file that is opened would get this number, and what is printed with it.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode is not an error


def _lose_output() -> None:
    """Send what is still in stdout's buffer nowhere: the exit would only fail at it once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _say_usage(problem: typer.TyperException) -> None:
    """What typer says of a wrong command line, said as all of kdyno's errors are."""
    text = problem.format_message().strip().rstrip(".")
    context = getattr(problem, "ctx", None)
    if context is not None and text == context.get_help().strip().rstrip("."):
        say(problem.format_message())  # no word was given: the help is the answer
        return
    words = [it for it in sys.argv[1:2] if not it.startswith("-")]
    verb = context.command_path if context is not None else " ".join(["kdyno", *words])
    parameter = getattr(problem, "param", None)
    if match := _WRONG_VALUE.match(text):
        text = _wrong_value(match[1], match[2], parameter)
    elif match := _NO_COMMAND.match(text):
        word = match[1]
        text = f"{word!r} is not a verb.{text[match.end() :]}".rstrip(".")
        if word.endswith(".toml") or Path(word).is_file():
            file = shlex.quote(word)
            text += f"; `{verb} run {file}` measures it, `{verb} check {file}` only checks it"
    elif match := _NO_OPTION.match(text):
        there = match[2].replace(", ", " or ") if match[2] else ""
        text = f"there is no option {match[1]}" + (f". Did you mean {there}?" if there else "")
    end = "" if text.endswith("?") else "."
    say(f"kdyno: {text[:1].lower()}{text[1:]}{end} `{verb} --help` shows what there is")


_WRONG_VALUE = re.compile(r"Invalid value for '(.+?)': (.*)", re.DOTALL)
_NO_COMMAND = re.compile(r"No such command '(.*?)'\.?")
_NO_OPTION = re.compile(r"No such option: (\S+)(?: \(Possible options: (.*)\))?")


def _wrong_value(option: str, why: str, parameter: Any) -> str:
    """option: as typer calls it; its value is looked for among what was typed."""
    option = option.split(" / ")[-1].strip("'")
    names = (*getattr(parameter, "opts", ()), option)
    given = ""
    for word, following in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        if word in names:
            given = following
        elif word.partition("=")[0] in names:
            given = word.partition("=")[2]
    wanted = why.removeprefix("Input should be ").partition(",")[0]
    low = getattr(parameter, "min", None)
    if low is not None and "greater" not in wanted:
        wanted += f", at least {low:g}"
    what = getattr(parameter, "help", None) or ""
    return f"{option} {given!r}: {wanted} is expected" + (f" ({what.rstrip('.')})" if what else "")


@cache
def command() -> Callable[..., Any]:
    """What ``app`` describes, made once for all calls in this process."""
    made = typer.main.get_command(app)
    _untyped(made)
    return made


def _untyped(made: Any) -> None:
    """Without the types in Python that typer's help puts behind arguments."""
    for parameter in made.params:
        if isinstance(parameter, TyperArgument):
            vars(parameter)["display_type_rich"] = lambda ctx: None
    for each in getattr(made, "commands", {}).values():
        _untyped(each)


def main() -> int:
    """Run one verb; the exit status."""
    _prepare_streams()
    signal.signal(signal.SIGTERM, _terminated)
    try:
        status = command()(prog_name="kdyno", standalone_mode=False)
        sys.stdout.flush()
        if status == INTERRUPTED:  # typer's own answer to Ctrl-C, without a word
            say("kdyno: interrupted")
        return int(status or 0)
    except typer.TyperException as problem:
        _say_usage(problem)
        return 2
    except (KeyboardInterrupt, typer.Abort, Interrupted):
        say("kdyno: interrupted")
        # One that came while exec() ran, as for a dataclass of a module that was being imported, is
        # still unhandled to `python -m`, which would end by the signal, until code is run again.
        exec("")
        return INTERRUPTED
    except SystemExit as end:
        # typer ends with 1 when the reader of our output is gone.
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        return 0
    except KdynoError as problem:
        say(f"kdyno: {problem}")
        return problem.exit_status
    except BrokenPipeError:
        # The reader of our output is gone (`kdyno list | head`): that is not an error of ours.
        _lose_output()
        return 0
    except OSError as problem:
        if problem.errno == errno.ENOSPC and not problem.filename:
            _lose_output()
        where = f"{problem.filename}: " if problem.filename else ""
        full = bool(problem.filename) and problem.errno in NO_SPACE
        told = no_space(Path(os.fsdecode(problem.filename))) if full else problem.strerror
        say(f"kdyno: {where}{told or problem}")
        return 1
