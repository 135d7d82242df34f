"""What a signal leaves of each long command: processes, shared memory, temporary folders, files.

Each command runs with a folder of temporary files, a home and a ``/dev/shm`` of its own, so that what lies there is its.
Its processes are known by a variable that all of them inherit. ``python -m tests.test_leftovers`` prints the table of
``docs/security.md``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = [pytest.mark.netns, pytest.mark.slow]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
#: Seconds until all processes must have ended. torchrun gives its ranks 30.
WITHIN_S = 45.0
_MARK = "DISTCHECK_TEST_LEFTOVERS"
_JOB = """\
import time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
open("written-by-the-job", "w").write("x")
for _ in range(600):
    model(torch.ones(2, 4)).sum().backward()
    time.sleep(0.1)
"""


class Case(NamedTuple):
    """A command, when it is in the middle of its work, and what it may leave in its working folder."""

    name: str
    arguments: tuple[str, ...]
    #: processes besides the first one that run before the signal is sent
    children: int = 0
    prepare: Callable[[Path], subprocess.Popen[bytes] | None] = lambda _: None
    #: seconds that it works on before the signal
    after_s: float = 0.3
    needs_torch: bool = False
    #: torchrun that is killed leaves its ranks, whatever they run: SIGKILL ends all
    whole_job: bool = False
    #: the beginning of temporary files of other programs
    foreign: str = "/"
    variables: Mapping[str, str] = {}


def _job(folder: Path) -> None:
    (folder / "train.py").write_text(_JOB)


def _sources(folder: Path) -> None:
    text = Path(__file__).read_text(encoding="utf-8") + "\nimport torch.distributed as dist\ndist.barrier()\n"
    for number in range(3000):
        (folder / f"m{number}.py").write_text(f"{text}# {number}\n")


def _pickles(folder: Path) -> None:
    for number in range(60):
        (folder / f"p{number}.pkl").write_bytes(b"(" + b"I1\n0" * 400_000 + b"t.")


def _sleeper(folder: Path) -> None:
    (folder / "sleep.py").write_text("import time\ntime.sleep(600)\n")


def _rank(folder: Path) -> subprocess.Popen[bytes]:
    variables = {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "leftovers"}
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], cwd=folder, env={**os.environ, **variables}
    )


def _log(folder: Path) -> None:
    (folder / "a.log").write_text("[rank0]: starting\n")


def _logs(folder: Path) -> None:
    lines = "".join(
        f"[rank{rank}]: RuntimeError: CUDA error: invalid device ordinal {rank}\n" for rank in range(20_000)
    )
    for number in range(40):
        (folder / f"{number}.log").write_text(lines * 2)


#: The first of two tasks of a step, of which the other never comes.
_STEP = {
    "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "3", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2",
    "SLURM_STEP_NUM_TASKS": "2", "SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_STEP_NUM_NODES": "2", "SLURM_NODEID": "0", "SLURMD_NODENAME": "gpu00",
    "SLURM_STEP_NODELIST": "gpu[00-01]", "SLURM_JOB_NODELIST": "gpu[00-01]",
}  # fmt: skip

CASES = (
    Case("env", ("env",), after_s=0.05),
    Case("lint -j 2", ("lint", "-j", "2", "."), 2, _sources),
    Case("pickle -j 2", ("pickle", "-j", "2", "."), 2, _pickles),
    Case("ci", ("ci", "--parts", "lint"), 3, _sources),
    Case("run", ("run", "--", sys.executable, "sleep.py"), 1, _sleeper, 0.5),
    Case("log -j 2", ("log", "-j", "2", "."), 2, _logs),
    Case("lsp", ("lsp",), 0, after_s=2.0),
    Case("log --follow", ("log", "--follow", "a.log"), 0, _log, 1.0),
    Case("log on a pipe", ("log", "-"), 0, after_s=2.0),
    Case("env --merge", ("env", "--merge", "--wait", "600"), 0, after_s=5.0, variables=_STEP),
    Case("stuck", ("stuck", "--job", "leftovers", "--hang-timeout", "600"), 0, _rank, 4.0),
    Case("collective --nnodes", ("collective", "--nnodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1",
         "--master-port", "29617", "--nproc", "2", "--backend", "gloo"), 0, after_s=6.0, needs_torch=True),
    Case("collective", ("collective", "--nproc", "2", "-n", "2000"), 2, needs_torch=True, after_s=2.0),
    Case("rehearse", ("rehearse", "--nnodes", "1", "--nproc-per-node", "2", "--steps", "0", "--", "train.py"), 2, _job,
         6.0, needs_torch=True),
    Case("torchrun -m distcheck.watch", ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0",
         "-m", "distcheck.watch", "train.py"), 2, _job, 6.0, needs_torch=True, whole_job=True,
         foreign="torchelastic_"),
)  # fmt: skip


class Left(NamedTuple):
    """What was found after a signal."""

    processes: int
    shared_memory: tuple[str, ...]
    temporary: tuple[str, ...]
    #: in the working folder and the home
    files: tuple[str, ...]
    #: seconds until no process was left
    seconds: float


@contextlib.contextmanager
def _started(case: Case, base: Path, mark: str) -> Iterator[subprocess.Popen[bytes]]:
    for name in ("tmp", "home", "shm", "work"):
        (base / name).mkdir(parents=True, exist_ok=True)
    beside = None if any((base / "work").iterdir()) else case.prepare(base / "work")
    own = case.arguments if case.arguments[0] == "-m" else ("-m", "distcheck", *case.arguments)
    command = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /dev/shm && exec "$@"', str(base / "shm")]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("DISTCHECK_")},
        _MARK: mark, "TMPDIR": str(base / "tmp"), "HOME": str(base / "home"), "OMP_NUM_THREADS": "1",
        "XDG_CACHE_HOME": str(base / "home" / ".cache"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONDONTWRITEBYTECODE": "1", **case.variables,
    }  # fmt: skip
    with (base / "output").open("wb") as output:
        process = subprocess.Popen(
            [*command, sys.executable, *own],
            cwd=base / "work", env=environment, stdin=subprocess.PIPE, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        for pid in _alive(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        if beside is not None:
            beside.kill()
            beside.wait()


def _alive(mark: str) -> list[int]:
    """The processes that inherited the mark and are no zombies."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{name}/environ").read_bytes()
            state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
            if f"{_MARK}={mark}".encode() in environment.split(b"\0") and state not in "ZX":
                found.append(int(name))
    return found


def _entries(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(str(path.relative_to(folder)) for path in folder.rglob("*")))


def _when_ready(case: Case, process: subprocess.Popen[bytes], mark: str) -> None:
    until = time.monotonic() + 90
    while len([pid for pid in _alive(mark) if pid != process.pid]) < case.children:
        assert process.poll() is None and time.monotonic() < until, "it ended before the signal"
        time.sleep(0.02)
    if not case.children:  # the interpreter has started: what comes before is not ours
        while not Path(f"/proc/{process.pid}/exe").resolve().name.startswith("python"):
            assert process.poll() is None
            time.sleep(0.01)
    time.sleep(case.after_s)


def measure(case: Case, number: signal.Signals, base: Path) -> Left:
    """Start a command, send a signal to its first process, and return what is left of it."""
    mark = uuid.uuid4().hex
    with _started(case, base, mark) as process:
        before = set(_entries(base / "work"))
        _when_ready(case, process, mark)
        assert case.name == "env" or process.poll() is None, (base / "output").read_text()
        for pid in _alive(mark) if case.whole_job and number == signal.SIGKILL else [process.pid]:
            os.kill(pid, number)
        sent = time.monotonic()
        while (alive := [pid for pid in _alive(mark) if pid != process.pid or process.poll() is None]) and (
            time.monotonic() < sent + WITHIN_S
        ):
            time.sleep(0.05)
        seconds = time.monotonic() - sent
    cache = (".cache", ".cache/distcheck")
    files = [name for name in _entries(base / "work") if name not in before]
    files += [name for name in _entries(base / "home") if not name.startswith(cache)]
    temporary = [name for name in _entries(base / "tmp") if not name.startswith(case.foreign)]
    return Left(len(alive), _entries(base / "shm"), tuple(temporary), tuple(files), seconds)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[pytest.mark.torch] * case.needs_torch) for case in CASES]
)
def test_a_signal_leaves_nothing(case: Case, number: signal.Signals, tmp_path: Path) -> None:
    left = measure(case, number, tmp_path)
    if case.name == "rehearse" and number == signal.SIGKILL:
        assert any(name.startswith("distcheck-rehearsal-") for name in left.temporary)
        before = left.processes
        left = measure(case, signal.SIGTERM, tmp_path)  # the next run removes what it left
        assert not before
    if case.name == "env --merge" and number == signal.SIGKILL:
        assert left == (0, (), (), (".distcheck-77.3", ".distcheck-77.3/collector"), left.seconds)
        left = measure(case, signal.SIGTERM, tmp_path)  # the next run of this job removes it
        assert not [*(tmp_path / "work").iterdir()]
    assert left[:4] == (0, (), (), ()), left


def main() -> None:
    """Print the table."""
    print(
        "| command | signal | processes | /dev/shm | temporary files | other files | s |\n| - | - | - | - | - | - | - |"
    )
    for case in CASES:
        if sys.argv[1:] and sys.argv[1] not in case.name:
            continue
        for number in SIGNALS:
            base = Path(tempfile.mkdtemp())
            try:
                left = measure(case, number, base)
                shown = " | ".join(str(len(names)) for names in (left.shared_memory, left.temporary, left.files))
                print(
                    f"| `{case.name}` | {number.name} | {left.processes} | {shown} | {left.seconds:.1f} |", flush=True
                )
                for names in left[1:4]:
                    if names:
                        print("   ", names[:12], file=sys.stderr, flush=True)
            finally:
                shutil.rmtree(base)


if __name__ == "__main__":
    main()
