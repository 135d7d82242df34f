"""``distcheck collective`` on several hosts, each with a fault of its own: its code, the right host, and no hang."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import Lab, finish

pytestmark = [pytest.mark.netns, pytest.mark.torch, pytest.mark.slow]

#: gloo is to take the hosts' common network; the machine below these hosts has GPUs of its own or none.
COMMON = {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def two() -> Iterator[Lab]:
    with Lab(2) as lab:
        yield lab
        assert lab.left_over() == []


@pytest.fixture
def four() -> Iterator[Lab]:
    with Lab(4) as lab:
        yield lab
        assert lab.left_over() == []


class Outcome:
    """What the hosts printed and how they ended."""

    def __init__(self, ended: list[tuple[int | None, str, str]], seconds: float) -> None:
        self.statuses = [status for status, _, _ in ended]
        self.texts = [out for _, out, _ in ended]
        self.errors = [err for _, _, err in ended]
        self.seconds = seconds

    def report(self, host: int = 0) -> dict[str, Any]:
        assert self.texts[host], self.errors[host]
        plain: dict[str, Any] = json.loads(self.texts[host])
        return plain

    def loud(self, host: int = 0) -> dict[str, str]:
        """Code → where, of what is above info."""
        return {
            item["code"]: item["where"].get("host") or item["message"]
            for item in self.report(host)["findings"]
            if item["severity"] != "info"
        }


def collective(
    lab: Lab,
    *options: str,
    hosts: tuple[int, ...] | None = None,
    nproc: int = 1,
    limit_s: float = 120.0,
    before: dict[int, tuple[str, ...]] | None = None,
    backend: str = "gloo",
) -> Outcome:
    """The same command on all hosts, or on some of them."""
    begun = time.monotonic()
    running = []
    for number in range(len(lab.names)) if hosts is None else hosts:
        command = (
            *(before or {}).get(number, ()), sys.executable, "-m", "distcheck", "collective", "--nnodes", str(len(lab.names)),
            "--node-rank", str(number), "--master-addr", lab.names[0], "--nproc", str(nproc), "--backend", backend,
            "--output-format", "json", *options,
        )  # fmt: skip
        running.append(lab.start(number, *command, **COMMON))
    ended = [finish(process, limit_s) for process in running]
    return Outcome(ended, time.monotonic() - begun)


def test_good_two_hosts_of_two_ranks(two: Lab) -> None:
    outcome = collective(two, "--quick", "--timeout", "40", nproc=2)
    assert outcome.statuses == [0, 0], outcome.errors
    assert outcome.loud() == {}
    found = outcome.report()["measurements"]
    assert (found["ranks"], found["hosts"]) == (4, ["node0", "node1"])
    assert found["proof"]["mismatches"] == []
    assert outcome.texts[1] == "", "rank 0 speaks for all"


@pytest.mark.full
def test_good_four_hosts_measured(four: Lab) -> None:
    outcome = collective(four, "--timeout", "60", "-b", "1K", "-e", "256K", "-n", "5")
    assert outcome.statuses == [0] * 4, outcome.errors
    assert outcome.loud() == {}
    assert outcome.report()["measurements"]["measured"]["hosts"] == 4


@pytest.mark.full  # ranks of two hosts without torchrun run always, and torchrun on one host
def test_good_torchrun_on_two_hosts(two: Lab) -> None:
    running = [
        two.start(
            number, sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={number}", "--nproc-per-node=2",
            "--master-addr=node0", "--master-port=29500", "-m", "distcheck.collective", "--quick", "--output-format", "json",
            **COMMON,
        )
        for number in (0, 1)
    ]  # fmt: skip
    ended = [finish(process, 120.0) for process in running]
    assert [status for status, _, _ in ended] == [0, 0], ended
    plain = json.loads(ended[0][1])
    assert plain["measurements"]["ranks"] == 4
    assert [item for item in plain["findings"] if item["severity"] != "info"] == []
    assert ended[1][1] == ""


def test_bad_a_host_that_never_comes(four: Lab) -> None:
    outcome = collective(four, "--timeout", "6", hosts=(0, 1, 3))
    assert outcome.statuses == [1, 1, 1]
    assert "DC501" in outcome.loud()
    assert "2" in outcome.loud()["DC501"]
    assert outcome.seconds < 6 + 15


@pytest.mark.full
def test_bad_a_host_with_another_mtu(two: Lab) -> None:
    two.set_mtu(1, 9000, both_ends=False)
    outcome = collective(two, "--quick", "--timeout", "40")
    assert "DC410" in outcome.loud()
    assert "node1" in str([item for item in outcome.report()["findings"] if item["code"] == "DC410"])


def test_bad_a_blocked_range_of_ports(four: Lab) -> None:
    four.prohibit(2, "36000-58000")
    outcome = collective(four, "--quick", "--timeout", "20")
    assert outcome.statuses == [1] * 4
    [finding] = [item for item in outcome.report()["findings"] if item["code"] == "DC412"]
    assert "node2" in json.dumps([finding["where"], finding["message"]])


def test_bad_a_name_that_leads_to_loopback(two: Lab) -> None:
    """The host says so itself, and no rank is started."""
    two.set_hosts_file(1, {"node1": "127.0.1.1"})
    del_common = dict(COMMON)
    del_common.pop("GLOO_SOCKET_IFNAME")
    running = [
        two.start(
            number, sys.executable, "-m", "distcheck", "collective", "--nnodes", "2", "--node-rank", str(number),
            "--master-addr", "node0", "--nproc", "1", "--backend", "gloo", "--output-format", "json", "--timeout", "20",
            **del_common,
        )
        for number in (0, 1)
    ]  # fmt: skip
    ended = [finish(process, 60.0) for process in running]
    # the first host has found nothing, and could not check what it was asked for
    assert [status for status, _, _ in ended] == [3, 1], ended
    codes = [
        [item["code"] for item in json.loads(out)["findings"] if item["severity"] == "error"] for _, out, _ in ended
    ]
    assert codes == [[], ["DC405"]]
    assert "node1: DC405" in str(json.loads(ended[0][1])["not_checked"])


def test_bad_a_host_with_another_torch(two: Lab, tmp_path: Path) -> None:
    """Another version.py stands over torch's own, in that host's mount namespace only."""
    found = subprocess.run(
        [sys.executable, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    version = Path(found.stdout.strip()) / "version.py"
    other = tmp_path / "version.py"
    other.write_text(version.read_text().replace("2.13", "2.12"))
    bind = ("sh", "-c", f'mount --bind {other} {version} && exec "$@"', "sh")
    outcome = collective(two, "--quick", "--timeout", "40", before={1: bind})
    assert outcome.statuses == [1, 1], outcome.errors
    [finding] = [item for item in outcome.report()["findings"] if item["code"] == "DC503"]
    assert finding["severity"] == "error"
    assert "2.12" in finding["message"]
    assert "node1" in json.dumps(finding)


@pytest.mark.full
def test_bad_a_slow_host_among_four(four: Lab) -> None:
    # slow enough to stand out on a machine that does other things beside
    four.slow_down(3, "10mbit")
    outcome = collective(four, "--timeout", "90", "--pairs", "-b", "1K", "-e", "64K", "-n", "3", limit_s=200.0)
    assert None not in outcome.statuses
    blamed = [item for item in outcome.report()["findings"] if item["code"] in ("DC514", "DC515")]
    assert blamed, outcome.report()["not_checked"]
    assert all("node3" in json.dumps(item["where"]) + item["message"] for item in blamed)


@pytest.mark.full
def test_bad_a_cable_is_pulled_in_the_middle(two: Lab) -> None:
    """Both sides say so by themselves: one lost the store, the other hears no sign of life any more."""
    two.slow_down(0, "40mbit")
    two.slow_down(1, "40mbit")
    running = []
    for number in (0, 1):
        command = (
            "collective", "--nnodes", "2", "--node-rank", str(number), "--master-addr", "node0", "--nproc", "1",
            "--backend", "gloo", "--output-format", "json", "--timeout", "40", "-b", "64M", "-e", "64M", "-n", "50",
        )  # fmt: skip
        running.append(two.start(number, sys.executable, "-m", "distcheck", *command, **COMMON))
    time.sleep(25.0)
    assert [process.poll() for process in running] == [None, None], [finish(process) for process in running]
    two.cut(1)
    begun = time.monotonic()
    ended = [finish(process, 200.0) for process in running]
    assert None not in [status for status, _, _ in ended]
    assert all(status == 1 for status, _, _ in ended)
    # far less than the measurement itself may take
    assert time.monotonic() - begun < 60.0
    for _, out, err in ended:
        plain = json.loads(out)
        assert {item["code"] for item in plain["findings"]} & {"DC501", "DC511", "DC512"}, err
    assert json.loads(ended[0][1])["measurements"]["failure"]["culprits"] == [1]
