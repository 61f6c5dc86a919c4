# SPDX-License-Identifier: MIT
"""Memory routines: what their files say, their kernel form, and that they copy right."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kdyno.errors import UsageError
from kdyno.kernels import cpu
from kdyno.kernels.routine import (
    PLACE,
    Routine,
    find_routine,
    flatten,
    kernel_source,
    list_routines,
    parse_routine,
    routines_folder,
)

HERE = Path(__file__).parent / "routine"
ROUTINES = list_routines()
KINDS = (
    "bytes",
    "canary",
    "source",
    "guard",
    "return",
    "saved",
    "direction",
    "upper",
    "same",
)

needs_compiler = pytest.mark.skipif(
    shutil.which("gcc") is None or "sse2" not in cpu.flags(), reason="needs gcc on x86-64"
)


def described(**changed: str | None) -> str:
    said: dict[str, str | None] = {"help": "h", "requires": "sse2", "source": "s", "arch": "um"}
    said.update(changed)
    lines = [f" * {key}: {value}" for key, value in said.items() if value is not None]
    return "/* SPDX-License-Identifier: GPL-2.0-only */\n/*\n" + "\n".join(lines) + "\n */\n"


def test_the_published_experiment_has_its_routines() -> None:
    assert {"avx2", "avx512", "fsrm", "saito-oikawa"} <= {routine.name for routine in ROUTINES}


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda routine: routine.name)
def test_every_file_describes_itself(routine: Routine) -> None:
    assert routine.help and routine.source and routine.requires
    assert "um" in routine.archs
    assert all(name == name.lower() for name in routine.requires)
    assert find_routine(routine.name) == routine


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda routine: routine.name)
def test_kernel_form_needs_nothing_from_outside_the_tree(routine: Routine) -> None:
    (place, text), *rest = kernel_source(routine).items()
    assert (place, rest) == ("arch/x86/lib/memcpy_64.S", [])
    assert '#include "' not in text
    assert text.startswith("/* SPDX-License-Identifier: GPL-2.0-only */")
    assert "SYM_TYPED_FUNC_START(__memcpy)" in text
    assert "EXPORT_SYMBOL(memcpy)" in text
    start = f"ROUTINE_START({routine.symbol.removeprefix('memcpy_')})"
    assert text.count(start) == 1


def test_vector_routines_stay_out_of_native_kernels() -> None:
    with pytest.raises(UsageError, match="cannot go into a kernel of arch 'x86_64', only into um"):
        kernel_source(find_routine("avx512"), "x86_64")
    assert PLACE in kernel_source(find_routine("fsrm"), "x86_64")


def test_unknown_routine_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'avx512'"):
        find_routine("avx-512")


@pytest.mark.parametrize("key", ["help", "requires", "source", "arch"])
def test_a_missing_line_is_refused(key: str) -> None:
    for value in (None, ""):
        with pytest.raises(UsageError, match=f"new.S: no '{key}'"):
            parse_routine(Path("new.S"), described(**{key: value}))


def test_unknown_and_repeated_lines_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown key 'require'"):
        parse_routine(Path("new.S"), described(require="avx2"))
    twice = described().replace(" */\n", " * help: again\n */\n")
    with pytest.raises(UsageError, match="'help' is given twice"):
        parse_routine(Path("new.S"), twice.split("\n", 1)[1])


def test_a_file_without_description_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bare.S").write_text("ret\n")
    with pytest.raises(UsageError, match=r"bare\.S: no 'help'"):
        list_routines(tmp_path)


def test_an_include_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.S").write_text('#include "other.h"\n')
    with pytest.raises(UsageError, match=r"includes 'other\.h', which is not in"):
        flatten(tmp_path / "a.S")


def checker(folder: Path, assembly: Path, symbol: str) -> Path:
    """Builds the checker around ``symbol`` of ``assembly``."""
    program = folder / f"check-{symbol}"
    subprocess.run(
        [
            *("gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"),
            *("-I", str(routines_folder()), str(HERE / "check.c"), str(assembly)),
            *(f"-Wl,--defsym=memcpy_under_test={symbol}", "-o", str(program)),
        ],
        check=True,
    )
    return program


def run(program: Path, mode: str) -> tuple[int, list[str], str]:
    """Exit status, the kinds of violation, and the last line."""
    done = subprocess.run([str(program), mode], capture_output=True, text=True, timeout=300)
    *violations, last = done.stdout.splitlines()
    return done.returncode, [line.split(":")[0] for line in violations], last


@needs_compiler
@pytest.mark.parametrize("routine", ROUTINES, ids=lambda routine: routine.name)
def test_copies_right(routine: Routine, tmp_path: Path) -> None:
    program = checker(tmp_path, routine.path, routine.symbol)
    if lacking := cpu.missing(routine.requires):
        pytest.skip(f"this CPU has no {', '.join(lacking)}")
    status, violations, last = run(program, "full")
    assert (status, violations) == (0, [])
    assert int(last.split()[0]) > 1025 * 64 * 64


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_the_checker_notices(kind: str, tmp_path: Path) -> None:
    if kind == "upper" and "avx" not in cpu.flags():
        pytest.skip("this CPU has no avx")
    program = checker(tmp_path, HERE / "broken.S", f"memcpy_broken_{kind}")
    status, violations, last = run(program, "thin")
    if kind == "upper" and "not readable" in last:
        pytest.skip("this CPU does not tell which registers are in use")
    assert status == 1
    assert kind in violations
