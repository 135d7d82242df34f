"""GPUs, their memory and their driver: what a log shows of cards that fail, are shared, or are held by others.

:mod:`.devices` judges which device a rank requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Fix, grouped, rank_ranges
from distcheck.rules import shared_fixes
from distcheck.rules.signatures import Kind

from .log_probe import LogFinding, SignatureRow, log_probe, register_rows, signature_probe
from .model import Event, Timeline

#: Xids that mean a broken card or link, and their meaning (NVIDIA, "Xid errors", r580).
HARDWARE_XIDS = {
    48: "a memory error that could not be corrected",
    61: "its internal micro-controller stopped",
    62: "its internal micro-controller halted",
    64: "a broken row of memory could not be replaced",
    74: "an error of NVLink",
    79: "it has fallen off the bus",
    95: "a memory error that could not be contained",
    94: "a memory error, which was contained to one process",
    110: "a security fault",
    119: "its system processor (GSP) does not answer",
    120: "an error of its system processor (GSP)",
    136: "an error of NVLink's training",
    140: "memory errors that were not recovered",
    142: "an error of NVENC's memory",
    143: "it could not be initialised",
    144: "an error of NVLink",
    145: "an error of NVLink",
    146: "an error of NVLink",
    147: "an error of NVLink",
    148: "an error of NVLink",
    149: "an error of NVLink",
    150: "an error of NVLink",
    154: "it needs a reset or a reboot",
    155: "an error of NVLink",
    157: "a broken part of its memory could not be replaced",
    158: "a fatal time-out",
    171: "a memory error that could not be corrected",
    172: "a memory error that could not be corrected",
}
#: Xids that a program causes, or that follow from an earlier one.
PROGRAM_XIDS = {
    8: "a kernel ran for too long",
    13: "a program accessed memory that is not its own, or another fault in a kernel",
    31: "a program accessed an address that is not mapped",
    32: "a damaged stream of commands",
    38: "an error of the driver's firmware",
    43: "a program was stopped after a fault of its own",
    45: "a program's work was cleaned up, as after a kill or an earlier error",
    63: "a row of memory will be replaced at the next reset",
    68: "a video engine failed",
    69: "a graphics engine failed",
    92: "many memory errors that were corrected",
    109: "a switch between programs took too long",
    121: "a corrected error of the chip's link",
    137: "an access over NVLink to memory that no longer exists",
}
#: The recovery action of Xid 154 that requires nothing.
_NO_RECOVERY = re.compile(r"to 0x0\b|\(None\)\s*$")

_UNITS = {"K": 1 / (1 << 20), "M": 1 / (1 << 10), "G": 1.0, "T": 1024.0}
_PROCESS = re.compile(r"Process (\d+) has ([\d.]+ [KMGT]iB) memory in use")
_THIS_PROCESS = re.compile(r"this process has ([\d.]+ [KMGT]iB) memory in use")
_ALLOCATED = re.compile(r"Of the allocated memory ([\d.]+ [KMGT]iB) is allocated")
#: GiB of one process outside PyTorch's allocator: context, NCCL's buffers, libraries. Observed: 1 to 5.
_OUTSIDE_ALLOCATOR = 6.0
#: Other processes are the cause if they hold at least this share of the card.
_OTHERS_SHARE = 0.4


class GpuMemoryUse(NamedTuple):
    """Who holds the memory of a card where an allocation failed, in GiB."""

    gpu: str
    total: float
    own: float
    others: float
    #: process and what it holds
    holders: tuple[tuple[int, float], ...] = ()


@log_probe(rules.DC303, per_attempt=True)
def ranks_share_a_gpu(timeline: Timeline) -> Iterator[LogFinding]:
    """NCCL reports two ranks on one GPU, or several ranks of a host run out of memory on the same GPU."""
    events = timeline.of("duplicate-gpu")
    if events and not timeline.has("mig-device"):
        ranks = sorted(
            {number for event in events for name in ("rank", "other") if (number := event.number(name)) is not None}
        )
        devices = sorted({event.values["device"] for event in events if event.values.get("device")})
        who = f"ranks {rank_ranges(ranks)} use" if ranks else "ranks use"
        cards = "one GPU" if len(devices) < 2 else "GPUs together"
        named = f" (CUDA device{'s' * (len(devices) > 1)} {', '.join(devices[:4])})" if devices else ""
        yield LogFinding(events, f"{who} {cards}{named}, which NCCL refuses", _bind(timeline))
    elif shared := _ranks_in_one_memory(timeline):
        names = rank_ranges({event.who.rank for event in shared if event.who.rank is not None})
        yield LogFinding(
            shared,
            f"ranks {names} of one host ran out of memory on the same GPU {shared[0].values.get('gpu')}: each takes it",
            _bind(timeline),
        )


@signature_probe(rules.DC304, "driver-too-old", per_attempt=True)
def driver_is_new_enough(timeline: Timeline, events: Sequence[Event]) -> LogFinding:
    """CUDA refuses to start, or to load code, because the driver is older than it needs."""
    number = next((found_ for event in events if (found_ := event.number("found"))), None)
    known = f"{number // 1000}.{number % 1000 // 10}" if number else ""
    return LogFinding(
        events,
        f"the driver knows CUDA up to {known}, and torch was built with a newer one"
        if known
        else "the driver is older than the CUDA that this torch was built with needs",
        Fix(
            (
                f"install a build of torch for CUDA {known} or older"
                if known
                else "install a build of torch for an older CUDA"
            )
            + " ('nvidia-smi' shows what the driver knows), or have an administrator update the driver of the host",
            where="host",
        ),
    )


@log_probe(rules.DC305, per_attempt=True)
def memory_is_not_held_by_others(timeline: Timeline) -> Iterator[LogFinding]:
    """An allocation failed although this process held little: another one, which is no rank of the job, holds the card.

    The own model that does not fit is no rule.
    """
    startup = timeline.of("gpu-memory-taken")
    if startup:
        first = startup[0]
        yield LogFinding(
            startup,
            f"only {first.values['free']} of {first.values['total']} GiB of the GPU were free before the job took any",
            _free_the_card(()),
        )
        return
    if _ranks_in_one_memory(timeline):
        return
    starved = [
        (event, memory)
        for event in timeline.of("cuda-out-of-memory")
        if (memory := memory_of(event)) and _is_held(memory)
    ]
    ranks = _pids(timeline)
    strangers = [(event, memory) for event, memory in starved if not ranks & {pid for pid, _ in memory.holders}]
    if not strangers:
        return
    first, memory = strangers[0]
    holders = sorted(memory.holders, key=lambda holder: -holder[1])[:4]
    who = ", ".join(f"process {pid} {size:.1f}" for pid, size in holders) if holders else "other processes"
    yield LogFinding(
        [event for event, _ in strangers],
        f"GPU {memory.gpu} was full of what others hold ({who}{'' if holders else f' {memory.others:.1f}'} of "
        f"{memory.total:.1f} GiB) while this process held {memory.own:.1f} GiB",
        _free_the_card([pid for pid, _ in holders]),
        evidence={
            "gpu": memory.gpu,
            "total_gib": round(memory.total, 2),
            "own_gib": round(memory.own, 2),
            "others_gib": round(memory.others, 2),
            "processes": [pid for pid, _ in memory.holders],
        },
    )


@log_probe(rules.DC306, per_attempt=True)
def mig_slices_are_enough(timeline: Timeline) -> Iterator[LogFinding]:
    """The log names MIG instances, and ranks request more devices than they see, or share one GPU."""
    if not timeline.has("mig-device"):
        return
    events = [
        event
        for event in timeline.events
        if event.signature in ("device-index-assert", "duplicate-gpu") or "invalid device ordinal" in event.text
    ]
    if not events:
        return
    shared = any(event.signature == "duplicate-gpu" for event in events)
    yield LogFinding(
        [*events, *timeline.of("mig-device")[:1]],
        "NCCL refuses ranks on MIG instances of one GPU"
        if shared
        else "a process sees only one MIG instance, and a rank requests a second device",
        Fix(
            "give each process its own CUDA_VISIBLE_DEVICES with one instance, and use device 0. Use the backend "
            "gloo if the instances belong to one GPU. Or have MIG disabled to train on several GPUs",
            where="each-task",
        ),
    )


@log_probe(rules.DC308, per_attempt=True)
def gpus_are_alike(timeline: Timeline) -> Iterator[LogFinding]:
    """torch calls the cards unbalanced, or the ranks list cards of different models."""
    models = grouped(timeline.of("gpu-model"), lambda event: event.values["model"].strip())
    if len(models) > 1:
        odd = min(models, key=lambda name: len(models[name]))
        events = [*models[odd], *(event for name, lines in models.items() if name != odd for event in lines[:1])]
        text = f"the ranks have different GPUs: {', '.join(f'{len(lines)} {name}' for name, lines in models.items())}"
    elif unbalanced := timeline.of("gpu-imbalance"):
        events = list(unbalanced)
        text = f"GPU {unbalanced[0].values['gpu']} has less than three quarters of the memory or cores of the others"
    else:
        return
    yield LogFinding(
        events,
        text,
        Fix(
            "exclude the GPUs that differ with CUDA_VISIBLE_DEVICES (by UUID, from 'nvidia-smi -L'), and start "
            "one rank for each GPU that remains. Otherwise the slowest GPU sets the speed of the job",
            where="job-script",
        ),
        role="context",
    )


@log_probe(rules.DC309, per_attempt=True)
def gpus_are_sound(timeline: Timeline) -> Iterator[LogFinding]:
    """The driver, CUDA or nvidia-smi report a broken card. Xids that a program causes are information."""
    broken = [
        event
        for event in timeline.of("gpu-xid", "gpu-off-the-bus", "gpu-no-handle", "gpu-ecc", "gpu-nvlink-error")
        if event.signature != "gpu-xid" or _is_hardware(event)
    ]
    hosts = grouped(broken, lambda event: event.who.host)
    for host, events in _joined_by_host(hosts).items():
        yield LogFinding(
            events,
            _what_is_broken(events) + (f" on {host}" if host else ""),
            _replace(events),
            rank=next((event.who.rank for event in events if event.who.rank is not None), None),
            evidence={"xids": sorted({number for event in events if (number := event.number("xid"))})},
        )
    program_faults = [event for event in timeline.of("gpu-xid") if not _is_hardware(event)]
    if program_faults and not broken:
        numbers = sorted({event.number("xid") or 0 for event in program_faults})
        meanings = "; ".join(
            f"Xid {number}: {PROGRAM_XIDS.get(number, 'no sign of a broken card')}" for number in numbers
        )
        yield LogFinding(
            program_faults,
            f"the driver wrote {meanings}",
            Fix(
                "debug the program first: these Xids follow from its faults, and the GPU is probably healthy",
                where="code",
            ),
            notice=True,
        )


@signature_probe(rules.DC314, "nvml-unknown", per_attempt=True)
def container_keeps_its_gpus(timeline: Timeline, events: Sequence[Event]) -> LogFinding | None:
    """NVML fails with an unknown error, as in a container whose cgroup was rewritten."""
    # a card that has fallen off the bus ends in the same words
    if any(_is_hardware(event) for event in timeline.of("gpu-xid")) or timeline.has("gpu-off-the-bus", "gpu-no-handle"):
        return None
    return LogFinding(
        events,
        f"NVML can't be used ({events[0].values['what']}): the container has lost access to its GPUs",
        shared_fixes.RESTART_THE_CONTAINER,
    )


@signature_probe(rules.DC333, "cuda-compat", per_attempt=True)
def compatibility_library_fits(timeline: Timeline, events: Sequence[Event]) -> LogFinding:
    """CUDA reports 803 or 804: its compatibility library is loaded instead of the driver's, and can't work there."""
    number = "804" if "forward compatibility" in events[0].text else "803"
    return LogFinding(
        events,
        f"CUDA's compatibility library does not fit this card or its driver (error {number})",
        Fix(
            "remove the compat folder from LD_LIBRARY_PATH where the job or the image sets it, or the package "
            "cuda-compat from the image. After an update of the host's driver start the container again",
            where="job-script",
        ),
    )


@log_probe(rules.DC335, per_attempt=True)
def torch_has_code_for_the_gpus(timeline: Timeline) -> Iterator[LogFinding]:
    """A kernel of torch or NCCL was not compiled for this GPU. torch's warning alone is information."""
    own = timeline.of("nccl-no-kernel")
    events = [*timeline.of("no-kernel-image"), *own]
    warnings = timeline.of("architecture-warning")
    if not events and not warnings:
        return
    cards = sorted({_card(event) for event in warnings})
    card = f" ({', '.join(cards[:3])})" if cards else ""
    whose = "NCCL" if own and len(own) == len(events) else "torch"
    ranks = {event.who.rank for event in events if event.who.rank is not None}
    some = (
        bool(ranks)
        and timeline.world_size is not None
        and timeline.world_size_known
        and len(ranks) < timeline.world_size
    )
    yield LogFinding(
        [*events, *warnings],
        f"{whose} was built without code for this GPU{card}"
        + (f"; only rank{'s' * (len(ranks) > 1)} {rank_ranges(ranks)} of {timeline.world_size} failed" if some else ""),
        Fix(
            "use the NCCL of torch's own packages instead of one that was built without this architecture"
            if whose == "NCCL"
            else "install a build of torch for this GPU (newer cards need a newer CUDA, older ones an older), or "
            "mask it",
            where="host",
        ),
        notice=not events,
    )


@log_probe(rules.DC336, per_attempt=True)
def peer_access_works(timeline: Timeline) -> Iterator[LogFinding]:
    """A framework refuses GeForce cards, CUDA refuses peer access, or RCCL's warning of the IOMMU precedes a hang."""
    if events := timeline.of("geforce-guard"):
        yield LogFinding(
            events,
            f"these cards (RTX {events[0].values['series']} series) have no peer access, and the framework does not "
            "start until P2P and InfiniBand are disabled",
            Fix(
                "switch both ways off for these cards, or start with 'accelerate launch', which does it",
                command="export NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1",
                where="job-script",
            ),
        )
    elif events := timeline.of("no-peer-access"):
        yield LogFinding(
            events,
            "two GPUs of this host can't reach each other's memory, and were made to",
            Fix(
                "unset NCCL_P2P_LEVEL and NCCL_IGNORE_DISABLED_P2P. If neither is set, one run with "
                "NCCL_P2P_DISABLE=1 confirms it ('nvidia-smi topo -p2p r' shows what the driver allows)",
                command="nvidia-smi topo -p2p r",
                where="host",
            ),
        )
    elif events := timeline.of("iommu-warning"):
        hung = _only_waited(timeline)
        yield LogFinding(
            events,
            "the kernel runs without iommu=pt" + (", and a collective of the GPUs hung" if hung else ""),
            shared_fixes.NO_IOMMU,
            notice=not hung,
        )


@signature_probe(rules.DC337, "cuda-unknown", "no-pci-path", per_attempt=True)
def wsl_can_do_it(timeline: Timeline, events: Sequence[Event]) -> LogFinding | None:
    """NCCL fails with CUDA's unknown error, or finds no GPU in /sys, on a host of Windows' naming or kernel."""
    if not timeline.has("wsl"):
        return None
    return LogFinding(
        [*events, *timeline.of("wsl")[:1]],
        "NCCL fails with CUDA's unknown error (999) under WSL2"
        if events[0].signature == "cuda-unknown"
        else "NCCL finds no path of the GPU in /sys, which WSL2 does not have",
        shared_fixes.NEWER_WSL,
    )


def memory_of(event: Event) -> GpuMemoryUse | None:
    """Return which processes hold the card's memory, from torch's message, or None if it does not show that.

    From 2.1 on it names processes by the host's numbers, in a container the own one among them. Up to 2.0 it had how
    much is free and how much PyTorch has reserved: the rest is the others' and the own context.
    """
    values = event.values
    gpu = values.get("gpu") or ""
    if values.get("whole"):
        total, own, free = (_gib(values[name]) for name in ("whole", "own", "left"))
        return GpuMemoryUse(gpu, total, own, max(0.0, total - own - free - _OUTSIDE_ALLOCATOR))
    if not values.get("total"):
        return None
    total = _gib(values["total"])
    holders = [(int(pid), _gib(size)) for pid, size in _PROCESS.findall(event.text)]
    allocated = _ALLOCATED.search(event.text)
    own = _gib(allocated[1]) if allocated else 0.0
    this = _THIS_PROCESS.search(event.text)
    # in a container without a process table of its own torch subtracts what it can't know: 17179869184 GiB
    if this is not None and _gib(this[1]) <= total * 1.01:
        own = _gib(this[1])
    elif holders and allocated:
        mine = min(holders, key=lambda holder: abs(holder[1] - own))
        if own <= mine[1] + 0.1 and mine[1] - own <= max(_OUTSIDE_ALLOCATOR, 0.15 * total):
            holders.remove(mine)
            own = mine[1]
    return GpuMemoryUse(gpu, total, own, sum(size for _, size in holders), tuple(holders))


def _gib(text: str) -> float:
    number, unit = text.split()
    return float(number) * _UNITS[unit[0]]


def _is_held(memory: GpuMemoryUse) -> bool:
    """Whether others hold much of the card, and more than the process that lacks it."""
    return memory.others >= _OTHERS_SHARE * memory.total and memory.others > memory.own


def _pids(timeline: Timeline) -> set[int]:
    """The processes of the job, as its log numbers them."""
    workers = {worker.pid for worker in timeline.workers}
    return {pid for pid in (*workers, *(voice.who.pid for voice in timeline.rank_streams)) if pid is not None}


def _ranks_in_one_memory(timeline: Timeline) -> list[Event]:
    """The out-of-memories of at least two ranks of one host on one GPU which others fill; [] where there are none.

    A checkpoint that every rank loads onto the first GPU has the same effect. Another rule covers it.
    """
    groups: dict[tuple[str | None, str], list[Event]] = {}
    for event in timeline.of("cuda-out-of-memory"):
        memory = memory_of(event)
        if memory is None or memory.others < 0.1 * memory.total or event.who.rank is None or _loads(event):
            continue
        groups.setdefault((event.who.host, memory.gpu), []).append(event)
    for events in groups.values():
        if len({event.who.rank for event in events}) > 1:
            return events
    return []


def _loads(event: Event) -> bool:
    frames = event.traceback.frames if event.traceback else ()
    return any(frame.function in ("load", "_load", "_legacy_load", "restore_location") for frame in frames)


def _bind(timeline: Timeline) -> Fix:
    by_ray = any(
        "/ray/" in frame.path for event in timeline.events if event.traceback for frame in event.traceback.frames
    )
    return Fix(
        "call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before the process group is made, and start at most "
        "one process for each GPU"
        + (
            "; under Ray give each worker a GPU of its own (num_gpus=1) and let Ray set CUDA_VISIBLE_DEVICES"
            if by_ray or any("ray::" in event.text for event in timeline.of("exception"))
            else ""
        ),
        where="code",
    )


def _free_the_card(pids: Sequence[int]) -> Fix:
    who = f" (process{'es' * (len(pids) > 1)} {', '.join(map(str, pids))})" if pids else ""
    return Fix(
        f"list the processes on the card{who} with 'nvidia-smi' and ps, and end those of your earlier runs. Else "
        "use other GPUs, or contact the owner. The kernel of a notebook holds memory until its end",
        command="nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv",
        where="host",
    )


def _is_hardware(event: Event) -> bool:
    number = event.number("xid")
    if number == 154 and _NO_RECOVERY.search(event.text):
        return False
    return number in HARDWARE_XIDS


def _joined_by_host(hosts: Mapping[str | None, list[Event]]) -> dict[str | None, list[Event]]:
    """Lines that name no host belong to the only one that is named, if it is the only one."""
    if len(hosts) == 2 and None in hosts:
        (host,) = (name for name in hosts if name is not None)
        return {host: sorted((*hosts[None], *hosts[host]), key=lambda event: (event.source, event.line))}
    return dict(hosts)


def _what_is_broken(events: Sequence[Event]) -> str:
    xids = [event for event in events if event.signature == "gpu-xid"]
    if xids:
        cards = list(dict.fromkeys(event.values.get("gpu", "") for event in xids))
        numbers = list(dict.fromkeys(event.number("xid") or 0 for event in xids))
        what = " and ".join(f"Xid {number}, {HARDWARE_XIDS[number]}" for number in numbers[:3])
        return f"the driver reports of GPU {' and '.join(cards[:3])}: {what}"
    first = events[0]
    if first.signature == "gpu-ecc":
        return "a GPU has a memory error that could not be corrected (ECC)"
    if first.signature == "gpu-nvlink-error":
        pair = f" between GPUs {first.values['gpu']} and {first.values['other']}" if first.values.get("other") else ""
        return f"NVLink{pair} has failed"
    card = first.values.get("gpu")
    return f"GPU {card} can't be reached any more" if card else "a GPU can't be reached any more"


def _replace(events: Iterable[Event]) -> Fix:
    lost = any(event.signature in ("gpu-off-the-bus", "gpu-no-handle") or event.number("xid") == 79 for event in events)
    failed = any(event.number("xid") in (64, 157) for event in events)
    if lost:
        text = "reboot the host; if it happens again, renumber or replace the card ('dmesg -T' shows 'Xid 79')"
    elif failed:
        text = "take the host out of service and have the card replaced"
    else:
        text = (
            "search 'dmesg' for NVRM: Xid, run 'dcgmi diag -r 3', and reset the card when nothing uses it "
            "(nvidia-smi -r -i INDEX), or reboot"
        )
    return Fix(f"exclude this host from the job; have an administrator {text}", by="admin", where="host")


def _card(event: Event) -> str:
    name, _, rest = event.text.partition(" with CUDA capability ")
    # before the card's name stands what a warning begins with
    return f"{name.rpartition(': ')[2].strip()[-60:]}, {rest.split()[0]}" if rest else name[-60:]


def _only_waited(timeline: Timeline) -> bool:
    """Whether a rank timed out, and no line names a cause."""
    return (
        not timeline.went_on
        and any(event.kind is Kind.TIMEOUT for event in timeline.events)
        and not any(event.kind is Kind.CAUSE for event in timeline.events)
    )


ROWS = register_rows(
    __name__,
    # CUDA reports a device as busy: in exclusive mode another process holds it.
    SignatureRow(
        "gpus_take_more_than_one_process",
        rules.DC307,
        "gpu-busy",
        "a GPU takes one process only, and has one already",
        Fix(
            "start one rank for each free GPU ('nvidia-smi' shows who is on them, 'nvidia-smi -q -d COMPUTE' the "
            "mode); an administrator can put the mode back: nvidia-smi -c DEFAULT",
            where="host",
        ),
    ),
    # CUDA reports 802: NVSwitch's fabric manager does not run, or has another version.
    SignatureRow(
        "fabric_manager_runs",
        rules.DC312,
        "fabric-manager",
        "CUDA can't start on this machine with NVSwitch: its fabric manager is not ready (802)",
        shared_fixes.start_fabric_manager("see nvidia-smi"),
    ),
    # NVML or the kernel module reports different versions of the two parts of the driver.
    SignatureRow(
        "driver_and_library_fit",
        rules.DC313,
        "nvml-mismatch",
        "the NVIDIA driver in the kernel and its library have different versions",
        Fix(
            "the driver was updated while it was in use. Have an administrator reboot the host, or reload the nvidia "
            "modules while nothing uses the GPUs. A container with its own driver library must use the host's",
            by="admin",
            where="host",
        ),
    ),
    # The loader finds an NCCL without a symbol that torch needs.
    SignatureRow(
        "nccl_is_the_one_of_torch",
        rules.DC331,
        "nccl-symbol",
        "another NCCL library is found before the one of torch: it has no {symbol}",
        Fix(
            "keep one package nvidia-nccl-cu…, the one that 'pip show torch' lists, and reinstall it with "
            "--force-reinstall --no-deps. Remove folders with another libnccl.so.2 from LD_LIBRARY_PATH and LD_PRELOAD",
            command="python -m pip list | grep nvidia-nccl; echo $LD_LIBRARY_PATH $LD_PRELOAD",
            where="host",
        ),
    ),
    # The loader finds no libnccl.so.2.
    SignatureRow(
        "nccl_is_installed",
        rules.DC332,
        "nccl-missing",
        "the NCCL library that torch needs is missing",
        Fix(
            "install the package nvidia-nccl-cu… that 'pip show torch' lists, with --force-reinstall --no-deps, into "
            "the Python of the job on every node",
            where="host",
        ),
    ),
)
