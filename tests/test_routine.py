# SPDX-License-Identifier: MIT
"""Memory routines: what their files say, and their kernel form; what /proc/cpuinfo says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kdyno.errors import UsageError
from kdyno.kernels import cpu
from kdyno.kernels.routines import routine as routines
from kdyno.kernels.routines.routine import FUNCTIONS, PLACE, Routine, find_routine, kernel_sources

ROUTINES = [each for function in FUNCTIONS for each in routines.list_routines(function=function)]
each_routine = pytest.mark.parametrize("routine", ROUTINES, ids=lambda routine: routine.path.stem)


def described(**changed: str | None) -> str:
    message: dict[str, str | None] = {"help": "h", "requires": "sse2", "source": "s", "arch": "um"}
    message.update(changed)
    lines = [f" * {key}: {value}" for key, value in message.items() if value is not None]
    return "/* SPDX-License-Identifier: GPL-2.0-only */\n/*\n" + "\n".join(lines) + "\n */\n"


@each_routine
def test_every_file_describes_itself(routine: Routine) -> None:
    assert routine.help and routine.source and routine.requires
    assert "um" in routine.archs
    assert all(name == name.lower() for name in routine.requires)
    assert find_routine(routine.name, routine.function) == routine
    assert routines.find_by_stem(routine.path.stem) == routine


@each_routine
def test_kernel_form_needs_nothing_from_outside_the_tree(routine: Routine) -> None:
    text = kernel_sources([routine], "um")[FUNCTIONS[routine.function]]
    assert '#include "' not in text
    assert text.startswith("/* SPDX-License-Identifier: GPL-2.0-only */")
    assert "SYM_TYPED_FUNC_START(__##function)" in text
    assert "EXPORT_SYMBOL(function)" in text
    assert text.count(routines.start_of(routine)) == 1


def test_the_published_experiment_has_its_routines_in_all_block_sizes() -> None:
    names = {routine.name for routine in routines.list_routines()}
    sizes = {f"saito-oikawa-{size}" for size in (128, 256, 1024)}
    assert sizes | {"avx2", "avx512", "fsrm", "saito-oikawa"} <= names


def test_a_page_function_that_is_not_asked_for_stays_as_it_was() -> None:
    (one,) = routines.of_variant(None, (("clear_page", "avx2"),))
    placed = kernel_sources((one,), "um")
    assert set(placed) == {FUNCTIONS[function] for function in routines.PAGES}
    plain = find_routine(routines.OWN_PAGES, "copy_page")
    assert placed[FUNCTIONS["copy_page"]] == routines.flatten(plain.path)
    sources = kernel_sources(routines.of_variant("fsrm", (("memset", "sse"),)), "um")
    assert set(sources) == {PLACE, FUNCTIONS["memset"]}


def own_file(folder: Path, name: str = "mine.S", start: str = "ROUTINE_START(mine)") -> Path:
    path = folder / name
    function = name.partition("-")[0] if "-" in name else None
    path.write_text(described(function=function) + f'#include "routine.h"\n{start}\n\tRET\n')
    return path


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = own_file(tmp_path)
    routine = find_routine(str(path))
    assert (routine.name, routine.symbol, routine.function) == ("mine", "memcpy_mine", "memcpy")
    assert "SYM_TYPED_FUNC_START" in kernel_sources([routine], "um")[PLACE]
    page = own_file(tmp_path, "copy_page-mine.S", "PAGE_ROUTINE_START(copy_page, mine)")
    assert routines.find_by_stem(str(page)).symbol == "copy_page_mine"


@pytest.mark.parametrize(
    ("name", "start", "function", "message"),
    [
        ("mine.S", "ROUTINE_START(other)", "memcpy", r"must begin with ROUTINE_START\(mine\)"),
        ("mine.S", "ROUTINE_START(mine)", "memset", "says that it is a memcpy"),
        ("gone.S", "", "memcpy", "No such file"),
        ("fill.S", "", "memset", "routine of memset is called memset-NAME.S"),
        ("bad.S", "", "memcpy", 'function: "strlen" is not known.*Allowed: memcpy'),
    ],
)
def test_a_wrong_file(name: str, start: str, function: str, message: str, tmp_path: Path) -> None:
    if start:
        own_file(tmp_path, name, start)
    elif name != "gone.S":
        of = "memset" if name == "fill.S" else "strlen"
        (tmp_path / name).write_text(described(function=of))
    with pytest.raises(UsageError, match=message):
        find_routine(str(tmp_path / name), function)


def test_vector_routines_stay_out_of_native_kernels() -> None:
    why = r"cannot go into a kernel of arch 'x86_64', only into um\. A native .*kernel_fpu_begin"
    with pytest.raises(UsageError, match=why):
        kernel_sources([find_routine("avx512")], "x86_64")
    assert PLACE in kernel_sources([find_routine("fsrm")], "x86_64")


def test_unknown_routine_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'avx512'"):
        find_routine("avx-512")


TWICE = described().replace(" */\n", " * help: again\n */\n").split("\n", 1)[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (described(**{key: value}), f"new.S: {key}: is missing")
            for key in ("help", "requires", "source", "arch")
            for value in (None, "")
        ),
        (described(require="avx2"), 'require: unknown key. Did you mean "requires"'),
        (TWICE, "'help' is given twice"),
        ("ret\n", "new.S: help: is missing"),
    ],
)
def test_a_wrong_description_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        routines.parse_routine(Path("new.S"), text)


def test_an_include_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.S").write_text('#include "other.h"\n')
    with pytest.raises(UsageError, match=r"includes 'other\.h', which is not in"):
        routines.flatten(tmp_path / "a.S")


def test_the_native_patch_has_the_instructions_of_its_routine() -> None:
    """So what was checked and timed in a program is what the patched kernel runs."""
    patch = (routines.patches_folder() / "zen4-memcpy.patch").read_text("utf-8")
    added = "\n".join(line[1:] for line in patch.splitlines() if line.startswith("+"))
    body = added.partition("SYM_FUNC_START_LOCAL(memcpy_zen4)")[2].partition("SYM_FUNC_END")[0]
    routine = find_routine("fsrm-loop").path.read_text("utf-8")
    own = routine.partition("ROUTINE_START(fsrm_loop)")[2].partition("ROUTINE_END")[0]
    for there, here in (
        (".Lzen4_loop_begin", ".Lfrom_128"),
        (".Lzen4_loop", ".Lloop"),
        ("$(384 - 128)", "$256"),
        ("0*8(", "("),
        *((f"{n}*8(", f"{8 * n}(") for n in (1, 2, 3)),
    ):
        body = body.replace(there, here)
    assert instructions(body) == instructions(own)
    assert len(instructions(own)) > 20
    assert not re.search(r"[xyz]mm", body)


def instructions(text: str) -> list[str]:
    plain = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return [" ".join(line.split()) for line in plain.splitlines() if line.strip()]


TWO = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Some CPU : 3 GHz
microcode\t: 0x2b000603
flags\t\t: fpu sse2 avx2 amx_tile

processor\t: 1
model name\t: Another
flags\t\t: fpu
"""
FLAGS = frozenset({"fpu", "sse2", "avx2", "amx_tile"})
NOTHING = cpu.Cpu("", "", frozenset())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TWO, cpu.Cpu("Some CPU : 3 GHz", "0x2b000603", FLAGS, "GenuineIntel")),
        *((text, NOTHING) for text in ("", "\n\n\n", "garbage without a colon\n", "flags:\n")),
    ],
)
def test_the_first_processor_is_read(text: str, expected: cpu.Cpu) -> None:
    assert cpu.parse_cpuinfo(text) == expected


def test_missing_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "this_cpu", lambda: cpu.parse_cpuinfo(TWO))
    assert cpu.missing(("avx512vl", "sse2", "avx512f")) == ("avx512vl", "avx512f")
    assert cpu.missing(()) == ()
    assert "amx_tile" in cpu.flags()


def test_a_machine_without_cpuinfo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "CPUINFO", cpu.CPUINFO.parent / "no-such-file")
    assert cpu.this_cpu.__wrapped__() == NOTHING


def test_flags_of_a_compiler_name_the_features_that_their_code_needs() -> None:
    flags = "-O3 -msse2 -mavx2 -mavx512bw -mprefer-vector-width=512 -mno-avx"
    assert cpu.needed_by(flags) == ("sse2", "avx2", "avx512bw")
    assert cpu.needed_by("-O2") == ()
