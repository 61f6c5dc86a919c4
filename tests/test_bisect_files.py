# SPDX-License-Identifier: MIT
"""The files in which two releases differ as points of a search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fake_tree import make_tree
from test_bisect import session_of, titles

from kdyno.bisect import points, session
from kdyno.bisect.points import Point, Range
from kdyno.cli import bisect
from kdyno.cli.bisect import Request
from kdyno.kernels.changes import of_variant
from kdyno.kernels.source import Tree, fetch, parse
from kdyno.measure.builder import Recipes


def releases(folder: Path) -> tuple[Tree, Tree]:
    """Of a toy: a file changes, others appear, go away, may be run, are no text or a link."""
    trees = []
    for name in ("7.3.4", "7.3.5"):
        tree = make_tree(folder / name, name)
        (tree / "logo.bin").write_bytes(b"\0" + name.encode())
        if name == "7.3.4":
            (tree / "gone.c").write_text("int gone;\n")
        else:
            (tree / "lib" / "sort.c").write_text("int sort(void)\n{\n\treturn 2;\n}")
            (tree / "lib" / "empty.h").write_text("#define NEW 1\n")
            (tree / "lib" / "new.sh").write_text("exit 1\n")
            (tree / "lib" / "new.sh").chmod(0o755)
            (tree / "init" / "main.c").chmod(0o755)
            (tree / "lib" / "link.h").unlink()
            (tree / "lib" / "link.h").symlink_to("../Kbuild")
        trees.append(fetch(parse(f"path:{tree}"), folder / "cache", lambda _text, _part: None))
    return trees[0], trees[1]


CHANGED = ["Makefile", "lib/empty.h", "lib/link.h", "gone.c", "init/main.c", "lib/new.sh"]
CHANGED += ["lib/sort.c", "logo.bin"]
LAID = [name for name in CHANGED if name not in ("lib/link.h", "logo.bin")]
"""Those for which there are patches."""
OTHERS = "files that no patch is laid for"


@pytest.mark.slow
def test_what_a_release_changes_is_one_point_for_each_file(tmp_path: Path) -> None:
    good, bad = releases(tmp_path)
    first = Point("good", "kernel.org:7.3.4", {"source": "kernel.org:7.3.4"})
    of_files = points.files(first, good, bad)
    assert titles(of_files) == [first.title, *CHANGED]
    assert [file.name for file in of_files] == ["good", *"12345678"]
    of_files = points.patched(of_files, good.path, bad.path, tmp_path / "patches")
    assert titles(of_files) == [first.title, *LAID, OTHERS]
    assert of_files[-1].files == ("lib/link.h", "logo.bin")
    last = Range(of_files, "file").keys(of_files[-2])
    assert last["source"] == "kernel.org:7.3.4" and len(last["patches"]) == len(LAID)
    together = tmp_path / "together.patch"
    together.write_bytes(b"".join(Path(each).read_bytes() for each in last["patches"]))
    changes = of_variant(good.path, [together], {}, ())
    assert changes == of_variant(good.path, map(Path, last["patches"]), {}, ())
    assert changes.files.keys() == set(LAID) and changes.files["gone.c"] is None
    for name in set(LAID) - {"gone.c"}:
        file = bad.path / name
        assert changes.files[name] == file.read_bytes()
        assert (name in changes.executable) == bool(file.stat().st_mode & 0o100), name
    # What nothing compiles is left out, and is in what stands for it.
    active = points.active(of_files, frozenset({"lib/sort.c", "gone.c"}))
    assert titles(active[1:]) == ["Makefile", "gone.c", "lib/sort.c"]
    back = tmp_path / "back.patch"
    back.write_bytes(points.file_patch(bad.path, good.path, "lib/sort.c"))
    (text,) = of_variant(bad.path, [back], {}, ()).files.values()
    assert text == (good.path / "lib/sort.c").read_bytes()


@pytest.mark.slow
def test_files_of_a_release_that_do_not_compile_one_by_one_are_one_point(tmp_path: Path) -> None:
    """A header with those that use what it brings, takes away or declares otherwise; nobody by a
    word of a comment."""
    texts = {
        "lib/list.h": ("int length(int);", "int length_of(int); int other(int);"),
        "lib/list.c": ("int length(int x) { return x; }", "int length_of(int x) { return x; }"),
        "net/use.c": ("/* renamed */ int y = length(1);", "int y = length_of(1);"),
        "net/alone.c": ("int z = 1234; /* length */", "int z = 5678; /* length_of renamed */"),
        "net/local.c": ("static int near_one;", "static int near_two;"),
        "net/area.h": ("int area(int);", "int area(int, int);\ntypedef void (*other_fn)(int);"),
        "net/sum.c": ("int s(void) { return area(1); }", "int s(void) { return area(1, 2); }"),
        "net/type.h": ("extern struct kind *kind_one;", "extern const struct kind kind_one;"),
        "net/kind.c": ("int k = of(kind_one);", "int k = of(&kind_one);"),
        "net/void.c": ("void v1(int);", "void v2(int);"),
    }
    for name, versions in texts.items():
        for end, text in zip(("good", "bad"), versions, strict=True):
            file = tmp_path / end / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
    files = (Point(f"{at}", name, {}, files=(name,)) for at, name in enumerate(texts, 1))
    own = points.patched(
        [Point("good", "good", {}), *files], *(tmp_path / end for end in ("good", "bad", "patches"))
    )
    assert [(point.title, point.files) for point in own[1:]] == [
        ("lib/list.h and 2 more", ("lib/list.h", "lib/list.c", "net/use.c")),
        ("net/alone.c", ("net/alone.c",)),
        ("net/local.c", ("net/local.c",)),
        ("net/area.h and 1 more", ("net/area.h", "net/sum.c")),
        ("net/type.h and 1 more", ("net/type.h", "net/kind.c")),
        ("net/void.c", ("net/void.c",)),
    ]
    changes = of_variant(tmp_path / "good", [Path(own[1].adds)], {}, ())
    assert changes.files == {name: (tmp_path / "bad" / name).read_bytes() for name in own[1].files}


@pytest.mark.slow
def test_the_files_of_a_release_are_searched_between_the_two_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases(tmp_path)
    request = Request(
        good=f"path:{tmp_path / '7.3.4'}", bad=f"path:{tmp_path / '7.3.5'}", case="unixbench/pipe"
    )
    state = bisect._begun(request)
    assert state.range.what == "file"
    heard: list[str] = []
    own = session_of(tmp_path / "search", state, tell=heard.append)
    own.check()
    monkeypatch.setattr(session, "check", lambda *_, **__: Recipes({"x": None}, {}))  # type: ignore[dict-item]
    for compiled, names in (
        (frozenset({"lib/sort.c"}), ["Makefile", "lib/sort.c"]),
        (None, [*LAID, OTHERS]),
    ):
        monkeypatch.setattr(session, "compiled_sources", lambda *_, value=compiled: value)
        own.state = state
        own._leave_out(*state.range.points)
        first, *others = own.state.range.points
        assert first.keys == {"source": f"path:{tmp_path / '7.3.4'}"}
        assert titles(others) == names
        assert others[-1].keys == {"source": f"path:{tmp_path / '7.3.5'}"}, "built already"
        assert own._with_keys(others[-1]) == others[-1]
        keys = own._with_keys(others[0]).keys
        assert keys["source"] == first.keys["source"] and len(keys["patches"]) == 1
    assert heard[1] == "6 of 8 files change nothing that this configuration compiles"
    point = own.state.range.points[-2]
    several = replace(point, title="gone.c and 1 more", files=("gone.c", *point.files))
    assert own._reverted(several).read_text().count("diff --git ") == 1 + len(point.files)
    assert "-\treturn 2;" in own._reverted(point).read_text()
