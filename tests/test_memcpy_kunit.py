# SPDX-License-Identifier: MIT
"""What a kernel's own tests say, read from consoles that are whole, cut, wrong or hostile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdyno.labs.memcpy.kunit import parse_ktap

GOOD = """\
Linux version 7.3
[    0.010000] KTAP version 1
[    0.010000] 1..2
[    0.010000]     KTAP version 1
[    0.010000]     # Subtest: memcpy
[    0.010000]     # module: memcpy_kunit
[    0.010000]     1..3
[    0.010000]     # memset_test: ok: memset() direct assignment
[    0.010000]     ok 1 memset_test
[    0.020000]     ok 2 memcpy_test
[    0.020000]     ok 3 memcpy_large_test # SKIP Slow test.
[    0.020000] # memcpy: pass:2 fail:0 skip:1 total:3
[    0.020000] # Totals: pass:2 fail:0 skip:1 total:3
[    0.020000] ok 1 memcpy
[    0.020000]     KTAP version 1
[    0.020000]     # Subtest: usercopy
[    0.020000]     1..1
[    0.020000]         KTAP version 1
[    0.020000]         # Subtest: usercopy_parameters
[    0.020000]         ok 1 one
[    0.020000]         not ok 2 not counted
[    0.020000]     ok 1 usercopy_test_valid
[    0.020000] ok 2 usercopy
kdyno: hello
"""


def test_a_whole_report() -> None:
    report = parse_ktap(GOOD, ("memcpy", "usercopy"))
    assert report.problems == () and report.passed
    assert parse_ktap(GOOD).problems == ("string: did not run",)
    states = {"memset_test": "passed", "memcpy_test": "passed", "memcpy_large_test": "skipped"}
    assert report.suites["memcpy"] == list(states.items())
    assert report.summary == "memcpy 2 of 3, usercopy 1 of 1"
    assert report.as_json()["suites"]["usercopy"] == {"usercopy_test_valid": "passed"}


FAILED = GOOD.replace("    ok 2 memcpy_test", "    not ok 2 memcpy_test")
NO_TEST = "    # Subtest: memcpy\n    1..0\nok 1 memcpy\n"
OTHER_END = "    # Subtest: memcpy\n    1..1\n    ok 1 a\nok 1 string\n"
CUT = ["memcpy: cut short, it has no result"]


@pytest.mark.parametrize(
    ("console", "problems"),
    [
        ("", ["memcpy: did not run"]),
        (FAILED.replace("ok 1 memcpy\n", "not ok 1 memcpy\n"), ["memcpy: memcpy_test failed"]),
        (GOOD.split("ok 3 memcpy_large")[0], [*CUT, "memcpy: 2 of 3 tests reported"]),
        (NO_TEST, ["memcpy: no test passed"]),
        (OTHER_END, CUT),
        (GOOD + GOOD, ["memcpy: reported twice", "usercopy: reported twice"]),
    ],
)
def test_what_is_missing_cut_or_repeated_is_no_pass(console: str, problems: list[str]) -> None:
    assert list(parse_ktap(console, ("memcpy",)).problems) == problems


@pytest.mark.slow
@given(st.lists(st.sampled_from(GOOD.splitlines()) | st.text(max_size=40), max_size=40))
def test_whatever_is_on_the_console_a_pass_needs_every_line_of_it(lines: list[str]) -> None:
    report = parse_ktap("\n".join(lines), ("memcpy",))
    if report.passed:
        console = "\n".join(lines)
        assert "# Subtest: memcpy" in console and "ok 1 memcpy" in console
