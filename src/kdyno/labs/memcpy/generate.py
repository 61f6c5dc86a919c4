# SPDX-License-Identifier: MIT
"""kdyno lab memcpy generate."""

from __future__ import annotations

from typing import Annotated

import typer

from kdyno.verbs.output import Json, check_writable, write, write_json
from kdyno.verbs.verb import Verb


def generate_verb(
    shape: Annotated[
        str,
        typer.Argument(
            metavar="SHAPE",
            help="[FUNCTION-]REGISTERS-LOOPBYTES[-TAIL][-maskN|-bytesN][-small32]"
            "[-aligned|-unaligned][-rep-BYTES|-nt-BYTES]; "
            "functions memcpy, memmove, memset, copy_page, clear_page; registers general, sse, "
            "avx2, avx512vl, avx512; tails overlap, string, mask (pages have none).",
        ),
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE.S", help="Where to; - is stdout."),
    ] = "-",
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Its name; else the file's, else the shape's."),
    ] = None,
    json: Json = None,
) -> int:
    """Write a memory routine from its parameters. `memcpy = "FILE.S"` puts it into a kernel."""
    import re
    from pathlib import Path

    from kdyno.errors import UsageError
    from kdyno.labs.memcpy.shape import describe, generate, parse_shape

    if json == "-" and output == "-":
        raise UsageError("--json - and the routine would both go to stdout; give -o FILE.S")
    check_writable(json)
    check_writable(None if output == "-" else output, "-o")
    wanted = parse_shape(shape)
    if output != "-":
        stem = Path(output).stem
        if not output.endswith(".S"):
            raise UsageError(f"-o {output}: a routine's file ends in .S")
        if wanted.function != "memcpy" and not stem.startswith(f"{wanted.function}-"):
            raise UsageError(f"-o {output}: a {wanted.function} is called {wanted.function}-NAME.S")
        own = stem if wanted.function == "memcpy" else stem.removeprefix(f"{wanted.function}-")
        if name is not None and name != own:
            raise UsageError(f"--name {name}: the file's name says {own}; they must be the same")
        name = own
    if name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", name):
        raise UsageError(f"{name!r} is not a name for a routine: letters, digits, - _ and . only")
    text = generate(wanted, name)
    write(text, output)
    if json is not None:
        said = {
            "shape": wanted.name,
            "function": wanted.function,
            "requires": list(wanted.requires),
            "help": describe(wanted),
            "file": output,
        }
        write_json(said, json)
    return 0


VERBS = (
    Verb(
        "generate",
        generate_verb,
        (
            "kdyno lab memcpy generate avx512-256-overlap -o mine.S",
            "kdyno lab memcpy generate memset-avx2-128-overlap-rep-4096",
        ),
    ),
)
