# SPDX-License-Identifier: MIT
"""What a variant's patches, flags and routine make of a source tree, without touching it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from fake_tree import commit, git
from hypothesis import HealthCheck, given, settings, strategies as st
from toy_kernel import FILES, Toy, diff, make_source, write_files

from kdyno.errors import UsageError
from kdyno.kernels.changes import Changes, of_variant, touched_paths
from kdyno.kernels.routines.routine import PLACE

SORT = FILES["lib/sort.c"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return Toy(tmp_path_factory.mktemp("patches"))


def written(folder: Path, text: str, name: str = "mine.patch") -> Path:
    patch = folder / name
    patch.write_bytes(text.encode())
    return patch


def changes(toy: Toy, *patches: Path) -> Mapping[str, bytes | None]:
    return of_variant(toy.tree.path, patches, {}, ()).files


def one_line(path: str, old: str, new: str, line: int = 1) -> str:
    return f"--- a/{path}\n+++ b/{path}\n@@ -{line} +{line} @@\n-{old}\n+{new}\n"


def test_two_patches_of_one_file_apply_in_order(toy: Toy, tmp_path: Path) -> None:
    first = toy.edit("first", "lib/sort.c", "steps = 1", "steps = 2")
    middle = make_source(tmp_path / "middle", {"lib/sort.c": SORT.replace("1", "2", 1)})
    second = diff(tmp_path, middle, {"lib/sort.c": SORT.replace("1", "3", 1)}, "second")
    assert changes(toy, first, second) == {"lib/sort.c": SORT.replace("1", "3").encode()}
    with pytest.raises(UsageError, match=r"second\.patch does not apply: lib/sort\.c: hunk #1"):
        changes(toy, second, first)


def test_a_hunk_that_moved_applies_and_one_that_is_only_similar_does_not(
    toy: Toy, tmp_path: Path
) -> None:
    longer = make_source(tmp_path / "longer", {"lib/sort.c": "/* one */\n/* two */\n" + SORT})
    moved = diff(tmp_path, longer, {"lib/sort.c": "/* one */\n/* two */\n" + SORT + "\n"}, "moved")
    assert changes(toy, moved) == {"lib/sort.c": (SORT + "\n").encode()}
    other = make_source(tmp_path / "other", {"lib/sort.c": SORT.replace("int toy", "long toy")})
    edited = SORT.replace("int toy", "long toy").replace("steps = 1", "steps = 2")
    fuzzy = diff(tmp_path, other, {"lib/sort.c": edited}, "fuzzy")
    plain = ["patch", "-p1", "--dry-run", "-d", str(toy.source), "-i", str(fuzzy)]
    assert "fuzz" in subprocess.run(plain, capture_output=True, text=True, check=True).stdout
    with pytest.raises(UsageError, match=r"fuzzy\.patch does not apply: .*hunk #1 at line 1"):
        changes(toy, fuzzy)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (one_line("lib/gone.c", "a", "b"), r"lib/gone\.c: no such file in this source"),
        (
            "--- /dev/null\n+++ b/lib/sort.c\n@@ -0,0 +1 @@\n+int x;\n",
            r"lib/sort\.c: is to be created, but exists already",
        ),
        (
            one_line("lib/sort.c", "int toy_sort(void)", "long toy_sort(void)")
            + "@@ -5 +5 @@\n-\treturn stairs;\n+\treturn 7;\n",
            r"patch .*/mine\.patch does not apply: lib/sort\.c: hunk #2 at line 5 does not match",
        ),
        *(
            (text, "no file names found; a patch is a unified diff")
            for text in ("", "hello\n", "--- Makefile\n+++ Makefile\n@@ -1 +1 @@\n-a\n+b\n")
        ),
    ],
)
def test_a_patch_that_does_not_apply_is_explained(
    toy: Toy, tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        changes(toy, written(tmp_path, text))


def test_a_patch_that_was_applied_before(toy: Toy) -> None:
    edit = toy.edit("twice", "lib/sort.c", "steps = 1", "steps = 2")
    with pytest.raises(UsageError, match=r"lib/sort\.c: seems to be applied already"):
        changes(toy, edit, edit)


@pytest.mark.parametrize(
    "path",
    ["a/../../outside", "a/lib/../../outside", "/etc/passwd", "a//etc/passwd"],
)
@pytest.mark.parametrize("side", ["---", "+++"])
def test_a_path_that_leads_out_is_refused(toy: Toy, tmp_path: Path, path: str, side: str) -> None:
    other = {"---": "+++ /dev/null", "+++": "--- /dev/null"}[side]
    lines = sorted([f"{side} {path}", other], reverse=True)
    patch = written(tmp_path, "\n".join(lines) + "\n@@ -0,0 +1 @@\n+owned\n")
    with pytest.raises(UsageError, match="leads out of the kernel tree"):
        changes(toy, patch)
    rename = "similarity index 100%\nrename from lib/sort.c\nrename to ../outside\n"
    with pytest.raises(UsageError, match="leads out of the kernel tree"):
        changes(toy, written(tmp_path, f"diff --git a/lib/sort.c b/x\n{rename}"))
    assert not (tmp_path.parent / "outside").exists()


def test_a_rename_in_gits_form(toy: Toy, tmp_path: Path) -> None:
    pure = (
        "diff --git a/lib/sort.c b/kernel/order.c\nsimilarity index 100%\n"
        "rename from lib/sort.c\nrename to kernel/order.c\n"
    )
    moved: dict[str, bytes | None] = {"lib/sort.c": None, "kernel/order.c": SORT.encode()}
    assert changes(toy, written(tmp_path, pure)) == moved
    edited = pure.replace("100%", "90%") + (
        "--- a/lib/sort.c\n+++ b/kernel/order.c\n@@ -5 +5 @@\n-\treturn steps;\n+\treturn 5;\n"
    )
    changed = SORT.replace("return steps", "return 5").encode()
    assert changes(toy, written(tmp_path, edited)) == {**moved, "kernel/order.c": changed}


@pytest.mark.slow
def test_what_git_itself_writes(toy: Toy, tmp_path: Path) -> None:
    work = make_source(tmp_path / "work")
    git(work, "init", "-q")
    commit(work, "toy")
    (work / "lib/sort.c").rename(work / "lib/order.c")
    (work / "lib/Makefile").write_text(FILES["lib/Makefile"].replace("sort.o", "order.o"))
    (work / "lib/unused.c").unlink()
    (work / "lib/tool.sh").write_text("exit 0\n")
    (work / "lib/tool.sh").chmod(0o755)
    commit(work, "Move\n\ncopy from user space\ncopy to /dev/null and\n-- elsewhere")
    git(work, "format-patch", "-1", "-o", str(tmp_path), "--signature=2.39")
    result = of_variant(toy.tree.path, [tmp_path / "0001-Move.patch"], {}, ())
    assert result.executable == {"lib/tool.sh"}
    assert result.files == {
        "lib/sort.c": None,
        "lib/order.c": SORT.encode(),
        "lib/Makefile": FILES["lib/Makefile"].replace("sort.o", "order.o").encode(),
        "lib/unused.c": None,
        "lib/tool.sh": b"exit 0\n",
    }


def test_lines_of_a_hunk_are_no_file_names() -> None:
    body = "--- a/lib/x.lua\n+++ b/lib/x.lua\n@@ -1,2 +1,2 @@\n--- ../../etc/passwd\n same\n"
    body += "+++ /etc/passwd\n--- a/lib/y.c\n+++ b/lib/y.c\n@@ -1 +1 @@\n-a\n+b\n"
    assert touched_paths(body, "p") == ["lib/x.lua", "lib/y.c"]


def test_a_link_is_refused_before_the_next_patch_could_follow_it(toy: Toy, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    link = written(
        tmp_path,
        "diff --git a/lib b/lib\nnew file mode 120000\n--- /dev/null\n+++ b/lib\n"
        f"@@ -0,0 +1 @@\n+{victim}\n\\ No newline at end of file\n",
        "link.patch",
    )
    edit = toy.edit("through", "lib/sort.c", "steps = 1", "steps = 2")
    with pytest.raises(UsageError, match=r"link\.patch.*lib"):
        changes(toy, link, edit)
    assert list(victim.iterdir()) == []


def test_a_patch_with_dos_line_ends_still_applies(toy: Toy, tmp_path: Path) -> None:
    text = one_line("kernel/Makefile", "obj-y += time.o", "obj-y += time.o clock.o")
    result = changes(toy, written(tmp_path, text.replace("\n", "\r\n")))
    assert result == {"kernel/Makefile": b"obj-y += time.o clock.o\n"}


def test_a_routine_takes_its_place_and_excludes_a_patch_of_the_same_file(toy: Toy) -> None:
    tree = toy.tree.path
    assert of_variant(tree, [], {PLACE: "new\n"}, ()).files == {PLACE: b"new\n"}
    edit = toy.edit("memcpy", PLACE, "rep movsb", "rep movsq")
    with pytest.raises(UsageError, match=r"memcpy_64\.S, which a memory routine replaces; use one"):
        of_variant(tree, [edit], {PLACE: "new\n"}, ())
    with pytest.raises(UsageError, match=r"no arch/mips/memcpy\.S, the place of a memory routine"):
        of_variant(tree, [], {"arch/mips/memcpy.S": "x"}, ())


def test_flags_of_a_file_go_to_the_makefile_of_its_folder(toy: Toy) -> None:
    flags = (("lib/sort.c", "-O3 -g"), ("lib/string.c", "-O0"))
    files = of_variant(toy.tree.path, [], {}, flags).files
    before = FILES["lib/Makefile"]
    after = f"{before}\nCFLAGS_sort.o += -O3 -g\n\nCFLAGS_string.o += -O0\n"
    assert files == {"lib/Makefile": after.encode()}
    # So do those of a file that a patch adds.
    patch = toy.patch("fresh", {"fresh/one.c": "int one;\n", "fresh/Makefile": "obj-y += one.o\n"})
    files = of_variant(toy.tree.path, [patch], {}, (("fresh/one.c", "-O3"),)).files
    assert files["fresh/Makefile"] == b"obj-y += one.o\n\nCFLAGS_one.o += -O3\n"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("lib/sotr.c", "no such .c file in this source; nearest: lib/sort.c"),
        ("lib/sort.c", "no such .c file"),  # which a patch deletes
        ("include/toy.h", "no such .c file"),
        ("nowhere/at/all.c", "no such .c file"),
        ("../lib/sort.c", "leads out of the kernel tree"),
    ],
)
def test_flags_of_a_file_that_is_not_there(toy: Toy, path: str, message: str) -> None:
    gone = [toy.patch("gone", {"lib/sort.c": None})] if path == "lib/sort.c" else []
    with pytest.raises(UsageError, match=message):
        of_variant(toy.tree.path, gone, {}, ((path, "-O3"),))


_LINE = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=12)
_TEXT = st.lists(_LINE, min_size=1, max_size=12).map(lambda lines: "\n".join(lines) + "\n")


@pytest.mark.slow
@pytest.mark.needs("diff")
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(before=_TEXT, after=_TEXT)
def test_any_difference_that_diff_writes_comes_out_again(
    tmp_path: Path, before: str, after: str
) -> None:
    work = tmp_path / "any"
    shutil.rmtree(work, ignore_errors=True)
    write_files(work, {"a/lib/x.c": before, "b/lib/x.c": after})
    argv = ["diff", "--text", "-u", "a/lib/x.c", "b/lib/x.c"]
    output = subprocess.run(argv, cwd=work, capture_output=True)
    if output.returncode == 0:
        return
    (work / "x.patch").write_bytes(output.stdout)
    expected = Changes({"lib/x.c": after.encode()})
    assert of_variant(work / "a", [work / "x.patch"], {}, ()) == expected
