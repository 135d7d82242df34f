"""What does not answer costs its limit once; everything else is reported, and the process ends on time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.host.examine import examine
from distcheck.core.model import Severity
from distcheck.launch.model import Launch

from .cli.test_cli import ROOT, environment
from .recorded import RecordedWorld

TWO_NODES = Launch(
    "planned", "torchrun", nnodes=2, nproc=2, node_rank=1, rdzv_backend="static", master_addr="node1", master_port=29500
)


class SilentNames(RecordedWorld):
    """A machine whose name server never answers."""

    def resolve(self, name: str) -> tuple[str, ...]:
        time.sleep(60)
        return ()


class HungDriver(RecordedWorld):
    """A machine whose NVIDIA driver hangs in the kernel."""

    def nvml(self) -> Any:
        time.sleep(60)


@pytest.mark.slow
def test_a_name_server_that_never_answers(tmp_path: Path) -> None:
    start = time.monotonic()
    report = examine(TWO_NODES, SilentNames(tmp_path, {}))
    assert time.monotonic() - start < 15
    assert "DC321" in report.checked | {code for item in report.not_checked for code in item.what.split(", ")}
    unseen = {code for item in report.not_checked for code in item.what.split(", ")}
    assert {"DC404", "DC403"} <= unseen


@pytest.mark.slow
def test_a_driver_that_hangs(tmp_path: Path) -> None:
    start = time.monotonic()
    report = examine(Launch("planned", nproc=2), HungDriver(tmp_path, {}), budget_s=1)
    assert time.monotonic() - start < 10
    assert report.out_of_time
    assert any("read_gpus" in item.why for item in report.not_checked)
    assert not any(finding.severity is Severity.ERROR and finding.code.startswith("DC9") for finding in report.findings)


@pytest.mark.slow
def test_the_command_ends_on_time(tmp_path: Path) -> None:
    program = (
        "import sys, time, distcheck.core.world as w\n"
        "w.World.host_name = lambda self: 'node1'\n"
        "w.World.resolve = lambda self, name: time.sleep(60)\n"
        "sys.argv = ['distcheck', 'env', '--nnodes', '2', '--master-addr', 'node9', '--master-port', '29500', '--timeout', '1']\n"
        "from distcheck.cli.main import main; main()\n"
    )
    start = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=60
    )
    assert time.monotonic() - start < 10
    assert result.returncode in (1, 3), result.stderr
    assert "time limit of the whole run was over" in result.stdout.replace("\n      ", " ")


@pytest.fixture
def silent_name_server() -> Iterator[str]:
    """A namespace in which the name server's address swallows all that is sent to it."""
    name = f"dc-dns-{os.getpid()}"
    folder = Path("/etc/netns") / name
    made = not folder.parent.exists()
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        folder.mkdir(parents=True)
        (folder / "resolv.conf").write_text("nameserver 192.0.2.53\n")
        for command in (
            "link set lo up",
            "link add v0 type veth peer name v1",
            "addr add 192.0.2.1/24 dev v0",
            "link set v0 up",
            "link set v1 up",
            "neigh add 192.0.2.53 lladdr 02:00:00:00:00:53 dev v0",
        ):
            subprocess.run(["ip", "-n", name, *command.split()], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)
        shutil.rmtree(folder, ignore_errors=True)
        if made:
            folder.parent.rmdir()


@pytest.mark.netns
@pytest.mark.slow
def test_a_real_name_server_that_never_answers(silent_name_server: str, tmp_path: Path) -> None:
    program = [
        sys.executable,
        "-m",
        "distcheck",
        "env",
        "--nnodes",
        "2",
        "--master-addr",
        "node9.example",
        "--master-port",
        "29500",
    ]
    start = time.monotonic()
    result = subprocess.run(
        ["ip", "netns", "exec", silent_name_server, *program, "--node-rank", "1", "--nproc-per-node", "1"],
        capture_output=True,
        text=True,
        env={**environment(), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        timeout=60,
    )
    assert time.monotonic() - start < 15
    assert "Traceback" not in result.stderr
    assert "'node9.example' (--master-addr): the name server did not answer in time" in result.stdout.replace(
        "\n      ", " "
    )
