# SPDX-License-Identifier: MIT
"""Builds that fail, are killed, run twice at once, or try to leave their sandbox."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import needed
import pytest
from toy_kernel import FILES, OBJECTS, Toy, says, variant

from kdyno import sandbox
from kdyno.errors import BuildError, ToolError
from kdyno.kernels.build import error_lines
from kdyno.kernels.config import arch
from kdyno.sandbox import TOOL

pytestmark = pytest.mark.needs("gcc")
needs_sandbox = pytest.mark.needs("sandbox")
USABLE = sandbox.unusable() is None
# The builder's ccache folder is the one place that test and build both see.
GATE = {
    "scripts/extra.mk": (
        "$(objects): | gate\ngate:\n\t@echo here > $$CCACHE_DIR/arrived; read x < $$CCACHE_DIR/go\n"
        ".PHONY: gate\n"
    )
}
CHILD = """
import signal
import sys
from pathlib import Path
# A shell starts what it puts into the background deaf to Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[1])
from toy_kernel import variant
from kdyno import sandbox
from kdyno.kernels.build import build
from kdyno.kernels.recipe import recipe_of
from kdyno.kernels.source import Tree
tree = Tree(Path(sys.argv[3]), "digest", "toy", "7.3.4", origin="")
def report(step):
    if step.phase in ("waiting", "done"):
        print(step.phase, step.detail, flush=True)
sandbox._waived = sys.argv[4] != "True"
image = build(recipe_of(variant(), tree), Path(sys.argv[2]), name="toy", report=report)
print("image", image.kernel, flush=True)
"""


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path, sandboxed=USABLE)


def gated(folder: Path) -> Toy:
    toy = Toy(folder, GATE, sandboxed=USABLE)
    (toy.cache / "ccache" / "signed").mkdir(parents=True)
    gates(toy)
    return toy


def gates(toy: Toy) -> None:
    for name in ("arrived", "go"):
        gate = toy.cache / "ccache" / "signed" / name
        gate.unlink(missing_ok=True)
        os.mkfifo(gate)
        gate.chmod(0o666)  # a build is another user where kdyno is root


def child(toy: Toy, *, user: list[str] | None = None) -> subprocess.Popen[str]:
    here = str(Path(__file__).parent)
    words = [here, str(toy.cache), str(toy.tree.path), str(toy.sandboxed)]
    argv = [*(user or []), sys.executable, "-c", CHILD, *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def arrived(toy: Toy) -> None:
    assert (toy.cache / "ccache" / "signed" / "arrived").read_text() == "here\n"


def opened(toy: Toy) -> None:
    (toy.cache / "ccache" / "signed" / "go").write_text("on\n")


@pytest.mark.slow
@pytest.mark.parametrize("sandboxed", [pytest.param(True, marks=needs_sandbox), False])
def test_a_file_that_does_not_compile_and_then_does(tmp_path: Path, sandboxed: bool) -> None:
    toy = Toy(tmp_path, sandboxed=sandboxed)
    broken = toy.edit("broken", "lib/sort.c", "return steps;", "return stairs;")
    with pytest.raises(BuildError) as caught:
        toy.build(variant("mine", patches=(broken,)))
    first, *lines, last = str(caught.value).splitlines()
    assert first == "variant 'mine' did not build:"
    assert any("stairs" in line and "undeclared" in line for line in lines)
    log = Path(last.removeprefix("whole log: "))
    assert "lib/sort.c:5:" in log.read_text() and "$ " in log.read_text()
    assert not [path for path in (toy.cache / "images").iterdir() if path.is_dir()]
    assert not (toy.cache / "trunks").exists() and toy.leftovers() == []
    assert says(toy.build(variant())).startswith("limit 10, hz 100, sort 1")
    sort = "int toy_sort(void) { return 3; }\n"
    edit = toy.patch("edit", {"lib/sort.c": sort, "lib/unused.c": None})
    assert ", sort 3," in says(toy.build(variant(patches=(edit,))))
    assert (toy.tree.path / "lib/sort.c").read_text() == FILES["lib/sort.c"]
    assert (toy.tree.path / "lib/unused.c").stat().st_nlink == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("lib/unused.c", "this configuration does not compile that file"),
        ("lib/sort.c", "did not reach it"),
    ],
)
def test_flags_that_reach_no_compilation(tmp_path: Path, path: str, message: str) -> None:
    rules = FILES["scripts/toy.mk"].replace("$(flags-$(1))", "")
    toy = Toy(tmp_path, {"scripts/toy.mk": rules}, sandboxed=USABLE)
    with pytest.raises(BuildError, match=rf"variant 'mine'(.|\n)*cflags for '{path}'.*{message}"):
        toy.build(variant("mine", file_cflags=((path, "-O3"),)))
    assert not list((toy.cache / "images").glob("*/linux"))


def failing(number: int) -> Callable[..., int]:
    def stream(*_arguments: object, **_named: object) -> int:
        raise OSError(number, os.strerror(number), "build.log")

    return stream


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "shutil.disk_usage",
            lambda _path: SimpleNamespace(free=30_000_000),
            r"\(30 MB free, about 700 MB needed, .*KDYNO_CACHE",
        ),
        (
            "kdyno.kernels.build.stream",
            failing(errno.EIO),
            r"build\.log: Input/output error; the build stopped",
        ),
        (
            "kdyno.kernels.build.stream",
            failing(errno.ENOSPC),
            r"'toy' was not built to its end: no space left in .*KDYNO_CACHE",
        ),
        ("shutil.which", lambda _name: None, r"make is not installed.*kdyno doctor"),
    ],
)
def test_a_machine_that_cannot_build_is_no_fault_of_the_variant(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, name: str, value: object, message: str
) -> None:
    recipe = toy.recipe(variant())
    monkeypatch.setattr(name, value)
    with pytest.raises(ToolError, match=message):
        toy.build_recipe(recipe)
    assert toy.leftovers() == []


@pytest.mark.slow
def test_a_disk_that_fills_up_during_make_is_no_fault_of_the_variant(tmp_path: Path) -> None:
    fills = {"scripts/extra.mk": "linux: full\nfull:\n\tcat $(srctree)/Makefile > /dev/full\n"}
    toy = Toy(tmp_path, fills, sandboxed=USABLE)
    recipe = toy.recipe(variant("mine"))
    (toy.cache / "failed").mkdir()
    (toy.cache / "failed" / f"{recipe.digest}.log").symlink_to("/dev/full")
    with pytest.raises(ToolError, match=r"'mine' was not built to its end: no space left"):
        toy.build_recipe(recipe, "mine")


@pytest.mark.slow
def test_a_makefile_that_prints_for_ever_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdyno.command.MOST_LOG_BYTES", 1 << 20)
    monkeypatch.setattr("kdyno.kernels.build._KEPT_LOG_BYTES", 1 << 18)
    prints = "linux: print\nprint:\n\t@echo error: 0; echo error: 1; yes 'error: for ever'\n"
    toy = Toy(tmp_path, {"scripts/extra.mk": prints}, sandboxed=USABLE)
    with pytest.raises(BuildError) as caught:
        toy.build(variant("mine"))
    first, ended, *lines, last = str(caught.value).splitlines()
    assert first == "variant 'mine' did not build:"
    assert ended == "  kdyno: ended, because more than 1 MiB were printed"
    assert lines[:3] == ["  error: 0", "  error: 1", "  error: for ever"]
    text = Path(last.removeprefix("log without its middle: ")).read_text()
    assert text.startswith("$ ") and text.rstrip().endswith("1 MiB were printed")
    assert "bytes were taken out here]\n" in text and len(text) < 1 << 20
    assert toy.leftovers() == []


@pytest.mark.slow
def test_a_killed_build_leaves_no_image_and_its_folder_goes_with_the_next(tmp_path: Path) -> None:
    toy = gated(tmp_path)
    builder = child(toy)
    arrived(toy)
    builder.send_signal(signal.SIGKILL)
    builder.communicate()
    work = toy.leftovers()
    assert len(work) == 1
    assert not list((toy.cache / "images").glob("*/*"))
    if not toy.sandboxed:
        opened(toy)  # without a sandbox its make is an orphan, which goes on to its end
    gates(toy)
    again = child(toy)
    arrived(toy)
    assert len(toy.leftovers()) == 1 and toy.leftovers() != work
    opened(toy)
    message, problem = again.communicate()
    assert "image" in message, problem
    assert toy.leftovers() == []


@pytest.mark.slow
def test_two_processes_want_one_image_and_one_builds_it(tmp_path: Path) -> None:
    toy = gated(tmp_path)
    first = child(toy)
    arrived(toy)
    second = child(toy)
    assert second.stdout is not None
    message = second.stdout.readline()
    assert message == (f"waiting process {first.pid} is building the same image; waiting for it\n")
    opened(toy)
    one, problem = first.communicate()
    assert one.startswith("done"), problem
    other, problem = second.communicate()
    assert "done" not in other and other == one.splitlines(keepends=True)[-1], problem


@pytest.mark.slow
def test_ctrl_c_in_mid_build_leaves_nothing(tmp_path: Path) -> None:
    toy = gated(tmp_path)
    builder = child(toy)
    arrived(toy)
    builder.send_signal(signal.SIGINT)
    _said, problem = builder.communicate()
    assert "KeyboardInterrupt" in problem
    assert toy.leftovers() == [] and not list((toy.cache / "images").glob("*/*"))


@pytest.mark.slow
@needs_sandbox
def test_a_build_can_neither_write_outside_nor_reach_the_network(tmp_path: Path) -> None:
    outside = Path.home() / f".kdyno-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"""
try() {{ if sh -c "echo x > $1" 2>/dev/null; then echo "  PROBE   wrote $1"; fi; }}
for place in /tmp/kdyno/src/Makefile /tmp/kdyno/src/new {outside} /etc/x /var/tmp/x /run/x; do
	try $place
done
try /tmp/kdyno/obj/mine
echo "  PROBE   run holds $(ls -A /run | grep -vc '^x$')"
echo "  PROBE   caches $(ls -A /tmp/kdyno | tr '\\n' ' ')"
echo "  PROBE   processes $(ls /proc | grep -c '^[0-9]') "
if bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' 2>/dev/null; then echo "  PROBE   net"; fi
echo "  PROBE   interfaces $(ls /sys/class/net | wc -l) user $(id -u)"
"""
        extra = "linux: probe\nprobe:\n\t@sh $(srctree)/scripts/probe.sh\n"
        toy = Toy(tmp_path, {"scripts/probe.sh": script, "scripts/extra.mk": extra})
        log = (toy.build(variant()).folder / "build.log").read_text()
    probes = [line.split(maxsplit=1)[1] for line in log.splitlines() if "  PROBE " in line]
    assert [line for line in probes if line.startswith("wrote")] == ["wrote /tmp/kdyno/obj/mine"]
    assert "net" not in probes
    assert "run holds 0" in probes
    assert "caches ccache obj src " in [f"{line} ".replace("  ", " ") for line in probes]
    processes = next(line for line in probes if line.startswith("processes"))
    assert int(processes.split()[1]) < 20
    assert not outside.exists() and not Path("/run/x").exists()
    assert toy.tree.path.joinpath("Makefile").read_text() == FILES["Makefile"]


@pytest.mark.slow
@needs_sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.needs("setpriv")
def test_an_ordinary_user_builds_in_a_cache_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    # Not below tmp_path: pytest keeps the folders above it closed to other users.
    with tempfile.TemporaryDirectory() as open_folder:
        Path(open_folder).chmod(0o755)
        monkeypatch.setenv("KDYNO_CACHE", open_folder)  # where the sandbox's filter is
        probe = sandbox.Sandbox(TOOL).argv(["true"], dropping=False)
        if subprocess.run([*nobody, *probe], capture_output=True).returncode != 0:
            needed.lack("bwrap does not work for ordinary users here, see docs/sandbox.md")
        importing = [*nobody, sys.executable, "-c", "import kdyno"]
        if subprocess.run(importing, capture_output=True).returncode != 0:
            pytest.skip("this Python is closed to other users")
        toy = Toy(Path(open_folder))
        for path in (toy.cache, *toy.cache.rglob("*")):
            os.chown(path, 65534, 65534)
        builder = child(toy, user=nobody)
        message, problem = builder.communicate()
        assert "image" in message, problem
        image = Path(message.split()[-1])
        assert image.stat().st_uid == 65534


def test_the_lines_that_tell_why() -> None:
    log = "$ make\n  CC      lib/error_inject.o\na.c:1: error: x\na.c:1: error: x\n"
    assert error_lines(f"{log}make: *** [a.o] Error 1\n") == ["a.c:1: error: x"]
    for log in (
        "  HOSTCC  x\nawk: line 3: odd\nmake: *** [x] Error 2\n",
        "ld: a.o: multiple definition of `f'\ncollect2: error: ld returned 1 exit status\n",
        "make: *** No rule to make target 'y'.\n",
        "bwrap: cannot\n",
        "nothing telling\n",
        "",
    ):
        assert error_lines(f"$ make\n{log}") == log.splitlines()
    assert max(map(len, error_lines(f"error: {'x' * 100_000}\n"))) == 2000


@pytest.mark.slow
def test_the_number_of_objects_is_known_after_the_first_build(toy: Toy) -> None:
    toy.build(variant())
    first = next(step.total for step in toy.steps if step.phase == "compile")
    assert first == round(2 * arch("um").objects_per_option)  # 64BIT and SORT
    toy.build(variant("o2", cflags="-O2"))
    assert next(step.total for step in toy.steps if step.phase == "compile") == len(OBJECTS)
    assert [step.objects for step in toy.steps if step.detail in OBJECTS] == [1, 2, 3, 4, 5]
