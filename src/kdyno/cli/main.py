# SPDX-License-Identifier: MIT
"""kdyno's command line: the verbs, and how an error becomes a message and an exit status."""

from __future__ import annotations

import errno
import inspect
import io
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from functools import cache, cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from kdyno import __version__
from kdyno.errors import Interrupted, KdynoError
from kdyno.verbs.options import flat, option
from kdyno.verbs.output import lose_output, say, show
from kdyno.whole import NO_SPACE, no_space

VERBS = {
    "doctor": ("cli.doctor", "Show what this machine, or nodes of a cluster, lack."),
    "list": ("cli.listing", "List what can be measured, and what was measured."),
    "check": ("cli.build", "Find an experiment's mistakes and its cost, without building."),
    "build": ("cli.build", "Build the kernels of an experiment."),
    "run": ("cli.run", "Build, boot, measure and judge the kernels of an experiment."),
    "try": ("cli.run", "Time a command of your own in several kernels."),
    "judge": ("cli.judge", "Judge stored runs again, using the current rule."),
    "compare": ("cli.judge", "Compare runs, variants of a run, or a published experiment."),
    "bisect": ("cli.bisect", "Find the commit, patch, file or option that causes a difference."),
    "watch": ("cli.watch", "Measure new commits of a branch, and report each difference once."),
    "profile": (
        "labs.profile.verb",
        "Show seconds per function of each kernel, and the differences.",
    ),
    "report": ("cli.report", "Show a run as a table or exported, or all runs as a site."),
    "serve": ("cli.report", "Show all runs in a browser, as they change, until Ctrl-C."),
    "push": ("cli.report", "Put runs into the store that KDYNO_STORE names."),
}
"""Verb → its module below ``kdyno``, and its documentation's first line, for `kdyno --help`."""
LAB = {
    "memcpy": ("labs.memcpy.verbs", "Check, generate, time, count and select memory routines."),
    "published": ("labs.published.page", "Answer the claims of published experiments from runs."),
    "vectorize": (
        "labs.vectorize.verb",
        "Survey a kernel's vectorised loops, and why others are not.",
    ),
}
_HELP = {"help_option_names": ["-h", "--help"]}


class Deferred(TyperCommand):
    """A verb whose module is imported when it is called, completed or asked for its help."""

    def __init__(self, name: str, module: str, help: str) -> None:
        super().__init__(name=name, help=help, rich_markup_mode=None)
        self._module = module

    @cached_property
    def real(self) -> Any:
        verbs = import_module(f"kdyno.{self._module}").VERBS
        if self.name in verbs:
            return _command(self.name, verbs[self.name])
        group = _group(self.name, self.help, "")
        for name, verb in verbs.items():
            group.add_command(_command(name, verb), name)
        return group

    def make_context(self, *words: Any, **more: Any) -> Any:
        return self.real.make_context(*words, **more)


def _group(name: str | None, help: str | None, examples: str) -> TyperGroup:
    return TyperGroup(
        name=name,
        help=help,
        epilog=examples,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings=_HELP,
    )


def _command(name: str | None, verb: Callable[..., int]) -> Any:
    app = typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=_HELP)
    function = flat(verb)
    function.__doc__, _, examples = inspect.cleandoc(verb.__doc__ or "").partition("Examples:\n")
    # \b keeps the help from joining the lines again.
    app.command(name, epilog=f"\b\nExamples:\n{examples}")(function)
    command = typer.main.get_command(app)
    for parameter in command.params:
        if isinstance(parameter, TyperArgument):
            # Without the types in Python that typer's help puts behind arguments.
            vars(parameter)["display_type_rich"] = lambda ctx: None
    return command


def _version(wanted: bool) -> None:
    if wanted:
        show(f"kdyno {__version__}")
        raise typer.Exit


@cache
def command() -> Any:
    """The command line as typer runs it, made once for all calls in this process."""
    app = typer.Typer(
        name="kdyno",
        help="A dynamometer for kernels: did this change make the kernel faster, by how much, "
        "how sure are we, and where does it come from?",
        epilog="Start with: kdyno doctor; then kdyno run EXPERIMENT --quick. "
        "Exit status: 0 measured, 1 tool or environment, 2 usage, "
        "10 slower and 11 inconclusive (with --fail-on; watch: 10), "
        "12 not reproduced and 13 not found (bisect), 130 interrupted.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=_HELP,
    )

    @app.callback()
    def _main(
        version: bool = option(
            "--version", "Print the version.", False, callback=_version, is_eager=True
        ),
    ) -> None:
        pass

    kdyno: Any = typer.main.get_command(app)
    about = "Laboratories: memcpy, published experiments, vectorised loops."
    examples = "\b\nExamples:\n  kdyno lab memcpy check\n  kdyno lab published last -o page.md"
    lab = _group("lab", about, examples)
    for group, entries in ((kdyno, VERBS), (lab, LAB)):
        for name, entry in entries.items():
            group.add_command(Deferred(name, *entry))
    kdyno.add_command(lab)
    return kdyno


def verbs(words: str = "", group: Any = None) -> dict[str, Any]:
    """Every verb with its own options, by all its words; imports all of them."""
    result: dict[str, Any] = {}
    for name, below in (group or command()).commands.items():
        real = below.real if isinstance(below, Deferred) else below
        is_group = isinstance(real, TyperGroup)
        result |= verbs(f"{words}{name} ", real) if is_group else {words + name: real}
    return result


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted("terminated")


def _prepare_streams() -> None:
    """stdin, stdout and stderr that can be used, whatever the caller closed or set."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # Else the next file that is opened would get this number, and what is printed with it.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode is not an error


def _say_usage(problem: typer.TyperException) -> None:
    """What typer says of a wrong command line, said as all of kdyno's errors are."""
    text = problem.format_message().strip().rstrip(".")
    context = getattr(problem, "ctx", None)
    if context is not None and text == context.get_help().strip().rstrip("."):
        say(problem.format_message())  # no word was given: the help is the answer
        return
    words = [word for word in sys.argv[1:2] if not word.startswith("-")]
    verb = context.command_path if context is not None else " ".join(["kdyno", *words])
    if match := re.match(r"Invalid value for '(.+?)': (.*)", text, re.DOTALL):
        text = _wrong_value(match[1], match[2], getattr(problem, "param", None))
    elif match := re.match(r"No such command '(.*?)'\.?", text):
        word = match[1]
        text = f"{word!r} is not a verb.{text[match.end() :]}".rstrip(".")
        if word.endswith(".toml") or Path(word).is_file():
            file = shlex.quote(word)
            text += f"; `{verb} run {file}` measures it, `{verb} check {file}` only checks it"
    elif match := re.match(r"No such option: (\S+)(?: \(Possible options: (.*)\))?", text):
        there = match[2].replace(", ", " or ") if match[2] else ""
        text = f"there is no option {match[1]}" + (f". Did you mean {there}?" if there else "")
    end = "" if text.endswith("?") else "."
    say(f"kdyno: {text[:1].lower()}{text[1:]}{end} `{verb} --help` shows what there is")


def _wrong_value(option: str, why: str, parameter: Any) -> str:
    """option: as typer calls it; its value is looked for among what was typed."""
    option = option.split(" / ")[-1].strip("'")
    words = [part for word in sys.argv for part in word.split("=", word.startswith("--"))]
    values = dict(pairwise([*words, ""]))
    names = (*getattr(parameter, "opts", ()), option)
    given = next((values[name] for name in names if name in values), "")
    wanted = why.removeprefix("Input should be ").partition(",")[0]
    low = getattr(parameter, "min", None)
    if low is not None and "greater" not in wanted:
        wanted += f", at least {low:g}"
    what = getattr(parameter, "help", None) or ""
    return f"{option} {given!r}: {wanted} is expected" + (f" ({what.rstrip('.')})" if what else "")


def _interrupted() -> int:
    say("kdyno: interrupted")
    # One that came while exec() ran, as for a dataclass of a module that was being imported, is
    # still unhandled to `python -m`, which would end by the signal, until code is run again.
    exec("")
    return Interrupted.exit_status


def main() -> int:
    """Run one verb; the exit status."""
    _prepare_streams()
    signal.signal(signal.SIGTERM, _terminated)
    try:
        status = command()(prog_name="kdyno", standalone_mode=False)
        sys.stdout.flush()
        if status == Interrupted.exit_status:  # typer's own answer to Ctrl-C, without a word
            return _interrupted()
        return int(status or 0)
    except typer.TyperException as problem:
        _say_usage(problem)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
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
        lose_output()
        return 0
    except RuntimeError as problem:
        if "home directory" not in str(problem):  # as pathlib has it
            raise
        say("kdyno: no home folder is known: set HOME; write ~USER of a path out in full")
        return 2
    except OSError as problem:
        if problem.errno == errno.ENOSPC and not problem.filename:
            lose_output()
        where = f"{problem.filename}: " if problem.filename else ""
        message = problem.strerror or str(problem)
        if problem.errno == errno.ENOENT and not problem.filename:  # as of getcwd
            message = "the folder that you are in does not exist any more: cd to another"
        if problem.filename and problem.errno in NO_SPACE:
            message = no_space(Path(os.fsdecode(problem.filename)))
        say(f"kdyno: {where}{message}")
        return 1
