# SPDX-License-Identifier: MIT
"""The house rules that a program can check: rooms, licences, sizes, help, a quick start."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from command_line import experiment_file

from kdyno import cli, errors
from kdyno.cli.main import LAB, VERBS, verbs
from kdyno.paths import data_root

ROOT = data_root()
PACKAGE = ROOT / "src" / "kdyno"
ROOMS = (
    *("stats", "reading", "store", "experiment", "suites", "judge", "kernels", "machines"),
    *("report", "measure", "fleet", "verbs", "labs", "bisect", "cli"),
)
"""From the lowest to the highest: a room imports itself and those before it."""
FREE = {"errors", "paths", "command", "sandbox", "whole"}
"""Modules outside the rooms. stats takes not even these."""
NO_NOUNS = {"it", "told", "said", "asked", "found", "made", "shown", "known"}
"""What no value or function is called: they do not say what it is."""
FILE_KEYS = {"src/kdyno/store/manifest.py: asked", "src/kdyno/store/watch.py: told"}
"""Keys of files that people have."""
HEAVY = ("numpy", "scipy", "pydantic", "rich", "hypothesis", "sqlalchemy", "alembic", "psycopg")
SOURCES = sorted(PACKAGE.rglob("*.py"))


@cache
def imported(path: Path) -> tuple[tuple[int, str], ...]:
    """(line, dotted name) of all that a module imports, within functions and by strings as well."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[tuple[int, str]]:
    inside = path.relative_to(PACKAGE.parent).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(inside[: -node.level]) if node.level else []
            whole = ".".join([*base, *([node.module] if node.module else [])])
            yield node.lineno, whole
            yield from ((node.lineno, f"{whole}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # For importlib, whole or begun; other names of ours, such as fw_cfg's, have dots too.
            parts = node.value.split(".")
            if parts[0] == "kdyno" and len(parts) > 1 and parts[1] in {*ROOMS, *FREE}:
                yield node.lineno, node.value


def rooms_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, room or module of the package) that a module imports."""
    for line, name in imported(path):
        parts = name.split(".")
        if parts[0] == "kdyno" and len(parts) > 1 and parts[1] not in ("__version__", "deferred"):
            yield line, parts[1]


def test_every_folder_is_a_known_room() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders <= set(ROOMS)
    assert FREE | {"__init__", "__main__"} == {path.stem for path in PACKAGE.glob("*.py")}


@pytest.mark.parametrize("room", [*ROOMS, *sorted(FREE)])
def test_a_room_never_imports_one_above_it(room: str) -> None:
    """And what stands outside the rooms imports none of them."""
    below = ROOMS[: ROOMS.index(room) + 1] if room in ROOMS else ()
    allowed = {room} if room == "stats" else {*FREE, *below}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in [*(PACKAGE / room).rglob("*.py"), *PACKAGE.glob(f"{room}.py")]
        for line, name in rooms_of(path)
        if name not in allowed
    ]
    assert wrong == []


def test_nobody_but_the_machines_knows_one_by_its_kind() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in SOURCES
        if path.parent.name != "machines"
        for line, name in imported(path)
        if name.startswith("kdyno.machines.") and name.split(".")[2] in {"uml", "host", "qemu"}
    ]
    assert wrong == []


@pytest.mark.slow
def test_nobody_but_the_machines_asks_which_kind_one_is() -> None:
    """No comparison with a kind's name, no table that is keyed by one; but an experiment has a
    kind where none is named."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        if path.parent.name != "machines" and path.name != "vocabulary.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare | ast.Dict)
        for one in ([node.left, *node.comparators] if isinstance(node, ast.Compare) else node.keys)
        if isinstance(one, ast.Constant) and one.value in {"uml", "qemu"}
    ]
    assert wrong == []


def test_the_rule_would_see_a_breach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path / "kdyno")
    module = tmp_path / "kdyno" / "stats" / "x.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "from . import y\ndef f():\n    from kdyno import measure\n    import kdyno.cli\n"
        "    import_module('kdyno.report')\n    __import__(f'kdyno.labs.{y}')\n"
    )
    rooms = {"stats", "measure", "cli", "report", "labs"}
    assert {name for _line, name in rooms_of(module)} == rooms


def test_no_two_files_of_tests_have_one_name() -> None:
    """pytest imports them by name alone, and refuses the second when both are collected."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []


def test_no_file_is_longer_than_900_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for folder in ("src", "guest", "tests")
        for kind in ("*.py", "*.c", "*.h")
        for path in (ROOT / folder).rglob(kind)
        if (count := len(path.read_text("utf-8").splitlines())) > 900
    }
    assert long == {}


def test_no_file_is_named_after_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
    assert [path for path in (*SOURCES, *(ROOT / "guest").rglob("*")) if path.stem in vague] == []


def bound_names(tree: ast.Module) -> Iterator[str]:
    """The names of a module's variables, parameters, attributes, functions and imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name


def test_a_name_is_a_noun_of_the_field() -> None:
    names = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("src", "tests", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        for name in bound_names(ast.parse(path.read_text("utf-8")))
        if name in NO_NOUNS
    }
    assert names == FILE_KEYS
    text = (
        "from a import found\ndef told(asked):\n    it = [made for made in asked]\n    it.shown = 1"
    )
    assert {*bound_names(ast.parse(text))} == NO_NOUNS - {"said", "known"}


def test_the_list_of_verbs_has_the_first_line_of_each_help() -> None:
    for name, (_module, help) in {**VERBS, **LAB}.items():
        own = verbs().get(name) or verbs().get(f"lab {name}")
        if own is not None:  # a group has no other help
            assert own.help.partition(". ")[0].partition(".\n")[0].rstrip(".") + "." == help


def test_the_verbs_are_those_of_the_design() -> None:
    names = {"doctor", "list", "check", "build", "run", "try", "judge", "compare"}
    # `watch` is no wish of a run or a search: it has a state of its own.
    names |= {"bisect", "watch", "profile", "report", "serve", "push", "lab"}
    assert {name.split()[0] for name in verbs()} == names
    assert PACKAGE.joinpath("cli").samefile(Path(cli.__file__).parent)


def test_exit_statuses_are_those_of_the_design() -> None:
    from kdyno.report import gate

    statuses = {kind.__name__: kind.exit_status for kind in errors.KdynoError.__subclasses__()}
    assert statuses == {"UsageError": 2, "ToolError": 1, "BuildError": 1}
    assert errors.Interrupted.exit_status == 130 and not issubclass(errors.Interrupted, Exception)
    assert {gate.SLOWER, gate.INCONCLUSIVE} == {10, 11}


@pytest.mark.slow
def test_help_starts_without_anything_heavy() -> None:
    code = (
        "import sys, json, atexit\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        "from kdyno.cli.main import main; raise SystemExit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "run" in done.stdout
    loaded = {name.partition(".")[0] for name in json.loads(done.stderr)}
    assert loaded.isdisjoint(HEAVY), loaded & set(HEAVY)


BEFORE_A_BOOT = """
import sys
from kdyno.cli.main import main
from kdyno.measure import execution
def execute(*_):
    import kdyno.kernels.sources.debian, kdyno.machines.uml
    print(*(name for name in sys.modules if name.partition(".")[0] == "kdyno"))
    raise SystemExit
execution.execute = execute
main()
"""


@pytest.mark.slow
def test_a_run_imports_few_modules_before_its_first_boot(tmp_path: Path) -> None:
    """The rest is for other verbs, other machines and sources, or the run's end: see deferred."""
    command = [sys.executable, "-c", BEFORE_A_BOOT, "run", experiment_file(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    modules = done.stdout.split()
    assert "kdyno.machines.uml" in modules, done.stderr
    assert len(modules) <= 90, modules
    rooms = {name.split(".")[1] for name in modules if "." in name}
    assert rooms.isdisjoint({"labs", "fleet"}) and "kdyno.store.database" not in modules


@pytest.mark.slow
def test_a_verdict_has_one_thread() -> None:
    """Those of a linear algebra library spin; with one CPU it has none in any case."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS")}
    count = "import kdyno.stats.family, os; print(len(os.listdir('/proc/self/task')))"
    done = subprocess.run([sys.executable, "-c", count], env=own, capture_output=True, text=True)
    assert done.stdout == "1\n", done.stderr


# Licences: GPL-2.0-only in kernel/, MIT elsewhere.

LICENSED = re.compile(r"\.(S|c|config|css|fio|h|html|js|md|patch|py|sh|toml)$")
NAMES = {"Makefile", "run", ".clang-format"}
# Recorded output and data: a line of ours would be part of what is tested, or break the format.
DATA = ("tests/golden/", "tests/data/")
LICENCE = re.compile(r"SPDX-License-Identifier: (.+?) ?(?:\*/|-->|-#\})?$", re.M)


def is_licensed(file: Path) -> bool:
    if str(file).startswith(DATA) and file.suffix not in (".py", ".toml", ".config"):
        return False
    return LICENSED.search(file.name) is not None or file.name in NAMES


def test_every_file_has_the_licence_of_its_folder() -> None:
    """Every file that is tracked by git, or new and not ignored."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: which files belong to the project is not known")
    files = [Path(name) for name in done.stdout.split("\0") if name]
    files = [file for file in files if is_licensed(file) and (ROOT / file).is_file()]
    assert len(files) > 100
    wrong = []
    for file in files:
        wanted = "GPL-2.0-only" if file.parts[0] == "kernel" else "MIT"
        head = (ROOT / file).read_text(encoding="utf-8").splitlines()[:6]
        licences = LICENCE.findall("\n".join(head))
        if licences != [wanted]:
            wrong.append(f"{file}: {licences or 'no line'}, not {wanted}")
    assert not wrong, "\n".join(wrong)


def test_both_licences_are_there_in_full() -> None:
    texts = {file.stem: file.read_text() for file in (ROOT / "LICENSES").glob("*.txt")}
    assert set(texts) == {"GPL-2.0-only", "MIT"}
    assert "Version 2, June 1991" in texts["GPL-2.0-only"]
    assert "END OF TERMS AND CONDITIONS" in texts["GPL-2.0-only"]
    assert "Permission is hereby granted, free of charge" in texts["MIT"]
    message = (ROOT / "LICENSE").read_text()
    assert all(name in message for name in texts)
