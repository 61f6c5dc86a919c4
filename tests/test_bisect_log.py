# SPDX-License-Identifier: MIT
"""What a search leaves for git, the mailing list and who resumes it; patches over odd trees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Kdyno, effect, verdict
from fake_tree import commit, git
from test_bisect import a_state, difference, session_of, state_of, titles, without_noise

from kdyno.bisect import points, session
from kdyno.bisect.points import Point, Range
from kdyno.bisect.search import Measured, Same, Search, Span, Unusable
from kdyno.bisect.session import Session, State, Step, Verification, git_log
from kdyno.cli import bisect
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Experiment
from kdyno.kernels.build import BuildProgress
from kdyno.measure.execution import Options
from kdyno.store.run import Run
from kdyno.store.verdict import Effect, Verdict


def scripted(folder: Path, *steps: str) -> Path:
    """A repository: each step is a commit's title, or words of git after a ``$``."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    for step in steps:
        if step.startswith("$"):
            git(folder, *step[1:].split())
        else:
            (folder / f"{step.replace(' ', '-')}.c").write_text(step)
            commit(folder, step)
    return folder


def numbered(place: Path) -> tuple[Point, ...]:
    """The commits of a repository."""
    names = git(place, "log", "--reverse", "--format=%H").split()
    return tuple(Point(str(at), str(at), {}, name) for at, name in enumerate(names))


THREE = tuple(Point(name, name, {}) for name in ("low", "middle", "high"))


def measured(first: float, second: float) -> Measured:
    return Measured(difference(first), difference(second), difference(first + second))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "marks"),
    [
        # Back from a half that proved empty: 4 was taken for bad, and is good.
        (
            [(4, measured(-0.01, 0)), (2, measured(0, 0)), (6, measured(-0.01, 0))],
            ("bad 8", "bad 6", "good 0", "good 2", "good 4"),
        ),
        # Two steps; the larger one is what is left.
        (
            [
                *((4, measured(-0.02, -0.01)), (2, measured(-0.02, 0)), (1, measured(-0.02, 0))),
                *((6, measured(0, -0.01)), (7, measured(0, -0.01))),
            ],
            ("bad 8", "bad 7", "bad 6", "bad 4", "bad 2", "bad 1", "good 0"),
        ),
        ([(4, Same(as_low=False)), (2, Unusable("x"))], ("bad 8", "bad 4", "good 0", "skip 2")),
    ],
)  # fmt: skip
@pytest.mark.needs("git")
def test_git_replays_what_the_search_has_come_to(
    tmp_path: Path, steps: list[tuple[int, Any]], marks: tuple[str, ...]
) -> None:
    place = scripted(tmp_path / "linux", *"012345678")
    line = numbered(place)
    state = replace(a_state(), range=Range(line, "commit"), verified=(), finished=False)
    state = replace(state, steps=tuple(Step(*each) for each in steps))
    numbers = {point.commit: point.title for point in line}
    marked = [text.split()[2:] for text in git_log(state).splitlines()[1:]]
    assert [f"{word} {numbers[commit]}" for word, commit in marked] == [*marks]
    (tmp_path / "bisect.log").write_text(git_log(state))
    git(place, "bisect", "replay", str(tmp_path / "bisect.log"))


def test_the_letter_has_a_command_line_that_a_shell_takes() -> None:
    """With a machine without a kind, as a file may have it."""
    state = a_state()
    commits = tuple(replace(each, parents=("p",)) for each in state.range.points)
    line = 'CONFIG_DEFAULT_HOSTNAME="a $b"'
    base = {"kernel": {"config": ["bench", line]}, "machine": {"cpus": 2}}
    steps = (*state.steps[:1], Step(3, measured(0, -0.01)))
    check = replace(state.verified[0], low=3)
    state = replace(state, range=Range(commits, "commit"), steps=steps, verified=(check,))
    state = replace(state, question=replace(state.question, base=base))
    letter = session.letter(state, "x86_64")
    assert f"--config bench --config '{line}' --cpus 2 --metric time\n" in letter


@pytest.mark.parametrize("option", [("--min-effect", "1%"), ("--bad", "main"), ("--cpus", "2")])
def test_a_search_that_is_resumed_is_the_one_that_was_begun(
    tmp_path: Path, kdyno: Kdyno, option: tuple[str, str]
) -> None:
    """What it cannot take in is not passed over in silence."""
    session_of(tmp_path / "begun", a_state()).save()
    done = kdyno("bisect", "--resume", "begun", *option, "--runs", tmp_path)
    assert done.status == 2 and "as it was begun" in done.err


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
def test_a_search_inside_a_merge_is_resumed_with_the_one_around_it(
    tmp_path: Path, kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = ("base", "$checkout -q -b side", "one", "two", "$checkout -q main", "other")
    place = scripted(tmp_path / "linux", *steps, "$merge -q -m merge side")
    judged = verdict(
        *(effect("pipe", "inconclusive", 1.0, variant=own.name, ci=(0.9, 1.1)) for own in THREE)
    )

    def run(own: Session) -> State:
        if own.folder.name.startswith("inside-"):
            own._outcome(Run(own.folder / "a-run"), judged, THREE, 0.001)
        last = replace(own.state.range, points=own.state.range.points[-2:])
        return without_noise(replace(own.state, range=last), [0.0, -0.01])

    monkeypatch.setattr(session, "within", lambda *_: judged)
    monkeypatch.setattr(Session, "run", run)
    words = ["--source", f"git:{place}", "--good", "main~2", "--bad", "main", "--runs", tmp_path]
    done = kdyno("bisect", *words, "--case", "unixbench/pipe")
    (folder,) = (file.parent for file in tmp_path.glob("*/bisect.json"))
    assert f"`kdyno bisect --resume {folder.name} --runs {tmp_path}` tries again" in done.err
    assert "does not decide: ±" in done.err and "inside-" not in done.err.partition("does not")[2]
    # The merge is an answer, and verified.
    assert done.status == 0 and "  merge" in (folder / session.ANSWER).read_text()


def verifying(
    place: Path, range_: tuple[Point, ...], folder: Path, judged: Verdict, seen: list[Experiment]
) -> Session:
    """A search whose one step, the last point against the first, is to be verified."""

    def execute(experiment: Experiment, *_: object) -> tuple[Run, Verdict]:
        seen.append(experiment)
        return Run(folder / "a-run"), judged

    state = state_of(Range(range_, "commit"), repository=str(place), min_effect=0.0025)
    return session_of(folder / "search", state, execute)


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
def test_a_merge_of_the_good_end_is_verified_against_that(tmp_path: Path) -> None:
    """Its first parent has the branch's own commits, and nothing of what the range begins with."""
    steps = ("base", "$checkout -q -b topic", "topic 1", "$checkout -q main", "release")
    more = ("$checkout -q topic", "$merge -q -m into main", "topic 2")
    place = scripted(tmp_path / "linux", *steps, *more)
    line, seen = points.commits(place, "main", "topic"), list[Experiment]()
    assert titles(line) == ["release", "into", "topic 2"]
    judged = verdict(effect("pipe", "slower", 0.99, variant=line[1].name))
    search = verifying(place, line[:2], tmp_path, judged, seen)
    (check,) = search.run().verified
    why = f"it merges {line[0].short} into a branch that did not have it"
    assert check.holds and check.why_not == why
    assert [own.name for own in seen[0].variants] == [line[0].name, line[1].name]


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
@pytest.mark.parametrize(("ci", "width"), [((0.97, 1.01), "±2"), (None, "no interval after 15 m")])
def test_a_verification_that_decides_nothing_rejects_nothing(
    tmp_path: Path, ci: tuple[float, float] | None, width: str
) -> None:
    place = scripted(tmp_path / "linux", "base", "slow")
    line = points.commits(place, "main~1", "main")
    judged = verdict(effect("pipe", "inconclusive", 0.99, variant=line[1].name, ci=ci))
    search = verifying(place, line, tmp_path, judged, [])
    with pytest.raises(UsageError, match=f"a-run does not decide: {width}"):
        search.run()
    assert search.state.verified == () and [own.high for own in search.state.search().steps] == [1]
    # Nor do the ends: that they do not differ is said of narrow ones alone.
    search.state = replace(search.state, ends=None)
    with pytest.raises(UsageError, match=f"a-run does not decide: {width}"):
        search.run()
    assert search.state.ends is None


@pytest.mark.parametrize(
    ("failed", "why"),
    [(("middle",), "3 boots of middle"), (("middle", "high"), ""), (("low",), "")],
)
def test_only_what_the_middle_kernel_lacks_is_its_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: tuple[str, ...], why: str
) -> None:
    def own(name: str) -> Effect:
        lacking = next((each for each in ("low", name) if each in failed), "")
        if not lacking:
            return effect("pipe", "slower", 0.99, variant=name)
        none = {"verdict": "failed", "ratio": None, "ci": None, "reason": f"3 boots of {lacking}"}
        return effect("pipe", "failed", 1.0, variant=name).model_copy(update=none)

    judged = verdict(
        *map(own, ("middle", "high")), failed={name: f"3 boots of {name}" for name in failed}
    )
    monkeypatch.setattr(session, "within", lambda *_: judged)
    search = verifying(tmp_path, THREE, tmp_path, judged, [])
    if why:
        outcome = search._outcome(Run(tmp_path / "a-run"), judged, THREE, 0.001)
        assert outcome == Unusable(why)
    else:
        with pytest.raises(ToolError, match="kernels that had figures before have none"):
            search._outcome(Run(tmp_path / "a-run"), judged, THREE, 0.001)


def test_a_step_that_is_a_third_of_the_difference_is_not_the_cause() -> None:
    """Counted, so without noise: the others are smaller than what is looked for."""
    search = Search(Span(0, 64, difference(0.04)), 0.01)
    halves = {32: (0.031, 0.009), 16: (0.022, 0.009), 8: (0.013, 0.009)}
    halves |= {4: (0.0, 0.013), 6: (0.013, 0.0), 5: (0.013, 0.0)}
    for at, own in halves.items():
        search.record(at, measured(*own))
    (step,) = search.steps
    assert (step.low, step.high) == (4, 5) and not search.certain
    state = a_state()
    state = replace(
        state,
        ends=difference(-0.04),
        question=replace(state.question, min_effect=0.01),
        steps=(Step(2, measured(-0.013, -0.009)), Step(1, measured(-0.013, 0.0))),
        verified=(Verification(0, 1, "v", difference(-0.013), True),),
    )
    assert "the rest comes in steps of less than" in session.answer(state)


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
def test_over_another_good_commit_it_is_another_patch(tmp_path: Path) -> None:
    """As a branch under watch has it after its reference has moved on."""
    place = scripted(tmp_path / "linux", "one", "two", "three")
    first, second, last = points.commits(place, "main~2", "main")
    keys = [points.with_keys(place, last, good.commit, tmp_path).keys for good in (first, second)]
    texts = [Path(each["patches"][0]).read_text() for each in keys]
    assert ["two.c" in text for text in texts] == [True, False]


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
def test_a_patch_is_the_same_whatever_a_repository_is_set_to(tmp_path: Path) -> None:
    place = scripted(tmp_path / "linux", "one", "two", "$config diff.noprefix true")
    first, last = points.commits(place, "main~1", "main")
    (patch,) = points.with_keys(place, last, first.commit, tmp_path).keys["patches"]
    assert "+++ b/two.c" in Path(patch).read_text()
    assert "--- a/two.c" in points.reverted(place, last, tmp_path).read_text()


def lay(folder: Path, *names: str) -> None:
    """Empty where the name ends in .h."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("" if name.endswith(".h") else "one\n")


ODD = [
    ((), ("a b.h",)),
    ((), ("a b.c",)),
    (("q\t.c",), ()),
    (("x",), ("x/y.c",)),
    (("x/y.c",), ("x",)),
]
"""Files that go away, and that are new."""


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
@pytest.mark.parametrize(("old", "new"), ODD)
def test_a_commit_of_which_no_patch_can_be_laid_is_a_tree_of_its_own(
    tmp_path: Path, old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    place = scripted(tmp_path / "linux", "one")
    lay(place, *old)
    scripted(place, "good")
    for name in old:
        (place / name).unlink()
    for file in filter(Path.is_dir, place.glob("x")):
        file.rmdir()
    lay(place, *new)
    scripted(place, "bad")
    good, bad = points.commits(place, "main~1", "main")
    keys = points.with_keys(place, bad, good.commit, tmp_path).keys
    assert keys == {"source": f"git:{place}#{bad.commit}"}


@pytest.mark.parametrize(("old", "new"), [*ODD, (("e.h",), ())])
def test_a_file_of_a_release_for_which_no_patch_can_be_laid_is_none_that_is_searched(
    tmp_path: Path, old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    lay(tmp_path / "good", "z.c", *old)
    lay(tmp_path / "bad", "z.c", *new)
    (tmp_path / "bad" / "z.c").write_text("two\n")
    files = [Point("0", "good", {}), *(Point(name, name, {}) for name in ("z.c", *old, *new))]
    own = points.patched(files, tmp_path / "good", tmp_path / "bad", tmp_path / "patches")
    assert titles(own[1:]) == ["z.c", "files that no patch is laid for"]
    assert own[-1].files == (*old, *new)


def test_what_is_behind_a_link_to_a_folder_is_not_changed_through_it(tmp_path: Path) -> None:
    lay(tmp_path / "good", "real/y.c")
    (tmp_path / "good" / "link").symlink_to("real")
    lay(tmp_path / "bad", "link/y.c")
    (tmp_path / "bad" / "link" / "y.c").write_text("two\n")
    assert points.file_patch(tmp_path / "good", tmp_path / "bad", "link/y.c") == b""


def test_what_only_the_good_one_sets_is_at_its_default_in_the_bad_one(tmp_path: Path) -> None:
    """As `make savedefconfig` writes them: off by hand, on by default. In the good one's order."""
    names = [f"CONFIG_{letter}" for letter in "DBCA"]
    (tmp_path / "a").write_text("".join(f"# {name} is not set\n" for name in names))
    (tmp_path / "b").write_text("CONFIG_NEW=y\n")
    range_ = points.options(tmp_path / "a", tmp_path / "b")
    assert titles(range_.points[2:]) == [f"without # {name} is not set" for name in names]
    assert range_.keys(range_.points[-1])["config"] == ["CONFIG_NEW=y"]
    assert points.drawn_along(range_.points[2], "# CONFIG_D is not set", "CONFIG_D=y") == ()


@pytest.mark.parametrize("words", ["-R", "-p0", "-p1 -R"])
def test_a_series_is_not_applied_otherwise_than_it_asks_for(tmp_path: Path, words: str) -> None:
    """By quilt's rules a patch may be taken backwards, and a line may end in a remark."""
    for name in ("a.patch", "b#2.patch"):
        (tmp_path / name).touch()
    (tmp_path / "series").write_text("  # first\na.patch -p1 # good\n\nb#2.patch # -R\n")
    assert titles(points.series(tmp_path)[1:]) == ["a.patch", "b#2.patch"]
    (tmp_path / "series").write_text(f"b#2.patch\na.patch {words}\n")
    with pytest.raises(UsageError, match=rf"a\.patch {words}: patches are applied forwards"):
        points.series(tmp_path)


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
def test_ends_without_a_common_commit_are_refused(tmp_path: Path) -> None:
    """As two tags that were fetched with --depth=1 are."""
    place = scripted(tmp_path / "linux", "one", "$checkout -q --orphan other", "two")
    with pytest.raises(UsageError, match=r"no ancestor of --bad main.*no commit in common"):
        points.commits(place, "other", "main")


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
def test_a_name_and_a_subject_may_have_any_character(tmp_path: Path) -> None:
    place = scripted(tmp_path / "linux", "one", "two\x1eand\x1fmore", "three")
    one, two, three = points.commits(place, "main~2", "main")
    assert titles((one, two, three)) == ["one", "two\x1eand\x1fmore", "three"]
    assert three.files == ("three.c",) and three.parents == (two.commit,)


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
def test_a_search_goes_on_from_what_another_process_has_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one had the lock when this one had read the state already."""
    place = scripted(tmp_path / "linux", *"01234")
    question = replace(a_state().question, repository=str(place))
    state = State(question, Range(numbered(place), "commit"))
    folder, later = tmp_path / "search", Step(2, measured(0, -0.01), "by the other")

    @contextmanager
    def locked(file: Path, _waiting: object) -> Iterator[None]:
        session_of(folder, replace(state, ends=difference(-0.01), steps=(later,))).save()
        yield

    monkeypatch.setattr(bisect.whole, "locked", locked)
    monkeypatch.setattr(Session, "check", lambda _own: None)
    monkeypatch.setattr(Session, "run", lambda own: own.state)
    (result,) = bisect.searched(folder, state, Options(tmp_path, tmp_path), None)  # type: ignore[arg-type]
    assert result.steps == (later,) and session.load(folder) == result


def test_how_far_the_builds_of_a_step_are_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(own: Session) -> State:
        own.options.listener.building(BuildProgress("07", "compile", 20, 80, 6.0, "fs/pipe.o"))
        own.tell("07 is left out")
        return own.state

    monkeypatch.setattr(Session, "check", lambda _own: None)
    monkeypatch.setattr(Session, "run", run)
    options = Options(tmp_path, tmp_path)
    list(bisect.searched(tmp_path / "search", a_state(), options, lambda *_: None))  # type: ignore[arg-type, return-value]
    building, word = capsys.readouterr().err.splitlines()
    assert building == "07: building, 20 of about 80 objects, about 18 s left  fs/pipe.o"
    assert word == "07 is left out"
