"""Which GPUs a rank may use: the masks of CUDA and ROCm, read by their own rules, against the launch.

Whether those GPUs are well is the matter of ``gpu_health.py``; whether two ranks really take the same one is seen only
where ranks are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where, grouped, rank_ranges, surplus_ranks
from distcheck.core.redaction import mask_arguments
from distcheck.core.registry import fact, probe
from distcheck.launch.model import NODE_LAUNCHERS, Launch
from distcheck.launch.schedulers import Scheduler
from distcheck.launch.settings import Settings

from .gpus import Driver, Gpu, Gpus
from .platform import Platform
from .software import Software

#: The variables that hide GPUs from a process, in the order in which they apply. GPU_DEVICE_ORDINAL is OpenCL's
#: (ROCm's rocclr, ``rocdevice.cpp``: HIP reads the other names), NVIDIA_VISIBLE_DEVICES the container runtime's.
CUDA_MASK, ROCR_MASK, HIP_MASK = "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
#: No host has a GPU of a higher number.
_HIGHEST_GPU = 1023
#: What Slurm writes for a step without GPUs.
NO_DEVICES = "NoDevFiles"


class MaskFault(NamedTuple):
    """An entry of a mask whose effect differs from its text."""

    variable: str
    #: what happens, one clause
    text: str
    #: it is in force only inside of what another mask has left
    conflict: bool = False


class Devices(NamedTuple):
    """What CUDA or HIP will enumerate in this process."""

    #: the variables that mask, as they stand, in the order in which they apply
    masks: tuple[tuple[str, str], ...] = ()
    #: what stays visible, in the process's order: indices of GPUs in the driver's order, or the UUID of a MIG instance;
    #: None: no GPUs can be known
    visible: tuple[str, ...] | None = None
    #: why the masks hide more than they list
    faults: tuple[MaskFault, ...] = ()
    #: CUDA numbers the GPUs in the driver's order, so that indices in a mask and in ``visible`` mean these GPUs
    order_known: bool = True
    #: a GPU that the masks leave is cut into MIG instances, of which a process gets one
    mig: bool = False

    @property
    def count(self) -> int | None:  # type: ignore[override]  # hides a tuple's method that no caller needs
        """How many devices this process can use; None where it can't be known."""
        return None if self.visible is None else len(self.visible)

    @property
    def dropped(self) -> tuple[str, ...]:
        """Why entries were dropped, in CUDA's terms."""
        return tuple(fault.text for fault in self.faults)


@fact()
def read_devices(settings: Settings, gpus: Gpus | Unavailable) -> Devices:
    """From the masks and the GPUs that are there."""
    names = (ROCR_MASK, HIP_MASK, CUDA_MASK, "CUDA_DEVICE_ORDER")
    values = {name: value for name in names if (value := settings.get(name)) is not None}
    return apply_masks(values, gpus)


def apply_masks(values: Mapping[str, str], gpus: Gpus | Unavailable) -> Devices:
    """What stays visible of the GPUs that are there.

    :param values: the masks that are set (an empty one is set), and CUDA_DEVICE_ORDER
    """
    if isinstance(gpus, Unavailable):
        return _without_gpus(values)
    cards = [gpu for gpu in gpus.gpus if not gpu.lost]
    return _hip_devices(values, cards) if gpus.vendor == "amd" else _cuda_devices(values, cards)


def visible_gpus(devices: Devices, gpus: Gpus) -> tuple[Gpu, ...]:
    """The GPUs that stay visible to this process, in its order; all of them where that is not known."""
    if devices.visible is None:
        return gpus.gpus
    by_name = {str(gpu.index): gpu for gpu in gpus.gpus}
    by_name.update((uuid, gpu) for gpu in gpus.gpus for uuid in gpu.mig_uuids)
    return tuple(by_name[name] for name in devices.visible if name in by_name)


def runs_on_gpus(launch: Launch, gpus: Gpus | Unavailable, software: Software | Unavailable) -> bool:
    """Whether the ranks will talk through NCCL: what was stated, else what GPUs and the installed torch suggest."""
    if launch.backend is not None:
        return "nccl" in launch.backend
    if isinstance(gpus, Unavailable) or not gpus.gpus:
        return False
    if isinstance(software, Unavailable) or software.torch is None:
        return True
    return bool(software.hip if gpus.vendor == "amd" else software.cuda)


def has_own_mask(launch: Launch, devices: Devices, scheduler: Scheduler | Unavailable) -> bool | None:
    """Return whether this rank's GPUs are its own, hidden from the other ranks of this host; None: unknown.

    What an agent starts has the agent's mask, unless something in between gave each rank its own.
    """
    # a plain program in a task has the task's mask
    task = launch.stage == "rank" or (launch.stage == "planned" and launch.launcher == "python")
    if not task or not devices.masks or not devices.visible:
        return False
    per_task = None if isinstance(scheduler, Unavailable) else scheduler.gpus_per_task
    if per_task is not None and devices.count == per_task:
        return True
    if devices.count != 1:
        return False
    # such a launcher gives all its ranks the mask that it has itself
    if launch.launcher not in NODE_LAUNCHERS:
        return True
    if launch.local_rank in (None, 0) or not devices.masks[-1][1].strip().isdigit():
        return None
    return devices.masks[-1][1].strip() == str(launch.local_rank)


# the masks


def _without_gpus(values: Mapping[str, str]) -> Devices:
    """Without a list of GPUs only a mask that hides them all is sure."""
    masks = tuple((name, values[name]) for name in (ROCR_MASK, HIP_MASK, CUDA_MASK) if name in values)
    hidden = any(hides_all(text) for _, text in masks)
    text = values.get(CUDA_MASK, "")
    # the other variables show that these are GPUs of AMD
    faults = _read_cuda_mask(text, _any_gpus(text))[2] if len(masks) == 1 and not text.startswith("MIG-") else []
    return Devices(masks, () if hidden else None, tuple(MaskFault(CUDA_MASK, fault) for fault in faults))


def _any_gpus(text: str) -> list[Gpu]:
    """Return as many GPUs as a mask can name, so that only what is wrong with its text is a fault."""
    entries = dict.fromkeys(entry.strip() for entry in text.split(",") if entry.strip().startswith("GPU-"))
    highest = max((min(int(number), _HIGHEST_GPU) for number in re.findall(r"\d+", text)), default=-1)
    return [Gpu(index, uuid, "") for index, uuid in enumerate(entries or [""] * (highest + 1))]


def hides_all(text: str) -> bool:
    """A mask that is meant to hide all: empty, a negative number first, or Slurm's word for none."""
    return text.strip() in ("", NO_DEVICES) or text.strip().startswith("-")


def _cuda_devices(values: Mapping[str, str], cards: Sequence[Gpu]) -> Devices:
    """By the rules of CUDA's programming guide (13.4, environment variables), read as torch 2.13 reads them."""
    text = values.get(CUDA_MASK)
    picked, instance, faults = (list(cards), None, []) if text is None else _read_cuda_mask(text, cards)
    by_number = text is None or not text.startswith(("GPU-", "MIG-"))
    ordered = len({gpu.name for gpu in cards}) < 2 or values.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or not by_number
    visible = (instance,) if instance is not None else _enumerate(picked)
    return Devices(
        masks=() if text is None else ((CUDA_MASK, text),),
        visible=visible,
        faults=tuple(MaskFault(CUDA_MASK, fault) for fault in faults),
        order_known=ordered,
        mig=instance is not None or any(gpu.mig_enabled for gpu in picked),
    )


def _enumerate(picked: Sequence[Gpu]) -> tuple[str, ...]:
    """What CUDA gives of these GPUs: where one has MIG instances, the first of them and nothing else.

    MIG user guide, "CUDA device enumeration": one compute instance a process, and no whole GPU in addition.
    """
    instances = [uuid for gpu in picked if gpu.mig_enabled for uuid in gpu.mig_uuids]
    if instances:
        return (instances[0],)
    return tuple(str(gpu.index) for gpu in picked if not gpu.mig_enabled)


def _read_cuda_mask(text: str, cards: Sequence[Gpu]) -> tuple[list[Gpu], str | None, list[str]]:
    """Return the GPUs or the MIG instance of a mask, and the entries with another effect than their text."""
    if hides_all(text):
        return [], None, []
    if text.startswith("MIG-"):
        instance, faults = _read_mig_mask(text, cards)
        return [], instance, faults
    find = _find_uuid if text.startswith("GPU-") else _find_number
    picked: list[Gpu] = []
    faults = []
    entries = text.split(",")
    for place, entry in enumerate(entries):
        behind = [other.strip() for other in entries[place + 1 :] if other.strip()]
        if re.match(r"\s*-\d", entry):
            break  # the documented way to hide what stands behind it
        found = find(entry, cards)
        if isinstance(found, str):
            if behind or entry.strip():
                faults.append(f"{found}, which ends the list" + _hidden_as_well(behind))
            break
        if found in picked:
            return [], None, [f"{entry.strip()!r} stands in it twice, for which CUDA hides all GPUs"]
        picked.append(found)
        if find is _find_number and not entry.strip().lstrip("+").isdigit():
            faults.append(f"of {entry!r} only {cards.index(found)} is read")
    return picked, None, faults


def _find_number(entry: str, cards: Sequence[Gpu]) -> Gpu | str:
    """The GPU of an index, which is read as C's strtoul does; else what is wrong with the entry."""
    number = re.match(r"\s*\+?(\d+)", entry)
    if number is None:
        if not entry.strip():
            return "an empty entry names nothing"
        return f"{entry!r} is {'a UUID among numbers' if entry.strip().startswith(('GPU-', 'MIG-')) else 'no number'}"
    position = int(number[1])
    if position >= len(cards):
        return f"there is no GPU {position} ({'none' if not cards else f'only 0 to {len(cards) - 1}'} here)"
    return cards[position]


def _find_uuid(entry: str, cards: Sequence[Gpu]) -> Gpu | str:
    """The one GPU whose UUID begins like this; else what is wrong with the entry."""
    if not entry.startswith("GPU-"):
        return f"{entry!r} is no UUID as the entries before it are" if entry.strip() else "an empty entry names nothing"
    matching = [gpu for gpu in cards if gpu.uuid.startswith(entry)]
    if len(matching) == 1:
        return matching[0]
    return f"{entry!r} fits several GPUs" if matching else f"{entry!r} is no GPU of this host"


def _read_mig_mask(text: str, cards: Sequence[Gpu]) -> tuple[str | None, list[str]]:
    """The first instance that a mask of MIG UUIDs names: a process gets no other."""
    entry = text.split(",")[0].strip()
    # up to driver 450 instances were written MIG-<UUID of the GPU>/<instance>/<instance>
    parent = entry.removeprefix("MIG-").partition("/")[0]
    known = [uuid for gpu in cards for uuid in gpu.mig_uuids]
    matching = [uuid for uuid in known if uuid.startswith(entry)]
    if len(matching) == 1:
        return matching[0], []
    if "/" in entry and any(gpu.uuid == parent for gpu in cards):
        return entry, []
    return None, [f"{entry!r} {'fits several MIG instances' if matching else 'is no MIG instance of this host'}"]


def _hip_devices(values: Mapping[str, str], cards: Sequence[Gpu]) -> Devices:
    """Apply the rules of ROCm: ROCR_VISIBLE_DEVICES first, then HIP's mask over the renumbered rest."""
    masks = []
    faults = []
    left = list(cards)
    if ROCR_MASK in values:
        masks.append((ROCR_MASK, values[ROCR_MASK]))
        left, texts = _read_hip_mask(values[ROCR_MASK], cards, blanks=True)
        faults = [MaskFault(ROCR_MASK, text) for text in texts]
    # rocclr takes CUDA's name where HIP's is not set
    name = HIP_MASK if HIP_MASK in values else CUDA_MASK
    if name in values:
        masks.append((name, values[name]))
        left, texts = _read_hip_mask(values[name], left, blanks=False)
        faults += [MaskFault(name, text, conflict=ROCR_MASK in values) for text in texts]
    return Devices(tuple(masks), tuple(str(gpu.index) for gpu in left), tuple(faults))


def _read_hip_mask(text: str, cards: Sequence[Gpu], *, blanks: bool) -> tuple[list[Gpu], list[str]]:
    """The GPUs that a mask of ROCm names.

    :param blanks: blanks around a number are overlooked (ROCR); HIP takes only what is written exactly as a number
    """
    picked: list[Gpu] = []
    if hides_all(text):
        return [], []
    entries = text.split(",")
    for place, entry in enumerate(entries):
        word = entry.strip() if blanks else entry
        behind = [other.strip() for other in entries[place + 1 :] if other.strip()]
        if re.match(r"\s*-\d", entry) or not (entry.strip() or behind):
            break
        matching = [gpu for gpu in cards if gpu.uuid and gpu.uuid == word]
        if re.fullmatch(r"0|[1-9]\d*", word):
            matching = list(cards[int(word) : int(word) + 1])
        if not matching:
            exact = "" if blanks or not entry.strip().isdigit() or entry == entry.strip() else ", for the blank,"
            fault = f"{entry!r} is{exact} none of the {len(cards)} GPUs that are left to it, which ends the list"
            return picked, [fault + _hidden_as_well(behind)]
        if matching[0] not in picked:
            picked.append(matching[0])
    return picked, []


def _hidden_as_well(entries: Sequence[str]) -> str:
    return f" and hides {', '.join(entries)} as well" if entries else ""


# the probes


@probe(rules.DC204, per="process")
def masks_say_what_they_do(
    launch: Launch,
    devices: Devices,
    gpus: Gpus | Unavailable,
    scheduler: Scheduler | Unavailable,
    software: Software | Unavailable,
) -> Iterator[Finding]:
    """No entry of a mask hides GPUs that the list was meant to give."""
    for fault in devices.faults:
        if fault.conflict:
            continue
        value = dict(devices.masks)[fault.variable]
        if isinstance(gpus, Unavailable):
            meant = "nccl" in (launch.backend or "") or (isinstance(software, Software) and bool(software.cuda))
            yield rules.DC204.found(
                f"{fault.variable}={value!r}: {fault.text}",
                severity=Severity.WARNING if launch.launched and meant else Severity.INFO,
                where=Where(variable=fault.variable, local_rank=launch.local_rank),
                evidence={"value": value},
                fix=Fix(
                    "name each GPU once, with commas only and without quotes inside of the value", where="job-script"
                ),
            )
            continue
        yield rules.DC204.found(
            f"{fault.variable}={value!r} leaves {_devices(devices.count or 0)}: {fault.text}",
            severity=None if runs_on_gpus(launch, gpus, software) and _falls_short(launch, devices) else Severity.INFO,
            where=Where(variable=fault.variable, local_rank=launch.local_rank),
            evidence={"value": value, "visible": list(devices.visible or ()), "gpus": len(gpus.gpus)},
            fix=_clean_mask(fault.variable, value, launch, gpus, scheduler),
        )


@probe(rules.DC205, per="process")
def rocm_masks_agree(
    launch: Launch, devices: Devices, settings: Settings, gpus: Gpus, software: Software | Unavailable
) -> Iterator[Finding]:
    """At most one of ROCm's masks decides, or the second is written for what the first has left."""
    if gpus.vendor != "amd":
        return
    hip, cuda = settings.get(HIP_MASK), settings.get(CUDA_MASK)
    for fault in devices.faults:
        if fault.conflict:
            first, second = devices.masks
            yield rules.DC205.found(
                f"{first[0]}={first[1]} applies first and renumbers its GPUs from 0; in {second[0]}={second[1]} "
                f"{fault.text}: {_devices(devices.count or 0)} left",
                severity=None
                if runs_on_gpus(launch, gpus, software) and _falls_short(launch, devices)
                else Severity.INFO,
                where=Where(variable=second[0], local_rank=launch.local_rank),
                evidence={**dict(devices.masks), "visible": list(devices.visible or ())},
                fix=Fix(
                    f"keep one of the two, and unset the other in the job script: {first[0]} where a scheduler set it",
                    command=f"unset {second[0]}",
                    where="job-script",
                ),
            )
    if hip is not None and cuda is not None and hip != cuda:
        yield rules.DC205.found(
            f"{HIP_MASK}={hip} and {CUDA_MASK}={cuda} differ; HIP follows the first and overlooks the second",
            severity=Severity.INFO,
            where=Where(variable=CUDA_MASK, local_rank=launch.local_rank),
            evidence={HIP_MASK: hip, CUDA_MASK: cuda},
            fix=Fix(f"set {HIP_MASK} only", command=f"unset {CUDA_MASK}", where="job-script"),
        )


@probe(rules.DC203, per="process")
def tasks_see_all_gpus(
    launch: Launch, devices: Devices, gpus: Gpus, scheduler: Scheduler | Unavailable
) -> Iterator[Finding]:
    """Each task sees the GPUs of its siblings, so that LOCAL_RANK is a device's number and NVLink can be used."""
    ranks = launch.ranks_here
    if devices.count != 1 or ranks is None or ranks < 2 or not has_own_mask(launch, devices, scheduler):
        return
    name, value = devices.masks[-1]
    slurm = launch.launcher == "slurm" or launch.scheduler == "slurm"
    advice = (
        "if each task needs all GPUs of its node: request them with --gpus-per-node and add --gpu-bind=none to srun"
        if slurm
        else "if that is not meant: give all local ranks the same mask that names all of their GPUs"
    )
    yield rules.DC203.found(
        f"this task sees one GPU only ({name}={value}), and {ranks} tasks run on this host: its device is 0, whatever "
        "LOCAL_RANK is",
        severity=Severity.INFO,
        where=Where(variable=name, local_rank=launch.local_rank),
        evidence={name: value, "ranks_here": ranks, "gpus": len(gpus.gpus)},
        fix=Fix(f"use device 0 in the script, not the one numbered LOCAL_RANK; {advice}", where="code"),
    )


@probe(rules.DC221)
def devices_are_numbered_alike(devices: Devices, settings: Settings, gpus: Gpus) -> Iterator[Finding]:
    """CUDA's numbers are those of nvidia-smi."""
    names = sorted({gpu.name for gpu in gpus.gpus if gpu.name})
    order = settings.get("CUDA_DEVICE_ORDER")
    if gpus.vendor != "nvidia" or len(names) < 2 or order == "PCI_BUS_ID":
        return
    yield rules.DC221.found(
        f"{' and '.join(names)} are mixed here; CUDA counts from the fastest, nvidia-smi by PCI address",
        where=Where(variable="CUDA_DEVICE_ORDER"),
        evidence={"models": names, "CUDA_DEVICE_ORDER": order},
        fix=Fix(
            "number them by PCI address, as nvidia-smi does",
            command="export CUDA_DEVICE_ORDER=PCI_BUS_ID",
            safe=True,
            where="job-script",
        ),
    )


@probe(rules.DC301, per="process")
def every_rank_has_a_gpu(
    launch: Launch,
    devices: Devices,
    settings: Settings,
    gpus: Gpus | Unavailable,
    driver: Driver | Unavailable,
    scheduler: Scheduler | Unavailable,
    software: Software | Unavailable,
    platform: Platform | Unavailable,
) -> Iterator[Finding]:
    """There are as many usable GPUs as ranks on this host."""
    ranks = launch.ranks_here
    if not launch.launched or ranks is None or not runs_on_gpus(launch, gpus, software):
        return
    if devices.count is None:
        # a torch for CUDA alone can use no GPU of AMD
        if isinstance(driver, Driver) and isinstance(software, Software) and software.cuda and not software.hip:
            driver = driver._replace(amd_gpus=0)
        if isinstance(driver, Unavailable) or not driver.nothing_there:
            raise Unavailable(gpus.why if isinstance(gpus, Unavailable) else "the GPUs that are usable are not known")
        yield rules.DC301.found(
            f"the launch uses backend {launch.backend}, but this process has no usable GPU",
            evidence={"ranks_here": ranks, "usable": 0},
            fix=_find_a_gpu(platform),
        )
        return
    if ranks <= devices.count or devices.mig or _ranks_share_gpus(settings, gpus):
        return
    if has_own_mask(launch, devices, scheduler) is not False:
        return
    if devices.count == 0 and launch.backend is None:
        return  # a mask that hides all means "on the CPU"; a faulty one is DC204
    if devices.faults and not isinstance(gpus, Unavailable) and ranks <= len(gpus.gpus):
        return  # a mask that hides more than it lists is the cause: DC204, DC205
    masks = f" with {' '.join(f'{name}={value}' for name, value in devices.masks)}" if devices.masks else ""
    usable = f"{_devices(devices.count)} {'is' if devices.count == 1 else 'are'} usable"
    yield rules.DC301.found(
        f"{ranks} processes run on this host, but {usable}{masks}: {surplus_ranks(devices.count, ranks)}",
        where=Where(variable=devices.masks[-1][0] if devices.masks else None, local_rank=launch.local_rank),
        evidence={
            "ranks_here": ranks,
            "usable": devices.count,
            "gpus": 0 if isinstance(gpus, Unavailable) else len(gpus.gpus),
            "masks": dict(devices.masks),
            "backend_stated": launch.backend,
        },
        fix=_start_fewer(launch, devices),
    )


@probe(rules.DC302)
def no_gpu_is_left_idle(
    launch: Launch,
    devices: Devices,
    settings: Settings,
    gpus: Gpus,
    scheduler: Scheduler | Unavailable,
    software: Software | Unavailable,
) -> Iterator[Finding]:
    """All GPUs that this job may use have a rank."""
    ranks = launch.ranks_here
    count = devices.count
    if (
        not launch.launched
        or ranks is None
        or count is None
        or ranks >= count
        or not runs_on_gpus(launch, gpus, software)
    ):
        return
    if has_own_mask(launch, devices, scheduler) is not False:
        return
    granted = None if isinstance(scheduler, Unavailable) else scheduler.gpus_on_node
    # one process may well drive several GPUs itself; two or more that leave some are a slip
    wasted = granted is not None and granted > ranks and ranks > 1
    idle = list(devices.visible or ())[ranks:]
    given = f" of the {granted} that the scheduler gave this job here" if granted else ""
    yield rules.DC302.found(
        f"{ranks} {'process runs' if ranks == 1 else 'processes run'} on this host with {_devices(count)}"
        f"{given}: {len(idle)} take no part",
        severity=Severity.WARNING if wasted else Severity.INFO,
        evidence={"ranks_here": ranks, "usable": count, "granted": granted, "idle": idle},
        fix=Fix(
            f"start one process for each GPU ({_process_option(launch, count)}), or request {ranks} only",
            command=_process_option(launch, count) if launch.launcher in (None, *NODE_LAUNCHERS) else None,
            where="launch-line",
        ),
    )


@probe(rules.DC306, per="process")
def mig_gives_each_rank_an_instance(
    launch: Launch, devices: Devices, gpus: Gpus, software: Software | Unavailable
) -> Iterator[Finding]:
    """A rank needs no second MIG instance, and finds the one that it needs."""
    if not devices.mig:
        return
    ranks = launch.ranks_here
    cut = [gpu for gpu in gpus.gpus if gpu.mig_enabled]
    instances = [uuid for gpu in cut for uuid in gpu.mig_uuids]
    mask = dict(devices.masks).get(CUDA_MASK, "")
    named = [entry.strip() for entry in mask.split(",") if entry.strip().startswith("MIG-")]
    hurts = launch.launched and runs_on_gpus(launch, gpus, software)
    evidence = {
        "instances": instances,
        "visible": list(devices.visible or ()),
        "ranks_here": ranks,
        CUDA_MASK: mask or None,
    }
    numbers = rank_ranges(gpu.index for gpu in cut)
    if not devices.visible:
        if not instances:
            yield rules.DC306.found(
                f"MIG is on for GPU {numbers}, but no instance was made: CUDA finds no device there",
                severity=None if hurts else Severity.INFO,
                where=Where(gpu=numbers),
                evidence=evidence,
                fix=Fix(
                    "have an administrator make instances (nvidia-smi mig -cgi … -C), or turn MIG off",
                    by="admin",
                    where="host",
                ),
            )
        return
    alone = launch.stage == "rank" and len(named) == 1
    if ranks is not None and ranks > 1 and not alone:
        what = f"{ranks} processes run on this host, but CUDA gives all the same MIG instance, {devices.visible[0]}"
        # what torchrun --no-python starts may give each rank a mask of its own
        hurts = hurts and not (launch.stage == "planned" and launch.command is not None and launch.command.no_python)
    elif len(named) > 1:
        what = f"{CUDA_MASK} names {len(named)} MIG instances, but CUDA gives a process the first one only"
        hurts = False
    else:
        return
    yield rules.DC306.found(
        what,
        severity=None if hurts else Severity.INFO,
        where=Where(variable=CUDA_MASK if named else None, gpu=numbers, local_rank=launch.local_rank),
        evidence=evidence,
        fix=Fix(
            f"give each process a {CUDA_MASK} of its own that names one instance, each of another GPU, and use device "
            "0. Start at most one process for each GPU "
            f"({len(gpus.gpus)} here): to NCCL two instances of one GPU are the same GPU. Or have an administrator "
            "turn MIG off",
            where="each-task",
        ),
    )


@probe(rules.DC307)
def gpus_take_enough_processes(
    launch: Launch,
    devices: Devices,
    settings: Settings,
    gpus: Gpus,
    scheduler: Scheduler | Unavailable,
    software: Software | Unavailable,
) -> Iterator[Finding]:
    """A GPU that takes one process only is free, and one rank uses it."""
    hurts = launch.launched and runs_on_gpus(launch, gpus, software)
    shared = _served_by_mps(settings, gpus)
    crowded = (
        devices.count is not None
        and (launch.ranks_here or 0) > devices.count > 0
        and has_own_mask(launch, devices, scheduler) is False
    )
    alike: dict[tuple[str, str, bool], list[Gpu]] = {}
    for gpu in visible_gpus(devices, gpus):
        if gpu.compute_mode in (None, "default"):
            continue
        holders = [item for item in gpu.processes if not (launch.stage == "rank" and item.own and not item.orphan)]
        if gpu.compute_mode == "prohibited":
            problem, fails = "takes no process at all", True
        elif shared:
            # the server of the service is the one process; its documentation requires this mode
            continue
        elif holders:
            problem, fails = f"takes one process, and process {holders[0].pid} has it", True
        elif crowded:
            problem, fails = f"takes one process, and {launch.ranks_here} run on {_devices(devices.count or 0)}", True
        else:
            problem, fails = "takes one process only", False
        alike.setdefault((gpu.compute_mode or "", problem, fails), []).append(gpu)
    for (mode, problem, fails), group in alike.items():
        where = rank_ranges(gpu.index for gpu in group)
        yield rules.DC307.found(
            f"GPU {where} {'is' if len(group) == 1 else 'are'} in compute mode {mode}, which {problem}",
            severity=Severity.ERROR if hurts and fails else Severity.INFO,
            where=Where(gpu=where),
            evidence={
                "compute_mode": mode,
                "holders": {str(gpu.index): [item.pid for item in gpu.processes] for gpu in group},
                "ranks_here": launch.ranks_here,
                "usable": devices.count,
            },
            fix=Fix(
                "run one rank on each GPU when it is free; or an administrator types: "
                f"nvidia-smi -i {','.join(str(gpu.index) for gpu in group)} -c DEFAULT",
                by="admin",
                where="host",
            ),
        )


@probe(rules.DC308)
def ranks_get_equal_gpus(
    launch: Launch,
    devices: Devices,
    gpus: Gpus,
    scheduler: Scheduler | Unavailable,
    software: Software | Unavailable,
) -> Iterator[Finding]:
    """The GPUs that the ranks of this host will use are of one kind."""
    ranks = launch.ranks_here
    if not launch.launched or ranks is None or ranks < 2 or devices.mig or not runs_on_gpus(launch, gpus, software):
        return
    if has_own_mask(launch, devices, scheduler) is not False:
        return
    cards = visible_gpus(devices, gpus)
    kinds = grouped(cards[:ranks] if devices.order_known else cards, lambda gpu: gpu.name)
    # where CUDA chooses the order, the fastest come first, and those are most often the ones of one kind
    if len(kinds) < 2 or (not devices.order_known and max(map(len, kinds.values())) >= ranks):
        return
    listed = [f"{name} (GPU {rank_ranges(gpu.index for gpu in group)})" for name, group in kinds.items()]
    most = max(kinds.values(), key=len)
    yield rules.DC308.found(
        f"the {ranks} ranks of this host get GPUs of different kinds: {', '.join(listed)}",
        evidence={name: [gpu.index for gpu in group] for name, group in kinds.items()},
        fix=Fix(
            f"use GPUs of one kind only: let {CUDA_MASK if gpus.vendor == 'nvidia' else HIP_MASK} name the {len(most)} "
            f"of {most[0].name} by UUID ({', '.join(gpu.uuid for gpu in most)}) and start {len(most)} processes; "
            "or take the slowest card's speed and the smallest one's memory into account",
            where="job-script",
        ),
    )


# what the probes have in common


def _falls_short(launch: Launch, devices: Devices) -> bool:
    """Whether a launch will miss GPUs that it needs."""
    return launch.launched and devices.count is not None and devices.count < (launch.ranks_here or 1)


def _ranks_share_gpus(settings: Settings, gpus: Gpus | Unavailable) -> bool:
    """Return whether the user wants several ranks on one GPU."""
    return _is_on(settings.get("NCCL_MULTI_RANK_GPU_ENABLE")) or _served_by_mps(settings, gpus)


def _served_by_mps(settings: Settings, gpus: Gpus | Unavailable) -> bool:
    """CUDA's multi-process service shares the GPUs out."""
    if settings.get("CUDA_MPS_PIPE_DIRECTORY") or settings.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"):
        return True
    if isinstance(gpus, Unavailable):
        return False
    return any("nvidia-cuda-mps-server" in (item.command or "") for gpu in gpus.gpus for item in gpu.processes)


def _is_on(value: str | None) -> bool:
    """A number of NCCL that is not 0."""
    number = re.match(r"\s*[+-]?(\d+)", value or "")
    return number is not None and int(number[1]) != 0


def _devices(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count if count else 'no'} GPUs"


def _process_option(launch: Launch, count: int) -> str:
    """The option that starts so many processes on each host."""
    if launch.launcher in ("slurm", "openmpi", "pmi", "pmix", "mvapich", "jsrun", "flux"):
        return f"--ntasks-per-node={count}" if launch.launcher == "slurm" else f"{count} tasks a node"
    if launch.launcher == "deepspeed":
        return f"--num_gpus={count}"
    if launch.launcher == "accelerate":
        return f"--num_processes={count * max(launch.nnodes or 1, 1)}"
    if launch.command is not None and "torchx" in launch.command.wrappers:
        return f"-j {launch.nnodes or 1}x{count}"
    return f"--nproc-per-node={count}"


def _start_fewer(launch: Launch, devices: Devices) -> Fix:
    faults = [fault for fault in devices.faults if fault.variable]
    if faults:
        return Fix(f"first fix {faults[0].variable}: {faults[0].text}", where="job-script")
    count = devices.count or 0
    stated = "" if launch.backend else "; if the ranks use no GPUs, add --backend gloo"
    if count == 0:
        return Fix(
            f"unset {' and '.join(name for name, _ in devices.masks) or 'the mask'}, or use backend gloo",
            where="job-script",
        )
    option = _process_option(launch, count)
    more = f", or let {devices.masks[-1][0]} name more GPUs, if they are yours" if devices.masks else ""
    everywhere = " on every node" if launch.several_nodes else ""
    return Fix(
        f"start a process for each GPU{everywhere}: {option}{more}{stated}",
        command=_line(launch, option, count),
        where="launch-line",
    )


def _line(launch: Launch, option: str, count: int) -> str | None:
    """The whole command where it was given and holds no secret, else the option; None where there is no option."""
    if not option.startswith("--") or launch.launcher == "python":
        return None
    command = launch.command
    if command is None:
        return option
    from distcheck.launch.command import line_with_processes

    if mask_arguments(command.argv) != command.argv:
        return option
    total = count * max(launch.nnodes or 1, 1) if launch.launcher == "accelerate" else count
    return line_with_processes(command, total) or option


def _find_a_gpu(platform: Platform | Unavailable) -> Fix:
    container = None if isinstance(platform, Unavailable) else platform.container
    if container == "kubernetes":
        return Fix(
            "request GPUs in the pod's resources (nvidia.com/gpu or amd.com/gpu), or use backend gloo",
            where="job-script",
        )
    if container in ("docker", "podman"):
        return Fix("start the container with --gpus all, or use backend gloo", where="launch-line")
    return Fix(
        "run it on a host with GPUs (in a job: request them from the scheduler), or use backend gloo",
        where="job-script",
    )


def _clean_mask(variable: str, value: str, launch: Launch, gpus: Gpus, scheduler: Scheduler | Unavailable) -> Fix:
    """The same list without what spoils it; or no mask, where that list is too short."""
    cards = [gpu for gpu in gpus.gpus if not gpu.lost]
    if not isinstance(scheduler, Unavailable) and scheduler.name == "slurm" and scheduler.gpus_on_node:
        return Fix(
            f"keep {variable} as Slurm sets it: remove the line (job script, shell's start files) that sets it",
            where="job-script",
        )
    entries = value.strip(" \"'").split(",")
    find = _find_uuid if any(entry.strip().startswith("GPU-") for entry in entries) else _find_number
    found = [find(entry.strip(" \"'"), cards) for entry in entries]
    kept = list(dict.fromkeys(str(cards.index(gpu)) for gpu in _only_gpus(found)))
    if len(kept) >= (launch.ranks_here or 1):
        text = f"name each GPU once, by number, without anything else: {','.join(kept)}"
        return Fix(text, command=f"export {variable}={','.join(kept)}", where="job-script")
    if len(cards) >= (launch.ranks_here or 1):
        text = f"take the mask away, so that all {len(cards)} GPUs are visible, or name some that are there"
        return Fix(
            text, command=f"unset {variable}", where="job-script", risk="GPUs of others become visible on a shared host"
        )
    return Fix(f"name GPUs that are there: nvidia-smi -L lists them ({len(cards)} on this host)", where="job-script")


def _only_gpus(found: Iterable[Gpu | str]) -> Iterator[Gpu]:
    return (item for item in found if not isinstance(item, str))
