# SPDX-License-Identifier: MIT
"""Two machines with a folder between them on which no lock of one is seen by the other.

Each is a process with a host name and mounts of its own, which sees the folder through a file
system of its own (bindfs, by FUSE). Locks end at such a mount as they do on NFS with ``nolock``.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import needed
import pytest
from test_kernels_faults import CHILD
from toy_kernel import Toy

from kdyno import sandbox
from kdyno.cli.doctor import LOCK, TOKEN

pytestmark = [pytest.mark.slow, pytest.mark.needs("gcc", "sandbox")]
LIMIT_S = 120
# Neither compiles before both have come as far: whoever waited for the other's lock never would.
GATE = """\
$(objects): | gate
gate:
	@mktemp $$CCACHE_DIR/arrived.XXXXXX >/dev/null; turns=0; \\
	while [ $$(ls $$CCACHE_DIR | grep -c ^arrived) -lt 2 ]; do \\
		turns=$$((turns + 1)); [ $$turns -lt 600 ] || exit 1; sleep 0.1; \\
	done
.PHONY: gate
"""
# bindfs makes a folder as root, then gives it to whoever asked for it: in between, the other
# machine may see it as root's (20 of 40,000 times) and be refused. A cluster's file system makes
# it at once.
MACHINE = """\
hostname "$1"
bindfs --perms=a+rwX ${OPTIONS:+-o "$OPTIONS"} "$2" "$3"
shift 3
"$@"
"""


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """Where each machine sees the folder ``real``."""
    needed.need("bindfs", "unshare")
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("mounting takes root and /dev/fuse")
    tmp_path.chmod(0o755)
    for name in ("real", "seen"):
        (tmp_path / name).mkdir()
    return tmp_path / "seen"


def machine(name: str, seen: Path, *program: str) -> subprocess.Popen[str]:
    """Nothing that it mounts or starts outlives it."""
    own = ["unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
    words = ["sh", "-ec", MACHINE, name, name, str(seen.parent / "real"), str(seen), *program]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*own, *words], text=True, **pipes)  # type: ignore[call-overload]


def builder(name: str, seen: Path, toy: Toy) -> subprocess.Popen[str]:
    tree = seen / toy.tree.path.relative_to(toy.folder)
    here = str(Path(__file__).parent)
    words = [here, str(seen / "cache"), str(tree), str(sandbox.unusable() is None)]
    return machine(name, seen, sys.executable, "-c", CHILD, *words)


def output_of(process: subprocess.Popen[str]) -> str:
    out, problem = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, out + problem
    return out


def test_the_doctor_sees_that_no_lock_is_seen_by_the_other(seen: Path, tmp_path: Path) -> None:
    """What the tests below need of these mounts."""
    real = tmp_path / "real"
    (real / TOKEN).write_text("sesame")
    with (real / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        words = (sys.executable, "-m", "kdyno.cli.doctor", str(seen), str(seen / "answer"))
        output_of(machine("n1", seen, *words))
    node = json.loads((real / "answer").read_text())
    assert (node["node"], node["token"]) == ("n1", "sesame")
    assert (node["locks"], node["writes"]) == (False, True)


def test_two_machines_that_build_one_image_leave_one(seen: Path, tmp_path: Path) -> None:
    toy = Toy(tmp_path / "real", {"scripts/extra.mk": GATE})
    (toy.cache / "ccache" / "signed").mkdir(parents=True)
    both = [builder(name, seen, toy) for name in ("n1", "n2")]
    first, second = map(output_of, both)
    assert first.startswith("done") and second.startswith("done")  # each built
    assert first.splitlines()[-1] == second.splitlines()[-1]  # and has the same
    (folder,) = (path for path in (toy.cache / "images").iterdir() if not path.name.startswith("."))
    done = subprocess.run([folder / "linux"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "limit 10, hz 100, sort 1, place /tmp/kdyno/src/lib/string.c"
    assert sorted(path.name for path in folder.iterdir()) == [
        *("build.json", "build.log", "config", "linux")
    ]
    assert len(list((toy.cache / "trunks").iterdir())) == 1
    assert toy.leftovers() == []
    third = output_of(builder("n3", seen, toy))
    assert third == first.splitlines(keepends=True)[-1]  # found, not built


OUTCOME = """
import sys
import time
from pathlib import Path
from kdyno.fleet.engine import Engine, Job, Settings
job = Job("1", Path(sys.argv[1]), Path(sys.argv[1] + ".log"))
engine = Engine(Settings(engine="slurm"), Path(sys.argv[1]).parent)
engine._states = lambda: {"1": "COMPLETED"}
looks = late = 0
while not job.done:
    engine.look([job])
    looks += 1
    if looks == 1:
        print("looked", flush=True)
    late |= Path(sys.argv[2]).exists() and not job.done
    time.sleep(0.1)
print("late" if late else "at once", job.failure())
"""


def test_a_job_is_not_lost_because_its_outcome_is_seen_late(
    seen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where what was not there a moment ago is not asked for again, as on NFS."""
    monkeypatch.setenv("OPTIONS", "negative_timeout=3,entry_timeout=3,attr_timeout=3")
    real = str(tmp_path / "real" / "outcome")
    controller = machine("n1", seen, sys.executable, "-c", OUTCOME, str(seen / "outcome"), real)
    assert controller.stdout is not None
    assert controller.stdout.readline() == "looked\n"
    (tmp_path / "real" / "outcome").write_text('{"node": "n2", "status": 0}')
    assert output_of(controller) == "late \n"


SCRATCH = """
import os, signal, sys
from pathlib import Path
from kdyno import whole
with whole.scratch("made", Path(sys.argv[1])) as folder:
    (folder / "file").write_text("x")
    if sys.argv[2] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
print(*sorted(it.name for it in Path(sys.argv[1]).iterdir()))
"""


def test_nothing_stays_of_a_folder_removed_with_its_lock(seen: Path, tmp_path: Path) -> None:
    """As on NFS, an open file that is removed is there under another name until it is closed."""
    request = (sys.executable, "-c", SCRATCH, str(seen))
    dead = machine("n1", seen, *request, "die")
    dead.communicate(timeout=LIMIT_S)
    assert len(list((tmp_path / "real").iterdir())) == 1
    assert output_of(machine("n1", seen, *request, "live")) == "\n"
    assert list((tmp_path / "real").iterdir()) == []
