# SPDX-License-Identifier: MIT
"""Reading what compilers say of loops: real records of a small file, and damaged ones."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.kernels.compiler import identify
from kdyno.labs.vectorize import loops
from kdyno.labs.vectorize import survey as surveys
from kdyno.labs.vectorize.loops import (
    FLAGS,
    OTHER,
    REASONS,
    Code,
    Loop,
    Records,
    checked,
    parse_code,
    read_object,
    reason_of,
)
from kdyno.labs.vectorize.survey import KNOWN, FlagSet, flag_set, flag_sets

SOURCE = """\
void clear(int *a, int n) { for (int i = 0; i < n; i++) a[i] = 0; }
struct list { struct list *next; int v; };
int sum(struct list *p) { int s = 0; for (; p; p = p->next) s += p->v; return s; }
extern void other(int);
void call(int n) { for (int i = 0; i < n; i++) other(i); }
static inline void add(float *a, float *b, int n) { for (int i = 0; i < n; i++) a[i] += b[i]; }
void first(float *a, float *b) { add(a, b, 1000); }
void second(float *a, float *b) { add(a, b, 2000); }
void serial(int *a, int n) { for (int i = 1; i < n; i++) a[i] = a[i - 1] * 3 + a[i]; }
int seek(const int *a, int n) { for (int i = 0; i < n; i++) if (a[i] == 7) return i; return n; }
"""


def compiled(folder: Path, flags: str) -> Path:
    """An object tree with one object and GCC's record of it."""
    source = folder / "src" / "lib" / "loops.c"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE)
    tree = folder / "obj"
    (tree / "lib").mkdir(parents=True)
    words = [*flags.split(), *FLAGS.split()]
    command = ["gcc", "-O3", *words, "-c", "-o", "lib/loops.o", str(source)]
    subprocess.run(command, cwd=tree, check=True)
    return tree


def by_function(loops: Iterable[Loop]) -> dict[str, Loop]:
    return {loop.function: loop for loop in loops}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("gcc"), "-mavx2 -mprefer-vector-width=256")


@pytest.fixture(scope="module")
def records(tree: Path) -> Records:
    return surveys.records_of(tree, None)


def test_gccs_loops_with_function_place_width_and_reason(records: Records) -> None:
    (record,) = records.objects
    assert (record.object, record.damage) == ("lib/loops.o", "")
    by_name = by_function(record.loops)
    assert {loop.file for loop in record.loops} == {"lib/loops.c"}
    for name in ("first", "second"):
        assert by_name[name].width_bytes == 32 and by_name[name].in_code == "loop"
        assert by_name[name].line == 6  # where the inlined function has it
    assert by_name["first"].place == by_name["second"].place
    assert {name: by_name[name].reason for name in ("sum", "call", "serial", "seek", "clear")} == {
        "sum": "trips",
        "call": "call",
        "serial": "dependence",
        "seek": "branches",
        "clear": "",
    }
    assert "other" in by_name["call"].words and by_name["clear"].library


def test_a_foreign_tree_is_left_as_it_is(tree: Path, records: Records) -> None:
    assert len(list(tree.rglob("*.vect"))) == 1
    assert surveys.records_of(tree, None) == records


def test_a_builds_records_stay_in_its_tree(tmp_path: Path) -> None:
    tree = compiled(tmp_path, "-mavx2")
    source = str(tmp_path / "src")
    before = surveys.records_of(tree, source)
    assert [path.name for path in (tree / "lib").iterdir()] == ["loops.o"]
    assert surveys.records_of(tree, source) == before
    (tmp_path / "a.gz").write_bytes(surveys.packed(before))
    assert surveys.read(tmp_path / "a.gz") == before


def test_a_record_cut_short_is_named_and_the_rest_counted(tree: Path, tmp_path: Path) -> None:
    whole = next(tree.rglob("*.vect")).read_text()
    cut = tmp_path / "loops.c.172t.vect"
    cut.write_text(whole[: whole.index(";; Function serial")] + whole[:80])
    record = read_object("lib/loops.o", [cut], "")
    assert "ends in the middle" in record.damage
    functions = set(by_function(record.loops))
    assert {"sum", "call", "first"} <= functions and "serial" not in functions


@pytest.mark.parametrize("damage", ["truncated", "no gzip", "no record", "wrong type"])
def test_a_damaged_record_is_named_with_the_way_out(tmp_path: Path, damage: str) -> None:
    data = Records(()).to_json()
    if damage == "wrong type":
        data["objects"] = [["a.o", "", [["a.c", "7", 1, "f", 32, 0, False, "", "", ""]]]]
    packed = gzip.compress(json.dumps({} if damage == "no record" else data).encode())
    file = tmp_path / "loops.json.gz"
    file.write_bytes({"truncated": packed[:-9], "no gzip": b"{}"}.get(damage, packed))
    with pytest.raises(ToolError, match=r"damaged .* Delete it"):
        surveys.read(file)


def test_a_vector_that_is_not_in_the_code_is_named() -> None:
    code = parse_code(
        "0000000000000010 <hot.part.0>:\n  10:\tmovdqu (%rdi),%xmm0\n  14:\tje     10 <hot>\n"
        "  16:\tvmovdqu %ymm1,(%rsi)\n  20:\tret\n"
    )
    assert code == {"hot.part.0": Code(frozenset({16, 32}), frozenset({16}))}
    loop = Loop("a.c", 1, 1, "hot", width_bytes=16)
    for width, seen in ((16, "loop"), (32, "function"), (64, "no"), (8, "")):
        assert checked(loop._replace(width_bytes=width), code).in_code == seen
    assert checked(loop._replace(function="cold"), code).in_code == "no"


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (["  not vectorized: control flow in loop.", " bad loop form."], "branches"),
        (["not vectorized: number of iterations cannot be computed."], "trips"),
        (["not vectorized: volatile type: x ={v} 0;"], "volatile"),
        (["not vectorized: vectorization is not profitable."], "unprofitable"),
        (["not vectorized: estimated iteration count too small."], "short"),
        (["not vectorized: multiple nested loops."], "nest"),
        (["failed: evolution of base is not affine.", "bad data references."], "pointers"),
        (["not vectorized: unsupported data-type"], "type"),
        (
            ["not vectorized: volatile type: y", "not vectorized: loop contains function calls or "
             "data references that cannot be analyzed"],
            "volatile",
        ),
        (["Unknown misalignment, naturally aligned", "gremlins"], OTHER),
        ([], OTHER),
    ],
)  # fmt: skip
def test_reasons_in_plain_words(messages: list[str], reason: str) -> None:
    assert reason_of(messages)[0] == reason


@given(st.lists(st.text(max_size=40), max_size=6))
def test_any_words_have_a_reason(messages: list[str]) -> None:
    reason, words = reason_of(messages)
    assert reason in REASONS
    assert words in {text.strip() for text in messages} | {""}


@given(
    st.text(max_size=400)
    | st.text(alphabet="-! .:{}'\nPassedMissedFunctionDebugLocArgs0123", max_size=300)
)
def test_no_text_breaks_the_readers(text: str) -> None:
    for kind in ("vect", "ldist"):
        loops.gcc_loops(Path(f"x.{kind}"), text, "/s")
    parse_code(text)


def test_flag_sets() -> None:
    assert flag_sets(()) == (KNOWN["avx2"],)
    assert flag_set("mine=-O2  -msse2") == FlagSet("mine", "-O2 -msse2")
    for wrong in ("avx", "avx2=-O3", "x=", "x=O3", "x=-O3;rm", "../x=-O3"):
        with pytest.raises(UsageError, match="--flags"):
            flag_set(wrong)
    with pytest.raises(UsageError, match="each set once"):
        flag_sets(("sse2", "sse2"))


def test_a_flag_that_the_compiler_lacks_is_refused_by_name() -> None:
    gcc = identify("gcc")
    with pytest.raises(UsageError, match=r"gcc does not take the flags of 'odd' .*-mavx99"):
        surveys.refuse_unknown(gcc, FlagSet("odd", "-mavx99"))
    with pytest.raises(UsageError, match="loops are surveyed by GCC"):
        surveys.refuse_unknown(replace(gcc, clang=True), KNOWN["sse2"])


def test_a_survey_that_is_none_is_refused(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"schema": 1, "kind": "vectorization"}', "[" * 10_000):
        file = tmp_path / "survey.json"
        file.write_text(text)
        with pytest.raises(KdynoError, match=r"survey\.json"):
            surveys.survey_of_file(file)
    with pytest.raises(UsageError, match="no optimisation record below it"):
        surveys.survey_of_folder(tmp_path)
