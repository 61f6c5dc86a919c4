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
    assert report.suites[0].tests == (
        ("memset_test", "passed"),
        ("memcpy_test", "passed"),
        ("memcpy_large_test", "skipped"),
    )
    assert report.summary == "memcpy 2 of 3, usercopy 1 of 1"
    assert report.as_json()["suites"]["usercopy"] == {"usercopy_test_valid": "passed"}


def test_a_suite_that_is_wanted_and_did_not_run() -> None:
    assert parse_ktap(GOOD).problems == ("string: did not run",)
    assert parse_ktap("", ("memcpy",)).problems == ("memcpy: did not run",)


def test_a_test_that_failed() -> None:
    bad = GOOD.replace("    ok 2 memcpy_test", "    not ok 2 memcpy_test").replace(
        "ok 1 memcpy\n", "not ok 1 memcpy\n"
    )
    assert parse_ktap(bad, ("memcpy",)).problems == ("memcpy: memcpy_test failed",)


def test_a_console_that_is_cut() -> None:
    cut = GOOD[: GOOD.index("ok 3 memcpy_large")]
    assert parse_ktap(cut, ("memcpy",)).problems == (
        "memcpy: cut short, it has no result",
        "memcpy: 2 of 3 tests reported",
    )


def test_a_suite_without_a_test_that_passed_is_no_pass() -> None:
    none = "    # Subtest: memcpy\n    1..0\nok 1 memcpy\n"
    assert parse_ktap(none, ("memcpy",)).problems == ("memcpy: no test passed",)
    other = "    # Subtest: memcpy\n    1..1\n    ok 1 a\nok 1 string\n"
    assert "memcpy: cut short, it has no result" in parse_ktap(other, ("memcpy",)).problems
    assert "memcpy: reported twice" in parse_ktap(GOOD + GOOD, ("memcpy",)).problems


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(GOOD.splitlines()) | st.text(max_size=40),
        max_size=40,
    )
)
def test_whatever_is_on_the_console_a_pass_needs_every_line_of_it(lines: list[str]) -> None:
    report = parse_ktap("\n".join(lines), ("memcpy",))
    if report.passed:
        said = "\n".join(lines)
        assert "# Subtest: memcpy" in said and "ok 1 memcpy" in said
