"""``distcheck.runtime.smoke_test.check()`` in a job that has a process group already."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import distcheck.runtime.smoke_test

from .ranks import free_port

pytestmark = [pytest.mark.torch, pytest.mark.quiet]


def in_ranks(size: int, folder: Path, job: Callable[[int], Any]) -> list[Any]:
    """What the job gave on each rank of a gloo group, as JSON values; None where a rank gave nothing."""
    import torch.distributed
    import torch.multiprocessing

    torch.multiprocessing.start_processes(
        _rank, args=(size, free_port(), folder, job), nprocs=size, start_method="fork"
    )
    paths = [folder / f"{rank}.json" for rank in range(size)]
    return [json.loads(path.read_text()) if path.exists() else None for path in paths]


def _rank(rank: int, size: int, port: int, folder: Path, job: Callable[[int], Any]) -> None:
    import torch.distributed as dist

    status = 0
    gc.freeze()
    try:
        dist.init_process_group(
            "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size, timeout=timedelta(seconds=60)
        )
        (folder / f"{rank}.json").write_text(json.dumps(job(rank)))
        dist.destroy_process_group()
    except BaseException as error:  # noqa: BLE001 - told to the test
        (folder / f"{rank}.json").write_text(json.dumps({"raised": f"{type(error).__name__}: {error}"}))
    os._exit(status)


def test_good_all_ranks_get_one_report_and_the_job_goes_on(tmp_path: Path) -> None:
    def job(rank: int) -> Any:
        import torch
        import torch.distributed as dist

        report = distcheck.runtime.smoke_test.check(timeout_s=40.0)
        again = distcheck.runtime.smoke_test.check(timeout_s=40.0)
        # the job's own group is as it was
        total = torch.ones(1)
        dist.all_reduce(total)
        return [report.as_dict(), total.item(), again.worst.word if again.worst else ""]

    found = in_ranks(2, tmp_path, job)
    for plain, total, again in found:
        assert total == 2.0
        assert plain["measurements"]["proof"]["ranks"] == 2
        assert plain["measurements"]["proof"]["mismatches"] == []
        assert [item["code"] for item in plain["findings"] if item["severity"] == "error"] == []
        assert again in ("", "info")
    assert found[0][0]["measurements"] == found[1][0]["measurements"]


def test_the_first_collective_names_the_device(tmp_path: Path) -> None:
    """A barrier has no tensor: until torch 2.7 NCCL binds the GPU of the rank's number with it."""

    def job(rank: int) -> Any:
        from distcheck.runtime.smoke_test.live_group import Operations

        calls: list[str] = []
        for name in ("barrier", "all_reduce", "broadcast"):
            real = getattr(Operations, name)
            setattr(Operations, name, lambda *values, name=name, real=real: (calls.append(name), real(*values))[1])
        distcheck.runtime.smoke_test.check(timeout_s=40.0)
        return calls[0]

    assert in_ranks(2, tmp_path, job) == ["all_reduce"] * 2


def test_bad_a_rank_that_does_not_call_it_is_named(tmp_path: Path) -> None:
    def job(rank: int) -> Any:
        if rank == 1:
            time.sleep(7.0)
            return "slept"
        begun = time.monotonic()
        report = distcheck.runtime.smoke_test.check(timeout_s=2.0)
        return [report.as_dict(), time.monotonic() - begun]

    found = in_ranks(3, tmp_path, job)
    plain, seconds = found[0]
    assert plain["measurements"]["failure"]["culprits"] == [1]
    assert [item["code"] for item in plain["findings"] if item["severity"] == "error"] in (["DC501"], ["DC511"])
    assert seconds < 2.0 + 5.0
    assert found[1] == "slept"


def test_bad_a_rank_that_hangs_in_the_middle_is_named_and_the_others_come_back(tmp_path: Path) -> None:
    def job(rank: int) -> Any:
        from distcheck.runtime.smoke_test import in_job

        if rank == 1:
            # a rank that is stuck in code of its own before it joins the proof
            run = in_job._InJobRun._phase

            def stuck(self: Any, phase: str, live: Any, found: Any) -> Any:
                if phase == "verify":
                    time.sleep(9.0)
                return run(self, phase, live, found)

            in_job._InJobRun._phase = stuck  # type: ignore[method-assign]
        begun = time.monotonic()
        report = distcheck.runtime.smoke_test.check(timeout_s=3.0)
        return [report.as_dict()["measurements"]["failure"], time.monotonic() - begun]

    failure, seconds = in_ranks(2, tmp_path, job)[0]
    assert failure["phase"] == "verify"
    assert failure["kind"] in ("timeout", "lost")
    assert seconds < 3.0 + 10.0


def test_without_a_group_it_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match="init_process_group"):
        distcheck.runtime.smoke_test.check()
