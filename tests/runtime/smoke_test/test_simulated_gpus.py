"""The smoke test with NCCL on simulated GPUs: the branches for CUDA, from the device's binding to the sweep."""

from __future__ import annotations

import functools
import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from distcheck.core.world import World
from distcheck.launch.reader import make_launch
from distcheck.rules import Selection
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.rehearsal.fake_cuda import FakeGpus, simulate
from distcheck.runtime.smoke_test import bandwidth, cases, correctness, run, stragglers
from distcheck.runtime.smoke_test.model import Options
from tests import nvml_library
from tests.lab import Lab, finish

from .ranks import launch
from .recorded_calls import Call, calls_of, record

pytestmark = [pytest.mark.torch, pytest.mark.slow]

GPUS = 4


def _simulate(calls: Path, rank: int) -> None:
    import torch

    torch.set_num_threads(1)
    simulate(FakeGpus(GPUS))
    record(calls)
    # as the command does, in the process that will fork the worker
    run.look((RankInfo(rank, 1, 0, 1, 0),), make_launch({}), World({}), Selection())


@pytest.mark.parametrize(
    ("size", "per_node"),
    # links between hosts are compared by their speed
    [(1, 1), (2, 2), (3, 3), (4, 4), pytest.param(4, 2, marks=pytest.mark.quiet)],
)
def test_good_every_phase_on_simulated_gpus(
    size: int, per_node: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # sizes that suit a GPU take minutes on a processor
    monkeypatch.setattr(cases, "LARGE_BYTES_CUDA", 1 << 18)
    monkeypatch.setattr(cases, "MIDDLE_BYTES_CUDA", 1 << 16)
    monkeypatch.setattr(correctness, "PEER_COPY_BYTES", 1 << 18)
    monkeypatch.setattr(stragglers, "_ROWS_CUDA", 64)
    monkeypatch.setattr(stragglers, "BUDGET_S", 3.0)
    monkeypatch.setitem(bandwidth._SIZE_BUDGET_S, "cuda", 0.1)
    options = Options(backend="nccl", device="cuda", max_bytes=1 << 18, iterations=5, timeout_s=60.0)
    calls = tmp_path / "calls"
    prepare = functools.partial(_simulate, calls)
    said = launch(size, tmp_path, options, prepare=prepare, per_node=per_node, limit_s=200.0)
    assert [one.status for one in said] == [0] * size, said
    report = said[0].report
    assert report is not None
    found = report["measurements"]
    assert [item for item in report["findings"] if item["severity"] in ("error", "warning")] == []
    assert set(found["phases"]) >= {"start", "verify", "measure", "stragglers"}
    assert (found["backend"], found["device"]) == ("nccl", "cuda")
    proof, measured = found["proof"], found["measured"]
    assert (proof["ranks"], proof["mismatches"], proof["failures"]) == (size, [], [])
    needed = {*cases.COLLECTIVES, correctness.PEER_COPY} - (set() if size > 1 else {"send_recv", "barrier"})
    assert set(proof["collectives"]) == needed
    assert (measured["clock"], measured["device_name"]) == ("cuda-events", FakeGpus(GPUS).name)
    assert [item["size_bytes"] for item in measured["bandwidth"]][-1] == 1 << 18
    assert all(item["time"]["median_s"] > 0 for item in measured["bandwidth"])
    _check_order(calls, size, per_node)


#: What runs before ``distcheck collective`` on each host: GPUs that suit a processor, and the recording of all calls.
_ON_A_HOST = """
import pathlib, torch
torch.set_num_threads(1)
from distcheck.runtime.rehearsal.fake_cuda import FakeGpus, simulate
from distcheck.runtime.smoke_test import bandwidth, cases, correctness, stragglers
from tests.runtime.smoke_test.recorded_calls import record
simulate(FakeGpus({gpus}))
cases.LARGE_BYTES_CUDA, cases.MIDDLE_BYTES_CUDA, correctness.PEER_COPY_BYTES = 1 << 18, 1 << 16, 1 << 18
stragglers._ROWS_CUDA, stragglers.BUDGET_S, bandwidth._SIZE_BUDGET_S["cuda"] = 64, 3.0, 0.1
record(pathlib.Path({calls!r}))
"""
_PER_HOST = 2


def _on_two_hosts(folder: Path, *described: dict[str, Any]) -> list[tuple[int | None, str, str]]:
    """Exit status, output and errors of ``distcheck collective`` on two hosts with these GPUs, by NVML and CUDA."""
    with Lab(2) as lab:
        running = []
        for number, gpus in enumerate(described):
            (folder / f"host{number}").mkdir()
            prelude = _ON_A_HOST.format(gpus=gpus["gpus"], calls=str(folder / "calls"))
            words = (
                "collective", "--isolated", "--nnodes", "2", "--node-rank", str(number), "--master-addr", "node0",
                "--nproc", str(_PER_HOST), "-e", "256K", "-n", "5", "--timeout", "60", "--output-format", "json",
            )  # fmt: skip
            program, found = nvml_library.command(folder / f"host{number}", gpus, *words, prelude=prelude)
            running.append(lab.start(number, *program, GLOO_SOCKET_IFNAME="eth0", **found))
        ended = [finish(process, 200.0) for process in running]
        assert lab.left_over() == []
    return ended


@pytest.mark.netns
@nvml_library.needs_a_compiler
def test_good_two_hosts_with_simulated_gpus(tmp_path: Path) -> None:
    ended = _on_two_hosts(tmp_path, {"gpus": _PER_HOST}, {"gpus": _PER_HOST})
    assert [status for status, _, _ in ended] == [0, 0], ended
    report = json.loads(ended[0][1])
    assert ended[1][1] == "", "rank 0 prints for all"
    found = report["measurements"]
    assert [item for item in report["findings"] if item["severity"] == "error"] == []
    assert (found["ranks"], found["hosts"]) == (2 * _PER_HOST, ["node0", "node1"])
    # --backend auto
    assert (found["backend"], found["device"]) == ("nccl", "cuda")
    assert set(found["phases"]) >= {"start", "verify", "measure"}
    assert (found["proof"]["mismatches"], found["proof"]["failures"]) == ([], [])
    assert found["sentence"].endswith(f"on nccl, {2 * _PER_HOST} × NVIDIA H100 80GB HBM3")
    _check_order(tmp_path / "calls", 2 * _PER_HOST, _PER_HOST)


@pytest.mark.netns
@nvml_library.needs_a_compiler
@pytest.mark.parametrize(("code", "rule"), [(9, "DC315"), (999, "DC314")])
def test_bad_the_driver_of_one_host_fails(code: int, rule: str, tmp_path: Path) -> None:
    ended = _on_two_hosts(tmp_path, {"gpus": _PER_HOST}, {"gpus": _PER_HOST, "fail.nvmlInitWithFlags": code})
    # on the other host nothing is wrong, and nothing was tested
    assert [status for status, _, _ in ended] == [3, 1], ended
    whys = [item["why"] for item in json.loads(ended[0][1])["not_checked"]]
    assert any(f"node1: {rule}" in why for why in whys), whys
    assert [item["code"] for item in json.loads(ended[1][1])["findings"] if item["severity"] == "error"] == [rule]
    assert not (tmp_path / "calls").read_text()


#: how the ranks of one host start → what torchrun runs instead, if it starts them
_ONE_HOST = {
    "the command": None,
    "torchrun": "from distcheck.collective import main\nmain()",
    "check() in a job": """
import json, os
import torch, torch.distributed as dist
import distcheck.runtime.smoke_test
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
report = distcheck.runtime.smoke_test.check(timeout_s=60.0)
if dist.get_rank() == 0:
    print(json.dumps(report.as_dict()))
dist.destroy_process_group()
""",
}


@nvml_library.needs_a_compiler
@pytest.mark.parametrize("way", _ONE_HOST)
def test_good_one_host_with_simulated_gpus(way: str, tmp_path: Path) -> None:
    words = ("-e", "256K", "-n", "5", "--timeout", "60", "--isolated", "--output-format", "json")
    program = _ONE_HOST[way]
    prelude = _ON_A_HOST.format(gpus=2, calls=str(tmp_path / "calls"))
    # without --nproc: a rank for each GPU that NVML lists
    start = ["collective"] if program is None else []
    prelude += "" if program is None else f"{program}\nraise SystemExit\n"
    command, found = nvml_library.command(tmp_path, {"gpus": 2}, *start, *words, prelude=prelude)
    if program is not None:
        command[1:1] = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    result = subprocess.run(
        command, cwd=tmp_path, env={"PATH": os.environ["PATH"], **found}, capture_output=True, text=True, timeout=200
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert [item for item in report["findings"] if item["severity"] == "error"] == []
    assert report["measurements"]["sentence"].endswith("on nccl, 2 × NVIDIA H100 80GB HBM3")
    if way != "check() in a job":
        _check_order(tmp_path / "calls", 2, 2)
        return
    for calls in calls_of(tmp_path / "calls").values():
        used = [call for call in calls if call.kind == "collective"]
        assert used[0].name == "all_reduce"
        assert {device for call in used for device in call.devices} == {f"cuda:{used[0].gpu}"}


def _check_order(path: Path, size: int, per_node: int) -> None:
    """No CUDA before the fork; the device, then the group, then collectives; events on the collective's stream."""
    processes = calls_of(path)
    # neither the supervisors, which fork the workers, nor the readers of the host have called anything
    assert len(processes) == size, {number: calls[0] for number, calls in processes.items()}
    devices = []
    for calls in processes.values():
        names = [call.name for call in calls]
        init, destroy = names.index("init_process_group"), names.index("destroy_process_group")
        assert (names.count("init_process_group"), names.count("destroy_process_group")) == (1, 1)
        backend, device = calls[init].given
        assert backend == "nccl"
        devices.append(device)
        bound = names.index("_cuda_setDevice")
        assert bound < init
        # what comes before may count GPUs, and no more: anything else takes memory of GPU 0
        assert set(names[:bound]) <= {"device_count"}, names[:bound]
        assert f"cuda:{calls[bound].given[0]}" == device
        collectives = [place for place, call in enumerate(calls) if call.kind == "collective"]
        assert init < collectives[0] and collectives[-1] < destroy
        for place in collectives:
            assert {f"cuda:{calls[place].gpu}", *calls[place].devices} == {device}, calls[place]
        _check_events(calls, device)
    assert sorted(devices) == sorted(f"cuda:{rank % per_node}" for rank in range(size))


def _check_events(calls: list[Call], device: str) -> None:
    """Each two events surround one collective on their stream, and are read after the device is done."""
    at = [place for place, call in enumerate(calls) if call.name == "record"]
    assert at and len(at) % 2 == 0
    for begin, end in zip(at[::2], at[1::2], strict=True):
        timed = [call for call in calls[begin : end + 1] if call.kind != "cuda"]
        assert [call.kind for call in timed] == ["event", "collective", "event"], timed
        assert len({(call.gpu, call.stream) for call in timed}) == 1, timed
        assert f"cuda:{timed[0].gpu}" == device
    for before, after in itertools.pairwise([place for place, call in enumerate(calls) if call.kind == "event"]):
        if (calls[before].name, calls[after].name) == ("record", "elapsed_time"):
            assert "_cuda_synchronize" in [call.name for call in calls[before:after]]
