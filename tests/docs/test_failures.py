"""The failures of docs/failures.md: each one fails, is found by the command, and runs after the fix that was printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .documents import ROOT, places

FOLDER = ROOT / "examples" / "failures"
PAGE = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
RUN = "torchrun --standalone --nproc-per-node=2 train.py"
#: How a printed fix is applied: as a command, by --fix, or by hand. The result by hand lies in ``fixed/``.
COMMAND, EDITS, BY_HAND = "command", "edits", "by hand"


class Failure(NamedTuple):
    """One folder of ``examples/failures/``."""

    name: str
    #: the job that fails, and what its output holds
    job: str
    says: str
    #: commands that find it, and the rule
    commands: tuple[str, ...]
    code: str
    fix: str
    #: what the job prints after the fix
    prints: str
    #: the job after the fix; "": the command that the first finding prints
    fixed_job: str = RUN


FAILURES = (
    Failure(
        "missing-rank", "python train.py", "RANK expected, but not set", ("log run.log", "env -- python train.py"),
        "DC101", COMMAND, "2 ranks have joined", "",
    ),
    Failure(
        "global-rank", "distcheck rehearse --nnodes 2 --nproc-per-node 2 train.py", "DC201", ("lint .",),
        "DC201", EDITS, "2 ranks have trained",
    ),
    Failure(
        "wrong-node-rank", "sh launch.sh", "1/2 clients joined", ("lint launch.sh",),
        "DC805", EDITS, "2 ranks have joined", "sh launch.sh",
    ),
    Failure(
        "wrong-master", "timeout 60 torchrun --nproc-per-node=2 --master-addr=node1.invalid --master-port={port} train.py",
        "node1.invalid", ("env -- torchrun --nproc-per-node=2 --master-addr=node1.invalid --master-port=29712 train.py", "log run.log"),
        "DC404", BY_HAND, "2 ranks have joined",
        "torchrun --nproc-per-node=2 --master-addr=localhost --master-port={port} train.py",
    ),
    Failure(
        "process-group", RUN, "cannot pickle", ("pickle --object train:make_trainer --call", "lint train.py", "log run.log"),
        "DC602", BY_HAND, "saved at step 2",
    ),
    Failure("early-exit", RUN, "losed by peer|reset by peer", ("log run.log", "lint train.py"), "DC702", BY_HAND, "rank 0: 3 files"),
    Failure("uneven-batches", RUN, "losed by peer|reset by peer", ("log run.log", "lint train.py"), "DC519", BY_HAND, "rank 0 is done"),
    Failure("shape-mismatch", RUN, "doesn't match", ("log run.log",), "DC517", BY_HAND, "10 scores, each 2"),
    Failure("guarded-barrier", RUN, "losed by peer|reset by peer", ("log run.log", "lint train.py"), "DC701", BY_HAND, "saved 16"),
)  # fmt: skip


class Shell:
    """A shell in a copy of a folder, with the commands under the names that one types."""

    def __init__(self, name: str, here: Path) -> None:
        self.here = here / name
        shutil.copytree(FOLDER / name, self.here)
        tools = here / "tools"
        tools.mkdir()
        for program, module in (
            ("python", ""),
            ("torchrun", "-m torch.distributed.run"),
            ("distcheck", "-m distcheck"),
        ):
            (tools / program).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            (tools / program).chmod(0o755)
        kept = {key: value for key, value in os.environ.items() if key not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
        self.environ = {
            **kept, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }  # fmt: skip

    def run(self, line: str) -> tuple[int, str]:
        """Return the exit status of a line, and what it prints."""
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.here,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def findings(self, command: str) -> list[dict[str, Any]]:
        """Return the findings of a command of distcheck."""
        name, _, rest = command.partition(" ")
        self.run(f"distcheck {name} --output-format json -o report.json {rest}")
        found: list[dict[str, Any]] = json.loads((self.here / "report.json").read_text())["findings"]
        return [item for item in found if item["severity"] != "info"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.name)
@pytest.mark.sampled(every=9)
def test_a_failure_is_found_and_runs_after_the_printed_fix(failure: Failure, tmp_path: Path) -> None:
    shell, port = Shell(failure.name, tmp_path), free_port()
    status, output = shell.run(failure.job.format(port=port))
    assert status != 0
    assert re.search(failure.says, output), output
    (shell.here / "run.log").write_text(output)
    reports = [shell.findings(command) for command in failure.commands]
    for command, found in zip(failure.commands, reports, strict=True):
        assert found[0]["code"] == failure.code, (command, found)
    job = failure.fixed_job.format(port=port)
    if failure.fix == COMMAND:
        job = reports[0][0]["fix"]["command"]
    elif failure.fix == EDITS:
        status, output = shell.run("distcheck lint --fix --unsafe-fixes .")
        assert status == 0, output
    elif (shell.here / "fixed").exists():
        shutil.copytree(shell.here / "fixed", shell.here, dirs_exist_ok=True)
        for command in failure.commands:
            if not command.startswith("log"):
                assert failure.code not in [item["code"] for item in shell.findings(command)]
    status, output = shell.run(job)
    assert status == 0, output
    assert failure.prints in output


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.full
def test_the_line_that_env_prints_runs_while_the_port_is_taken(tmp_path: Path) -> None:
    shell, port = Shell("port-taken", tmp_path), free_port()
    held, line = f"python hold.py {port} ", f"torchrun --nproc-per-node=2 --master-port={port} train.py"
    status, output = shell.run(held + line)
    assert status != 0
    assert "EADDRINUSE" in output
    shell.run(f"{held} distcheck env --output-format json -o report.json -- {line}")
    report = json.loads((shell.here / "report.json").read_text())
    (found,) = [item for item in report["findings"] if item["code"] == "DC401"]
    status, output = shell.run(held + found["fix"]["command"])
    assert status == 0, output
    assert "2 ranks have joined" in output


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.full
@pytest.mark.root
def test_a_full_shm_is_found_and_a_larger_one_helps(tmp_path: Path) -> None:
    shell = Shell("full-shm", tmp_path)
    status, output = shell.run("sh in_container.sh 1m true")
    if status != 0:
        pytest.skip(f"no file system can be mounted here: {output.strip()}")
    status, output = shell.run(f"sh in_container.sh 1m {RUN} > run.log 2>&1")
    assert status != 0
    (found,) = shell.findings("log run.log")
    assert found["code"] == "DC320"
    size = re.search(r"--shm-size=(\w+)", found["fix"]["text"])
    assert size is not None
    status, output = shell.run(f"sh in_container.sh {size[1]} {RUN}")
    assert status == 0, output
    assert "16 images" in output


def test_the_page_shows_each_folder_and_the_table_names_each_section() -> None:
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir()}
    assert folders == {failure.name for failure in FAILURES} | {"port-taken", "full-shm"}
    assert {name for name in folders if f"in=examples/failures/{name} " in PAGE} == folders
    rows = [line for line in PAGE.splitlines() if line.startswith("| [")]
    assert len(rows) == len(folders)
    assert {row.partition("](#")[2].partition(")")[0] for row in rows} == places(PAGE) - places(PAGE.partition("\n")[0])
    codes = {failure.code for failure in FAILURES} | {"DC401", "DC320"}
    assert codes <= set(re.findall(r"DC\d{3}", "\n".join(rows)))
