"""The smoke test on a real GPU: one rank with NCCL, two that share the GPU, gloo with CUDA tensors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import environment

pytestmark = [pytest.mark.gpu, pytest.mark.torch, pytest.mark.slow]


def collective(*options: str, cwd: Path, **extra: str) -> tuple[int, dict[str, Any]]:
    """Status and report; the GPU's libraries are found as this process finds them."""
    kept = {
        name: os.environ[name]
        for name in ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES")
        if name in os.environ
    }
    result = subprocess.run(
        [sys.executable, "-m", "distcheck", "collective", "--output-format", "json", *options],
        capture_output=True, text=True, env=environment(**kept, **extra), cwd=cwd, timeout=280,
    )  # fmt: skip
    assert "Traceback" not in result.stderr, result.stderr
    plain: dict[str, Any] = json.loads(result.stdout)
    return result.returncode, plain


def loud(plain: dict[str, Any]) -> list[str]:
    return [item["code"] for item in plain["findings"] if item["severity"] == "error"]


def test_good_one_rank_with_nccl(tmp_path: Path) -> None:
    """NCCL starts, results are right, and what one rank can't tell is said to have no meaning."""
    status, plain = collective("--nproc", "1", "-e", "64M", cwd=tmp_path)
    assert (status, loud(plain)) == (0, [])
    found = plain["measurements"]
    assert (found["backend"], found["device"]) == ("nccl", "cuda")
    assert found["proof"]["checks"] > 0
    assert found["proof"]["mismatches"] == []
    assert found["measured"]["clock"] == "cuda-events"
    assert all(item["busbw_gbytes_per_s"] is None for item in found["measured"]["bandwidth"])


def test_bad_two_ranks_on_one_gpu_are_named_before_nccl_fails(tmp_path: Path) -> None:
    status, plain = collective("--nproc", "2", "--backend", "nccl", cwd=tmp_path, CUDA_VISIBLE_DEVICES="0")
    assert status == 1
    assert {"DC301", "DC303"} & set(loud(plain))
    assert "start" not in plain["measurements"].get("phases", {})


def test_good_gloo_with_tensors_on_the_gpu(tmp_path: Path) -> None:
    """Two ranks may share a GPU where gloo carries the data."""
    options = (
        "--nproc",
        "2",
        "--backend",
        "gloo",
        "--device",
        "cuda",
        "--ignore",
        "DC301,DC303",
        "--continue",
        "-e",
        "16M",
    )
    _, plain = collective(*options, cwd=tmp_path, CUDA_VISIBLE_DEVICES="0")
    found = plain["measurements"]
    assert found["failure"] is None, found["failure"]
    assert found["device"] == "cuda"
    assert found["proof"]["mismatches"] == []
    assert found["measured"]["clock"] == "cuda-events"


def test_good_several_ranks_on_one_gpu_where_nccl_allows_it(tmp_path: Path) -> None:
    """NCCL 2.30 and later can be told to; an earlier one takes ranks with different host ids for several hosts."""
    _, plain = collective(
        "--nproc", "2", "--backend", "nccl", "--device", "cuda", "--ignore", "DC301,DC303", "--continue", "-e", "16M",
        cwd=tmp_path, CUDA_VISIBLE_DEVICES="0", NCCL_MULTI_RANK_GPU_ENABLE="1",
    )  # fmt: skip
    failure = plain["measurements"]["failure"]
    if failure is not None and "Duplicate GPU" in json.dumps(failure):
        pytest.skip("the installed NCCL does not allow two ranks on one GPU")
    assert failure is None, failure
    assert plain["measurements"]["proof"]["mismatches"] == []
    assert all(item["busbw_gbytes_per_s"] > 0 for item in plain["measurements"]["measured"]["bandwidth"])


def test_good_the_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    subprocess.run(
        [sys.executable, "-m", "distcheck", "collective", "--nproc", "1", "-e", "1M", "--output-format", "html", "-o", str(page)],
        check=True, env=environment(), cwd=tmp_path, timeout=280,
    )  # fmt: skip
    assert "<svg" in page.read_text(encoding="utf-8") or "not applicable" in page.read_text(encoding="utf-8")
