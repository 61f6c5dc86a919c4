# SPDX-License-Identifier: MIT
"""Wrong inputs, one a row: each gets a clear message with file, line or option, status 2 and no
traceback. The words are in golden/wrong-inputs.toml; more mistakes at once are in data/experiments.

After a wanted change of the words: ``KDYNO_GOLDEN=write``, as CONTRIBUTING.md has it.
"""

# A row is a line.
# ruff: noqa: E501

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from command_line import FASTER, Kdyno, kdyno, stored, verdict
from toy_kernel import make_source

from kdyno import sandbox

__all__ = ["kdyno"]

GOLDEN = Path(__file__).parent / "golden" / "wrong-inputs.toml"
SHOWN = 240
"""Characters of a message that are held: lists of what is allowed grow with the catalogue."""

VALID = """\
name = "x"
baseline = "stock"
[kernel]
source = "debian:linux-source-7.3"
[variant.stock]
[variant.mine]
cflags = "-O3"
[machine]
memory = "512M"
[[suite]]
name = "unixbench"
cases = ["pipe"]
[measure]
max_boots = 20
"""

CASES = 'cases = ["pipe"]'
COMMAND = 'name = "run"\ncommand = "sort x"'
LEVEL = "[factor.smp]\non = {}\noff = { cmdline = 'a' }\n[machine]"

FILES_OF_TOML: dict[str, tuple[str, str]] = {
    # What is no TOML.
    "key-twice": ('baseline = "stock"', 'baseline = "stock"\nbaseline = "mine"'),
    "table-twice": ("[variant.mine]", "[variant.stock]"),
    "double-brackets": ("[variant.mine]", "[[variant.mine]]"),
    "variants-in-double-brackets": ("[variant.stock]\n[variant.mine]\ncflags", "[[variant]]\nx"),
    "machine-in-double-brackets": ("[machine]", "[[machine]]"),
    "unclosed-quote": ('name = "x"', 'name = "x'),
    "unclosed-single-quote": ('name = "x"', "name = 'x"),
    "unquoted": ('baseline = "stock"', "baseline = stock"),
    "no-equals": ('baseline = "stock"', 'baseline "stock"'),
    "unclosed-array": (CASES, 'cases = ["pipe"'),
    "unclosed-table": ('cflags = "-O3"', 'cflags = { "lib/sort.c" = "-O3"'),
    "unclosed-header": ("[machine]", "[machine"),
    "backslash": ('cflags = "-O3"', 'cflags = "-O3\\q"'),
    "two-on-a-line": ('name = "x"', 'name = "x" question = "y"'),
    "key-of-other-letters": ('name = "x"', 'naïve = "x"'),
    "no-key": ('name = "x"', '= "x"'),
    "leading-zero": ("max_boots = 20", "max_boots = 020"),
    "huge-number": ("max_boots = 20", f"max_boots = {'9' * 5000}"),
    # The top.
    "no-name": ('name = "x"\n', ""),
    "name-with-slash": ('name = "x"', 'name = "a/b"'),
    "name-empty": ('name = "x"', 'name = ""'),
    "name-a-number": ('name = "x"', "name = 5"),
    "unknown-key": ('name = "x"', 'nam = "x"'),
    "key-of-another-table": ('name = "x"', 'name = "x"\nprecision = "1%"'),
    "baseline-unknown": ('baseline = "stock"', 'baseline = "stok"'),
    "baseline-missing": ('baseline = "stock"\n', ""),
    "baseline-a-list": ('baseline = "stock"', 'baseline = ["stock"]'),
    "skip-unsupported": ('name = "x"', 'name = "x"\nskip-unsupported = 1'),
    "question-a-number": ('name = "x"', 'name = "x"\nquestion = 1'),
    # Kernels.
    "source-missing": ('source = "debian:linux-source-7.3"\n', ""),
    "source-kind": ("debian:linux", "debain:linux"),
    "source-empty": ("debian:linux-source-7.3", "debian:"),
    "source-package": ("debian:linux-source-7.3", "debian:Linux Source"),
    "source-release": ("debian:linux-source-7.3", "kernel.org:seven"),
    "source-folder": ("debian:linux-source-7.3", "path:nowhere"),
    "source-file": ("debian:linux-source-7.3", "tar:nowhere.tar.xz"),
    "source-git-option": ("debian:linux-source-7.3", "git:--upload-pack=x#v1"),
    "source-git-ref": ("debian:linux-source-7.3", "git:.#-x"),
    "source-git-transport": ("debian:linux-source-7.3", "git:ext::sh#v1"),
    "source-a-number": ('"debian:linux-source-7.3"', "7.3"),
    "arch": ("[variant.stock]", 'arch = "arm64"\n[variant.stock]'),
    "arch-of-another-machine": ("[variant.stock]", 'arch = "x86_64"\n[variant.stock]'),
    "config-line": ('cflags = "-O3"', 'config = ["CONFIG_SMP=maybe"]'),
    "config-without-prefix": ('cflags = "-O3"', 'config = ["SMP=y"]'),
    "config-fragment": ('cflags = "-O3"', 'config = ["bech"]'),
    "config-a-text": ('cflags = "-O3"', 'config = "bench"'),
    "config-contradiction": ('cflags = "-O3"', 'config = ["CONFIG_A=y", "CONFIG_A=n"]'),
    "patch-missing": ('cflags = "-O3"', 'patches = ["mine.patch"]'),
    "patch-shipped": ('cflags = "-O3"', 'patches = ["um-6.12-xstat.patch"]'),
    "patch-twice": ('cflags = "-O3"', 'patches = ["um-6.12-xstate.patch", "um-6.12-xstate.patch"]'),
    "patch-without-hunk": ('cflags = "-O3"', 'patches = ["no-hunk.patch"]'),
    "cflags-shell": ("-O3", "$(id)"),
    "cflags-number": ('"-O3"', "3"),
    "cflags-of-a-header": ('"-O3"', '{ "x.h" = "-O3" }'),
    "compiler-with-flags": ('cflags = "-O3"', 'compiler = "gcc -m32"'),
    "cmdline-of-lines": ('cflags = "-O3"', 'cmdline = "a\\nb"'),
    "sysctl-name": ('cflags = "-O3"', "sysctl = { swappiness = 1 }"),
    "sysctl-value": ('cflags = "-O3"', 'sysctl = { "vm.swappiness" = 1.5 }'),
    "sysctl-list": ('cflags = "-O3"', 'sysctl = ["vm.swappiness"]'),
    "memcpy": ('cflags = "-O3"', 'memcpy = "avx51"'),
    "memcpy-file": ('cflags = "-O3"', 'memcpy = "./mine.S"'),
    "routine-function": ('cflags = "-O3"', 'routines = { strcpy = "avx2" }'),
    "routine": ('cflags = "-O3"', 'routines = { memset = "avx51" }'),
    "scheduler": ('cflags = "-O3"', 'scheduler = "5bsd"'),
    "scheduler-file": ('cflags = "-O3"', 'scheduler = "./mine.c"'),
    "scheduler-under-uml": ('cflags = "-O3"', 'scheduler = "4bsd"'),
    "cpus-none": ('cflags = "-O3"', "cpus = 0"),
    "programs": ('cflags = "-O3"', 'programs = "16-bit"'),
    "key-of-a-variant": ('cflags = "-O3"', 'cflag = "-O3"'),
    "variant-name": ("[variant.mine]", '[variant."a b"]'),
    "variant-a-text": ("[variant.mine]\ncflags", "[variant]\nmine"),
    "one-variant": ('[variant.mine]\ncflags = "-O3"\n', ""),
    # Factors.
    "factor-of-one-level": ("[machine]", "[factor.smp]\non = {}\n[machine]"),
    "factor-of-none": ("[machine]", "[factor.smp]\n[machine]"),
    "factor-a-number": ("[machine]", "[factor]\nsmp = 2\n[machine]"),
    "factor-mixed": ("[machine]", "[factor.j]\na = { set = { j = 1 } }\nb = {}\n[machine]"),
    "factor-of-no-case": ("[machine]", "[factor]\njobs = [1, 2]\n[machine]"),
    "factor-setting": ("[machine]", "[factor.J]\na = { set = { J = 1 } }\nb = { set = { J = 2 } }\n[machine]"),
    "factor-case": ("[machine]", "[factor.c]\na = { case = 'pipe' }\nb = { case = 'nope' }\n[machine]"),
    "factor-cell-as-baseline": ("[machine]", LEVEL),
    # The machine.
    "machine-kind": ('memory = "512M"', 'kind = "kvm"'),
    "machine-cpus": ('memory = "512M"', "cpus = 0"),
    "machine-cpus-a-text": ('memory = "512M"', 'cpus = "two"'),
    "machine-memory": ("512M", "much"),
    "machine-memory-small": ("512M", "1M"),
    "machine-timeout": ('memory = "512M"', "timeout = -1"),
    "machine-accel": ('memory = "512M"', 'accel = "hvf"'),
    "host-with-variants": ('memory = "512M"', 'kind = "host"'),
    # Suites.
    "no-suite": (f'[[suite]]\nname = "unixbench"\n{CASES}\n', ""),
    "suite-in-single-brackets": ("[[suite]]", "[suite]"),
    "suite-unknown": ('"unixbench"', '"unixbnch"'),
    "suite-without-name": ('name = "unixbench"\n', ""),
    "case-unknown": ("pipe", "pip"),
    "case-pattern": ("pipe", "zz*"),
    "case-twice": (CASES, 'cases = ["pipe", "pipe"]'),
    "case-in-two-suites": ("[measure]", '[[suite]]\nname = "unixbench"\ncases = ["pi*"]\n[measure]'),
    "cases-none": (CASES, "cases = []"),
    "cases-a-text": (CASES, 'cases = "pipe"'),
    "seconds-none": (CASES, f"{CASES}\nseconds = 0"),
    "seconds-and-operations": (CASES, f"{CASES}\nseconds = 1\noperations = 5"),
    "command-of-a-suite": (CASES, 'command = "ls"'),
    "run-without-command": (f'name = "unixbench"\n{CASES}', 'name = "run"'),
    "run-quote": (f'name = "unixbench"\n{CASES}', "name = \"run\"\ncommand = \"sort 'x\""),
    "run-two-names": (f'name = "unixbench"\n{CASES}', f'{COMMAND}\ncases = ["a", "b"]'),
    "run-figure": (f'name = "unixbench"\n{CASES}', f'{COMMAND}\nfigure = "("'),
    "run-figure-groups": (f'name = "unixbench"\n{CASES}', f'{COMMAND}\nfigure = "x"\nunit = "s"\nbetter = "lower"'),
    "run-better": (f'name = "unixbench"\n{CASES}', f'{COMMAND}\nfigure = "(x)"\nunit = "s"\nbetter = "more"'),
    "run-unit": (f'name = "unixbench"\n{CASES}', f'{COMMAND}\nunit = "s"'),
    # How it is measured.
    "precision-none": ("max_boots = 20", "precision = 0"),
    "precision-words": ("max_boots = 20", 'precision = "fine"'),
    "equivalent-large": ("max_boots = 20", "equivalent = 0.5"),
    "confidence": ("max_boots = 20", "confidence = 1.0"),
    "min-above-max": ("max_boots = 20", "max_boots = 20\nmin_boots = 30"),
    "max-boots-one": ("max_boots = 20", "max_boots = 1"),
    "max-minutes": ("max_boots = 20", 'max_minutes = "ten"'),
    "profile": ("max_boots = 20", 'profile = "pref"'),
    "interleave": ("max_boots = 20", 'interleave = "turn"'),
    "metric": ("max_boots = 20", 'metric = "cycles"'),
    "seed": ("max_boots = 20", "seed = -1"),
    "matrix-without-ref": ("[measure]", '[matrix]\nrefs = ["v1"]\n[measure]'),
}  # fmt: skip

LINES: dict[str, str] = {
    "verb": "rum",
    "file-as-verb": "x.toml",
    "no-file": "run",
    "file-missing": "run y.toml",
    "run-as-file": "run last",
    "folder-as-file": "check .",
    "two-files": "run x.toml y.toml",
    "option": "run --quik",
    "option-without-value": "run x.toml --max-boots",
    "minutes": "run x.toml --max-minutes soon",
    "boots": "run x.toml --max-boots 0",
    "boots-a-text": "run x.toml --max-boots=many",
    "seconds": "run x.toml --seconds 0",
    "seed-option": "run x.toml --seed -1",
    "precision-option": "run x.toml --precision fast",
    "jobs": "build x.toml -j 0",
    "interleave-option": "run x.toml --interleave turn",
    "metric-option": "run x.toml --metric cycle",
    "variant-option": "run x.toml --variant mien",
    "case-option": "run x.toml --case pip",
    "fail-on": "run x.toml --fail-on slow",
    "fail-on-case": "run x.toml --fail-on slower:pip",
    "scoring": "run x.toml --scoring unixbnch",
    "ref-without-matrix": "run x.toml --ref v1",
    "json-nowhere": "run x.toml --json nowhere/x.json",
    "resume-and-file": "run x.toml --resume last",
    "resume-dry": "run --resume last --dry-run",
    "resume-nothing": "run --resume nothing",
    "report-nothing": "report nothing",
    "report-format": "report tiny -f pfd",
    "report-option": "report --limit 3",
    "list-what": "list boots",
    "list-limit": "list runs --limit x",
    "compare-one": "compare nothing",
    "judge-nothing": "judge nothing",
    "try-nothing": "try",
    "try-machine": "try --machine kvm -- ls",
    "try-host": "try --machine host -- ls",
    "try-kernel": "try -k memcpi=avx2 -- ls",
    "try-fragment": "try -k config=bech -- ls",
    "try-source": "try --source debain:x -- ls",
    "try-memory": "try --memory much -- ls",
    "try-program": "try -- nosuchprogram",
    "try-unit": "try --unit s -- ls",
    "try-figure": "try --figure ( --unit s -- ls",
    "try-twice": "try -k stock -k stock -- ls",
    "published-what": "lab published nothing",
    "memcpy-verb": "lab memcpy benhc",
    "memcpy-moved": "memcpy bench",
    "calibrate-moved": "calibrate x.toml",
}


def held_words(name: str, text: str) -> None:
    """``text`` is what the golden file has under ``name``."""
    known = tomllib.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    if os.environ.get("KDYNO_GOLDEN") == "write":
        known[name] = text
        lines = [f"{key} = {json.dumps(it, ensure_ascii=False)}" for key, it in known.items()]
        head = "# SPDX-License-Identifier: MIT\n"
        GOLDEN.write_text(head + "\n".join(sorted(lines)) + "\n", encoding="utf-8")
    assert known.get(name) == text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sandbox, "require", lambda: True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.toml").write_text(VALID, encoding="utf-8")
    (tmp_path / "no-hunk.patch").write_text("--- a/x\n+++ b/x\n", encoding="utf-8")
    return tmp_path


def refused(kdyno: Kdyno, folder: Path, *words: str) -> str:
    """What the command line says, in one style: status 2, nothing on stdout."""
    said = kdyno(*words)
    assert said.status == 2 and said.out == ""
    assert said.err.startswith("kdyno: ") and "Traceback" not in said.err
    assert "Error:" not in said.err and "Usage:" not in said.err
    return said.err.replace(f"{folder}/", "FOLDER/").replace(str(folder), "FOLDER")


def test_there_are_120_of_them_and_the_valid_file_is_valid(kdyno: Kdyno, folder: Path) -> None:
    assert len(FILES_OF_TOML) + len(LINES) + len(IN_A_TREE) >= 120
    assert kdyno("run", "x.toml", "--fail-on", "x").err.startswith("kdyno: --fail-on")


@pytest.mark.parametrize("name", FILES_OF_TOML)
def test_a_wrong_file(kdyno: Kdyno, folder: Path, name: str) -> None:
    old, new = FILES_OF_TOML[name]
    assert VALID.count(old) == 1
    (folder / "x.toml").write_text(VALID.replace(old, new), encoding="utf-8")
    told = refused(kdyno, folder, "check", "x.toml", "--no-sandbox")
    assert re.search(r"x\.toml(:\d+)?: ", told)
    held_words(name, told[:SHOWN])


@pytest.mark.parametrize("name", LINES)
def test_a_wrong_command_line(kdyno: Kdyno, folder: Path, name: str) -> None:
    stored(folder / "runs", verdict(FASTER))
    told = refused(kdyno, folder, *LINES[name].split())
    held_words(name, told[:SHOWN])


HEAD = 'name = "x"\nbaseline = "stock"\n[kernel]\nsource = "path:toy"\n[variant.stock]\n[variant.mine]\n'
SUITE = '[[suite]]\nname = "unixbench"\ncases = ["pipe"]\n'
NO_SORT = "cflags for 'lib/srot.c': no such .c file in this source; nearest: lib/sort.c"

IN_A_TREE: dict[str, str | tuple[str, ...]] = {
    'config = ["CONFIG_NOSUCH=y"]': (":7: variant.mine.config[1]: CONFIG_NOSUCH=y: a kernel of arch um "
                                     "has no such option"),
    'config = ["CONFIG_PREEMTP=y"]': (":7: variant.mine.config[1]: ", "nearest: CONFIG_PREEMPT"),
    'config = ["CONFIG_HZ=y"]': (":7: variant.mine.config[1]: CONFIG_HZ=y: it is a whole number",),
    'config = ["CONFIG_SORT=m"]': (":7: variant.mine.config[1]: CONFIG_SORT=m: it is y or n",),
    'config = ["CONFIG_SMP=y"]': (":7: variant.mine.config[1]: CONFIG_SMP=y: it became n; it "
                                  "depends on NET, and here NET=n"),
    'cflags = "-Ofoo"': (":7: variant.mine.cflags: gcc does not take -Ofoo: argument to '-O' "),
    'cflags = { "lib/sort.c" = "-fnosuch" }': (':7: variant.mine.cflags."lib/sort.c": gcc does '
                                               "not take -fnosuch: "),
    'cflags = { "lib/srot.c" = "-O3" }': (":7: variant.mine.cflags: " + NO_SORT),
    'sysctl = { "vm.nope" = 1 }': (":7: variant.mine.sysctl: the source has no sysctl vm.nope: no "
                                   "code of it names 'nope'"),
    'sysctl = { "vm.swapiness" = 1 }': ("'swapiness'; nearest: swappiness",),
    'compiler = "gcc-99"': (":7: variant.mine.compiler: compiler 'gcc-99' is not on this machine "),
    "": (":6: variant.mine: mine is the same kernel as stock: nothing differs. For the noise floor "),
    'patches = ["other.patch"]': (":7: variant.mine.patches: patch ", "does not apply"),
    'source = "git:toy#v7.4"': (":7: variant.mine.source: ", "no branch, tag or commit 'v7.4'. Did you mean v7.3?"),
    'source = "tar:broken.tar.xz"': (":7: variant.mine.source: broken.tar.xz cannot be unpacked; it is "
                                     "damaged, cut short or no tar archive ("),
}  # fmt: skip
"""What stands in [variant.mine] → what is said of it."""


@pytest.mark.needs("gcc")
@pytest.mark.needs("git")
@pytest.mark.parametrize("line", IN_A_TREE)
def test_what_only_the_source_tells(kdyno: Kdyno, folder: Path, line: str) -> None:
    swappiness = 'struct x t = { .procname = "swappiness" };\n'
    toy = make_source(folder / "toy", {"kernel/sysctl.c": swappiness})
    git = ["git", "-C", str(toy), "-c", "user.name=T", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "toy"], ["tag", "v7.3"]):
        subprocess.run([*git, *words], check=True)
    (folder / "broken.tar.xz").write_bytes(b"\xfd7zXZ\0 and no more")
    (folder / "other.patch").write_text(
        "--- a/lib/sort.c\n+++ b/lib/sort.c\n@@ -1,1 +1,1 @@\n-nothing like it\n+something\n"
    )
    (folder / "x.toml").write_text(f"{HEAD}{line}\n{SUITE}", encoding="utf-8")
    for verb in (["check", "x.toml"], ["build", "x.toml", "--dry-run"]):
        said = kdyno(*verb)
        assert said.status == 2 and said.out == ""
        assert "mistakes" not in said.err and "partial" not in said.err
        wanted = IN_A_TREE[line]
        for part in (wanted,) if isinstance(wanted, str) else wanted:
            assert part in said.err
    assert not (folder / "cache" / "images").exists()
