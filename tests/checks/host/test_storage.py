"""Shared memory and scratch folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck.checks.host.gpus import Gpu, Gpus
from distcheck.checks.host.platform import Platform
from distcheck.checks.host.software import Software
from distcheck.checks.host.storage import (
    Folder,
    Scratch,
    SharedMemory,
    read_scratch,
    read_shared_memory,
    scratch_has_room,
    shared_memory_holds_the_ranks,
)
from distcheck.core.model import Severity, Unavailable
from distcheck.launch.model import Launch, LaunchCommand
from tests.recorded import recorded_world

GIB = 1 << 30
MIB = 1 << 20
NO_GPU = Unavailable("no driver")
NO_TORCH = Unavailable("no Python was found")
DOCKER = Platform("linux", container="docker")
HOST = Platform("linux")
RANKS_8 = Launch("planned", nproc=8)


def eight_gpus() -> Gpus:
    return Gpus("nvidia", tuple(Gpu(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3") for index in range(8)))


@pytest.mark.parametrize(
    ("launch", "memory", "gpus", "severity"),
    [
        pytest.param(
            RANKS_8, SharedMemory(64 * MIB, 64 * MIB), eight_gpus(), Severity.WARNING, id="NCCL is expected with GPUs"
        ),
        pytest.param(
            RANKS_8._replace(backend="nccl"), SharedMemory(64 * MIB, 64 * MIB), NO_GPU, Severity.WARNING, id="NCCL"
        ),
        pytest.param(
            Launch("planned", nproc=2, backend="cpu:gloo,cuda:nccl"),
            SharedMemory(256 * MIB, 256 * MIB),
            NO_GPU,
            Severity.WARNING,
            id="small",
        ),
        pytest.param(
            RANKS_8, SharedMemory(16 * GIB, 100 * MIB, 30), eight_gpus(), Severity.WARNING, id="large, but full"
        ),
        pytest.param(
            RANKS_8._replace(backend="gloo"),
            SharedMemory(64 * MIB, 64 * MIB),
            eight_gpus(),
            Severity.INFO,
            id="gloo does not use it",
        ),
        pytest.param(RANKS_8, SharedMemory(64 * MIB, 64 * MIB), NO_GPU, Severity.INFO, id="no GPU, so no NCCL"),
        pytest.param(RANKS_8, SharedMemory(16 * GIB, 100 * MIB, 30), NO_GPU, Severity.INFO, id="full, but not used"),
        pytest.param(Launch(), SharedMemory(64 * MIB, 64 * MIB), eight_gpus(), Severity.INFO, id="no launch yet"),
    ],
)
def test_bad_shared_memory(launch: Launch, memory: SharedMemory, gpus: Gpus | Unavailable, severity: Severity) -> None:
    (finding,) = shared_memory_holds_the_ranks(launch, memory, gpus, NO_TORCH, DOCKER)
    assert (finding.code, finding.severity) == ("DC320", severity)
    assert finding.evidence["free_bytes"] == memory.free_bytes


def test_good_dc320_torch_without_cuda_uses_no_nccl() -> None:
    software = Software("python3.12", torch="2.13.0+cpu")
    (finding,) = shared_memory_holds_the_ranks(
        RANKS_8, SharedMemory(64 * MIB, 64 * MIB), eight_gpus(), software, DOCKER
    )
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("arguments", "severity"),
    [
        (("--num-workers", "8"), Severity.WARNING),
        (("--lr", "0.1", "--num_workers=4"), Severity.WARNING),
        (("-x", "--workers", "2"), Severity.WARNING),
        (("--dataloader-num-workers=2",), Severity.WARNING),
        (("--num-workers", "0"), Severity.INFO),
        (("--num-workers",), Severity.INFO),
        (("--num-workers", "$N"), Severity.INFO),
        (("--workers-dir", "8"), Severity.INFO),
    ],
)
def test_loader_workers_use_shared_memory(arguments: tuple[str, ...], severity: Severity) -> None:
    launch = RANKS_8._replace(backend="gloo", command=LaunchCommand("torchrun", script_args=arguments))
    (finding,) = shared_memory_holds_the_ranks(launch, SharedMemory(64 * MIB, 64 * MIB), NO_GPU, NO_TORCH, HOST)
    assert finding.severity is severity
    assert ("DataLoader workers of 8 ranks can need" in finding.message) is (severity is Severity.WARNING)


@pytest.mark.parametrize(
    ("launch", "memory", "gpus"),
    [
        pytest.param(RANKS_8, SharedMemory(16 * GIB, 15 * GIB), eight_gpus(), id="large"),
        pytest.param(
            Launch("planned", nproc=1), SharedMemory(64 * MIB, 64 * MIB), NO_GPU, id="one rank shares with nobody"
        ),
        pytest.param(
            Launch(), SharedMemory(64 * MIB, 64 * MIB), NO_GPU, id="plain container without a GPU or a launch"
        ),
        pytest.param(Launch("rank", local_world_size=2), SharedMemory(GIB, GIB), NO_GPU, id="just enough"),
    ],
)
def test_good_shared_memory(launch: Launch, memory: SharedMemory, gpus: Gpus | Unavailable) -> None:
    assert list(shared_memory_holds_the_ranks(launch, memory, gpus, NO_TORCH, HOST)) == []


@pytest.mark.parametrize("starter", ["docker", "podman"])
def test_good_dc320_another_container_has_its_own(starter: str) -> None:
    launch = RANKS_8._replace(command=LaunchCommand("torchrun", wrappers=(starter,)))
    with pytest.raises(Unavailable, match="of its own"):
        list(shared_memory_holds_the_ranks(launch, SharedMemory(64 * MIB, 64 * MIB), NO_GPU, NO_TORCH, HOST))


@pytest.mark.parametrize(
    ("platform", "by", "words"),
    [
        (DOCKER, "user", "--shm-size"),
        (Platform("linux", container="kubernetes"), "user", "emptyDir"),
        (HOST, "admin", "remount"),
        (Unavailable("no /proc"), "user", "--shm-size"),
    ],
)
def test_the_fix_is_for_this_machine(platform: Platform | Unavailable, by: str, words: str) -> None:
    (finding,) = shared_memory_holds_the_ranks(RANKS_8, SharedMemory(64 * MIB, 64 * MIB), NO_GPU, NO_TORCH, platform)
    assert finding.fix.by == by
    assert words in finding.fix.text


@pytest.mark.parametrize(
    "folder",
    [
        Folder("/tmp", "TMPDIR", 10 * MIB, True),
        Folder("/scratch/me", "TMPDIR", 10 * GIB, False),
        Folder("/scratch/" + "x" * 90, "TMPDIR", 10 * GIB, True),
    ],
)
def test_bad_scratch(folder: Folder) -> None:
    (finding,) = scratch_has_room(RANKS_8, Scratch((folder,)))
    assert (finding.code, finding.severity) == ("DC327", Severity.WARNING)
    (finding,) = scratch_has_room(Launch(), Scratch((folder,)))
    assert finding.severity is Severity.INFO


def test_good_scratch() -> None:
    assert list(scratch_has_room(RANKS_8, Scratch((Folder("/tmp", "TMPDIR", 10 * GIB, True),)))) == []


def test_shared_memory_is_read(tmp_path: Path) -> None:
    world = recorded_world(
        tmp_path, spaces={"/dev/shm": [64 * MIB, 10 * MIB]}, files={"/dev/shm/nccl-abc": "", "/dev/shm/torch_1_2": ""}
    )
    assert read_shared_memory(world) == SharedMemory(64 * MIB, 10 * MIB, 2)


def test_no_shared_memory_is_not_checked(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="/dev/shm"):
        read_shared_memory(recorded_world(tmp_path))
    with pytest.raises(Unavailable, match="darwin"):
        read_shared_memory(recorded_world(tmp_path, platform="darwin"))


def test_scratch_is_read(tmp_path: Path) -> None:
    world = recorded_world(
        tmp_path, environ={"TMPDIR": "/scratch"}, spaces={"/scratch": [GIB, MIB]}, unwritable=["/scratch"]
    )
    assert read_scratch(world) == Scratch((Folder("/scratch", "TMPDIR", MIB, False),))


def test_a_named_folder_that_is_missing(tmp_path: Path) -> None:
    world = recorded_world(tmp_path, environ={"TMPDIR": "/gone"})
    assert read_scratch(world).folders == (Folder("/gone", "TMPDIR", 0, False),)
