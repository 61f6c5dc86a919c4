# SPDX-License-Identifier: MIT
"""Counts of copies: the kernel's dump under garbage, sites by name, files, shares, the report."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kdyno.errors import ToolError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment, SuiteUse
from kdyno.labs.memcpy import copies, counting, tables
from kdyno.labs.memcpy.copies import Copy, Site, distribution, parse_distribution
from kdyno.labs.profile.record import by_line
from kdyno.labs.profile.symbols import Symbols
from kdyno.measure.commands import DEFAULT_SOURCE
from kdyno.measure.vocabulary import vocabulary
from kdyno.report.show.terminal import Screen, text
from kdyno.suites.catalogue import load

BASE = 0x60001000
SYMBOLS = Symbols((BASE, BASE + 0x100, BASE + 0x200), ("first", "second.isra.0", "third"))
any_copy = st.builds(Copy, st.integers(0, (1 << 25) - 1), st.integers(0, 63), st.integers(0, 63))


def dump(slots: dict[tuple[int, Copy], int], limit: int = 0, lost: int = 0) -> bytes:
    """What a kernel leaves: (offset in the kernel, copy) → calls."""

    def key(offset: int, copy: Copy) -> int:
        return offset << 37 | copy.size << 12 | copy.dst << 6 | copy.src

    numbers = (BASE, len(slots), lost, 0, 0, limit, 1, sum(slots.values()))
    body = b"".join(struct.pack("<QQ", key(*at), calls) for at, calls in slots.items())
    return struct.pack("<16s8Q", b"kdyno copies 1\n\0", *numbers) + body


@pytest.mark.slow
@given(st.dictionaries(st.tuples(st.integers(1, (1 << 27) - 1), any_copy), st.integers(1, 1 << 40)))
def test_a_dump_says_what_was_counted(slots: dict[tuple[int, Copy], int]) -> None:
    counted = counting.read_dump(dump(slots, lost=2))
    assert counted.calls == {(BASE + at, copy): calls for (at, copy), calls in slots.items()}
    assert (counted.lost, counted.total) == (2, sum(slots.values()))


@given(st.binary(max_size=400), st.data())
def test_garbage_is_refused_and_nothing_else_happens(noise: bytes, data: st.DataObject) -> None:
    good = dump({(7, Copy(512, 0, 8)): 3, (9, Copy(64, 1, 2)): 4})
    at = data.draw(st.integers(0, len(good)))
    for content in (noise, good[:at], good[:at] + noise, good[:at] + noise + good[at:]):
        if content != good:
            try:
                counted = counting.read_dump(content)
            except ToolError as problem:
                assert "counts" in str(problem)
            else:  # other numbers may be a dump as well, but never of another length
                assert len(content) == len(good) and counted.total >= 0


ONE_COPY = dump({(7, Copy(1, 0, 0)): 5})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "did not reach its power-off"),
        (b"kdyno", "end within the header"),
        (b"x" * 200, "begin with something else"),
        (ONE_COPY[:-1], "95 bytes are there, and 96 were announced"),
        (dump({(0, Copy(0, 0, 0)): 1}), "a slot says 1 calls of 0x0"),
        (dump({(7, Copy(1, 0, 0)): 1 << 63}), "a slot says"),
        (dump({}, limit=1 << 40), "more than there can be"),
        (ONE_COPY[:-8] + struct.pack("<Q", 6), "add up to 6, and the sum is given as 5"),
    ],
)
def test_a_dump_that_is_none_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(ToolError, match=reason):
        counting.read_dump(content)


@pytest.mark.parametrize("copy", [Copy(4096, 0, 0), Copy(0, 0, 0)])
def test_more_than_a_kernel_can_copy_is_not_believed(copy: Copy) -> None:
    counted = counting.read_dump(dump({(at, copy): 1 << 62 for at in (7, 8)}))
    with pytest.raises(ToolError, match=r"make no sense: they add up to more than 2\^62"):
        counting.distribution_of(counted, "x", SYMBOLS)


def test_call_sites_have_names() -> None:
    # The return address behind a call that ends a function is the next function's first byte.
    sites = [counting.call_site(SYMBOLS, at) for at in (BASE + 0x110, BASE + 0x200, 0x10)]
    assert sites == ["second", "second", "unknown"]


CALLS = {
    (BASE + 0x110, Copy(512, 0, 8)): 10,
    (BASE + 0x120, Copy(512, 0, 8)): 30,
    (BASE + 0x210, Copy(4096, 0, 0)): 5,
    (BASE + 0x010, Copy(0, 3, 3)): 1,
}
RECORDED = counting.distribution_of(counting.Counted(CALLS), "a test", SYMBOLS)


def test_counts_become_a_distribution() -> None:
    cells = [(cell.size, cell.dst, cell.src, cell.calls) for cell in RECORDED.cells]
    assert cells == [(0, 3, 3, 1), (512, 0, 8, 40), (4096, 0, 0, 5)]
    sites = [(site.site, site.calls, site.bytes) for site in RECORDED.sites or ()]
    assert sites == [("second", 40, 20480), ("third", 5, 20480), ("first", 1, 0)]
    assert (RECORDED.calls, RECORDED.bytes) == (46, 40960)


cells = st.dictionaries(
    st.tuples(st.integers(0, 1 << 30), st.integers(0, 63), st.integers(0, 63)),
    st.integers(1, 1 << 62),
    min_size=1,
)
sites = st.lists(
    st.builds(
        Site, site=st.text(min_size=1), calls=st.integers(0, 1 << 62), bytes=st.integers(0, 1 << 62)
    )
)


@pytest.mark.slow
@given(cells, st.text(), sites)
def test_a_distribution_comes_back_from_its_file(
    counts: dict[tuple[int, int, int], int], source: str, called_from: list[Site]
) -> None:
    recorded = distribution(counts, source, called_from)
    assert parse_distribution(by_line(copies.to_json(recorded)).encode(), "x") == recorded


@pytest.mark.slow
@given(st.binary() | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["schema", "kind", "source", "cells", "sites", "size", "calls"]), inner
    ),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_another_file_is_refused_with_its_name(content: bytes) -> None:
    with pytest.raises(UsageError, match=r"^mine\.json: "):
        parse_distribution(content, "mine.json")


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ({"size": -1, "dst": 0, "src": 0, "calls": 1}, r"cells\[2\]\.size: -1 should be greater"),
        ({"size": 1, "dst": 64, "src": 0, "calls": 1}, r"cells\[2\]\.dst: 64 should be less than"),
        ({"size": 1, "dst": 0, "src": 0, "calls": True}, r"cells\[2\]\.calls: true, true or fal"),
        ({"size": 1 << 31, "dst": 0, "src": 0, "calls": 1}, r"cells\[2\]\.size: 2147483648"),
        (7, r"cells\[2\]: 7, an integer, is given, but a table is expected"),
    ],
)
def test_a_bad_cell_is_named(cell: object, reason: str) -> None:
    good = {"size": 8, "dst": 0, "src": 0, "calls": 1}
    content = json.dumps({"schema": 1, "kind": "copies", "source": "", "cells": [good, cell]})
    with pytest.raises(UsageError, match=rf"mine\.json: {reason}"):
        parse_distribution(content.encode(), "mine.json")


def test_equal_cells_of_too_many_calls_are_refused() -> None:
    cell = {"size": 8, "dst": 0, "src": 0, "calls": 1 << 62}
    file = {"schema": 1, "kind": "copies", "source": "x", "cells": [cell] * 3}
    with pytest.raises(UsageError, match="x: cells of one size have too many calls together"):
        parse_distribution(json.dumps(file).encode(), "x")


def test_weights_that_are_all_zero_and_files_that_are_not_there_are_refused() -> None:
    zero = {"size": 8, "dst": 0, "src": 0, "calls": 0}
    content = json.dumps({"schema": 1, "kind": "copies", "cells": [zero, zero]})
    with pytest.raises(UsageError, match="every cell has 0 calls"):
        parse_distribution(content.encode(), "mine.json")
    with pytest.raises(UsageError, match="cannot be read"):
        copies.read_distribution(Path("none.json"))


def test_shares_of_sizes_and_alignments() -> None:
    sample = distribution({(8, 0, 0): 60, (512, 0, 8): 30, (4096, 32, 32): 10}, "a test")
    shares = {each.label: (each.calls, each.bytes) for each in copies.by_size(sample)}
    assert shares["1-8"] == (0.6, 480 / 56800)
    assert shares["257-512"] == (0.3, 15360 / 56800)
    assert shares["2049-4096"] == (0.1, 40960 / 56800)
    assert shares["9-16"] == (0.0, 0.0) and len(shares) == 10
    quantiles = [copies.size_quantile(sample, part) for part in (0.5, 0.6, 0.61, 0.95)]
    assert quantiles == [8, 8, 512, 4096]
    assert copies.size_quantile(sample, 0.5, of_bytes=True) == 4096
    assert copies.aligned(sample, 64) == (0.9, 0.6, 0.6)


@pytest.mark.slow
@given(cells)
def test_shares_add_up(counts: dict[tuple[int, int, int], int]) -> None:
    recorded = distribution(counts, "x")
    shares = copies.by_size(recorded)
    assert sum(share.calls for share in shares) == pytest.approx(1)
    assert sum(share.bytes for share in shares) == pytest.approx(1 if recorded.bytes else 0)


def test_the_report_names_sites_sizes_and_what_is_missing() -> None:
    lines = text(tables.copies(RECORDED, ["a note"], top=2)).splitlines()
    assert lines[:2] == ["a test: 46 copies, 40.96 kB", "a note"]
    assert lines[4].split()[:4] == ["second", "40", "87.0", "%"]
    assert lines[6].strip().startswith("1 more")
    plain = text(tables.copies(RECORDED, ascii_only=True), Screen(unicode=False))
    assert plain.isascii() and "257-512  #####" in plain
    assert "Half of the calls copy at most 512 bytes" in plain


def test_a_hostile_name_does_nothing_to_the_terminal() -> None:
    site = Site(site="\x1b]0;evil\x07" + "y" * 500, calls=1, bytes=8)
    report = text(tables.copies(distribution({(8, 0, 0): 1}, "\x1b[2Jx", [site])))
    assert "\x1b" not in report and max(map(len, report.splitlines())) < 140


@pytest.fixture
def pipe() -> Experiment:
    return counting.of_cases(("unixbench/fscopy-*", "unixbench/pipe"), load())


def test_one_kernel_is_made_to_count(pipe: Experiment) -> None:
    (stock,) = pipe.variants
    assert stock.source == DEFAULT_SOURCE and stock.arch == "um"
    assert [part.origin for part in stock.config] == ["bench.config", "bench.uml.config"]
    counted = replace(pipe, variants=(replace(stock, memcpy="fsrm"),))
    experiment = counting.counting_experiment(counted)
    (variant,) = experiment.variants
    assert variant.name == "stock" and [path.name for path in variant.patches] == [counting.PATCH]
    assert variant.memcpy is None and not experiment.measure.calibrate
    assert experiment.suites[0].cases[-1] == "pipe" and "fscopy-1024" in experiment.suites[0].cases


def test_where_copies_cannot_be_counted(pipe: Experiment) -> None:
    wide = replace(pipe, variants=(replace(pipe.variants[0], arch="um32"),))
    with pytest.raises(UsageError, match='64-bit User Mode Linux, arch = "um"'):
        counting.counting_experiment(wide)
    host = 'name = "x"\nquestion = "?"\nbaseline = "running"\n[machine]\nkind = "host"\n'
    host += '[measure]\ncalibrate = true\n[[suite]]\nname = "unixbench"\ncases = ["pipe"]\n'
    with pytest.raises(UsageError, match="its machine is the host"):
        counting.counting_experiment(loader.parse(host, "x", Path(), vocabulary(load())))
    with pytest.raises(UsageError, match=r"no such case\. Did you mean unixbench/pipe"):
        counting.of_cases(("unixbench/pip",), load())


def test_a_command_is_counted_where_the_person_is() -> None:
    def use_of(*words: str, folder: str = "/usr") -> SuiteUse:
        (use,) = counting.of_command(words, Path(folder), load()).suites
        return use

    use = use_of("tar", "cf", "/dev/null", "docs", folder="/usr/share")
    assert (use.name, use.cases) == ("run", ("tar",))
    assert use.command == ("env", "-C", "/usr/share", "tar", "cf", "/dev/null", "docs")
    assert use_of("[", "1", "]").cases == ("command",)
    with pytest.raises(UsageError, match="kdyno-none is not there: no such program"):
        use_of("kdyno-none")


def test_what_comes_with_kdyno_can_be_read() -> None:
    files = sorted(copies.shipped().parent.glob("*.json"))
    assert [path.stem for path in files] == ["tar", "unixbench"]
    for path in files:
        copied = copies.read_distribution(path)
        calls = sum(site.calls for site in copied.sites or ())
        assert copied.calls > 1_000_000 and calls == copied.calls
