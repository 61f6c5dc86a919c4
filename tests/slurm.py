# SPDX-License-Identifier: MIT
"""A Slurm controller with two virtual nodes and its munge, on loopback in a folder of its own.

All of them run as whoever tests. Each node has one CPU and is given to one job at a time.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import needed

NODES = ("n1", "n2")
PARTITION = "lab"
LIMIT_S = 1800.0
"""Of what hangs. A job waits until nobody else on this machine measures, however long that is."""
_CONFIGURATION = """\
ClusterName=kdyno
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MailProg=/bin/true
SlurmdTimeout=300
MessageTimeout=100
TCPTimeout=60
KillWait=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 RealMemory=1000
PartitionName={partition} Nodes=n1,n2 Default=YES State=UP OverSubscribe=EXCLUSIVE
"""


class Cluster:
    """``environment`` is what Slurm's commands need to find it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        file = folder / "slurm.conf"
        self.environment = {**os.environ, "SLURM_CONF": str(file)}
        for name, mode in (("munge", 0o711), ("state", 0o700)):
            (folder / name).mkdir(mode=mode)
        key = folder / "munge" / "key-file"
        key.write_bytes(secrets.token_bytes(64))
        key.chmod(0o400)
        file.write_text(
            _CONFIGURATION.format(
                folder=folder,
                host=socket.gethostname().partition(".")[0],
                ports=_free_ports(3),
                user=(os.geteuid() and os.environ.get("USER")) or "root",
                partition=PARTITION,
            )
        )
        # Found by itself, the plugin wants cgroups mounted, which a container need not have.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

    def start(self) -> None:
        names = ("key-file", "seed-file", "socket", "pid-file", "log-file")
        options = [f"--{name}={self.folder / 'munge' / name}" for name in names]
        self._start("munge", "munged", "--foreground", "--num-threads=2", *options)
        self.start_controller()
        for node in NODES:
            self.start_node(node)

    def start_controller(self) -> None:
        self._start("controller", "slurmctld", "-D")

    def start_node(self, name: str) -> None:
        """Returns when the controller gives it jobs. Each has a CPU of its own, as far as there
        are CPUs."""
        own = sorted(os.sched_getaffinity(0))
        cpu = own[NODES.index(name) % len(own)]
        self._start(name, "taskset", "-c", str(cpu), "slurmd", "-D", "-N", name)
        self.wait(f"node {name}", lambda: "idle" in self.do("sinfo", "-hN", "-n", name, "-o", "%T"))

    def kill(self, name: str) -> None:
        """``controller`` or a node, as if its machine had lost its power.

        That a node is lost the controller is told here: where it had to find out by itself, after
        ten seconds of silence, it lost nodes that a busy machine had not let answer.
        """
        process = self._processes.pop(name)
        process.kill()
        process.wait()
        if name in NODES:
            for pid in self._of_jobs(name):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.wait(f"{name} to be lost", lambda: self.becomes(name, "down", "reason=lost"))

    def becomes(self, node: str, state: str, *more: str, result: str = "") -> bool:
        """Whether the node has this state, or ``result`` then, after being told so:
        a busy controller refuses at times."""
        self.do("scontrol", "update", f"nodename={node}", f"state={state}", *more)
        return (result or state) in self.do("sinfo", "-hN", "-n", node, "-o", "%T")

    def _of_jobs(self, node: str) -> list[int]:
        """Processes of its jobs, and before them what looks after these."""
        below = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                own = (entry / "environ").read_bytes().split(b"\0")
                mine = f"SLURM_CONF={self.folder / 'slurm.conf'}".encode() in own
                if mine and f"SLURMD_NODENAME={node}".encode() in own:
                    below.append(int(entry.name))
        above = []
        for pid in below:
            with suppress(OSError):
                message = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                if Path(f"/proc/{message[1]}/comm").read_text().startswith("slurmstepd"):
                    above.append(int(message[1]))
        return [*above, *below]

    def do(self, *command: str) -> str:
        """stdout of one of Slurm's commands; "" when it failed."""
        done = subprocess.run(command, env=self.environment, capture_output=True, timeout=LIMIT_S)
        return done.stdout.decode()

    def wait(self, what: str, ready: object) -> None:
        end = time.monotonic() + LIMIT_S
        while not ready():  # type: ignore[operator]
            assert time.monotonic() < end, f"{what}: not within {LIMIT_S} s\n{self.logs()}"
            time.sleep(0.05)

    def logs(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in logs)

    def end(self) -> None:
        self.do("scancel", "--partition", PARTITION)
        # What a node runs outlives it: the node has to be there to end it.
        end = time.monotonic() + 15
        while self.do("squeue", "-h").strip() and time.monotonic() < end:
            time.sleep(0.1)
        for pid in [pid for node in NODES for pid in self._of_jobs(node)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, program: str, *words: str) -> None:
        program_path = needed.path_of(program)
        assert program_path is not None
        with (self.folder / f"{name}.out").open("ab") as message:
            self._processes[name] = subprocess.Popen(
                [program_path, *words], env=self.environment, stdout=message, stderr=message
            )


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Ended and removed afterwards, with all jobs."""
    needed.need("slurmctld", "slurmd", "munged", "taskset")
    with tempfile.TemporaryDirectory(prefix="kdyno-slurm-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        running = Cluster(folder)
        try:
            running.start()
            yield running
        finally:
            running.end()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
