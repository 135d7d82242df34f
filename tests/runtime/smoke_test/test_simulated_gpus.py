"""The smoke test with NCCL on simulated GPUs: the branches for CUDA, from the device's binding to the sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck.runtime.rehearsal.fake_cuda import FakeGpus, simulate
from distcheck.runtime.smoke_test import bandwidth, cases, correctness, stragglers
from distcheck.runtime.smoke_test.model import Options

from .ranks import launch

pytestmark = [pytest.mark.torch, pytest.mark.slow]

GPUS = 4


def _simulate(_rank: int) -> None:
    import torch

    torch.set_num_threads(1)
    simulate(FakeGpus(GPUS))


@pytest.mark.parametrize(("size", "per_node"), [(1, 1), (2, 2), (3, 3), (4, 4), (4, 2)])
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
    said = launch(size, tmp_path, options, prepare=_simulate, per_node=per_node, limit_s=200.0)
    assert [one.status for one in said] == [0] * size, said
    report = said[0].report
    assert report is not None
    found = report["measurements"]
    assert [item for item in report["findings"] if item["severity"] in ("error", "warning")] == []
    assert set(found["phases"]) >= {"start", "prove", "measure", "find"}
    assert (found["backend"], found["device"]) == ("nccl", "cuda")
    proof, measured = found["proof"], found["measured"]
    assert (proof["ranks"], proof["mismatches"], proof["failures"]) == (size, [], [])
    needed = {*cases.COLLECTIVES, correctness.PEER_COPY} - (set() if size > 1 else {"send_recv", "barrier"})
    assert set(proof["collectives"]) == needed
    assert (measured["clock"], measured["device_name"]) == ("cuda-events", FakeGpus(GPUS).name)
    assert [item["size_bytes"] for item in measured["bandwidth"]][-1] == 1 << 18
    assert all(item["time"]["median_s"] > 0 for item in measured["bandwidth"])
