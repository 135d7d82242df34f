"""Which GPU a rank asked for, as probes judge it from a timeline."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from distcheck.checks.logs import devices
from distcheck.checks.logs.model import Event, LineAuthor, Timeline, WorkerFailure
from distcheck.rules.signatures import Kind

from .made import SITE, code, found_by, said, timeline, worker

_ORDINAL = "RuntimeError: CUDA error: invalid device ordinal"
_PROBES = (
    devices.every_rank_found_a_gpu,
    devices.devices_went_by_the_local_rank,
    devices.mask_and_index_agreed,
    devices.tasks_saw_all_gpus,
    devices.rocm_masks_agreed,
)


def beyond(
    ranks: Sequence[int],
    line: str = "torch.cuda.set_device(local_rank)",
    *,
    text: str = _ORDINAL,
    workers: Sequence[WorkerFailure] = (),
    tasks: bool = False,
    others: Sequence[Event] = (),
) -> Timeline:
    """Ranks, or tasks, that asked for a GPU that is not there."""
    torch = code(f"{SITE}/torch/cuda/__init__.py", "torch._C._cuda_setDevice(device)", "set_device")
    failures = [
        said(
            text,
            code("train.py", line),
            torch,
            who=LineAuthor(task=rank) if tasks else LineAuthor(rank=rank),
            line=rank + 10,
        )
        for rank in ranks
    ]
    return timeline(others, *failures, workers=workers)


def verdict(made: Timeline) -> list[str]:
    return [finding.code for probe in _PROBES for finding in probe(made)]


def of_one_node(ranks: Sequence[int]) -> list[WorkerFailure]:
    return [worker(rank, rank) for rank in ranks]


def of_the_second(ranks: Sequence[int], each: int) -> list[WorkerFailure]:
    return [worker(rank, rank - each, "node02") for rank in ranks]


def test_the_last_ranks_of_a_node() -> None:
    made = beyond([4, 5, 6, 7], workers=of_one_node([4, 5, 6, 7]))
    assert verdict(made) == ["DC301"]
    (finding,) = devices.every_rank_found_a_gpu(made)
    assert finding.evidence["usable"] == 4
    assert finding.fix.command == "--nproc-per-node=4"


def test_a_number_by_the_global_rank_on_the_second_node() -> None:
    ranks = range(8, 16)
    assert verdict(beyond(ranks, "torch.cuda.set_device(rank)", workers=of_the_second(ranks, 8))) == ["DC201"]
    assert verdict(beyond([4, 5], "torch.cuda.set_device(dist.get_rank())", workers=of_the_second([4, 5], 4))) == [
        "DC201"
    ]


def test_a_number_by_the_global_rank_on_one_node_is_too_many_ranks() -> None:
    assert verdict(beyond([2, 3], "torch.cuda.set_device(rank)", workers=of_one_node([2, 3]))) == ["DC301"]


def test_the_first_local_rank_of_a_later_node_tells_without_code() -> None:
    assert verdict(beyond([2, 3], "setup()", workers=of_the_second([2, 3], 2))) == ["DC201"]


def test_too_many_ranks_on_the_second_node_alone() -> None:
    assert verdict(beyond([6, 7], workers=[worker(6, 2, "node02"), worker(7, 3, "node02")])) == ["DC301"]


def test_a_number_out_of_the_mask() -> None:
    line = "torch.cuda.set_device(int(os.environ['CUDA_VISIBLE_DEVICES'].split(',')[local_rank]))"
    assert verdict(beyond([0, 1], line)) == ["DC202"]


def masks(*values: str, task: bool = False) -> list[Event]:
    return [
        event
        for number, value in enumerate(values)
        for event in said(
            f"CUDA_VISIBLE_DEVICES={value}", who=LineAuthor(task=number) if task else LineAuthor(rank=number)
        )
    ]


def test_a_mask_of_one_for_each_rank() -> None:
    assert verdict(beyond([1, 2, 3], others=masks("0", "1", "2", "3"))) == ["DC202"]
    assert verdict(beyond([1, 2, 3], tasks=True, others=masks("0", "1", "2", "3", task=True))) == ["DC203"]
    assert verdict(beyond([2, 3], others=masks("4,5", "4,5", "4,5", "4,5"))) == ["DC301"]


def test_tasks_with_a_gpu_each() -> None:
    assert verdict(beyond([1, 2, 3], tasks=True)) == ["DC203"]
    named = said("+ srun --ntasks-per-node=4 --gpus-per-task=1 python train.py")
    assert verdict(beyond([1], tasks=True, others=named)) == ["DC203"]


@pytest.mark.parametrize("ranks", [[2, 3], [0, 1]])
def test_hip_without_masks_is_no_conflict_of_masks(ranks: list[int]) -> None:
    assert verdict(beyond(ranks, text="RuntimeError: HIP error: invalid device ordinal")) == ["DC301"]


def test_without_any_context_there_are_too_many_ranks() -> None:
    assert verdict(timeline(said(_ORDINAL))) == ["DC301"]


@pytest.mark.parametrize(
    ("wanted", "have", "task", "rule"),
    [
        ("0, 1, 2, 3", "0", None, "DC203"),
        ("0, 1", "0", 1, "DC203"),
        ("1", "0", None, "DC301"),
        ("0, 1, 2, 3", "0, 1", 2, "DC301"),
        ("0", "", None, "DC301"),
    ],
)
def test_lightning_counts_first(wanted: str, have: str, task: int | None, rule: str) -> None:
    made = timeline(
        said(f"MisconfigurationException: You requested gpu: [{wanted}]"),
        said(f" But your machine only has: [{have}]", who=LineAuthor(task=task), line=2),
    )
    assert verdict(made) == [rule]


def test_no_gpu_is_the_masks_fault_unless_a_driver_says_otherwise() -> None:
    lines = said("RuntimeError: No CUDA GPUs are available")
    mask = said("+ export CUDA_VISIBLE_DEVICES=0,1,1")
    ((rule, _, message),) = found_by(devices.masks_left_a_gpu, timeline(mask, lines))
    assert (rule, message) == ("DC204", "CUDA_VISIBLE_DEVICES=0,1,1 leaves no GPU")
    old = Event(
        "driver-too-old", Kind.CAUSE, LineAuthor(), 0, 1, None, "The NVIDIA driver is too old", codes=("DC304",)
    )
    assert not found_by(devices.masks_left_a_gpu, timeline([old], lines))


_GUESS = "using GPU 1 to perform barrier as devices used by this process are currently unknown."


def test_a_guess_is_a_remark_until_it_hurts() -> None:
    clash = Event("duplicate-gpu", Kind.CAUSE, LineAuthor(), 0, 9, None, "Duplicate GPU detected", codes=("DC303",))
    assert [word for _, word, _ in found_by(devices.ranks_were_bound_to_a_device, timeline(said(_GUESS)))] == ["info"]
    hurt = timeline(said(_GUESS), [clash])
    assert [word for _, word, _ in found_by(devices.ranks_were_bound_to_a_device, hurt)] == ["warning"]
    lived = timeline(said(_GUESS), [clash], went_on=True)
    assert [word for _, word, _ in found_by(devices.ranks_were_bound_to_a_device, lived)] == ["info"]


def test_torn_objects_of_a_collective() -> None:
    text = "_pickle.UnpicklingError: pickle data was truncated"
    gathered = said(text, code("train.py", "dist.all_gather_object(parts, mine)"))
    assert [word for _, word, _ in found_by(devices.ranks_were_bound_to_a_device, timeline(gathered))] == ["error"]
    loaded = said(text, code("train.py", 'pickle.load(open("a.pkl", "rb"))'))
    assert not found_by(devices.ranks_were_bound_to_a_device, timeline(loaded))


def test_a_fork_of_a_loader_and_another() -> None:
    text = "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing"
    loader = said(text, code(f"{SITE}/torch/utils/data/_utils/worker.py", "data = fetcher.fetch(index)"))
    ((_, _, message),) = found_by(devices.children_started_cuda_afresh, timeline(loader))
    assert message == "a worker of a DataLoader, which is a fork, uses CUDA"
    ((_, _, message),) = found_by(devices.children_started_cuda_afresh, timeline(said(text)))
    assert message == "a forked child uses CUDA"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "AssertionError: local_world_size (8) must be less than or equal to the number of visible devices (4).",
            "8 processes",
        ),
        ("ValueError: No slot '4' specified on host 'localhost'", "GPU 4 is requested on localhost"),
        ("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!", "this process can use none"),
        ("MisconfigurationException: No supported gpu backend found!", "this process can use none"),
    ],
)
def test_frameworks_that_count_before_they_start(line: str, message: str) -> None:
    ((rule, word, text),) = found_by(devices.every_rank_found_a_gpu, timeline(said(line)))
    assert (rule, word) == ("DC301", "error")
    assert message in text


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("RuntimeError: Please use HIP_VISIBLE_DEVICES instead of ROCR_VISIBLE_DEVICES", "unset ROCR_VISIBLE_DEVICES"),
        (
            "RuntimeError: HIP_VISIBLE_DEVICES contains more devices than ROCR_VISIBLE_DEVICES",
            "unset HIP_VISIBLE_DEVICES",
        ),
        ("ValueError: Please use either HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES.", "unset CUDA_VISIBLE_DEVICES"),
    ],
)
def test_two_masks_of_rocm(line: str, command: str) -> None:
    (finding,) = devices.rocm_masks_agreed(timeline(said(line)))
    assert finding.code == "DC205"
    assert finding.fix.command == command


def test_the_table_says_who_failed_where_the_lines_do_not() -> None:
    lines = [said(_ORDINAL, line=number) for number in (5, 9)]
    assert verdict(timeline(*lines, workers=of_the_second([2, 3], 2))) == ["DC201"]
    assert verdict(timeline(*lines, workers=of_the_second([2, 3, 4], 2))) == ["DC301"]


def test_one_rank_says_no_more_than_that_its_own_gpu_is_not_there() -> None:
    made = beyond([6], workers=of_one_node([6]))
    (finding,) = devices.every_rank_found_a_gpu(made)
    assert "at most 6 GPUs" in finding.message and "at most --nproc-per-node=6" in finding.fix.text
