"""The cases of the correctness check: which collective, in which dtype and size, from which rank.

All ranks make the same cases, from values that all of them know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .inputs import ITEM_BYTES, mix
from .model import Step

DTYPES = ("float32", "float16", "bfloat16", "int64", "float64", "uint8")
SUMS = ("all_reduce", "reduce", "reduce_scatter")
#: An all_reduce that is no sum, with torch's name of it and the dtypes in which it is tried. bool is no number: it has
#: the two of them that mean *all* and *any*.
REDUCTIONS = {
    "all_reduce_min": ("MIN", ("float32", "int64", "bool")),
    "all_reduce_max": ("MAX", ("float32", "int64", "bool")),
    "all_reduce_product": ("PRODUCT", ("float32", "int64")),
    "all_reduce_avg": ("AVG", ("float32",)),
    "all_reduce_premul_sum": ("PREMUL_SUM", ("float32",)),
}
COPIES = ("broadcast", "all_gather", "all_to_all", "gather", "scatter")
OBJECTS = ("all_gather_object", "broadcast_object", "gather_object", "scatter_object")
COLLECTIVES = (*SUMS, *REDUCTIONS, *COPIES, "send_recv", "barrier", *OBJECTS)
#: By backend: what it has and is not verified, and why.
NOT_VERIFIED = {"nccl": (("float8", "distcheck does not verify it yet"),)}

#: Elements that are no multiple of anything: a prime, so that no chunk or vector ends where the buffer does.
ODD_ELEMENTS = 1021
#: The largest size on processors: beyond any small-message path; gloo cuts rings into 2 n chunks at any size.
LARGE_BYTES_CPU = 1 << 20
#: Where ranks share cores a large message costs more than it proves.
LARGE_BYTES_CROWDED = 1 << 18
#: gloo (``AllreduceOptions::kMaxSegmentSize``) sends at most 1 MiB at once: beyond 2 n MiB each chunk has several.
GLOO_SEGMENT_BYTES = 1 << 20
#: More ranks than this would need a message of more than 8 MiB for it.
SEGMENTS_UP_TO_RANKS = 3
#: NCCL: its LL protocol carries the smallest sizes, LL128 those around 1 MiB, Simple the large ones.
MIDDLE_BYTES_CUDA = 1 << 20
LARGE_BYTES_CUDA = 1 << 26

#: How late one rank comes to the barrier, in seconds; more where a collective takes long by itself.
LATE_S = 0.02
LATE_CROWDED_S = 0.1


class Case(NamedTuple):
    """One collective to be tried: the same on all ranks."""

    collective: str
    dtype: str = "float32"
    #: of the tensor; of one rank's part for gather-like collectives
    elements: int = 0
    #: nccl-tests' S
    size_bytes: int = 0
    #: source or target, or the rank that comes late to the barrier
    root: int = 0
    #: the repetition, and the number that all inputs of this trial come from
    seed: int = 0
    stream: int = 0
    #: for send_recv: ``exchange``, ``right``, ``left``
    way: str = ""
    late_s: float = 0.0

    @property
    def step(self) -> Step:
        """What is announced before it begins."""
        return Step("verify", self.collective, self.dtype, self.size_bytes)


class CasePlan(NamedTuple):
    """What will be tried: first what always is, then what is only where it costs little."""

    essential: tuple[Case, ...]
    additional: tuple[Case, ...]


def make_plan(
    size: int,
    *,
    backend: str = "gloo",
    device: str = "cpu",
    crowded: bool = False,
    objects: bool = True,
    without: Sequence[str] = (),
    repetition: int = 0,
) -> CasePlan:
    """The trials of one repetition: equal on all ranks that are given equal arguments.

    :param size: ranks of the group
    :param device: ``cpu`` or ``cuda``
    :param crowded: more ranks than cores on a host
    :param objects: try the object collectives as well
    :param without: reductions that the backend does not have
    """
    sends = size > 1 and not (backend == "gloo" and device == "cuda")
    large = LARGE_BYTES_CUDA if device == "cuda" else LARGE_BYTES_CROWDED if crowded else LARGE_BYTES_CPU
    late_s = LATE_CROWDED_S if crowded else LATE_S
    roots = (0, size - 1, size // 2)
    essential: list[Case] = []
    additional: list[Case] = []

    def add(to: list[Case], collective: str, dtype: str, bytes_wanted: int, turn: int, way: str = "") -> None:
        elements, size_bytes = _sized(collective, dtype, bytes_wanted, size, large)
        trial = Case(collective, dtype, elements, size_bytes, (roots[turn] + repetition) % size, repetition, 0, way)
        if not any(_same(trial, other) for other in (*essential, *additional)):
            to.append(trial)

    odd = {dtype: ODD_ELEMENTS * ITEM_BYTES[dtype] for dtype in DTYPES}
    for collective in (*SUMS, *COPIES):
        add(essential, collective, "float32", odd["float32"], 1)
        add(essential, collective, "float32", large, 2)
    for dtype in DTYPES[1:]:
        for collective in SUMS:
            add(essential, collective, dtype, odd[dtype], 0)
    for collective, (_, dtypes) in REDUCTIONS.items():
        for dtype in dtypes if collective not in without else ():
            add(essential, collective, dtype, ODD_ELEMENTS * ITEM_BYTES[dtype], 0)
    if sends:
        add(essential, "send_recv", "float32", odd["float32"], 0, "exchange")
        add(essential, "send_recv", "float32", odd["float32"], 0, "right")
    if size > 1:
        essential.append(Case("barrier", "", root=repetition % size, seed=repetition, late_s=late_s))
    for turn, collective in enumerate(OBJECTS if objects else ()):
        essential.append(Case(collective, "object", root=(roots[turn % 3] + repetition) % size, seed=repetition))

    for collective in (*SUMS, *COPIES):
        add(additional, collective, "float32", ITEM_BYTES["float32"], 0)
        if device == "cuda":
            add(additional, collective, "float32", MIDDLE_BYTES_CUDA, 0)
    for dtype in DTYPES[1:]:
        for collective in COPIES:
            add(additional, collective, dtype, odd[dtype], 2)
        if sends:
            add(additional, "send_recv", dtype, odd[dtype], 0, "exchange")
    if device == "cuda":
        for dtype in DTYPES[1:]:
            for collective in SUMS:
                add(additional, collective, dtype, MIDDLE_BYTES_CUDA, 1)
    elif backend == "gloo" and size <= SEGMENTS_UP_TO_RANKS:
        for collective in ("all_reduce", "reduce"):
            add(additional, collective, "float32", (2 * size + 1) * GLOO_SEGMENT_BYTES, 1)
    if sends:
        add(additional, "send_recv", "float32", ITEM_BYTES["float32"], 0, "exchange")
        add(additional, "send_recv", "float32", large, 0, "exchange")
        add(additional, "send_recv", "float32", large, 0, "left")
    if size > 1:
        additional.append(Case("barrier", "", root=(size - 1 + repetition) % size, seed=repetition, late_s=late_s))
    numbered = [
        trial._replace(stream=mix(repetition, number)) for number, trial in enumerate((*essential, *additional))
    ]
    return CasePlan(tuple(numbered[: len(essential)]), tuple(numbered[len(essential) :]))


def _sized(collective: str, dtype: str, bytes_wanted: int, size: int, large: int) -> tuple[int, int]:
    """Elements (of one rank's part where parts are gathered) and nccl-tests' S, near the bytes that are wanted.

    Numbers of elements are odd, so that they are no multiple of anything that a device copies at once.
    """
    item = ITEM_BYTES[dtype]
    elements = max(1, bytes_wanted // item)
    if elements > ODD_ELEMENTS:
        elements += 3
    if collective not in ("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter"):
        elements |= 1
        return elements, elements * item
    # S is the whole: up to the odd size each rank has so much, beyond it all have so much together
    whole = elements if elements > ODD_ELEMENTS else min(elements * size, large // item)
    part = max(1, whole // size)
    part = part if part % 2 or part < 2 else part - 1
    return part, part * size * item


def _same(one: Case, other: Case) -> bool:
    return (one.collective, one.dtype, one.elements, one.way) == (
        other.collective, other.dtype, other.elements, other.way,
    )  # fmt: skip


def distances(size: int) -> tuple[int, ...]:
    """How far along the ring each exchange goes: to the next rank, to the one before, and half way round."""
    return tuple(dict.fromkeys(step % size for step in (1, -1, size // 2) if step % size))
