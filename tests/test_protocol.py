# SPDX-License-Identifier: MIT
"""The results channel: what is believed, what is not, and that nothing breaks the reader."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from kdyno.suites import protocol
from kdyno.suites.protocol import Begin, CaseError, Reader, Sample, Skip, Transcript

NONCE = "ab" * 16
KINDS = [kind.kind for kind in get_args(protocol.Record)]


def record(seq: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"n": NONCE, "seq": seq, "t": kind, **fields}


def hello(seq: int = 0) -> dict[str, Any]:
    about = {"release": "7.3.4", "machine": "x86_64", "word_bits": 64, "cpus": 1, "mem_kb": 1000}
    return record(seq, "hello", protocol=1, mono_ns=5, **about)


def begin(seq: int, case: int) -> dict[str, Any]:
    return record(seq, "begin", case=case, bench="pipe", mono_ns=6)


def sample(seq: int, case: int, **more: Any) -> dict[str, Any]:
    times = {"user_ns": 1, "sys_ns": 2, "calibration_ns": 3, "mono_ns": 7}
    fields = {"reps": [[10, 100], [10, 110]], **times, "extra": {}, **more}
    return record(seq, "sample", case=case, **fields)


def bye(seq: int) -> dict[str, Any]:
    return record(seq, "bye", mono_ns=9, inside_ns=4)


def lines(*records: dict[str, Any] | bytes) -> list[bytes]:
    return [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]


def parse(channel: list[bytes], nonce: str, cases: int) -> Transcript:
    reader = Reader(nonce, cases)
    reader.feed(b"".join(line + b"\n" for line in channel))
    return reader.finish()


GOOD = lines(
    hello(),
    begin(1, 0),
    sample(2, 0, extra={"stdout": "x\n"}),
    begin(3, 1),
    record(4, "error", case=1, reason="died"),
    begin(5, 2),
    record(6, "skip", case=2, reason="no disk"),
    bye(7),
)


def test_a_good_transcript() -> None:
    transcript = parse(GOOD, NONCE, 3)
    assert transcript.hello == protocol.Hello(1, "7.3.4", "x86_64", 64, 1, 1000, 5)
    assert transcript.begun == tuple(Begin(case, "pipe", 6) for case in range(3))
    assert transcript.results == (
        Sample(0, ((10, 100), (10, 110)), 1, 2, 3, 7, {"stdout": "x\n"}),
        CaseError(1, "died"),
        Skip(2, "no disk"),
    )
    assert [result.kind for result in transcript.results] == ["sample", "error", "skip"]
    assert transcript.bye == protocol.Bye(9, 4)
    assert (transcript.fatal, transcript.anomalies) == (None, 0)
    assert transcript.complete
    assert transcript.running is None


def test_pieces_of_any_size_give_the_same() -> None:
    stream = b"".join(b"\n" + line + b"\n" for line in GOOD)
    for size in (1, 7, 1000):
        reader = Reader(NONCE, 3)
        events = []
        for at in range(0, len(stream), size):
            events += reader.feed(stream[at : at + size])
        assert reader.finish() == parse(GOOD, NONCE, 3)
        assert len(events) == len(GOOD)


def test_silence_in_the_middle_names_the_running_case() -> None:
    transcript = parse(GOOD[:4], NONCE, 3)
    assert (transcript.running, transcript.complete) == (1, False)
    assert transcript.result(0) is not None and transcript.result(1) is None


def test_garbage_between_records_is_counted_and_costs_no_true_record() -> None:
    transcript = parse([b"Oops: 0002 \xff", *GOOD[:3], b"[[", *GOOD[3:]], NONCE, 3)
    assert transcript.anomaly_texts == tuple(f"line {at}: not JSON in UTF-8" for at in (1, 5))
    assert transcript.results == parse(GOOD, NONCE, 3).results
    transcript = parse([b"#"] * 5000 + GOOD, NONCE, 3)
    assert transcript.results == parse(GOOD, NONCE, 3).results
    assert (len(transcript.anomaly_texts), transcript.anomalies) == (protocol.ANOMALIES_KEPT, 5000)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({**begin(1, 1), "n": "cd" * 16}, "not signed"),
        ({**begin(1, 1), "n": "\ud800"}, "not signed"),
        ({**begin(1, 1), "n": 5}, "not signed"),
        (begin(0, 1), "seq does not go up"),
        ({**begin(1, 1), "seq": True}, "seq does not go up"),
        ({**begin(1, 1), "seq": 1 << 60}, "seq does not go up"),
        (begin(2, 2), "case 2 of a job of 2"),
        (begin(2, -1), "case: Input should be greater"),
        (sample(2, 1), "case 1, which is not running"),
        (sample(2, 0, reps=[]), "reps: "),
        (sample(2, 0, reps=[[1, 1]] * 600), "at most 512"),
        (sample(2, 0, reps=[[1, 2, 3]]), "reps.0: "),
        (sample(2, 0, reps=[[1, 0]]), "reps.0.1: "),
        (sample(2, 0, reps=[[-1, 5]]), "reps.0.0: "),
        (sample(2, 0, reps=[[1.5, 5]]), "reps.0.0: "),
        (sample(2, 0, reps=[[1e308, 5]]), "reps.0.0: "),
        (sample(2, 0, reps=[[True, 5]]), "reps.0.0: "),
        (sample(2, 0, reps=[[float("nan"), 5]]), "NaN is not a number"),
        (sample(2, 0, user_ns=float("inf")), "Infinity is not a number"),
        (sample(2, 0, user_ns=10**30), "user_ns: "),
        (sample(2, 0, extra={"a": 1}), "extra.a: "),
        (sample(2, 0, extra={"": "a"}), "at least 1 character"),
        (sample(2, 0, extra={"a" * 201: "a"}), f"extra.{'a' * 180}"),
        (sample(2, 0, extra={str(i): "" for i in range(99)}), "extra: "),
        (record(2, "error", case=0, reason=7), "reason: "),
        (record(2, "what"), "no type of record"),
        (record(2, "begin", case=0, **{"\ud800": 1}), "bench: Field required"),
        (record(2, "mark", case=1, begins=1), "case 1, which is not running"),
        (record(2, "mark", case=0, begins=2), "begins: "),
        (record(2, "hello"), "protocol: Field required"),
        (hello(2), "a second hello"),
        ({**hello(2), "protocol": 2}, "protocol: Input should be 1"),
        (bye(2), "bye while case 0 is running"),
        (b"5", "not a JSON object"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b'{"n": ' + b"9" * 10_000 + b"}", "not JSON"),
        (b"x" * (protocol.LINE_BYTES_MAX + 1), "longer than"),
    ],
)
def test_what_is_not_believed(bad: dict[str, Any] | bytes, why: str) -> None:
    transcript = parse(lines(hello(), begin(1, 0), bad, sample(2, 0)), NONCE, 2)
    assert transcript.anomalies == 1
    assert why in transcript.anomaly_texts[0]
    assert transcript.results == (Sample(0, ((10, 100), (10, 110)), 1, 2, 3, 7),)


def test_duplicates_late_results_and_lost_records() -> None:
    late = (sample(3, 0, reps=[[9, 9]]), begin(4, 0), bye(5), begin(6, 1))
    transcript = parse(lines(hello(), begin(1, 0), sample(2, 0), *late), NONCE, 2)
    assert transcript.results == (Sample(0, ((10, 100), (10, 110)), 1, 2, 3, 7),)
    assert "after the last one" in transcript.anomaly_texts[-1] and not transcript.complete
    transcript = parse(lines(hello(), begin(1, 0), begin(3, 1), sample(4, 1), bye(5)), NONCE, 2)
    assert "1 records before it are lost" in transcript.anomaly_texts[0]
    assert [result.case for result in transcript.results] == [1]
    transcript = parse(lines(hello(), record(1, "fatal", reason="no\x1b[31m")), NONCE, 0)
    assert (transcript.fatal, transcript.complete) == ("no\ufffd[31m", False)


def test_texts_can_be_written_and_shown() -> None:
    text = lines(
        hello(),
        begin(1, 0),
        sample(2, 0, extra={"stdout": "\ud800\x1b"}),
        begin(3, 1),
        record(4, "error", case=1, reason="\ud800\x07\u202e" + "y" * 99_999),
    )
    transcript = parse(text, NONCE, 2)
    first, second = transcript.results
    assert isinstance(first, Sample)
    assert first.extra["stdout"] == "?\x1b"
    assert isinstance(second, CaseError)
    assert second.reason.startswith("\ufffd\ufffd\ufffdyyy")
    assert len(second.reason) == 16 * 1024


def test_a_line_without_end_is_not_believed() -> None:
    reader = Reader(NONCE, 3)
    reader.feed(b"\n".join(GOOD))
    transcript = reader.finish()
    assert transcript.bye is None
    assert transcript.anomaly_texts == ("line 7: the last line is cut off",)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_no_bytes_break_the_reader(data: bytes, cuts: list[int]) -> None:
    reader = Reader(NONCE, 2)
    at = 0
    for cut in sorted(cuts):
        reader.feed(data[at:cut])
        at = max(at, cut)
    reader.feed(data[at:])
    assert reader.finish().results == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["case", "reps", "reason", "extra"]), inner, max_size=3)
    ),
    max_leaves=6,
)
RECORDS = st.fixed_dictionaries(
    {
        **dict.fromkeys(("user_ns", "sys_ns", "calibration_ns", "inside_ns"), st.just(1)),
        **dict.fromkeys(("mono_ns", "operations", "ns"), st.just(1) | JSON),
        "n": st.just(NONCE) | JSON,
        "seq": st.integers(-1, 12),
        "t": st.sampled_from(KINDS),
        "case": st.integers(-1, 3) | JSON,
        "bench": st.just("pipe") | JSON,
        "reason": st.text(max_size=5),
        "reps": st.just([[1, 1]]) | JSON,
        "begins": st.integers(-1, 2) | JSON,
    }
)


@pytest.mark.slow
@given(st.lists(RECORDS, max_size=12))
def test_no_record_lands_in_a_case_that_is_not_running(records: list[dict[str, Any]]) -> None:
    reader = Reader(NONCE, 3)
    reader.feed(json.dumps(hello()).encode() + b"\n")
    running: int | None = None
    for one in records:
        for event in reader.feed(json.dumps(one).encode() + b"\n"):
            if isinstance(event, Begin):
                running = event.case
            elif isinstance(event, protocol.Ready | protocol.Mark | protocol.Turn):
                assert event.case == running
            elif isinstance(event, Sample | protocol.Done | CaseError | Skip):
                assert event.case == running
                running = None
    transcript = reader.finish()
    indices = [result.case for result in transcript.results]
    assert indices == sorted(set(indices))
    json.dumps(transcript.anomaly_texts).encode()


@pytest.mark.slow
@given(st.data())
def test_damage_changes_no_other_record(data: st.DataObject) -> None:
    text = b"".join(b"\n" + line + b"\n" for line in GOOD)
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.binary(min_size=1, max_size=3)) + text[at + 1 :]
    reader = Reader(NONCE, 3)
    reader.feed(damaged)
    whole = parse(GOOD, NONCE, 3)
    for result in reader.finish().results:
        expected = whole.result(result.case)
        # A digit or letter may change within one record; a record stays in its case and kind.
        assert type(result) is type(expected)
