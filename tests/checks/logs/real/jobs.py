"""The jobs that are started here, how, and what must be told of them.

A job is a script under ``scripts/``, a way to start it, and the truth: the code that is told first, and the rank that is
to blame where the output shows it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest import SkipTest

from .bench import Bench, Line, Listener, Recording, Task, free_port, record

#: What the outcome of a report must be where no rule is the cause.
UNNAMED, CONSEQUENCES, CLEAN = "unnamed", "consequences", "clean"
LOCAL = ("--standalone", "--local-addr=127.0.0.1")

Make = Callable[[Sequence[Bench], Path], Recording]


class Job(NamedTuple):
    """A way to fail, or to be healthy."""

    name: str
    make: Make
    #: codes of which one must be told first, or outcomes
    expected: tuple[str, ...]
    #: the rank that is to blame; None: the output names none, or several did the same
    rank: int | None = None
    #: how the output is given to distcheck: ``plain``, ``label``, ``files``, ``folder`` (what ``--log-dir`` left)
    style: str = "plain"
    #: codes that must be among the findings
    also: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


# ways to start


def torchrun(
    *arguments: str,
    ranks: int | str = 2,
    options: Sequence[str] = LOCAL,
    limit_s: float = 60.0,
    mounts: Mapping[str, str] | None = None,
    limits: Mapping[str, int] | None = None,
    signals: tuple[tuple[float, int], ...] = (),
    signal_at: str = "",
    env: Mapping[str, str] | None = None,
    folders: Sequence[str] = (),
) -> Make:
    """One torchrun of several ranks."""

    def make(benches: Sequence[Bench], folder: Path) -> Recording:
        if mounts and not _can_mount():
            raise SkipTest("no file system can be mounted here")
        for name in folders:
            (folder / name).mkdir(parents=True)
        filled = _filled(env or {}, folder)
        task = Task(
            "torchrun",
            (*options, f"--nproc-per-node={ranks}", *arguments),
            env=filled,
            mounts={os.path.join(folder, where): size for where, size in (mounts or {}).items()},
            limits=limits or {},
            signals=signals,
            signal_at=signal_at,
        )
        return record(benches, [task], folder, limit_s=limit_s)

    return make


def by_hand(
    program: str,
    *arguments: str,
    ranks: int | Sequence[int] = 2,
    world_size: int | None = None,
    env: Mapping[str, str] | None = None,
    each: Mapping[int, Mapping[str, str]] | None = None,
    without: Sequence[str] = (),
    limit_s: float = 40.0,
    mounts: Mapping[str, str] | None = None,
    limits: Mapping[str, int] | None = None,
    folders: Sequence[str] = (),
    hosts: Sequence[int] = (),
    signals: tuple[tuple[float, int], ...] = (),
) -> Make:
    """A process for each rank, its variables set by whoever starts it, as ``srun python`` and mpirun users do.

    :param each: variables of the process with this number
    :param without: variables that were forgotten
    :param hosts: which host runs each process
    """

    def make(benches: Sequence[Bench], folder: Path) -> Recording:
        if mounts and not _can_mount():
            raise SkipTest("no file system can be mounted here")
        for name in folders:
            (folder / name).mkdir(parents=True)
        numbers = list(range(ranks)) if isinstance(ranks, int) else list(ranks)
        port = str(free_port())
        tasks = []
        for number, rank in enumerate(numbers):
            given = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(world_size or len(numbers)),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                **_filled(env or {}, folder),
                **_filled((each or {}).get(number, {}), folder),
            }
            for name in without:
                del given[name]
            tasks.append(
                Task(
                    program,
                    arguments,
                    env=given,
                    mounts={os.path.join(folder, where): size for where, size in (mounts or {}).items()},
                    limits=limits or {},
                    host=hosts[number] if hosts else 0,
                    signals=signals if number == 0 else (),
                )
            )
        return record(benches, tasks, folder, limit_s=limit_s)

    return make


def _filled(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """``{folder}`` and ``{port}`` stand for the job's own."""
    port = str(free_port())
    return {name: value.replace("{folder}", str(folder)).replace("{port}", port) for name, value in env.items()}


def beside_a_file(name: str, text: str, make: Make) -> Make:
    """A job in whose folder a file lies."""

    def made(benches: Sequence[Bench], folder: Path) -> Recording:
        folder.mkdir(parents=True)
        (folder / name).write_text(text, encoding="utf-8")
        return make(benches, folder)

    return made


def with_line(text: str, make: Make) -> Make:
    """A job after whose end its scheduler writes a line."""

    def made(benches: Sequence[Bench], folder: Path) -> Recording:
        recording = make(benches, folder)
        now = time.strftime("%Y-%m-%dT%H:%M:%S")
        return recording._replace(lines=(*recording.lines, Line(-1, text.format(now=now))))

    return made


@contextmanager
def _held(answer: bytes) -> Iterator[str]:
    with Listener(answer) as listener:
        yield str(listener.port)


def on_a_held_port(make_with: Callable[[str], Make], answer: bytes = b"") -> Make:
    """A job whose port another program holds."""

    def made(benches: Sequence[Bench], folder: Path) -> Recording:
        with _held(answer) as port:
            return make_with(port)(benches, folder)

    return made


def _static_torchrun(port: str) -> Make:
    return torchrun("train.py", options=("--master-addr=127.0.0.1", f"--master-port={port}"))


def _by_hand_at(port: str) -> Make:
    return by_hand("train.py", "--timeout=4", env={"MASTER_PORT": port})


def _second_rank_at(port: str) -> Make:
    return by_hand("train.py", "--timeout=4", ranks=[1], world_size=2, env={"MASTER_PORT": port})


def launched_twice(benches: Sequence[Bench], folder: Path) -> Recording:
    """``srun -n3 torchrun …``: three tasks of one host start a launcher each, at the same port.

    The first one starts its workers; srun ends it because the others failed.
    """
    options = ("--master-addr=127.0.0.1", f"--master-port={free_port()}", "--nproc-per-node=2", "waits.py")
    first = Task("torchrun", options, signals=((0.5, signal.SIGTERM),), signal_at="step")
    return record(benches, [first, *(Task("torchrun", options, after_s=1.0) for _ in range(2))], folder)


def different_ids(benches: Sequence[Bench], folder: Path) -> Recording:
    """Two torchruns that should meet, each with an id of its own."""
    port = free_port()
    tasks = [
        Task(
            "torchrun",
            (
                "--nnodes=2",
                "--nproc-per-node=1",
                f"--rdzv-id={number}",
                "--rdzv-backend=c10d",
                f"--rdzv-endpoint=127.0.0.1:{port}",
                f"--rdzv-conf=join_timeout=4,is_host={int(number == 0)}",
                "train.py",
            ),
            after_s=float(number),
        )
        for number in range(2)
    ]
    return record(benches, tasks, folder)


def duplicated_zero(benches: Sequence[Bench], folder: Path) -> Recording:
    """Both tasks say that they are rank 0: LOCAL_RANK was taken for RANK."""
    return by_hand("train.py", "--timeout=4", ranks=[0, 0], world_size=2)(benches, folder)


def in_a_memory_cgroup(benches: Sequence[Bench], folder: Path) -> Recording:
    """One rank may take 1 GiB, and the kernel ends it when it takes more."""
    group = memory_cgroup()
    if group is None:
        raise SkipTest("no memory cgroup can be made here")
    try:
        return torchrun("eats_memory.py", env={"MEMORY_CGROUP": str(group)})(benches, folder)
    finally:
        for _ in range(50):
            try:
                group.rmdir()
            except OSError:
                time.sleep(0.1)
            else:
                break


@cache
def _can_mount() -> bool:
    """Whether a process here may have file systems of its own."""
    command = ["unshare", "-m", "sh", "-c", "mount --make-rprivate / && mount -t tmpfs none /dev/shm"]
    try:
        return subprocess.run(command, capture_output=True, timeout=20).returncode == 0
    except OSError:
        return False


def memory_cgroup() -> Path | None:
    """A new memory cgroup with a limit of 1 GiB; None where none can be made."""
    for root, limit in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.max"),
    ):
        group = root / f"bench-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(1 << 30))
        except OSError:
            group.rmdir()
            continue
        return group
    return None


SHADOW = 'VERSION = "0.1"\n'
LOG_DIR = (*LOCAL, "--log-dir=logs", "--redirects=3")
LOG_DIR_TEE = (*LOCAL, "--log-dir=logs", "--tee=3")
RESTARTS = (*LOCAL, "--max-restarts=1")
SLURM_LIMIT = "slurmstepd: error: *** JOB 4711 ON node01 CANCELLED AT {now} DUE TO TIME LIMIT ***"

JOBS: tuple[Job, ...] = (
    # the launch and its variables
    Job("rank-missing", by_hand("train.py", ranks=1, without=["RANK", "LOCAL_RANK", "WORLD_SIZE"]), ("DC101",)),
    Job("world-size-missing", by_hand("train.py", without=["WORLD_SIZE"]), ("DC101",), style="label"),
    Job("master-addr-missing", by_hand("train.py", ranks=3, without=["MASTER_ADDR"]), ("DC101",), style="files"),
    Job(
        "port-of-a-service", by_hand("train.py", env={"MASTER_PORT": "tcp://10.1.2.3:29500"}), ("DC102",), style="label"
    ),
    Job("port-out-of-range", by_hand("train.py", env={"MASTER_PORT": "70000"}), ("DC102",)),
    Job("rank-no-number", by_hand("train.py", env={"RANK": "node01"}, ranks=1), ("DC102",)),
    Job("rank-beyond", by_hand("train.py", "--timeout=4", ranks=[0, 1, 3], world_size=3), ("DC103",), 3, "files"),
    Job(
        "world-sizes-differ",
        by_hand("train.py", "--timeout=4", world_size=3, each={1: {"WORLD_SIZE": "2"}}),
        ("DC103", "DC501"),
        style="label",
    ),
    Job("agent-store-leak", torchrun("own_address.py", env={"OWN_PORT": "{port}"}), ("DC104",)),
    Job(
        "agent-store-leak-shell",
        by_hand("train.py", "--timeout=3", env={"TORCHELASTIC_USE_AGENT_STORE": "True"}),
        ("DC104", "DC403"),
        style="label",
    ),
    Job("launched-twice", launched_twice, ("DC106",), style="label"),
    Job("hangup", torchrun("waits.py", signals=((1.0, signal.SIGHUP),), signal_at="step"), ("DC117",)),
    Job("nccl-on-cpu", torchrun("train.py", "--backend=nccl"), ("DC120",)),
    Job("set-device-on-cpu", by_hand("set_device.py"), ("DC120",)),
    Job("mpi-absent", by_hand("train.py", "--backend=mpi", ranks=3), ("DC120",), style="label"),
    Job("nproc-gpu", torchrun("train.py", ranks="gpu"), ("DC121",)),
    Job("module-shadowed", beside_a_file("torch.py", SHADOW, torchrun("train.py")), ("DC122",)),
    Job(
        "time-limit",
        with_line(SLURM_LIMIT, by_hand("waits.py", ranks=4, signals=((1.0, signal.SIGTERM),))),
        ("DC125",),
        style="label",
    ),
    Job(
        "old-launcher",
        by_hand("launch", "--nproc_per_node=2", "old_argument.py", "--epochs", "3", ranks=1, limit_s=120.0),
        ("DC207",),
    ),
    Job(
        "old-launcher-healthy",
        by_hand("launch", "--nproc_per_node=2", "both_spellings.py", ranks=1, limit_s=120.0),
        (CLEAN,),
        also=("DC801",),
    ),
    Job(
        "options-behind-script", torchrun("train.py", "--nproc-per-node=4", "--rdzv-backend=c10d", ranks=1), ("DC803",)
    ),
    Job("without-group", by_hand("without_group.py"), ("DC740",)),
    Job("reduce-without-group", by_hand("reduce_without_group.py"), ("DC740",), style="label"),
    Job("init-twice", by_hand("init_twice.py"), ("DC741",)),
    # the network
    Job("port-taken-static", on_a_held_port(_static_torchrun), ("DC401",)),
    Job("port-taken-by-hand", on_a_held_port(_by_hand_at), ("DC401",), 0, "label"),
    Job(
        "port-of-a-web-server",
        on_a_held_port(_second_rank_at, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
        ("DC401", "DC403"),
    ),
    Job(
        "name-unknown",
        by_hand("train.py", "--timeout=3", env={"MASTER_ADDR": "node01.invalid"}),
        ("DC404",),
        style="label",
    ),
    Job("master-refused", by_hand("train.py", "--timeout=3", ranks=[1, 2], world_size=3), ("DC403",), style="files"),
    Job("gloo-interface", torchrun("train.py", env={"GLOO_SOCKET_IFNAME": "ib0"}), ("DC407",)),
    Job(
        "gloo-interface-list", by_hand("train.py", env={"GLOO_SOCKET_IFNAME": "^lo,docker0"}), ("DC407",), style="label"
    ),
    # ranks that don't come, or not at the same place
    Job("rank-absent", by_hand("train.py", "--timeout=4", ranks=[0, 1], world_size=3), ("DC501",), 2, "files"),
    Job(
        "rank-twice",
        by_hand("train.py", "--timeout=4", ranks=[0, 1, 1], world_size=3),
        ("DC501", "DC502"),
        style="label",
    ),
    Job("zero-twice", duplicated_zero, ("DC502", "DC401", "DC103"), style="label"),
    Job(
        "node-absent",
        torchrun(
            "train.py",
            options=(
                "--nnodes=2",
                "--rdzv-backend=c10d",
                "--rdzv-endpoint=127.0.0.1:0",
                "--rdzv-conf=join_timeout=3,is_host=1",
            ),
        ),
        ("DC501",),
    ),
    Job("rendezvous-ids-differ", different_ids, ("DC501",), style="label"),
    Job("models-differ", by_hand("models_differ.py", ranks=2), ("DC709",)),
    Job("shapes-differ", by_hand("shapes_differ.py"), ("DC709",), style="label"),
    Job("sizes-differ", torchrun("sizes_differ.py", ranks=2), ("DC517",)),
    Job("sizes-differ-detail", by_hand("sizes_differ.py", env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}), ("DC517",)),
    Job(
        "kinds-differ-detail",
        by_hand("kinds_differ.py", ranks=3, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
        ("DC517",),
        style="label",
    ),
    Job("in-a-branch", by_hand("in_a_branch.py", ranks=3), ("DC511", "DC701", "DC517"), style="label"),
    # on a busy machine the rank that lost a peer may write before those that ran out of time, and the text has no times
    Job(
        "branch-and-leave", by_hand("branch_and_leave.py", ranks=4), ("DC511", "DC701"), style="label", marks=("quiet",)
    ),
    Job("monitored-barrier", by_hand("monitored.py", ranks=4), ("DC511", "DC701", "DC501"), 2, "label"),
    Job("monitored-barrier-all", by_hand("monitored_all.py", ranks=5), ("DC511", "DC701", "DC501"), style="label"),
    Job("uneven-inputs", by_hand("uneven.py", ranks=3), ("DC519", "DC701", "DC517", "DC511"), style="label"),
    Job("slow-first-rank", by_hand("slow_first.py", ranks=3), ("DC511", "DC726"), style="label"),
    Job(
        "dumps-of-a-branch",
        by_hand("dumps.py", ranks=3, env={"TORCH_FR_BUFFER_SIZE": "100", "DUMPS": "{folder}/dumps"}, folders=["dumps"]),
        ("DC701", "DC517", "DC511"),
        1,
        "dumps",
    ),
    Job("small-floats", by_hand("small_floats.py"), ("DC512",)),
    # the host's limits
    Job("killed", torchrun("is_killed.py", ranks=2), ("DC323",), 1),
    Job("memory-cgroup", in_a_memory_cgroup, ("DC323",), 1, marks=("root",)),
    Job("memory-limit", by_hand("limited_memory.py"), ("DC323",), 1),
    Job("memory-limit-python", by_hand("limited_memory_python.py"), ("DC323",), 1, "label"),
    Job("open-files", by_hand("many_files.py", limits={"NOFILE": 256}), ("DC321",)),
    Job("open-files-loader", by_hand("shared_tensors.py", limits={"NOFILE": 200}), ("DC321",), style="label"),
    Job("threads", by_hand("many_threads.py"), ("DC324",), 0, marks=("root",)),
    Job("shm-full", torchrun("loader_shm.py", mounts={"/dev/shm": "4m"}), ("DC320",), marks=("root",)),
    Job(
        "disk-full-checkpoint",
        by_hand("saves_much.py", mounts={"checkpoints": "1m"}, folders=["checkpoints"]),
        ("DC327",),
        0,
        marks=("root",),
    ),
    Job(
        "disk-full-log",
        by_hand("writes_much.py", mounts={"checkpoints": "1m"}, folders=["checkpoints"]),
        ("DC327",),
        1,
        "label",
        marks=("root",),
    ),
    # pickles and checkpoints
    Job("group-copied", by_hand("copies_group.py"), ("DC602",)),
    Job("group-saved", by_hand("saves_group.py"), ("DC602",), 0, "label"),
    Job("lambda-spawned", by_hand("spawns_lambda.py", ranks=1), ("DC605",)),
    Job("local-function-spawned", by_hand("spawns_local.py", ranks=1), ("DC605",)),
    Job("loader-of-a-local-function", by_hand("loader_local.py"), ("DC605", "DC601")),
    Job("lock-gathered", by_hand("gathers_lock.py", ranks=2), ("DC601",), style="label"),
    Job("options-in-checkpoint", by_hand("loads_options.py"), ("DC611",)),
    Job("torn-checkpoint", by_hand("loads_torn.py"), ("DC612",)),
    Job("torn-large-checkpoint", by_hand("loads_torn_large.py"), ("DC612",), style="files"),
    Job("torn-old-checkpoint", by_hand("loads_torn_old.py"), ("DC612",), style="label"),
    Job("empty-checkpoint", by_hand("loads_empty.py"), ("DC612",), style="label"),
    Job("saved-together", by_hand("saves_together.py", ranks=4), ("DC720", "DC612"), style="label"),
    Job("wrapped-weights", by_hand("loads_wrapped.py"), ("DC614",)),
    Job("unused-parameters", by_hand("unused.py"), ("DC754",)),
    # failures that are nobody's rule: the rank must be right
    Job("exception", torchrun("raises.py", ranks=3), (UNNAMED,), 2),
    Job("exception-labelled", by_hand("raises.py", ranks=8), (UNNAMED,), 2, "label"),
    Job("exception-files", by_hand("raises.py", ranks=4), (UNNAMED,), 2, "files"),
    Job("exception-recorded", torchrun("raises_recorded.py", options=LOG_DIR), (UNNAMED,), 1, "folder"),
    Job("exception-tee", torchrun("raises_recorded.py", options=LOG_DIR_TEE), (UNNAMED,), 1),
    Job("exception-restarted", torchrun("dies_early.py", ranks=3, options=RESTARTS), (UNNAMED,), 2),
    Job("exception-early", by_hand("dies_early.py", ranks=3), (UNNAMED,), 2, "files"),
    Job("exception-in-loader", by_hand("loader_raises.py", ranks=2), (UNNAMED,), 1, "label"),
    Job("exits", torchrun("exits.py"), (UNNAMED, CONSEQUENCES), 1),
    Job("segfault", torchrun("segfaults.py", ranks=2), (UNNAMED, CONSEQUENCES), 1),
    Job(
        "segfault-folder", torchrun("segfaults.py", ranks=2, options=LOG_DIR_TEE), (UNNAMED, CONSEQUENCES), 1, "folder"
    ),
    Job(
        "spawned-raises",
        by_hand("spawns_raising.py", ranks=1, env={"OWN_PORT": "{port}"}, limit_s=120.0),
        (UNNAMED,),
        1,
    ),
    Job("spawned-dies", by_hand("spawns_dying.py", ranks=1, limit_s=120.0), (UNNAMED, CONSEQUENCES), 1),
    Job("module-missing", torchrun("missing_module.py"), (UNNAMED,)),
    Job(
        "terminated",
        torchrun("waits.py", signals=((1.0, signal.SIGTERM),), signal_at="step"),
        ("DC125", UNNAMED, CONSEQUENCES),
    ),
    Job(
        "interrupted", torchrun("waits.py", signals=((1.0, signal.SIGINT),), signal_at="step"), (UNNAMED, CONSEQUENCES)
    ),
    # nothing is wrong
    Job("healthy", torchrun("train.py", ranks=3), (CLEAN,)),
    Job("healthy-labelled", by_hand("train.py", ranks=8, limit_s=120.0), (CLEAN,), style="label"),
    Job("healthy-folder", torchrun("noisy.py", options=LOG_DIR), (CLEAN,), style="folder"),
    Job("healthy-noisy", by_hand("noisy.py"), (CLEAN,)),
    Job("healthy-noisy-files", by_hand("noisy.py", ranks=3), (CLEAN,), style="files"),
    Job("healthy-after-restart", torchrun("fails_once.py", options=RESTARTS), (CLEAN,)),
    Job(
        "healthy-node-rank",
        torchrun(
            "train.py",
            options=(
                "--nnodes=1",
                "--node-rank=1",
                "--rdzv-backend=c10d",
                "--rdzv-endpoint=127.0.0.1:0",
                "--local-addr=127.0.0.1",
            ),
        ),
        (CLEAN,),
        also=("DC806",),
    ),
)
BY_NAME = {job.name: job for job in JOBS}
