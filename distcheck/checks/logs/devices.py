"""Which GPU a rank requested, and why it did not exist: too many processes, the wrong index, a mask.

One text, ``invalid device ordinal``, has five causes. They differ in the ranks that failed, the node, and the line of
code that requested the device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Fix, Severity, rank_ranges
from distcheck.rules.signatures import Kind

from .context import came_through
from .launcher import is_under_torchrun, scheduler_of
from .log_probe import LogFinding, log_probe, signature_probe
from .model import Event, Timeline

#: Rules of a driver or a container that gives no GPU at all; then that is the cause.
_NO_GPU_AT_ALL = frozenset(("DC304", "DC309", "DC312", "DC313", "DC314", "DC333", "DC120"))
#: GPUs of a usual host: a rank from this number on is on another one, where nothing else is known.
_MOST_ON_A_NODE = 8
_INDEX = re.compile(
    r"(?:set_device\(|\.cuda\(|\.to\(|device_ids\s*=\s*\[|device\(\s*f?[\"']cuda(?::|[\"']\s*,\s*)|[\"']cuda:\{|device_id\s*=)"
    r"(?P<index>[^\n]{1,80})"
)
_LOCAL = re.compile(r"local|LOCALID", re.IGNORECASE)
_GLOBAL = re.compile(r"\b(?:global_rank|world_rank|dist_rank|rank|RANK|SLURM_PROCID|get_rank|get_global_rank)\b")
_MASK = re.compile(r"VISIBLE_DEVICES")
_SEE_ALL = Fix(
    "use device 0 in the script instead of LOCAL_RANK. If each task needs all GPUs of its node: request them "
    "with --gpus-per-node and add --gpu-bind=none to srun",
    where="code",
)


class _Beyond(NamedTuple):
    """What the log shows about the ranks that requested a GPU that does not exist."""

    events: tuple[Event, ...]
    ranks: tuple[int, ...]
    #: local rank by rank, of all ranks of which it is known
    local_ranks: dict[int, int]
    #: the local ranks that failed
    failed: tuple[int, ...]
    #: what the code took for a number of a device: ``global``, ``local``, ``mask`` or empty
    index_source: str
    #: the mask of each process that printed it, by rank or task
    masks: dict[int, str]
    #: number of GPUs, where a line shows it
    gpus: int | None


def _beyond(timeline: Timeline) -> _Beyond | None:
    events = timeline.of("invalid-device")
    if not events:
        return None
    local_ranks = _local_ranks(timeline)
    ranks = sorted({event.who.rank for event in events if event.who.rank is not None})
    rows = [row for row in timeline.workers if row.rank is not None and (row.exitcode or 0) > 0]
    if not ranks and len(rows) <= len(events) + sum(event.repeated for event in events):
        # more rows than lines are others that failed after them
        ranks = sorted({row.rank for row in rows if row.rank is not None})
    failed = {local_ranks[rank] for rank in ranks if rank in local_ranks}
    failed |= {event.who.local_rank for event in events if event.who.local_rank is not None}
    if not failed:
        failed = {event.who.task for event in events if event.who.task is not None}
    if not failed and ranks and ranks[-1] < _MOST_ON_A_NODE and len(timeline.hosts) < 2:
        failed = set(ranks)
    masks = {
        number: mask
        for event in timeline.of("visible-devices")
        if (mask := (event.values.get("mask") or "").strip())
        and (number := event.who.rank if event.who.rank is not None else event.who.task) is not None
    }
    gpus = next((int(match[1]) for event in events if (match := re.search(r"num_gpus=(\d+)", event.text))), None)
    return _Beyond(events, tuple(ranks), local_ranks, tuple(sorted(failed)), _index(events), masks, gpus)


def _local_ranks(timeline: Timeline) -> dict[int, int]:
    """Return the local rank of each rank for which the log shows it."""
    known = {
        worker.rank: worker.local_rank
        for worker in timeline.workers
        if worker.rank is not None and worker.local_rank is not None
    }
    for voice in timeline.rank_streams:
        if voice.who.rank is not None and voice.who.local_rank is not None:
            known.setdefault(voice.who.rank, voice.who.local_rank)
    return known


def _index(events: tuple[Event, ...]) -> str:
    """What the code of the tracebacks takes for the number of a device."""
    for event in events:
        frames = event.traceback.frames if event.traceback is not None else ()
        for frame in reversed(frames):
            if "site-packages/torch/" in frame.path or "dist-packages/torch/" in frame.path:
                continue
            match = _INDEX.search(frame.code)
            if match is None:
                continue
            index = match["index"]
            if _MASK.search(index):
                return "mask"
            if _LOCAL.search(index):
                return "local"
            if "%" not in index and _GLOBAL.search(index):
                return "global"
    return ""


def _sees_one_each(beyond: _Beyond) -> bool:
    """Whether several processes printed a mask, and each mask holds one GPU."""
    return len(beyond.masks) > 1 and all("," not in mask for mask in beyond.masks.values())


def _cause_of(beyond: _Beyond, timeline: Timeline) -> str:
    """Which rule the log speaks for; DC301 where nothing speaks for another."""
    if beyond.index_source == "mask":
        return "DC202"
    if beyond.index_source == "global" and _on_later_nodes(beyond, timeline):
        return "DC201"
    # rank 8 with local rank 0 can't exceed the number of GPUs by its local rank, unless there is no GPU
    if any(beyond.local_ranks.get(rank) == 0 and rank > 0 for rank in beyond.ranks) and 0 not in beyond.ranks:
        return "DC201"
    if any("HIP" in event.text for event in beyond.events) and _several_rocm_masks(timeline):
        return "DC205"
    one_each = timeline.has("one-gpu-a-task") or _sees_one_each(beyond)
    by_slurm = scheduler_of(timeline) == "slurm" and not is_under_torchrun(timeline)
    tasks = by_slurm or any(event.who.task is not None for event in beyond.events)
    all_but_first = len(beyond.failed) > 1 and beyond.failed == tuple(range(1, len(beyond.failed) + 1))
    if one_each or (tasks and all_but_first and scheduler_of(timeline) != "mpi"):
        under_scheduler = tasks or scheduler_of(timeline) == "slurm" or timeline.has("one-gpu-a-task")
        return "DC203" if under_scheduler or came_through(beyond.events[0], "ray/") else "DC202"
    return "DC301"


def _on_later_nodes(beyond: _Beyond, timeline: Timeline) -> bool:
    """Whether the ranks that failed are on other nodes than the first, as far as the log shows."""
    if any(rank != local for rank, local in beyond.local_ranks.items() if rank in beyond.ranks):
        return True
    known = [rank for rank in beyond.ranks if rank in beyond.local_ranks]
    if known:
        return False
    return bool(beyond.ranks) and (
        min(beyond.ranks) >= _MOST_ON_A_NODE or (min(beyond.ranks) > 3 and len(timeline.hosts) > 1)
    )


def _several_rocm_masks(timeline: Timeline) -> bool:
    return len({event.values.get("variable") for event in timeline.of("visible-devices")}) > 1


def _who(beyond: _Beyond) -> str:
    if len(beyond.ranks) > 1:
        return f"ranks {rank_ranges(beyond.ranks)} request"
    if beyond.ranks:
        return f"rank {beyond.ranks[0]} requests"
    if beyond.failed:
        many = len(beyond.failed) > 1
        return f"local rank{'s' * many} {rank_ranges(beyond.failed)} {'request' if many else 'requests'}"
    return "a process requests"


@log_probe(rules.DC301)
def every_rank_found_a_gpu(timeline: Timeline) -> Iterator[LogFinding]:
    """Ranks from some local rank on requested a GPU that does not exist: more processes than GPUs."""
    beyond = _beyond(timeline)
    if beyond is not None and _cause_of(beyond, timeline) == "DC301":
        count = beyond.gpus if beyond.gpus is not None else _usable(beyond)
        # one failed rank only shows that no GPU has its index
        most = "at most " if beyond.gpus is None and len(beyond.failed) < 2 else ""
        there = "" if count is None else f": {most}{count} GPU{'s' * (count != 1)} can be used on its host"
        yield LogFinding(
            beyond.events,
            f"{_who(beyond)} a GPU that does not exist{there}",
            _fewer(count, most),
            evidence={"usable": count, "failed_local_ranks": list(beyond.failed)},
        )
    yield from _too_few(timeline)
    yield from _lightnings(timeline, "DC301")


def _usable(beyond: _Beyond) -> int | None:
    """How many GPUs there are, if the local ranks from a number on have failed, all of them."""
    if not beyond.failed or beyond.failed[0] == 0:
        return None
    last = max([*beyond.local_ranks.values(), *beyond.failed])
    return beyond.failed[0] if beyond.failed == tuple(range(beyond.failed[0], last + 1)) else None


def _fewer(count: int | None, most: str = "") -> Fix:
    if count:
        option = f"--nproc-per-node={count}"
        return Fix(
            f"start a process for each GPU: {most}{option}{', and nvidia-smi -L lists them' if most else ''}; or let "
            "CUDA_VISIBLE_DEVICES name more GPUs, if they are yours",
            command=option,
            where="launch-line",
        )
    return Fix(
        "start a process for each GPU: --nproc-per-node=gpu, or their number; nvidia-smi -L lists them, and "
        "CUDA_VISIBLE_DEVICES may hide some",
        command="--nproc-per-node=gpu",
        where="launch-line",
    )


def _too_few(timeline: Timeline) -> Iterator[LogFinding]:
    """Frameworks that count before they start, and NCCL where there is none."""
    for event in timeline.of("too-few-gpus")[:1]:
        ranks, gpus = event.number("ranks"), event.number("gpus")
        none = not {"gpus", "on"} & event.values.keys()
        if none and _no_gpu_at_all(timeline):
            return
        if ranks is not None and gpus is not None:
            message = f"{ranks} processes are to run on a host with {gpus} usable GPU{'s' * (gpus != 1)}"
        elif none:
            message = "GPUs were requested, but this process can use none"
        else:
            message = (
                f"GPU {event.values.get('device')} is requested on {event.values.get('on')}, which does not have it"
            )
        fix = (
            Fix(
                "see that the GPUs are there (nvidia-smi -L), in the container (docker run --gpus all) and the mask; "
                "or use the backend gloo",
                where="host",
            )
            if none
            else _fewer(gpus)
        )
        yield LogFinding(
            [event, *timeline.of("too-few-gpus")[1:]],
            message,
            fix,
            evidence={"ranks": ranks, "usable": 0 if none else gpus},
        )


def _no_gpu_at_all(timeline: Timeline) -> bool:
    """Whether another line explains why there is no GPU."""
    return any(_NO_GPU_AT_ALL & set(event.codes) for event in timeline.events if event.kind is not Kind.RECORD)


def _lightnings(timeline: Timeline, code: str) -> Iterator[LogFinding]:
    """Lightning found fewer GPUs than requested. A single one is the GPU of a scheduler's task."""
    events = timeline.of("devices-missing")
    if not events:
        return
    have = [part for part in re.split(r"[,\s]+", events[0].values.get("have") or "") if part]
    wanted_text = next((event.values.get("wanted") or "" for event in timeline.of("devices-wanted")), "")
    wanted = [part for part in re.split(r"[,\s]+", wanted_text) if part]
    tasks = any(event.who.task is not None for event in events) or scheduler_of(timeline) == "slurm"
    isolated = have == ["0"] and (
        tasks or len(wanted) > 3 or came_through(events[0], "ray/") or "pid=" in events[0].text
    )
    if (code == "DC203") is not isolated:
        return
    requested = f"GPUs {','.join(wanted)} are requested" if wanted else "more GPUs are requested"
    if isolated:
        yield LogFinding(
            events,
            f"{requested}, and the process sees one only, which is its GPU 0",
            _SEE_ALL,
        )
    else:
        yield LogFinding(
            events,
            f"{requested}, and the process can use {','.join(have) or 'none'}",
            Fix(
                f"request as many as there are: Trainer(devices={len(have)})"
                if have
                else "see that the GPUs are there (nvidia-smi -L), also in the container; or accelerator='cpu'",
                where="code",
            ),
            evidence={"usable": len(have)},
        )


@log_probe(rules.DC201)
def devices_went_by_the_local_rank(timeline: Timeline) -> Iterator[LogFinding]:
    """Only ranks of later nodes requested a GPU that does not exist: the index was the global rank."""
    beyond = _beyond(timeline)
    if beyond is None or _cause_of(beyond, timeline) != "DC201":
        return
    yield LogFinding(
        beyond.events,
        f"{_who(beyond)} the GPU with the index of the global rank; each host counts its GPUs from 0",
        Fix(
            'use the local rank: torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
            where="code",
        ),
        evidence={"failed_local_ranks": list(beyond.failed)},
    )


@log_probe(rules.DC202)
def mask_and_index_agreed(timeline: Timeline) -> Iterator[LogFinding]:
    """The script masks one GPU for each rank, or reads the mask, and counts by the rank all the same."""
    beyond = _beyond(timeline)
    if beyond is None or _cause_of(beyond, timeline) != "DC202":
        return
    how = (
        "takes a number out of CUDA_VISIBLE_DEVICES, and inside of the mask GPUs count from 0"
        if beyond.index_source == "mask"
        else "sees one GPU, which is its device 0, and requests another"
    )
    yield LogFinding(
        beyond.events,
        f"each rank {how}",
        Fix(
            "either mask one GPU for each rank and use cuda:0, or leave all GPUs visible and use the local rank",
            where="code",
        ),
        evidence={"masks": {str(number): mask for number, mask in beyond.masks.items()}},
    )


@log_probe(rules.DC203)
def tasks_saw_all_gpus(timeline: Timeline) -> Iterator[LogFinding]:
    """A scheduler gave each task one GPU, and every task but the first of a node requested another."""
    beyond = _beyond(timeline)
    if beyond is not None and _cause_of(beyond, timeline) == "DC203":
        yield LogFinding(
            beyond.events,
            "each task sees one GPU, its device 0, and uses LOCAL_RANK as the device",
            _SEE_ALL,
            evidence={"failed_local_ranks": list(beyond.failed)},
        )
    yield from _lightnings(timeline, "DC203")


@signature_probe(rules.DC204, "no-cuda-gpus")
def masks_left_a_gpu(timeline: Timeline, events: Sequence[Event]) -> LogFinding | None:
    """Report CUDA that works and shows no GPU; where the driver or the container is the reason, their texts show it."""
    if _no_gpu_at_all(timeline):
        return None
    maker = events[0].values.get("maker") or "CUDA"
    variable = "HIP_VISIBLE_DEVICES" if maker == "HIP" else "CUDA_VISIBLE_DEVICES"
    mask = next((event for event in timeline.of("visible-devices") if event.values.get("mask")), None)
    value = (mask.values.get("mask") or "").strip(" ]") if mask is not None else ""
    seen = f"{variable}={value} leaves no GPU" if value else f"{variable} leaves no GPU that is there"
    return LogFinding(
        events,
        seen,
        Fix(
            "name GPUs that are there, each once, with commas only and without quotes inside of the value: "
            f"nvidia-smi -L lists them; in a job, leave {variable} as the scheduler sets it",
            where="job-script",
        ),
        evidence={"mask": value or None},
    )


@log_probe(rules.DC205)
def rocm_masks_agreed(timeline: Timeline) -> Iterator[LogFinding]:
    """Two masks of ROCm at once, by a framework's complaint or by a HIP device that is hidden from rank 0 as well."""
    events = list(timeline.of("rocm-masks"))
    beyond = _beyond(timeline)
    if not events and beyond is not None and _cause_of(beyond, timeline) == "DC205":
        events = list(beyond.events)
    if not events:
        return
    ray = "use HIP_VISIBLE_DEVICES" in events[0].text
    differ = "either HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES" in events[0].text
    yield LogFinding(
        events,
        "HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES differ; HIP follows the first and overlooks the second"
        if differ
        else "ROCR_VISIBLE_DEVICES applies first and renumbers its GPUs; a second mask chooses from the rest"
        if not ray
        else "ROCR_VISIBLE_DEVICES is set together with HIP_VISIBLE_DEVICES, and Ray takes the second only",
        Fix("set HIP_VISIBLE_DEVICES only", command="unset CUDA_VISIBLE_DEVICES", where="job-script")
        if differ
        else Fix(
            "unset ROCR_VISIBLE_DEVICES, and write the same GPUs into HIP_VISIBLE_DEVICES"
            if ray
            else "keep one of the two, ROCR_VISIBLE_DEVICES where a scheduler set it, and unset the other",
            command="unset ROCR_VISIBLE_DEVICES" if ray else "unset HIP_VISIBLE_DEVICES",
            where="job-script",
        ),
    )


@log_probe(rules.DC206)
def ranks_were_bound_to_a_device(timeline: Timeline) -> Iterator[LogFinding]:
    """A barrier guessed its GPU: a remark, and a warning where two ranks shared one or the job hung behind it."""
    torn = [
        event
        for event in timeline.events
        if "pickle data was truncated" in event.text
        and came_through(event, "all_gather_object", "broadcast_object_list", "gather_object", "_tensor_to_object")
    ]
    fix = Fix(
        'before it: `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`; and pass it to init_process_group: '
        '`device_id=torch.device("cuda", local_rank)`',
        where="code",
    )
    if torn:
        yield LogFinding(
            torn,
            "an object collective read torn data: its ranks have put their buffers on one GPU",
            fix,
        )
        return
    events = timeline.of("device-guessed")
    if not events:
        return
    harmful = not timeline.went_on and (
        any("DC303" in event.codes for event in timeline.events) or _hung_in_a_barrier(timeline)
    )
    gpu = events[0].values.get("gpu")
    yield LogFinding(
        events,
        "a barrier has guessed the GPU of its rank" + (f" (GPU {gpu})" if gpu else "") + ", since none was bound",
        fix,
        severity=Severity.WARNING if harmful else Severity.INFO,
        role="context",
    )


def _hung_in_a_barrier(timeline: Timeline) -> bool:
    """The first collective, or a barrier, ran into its time limit."""
    return any(
        event.kind is Kind.TIMEOUT and re.search(r"barrier|SeqNum=1\b", event.text, re.IGNORECASE)
        for event in timeline.events
    )


@signature_probe(rules.DC218, "cuda-in-fork")
def children_started_cuda_afresh(timeline: Timeline, events: Sequence[Event]) -> LogFinding:
    """A forked child used CUDA, which its parent had started."""
    loader = any(came_through(event, "_utils/worker.py", "_utils/fetch.py", "DataLoader") for event in events)
    device = events[0].values.get("device") or "CUDA"
    return LogFinding(
        events,
        f"a worker of a DataLoader, which is a fork, uses {device}" if loader else f"a forked child uses {device}",
        Fix(
            "keep the item on the CPU and move the batch in the loop (pin_memory=True, non_blocking=True); or give the "
            'loader multiprocessing_context="spawn"'
            if loader
            else 'start the child afresh: mp.spawn, or multiprocessing.get_context("spawn")',
            where="code",
        ),
    )
