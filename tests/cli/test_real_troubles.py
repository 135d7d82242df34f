"""Real troubles on this machine, seen through the command as a user calls it: nothing is simulated."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .test_cli import environment, report_of

STATIC = ("--nnodes", "1", "--nproc-per-node", "2", "--backend", "gloo")


def finding(plain: dict[str, Any], code: str) -> dict[str, Any]:
    found = [item for item in plain["findings"] if item["code"] == code]
    assert len(found) == 1, f"{code}: {[item['code'] for item in plain['findings']]}"
    item: dict[str, Any] = found[0]
    return item


@pytest.fixture
def web_server() -> Iterator[tuple[int, int]]:
    """A port that another program holds: the port and that program's id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-u", "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield port, process.pid
    process.kill()
    process.wait()
    process.stdout.close()


def test_bad_dc401_the_holder_of_the_port_is_named(web_server: tuple[int, int], tmp_path: Path) -> None:
    port, pid = web_server
    plain = report_of("env", *STATIC, "--master-addr", "127.0.0.1", "--master-port", str(port), cwd=tmp_path)
    found = finding(plain, "DC401")
    assert found["severity"] == "error"
    assert str(pid) in found["message"]
    assert "http.server" in found["message"]


def test_bad_dc404_a_name_that_does_not_resolve(tmp_path: Path) -> None:
    plain = report_of(
        "env",
        "--nnodes",
        "2",
        "--node-rank",
        "1",
        "--master-addr",
        "name.invalid",
        "--master-port",
        "29500",
        cwd=tmp_path,
    )
    assert "name.invalid" in finding(plain, "DC404")["message"]


def test_bad_dc407_an_interface_that_is_not_there(tmp_path: Path) -> None:
    plain = report_of("env", *STATIC, cwd=tmp_path, GLOO_SOCKET_IFNAME="nope0")
    assert "nope0" in finding(plain, "DC407")["message"]
    assert "DC407" not in [
        item["code"] for item in report_of("env", *STATIC, cwd=tmp_path, GLOO_SOCKET_IFNAME="lo")["findings"]
    ]


def test_bad_dc122_a_file_that_shadows_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("")
    plain = report_of("env", "--", "torchrun", "--nproc-per-node=2", "-m", "train", cwd=tmp_path)
    assert "torch.py" in finding(plain, "DC122")["message"]


def test_bad_dc112_a_value_that_kills_the_import_of_torch(tmp_path: Path) -> None:
    plain = report_of("env", *STATIC, cwd=tmp_path, TORCH_DISTRIBUTED_DEBUG="1")
    assert "import torch" in finding(plain, "DC112")["message"]


@pytest.mark.torch
def test_that_value_really_kills_the_import_of_torch() -> None:
    result = subprocess.run(
        [sys.executable, "-c", "import torch"],
        capture_output=True,
        text=True,
        env=environment(TORCH_DISTRIBUTED_DEBUG="1"),
        timeout=120,
    )
    assert result.returncode != 0
    assert "must be OFF, INFO, or DETAIL" in result.stderr


def test_bad_dc321_a_low_limit_of_open_files(tmp_path: Path) -> None:
    command = f"ulimit -n 128; exec {sys.executable} -m distcheck env --nproc-per-node 2 --backend gloo --select DC321"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=60
    )
    assert "warning DC321" in result.stdout
    assert "128" in result.stdout


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this platform binds no process to CPUs")
def test_bad_dc325_one_cpu_for_several_ranks(tmp_path: Path) -> None:
    program = (
        "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "sys.argv = ['distcheck', 'env', '--nproc-per-node', '4', '--backend', 'gloo', '--select', 'DC325']\n"
        "from distcheck.cli.main import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=60
    )
    assert "DC325" in result.stdout
