# SPDX-License-Identifier: MIT
"""What a valid experiment file becomes; every mistake of others is listed in the words that are
recorded beside the file, and nothing but UsageError comes of them.

After a wanted change of the words: ``KDYNO_GOLDEN=write``, as CONTRIBUTING.md has it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from held import held
from hypothesis import example, given, settings, strategies as st
from vocabularies import knowing

from kdyno.errors import UsageError
from kdyno.experiment import model
from kdyno.experiment.loader import Overrides, apply, load, parse, variant
from kdyno.experiment.model import (
    TABLES,
    ConfigFragment,
    Experiment,
    Machine,
    Measure,
    SuiteUse,
    Vocabulary,
)
from kdyno.kernels import recipe, source
from kdyno.kernels.config import wishes
from kdyno.kernels.routines.routine import of_variant
from kdyno.kernels.source import Tree
from kdyno.measure import builder
from kdyno.measure.bench import refuse_undecided
from kdyno.measure.execution import kernels_of, measure_s, question, too_short
from kdyno.measure.vocabulary import vocabulary
from kdyno.reading.mistakes import Positions
from kdyno.suites.catalogue import load as load_suites
from kdyno.suites.job import cases_of, jobs_of
from kdyno.verbs.subject import consent

DATA = Path(__file__).parent / "data" / "experiments"
VOCABULARY = knowing(
    suites={"unixbench": ("pipe", "context1", "fscopy-256", "fscopy-1024"), "simd": ("fill",)},
    routines={"memcpy": ("avx512", "fsrm")},
    fragment_dirs=(DATA / "fragments",),
    machines={"uml": ("um", "um32"), "qemu": ("x86_64",), "host": ()},
    check_source=source.parse,
)
VALID = ("valid-cross", "minimal")
PAGE = (Path(__file__).parents[1] / "docs" / "experiment-file.md").read_text(encoding="utf-8")
SIMD = "[[suite]]\nname = 'simd'\n"


def parsed(text: str, folder: Path = DATA, vocabulary: Vocabulary = VOCABULARY) -> Experiment:
    return parse(text, "x.toml", folder, vocabulary)


def two(kernel: str = "", mine: str = "", more: str = "", **where: Any) -> Experiment:
    text = (
        f'name = "x"\nbaseline = "stock"\n[kernel]\nsource = "debian:linux-source-7.3"\n{kernel}\n'
        f"[variant.stock]\n[variant.mine]\n{mine}\n{SIMD}{more}"
    )
    return parsed(text, **where)


@pytest.mark.parametrize(
    "file",
    [file for file in sorted(DATA.glob("*.toml")) if file.stem not in VALID],
    ids=lambda file: file.stem,
)
def test_mistakes_are_listed_in_the_recorded_words(file: Path) -> None:
    with pytest.raises(UsageError) as error:
        parse(file.read_text(), file.name, DATA, VOCABULARY)
    held(file.with_suffix(".expected"), str(error.value).replace(str(DATA), "FOLDER") + "\n")


def test_what_is_no_experiment_file(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'name = "x"\nquestion = "caf\xe9"\n')
    with pytest.raises(UsageError, match=r"latin\.toml:2: byte 0xe9 is not UTF-8"):
        load(tmp_path / "latin.toml", VOCABULARY)
    (tmp_path / "huge.toml").write_bytes(b"# \n" * (10 * 2**20 // 3))
    with pytest.raises(UsageError, match="larger than 1 MB"):
        load(tmp_path / "huge.toml", VOCABULARY)


def test_a_check_of_sources_from_outside_is_shown_at_the_key() -> None:
    def refuse(source: str) -> None:
        raise UsageError(f"no mirror for {source}")

    vocabulary = knowing(suites=VOCABULARY.suites, check_source=refuse)
    with pytest.raises(UsageError, match=r"x:4: kernel\.source: no mirror for debian:linux-"):
        parse((DATA / "minimal.toml").read_text(), "x", DATA, vocabulary)


def test_the_minimal_file_takes_every_default() -> None:
    path = DATA / "minimal.toml"
    experiment = load(path, VOCABULARY)
    assert experiment.baseline == "stock"
    assert experiment.machine == Machine()
    assert experiment.measure == Measure(calibrate=True)
    assert experiment.suites == (SuiteUse("unixbench", VOCABULARY.suites["unixbench"]),)
    assert (experiment.path, experiment.text) == (path, path.read_text())
    # A question over lines is one line.
    assert parsed(f'question = """Is\n  it?"""\n{experiment.text}').question == "Is it?"


def test_factors_cross_each_other_and_the_variants() -> None:
    experiment = load(DATA / "valid-cross.toml", VOCABULARY)
    assert [variant.name for variant in experiment.variants] == [
        f"{name}+{smp}+{preempt}"
        for name in ("stock", "tuned")
        for smp in ("off", "on")
        for preempt in ("voluntary", "none")
    ]
    last = experiment.variants[-1]
    assert last.levels == (("variant", "tuned"), ("smp", "on"), ("preempt", "none"))
    assert last.config == (
        ConfigFragment("bench.config", ("CONFIG_EXPERT=y",)),
        ConfigFragment("kernel.config[2]", ("CONFIG_HZ=100",)),
        ConfigFragment("smp.config", ("CONFIG_SMP=y", "CONFIG_NR_CPUS=2")),
        ConfigFragment("factor.preempt.none.config[1]", ("# CONFIG_PREEMPT_VOLUNTARY is not set",)),
    )
    assert last.patches == (DATA / "good.patch",)
    assert (last.cflags, last.file_cflags) == ("-O2", (("lib/sort.c", "-O3"),))
    assert last.cmdline == "a=1 ncpus=2"
    assert last.sysctl == (("kernel.panic", "1"), ("vm.swappiness", "60"))
    assert last.memcpy == "avx512"
    assert experiment.variants[0].memcpy is None
    assert experiment.machine == Machine("uml", 2, 512 << 20, 90.0)
    assert experiment.suites == (
        SuiteUse("unixbench", ("fscopy-256", "fscopy-1024", "pipe"), 0.25),
        SuiteUse("run", ("sort",), 0.5, 3, ("/usr/bin/sort", "-n", "my words")),
    )
    # min_boots was not given: its default gives way to max_boots.
    assert experiment.measure == Measure(
        max_boots=6, min_boots=6, max_minutes=10.0, equivalent=0.02, confidence=0.99, seed=7
    )


def test_a_variant_overrides_the_kernel_and_leaves_nothing_contradictory() -> None:
    experiment = two(
        kernel='config = ["bench"]\nmemcpy = "fsrm"\ncflags = { "lib/sort.c" = "-O3" }',
        mine='config = ["CONFIG_SMP=y"]\nmemcpy = "stock"\ncflags = "-O1"\ncompiler = "clang"',
    )
    stock, mine = experiment.variants
    assert stock.config[0].lines == ("CONFIG_EXPERT=y", "# CONFIG_SMP is not set")
    assert (stock.memcpy, stock.compiler) == ("fsrm", "gcc")
    assert [fragment.lines for fragment in mine.config] == [("CONFIG_EXPERT=y",), ("CONFIG_SMP=y",)]
    assert (mine.memcpy, mine.cflags, mine.file_cflags) == (None, "-O1", ())
    assert mine.compiler == "clang"


def test_a_sysctl_of_the_variants_own_is_written_after_the_kernels() -> None:
    # The kernel makes one of these two 0 where the other is set.
    experiment = two(
        kernel='sysctl = { "vm.dirty_ratio" = 20, "vm.swappiness" = 9 }',
        mine='sysctl = { "vm.dirty_bytes" = 4096, "vm.swappiness" = 5 }',
    )
    stock, mine = (variant.sysctl for variant in experiment.variants)
    assert stock == (("vm.dirty_ratio", "20"), ("vm.swappiness", "9"))
    assert mine == (("vm.dirty_ratio", "20"), ("vm.dirty_bytes", "4096"), ("vm.swappiness", "5"))


def test_two_factors_that_set_one_thing_are_refused() -> None:
    levels = "[factor]\njobs = [1, 4]\n[factor.size]\n"
    levels += (
        "small = { set = { jobs = 2, count = 8 } }\nlarge = { set = { jobs = 2, count = 32 } }"
    )
    with pytest.raises(UsageError, match="jobs is set by the factor jobs too"):
        two(more=f"{levels}\n")


def test_paths_begin_at_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "x.tar").touch()
    text = (
        'name = "x"\nbaseline = "a"\n[variant.a]\nsource = "path:../FOLDER/tree"\n'
        '[variant.b]\nsource = "tar:x.tar"\n[variant.c]\nsource = "git:tree#v7.3"\n'
        '[variant.d]\nsource = "git:https://example.org/x.git#v7.3"\ncompiler = "bin/cc"\n' + SIMD
    ).replace("FOLDER", tmp_path.name)
    assert parsed(text, tmp_path).variants[3].compiler == f"{tmp_path}/bin/cc"
    assert [variant.source for variant in parsed(text, tmp_path).variants] == [
        f"path:{tmp_path}/tree",
        f"tar:{tmp_path}/x.tar",
        f"git:{tmp_path}/tree#v7.3",
        "git:https://example.org/x.git#v7.3",
    ]


def test_words_of_a_command_stay_as_they_are() -> None:
    for command in ("cut -d ' ' -f 1", ["cut", "-d", " ", "-f", "1"]):
        assert model._command(command) == ("cut", "-d", " ", "-f", "1")
    with pytest.raises(ValueError, match="the command is empty"):
        model._command([" ", "x"])


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_share_of_400_digits_is_out_of_range(sign: str) -> None:
    with pytest.raises(UsageError, match="out of range"):
        two(more=f"[measure]\nprecision = {sign}{'9' * 400}\n")


def test_a_fragment_beside_the_experiment_comes_before_ours(tmp_path: Path) -> None:
    (tmp_path / "smp.config").write_text("# mine\nCONFIG_SMP=y\nCONFIG_NR_CPUS=8\n")
    _, mine = two(mine='config = ["smp"]', folder=tmp_path).variants
    assert mine.config == (ConfigFragment("smp.config", ("CONFIG_SMP=y", "CONFIG_NR_CPUS=8")),)


@pytest.mark.parametrize(
    ("text", "size"),
    [("32M", 32 << 20), ("1g", 1 << 30), ("2GiB", 2 << 30), ("524288K", 512 << 20)],
)
def test_amounts(text: str, size: int) -> None:
    assert two(more=f'[machine]\nmemory = "{text}"').machine.memory_bytes == size


@pytest.mark.parametrize("text", ['"0.5%"', '"0.5 %"', "0.005", "5e-3"])
def test_shares(text: str) -> None:
    assert two(more=f"[measure]\nprecision = {text}").measure.precision == pytest.approx(0.005)


def test_lines_are_found_in_unusual_layouts() -> None:
    positions = Positions(
        'a = """\n[x]\nb = 1\n"""\n[x] # "]"\n  "odd key" = 1\nlist = [\n'
        '  "one", # ]\n  "two",\n]\n'
        "c = { d = 1 }\n[[y]]\n[[y]]\nz.w = 1\n"
    )
    assert positions.line(("a",)) == 1
    assert positions.line(("x",)) == 5
    assert positions.line(("x", "odd key")) == 6
    assert positions.line(("x", "list", 1), "two") == 9
    assert positions.line(("x", "c", "d")) == 11
    assert positions.line(("y", 1)) == 13
    assert positions.line(("y", 1, "z", "w")) == 14
    assert positions.line(("nowhere",)) is None


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
@example("x = " + "9" * 5000)
@example("x = " + "[" * 5000)
@example("x = " + "{a=" * 3000)
@example("d = 2021-13-45")
@example("x" * 10**5)
def test_no_garbage_gives_anything_but_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parsed(text)


@pytest.mark.slow
def test_the_page_names_every_key_and_its_example_is_accepted(tmp_path: Path) -> None:
    for table, keys in TABLES.items():
        for key in keys:
            assert f"`{key}`" in PAGE, f"docs/experiment-file.md lacks {key} of [{table}]"
    (tmp_path / "mine.patch").write_bytes((DATA / "good.patch").read_bytes())
    text = PAGE.split("```toml\n", 1)[1].split("```", 1)[0]
    assert len(parsed(text, tmp_path).variants) == 4


def test_a_kernel_of_its_own_is_what_an_experiment_makes_of_the_same_keys() -> None:
    keys = {"source": "debian:linux-source-7.3", "config": ["bench"]}
    whole = two(kernel='config = ["bench"]')
    assert variant("stock", keys, "x", DATA, VOCABULARY) == whole.variants[0]
    with pytest.raises(UsageError, match=r'kernel.config\[1\]: "bensh".*"bench"'):
        variant("stock", {**keys, "config": ["bensh"]}, "x", DATA, VOCABULARY)


ROUTINES = knowing(
    suites=VOCABULARY.suites,
    routines={"memcpy": ("fsrm", "avx2"), "memset": ("sse", "avx2"), "copy_page": ("sse",)},
    runs_here=lambda _function, name: "avx2" not in name,
)


@pytest.mark.parametrize(
    ("keys", "memcpy", "routines"),
    [
        ('routines = { memset = "sse", copy_page = ["sse"] }', None,
         (("copy_page", "sse"), ("memset", "sse"))),
        # Of several the first that runs here.
        ('routines = { memset = ["avx2", "sse"] }', None, (("memset", "sse"),)),
        ('routines.memset = ["avx2"]', None, (("memset", "avx2"),)),
        # A file goes by its path from the experiment's folder.
        ('memcpy = "mine.S"\nroutines.memset = "./mine.S"', "/mine.S", (("memset", "/mine.S"),)),
        ('memcpy = ["avx2", "mine.S", "fsrm"]', "/mine.S", ()),
    ],
    ids=range(5),
)  # fmt: skip
def test_routines(keys: str, memcpy: str | None, routines: object, tmp_path: Path) -> None:
    (tmp_path / "mine.S").write_text("")
    stock, mine = two(mine=keys, folder=tmp_path, vocabulary=ROUTINES).variants
    assert (stock.memcpy, stock.routines) == (None, ())
    inside = str(tmp_path)
    assert mine.memcpy == (memcpy and memcpy.replace("/mine", f"{inside}/mine"))
    assert tuple((name, routine.replace(inside, "")) for name, routine in mine.routines) == routines


def test_a_variant_replaces_the_kernels_routines() -> None:
    below = 'routines = { memset = "sse", copy_page = "sse" }'
    own = 'routines = { memset = "stock" }'
    stock, mine = two(below, own, vocabulary=ROUTINES).variants
    assert dict(stock.routines) == {"memset": "sse", "copy_page": "sse"}
    assert mine.routines == ()


# Experiments that come with kdyno.


ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "experiments").glob("*.toml"))
SUITES = load_suites()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_loads_with_cases_that_its_metric_decides_and_names_its_page(file: Path) -> None:
    experiment = load(file, vocabulary(SUITES))
    assert experiment.name == file.stem and experiment.question.endswith("?")
    for quick in (False, True):
        chosen = apply(Overrides(quick=quick), experiment)
        cases, jobs = cases_of(chosen, SUITES), jobs_of(chosen, SUITES)
        assert len(cases) == len(jobs) > 0
        assert not any("{jobs}" in text for job in jobs for text in job.args)
    refuse_undecided(experiment, cases_of(experiment, SUITES))
    page = re.search(r"See (docs/\S+\.md)", file.read_text())
    assert page, f"{file.name} names no page"
    assert (ROOT / page[1]).read_text().startswith("<!-- SPDX-License-Identifier: MIT -->")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_its_kernels_differ_and_share_compilations_with_all_others(file: Path) -> None:
    experiment = load(file, vocabulary(SUITES))
    mistakes = experiment.mistakes()
    builder._check_twins(experiment, mistakes)
    assert not mistakes.paths
    signed = Tree(ROOT, "digest", "signed", "7.3.4", origin="")
    for one in experiment.variants:
        routines = of_variant(one.memcpy, one.routines)
        assert recipe.foreign_parts(one, signed, routines, wishes(one.config)) == set(), one.name


def test_shipped_experiments_have_the_cells_and_word_sizes_that_their_pages_tell() -> None:
    experiment = load(ROOT / "experiments" / "smp-preemption.toml", vocabulary(SUITES))
    assert [variant.name for variant in experiment.variants] == [
        "off+voluntary", "off+full", "on+voluntary", "on+full",
    ]  # fmt: skip
    names = [case.name for case in cases_of(experiment, SUITES)]
    assert names[:4] == ["lib@1", "lib@2", "lib@4", "lib@8"]
    assert all("@" not in name for name in names[4:])
    # Word sizes differ where they are the question.
    experiment = load(ROOT / "experiments" / "kernel-32-64.toml", vocabulary(SUITES))
    archs = {variant.name: (variant.arch, variant.program_bits) for variant in experiment.variants}
    assert archs == {"32-bit": ("i386", 32), "64-bit": ("x86_64", 32)}
    suites = [case.suite for case in cases_of(experiment, SUITES)]
    assert (suites.count("xbench"), suites.count("tiobench")) == (28, 4)


# How much an experiment is.


def crossed(factors: int, key: str = 'config = ["CONFIG_X{i}=y"]', more: str = "") -> Experiment:
    """A cross of 2^factors kernels."""
    levels = "\n".join(
        f"[factor.f{i}]\nno{i} = {{}}\nyes{i} = {{ {key.format(i=i)} }}" for i in range(factors)
    )
    baseline = "+".join(f"no{i}" for i in range(factors))
    return parse(
        f'name = "x"\nbaseline = "{baseline}"\n[kernel]\nsource = "kernel.org:7.3"\n{levels}\n'
        f"[[suite]]\nname = 'unixbench'\ncases = ['pipe', 'context1']\nseconds = 0.5\n"
        f"[measure]\nmax_boots = 30\n{more}",
        "x.toml", DATA, VOCABULARY,
    )  # fmt: skip


def test_hours_by_hand_and_more_than_64_variants_are_asked_about() -> None:
    assert kernels_of(crossed(7)) == 128
    assert measure_s(crossed(7)) == pytest.approx(128 * 30 * (0.3 + 1.4 * 2 * 0.5))
    assert measure_s(crossed(7, more="max_minutes = 30")) == 1800
    # Command lines and CPUs need no kernel of their own.
    assert kernels_of(crossed(7, 'cmdline = "a{i}"')) == 1
    # Nor do what is loaded into one, what runs on it, and what of its CPU it is to see.
    one = crossed(1)
    same: list[dict[str, Any]] = [{"scheduler": "fifo"}, {"program_bits": 32}, {"memcpy": "erms"}]
    more = tuple(replace(one.variants[0], **keys) for keys in (*same, {"best": (("memcpy", ""),)}))
    assert kernels_of(replace(one, variants=(one.variants[0], *more))) == 1
    assert question(crossed(6)) is None
    assert question(crossed(7)) == (
        "x has 128 variants (128 kernels to build): up to 8.5 hours of building and 1.8 hours or "
        "more of measuring"
    )


def test_nobody_there_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    with pytest.raises(UsageError, match=r"128 variants .*--yes"):
        consent(crossed(7), yes=False)
    consent(crossed(7), yes=True)
    name = "yes0+" + "+".join(f"no{i}" for i in range(1, 7))
    consent(apply(Overrides(variants=(name,)), crossed(7)), yes=False)


@pytest.mark.slow
def test_5000_cells_load_so_that_they_can_be_asked_about() -> None:
    assert len(crossed(12).variants) == 4096
    with pytest.raises(UsageError, match="16384 variants; at most 10000"):
        crossed(14)


def test_a_budget_that_ends_before_the_first_interval_is_said_before_the_run() -> None:
    # Eight variants, two cases of 0.25 s: six blocks of 8 s.
    assert too_short(crossed(3, more="max_minutes = 1")) is None
    assert too_short(crossed(3, more="max_minutes = 0.5")) == (
        "max_minutes = 0.5 may end before the first interval: 6 boots of each variant take 0.8 "
        "minutes or more. max_minutes = 1, or 1 cases instead of 2 (--case), would do"
    )
    few = crossed(3, more="min_boots = 2").measure
    assert few.max_boots == 30
    short = replace(crossed(3), measure=replace(few, max_boots=5, max_minutes=None))
    assert too_short(short) == (
        "max_boots = 5 ends before the first interval, which takes 6 boots of each variant: every "
        "effect will be inconclusive"
    )


def test_a_cross_of_very_many_is_refused() -> None:
    levels = [*range(1, 101)]
    kernels = "".join(
        f"{name} = {{ {', '.join(f'l{at} = {{}}' for at in levels)} }}\n" for name in "xyz"
    )
    cases = "[[suite]]\nname = 'run'\ncommand = 'echo {a} {b} {c} {d} {e}'\n"
    cases += "[factor]\n" + "".join(f"{name} = {levels}\n" for name in "abcde")
    with pytest.raises(UsageError, match="make 2000000 variants; at most 10000 are allowed"):
        two(more=f"[factor]\n{kernels}")
    with pytest.raises(UsageError, match="make 10000000001 cells of cases; at most 10000 are allo"):
        two(more=cases)
