# SPDX-License-Identifier: MIT
"""``memcpy = "best"``: the table, the row that a CPU gets, and what the run keeps of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from vocabularies import knowing

from kdyno.errors import UsageError
from kdyno.experiment.loader import variant
from kdyno.experiment.model import Variant
from kdyno.kernels.cpu import Cpu
from kdyno.kernels.routines import routine as routines
from kdyno.kernels.routines.routine import FUNCTIONS, BestFor, best, find_routine, rows
from kdyno.labs.memcpy.results import read_bench
from kdyno.labs.memcpy.search import figures_of
from kdyno.measure.execution import routines_of
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import data_root
from kdyno.report.evidence import Evidence
from kdyno.report.page import builds_section
from kdyno.store.verdict import Verdict

AVX2 = ("sse2", "avx", "avx2", "erms")
AVX512 = (*AVX2, "fsrm", "bmi2", "avx512f", "avx512vl", "avx512bw")
TABLE = [(row, function) for row in rows() for function in row.routines]


def called(value: object) -> str:
    return value.name if isinstance(value, BestFor) else str(value)


def a_cpu(vendor: str, family: int, number: int, flags: tuple[str, ...]) -> Cpu:
    return Cpu("a CPU", "", frozenset(flags), vendor, family, number)


@pytest.mark.parametrize(("row", "function"), TABLE, ids=called)
def test_what_a_row_names_goes_into_a_kernel(row: BestFor, function: str) -> None:
    routine = find_routine(row.routines[function], function)
    assert row.arch in routine.archs
    assert routines.kernel_sources([routine], row.arch)[FUNCTIONS[function]]


@pytest.mark.parametrize("row", rows(), ids=called)
def test_a_row_stands_on_what_was_measured(row: BestFor) -> None:
    """The figures of a row are those of its bench, to the digits that it prints."""
    seen = {each.routine: each for each in row.seen}
    if row.bench is None:
        assert row.state != "measured"
        assert row.state == "default" or seen
        return
    for function in row.routines:
        path = routines.routines_folder() / routines.BENCHES / row.bench / f"{function}.json"
        bench = read_bench(path)
        if function == "memcpy":
            assert row.memcpy in seen
            assert [figures_of(bench, name) for name in seen] == list(seen.values())
        else:
            assert row.routines[function] in bench.ns


@pytest.mark.slow
def test_every_function_of_a_um_kernel_has_its_best_on_every_cpu() -> None:
    for flags in (("sse2",), AVX2, AVX512):
        for vendor, family, number in (("GenuineIntel", 6, 143), ("Other", 1, 1)):
            here = a_cpu(vendor, family, number, flags)
            for function in FUNCTIONS:
                routine, _why = best(function, "um", here)
                needed = find_routine(routine, function).requires
                assert set(needed) <= here.flags


SPR = a_cpu("GenuineIntel", 6, 143, AVX512)


def row_of(here: Cpu) -> BestFor:
    """That names the best memcpy of a um kernel."""
    name = best("memcpy", "um", here)[1].removeprefix("best: row ").partition(",")[0]
    return next(row for row in rows() if row.name == name)


def test_a_model_goes_before_features_and_hidden_features_before_both() -> None:
    assert row_of(SPR).name == "intel-sapphire-rapids"
    assert row_of(a_cpu("AuthenticAMD", 25, 17, AVX512)).name == "amd-zen4"
    unknown = row_of(a_cpu("Other", 1, 1, AVX512))
    assert unknown.state == "default" and "avx512vl" in unknown.features
    assert row_of(a_cpu("GenuineIntel", 6, 143, AVX2)).features == ["avx2"]


def test_a_native_kernel_gets_what_it_may_run() -> None:
    assert best("memcpy", "x86_64", SPR)[0] == "fsrm"
    assert best("memcpy", "x86_64", a_cpu("Other", 1, 1, ("sse2",)))[0] == "overlap-general"
    with pytest.raises(UsageError, match="has no clear_page for kernels of arch 'x86_64'"):
        best("clear_page", "x86_64", a_cpu("Other", 1, 1, AVX512))


def test_what_was_not_measured_comes_with_the_command_that_does() -> None:
    _routine, unknown = best("memcpy", "um", a_cpu("Other", 1, 1, ("sse2",)))
    assert "the default where nothing was measured" in unknown
    assert "`kdyno lab memcpy tune --cpu` measures" in unknown
    _routine, measured = best("memcpy", "um", a_cpu("AuthenticAMD", 25, 17, AVX512))
    assert measured == "best: row amd-zen4, found and measured on this CPU"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("memcpy", "mempy"), 'Did you mean "memcpy"'),
        (('state = "default"', 'state = "guessed"'), '"guessed" is not known'),
        (('state = "default"', 'state = "measured"'), "bench: is missing"),
        (('memcpy = "fsrm"', ""), "a row names a routine"),
        (("features", "models = [[9, 1]]\nfeatures"), "stand beside a vendor"),
        (("features", 'models = [[9, 1]]\nvendor = "X"\nfamily = 6\nfeatures'), "are ranges"),
    ],
)
def test_a_wrong_table_is_refused(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    text = (
        '[[row]]\nname = "x"\ncpu = "Any"\nstate = "default"\nwhy = "because it is so"\n'
        'features = ["sse2"]\nmemcpy = "fsrm"\n'
    )
    path = tmp_path / routines.FILE
    path.write_text(text)
    assert [row.name for row in routines.read_rows(path)] == ["x"]
    path.write_text(text.replace(*change))
    with pytest.raises(UsageError) as refused:
        routines.read_rows(path)
    assert message in str(refused.value) and routines.FILE in str(refused.value)
    path.write_text(text + text)
    with pytest.raises(UsageError, match="two rows are called 'x'"):
        routines.read_rows(path)


def test_an_experiment_gets_the_routine_and_the_reason(tmp_path: Path) -> None:
    def words(function: str, arch: str) -> tuple[str, str]:
        if function == "clear_page":
            raise UsageError("no clear_page here")
        return f"{function}-of-{arch}", f"row {function}"

    functions = {"memcpy": ("fsrm",), "memset": ("sse",), "clear_page": ()}
    expected = knowing(routines=functions, best=words)

    def with_keys(**keys: object) -> Variant:
        return variant("b", {"source": "path:src", **keys}, "-k", tmp_path, expected)

    (tmp_path / "src").mkdir()
    mine = with_keys(memcpy="best", routines={"memset": "best"})
    assert mine.all_routines == {"memcpy": "memcpy-of-um", "memset": "memset-of-um"}
    assert mine.best == (("memcpy", "row memcpy"), ("memset", "row memset"))
    assert with_keys(memcpy="fsrm").best == ()
    with pytest.raises(UsageError, match="no clear_page here"):
        with_keys(routines={"clear_page": "best"})

    # The best of this machine is a routine.
    keys = {"source": "path:src", "memcpy": "best", "routines": {"memset": "best"}}
    result = variant("mine", keys, "-k", tmp_path, vocabulary({}))
    assert result.memcpy == best("memcpy", "um")[0]
    assert dict(result.best)["memset"].startswith("best: row ")


def test_a_kernels_record_says_which_routine_it_was_and_the_report_shows_it() -> None:
    request = Variant(
        "mine", "path:x", memcpy="wide", routines=(("memset", "sse"),), best=(("memcpy", "row r"),)
    )
    record = routines_of(request)
    assert record == {"routines": {"memcpy": "wide", "memset": "sse"}, "best": {"memcpy": "row r"}}
    assert routines_of(Variant("stock", "path:x")) == {}
    verdict = Verdict.model_construct(experiment="x", baseline="stock", boots={}, effects=())
    text = builds_section(Evidence(verdict, builds={"mine": record, "stock": {"inputs": {}}}))
    assert "<dd>memcpy wide (row r), memset sse</dd>" in str(text)
    assert str(text).count("memory routines") == 1


def cells_of(each: routines.Figures) -> list[str]:
    met = (each.worst <= 1.05, each.ceiling >= 0.8, each.glibc >= 1, each.rivals >= 1.25)
    values = (each.worst, each.ceiling, each.glibc, each.rivals)
    return [f"{v:.2f}" if ok else f"*{v:.2f}*" for v, ok in zip(values, met, strict=True)]


def test_the_page_shows_the_figures_of_both_cpus_side_by_side() -> None:
    """One line a routine, what misses its target in italics."""
    page = (data_root() / "docs" / "research" / "memcpy.md").read_text("utf-8")
    seen = {row.name: {each.routine: each for each in row.seen} for row in rows() if row.seen}
    assert list(seen) == ["amd-zen4", "intel-sapphire-rapids"]
    for name in {name for figures in seen.values() for name in figures}:
        best_one = name.startswith("best-")
        cells = []
        for cpu_name, figures in seen.items():
            own = figures.get(f"best-{cpu_name}" if best_one else name)
            cells += cells_of(own) if own else [""] * 4
        assert f"| `{'best' if best_one else name}` | {' | '.join(cells)} |" in page
