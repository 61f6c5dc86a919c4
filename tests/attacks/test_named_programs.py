# SPDX-License-Identifier: MIT
"""Programs, plugins and routines that an experiment names or brings: none runs on the host.

Each tries to leave a mark beside itself, where the sandbox lets nothing be written.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from toy_kernel import Toy, variant

from kdyno.errors import KdynoError, UsageError
from kdyno.kernels import compiler as compilers
from kdyno.kernels.changes import of_variant
from kdyno.kernels.compiler import identify
from kdyno.kernels.routines.checking import (
    assembled,
    check,
    rack,
    routine_contender,
    standing,
    timing_program,
)
from kdyno.kernels.routines.routine import find_routine, flatten, kernel_sources
from kdyno.labs.memcpy.timing import Line, Task, time_all
from kdyno.labs.profile.symbols import symbols_of
from kdyno.labs.vectorize.loops import code_of
from kdyno.labs.vectorize.survey import check as check_flags

pytestmark = pytest.mark.needs("sandbox", "gcc")


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Path]:
    """What a stranger's program leaves where it ran outside; it must not be there at the end."""
    path = tmp_path / "mark"
    yield path
    assert not path.exists()


def program(folder: Path, mark: Path, name: str = "gcc", last: str = "echo gcc 12") -> Path:
    """A script that leaves the mark, then does ``last``."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n(echo ran > {mark}) 2>&-\n{last}\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize("named", ["by its path", "on the path"])
def test_a_compiler_of_the_experiment_is_asked_inside_and_told_nothing(
    tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    # `compiler = "poweroff"` would be as good a name.
    monkeypatch.setenv("KDYNO_TEST_TOKEN", "secret")
    path = program(tmp_path, mark, "toy-poweroff", "echo gcc 12 $KDYNO_TEST_TOKEN $HOME")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    compilers.identify.cache_clear()
    version = identify(str(path) if named == "by its path" else path.name).version
    assert version.partition(" (")[0] == "gcc 12 /tmp"


def test_flags_that_name_a_program_are_tried_inside(tmp_path: Path, mark: Path) -> None:
    program(tmp_path, mark, "cc1", "exit 1")
    toy = Toy(tmp_path / "x")
    # Outside gcc would take that program for its own; inside there is none.
    check_flags(variant(), {"o2": f"-O2 -B{tmp_path}/"}, toy.tree)


ROUTINE = """/* SPDX-License-Identifier: MIT
 * help: a stranger's
 * requires: sse2
 * source: nowhere
 * arch: um
 */
#include "routine.h"
ROUTINE_START(mine)
	movq %rdi, %rax
	movq %rdx, %rcx
	rep movsb
	RET
ROUTINE_END(mine)
"""
MARKING = """
	.section .rodata.mark, "a", @progbits
path:	.asciz "{mark}"
	.section .text.mark, "ax", @progbits
	.globl {name}
	.type {name}, {kind}
{name}:	movl $85, %eax
	leaq path(%rip), %rdi
	movl $0644, %esi
	syscall
	xorl %eax, %eax
	ret
"""
"""A function that makes the file (system call 85 is creat)."""


def routine(folder: Path, more: str) -> Path:
    path = folder / "mine.S"
    path.write_text(ROUTINE + more)
    return path


def marking(mark: Path, name: str = "memcpy_mark", kind: str = "@function") -> str:
    return MARKING.format(mark=mark, name=name, kind=kind)


INITIALISERS = {
    "init_array": '.section .init_array, "aw", @init_array\n.quad memcpy_mark\n',
    "init_array-as-data": '.section .init_array, "aw", @progbits\n.quad memcpy_mark\n',
    "fini_array": '.section .fini_array, "aw", @fini_array\n.quad memcpy_mark\n',
    "preinit_array": '.section .preinit_array, "aw", @preinit_array\n.quad memcpy_mark\n',
    "ctors": '.section .ctors, "aw", @progbits\n.quad memcpy_mark\n',
    "init": '.section .init, "ax", @progbits\ncall memcpy_mark\n',
    "fini": '.section .fini, "ax", @progbits\ncall memcpy_mark\n',
    "a-group": '.section .text.g, "axG", @progbits, g, comdat\nnop\n',
    "relocated": '.section .init_array.00001, "aw", @init_array\n.quad memcpy_mark\n',
}


@pytest.mark.parametrize("way", INITIALISERS)
def test_a_routine_with_an_initialiser_is_refused_and_not_run(
    tmp_path: Path, mark: Path, way: str
) -> None:
    path = routine(tmp_path, marking(mark) + INITIALISERS[way])
    with pytest.raises(UsageError, match=r"the section '\..* is refused"):
        check(find_routine(str(path)), tmp_path / "cache", mode="thin")
    with pytest.raises(UsageError, match=r"the section '\..* is refused"):
        routine_contender(find_routine(str(path)), tmp_path / "cache")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("memcpy_mark", "@gnu_indirect_function", "is an indirect function"),
        ("_init", "@function", "the global name '_init' is refused"),
        ("_fini", "@function", "the global name '_fini' is refused"),
        ("memcmp", "@function", "the global name 'memcmp' is refused"),
    ],
)
def test_a_routine_that_would_be_called_unasked_is_refused(
    tmp_path: Path, mark: Path, name: str, kind: str, message: str
) -> None:
    path = routine(tmp_path, marking(mark, name, kind))
    with pytest.raises(UsageError, match=message):
        check(find_routine(str(path)), tmp_path / "cache", mode="thin")


@pytest.mark.slow
def test_a_routine_is_checked_and_timed_inside(tmp_path: Path, mark: Path) -> None:
    # Nothing is wrong with its sections: it leaves its mark when it is called.
    saved = ("rdi", "rsi", "rdx", "r11")
    call = "\tcmpb $0, done(%rip)\n\tjne 1f\n\tmovb $1, done(%rip)\n"
    call += "".join(f"\tpushq %{each}\n" for each in saved) + "\tcall memcpy_mark\n"
    call += "".join(f"\tpopq %{each}\n" for each in reversed(saved)) + "1:\n"
    called = ROUTINE.replace("ROUTINE_START(mine)\n", f"ROUTINE_START(mine)\n{call}")
    called += "\t.data\ndone:\t.byte 0\n"
    path = tmp_path / "mine.S"
    path.write_text(called + marking(mark))
    cache = tmp_path / "cache"
    result = check(find_routine(str(path)), cache, mode="thin")
    assert result.passed
    mine = routine_contender(find_routine(str(path)), cache)
    placed = rack([mine, *standing(cache)], 1, tmp_path, cache)
    line = Line("1", "mine", "fixed 1 memcpy_mine 64 0 0 1 0 100")
    outcome = time_all(timing_program(cache), placed, 0, [Task(("region 4096",), (line,))])
    assert "1" in outcome.times or "mine" in outcome.failed


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(200)])
def test_an_object_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    text = "nop\n"
    result = assembled(text, "x.S", tmp_path)
    result.write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.S: gcc made no object of it"):
        assembled(text, "x.S", tmp_path)


@pytest.mark.parametrize("tool", ["nm", "objdump"])
def test_what_reads_a_strangers_object_reads_it_inside(
    tmp_path: Path, mark: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stands for a defect of the tool: whatever it does, it does in the sandbox.
    program(tmp_path, mark, tool, f'exec /usr/bin/{tool} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("KDYNO_TEST", "x")
    subprocess.run(["/usr/bin/gcc", "-xc", "-", "-o", str(tmp_path / "it")],
                   input=b"int main(void) { return 0; }", check=True)  # fmt: skip
    try:
        if tool == "nm":
            symbols_of(tmp_path / "it")
        else:
            code_of(tmp_path / "it")
    except KdynoError:
        pass  # the stand-in lies where the sandbox shows nothing


@pytest.mark.slow
def test_patch_is_run_inside_and_takes_one_form_only(
    tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = Toy(tmp_path / "x")
    good = toy.edit("good", "lib/sort.c", "steps = 1", "steps = 2")
    # A second part in the form that patch hands to ed, which runs what stands after "!".
    script = f"--- a/lib/unused.c\n+++ b/lib/unused.c\n0a\n.\n!echo ran > {mark}\nw\nq\n"
    both = tmp_path / "both.patch"
    both.write_text(good.read_text() + script)
    try:
        changed = of_variant(toy.tree.path, [both], {}, [])
    except UsageError:
        pass
    else:
        assert set(changed.files) <= {"lib/sort.c", "lib/unused.c"}
    program_path = shutil.which("patch")
    assert program_path is not None
    folder = tmp_path / "bin"
    folder.mkdir()
    program(folder, mark, "patch", f'exec {program_path} "$@"')
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    changed = of_variant(toy.tree.path, [good], {}, [])  # one in an odd place is seen inside
    assert set(changed.files) == {"lib/sort.c"}


@pytest.mark.slow
def test_the_compiler_of_a_recipe_runs_in_the_builds_sandbox(tmp_path: Path, mark: Path) -> None:
    toy = Toy(tmp_path / "x")
    hostile = program(
        tmp_path, mark, "cc", 'case "$1" in --version) echo gcc 12;; *) exit 9;; esac'
    )
    recipe = toy.recipe(replace(variant(), compiler=str(hostile)))
    with pytest.raises(KdynoError):
        toy.build_recipe(recipe)


def including(folder: Path, line: str) -> Path:
    path = folder / "mine.S"
    path.write_text(ROUTINE.replace('#include "routine.h"\n', f'#include "routine.h"\n{line}\n'))
    return path


@pytest.mark.parametrize("way", ["absolute", "upwards", "below", "link", "pipe", "folder", "large"])
def test_a_routine_includes_plain_files_beside_it_and_nothing_else(
    tmp_path: Path, way: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("# a secret\n")
    place = tmp_path / "sent"
    (place / "below").mkdir(parents=True)
    (place / "below" / "secret").write_text("# a secret\n")
    (place / "link").symlink_to(secret)
    os.mkfifo(place / "pipe")
    with (place / "large").open("wb") as file:
        file.truncate(100 << 30)
    names = {"absolute": str(secret), "upwards": "../secret", "below": "below/secret"}
    path = including(place, f'#include "{names.get(way, way)}"')
    messages = {
        "link": "is a link|a link, which is not followed",
        "pipe": "which is not in",
        "folder": "which is not in",
        "large": "not a regular file of at most",
    }
    message = messages.get(way, "a routine includes files beside it")
    with pytest.raises(UsageError, match=message) as caught:
        flatten(path)
    assert "a secret" not in str(caught.value)
    with pytest.raises(UsageError):
        routine = find_routine(str(place / "link" if way == "link" else path))
        kernel_sources([routine], "um")


@pytest.mark.parametrize("length", [1, 2, 7])
def test_routines_that_include_each_other_are_a_mistake(tmp_path: Path, length: int) -> None:
    for number in range(length):
        (tmp_path / f"{number}.h").write_text(f'#include "{(number + 1) % length}.h"\n')
    with pytest.raises(UsageError, match="is included 5 deep; 4 is the most"):
        flatten(including(tmp_path, '#include "0.h"'))


@pytest.mark.slow
def test_includes_that_multiply_have_a_size(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.h").write_text(f'#include "{number + 1}.h"\n' * 1000)
    (tmp_path / "3.h").write_text("nop\n" * 100)
    with pytest.raises(UsageError, match="with its includes it has more than 1048576 bytes"):
        flatten(including(tmp_path, '#include "0.h"'))


def test_what_lies_beside_a_routine_is_included(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('nop\n#include "b.h"\n')
    (tmp_path / "b.h").write_text("ud2\n")
    assert "nop\nud2\n" in flatten(including(tmp_path, '#include "a.h"'))


INCLUDES = {
    "by a macro": "#define PLACE {secret}\n#include PLACE",
    "in angles": "#include <{path}>",
    "in two lines": "#inc\\\nlude {secret}",
    "behind a comment": "/**/ # /**/ include {secret}",
    "the next": "#include_next {secret}",
    "once": "#import {secret}",
    "the assembler's": ".include {secret}",
    "as it is": '.section .rodata.x, "a", @progbits\n.incbin {secret}',
    "the assembler's macro": ".macro own word, of\n.\\word\\of {secret}\n.endm\nown inc, bin",
}


@pytest.mark.parametrize("way", INCLUDES)
def test_no_other_include_of_a_routine_reads_the_host(tmp_path: Path, way: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text(".error A-SECRET\n")
    line = INCLUDES[way].format(secret=f'"{secret}"', path=secret)
    path = including(tmp_path, line)
    with pytest.raises(UsageError) as caught:
        assembled(flatten(path), str(path), tmp_path / "cache", routine=True)
    assert "A-SECRET" not in str(caught.value)
    assert re.search("No such file|can.t open|file not found", str(caught.value)), caught.value
    assert b"A-SECRET" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*.o"))


def test_a_plugin_of_the_compiler_is_not_loaded(tmp_path: Path, mark: Path) -> None:
    source = tmp_path / "plugin.c"
    source.write_text(
        "#include <fcntl.h>\nint plugin_is_GPL_compatible;\n"
        "__attribute__((constructor)) static void leave(void)\n"
        f'{{ open("{mark}", O_CREAT, 0600); }}\n'
        "int plugin_init(void *a, void *b) { return a == b; }\n"
    )
    plugin = tmp_path / "plugin.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(plugin), str(source)], check=True)
    command = ["gcc", f"-fplugin={plugin}", "-x", "c", "-E", "/dev/null"]
    subprocess.run(command, check=False, capture_output=True)
    assert mark.exists()  # outside it would be
    mark.unlink()
    toy = Toy(tmp_path / "x")
    with contextlib.suppress(KdynoError):
        check_flags(variant(), {"own": f"-O2 -fplugin={plugin}"}, toy.tree)


LINK = """diff --git a/{name} b/{name}
new file mode 120000
--- /dev/null
+++ b/{name}
@@ -0,0 +1 @@
+{to}
\\ No newline at end of file
"""
FILE = "--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+written through it\n"


@pytest.mark.parametrize("way", ["a file", "a folder", "through it", "one after the other"])
def test_a_patch_reads_and_writes_through_no_link(tmp_path: Path, way: str) -> None:
    toy = Toy(tmp_path / "x")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("as it was\n")
    to = precious / "file" if way == "a file" else precious
    texts = [LINK.format(name="lib/out", to=to)]
    if way in ("through it", "one after the other"):
        texts.append(FILE.format(name="lib/out/file"))
    texts = ["".join(texts)] if way == "through it" else texts
    patches = []
    for number, text in enumerate(texts):
        patches.append(tmp_path / f"{number}.patch")
        patches[-1].write_text(text)
    with pytest.raises(UsageError, match=r"symbolic link|does not apply"):
        of_variant(toy.tree.path, patches, {}, [])
    assert [path.name for path in precious.iterdir()] == ["file"]
    assert (precious / "file").read_text() == "as it was\n"


def test_nothing_is_changed_behind_a_link_of_the_source(tmp_path: Path) -> None:
    """In a copy of its folder, it leads elsewhere."""
    toy = Toy(tmp_path / "x")
    (toy.tree.path / "lib" / "in").symlink_to("../arch")
    patch = tmp_path / "x.patch"
    patch.write_text(FILE.format(name="lib/in/file"))
    for patches, placed, flags in (
        ([patch], {}, []),
        ([], {"lib/in/memcpy.S": ""}, []),
        ([], {}, [("lib/in/x.c", "-O3")]),
    ):
        with pytest.raises(UsageError, match="lib/in is a symbolic link"):
            of_variant(toy.tree.path, patches, placed, flags)
