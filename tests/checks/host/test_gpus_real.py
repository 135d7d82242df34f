"""A real NVIDIA GPU, where there is one: what is read agrees with nvidia-smi, and no memory of the GPU is taken."""

from __future__ import annotations

import subprocess

import pytest

from distcheck.checks.host.examine import examine
from distcheck.checks.host.gpus import read_gpus
from distcheck.core.model import Severity, Unavailable
from distcheck.core.world import World
from distcheck.launch.model import Launch

pytestmark = pytest.mark.gpu


def smi(*fields: str) -> list[list[str]]:
    result = subprocess.run(
        ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [[part.strip() for part in line.split(",")] for line in result.stdout.splitlines()]


def test_the_gpus_are_those_of_nvidia_smi() -> None:
    found = read_gpus(World())
    rows = smi("uuid", "name", "memory.total", "driver_version")
    assert [(gpu.uuid, gpu.name, found.driver_version) for gpu in found.gpus] == [
        (row[0], row[1], row[3]) for row in rows
    ]
    for gpu, row in zip(found.gpus, rows, strict=True):
        assert abs(gpu.memory_bytes / (1 << 20) - float(row[2])) < 2048
    assert not any(gpu.errors for gpu in found.gpus if gpu.lost)


def test_looking_takes_no_memory_of_a_gpu() -> None:
    before = [int(row[0]) for row in smi("memory.used")]
    examine(Launch(), World())
    after = [int(row[0]) for row in smi("memory.used")]
    assert all(later - earlier < 64 for earlier, later in zip(before, after, strict=True))


def test_good_a_launch_of_as_many_ranks_as_gpus() -> None:
    report = examine(Launch("planned", "torchrun", nproc=len(smi("uuid")), standalone=True, backend="nccl"), World())
    assert "DC301" in report.checked
    assert [item.code for item in report.findings if item.code == "DC301"] == []


def test_bad_dc301_one_rank_too_many() -> None:
    report = examine(
        Launch("planned", "torchrun", nproc=len(smi("uuid")) + 1, standalone=True, backend="nccl"), World()
    )
    assert [(item.code, item.severity) for item in report.findings if item.code == "DC301"] == [
        ("DC301", Severity.ERROR)
    ]


def test_every_fact_is_there() -> None:
    report = examine(Launch(), World(), every_fact=True)
    assert not isinstance(report.facts["Gpus"], Unavailable)
