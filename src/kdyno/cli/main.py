# SPDX-License-Identifier: MIT
"""kdyno's command line: the verbs, and how an error becomes a message and an exit status."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

import typer

from kdyno import __version__
from kdyno.cli import build, calibrate, doctor, listing, report, run
from kdyno.errors import Interrupted, KdynoError

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
        print(f"kdyno {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    pass


for verb in (doctor, listing, build, run, calibrate, report):
    app.command(verb.NAME, epilog=verb.EXAMPLES)(verb.verb)


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted("terminated")


def main() -> int:
    """Run one verb; the exit status."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        status = app(standalone_mode=False)
        sys.stdout.flush()
        return int(status or 0)
    except typer.TyperException as problem:
        if (show := getattr(problem, "show", None)) is not None:
            show()
        return 2
    except (KeyboardInterrupt, typer.Abort, Interrupted):
        print("kdyno: interrupted; `kdyno run --resume last` goes on with a run", file=sys.stderr)
        return 130
    except KdynoError as problem:
        print(f"kdyno: {problem}", file=sys.stderr)
        return problem.exit_status
    except BrokenPipeError:
        # The reader of our output is gone (`kdyno list | head`): that is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        print(f"kdyno: {where}{problem.strerror or problem}", file=sys.stderr)
        return 1
