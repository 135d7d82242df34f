"""Masks of CUDA and ROCm, and what a launch makes of the devices that they leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.host.devices import (
    Devices,
    apply_masks,
    devices_are_numbered_alike,
    every_rank_has_a_gpu,
    gpus_take_enough_processes,
    has_own_mask,
    masks_say_what_they_do,
    mig_gives_each_rank_an_instance,
    no_gpu_is_left_idle,
    ranks_get_equal_gpus,
    read_devices,
    rocm_masks_agree,
    runs_on_gpus,
    tasks_see_all_gpus,
    visible_gpus,
)
from distcheck.checks.host.gpus import Driver, Gpu, GpuProcess, Gpus
from distcheck.checks.host.platform import Platform
from distcheck.checks.host.software import Software
from distcheck.core.configuration import Configuration
from distcheck.core.model import Finding, Severity, Unavailable
from distcheck.launch.command import parse_command
from distcheck.launch.model import Launch
from distcheck.launch.reader import make_launch
from distcheck.launch.schedulers import Scheduler
from distcheck.launch.settings import Setting, Settings, read_settings
from tests.fake_nvml import uuid_of
from tests.recorded import recorded_world

NO_GPU = Unavailable("no NVIDIA driver: its library libnvidia-ml is not found")
NO_SCHEDULER = Unavailable("no scheduler or MPI launcher set variables here")
NO_SOFTWARE = Unavailable("not looked")
HOST = Platform("linux")
CPU_TORCH = Software("3.11", torch="2.9.0")
CUDA_TORCH = Software("3.11", torch="2.9.0", cuda="12.8")
H100, DISPLAY = "NVIDIA H100 80GB HBM3", "NVIDIA T400"
MIG = tuple(f"MIG-{index}9f04cbb-5a0e-5e3c-8d6c-aaaaaaaaaaaa" for index in range(3))


def cards(count: int = 8, name: str = H100, vendor: str = "nvidia") -> Gpus:
    return Gpus(vendor, tuple(Gpu(index, uuid_of(index), name) for index in range(count)))


def amd(count: int = 8) -> Gpus:
    return cards(count, "AMD Instinct MI300X", "amd")


def mixed(*names: str) -> Gpus:
    return Gpus("nvidia", tuple(Gpu(index, uuid_of(index), name) for index, name in enumerate(names)))


def cut(*instances: int) -> Gpus:
    """GPUs with so many MIG instances each; a negative number is a GPU without MIG."""
    made = iter(MIG)
    return Gpus(
        "nvidia",
        tuple(
            Gpu(
                index,
                uuid_of(index),
                "NVIDIA A100-PCIE-40GB",
                mig_enabled=number >= 0,
                mig_uuids=tuple(next(made) for _ in range(number)),
            )
            for index, number in enumerate(instances)
        ),
    )


def settings(**values: str) -> Settings:
    return Settings(tuple(Setting(name, value) for name, value in values.items()))


def planned(nproc: int | None = 8, **more: Any) -> Launch:
    return Launch("planned", nproc=nproc, launcher="torchrun")._replace(**more)


def rank(local_rank: int, ranks: int = 8, launcher: str = "torchrun", **more: Any) -> Launch:
    return Launch("rank", launcher=launcher, local_rank=local_rank, local_world_size=ranks)._replace(**more)


def cuda(mask: str | None, gpus: Gpus, **more: str) -> Devices:
    return apply_masks({**({} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}), **more}, gpus)


# the masks of CUDA


@pytest.mark.parametrize(
    ("mask", "visible", "faults"),
    [
        (None, "01234567", 0),
        ("0,1,2,3", "0123", 0),
        ("3,1", "31", 0),
        ("0, 1", "01", 0),
        (" 2 ,3", "23", 0),
        ("0,1,", "01", 0),
        ("+1", "1", 0),
        ("", "", 0),
        (" ", "", 0),
        ("-1", "", 0),
        ("-1,0", "", 0),
        ("0,-1,1", "0", 0),
        ("NoDevFiles", "", 0),
        ("0,1,1", "", 1),
        ("0,1,8", "01", 1),
        ("0,8,1", "0", 1),
        ("8", "", 1),
        ("abc", "", 1),
        ('"0,1"', "", 1),
        ("'0'", "", 1),
        ("0;1", "0", 1),
        ("1gpu2,2ampere", "12", 2),
        ("0,,1", "0", 1),
        (",0", "", 1),
        ("0,GPU-11ab4e2c", "0", 1),
        ("cuda:0", "", 1),
        ("all", "", 1),
        ("GPU-11ab", "1", 0),
        ("GPU-11ab,GPU-3", "13", 0),
        (uuid_of(7), "7", 0),
        ("GPU-", "", 1),
        ("GPU-11ab,2", "1", 1),
        ("GPU-11ab,GPU-ffff", "1", 1),
        ("GPU-11ab,GPU-11ab4e2c", "", 1),
        ("GPU-11ab, GPU-2", "1", 1),
        ("GPU-11ab,", "1", 0),
        (" GPU-11ab", "", 1),
        ("gpu-11ab", "", 1),
        ("MIG-deadbeef", "", 1),
        (f"MIG-{uuid_of(0)[:-1]}/1/0", "", 1),
    ],
)
def test_cuda_masks(mask: str | None, visible: str, faults: int) -> None:
    found = cuda(mask, cards())
    assert "".join(found.visible or ()) == visible
    assert len(found.dropped) == faults
    assert found.count == len(visible)
    assert found.masks == (() if mask is None else (("CUDA_VISIBLE_DEVICES", mask),))


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        ("0,9,1,2", "there is no GPU 9 (only 0 to 7 here), which ends the list and hides 1, 2 as well"),
        ("0,9", "there is no GPU 9 (only 0 to 7 here), which ends the list"),
        ("0,,1", "an empty entry names nothing, which ends the list and hides 1 as well"),
        ("0,GPU-1", "'GPU-1' is a UUID among numbers, which ends the list"),
        ("0;1", "of '0;1' only 0 is read"),
    ],
)
def test_what_a_fault_does_is_said(mask: str, text: str) -> None:
    assert cuda(mask, cards()).dropped == (text,)


@given(st.lists(st.integers(0, 7), unique=True), st.sampled_from([",", ", ", " ,"]))
def test_a_clean_list_is_taken_as_it_stands(numbers: list[int], comma: str) -> None:
    found = cuda(comma.join(map(str, numbers)), cards())
    assert found.visible == tuple(map(str, numbers))
    assert found.faults == ()


@given(st.text(alphabet="0123456789,-+ GPUMI;'ax/", max_size=30), st.integers(0, 8))
def test_any_text_is_read(mask: str, count: int) -> None:
    for gpus in (cards(count), amd(count), cut(*[2] * min(count, 1), -1)):
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
            found = apply_masks({name: mask}, gpus)
            assert found.visible is not None
            assert len(set(found.visible)) == len(found.visible) <= len(gpus.gpus)
            assert len(visible_gpus(found, gpus)) == len(found.visible)


def test_a_lost_card_has_no_number() -> None:
    gpus = cards(3)
    gpus = gpus._replace(gpus=(gpus.gpus[0]._replace(lost=True), *gpus.gpus[1:]))
    assert cuda(None, gpus).visible == ("1", "2")
    assert cuda("0", gpus).visible == ("1",)


def test_cards_of_several_models_are_numbered_by_cuda() -> None:
    gpus = mixed(DISPLAY, H100)
    assert not cuda(None, gpus).order_known
    assert not cuda("0", gpus).order_known
    assert cuda(None, gpus, CUDA_DEVICE_ORDER="PCI_BUS_ID").order_known
    assert cuda("GPU-11ab", gpus).order_known
    assert cuda(None, cards()).order_known


@pytest.mark.parametrize(
    ("mask", "gpus", "visible"),
    [
        (None, cut(2), MIG[:1]),
        ("0", cut(2), MIG[:1]),
        (None, cut(-1, 1), MIG[:1]),
        ("0", cut(-1, 1), ("0",)),
        (None, cut(0), ()),
        (None, cut(0, -1), ("1",)),
        (MIG[1], cut(2), (MIG[1],)),
        (MIG[1][:8], cut(2), (MIG[1],)),
        (f"{MIG[1]},{MIG[0]}", cut(2), (MIG[1],)),
        ("MIG-", cut(2), ()),
        (f"MIG-{uuid_of(0)}/1/0", cut(2), (f"MIG-{uuid_of(0)}/1/0",)),
    ],
)
def test_a_process_gets_one_mig_instance(mask: str | None, gpus: Gpus, visible: tuple[str, ...]) -> None:
    assert cuda(mask, gpus).visible == visible


@pytest.mark.parametrize(
    ("values", "visible"),
    [
        ({}, None),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ()),
        ({"HIP_VISIBLE_DEVICES": "-1"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, ()),
    ],
)
def test_without_a_driver(values: dict[str, str], visible: tuple[str, ...] | None) -> None:
    found = apply_masks(values, NO_GPU)
    assert found.visible == visible
    assert found.masks == tuple(values.items())


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ("0,0", "twice"),
        ("1,3,1", "twice"),
        ("GPU-a,GPU-b,GPU-a", "twice"),
        ('"0,1"', "no number"),
        ("'0'", "no number"),
        ("all", "no number"),
        ("0,GPU-a", "a UUID among numbers"),
    ],
)
def test_bad_dc204_a_mask_that_is_wrong_on_any_host(mask: str, words: str) -> None:
    devices = apply_masks({"CUDA_VISIBLE_DEVICES": mask}, NO_GPU)
    for launch, software, severity in (
        (planned(2), CUDA_TORCH, Severity.WARNING),
        (planned(2, backend="nccl"), NO_SOFTWARE, Severity.WARNING),
        (planned(2), CPU_TORCH, Severity.INFO),
        (Launch(), CUDA_TORCH, Severity.INFO),
    ):
        (finding,) = masks_say_what_they_do(launch, devices, NO_GPU, NO_SCHEDULER, software)
        assert (finding.code, finding.severity) == ("DC204", severity)
        assert words in finding.message


@pytest.mark.parametrize(
    "mask", ["0", "0,1", "7,3", "", "-1", "0,-1,1", "GPU-a,GPU-b", "MIG-a", "NoDevFiles", "0,", "1023"]
)
def test_good_dc204_masks_of_an_unknown_host(mask: str) -> None:
    devices = apply_masks({"CUDA_VISIBLE_DEVICES": mask}, NO_GPU)
    assert list(masks_say_what_they_do(planned(2), devices, NO_GPU, NO_SCHEDULER, CUDA_TORCH)) == []


def test_good_dc204_masks_of_rocm_are_read_with_its_gpus() -> None:
    devices = apply_masks({"CUDA_VISIBLE_DEVICES": "0,0", "HIP_VISIBLE_DEVICES": "0"}, NO_GPU)
    assert list(masks_say_what_they_do(planned(2), devices, NO_GPU, NO_SCHEDULER, CUDA_TORCH)) == []


def test_all_gpus_count_where_the_masks_are_not_known() -> None:
    assert visible_gpus(Devices(), cards(3)) == cards(3).gpus
    assert visible_gpus(cuda(MIG[1], cut(2)), cut(2)) == cut(2).gpus


# the masks of ROCm


@pytest.mark.parametrize(
    ("values", "visible", "conflicts"),
    [
        ({}, "01234567", 0),
        ({"HIP_VISIBLE_DEVICES": "2,3"}, "23", 0),
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, "23", 0),
        ({"ROCR_VISIBLE_DEVICES": "4,5"}, "45", 0),
        ({"ROCR_VISIBLE_DEVICES": "4, 5"}, "45", 0),
        ({"ROCR_VISIBLE_DEVICES": uuid_of(6)}, "6", 0),
        ({"ROCR_VISIBLE_DEVICES": "4,5,6,7", "HIP_VISIBLE_DEVICES": "0,1"}, "45", 0),
        ({"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "0,1"}, "01", 0),
        ({"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "4,5"}, "", 1),
        ({"ROCR_VISIBLE_DEVICES": "4", "CUDA_VISIBLE_DEVICES": "0,4"}, "4", 1),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "2"}, "1", 0),
        ({"HIP_VISIBLE_DEVICES": ""}, "", 0),
        ({"ROCR_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": ""}, "", 0),
    ],
)
def test_rocm_masks(values: dict[str, str], visible: str, conflicts: int) -> None:
    found = apply_masks(values, amd())
    assert "".join(found.visible or ()) == visible
    assert sum(fault.conflict for fault in found.faults) == conflicts


@pytest.mark.parametrize(
    ("mask", "visible", "fault"),
    [
        ("0, 1", "0", "' 1' is, for the blank, none of the 8 GPUs that are left to it, which ends the list"),
        ("0,x,1", "0", "'x' is none of the 8 GPUs that are left to it, which ends the list and hides 1 as well"),
        ("01", "", "'01' is none of the 8 GPUs that are left to it, which ends the list"),
        ("0,1,1", "01", None),
        ("0,1,", "01", None),
        ("0,-1,1", "0", None),
        ("NoDevFiles", "", None),
    ],
)
def test_hip_takes_only_exact_numbers(mask: str, visible: str, fault: str | None) -> None:
    found = apply_masks({"HIP_VISIBLE_DEVICES": mask}, amd())
    assert "".join(found.visible or ()) == visible
    assert found.dropped == (() if fault is None else (fault,))


def test_devices_are_read_from_settings(tmp_path: Path) -> None:
    world = recorded_world(tmp_path, environ={"CUDA_VISIBLE_DEVICES": "1,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    found = read_devices(read_settings(world, Launch(), Configuration()), mixed(DISPLAY, H100))
    assert (found.visible, found.order_known) == (("1", "0"), True)


# what the ranks use


@pytest.mark.parametrize(
    ("launch", "gpus", "software", "expected"),
    [
        (planned(backend="nccl"), NO_GPU, NO_SOFTWARE, True),
        (planned(backend="gloo"), cards(), CUDA_TORCH, False),
        (planned(backend="cpu:gloo,cuda:nccl"), cards(), CUDA_TORCH, True),
        (planned(), NO_GPU, CUDA_TORCH, False),
        (planned(), cards(0), CUDA_TORCH, False),
        (planned(), cards(), NO_SOFTWARE, True),
        (planned(), cards(), CUDA_TORCH, True),
        (planned(), cards(), CPU_TORCH, False),
        (planned(), amd(), CUDA_TORCH, False),
        (planned(), amd(), Software("3.11", torch="2.9.0", hip="6.4"), True),
    ],
)
def test_whether_ranks_use_gpus(
    launch: Launch, gpus: Gpus | Unavailable, software: Software | Unavailable, expected: bool
) -> None:
    assert runs_on_gpus(launch, gpus, software) is expected


@pytest.mark.parametrize(
    ("launch", "mask", "scheduler", "expected"),
    [
        (rank(3, launcher="slurm"), "3", NO_SCHEDULER, True),
        (rank(3, launcher="slurm"), "0", NO_SCHEDULER, True),
        (rank(3, 4, launcher="slurm"), "0,1", Scheduler("slurm", gpus_per_task=2), True),
        (rank(3, 8, launcher="slurm"), "0,1,2,3", Scheduler("slurm", gpus_on_node=4), False),
        (rank(3), "3", NO_SCHEDULER, True),
        (rank(3), "0", NO_SCHEDULER, False),
        (rank(0), "0", NO_SCHEDULER, None),
        (rank(3), uuid_of(3), NO_SCHEDULER, None),
        (rank(3), None, NO_SCHEDULER, False),
        (planned(), "0", NO_SCHEDULER, False),
    ],
)
def test_masks_of_one_rank(
    launch: Launch, mask: str | None, scheduler: Scheduler | Unavailable, expected: bool | None
) -> None:
    assert has_own_mask(launch, cuda(mask, cards()), scheduler) is expected


# DC301


def dc301(
    launch: Launch,
    mask: str | None = None,
    gpus: Gpus | Unavailable | None = None,
    *,
    driver: Driver | Unavailable = Driver(),
    scheduler: Scheduler | Unavailable = NO_SCHEDULER,
    software: Software | Unavailable = NO_SOFTWARE,
    platform: Platform | Unavailable = HOST,
    **more: Any,
) -> list[Finding]:
    there = cards() if gpus is None else gpus
    values = settings(**{**({} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}), **more})
    devices = read_devices(values, there)
    return list(every_rank_has_a_gpu(launch, devices, values, there, driver, scheduler, software, platform))


@pytest.mark.parametrize(
    ("launch", "mask", "gpus", "usable", "words"),
    [
        pytest.param(planned(8), None, cards(4), 4, "local ranks 4-7 have none", id="README for a larger machine"),
        pytest.param(planned(8), "0,1,2", cards(), 3, "CUDA_VISIBLE_DEVICES=0,1,2", id="mask"),
        pytest.param(planned(2), None, cards(1), 1, "local rank 1", id="one GPU"),
        pytest.param(rank(5), None, cards(4), 4, "local ranks 4-7 have none", id="already launched"),
        pytest.param(rank(5), "0", cards(), 1, "local ranks 1-7 have none", id="torchrun gives all ranks this mask"),
        pytest.param(
            rank(3, 8, "slurm"), "0,1,2,3", cards(4), 4, "local ranks 4-7 have none", id="tasks share four GPUs"
        ),
        pytest.param(
            planned(2, backend="nccl"),
            "",
            cards(),
            0,
            "no GPUs are usable with CUDA_VISIBLE_DEVICES=",
            id="nccl, and all hidden",
        ),
        pytest.param(planned(16), None, amd(), 8, "local ranks 8-15 have none", id="AMD"),
    ],
)
def test_bad_dc301(launch: Launch, mask: str | None, gpus: Gpus, usable: int, words: str) -> None:
    (finding,) = dc301(launch, mask, gpus)
    assert (finding.code, finding.severity) == ("DC301", Severity.ERROR)
    assert finding.evidence["usable"] == usable
    assert words in finding.message


def test_bad_dc301_nccl_without_any_gpu() -> None:
    (finding,) = dc301(planned(2, backend="nccl"), gpus=NO_GPU)
    assert (finding.code, finding.evidence["usable"]) == ("DC301", 0)
    (finding,) = dc301(planned(2, backend="nccl"), gpus=NO_GPU, platform=Platform("linux", container="docker"))
    assert "--gpus all" in finding.fix.text
    (finding,) = dc301(planned(2, backend="nccl"), gpus=NO_GPU, platform=Platform("linux", container="kubernetes"))
    assert "nvidia.com/gpu" in finding.fix.text


def test_bad_dc301_nccl_with_all_gpus_hidden() -> None:
    (finding,) = dc301(planned(2, backend="nccl"), "", NO_GPU)
    assert (finding.code, finding.fix.command) == ("DC301", None)
    assert finding.fix.text.startswith("unset CUDA_VISIBLE_DEVICES")


def test_dc301_is_not_checked_where_gpus_may_be_there() -> None:
    there = Driver("550.54.15", nodes=("/dev/nvidia0",))
    for driver in (there, Unavailable("darwin")):
        with pytest.raises(Unavailable, match="no NVIDIA driver"):
            dc301(planned(2, backend="nccl"), gpus=NO_GPU, driver=driver)


@pytest.mark.parametrize(
    ("launch", "mask", "gpus", "more"),
    [
        pytest.param(planned(8), None, cards(), {}, id="as many"),
        pytest.param(planned(4), None, cards(), {}, id="fewer"),
        pytest.param(Launch(nproc=8), None, cards(1), {}, id="no launch"),
        pytest.param(planned(None), None, cards(1), {}, id="number not known"),
        pytest.param(planned(8, backend="gloo"), None, cards(1), {}, id="gloo on a laptop with one GPU"),
        pytest.param(planned(8), None, NO_GPU, {}, id="container without a GPU"),
        pytest.param(planned(8), "", cards(), {}, id="hidden to run on the CPU"),
        pytest.param(planned(8), None, cards(1), {"software": CPU_TORCH}, id="laptop with a GPU and torch for CPUs"),
        pytest.param(rank(7, 8, "slurm"), "0", cards(1), {}, id="Slurm: each task one GPU, in its cgroup"),
        pytest.param(rank(7, 8, "slurm"), "7", cards(), {}, id="Slurm: each task one GPU"),
        pytest.param(
            rank(3, 4, "slurm"),
            "6,7",
            cards(),
            {"scheduler": Scheduler("slurm", gpus_per_task=2)},
            id="two GPUs a task",
        ),
        pytest.param(rank(5), "5", cards(), {}, id="a wrapper masks one GPU a rank"),
        pytest.param(rank(0), "5", cards(), {}, id="torchrun --virtual-local-rank"),
        pytest.param(planned(8), None, cards(4), {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}, id="ranks share GPUs on purpose"),
        pytest.param(planned(8), None, cards(4), {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps"}, id="MPS"),
        pytest.param(planned(2), None, cut(2), {}, id="MIG has a rule of its own"),
    ],
)
def test_good_dc301(launch: Launch, mask: str | None, gpus: Gpus | Unavailable, more: dict[str, Any]) -> None:
    assert dc301(launch, mask, gpus, **more) == []


def test_a_variable_that_is_off_does_not_silence_dc301() -> None:
    assert dc301(planned(8), None, cards(4), NCCL_MULTI_RANK_GPU_ENABLE="0")


@pytest.mark.parametrize(
    ("launch", "command"),
    [
        (planned(8), "--nproc-per-node=4"),
        (planned(8, launcher="slurm"), "--ntasks-per-node=4"),
        (planned(8, launcher="deepspeed"), "--num_gpus=4"),
        (planned(8, launcher="accelerate", nnodes=2), "--num_processes=8"),
        (planned(8, launcher="openmpi"), None),
        (planned(8, launcher="python"), None),
    ],
)
def test_the_fix_of_dc301_is_an_option_of_the_launcher(launch: Launch, command: str | None) -> None:
    (finding,) = dc301(launch, None, cards(4))
    assert (finding.fix.command, finding.fix.where) == (command, "launch-line")


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("torchrun --nproc-per-node=8 train.py --lr 3", "torchrun --nproc-per-node=4 train.py --lr 3"),
        (
            "NCCL_DEBUG=INFO torchrun --nproc_per_node 8 train.py",
            "NCCL_DEBUG=INFO torchrun --nproc_per_node 4 train.py",
        ),
        ("accelerate launch --num_processes 8 train.py", "accelerate launch --num_processes 4 train.py"),
        ("torchrun --nproc-per-node=8 train.py --api-key hunter2", "--nproc-per-node=4"),
    ],
)
def test_the_fix_of_dc301_is_the_whole_command_to_paste(line: str, fixed: str) -> None:
    launch = make_launch({}, command=parse_command(line.split()))
    (finding,) = dc301(launch, None, cards(4))
    assert finding.fix.command == fixed


def test_good_dc301_leaves_a_broken_mask_to_dc204() -> None:
    assert dc301(planned(8), "0,1;2,3", cards()) == []


def test_the_fix_of_dc301_begins_with_a_broken_mask() -> None:
    (finding,) = dc301(planned(16), "0,1;2,3", cards())
    assert finding.fix.text.startswith("first fix CUDA_VISIBLE_DEVICES")
    assert finding.fix.command is None


# DC302


def dc302(
    launch: Launch, mask: str | None = None, granted: int | None = None, per_task: int | None = None
) -> list[Finding]:
    there = cards()
    job = Scheduler("slurm", gpus_on_node=granted, gpus_per_task=per_task)
    scheduler = NO_SCHEDULER if granted is None else job
    return list(no_gpu_is_left_idle(launch, cuda(mask, there), settings(), there, scheduler, NO_SOFTWARE))


@pytest.mark.parametrize(
    ("launch", "granted", "severity"),
    [
        (planned(4), None, Severity.INFO),
        (planned(4), 8, Severity.WARNING),
        (planned(4), 4, Severity.INFO),
        (planned(1), 8, Severity.INFO),
        (rank(0, 4), 8, Severity.WARNING),
    ],
)
def test_bad_dc302(launch: Launch, granted: int | None, severity: Severity) -> None:
    (finding,) = dc302(launch, granted=granted)
    assert (finding.code, finding.severity) == ("DC302", severity)
    assert finding.evidence["idle"] == [str(index) for index in range(launch.ranks_here or 0, 8)]
    assert finding.fix.command == "--nproc-per-node=8"


@pytest.mark.parametrize(
    ("launch", "mask"),
    [
        pytest.param(planned(8), None, id="all"),
        pytest.param(planned(4), "0,1,2,3", id="the others are masked"),
        pytest.param(planned(4, backend="gloo"), None, id="gloo"),
        pytest.param(Launch(), None, id="no launch"),
        pytest.param(planned(None), None, id="number not known"),
        pytest.param(rank(3, 4, "slurm"), "3", id="one GPU a task"),
    ],
)
def test_good_dc302(launch: Launch, mask: str | None) -> None:
    assert dc302(launch, mask, granted=8) == []


def test_good_dc302_each_task_has_several_gpus_of_its_own() -> None:
    assert dc302(rank(1, 2, "slurm"), "4,5,6,7", granted=8, per_task=4) == []


# DC203


@pytest.mark.parametrize(
    ("launch", "mask"),
    [(rank(3, 8, "slurm"), "0"), (rank(3, 8, "openmpi"), "3"), (rank(3), "3")],
)
def test_bad_dc203(launch: Launch, mask: str) -> None:
    (finding,) = tasks_see_all_gpus(launch, cuda(mask, cards()), cards(), NO_SCHEDULER)
    assert (finding.code, finding.severity) == ("DC203", Severity.INFO)
    assert ("--gpu-bind=none" in finding.fix.text) == (launch.launcher == "slurm")


@pytest.mark.parametrize(
    ("launch", "mask"),
    [
        pytest.param(rank(3, 8, "slurm"), "0,1,2,3,4,5,6,7", id="all GPUs"),
        pytest.param(rank(0, 1, "slurm"), "0", id="one task on this host"),
        pytest.param(rank(0), "0", id="may be the mask of all"),
        pytest.param(planned(8), "0", id="not launched yet"),
        pytest.param(Launch(), "0", id="shell"),
    ],
)
def test_good_dc203(launch: Launch, mask: str) -> None:
    assert list(tasks_see_all_gpus(launch, cuda(mask, cards()), cards(), NO_SCHEDULER)) == []


# DC204


def dc204(
    launch: Launch, mask: str, gpus: Gpus | None = None, scheduler: Scheduler | Unavailable = NO_SCHEDULER
) -> list[Finding]:
    there = cards() if gpus is None else gpus
    return list(masks_say_what_they_do(launch, cuda(mask, there), there, scheduler, NO_SOFTWARE))


@pytest.mark.parametrize(
    ("launch", "mask", "gpus", "severity", "command"),
    [
        pytest.param(planned(2), "0,1,1", cards(), Severity.ERROR, "export CUDA_VISIBLE_DEVICES=0,1", id="twice"),
        pytest.param(planned(2), '"0,1"', cards(), Severity.ERROR, "export CUDA_VISIBLE_DEVICES=0,1", id="quotes"),
        pytest.param(planned(2), "0;1", cards(), Severity.ERROR, "unset CUDA_VISIBLE_DEVICES", id="semicolon"),
        pytest.param(
            planned(2), "4,5", cards(2), Severity.ERROR, "unset CUDA_VISIBLE_DEVICES", id="numbers of the host"
        ),
        pytest.param(planned(2), "GPU-11ab,GPU-ffff", cards(1), Severity.ERROR, None, id="UUIDs of another host"),
        pytest.param(planned(2), "GPU-,0", cards(), Severity.ERROR, "unset CUDA_VISIBLE_DEVICES", id="ambiguous"),
        pytest.param(
            planned(2), "0,1,9", cards(), Severity.INFO, "export CUDA_VISIBLE_DEVICES=0,1", id="enough are left"
        ),
        pytest.param(planned(2, backend="gloo"), "x", cards(), Severity.INFO, "unset CUDA_VISIBLE_DEVICES", id="gloo"),
        pytest.param(Launch(), "0,1,1", cards(), Severity.INFO, "export CUDA_VISIBLE_DEVICES=0,1", id="no launch"),
    ],
)
def test_bad_dc204(launch: Launch, mask: str, gpus: Gpus, severity: Severity, command: str | None) -> None:
    (finding,) = dc204(launch, mask, gpus)
    assert (finding.code, finding.severity) == ("DC204", severity)
    assert finding.where.variable == "CUDA_VISIBLE_DEVICES"
    assert finding.fix.command == command


def test_the_fix_of_dc204_is_clean_itself() -> None:
    for mask in ("0,1,1", '"0,1"', "0,x,1", " GPU-11ab,GPU-2", "1gpu2,2ampere"):
        (command,) = {finding.fix.command or "" for finding in dc204(planned(1), mask)} or {""}
        name, _, value = command.removeprefix("export ").partition("=")
        assert name == "CUDA_VISIBLE_DEVICES"
        assert dc204(planned(1), value) == []


def test_the_fix_of_dc204_leaves_slurms_mask_alone() -> None:
    (finding,) = dc204(planned(2), "4,5,5", scheduler=Scheduler("slurm", gpus_on_node=2))
    assert finding.fix.command is None
    assert "Slurm" in finding.fix.text


@pytest.mark.parametrize("mask", ["0,1", "0, 1", "0,1,", "", "-1", "NoDevFiles", "GPU-11ab", "7,6,5,4,3,2,1,0"])
def test_good_dc204(mask: str) -> None:
    assert dc204(planned(8), mask) == []


def test_good_dc204_leaves_conflicts_to_dc205() -> None:
    devices = apply_masks({"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "4,5"}, amd())
    assert devices.faults
    assert list(masks_say_what_they_do(planned(2), devices, amd(), NO_SCHEDULER, NO_SOFTWARE)) == []


def test_bad_dc204_for_hip() -> None:
    devices = apply_masks({"HIP_VISIBLE_DEVICES": "0, 1"}, amd())
    (finding,) = masks_say_what_they_do(planned(2), devices, amd(), NO_SCHEDULER, NO_SOFTWARE)
    assert (finding.code, finding.where.variable) == ("DC204", "HIP_VISIBLE_DEVICES")
    assert finding.fix.command == "export HIP_VISIBLE_DEVICES=0,1"


# DC205


def dc205(launch: Launch, gpus: Gpus | None = None, **values: Any) -> list[Finding]:
    there = amd() if gpus is None else gpus
    return list(rocm_masks_agree(launch, apply_masks(values, there), settings(**values), there, NO_SOFTWARE))


def test_bad_dc205() -> None:
    (finding,) = dc205(planned(2), ROCR_VISIBLE_DEVICES="4,5", HIP_VISIBLE_DEVICES="4,5")
    assert (finding.code, finding.severity) == ("DC205", Severity.ERROR)
    assert finding.fix.command == "unset HIP_VISIBLE_DEVICES"
    (finding,) = dc205(Launch(), ROCR_VISIBLE_DEVICES="4,5", CUDA_VISIBLE_DEVICES="4,5")
    assert (finding.severity, finding.fix.command) == (Severity.INFO, "unset CUDA_VISIBLE_DEVICES")
    (finding,) = dc205(planned(2), HIP_VISIBLE_DEVICES="0,1", CUDA_VISIBLE_DEVICES="2,3")
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "values",
    [
        {"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "0,1"},
        {"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "0,1"},
        {"HIP_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0,1"},
        {"HIP_VISIBLE_DEVICES": "4,5"},
        {"ROCR_VISIBLE_DEVICES": "4,5"},
    ],
)
def test_good_dc205(values: dict[str, Any]) -> None:
    assert dc205(planned(2), **values) == []
    assert dc205(planned(2), cards(), **values) == []


def test_good_dc205_on_nvidia() -> None:
    assert dc205(planned(2), cards(), HIP_VISIBLE_DEVICES="0", CUDA_VISIBLE_DEVICES="1") == []


# DC221


def test_bad_dc221() -> None:
    gpus = mixed(DISPLAY, H100)
    (finding,) = devices_are_numbered_alike(cuda(None, gpus), settings(), gpus)
    assert (finding.code, finding.severity) == ("DC221", Severity.INFO)
    assert finding.fix.command == "export CUDA_DEVICE_ORDER=PCI_BUS_ID"


def test_good_dc221() -> None:
    gpus = mixed(DISPLAY, H100)
    assert list(devices_are_numbered_alike(cuda(None, gpus), settings(CUDA_DEVICE_ORDER="PCI_BUS_ID"), gpus)) == []
    assert list(devices_are_numbered_alike(cuda(None, cards()), settings(), cards())) == []
    assert list(devices_are_numbered_alike(cuda(None, cards(1)), settings(), cards(1))) == []


# DC306


def by_wrapper(path: str) -> Launch:
    return make_launch({}, command=parse_command(["torchrun", "--nproc-per-node=2", "--no-python", path]))


def dc306(launch: Launch, mask: str | None, gpus: Gpus) -> list[Finding]:
    return list(mig_gives_each_rank_an_instance(launch, cuda(mask, gpus), gpus, NO_SOFTWARE))


@pytest.mark.parametrize(
    ("launch", "mask", "gpus", "severity"),
    [
        pytest.param(planned(2), None, cut(2), Severity.ERROR, id="two ranks, no mask"),
        pytest.param(planned(2), f"{MIG[0]},{MIG[1]}", cut(2), Severity.ERROR, id="two ranks, two instances"),
        pytest.param(planned(2), MIG[0], cut(2), Severity.ERROR, id="two ranks, one instance"),
        pytest.param(rank(1, 2), None, cut(2), Severity.ERROR, id="launched"),
        pytest.param(planned(1), None, cut(0), Severity.ERROR, id="no instance was made"),
        pytest.param(planned(1), f"{MIG[0]},{MIG[1]}", cut(2), Severity.INFO, id="the second does nothing"),
        pytest.param(Launch(), None, cut(0), Severity.INFO, id="no launch"),
        pytest.param(planned(2, backend="gloo"), None, cut(2), Severity.INFO, id="gloo"),
        pytest.param(by_wrapper("./each-rank.sh"), None, cut(2), Severity.INFO, id="a wrapper may mask each rank"),
    ],
)
def test_bad_dc306(launch: Launch, mask: str | None, gpus: Gpus, severity: Severity) -> None:
    (finding,) = dc306(launch, mask, gpus)
    assert (finding.code, finding.severity) == ("DC306", severity)


@pytest.mark.parametrize(
    ("launch", "mask", "gpus"),
    [
        pytest.param(planned(1), None, cut(1), id="one slice in a pod"),
        pytest.param(planned(1, nnodes=4), None, cut(1), id="one slice in each of four pods"),
        pytest.param(rank(1, 2), MIG[1], cut(2), id="an instance for each rank"),
        pytest.param(Launch(), None, cut(2), id="no launch"),
        pytest.param(planned(8), None, cards(), id="no MIG"),
        pytest.param(planned(1), "0", cut(-1, 2), id="the other GPU is cut"),
        pytest.param(planned(2), "", cut(2), id="hidden on purpose"),
    ],
)
def test_good_dc306(launch: Launch, mask: str | None, gpus: Gpus) -> None:
    assert dc306(launch, mask, gpus) == []


# DC307


def exclusive(mode: str = "exclusive-process", *processes: GpuProcess) -> Gpus:
    gpus = cards(2)
    return gpus._replace(gpus=tuple(gpu._replace(compute_mode=mode, processes=processes) for gpu in gpus.gpus))


def dc307(launch: Launch, gpus: Gpus, **values: str) -> list[Finding]:
    devices = cuda(values.get("CUDA_VISIBLE_DEVICES"), gpus)
    return list(gpus_take_enough_processes(launch, devices, settings(**values), gpus, NO_SCHEDULER, NO_SOFTWARE))


OTHER = GpuProcess(9, 1 << 30, "bob", "python")


@pytest.mark.parametrize(
    ("launch", "gpus", "severity"),
    [
        pytest.param(planned(4), exclusive(), Severity.ERROR, id="two ranks a GPU"),
        pytest.param(planned(2), exclusive("exclusive-process", OTHER), Severity.ERROR, id="held by another"),
        pytest.param(planned(2), exclusive("prohibited"), Severity.ERROR, id="prohibited"),
        pytest.param(planned(2), exclusive(), Severity.INFO, id="worth knowing"),
        pytest.param(Launch(), exclusive("exclusive-process", OTHER), Severity.INFO, id="no launch"),
        pytest.param(
            rank(0, 2), exclusive("exclusive-process", OTHER._replace(own=True)), Severity.INFO, id="the ranks"
        ),
    ],
)
def test_bad_dc307(launch: Launch, gpus: Gpus, severity: Severity) -> None:
    (finding,) = dc307(launch, gpus)
    assert (finding.code, finding.severity, finding.where.gpu) == ("DC307", severity, "0-1")
    assert (finding.fix.by, finding.fix.command) == ("admin", None)


def test_bad_dc307_tells_cards_apart() -> None:
    gpus = exclusive()
    gpus = gpus._replace(gpus=(gpus.gpus[0], gpus.gpus[1]._replace(processes=(OTHER,))))
    found = {finding.where.gpu: finding.severity for finding in dc307(planned(2), gpus)}
    assert found == {"0": Severity.INFO, "1": Severity.ERROR}


def test_good_dc307() -> None:
    assert dc307(planned(4), cards(2)) == []
    assert dc307(planned(2), exclusive("default", OTHER)) == []
    # with MPS this mode is as it should be
    assert dc307(planned(4), exclusive(), CUDA_MPS_PIPE_DIRECTORY="/tmp/mps") == []
    server = GpuProcess(8, 1 << 25, "root", "nvidia-cuda-mps-server")
    assert dc307(planned(4), exclusive("exclusive-process", server)) == []
    assert dc307(planned(1), exclusive(), CUDA_VISIBLE_DEVICES="") == []


# DC308


def dc308(
    launch: Launch, gpus: Gpus, mask: str | None = None, scheduler: Scheduler | Unavailable = NO_SCHEDULER, **more: str
) -> list[Finding]:
    return list(ranks_get_equal_gpus(launch, cuda(mask, gpus, **more), gpus, scheduler, NO_SOFTWARE))


def test_good_dc308_each_task_has_gpus_of_its_own() -> None:
    two_each = Scheduler("slurm", gpus_per_task=2)
    assert dc308(rank(0, 2, "slurm"), mixed(H100, A100), f"{uuid_of(0)},{uuid_of(1)}", two_each) == []


A100 = "NVIDIA A100-PCIE-40GB"


@pytest.mark.parametrize(
    ("ranks", "gpus", "more"),
    [
        pytest.param(2, mixed(H100, A100), {}, id="two kinds"),
        pytest.param(4, mixed(H100, H100, A100, A100), {}, id="two of each"),
        pytest.param(
            2, mixed(DISPLAY, H100, H100), {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, id="the display card comes first"
        ),
        pytest.param(2, mixed(DISPLAY, H100, H100), {"mask": f"{uuid_of(0)},{uuid_of(1)}"}, id="named by UUID"),
    ],
)
def test_bad_dc308(ranks: int, gpus: Gpus, more: dict[str, Any]) -> None:
    (finding,) = dc308(planned(ranks), gpus, **more)
    assert (finding.code, finding.severity) == ("DC308", Severity.WARNING)


@pytest.mark.parametrize(
    ("launch", "gpus", "more"),
    [
        pytest.param(planned(8), cards(), {}, id="one kind"),
        pytest.param(planned(2), mixed(DISPLAY, H100, H100), {}, id="the fastest come first, the display card last"),
        pytest.param(planned(2), mixed(DISPLAY, H100, H100), {"mask": f"{uuid_of(1)},{uuid_of(2)}"}, id="masked"),
        pytest.param(
            planned(2),
            mixed(DISPLAY, H100, H100),
            {"mask": "1,2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            id="masked by number",
        ),
        pytest.param(planned(1), mixed(H100, A100), {}, id="one rank"),
        pytest.param(Launch(), mixed(H100, A100), {}, id="no launch"),
        pytest.param(planned(2, backend="gloo"), mixed(H100, A100), {}, id="gloo"),
    ],
)
def test_good_dc308(launch: Launch, gpus: Gpus, more: dict[str, Any]) -> None:
    assert dc308(launch, gpus, **more) == []
