"""``distcheck stuck`` on children of this test: ranks by their environment that wait, sleep, are stopped or have gone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distcheck.checks.cluster.merge import HostReport, Missing
from distcheck.cli.stuck import _finish_merged, command, judged
from distcheck.core.checker import make_selection
from distcheck.core.configuration import Configuration
from distcheck.core.model import Report, Unavailable, to_plain
from distcheck.reporters import FORMATS, render
from distcheck.runtime.coordination.model import CollectiveCall, Frame, Position, Positions
from distcheck.runtime.inspect.gpu_use import GpuUse
from distcheck.runtime.inspect.snapshot import Snapshot

ROOT = Path(__file__).parents[3]
BESIDE = Path(sys.executable).parent / "py-spy"
PY_SPY = str(BESIDE) if BESIDE.exists() else shutil.which("py-spy")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
needs_py_spy = pytest.mark.skipif(PY_SPY is None, reason="py-spy is not installed")

#: A rank without torch: its collective is a file that is called as torch's is, and waits as torch's does.
COLLECTIVE = "import threading\n\n\ndef all_reduce():\n    threading.Event().wait()\n"
SCRIPT = """import os, sys, time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "site-packages"))
from torch.distributed import distributed_c10d as dist


def validate():
    time.sleep(600)


def train():
    print("ready", flush=True)
    if os.environ["RANK"] == "1":
        validate()
    dist.all_reduce()


train()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    package = tmp_path / "lib" / "site-packages" / "torch" / "distributed"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "distributed_c10d.py").write_text(COLLECTIVE)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(script: Path) -> Iterator[Start]:
    started = []

    def one(rank: int, *, size: int = 2, local_size: int = 2, wait: bool = True) -> subprocess.Popen[bytes]:
        environ = {
            **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(local_size), "TORCHELASTIC_RUN_ID": job(), "MASTER_ADDR": "n1", "MASTER_PORT": "1",
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, script.name], env=environ, cwd=script.parent, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.2)
        return process

    yield one
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def job() -> str:
    return f"stuck-{os.getpid()}"


def stuck(*options: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "distcheck", "stuck", "--hang-timeout", "0.6", "--isolated", *options],
        cwd=ROOT, capture_output=True, text=True, timeout=60, env={**os.environ, **(environ or {})},
    )  # fmt: skip


def report(*options: str, environ: Mapping[str, str] | None = None) -> tuple[int, Any]:
    done = stuck(*options, "--output-format", "json", environ=environ)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@needs_py_spy
@pytest.mark.slow
def test_ranks_that_wait_are_told_apart_from_the_one_that_does_not_come(start: Start) -> None:
    pids = [start(0).pid, start(1).pid]
    status, plain = report("--job", job())
    (finding,) = plain["findings"]
    assert (status, finding["code"], finding["severity"]) == (3, "DC701", "warning")
    assert (
        "rank 1 is in validate() at train.py:7 and sleeps; rank 0 waits in all_reduce at train.py:14"
        in finding["message"]
    )
    (found,) = plain["subject"]["jobs"]
    assert [(item["rank"], item["pid"], item["state"]) for item in found["ranks"]] == [
        (0, pids[0], "waiting"), (1, pids[1], "computing"),
    ]  # fmt: skip
    done = stuck("--pid", str(pids[0]))
    text = done.stdout
    assert "rank 1 in other code" in text, (text, done.stderr)
    assert text.index("rank 1 in other code (asleep)") < text.index("rank 0 waiting in all_reduce")
    assert "validate  train.py:7" in text


@needs_py_spy
def test_nothing_is_done_to_a_rank(start: Start) -> None:
    process = start(0, size=1, local_size=1)
    before = Path(f"/proc/{process.pid}/status").read_text()
    report("--job", job())
    assert process.poll() is None
    after = Path(f"/proc/{process.pid}/status").read_text()

    def kept(text: str) -> list[str]:
        return [
            line for line in text.splitlines() if line.startswith(("State", "SigPnd", "ShdPnd", "SigCgt", "TracerPid"))
        ]

    assert kept(before) == kept(after)


@needs_py_spy
@pytest.mark.slow
def test_a_rank_that_is_stopped(start: Start) -> None:
    start(0)
    other = start(1)
    other.send_signal(signal.SIGSTOP)
    status, plain = report("--job", job())
    (finding,) = plain["findings"]
    assert (status, finding["code"], finding["fix"]["command"]) == (1, "DC511", f"kill -CONT {other.pid}")


@needs_py_spy
@pytest.mark.slow
def test_a_rank_whose_process_can_not_be_seen_is_not_checked(start: Start) -> None:
    start(0, size=4, local_size=1)
    status, plain = report("--job", job())
    (finding,) = plain["findings"]
    assert (status, finding["code"], finding["severity"]) == (3, "DC511", "info")
    assert [item["what"] for item in plain["not_checked"]] == ["ranks 1-3"]


@pytest.mark.slow
def test_without_py_spy_states_are_told_and_stacks_are_not_checked(start: Start, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.symlink_to(sys.executable)
    start(0)
    start(1)
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.executable = '/none/python'; sys.argv[0] = 'distcheck'; from distcheck.cli.main import main; main()",
         "stuck", "--job", job(), "--hang-timeout", "0.5", "--isolated", "--output-format", "json"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": "/none"},
    )  # fmt: skip
    plain = json.loads(done.stdout)
    assert (done.returncode, plain["findings"]) == (3, [])
    (missed,) = plain["not_checked"]
    assert missed["what"] == "the stacks of ranks 0-1"
    assert "pip install py-spy" in missed["why"]
    assert "no stack could be read" in done.stderr


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_tells_the_finding(name: str) -> None:
    call = CollectiveCall(0, "all_reduce", place="train.py:14", function="train")
    ranks = (
        Position(0, "n1", 20, "waiting", call, stack=(Frame("train.py", 14, "train", True),)),
        Position(1, "n1", 21, "computing", stack=(Frame("train.py", 7, "validate", True),), detail="asleep"),
    )
    seen = Snapshot("torchrun r7", Positions(ranks, 2), ("n1",), 30.0, (0, 1))
    use = GpuUse({20: {0: 12_300_000_000}}, {0: 100})
    made = judged([seen], make_selection((), (), ()), [], use, "n1")
    text = render(made, name)
    # what counts findings for a monitoring system names none of them
    assert "DC701" in text
    if name == "full":
        assert "process 20, n1, GPU 0 (100 % busy, 12.3 GB)" in text


@needs_py_spy
@pytest.mark.slow
def test_its_json_is_in_the_published_shape(start: Start) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    start(0)
    start(1)
    schema = json.loads((ROOT / "distcheck" / "reporters" / "report.schema.json").read_text())
    jsonschema.validate(report("--job", job())[1], schema)


@pytest.mark.parametrize(
    "options, told",
    [
        (("--pid", "4194999"), "no such process"),
        (("--pid", str(os.getppid() or 1), "--job", "x"), "both name a job"),
        (("--job", "no-such-job"), "no rank of it"),
        (("--hang-timeout", "soon"), "not a valid float"),
        (("--hang-timeout", "0"), "not in the range"),
        (("--wait", "3s"), "belongs to --merge"),
        (("--merge", "--pid", "1"), "--job ID"),
    ],
)
def test_what_is_used_wrongly(options: tuple[str, ...], told: str) -> None:
    done = stuck(*options)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert told in done.stderr


@needs_py_spy
@pytest.mark.slow
def test_hosts_are_merged_into_one_report(start: Start, tmp_path: Path) -> None:
    """Two tasks of one step; both look at this host, as one that shares its processes with the other would."""
    start(0)
    start(1)
    shared = tmp_path / "shared"
    shared.mkdir()

    def task(number: int) -> subprocess.Popen[str]:
        environ = {
            **os.environ, "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "3", "SLURM_PROCID": str(number), "SLURM_LOCALID": "0",
            "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2",
            "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NUM_NODES": "2", "SLURM_NODEID": str(number),
            "SLURMD_NODENAME": f"gpu0{number}", "SLURM_STEP_NODELIST": "gpu[00-01]", "SLURM_JOB_NODELIST": "gpu[00-01]",
        }  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-m", "distcheck", "stuck", "--merge", "--job", job(), "--hang-timeout", "0.5", "--wait", "20s",
             "--merge-dir", str(shared), "--isolated", "--output-format", "json"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ,
        )  # fmt: skip

    tasks = [task(0), task(1)]
    answers = [one.communicate(timeout=60) for one in tasks]
    plain = json.loads(answers[0][0])
    assert answers[1][0] == ""
    assert (tasks[0].returncode, tasks[1].returncode) == (3, 0), answers
    assert plain["subject"]["host"] == "gpu[00-01]"
    assert [item["rank"] for item in plain["subject"]["jobs"][0]["ranks"]] == [0, 1]
    assert [finding["code"] for finding in plain["findings"]] == ["DC701"]
    assert list(shared.iterdir()) == []


@pytest.mark.parametrize(("size", "interval_s"), [(10**12, 2.0), (-1, 2.0), (2, float("nan"))])
def test_a_snapshot_with_numbers_that_fit_no_job_is_damaged(
    size: int, interval_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = Snapshot("job", Positions((Position(0, "b"),), size), ("b",), interval_s)
    report = Report("stuck", subject={"snapshots": to_plain([forged])})
    given = command.make_context("stuck", ["--output-format", "json"]).params
    options = SimpleNamespace(given=given, selection=make_selection((), (), ()))
    assert _finish_merged([HostReport("b", report)], Missing(), options, configuration=Configuration()) == 3
    (missed,) = json.loads(capsys.readouterr().out)["not_checked"]
    assert missed["what"] == "b"
    assert "it is damaged" in missed["why"]


AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")


def can_run_as_nobody() -> bool:
    """Whether there is such a user here, and it may read all that is needed: a Python in a home may be closed to it."""
    if os.geteuid() != 0 or shutil.which(AS_NOBODY[0]) is None:
        return False
    needed = ([sys.executable, "-m", "distcheck", "stuck", "--help"], [str(PY_SPY), "--version"])
    return all(subprocess.run([*AS_NOBODY, *one], cwd=ROOT, capture_output=True).returncode == 0 for one in needed)


@needs_py_spy
def test_as_a_user_without_rights_its_own_ranks_are_read_and_the_hidden_one_is_named(script: Path) -> None:
    """A process that has forbidden it (PR_SET_DUMPABLE) can't be read by its owner; it may be a rank."""
    if not can_run_as_nobody():
        pytest.skip("this user can't become another one that can run this distcheck and py-spy")
    hidden = "import ctypes, os\nif os.environ['RANK'] == '1':\n    ctypes.CDLL(None).prctl(4, 0)\n"
    script.write_text(hidden + SCRIPT)
    # pytest's own folders are closed to others
    folder = tempfile.mkdtemp()
    shutil.copytree(script.parent, folder, dirs_exist_ok=True)
    os.chmod(folder, 0o755)
    started = []
    try:
        for rank in ("0", "1"):
            environ = {**os.environ, "RANK": rank, "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": job()}
            started.append(
                subprocess.Popen(
                    [*AS_NOBODY, sys.executable, script.name], cwd=folder, env=environ, stdout=subprocess.PIPE
                )
            )
            assert started[-1].stdout.readline() == b"ready\n"
        done = subprocess.run(
            [*AS_NOBODY, sys.executable, "-m", "distcheck", "stuck", "--job", job(), "--hang-timeout", "0.6", "--isolated", "--output-format", "json"],
            cwd=ROOT, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    finally:
        for process in started:
            process.kill()
            process.communicate()
        shutil.rmtree(folder)
    plain = json.loads(done.stdout)
    (seen,) = plain["subject"]["jobs"]
    assert [(item["rank"], item["pid"]) for item in seen["ranks"]] == [(0, started[0].pid)]
    assert {f"process {started[1].pid}", "rank 1"} <= {item["what"] for item in plain["not_checked"]}
    assert done.returncode == 3


def test_a_rule_about_all_ranks_is_not_checked_where_one_was_not_seen() -> None:
    def checked(size: int, **more: object) -> frozenset[str]:
        ranks = (Position(0, "n1", 20, detail="moves on"), Position(1, "n1", 21, detail="moves on"))
        away = tuple(range(2, size))
        seen = Snapshot("job", Positions(ranks, size), ("n1",), 2.0, (), (), away)._replace(**more)  # type: ignore[arg-type]
        return judged([seen], make_selection((), (), ()), [], Unavailable("no NVIDIA driver"), "n1").checked

    of_all = {"DC511", "DC517", "DC519", "DC701", "DC702", "DC704", "DC726"}
    assert checked(2) == {"DC502", *of_all}
    assert checked(2, unseen={1: "no py-spy"}) == checked(4) == {"DC502"}


HANGING = """import time
import torch
import torch.distributed as dist


def validate():
    time.sleep(600)


def train():
    for step in range(10):
        if step == 3 and dist.get_rank() == 1:
            validate()
        dist.all_reduce(torch.ones(2))


dist.init_process_group("gloo")
train()
"""


@needs_py_spy
@pytest.mark.torch
@pytest.mark.slow
def test_a_job_of_torchrun_that_hangs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "hang.py").write_text(HANGING)
    # a group of its own, so that nothing of it is left
    agent = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "hang.py"],
        cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + 90
        while time.monotonic() < end:
            done = stuck("--pid", str(agent.pid), "--output-format", "json")
            if done.returncode == 3 and "DC701" in done.stdout:
                break
            time.sleep(1)
        (finding,) = json.loads(done.stdout)["findings"]
        assert (
            "rank 1 is in validate() at hang.py:7 and sleeps; rank 0 waits in all_reduce at hang.py:14"
            in finding["message"]
        )
        assert (finding["where"]["path"], finding["where"]["line"]) == ("hang.py", 7)
    finally:
        os.killpg(agent.pid, signal.SIGTERM)
        agent.wait(timeout=60)
