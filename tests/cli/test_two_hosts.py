"""Two hosts in network namespaces, one torchrun on each: a report from each host, and one verdict for both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .test_cli import environment

pytestmark = [pytest.mark.netns, pytest.mark.torch, pytest.mark.slow]


class Hosts:
    """Two namespaces joined by a veth pair, each with a host name of its own."""

    def __init__(self, names: tuple[str, str]) -> None:
        self.names = names

    def start(self, number: int, *command: str, cwd: Path, **extra: str) -> subprocess.Popen[str]:
        """Start a program on one of the hosts."""
        inner = f'hostname node{number}; exec ip netns exec {self.names[number]} "$@"'
        return subprocess.Popen(
            ["unshare", "-u", "sh", "-c", inner, "sh", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**extra),
            cwd=cwd,
            start_new_session=True,
        )


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    names = (f"dc-a-{os.getpid()}", f"dc-b-{os.getpid()}")
    made = []
    try:
        for number, name in enumerate(names):
            subprocess.run(["ip", "netns", "add", name], check=True)
            made.append(name)
            folder = Path("/etc/netns") / name
            folder.mkdir(parents=True)
            lines = ["127.0.0.1 localhost", "10.77.0.1 node0", "10.77.0.2 node1"]
            (folder / "hosts").write_text("\n".join(lines) + "\n")
            subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
            if number:
                subprocess.run(
                    ["ip", "link", "add", "v0", "netns", names[0], "type", "veth", "peer", "name", "v0", "netns", name],
                    check=True,
                )
        for number, name in enumerate(names):
            subprocess.run(["ip", "-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "v0"], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", "v0", "up"], check=True)
        yield Hosts(names)
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False)
            folder = Path("/etc/netns") / name
            (folder / "hosts").unlink(missing_ok=True)
            folder.rmdir()


def torchrun(hosts: Hosts, tmp_path: Path, *script: str, **extra: str) -> list[tuple[int | None, str, str]]:
    """The same launch on both hosts: status, output and errors of each."""
    with ExitStack() as folders:
        processes = []
        for number in (0, 1):
            options = [
                "--nnodes=2",
                f"--node-rank={number}",
                "--nproc-per-node=2",
                "--master-addr=node0",
                "--master-port=29500",
            ]
            processes.append(
                hosts.start(
                    number,
                    *(sys.executable, "-m", "torch.distributed.run", *options, *script),
                    cwd=tmp_path,
                    # short, since sockets are made in it (DC327)
                    TMPDIR=folders.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)),
                    GLOO_SOCKET_IFNAME="v0",
                    **extra,
                )
            )
        return [finished(process) for process in processes]


def finished(process: subprocess.Popen[str]) -> tuple[int | None, str, str]:
    """Status, output and errors of an agent. An agent that outlives its workers is ended, and has no status.

    torchrun's agents wait for each other at their end, up to 300 s; what the workers have said by then is what counts.
    """
    try:
        out, err = process.communicate(timeout=90)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return None, out, err
    return process.returncode, out, err


def test_good_each_host_reports_once_and_is_silent(hosts: Hosts, tmp_path: Path) -> None:
    script = tmp_path / "distcheck"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -m distcheck env --backend gloo --output-format json\n")
    script.chmod(0o755)
    for number, (status, out, err) in enumerate(torchrun(hosts, tmp_path, "--no-python", str(script))):
        assert status in (0, None), out + err
        plain = json.loads(out)
        assert (plain["stage"], plain["subject"]["host"]) == ("rank", f"node{number}")
        assert [item for item in plain["findings"] if item["severity"] != "info"] == []


SCRIPT = """
import os, sys, time
import distcheck

def report(line):
    # one write: ranks share the pipe, and print() writes the end of a line by itself
    sys.stdout.write(line + "\\n")
    sys.stdout.flush()

if os.environ["RANK"] == os.environ["BAD_RANK"]:
    os.environ["TORCH_FR_BUFFER_SIZE"] = "abc"
start = time.monotonic()
try:
    distcheck.preflight(backend="gloo")
except distcheck.PreflightError as error:
    report(f"rank {os.environ['RANK']} raised within 30 s: {time.monotonic() - start < 30}: {error}")
    time.sleep(2)  # until all have said it: torchrun ends the others once one has failed
    sys.exit(0)
report(f"rank {os.environ['RANK']} goes on")
"""


def test_good_a_healthy_job_of_two_hosts_goes_on(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    results = torchrun(hosts, tmp_path, "train.py", BAD_RANK="none")
    lines = sorted(line for _, out, _ in results for line in out.splitlines())
    assert lines == [f"rank {rank} goes on" for rank in range(4)], results


def test_bad_one_hosts_verdict_reaches_the_other(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    results = torchrun(hosts, tmp_path, "train.py", BAD_RANK="3")
    raised = [line for _, out, _ in results for line in out.splitlines() if "raised within 30 s: True" in line]
    assert len(raised) == 4, results
    first_host = results[0][1]
    assert "an error on another host" in first_host
    assert "node1: DC112" in first_host
