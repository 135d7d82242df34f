"""Compare the GPUs of all ranks: wrong indices, masks that are applied twice, GPUs that two ranks of a node share, and
checkpoints that all ranks of a node load onto one GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, grouped, rank_names, rank_ranges
from distcheck.core.registry import probe

from .gpu_bindings import Bound, GroupDevice, Load, Taken
from .plan import where

#: Bytes in a megabyte, as messages count them.
_MEGABYTE = 1e6
_PLACE = attrgetter("place")


# indices


@probe(rules.DC201)
def indices_count_the_gpus_of_a_node(devices: Taken) -> Iterator[Finding]:
    """No rank of a later node takes its number in the whole job for the number of a GPU."""
    plan = devices.plan
    for place, uses in grouped(devices.bound, _PLACE).items():
        far = [one for one in uses if plan.node_of(one.rank) > 0]
        near = [one for one in uses if plan.node_of(one.rank) == 0]
        # the first node alone proves nothing, and neither does a number that all ranks share
        if not near or not far or any(one.number != one.rank for one in uses):
            continue
        refused = sorted({one.rank for one in far if one.how == "refused"})
        first = min(far, key=lambda one: (one.how != "refused", one.rank))
        node = plan.node_name(first.rank)
        outcome = (
            f"{node} has {plan.gpus_per_node} GPUs and answers 'invalid device ordinal'"
            if first.how == "refused"
            else f"on {node} that is the GPU of local rank {first.number}"
            if first.number < plan.nproc_per_node
            else f"{node} counts its {plan.nproc_per_node} ranks from 0"
        )
        yield rules.DC201.found(
            f"the global rank is used as a GPU index: {rank_names([first.rank])}, local rank"
            f" {devices.local(first.rank)} of {node}, requests GPU {first.number}; {outcome}",
            where=where(place, refused or [one.rank for one in far]),
            severity=Severity.ERROR if refused else Severity.WARNING,
            fix=Fix('use the local rank: `int(os.environ["LOCAL_RANK"])`, with `import os`', where="code"),
            evidence={
                "index_by_rank": {str(one.rank): one.number for one in uses},
                "local_ranks": {str(one.rank): devices.local(one.rank) for one in uses},
                "gpus_per_node": plan.gpus_per_node,
                "refused_ranks": refused,
            },
        )


@probe(rules.DC202)
def masked_gpus_are_number_zero(devices: Taken) -> Iterator[Finding]:
    """A rank that sees one GPU takes number 0."""
    plan = devices.plan
    for place, uses in grouped((one for one in devices.bound if one.how == "refused"), _PLACE).items():
        found = [
            one
            for one in uses
            if 0 < one.visible <= one.number
            and one.visible < plan.gpus_per_node
            # GPUs enough for every rank: without the mask the number would be right
            and one.number == devices.local(one.rank) < plan.gpus_per_node
        ]
        if not found:
            continue
        first = found[0]
        line = devices.masked.get(first.rank, "")
        by_script = first.mask != first.given_mask
        who = f"the script, at {line}," if by_script and line else "the script" if by_script else "the launcher"
        sees = "one GPU" if first.visible == 1 else f"{first.visible} GPUs"
        remedy = (
            f"use index 0 here; or keep all GPUs visible: delete the assignment at {line}"
            if by_script and line
            else "use index 0, the only GPU that each rank sees; or let the launcher keep all GPUs of a node visible"
        )
        yield rules.DC202.found(
            f"{rank_names([first.rank])} requests GPU {first.number}, its local rank, but sees {sees}: {who} has set"
            f" CUDA_VISIBLE_DEVICES={first.mask}, and CUDA counts GPUs in that mask from 0",
            where=where(place, [one.rank for one in found]),
            fix=Fix(remedy, where="code"),
            evidence={
                "mask": first.mask,
                "given_mask": first.given_mask,
                "index_by_rank": {str(one.rank): one.number for one in found},
                "visible_gpus": first.visible,
            },
        )


# GPUs that are shared


class _Shared(NamedTuple):
    """A GPU of a node with which several ranks take part in one group."""

    node: int
    card: str
    #: of each rank
    parts: tuple[GroupDevice, ...]

    @property
    def ranks(self) -> list[int]:
        return [one.rank for one in self.parts]

    @property
    def last(self) -> GroupDevice:
        """Of the rank that is at home somewhere else: the first one is at home on GPU 0."""
        return self.parts[-1]

    @property
    def guessed(self) -> bool:
        """No tensor is there: it is torch's choice, which differs between versions."""
        return self.last.operation == "barrier"


def _shared(devices: Taken) -> Iterator[_Shared]:
    groups: dict[tuple[int, str, str], dict[int, GroupDevice]] = {}
    for part in devices.parts:
        if part.nccl:
            key = (devices.plan.node_of(part.rank), part.card, part.group)
            known = groups.setdefault(key, {})
            if part.rank not in known or known[part.rank].operation == "barrier":
                known[part.rank] = part
    for (node, card, _), by_rank in sorted(groups.items()):
        if len(by_rank) > 1:
            yield _Shared(node, card, tuple(by_rank[rank] for rank in sorted(by_rank)))


def _choice(devices: Taken, part: GroupDevice) -> Bound | None:
    """What gave a rank the GPU with which it takes part; None where nothing did."""
    mine = [one for one in devices.bound if one.rank == part.rank and one.how != "refused"]
    return max((one for one in mine if one.number == part.number), key=lambda one: one.binds, default=None)


def _is_unbound(devices: Taken, shared: _Shared) -> bool:
    """Whether no rank had chosen a GPU until then. The rank whose GPU it is may have chosen it after its barrier."""
    barriers = [part for part in shared.parts if part.operation == "barrier"]
    return all(
        part.current and not any(one.rank == part.rank and one.binds and one.at_s <= part.at_s for one in devices.bound)
        for part in barriers or shared.parts
    )


def _what_happens(part: GroupDevice) -> str:
    return {
        "barrier": "barrier() runs on the current device",
        "DistributedDataParallel": "each of them holds the model there",
    }.get(part.operation, f"{part.operation}() puts its tensors there")


@probe(rules.DC206)
def ranks_choose_a_device(devices: Taken) -> Iterator[Finding]:
    """No two ranks of a node use GPU 0 in NCCL because no line selects another."""
    unbound = (shared for shared in _shared(devices) if _is_unbound(devices, shared))
    places = grouped(unbound, lambda shared: devices.groups.get(shared.last.rank) or shared.last.place)
    for place, found in places.items():
        worst = min(found, key=lambda shared: shared.guessed)
        ranks = [rank for shared in found for rank in shared.ranks]
        yield rules.DC206.found(
            f"no line binds a rank to a GPU before the group starts with NCCL: {rank_names(worst.ranks)} of node"
            f" {worst.node} are all on GPU {worst.card}; {_what_happens(worst.last)} ({worst.last.place})",
            where=where(place, ranks),
            severity=Severity.WARNING if worst.guessed else Severity.ERROR,
            fix=Fix(
                'before init_process_group: `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`; and pass it'
                ' `device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"]))`',
                where="code",
            ),
            evidence={
                "gpu": worst.card,
                "node": worst.node,
                "operation": worst.last.operation,
                "at": worst.last.place,
                "ranks": rank_ranges(ranks),
            },
        )


@probe(rules.DC303)
def ranks_have_gpus_of_their_own(devices: Taken) -> Iterator[Finding]:
    """No two ranks of a node take part in NCCL with one GPU, chosen by them."""
    plan = devices.plan
    chosen = (shared for shared in _shared(devices) if not _is_unbound(devices, shared))
    places = grouped(chosen, lambda shared: (_choice(devices, shared.last) or shared.last).place)
    few = plan.nproc_per_node > plan.gpus_per_node
    for place, found in places.items():
        first = found[0]
        ranks = [rank for shared in found for rank in shared.ranks]
        yield rules.DC303.found(
            f"{rank_names(first.ranks)} of node {first.node} all use GPU {first.card}, and NCCL allows one rank per GPU"
            f" of a host; first in {first.last.operation} at {first.last.place}",
            where=where(place, ranks),
            fix=Fix(
                f"start at most {plan.gpus_per_node} ranks on a node of {plan.gpus_per_node} GPUs"
                if few
                else 'give each rank its own: `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`, and write "cuda"'
                " without an index afterwards",
                where="launch-line" if few else "code",
            ),
            evidence={
                "gpu": first.card,
                "node": first.node,
                "index_by_rank": {str(part.rank): part.number for shared in found for part in shared.parts},
                "operation": first.last.operation,
                "at": first.last.place,
                "ranks_per_node": plan.nproc_per_node,
                "gpus_per_node": plan.gpus_per_node,
            },
        )


# checkpoints


@probe(rules.DC723)
def checkpoints_come_to_their_own_gpu(devices: Taken) -> Iterator[Finding]:
    """What ranks of one node load does not go to the GPU of one of them."""
    fix = Fix(
        'add map_location="cpu": load_state_dict() copies the tensors to where the parameters are',
        where="code",
        risk="tensors of the checkpoint that are used directly, without load_state_dict(), are on the CPU then",
    )
    for place, loads in grouped(devices.loads, _PLACE).items():
        failed = next((load for load in loads if load.why), None)
        if failed is not None:
            yield rules.DC723.found(
                f"torch.load without map_location loads {failed.file or 'the checkpoint'} onto the GPU that it was"
                f" saved from, and a node of {devices.plan.gpus_per_node} GPUs has no GPU with that index",
                where=where(place, [load.rank for load in loads if load.why]),
                severity=Severity.ERROR,
                fix=fix,
                evidence={"file": failed.file, "error": failed.why},
            )
            continue
        yield from _loaded_elsewhere(devices, place, loads, fix)


def _loaded_elsewhere(devices: Taken, place: str, loads: Sequence[Load], fix: Fix) -> Iterator[Finding]:
    plan = devices.plan
    there: dict[tuple[int, str], dict[int, int]] = {}
    for load in loads:
        for card, size in load.cards.items():
            there.setdefault((plan.node_of(load.rank), card), {})[load.rank] = size
    found = []
    for (node, card), sizes in sorted(there.items()):
        strangers = [rank for rank in sorted(sizes) if devices.own_card(rank) not in ("", card)]
        if len(sizes) > 1 and strangers:
            found.append((node, card, sizes, strangers))
    if not found:
        return
    node, card, sizes, strangers = found[0]
    has = "has" if len(strangers) == 1 else "have"
    yield rules.DC723.found(
        f"{rank_names(sizes)} of node {node} load {loads[0].file or 'a checkpoint'} onto GPU {card},"
        f" {_size(max(sizes.values()))} each, because it was saved from there; {rank_names(strangers)} {has} another",
        where=where(place, [rank for _, _, _, others in found for rank in others]),
        fix=fix,
        evidence={
            "file": loads[0].file,
            "gpu": card,
            "node": node,
            "bytes_by_rank": {str(rank): sizes[rank] for rank in sorted(sizes)},
            "gpu_by_rank": {str(rank): devices.own_card(rank) for rank in sorted(sizes)},
        },
    )


def _size(number: int) -> str:
    return f"{number / _MEGABYTE:.0f} MB" if number >= _MEGABYTE else f"{number} bytes"
