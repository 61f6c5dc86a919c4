# SPDX-License-Identifier: MIT
"""What compilers say of loops: real records of a small file, and damaged ones; surveys of a toy
kernel: built, kept beside the image, joined with a profile, verb."""

from __future__ import annotations

import gzip
import json
import shlex
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Kdyno
from hypothesis import example, given, strategies as st
from test_docs_examples import examples
from toy_kernel import OBJECTS, Toy, variant

from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.kernels.compiler import identify
from kdyno.labs.profile.record import FunctionTime, Profile, ProfiledBoot, to_json as profile_json
from kdyno.labs.published.article import load
from kdyno.labs.vectorize import loops, survey as surveys, verb
from kdyno.labs.vectorize.loops import Loop, ObjectRecord, Records, reason_of
from kdyno.labs.vectorize.survey import KNOWN, Side, Survey, flag_set, flag_sets, join
from kdyno.labs.vectorize.verb import page
from kdyno.report.show import terminal
from kdyno.report.show.grid import of_rows

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
    compile_into(tree, source, flags)
    return tree


def compile_into(tree: Path, source: Path, flags: str) -> None:
    words = [*flags.split(), *loops.FLAGS.split()]
    command = ["gcc", "-O3", *words, "-c", "-o", f"lib/{source.stem}.o", str(source)]
    subprocess.run(command, cwd=tree, check=True)


def by_function(loops: Iterable[Loop]) -> dict[str, Loop]:
    return {loop.function: loop for loop in loops}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("gcc"), "-mavx2 -mprefer-vector-width=256")


@pytest.fixture(scope="module")
def records(tree: Path) -> Records:
    return surveys.records_of(tree, None)


@pytest.mark.slow
def test_gccs_loops_with_function_place_width_and_reason(records: Records) -> None:
    (record,) = records.objects
    assert (record.object, record.damage) == ("lib/loops.o", "")
    by_name = by_function(record.loops)
    assert {loop.file for loop in record.loops} == {"lib/loops.c"}
    for name in ("first", "second"):
        assert by_name[name].width_bytes == 32 and by_name[name].in_code == "loop"
        assert by_name[name].line == 6  # where the inlined function has it
    assert by_name["first"].place == by_name["second"].place
    reasons = {"sum": "trips", "call": "call", "serial": "dependence", "seek": "branches"}
    assert {name: by_name[name].reason for name in reasons} == reasons
    assert by_name["clear"].reason == "" and by_name["clear"].library
    assert "other" in by_name["call"].words


@pytest.mark.slow
def test_an_object_with_loops_of_headers_only_has_the_others_root(tmp_path: Path) -> None:
    tree = compiled(tmp_path, "-mavx2")
    source = tmp_path / "src" / "lib" / "user.c"
    body = "{ for (int i = 0; i < 4000; i++) a[i] += b[i]; }\n"
    source.with_name("add.h").write_text(f"static inline void add(float *a, float *b)\n{body}")
    source.write_text('#include "add.h"\nvoid user(float *a, float *b) { add(a, b); }\n')
    compile_into(tree, source, "-mavx2")
    (_, record) = surveys.records_of(tree, None).objects
    assert (record.object, {loop.file for loop in record.loops}) == ("lib/user.o", {"lib/add.h"})


def test_a_foreign_tree_is_left_as_it_is(
    tree: Path, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(list(tree.rglob("*.vect"))) == 1
    assert surveys.records_of(tree, None) == records
    monkeypatch.chdir(tree)
    (side,) = surveys.survey_of_folder(Path()).sides
    assert (side.flags, side.records) == ("obj", records)


@pytest.mark.slow
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
    record = loops.read_object("lib/loops.o", [cut], "")
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
    code = loops.parse_code(
        "0000000000000010 <hot.part.0>:\n  10:\tmovdqu (%rdi),%xmm0\n  14:\tje     10 <hot>\n"
        "  16:\tvmovdqu %ymm1,(%rsi)\n  20:\tret\n"
    )
    assert code == {"hot.part.0": loops.Code(frozenset({16, 32}), frozenset({16}))}
    loop = Loop("a.c", 1, 1, "hot", width_bytes=16)
    for width, seen in ((16, "loop"), (32, "function"), (64, "no"), (8, "")):
        assert loops.checked(loop._replace(width_bytes=width), code).in_code == seen
    assert loops.checked(loop._replace(function="cold"), code).in_code == "no"


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
        (["Unknown misalignment, naturally aligned", "gremlins"], loops.OTHER),
        ([], loops.OTHER),
    ],
)  # fmt: skip
def test_reasons_in_plain_words(messages: list[str], reason: str) -> None:
    assert reason_of(messages)[0] == reason


@given(st.lists(st.text(max_size=40), max_size=6))
def test_any_words_have_a_reason(messages: list[str]) -> None:
    reason, words = reason_of(messages)
    assert reason in loops.REASONS
    assert words in {text.strip() for text in messages} | {""}


@pytest.mark.slow
@given(
    st.text(max_size=400)
    | st.text(alphabet="-! .:{}'\nPassedMissedFunctionDebugLocArgs0123", max_size=300)
)
@example(f"f.c:{'9' * 5000}:1: missed: x\nf.c:1:1: missed: couldn't vectorize loop\n")
@example(f"f.c:1:1: optimized: loop vectorized using {'9' * 5000} byte vectors\n")
def test_no_text_breaks_the_readers(text: str) -> None:
    for kind in ("vect", "ldist"):
        loops.gcc_loops(Path(f"x.{kind}"), text, "/s")
    loops.parse_code(text)


def test_flag_sets() -> None:
    assert flag_sets(()) == {"avx2": KNOWN["avx2"]}
    assert flag_set("mine=-O2  -msse2") == ("mine", "-O2 -msse2")
    for wrong in ("avx", "avx2=-O3", "x=", "x=O3", "x=-O3;rm", "../x=-O3"):
        with pytest.raises(UsageError, match="--flags"):
            flag_set(wrong)
    with pytest.raises(UsageError, match="each set once"):
        flag_sets(("sse2", "sse2"))


def test_a_flag_that_the_compiler_lacks_is_refused_by_name() -> None:
    gcc = identify("gcc")
    with pytest.raises(UsageError, match=r"gcc does not take the flags of 'odd' .*-mavx99"):
        surveys.refuse_unknown(gcc, "odd", "-mavx99")
    with pytest.raises(UsageError, match="loops are surveyed by GCC"):
        surveys.refuse_unknown(replace(gcc, clang=True), "sse2", KNOWN["sse2"])


def test_a_survey_that_is_none_is_refused(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"schema": 1, "kind": "vectorization"}', "[" * 10_000):
        file = tmp_path / "survey.json"
        file.write_text(text)
        with pytest.raises(KdynoError, match=r"survey\.json"):
            surveys.survey_of_file(file)
    with pytest.raises(UsageError, match="no optimisation record below it"):
        surveys.survey_of_folder(tmp_path)


SORT = """\
int steps[1024], others[1024];
struct step { struct step *next; int length; };
int toy_sort(void)
{
	for (int i = 0; i < 1024; i++)
		steps[i] += others[i];
	return steps[7];
}
int toy_walk(struct step *at)
{
	int far = 0;

	for (; at; at = at->next)
		far += at->length;
	return far;
}
"""
ARTICLE = load(verb.ARTICLE)
SETS = flag_sets(("sse2", "avx2"))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return Toy(tmp_path_factory.mktemp("survey"), {"lib/sort.c": SORT}, trusted=False)


@pytest.fixture(scope="module")
def survey(toy: Toy) -> Survey:
    recipes = surveys.check(variant(), SETS, toy.tree)
    return surveys.survey(variant(), SETS, recipes, toy.cache, jobs=2)


@pytest.fixture
def saved(survey: Survey, tmp_path: Path) -> Path:
    file = tmp_path / "survey.json"
    file.write_text(json.dumps(survey.to_json()))
    return file


@pytest.mark.slow
def test_a_survey_of_two_sets_of_flags(survey: Survey) -> None:
    sse2, avx2 = survey.sides
    assert sse2.widths() == {16: 1, 32: 0, 64: 0} and avx2.widths() == {16: 0, 32: 1, 64: 0}
    assert sse2.in_machine_code() == avx2.in_machine_code() == {"loop": 1, "function": 0, "no": 0}
    assert survey.reasons() == [("trips", [1, 1])]
    assert survey.files() == [("lib/sort.c", [1, 1])]
    assert {each.object for each in avx2.records.objects} <= OBJECTS
    assert avx2.image and avx2.seconds is not None


@pytest.mark.slow
def test_what_was_surveyed_is_not_built_again(toy: Toy, survey: Survey) -> None:
    recipes = surveys.check(variant(), SETS, toy.tree)
    steps: list[object] = []
    again = surveys.survey(variant(), SETS, recipes, toy.cache, report=steps.append)
    assert steps == []
    assert [side.records for side in again.sides] == [side.records for side in survey.sides]
    assert [side.seconds for side in again.sides] == [None, None]
    # A variant with the flags of a set shares its image.
    flagged = variant("avx2", cflags=SETS["avx2"])
    assert toy.build(flagged).digest == survey.sides[1].image and toy.steps == []


@pytest.mark.slow
def test_an_image_without_a_record_gets_one_and_stays_the_same(toy: Toy) -> None:
    flagged = variant("o3", cflags="-O3 -msse2 -mtune=generic")
    plain = toy.build(flagged)
    kernel = plain.kernel.read_bytes()
    inode = plain.kernel.stat().st_ino
    assert not plain.has(surveys.EXTRACT)
    again = toy.build(flagged, extract=surveys.EXTRACT)
    assert again.digest == plain.digest and again.has(surveys.EXTRACT)
    assert (again.kernel.stat().st_ino, again.kernel.read_bytes()) == (inode, kernel)
    assert surveys.read(again.folder / surveys.FILE).loops


@pytest.mark.slow
def test_the_next_build_keeps_what_it_did_not_compile(toy: Toy, survey: Survey) -> None:
    # Where the tests are run side by side, those above may have built in another process.
    assert survey.sides
    changed = toy.edit("walk", "kernel/time.c", "return CONFIG_HZ;", "return CONFIG_HZ + 1;")
    base = variant("patched", patches=(changed,))
    sets = {"avx2": SETS["avx2"]}
    recipes = surveys.check(base, sets, toy.tree)
    toy.steps = []
    result = surveys.survey(base, sets, recipes, toy.cache, report=toy.steps.append)
    assert max(step.objects for step in toy.steps) == 1
    assert {each.object for each in result.sides[0].records.objects} >= {"lib/sort.o"}
    assert result.sides[0].files() == {"lib/sort.c": 1}


FUNCTIONS = (
    FunctionTime("kernel", "memcpy_orig", 3.0),
    FunctionTime("kernel", "toy_walk.isra.0", 1.5),
    FunctionTime("kernel", "toy_sort", 0.5),
    FunctionTime("user", "toy_walk", 9.0),
)
BOOTS = tuple(ProfiledBoot(number, 9.0, FUNCTIONS) for number in range(2))
TIMES = Profile("stock", "gprof", "ticks", "", {}, BOOTS)


@pytest.mark.slow
def test_missed_loops_are_ranked_by_the_seconds_of_their_functions(survey: Survey) -> None:
    result = join(survey.sides[1].loops, TIMES)
    assert result.total_s == 5.0
    missed = [(each.function, each.seconds, each.share) for each in result.missed]
    assert missed == [("toy_walk", 1.5, 0.3)]
    assert result.shares == {"missed": 0.3, "vectorized": 0.1, "none": 0.6}
    assert result.missed[0].missed[0].reason == "trips"


def test_a_loop_that_was_vectorised_elsewhere_is_not_missed() -> None:
    missed = Loop("a.c", 1, 1, "f", reason="branches")
    vector = missed._replace(function="g", reason="", width_bytes=32)
    narrow = vector._replace(line=2, width_bytes=8)
    records = Records((ObjectRecord("a.o", "", (missed, vector, narrow)),))
    side = Side("sse2", "", records)
    assert side.reasons() == {} and len(side.places) == len(side.narrow) == 1


def test_the_published_table_beside(survey: Survey) -> None:
    grid = verb.published_loops(survey, ARTICLE)
    rows = {file: (then, *now) for file, then, *now in grid.items}
    assert rows["lib/sort.c"] == (1, 1, 1) and rows["fs/ext3/inode.c"] == (2, None, None)
    assert rows["lib/bitmap.c"][0] == 5 and rows["all"] == (23, 1, 1)


def test_a_survey_survives_json(survey: Survey, saved: Path) -> None:
    again = surveys.survey_of_file(saved)
    assert again == survey and json.dumps(again.to_json()) == saved.read_text()
    widths = json.loads(saved.read_text())["sides"][1]["vectorized"]["by_width_bytes"]
    assert widths == {"16": 0, "32": 1, "64": 0}


def test_every_form_shows_the_same_figures_and_no_foreign_markup(survey: Survey) -> None:
    # What a kernel tree of somebody else's may be called, and a record with a cut in it.
    loop = Loop("=cmd|' /C'!A0<script>.c", 3, 1, "\x1b[31mf|", reason="other", words="</td>\u202e|")
    objects = (*survey.sides[0].records.objects, ObjectRecord("<b>.o", "cut\x1b[2J", (loop,)))
    side = replace(survey.sides[0], records=Records(objects))
    odd = replace(survey, sides=(side, survey.sides[1]))
    joined = [join(side.loops, TIMES) for side in odd.sides]
    grids = verb.tables_of(odd, joined, ARTICLE)
    parts = [*verb.head(odd), *(part for grid in grids for part in verb.parts_of(grid))]
    text = terminal.text(parts)
    assert "damaged record: sse2: <b>.o: cut" in text and "\x1b" not in text
    assert "30.0 % in functions with a missed loop" in text and "toy_walk" in text
    html = page(odd, [*grids, verb.vectorised(odd)])
    assert "<script>.c" not in html and "\x1b" not in html and "&lt;b&gt;.o" in html
    assert html.count("<table") == 6 and "default-src 'none'" in html


def test_a_table_on_the_terminal_says_how_much_it_leaves_out() -> None:
    rows = (("x", 1), ("y" * 99, None), ("z", 3))
    grid = of_rows(("a", "n"), rows, absent="–", title="Title")
    lines = terminal.text(verb.parts_of(grid, 2, width=10)).splitlines()
    assert lines[:4] == ["Title", "  a           n", "  x           1", "  yyyyyyyyy…  –"]
    assert "and 1 more" in lines[4]


def test_a_saved_survey_in_every_format(kdyno: Kdyno, saved: Path, tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    times.write_text(profile_json(TIMES))
    result = kdyno("lab", "vectorize", saved, "--profile", times)
    assert result.status == 0
    assert "toy_walk" in result.out and "Beside the published table" in result.out
    for name, begin in (("s.html", "<!doctype"), ("s.txt", "path:toy")):
        assert kdyno("lab", "vectorize", saved, "-o", tmp_path / name).status == 0
        assert (tmp_path / name).read_text().startswith(begin)
    data = json.loads(kdyno("lab", "vectorize", saved, "--json", "-").out)
    assert data["sides"][1]["vectorized"]["places"] == 1


@pytest.mark.parametrize(
    "line", [each for each in examples("lab vectorize") if "survey.json" in each]
)
def test_the_documented_example(
    line: str, kdyno: Kdyno, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved.parent)
    result = kdyno(*shlex.split(line, comments=True)[1:])
    assert result.status == 0, result.err
    assert "toy" in Path("survey.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{saved}", "--flags", "avx2"), "is built already"),
        (("{saved}", "--profile", "no-such-run"), "no-such-run"),
        (("{broken}",), "damaged: "),
        (("{broken}", "--profile", "{broken}"), "broken.json"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_built(
    kdyno: Kdyno, saved: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(saved.read_text()[:-20])
    result = kdyno("lab", "vectorize", *(word.format(saved=saved, broken=broken) for word in words))
    assert result.status in (1, 2) and message in result.err and "Traceback" not in result.err
    assert not (tmp_path / "cache").exists()
