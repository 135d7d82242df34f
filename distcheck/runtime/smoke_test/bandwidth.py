"""Measures the collectives of a live group: sizes, warm-up, iterations, and the formulas of nccl-tests.

All ranks run the same calls in the same number. A value that only one rank knows (its memory, its clock) is agreed on
first, by a reduction of a fixed shape. :mod:`.bandwidth_checks` judges the figures.
"""

from __future__ import annotations

import functools
import math
import platform
import statistics
import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from distcheck.checks.host.limits import Limits, read_limits
from distcheck.core.model import Unavailable, size_text
from distcheck.core.world import World

from .live_group import LiveGroup
from .model import Bandwidth, Measurements, Options, Step, Times

#: What can be measured. The sizes are nccl-tests' S: for gather-like collectives n times the buffer of one rank.
COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "send_recv",
)
#: Those whose S is made of n equal parts.
_IN_PARTS = frozenset({"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})
#: Those that give each rank a second buffer of S bytes; the others work in place, or with S / n more.
_TWO_BUFFERS = frozenset({"all_to_all", "send_recv"})
#: Rank that sends or receives where one rank is special.
_ROOT = 0

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
#: With one element most segments of gloo's ring are empty (torch 2.13): 1 KiB is the smallest useful size.
_SMALLEST_BYTES = KIB
#: Default largest sizes. 8 x H200 reach 96 % of their best at 1 GiB; gloo on loopback is at its best from 4 MiB on.
_LARGEST_BYTES = {"cuda": GIB, "cpu": 16 * MIB}
#: With more ranks than cores a collective waits for the scheduler: large sizes add seconds and no insight.
_LARGEST_CROWDED_BYTES = 4 * MIB

#: Seconds that the timed iterations of one size may take, by device, and their least number.
_SIZE_BUDGET_S = {"cuda": 1.0, "cpu": 0.3}
_LEAST_ITERATIONS = 5
#: Seconds for all sizes of one collective, where distcheck chooses the sizes. Larger ones are dropped and listed.
_SWEEP_BUDGET_S = {"cuda": 15.0, "cpu": 4.0}
#: Calls of a size before it is known how long one takes: the first sets up connections, the others are timed.
_PILOT_CALLS = 3
#: Slowest bandwidth, GB/s, that a watchdog takes for work rather than a hang: 2 Gbit/s between hosts, and 16 gloo
#: ranks on two cores.
_SLOWEST_GBYTES_PER_S = {"cuda": 0.25, "cpu": 0.05}
#: Seconds that one call of the smallest size may take on a crowded host.
_LONGEST_LATENCY_S = 0.1

#: Shares of the memory that is free: NCCL takes its own buffers from the same GPU (up to some GiB with many channels),
#: and a host has others to feed.
_SHARE_OF_GPU_MEMORY = 0.5
_SHARE_OF_HOST_MEMORY = 0.25

#: How backends report an operation or a dtype that they do not support.
_UNSUPPORTED = ("not support", "unsupported", "not implemented", "Invalid scalar type", "no backend type")


def bus_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth divided by algorithm bandwidth (nccl-tests 2.17, ``doc/PERFORMANCE.md`` and ``src/*.cu``).

    :raises ValueError: for an unknown collective, or less than one rank
    """
    if ranks < 1:
        raise ValueError(f"a group has at least one rank, not {ranks}")
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in _IN_PARTS:
        return (ranks - 1) / ranks
    if collective in ("broadcast", "reduce", "send_recv"):
        return 1.0
    raise ValueError(f"{collective!r} is none of {', '.join(COLLECTIVES)}")


def algbw(size_bytes: int, seconds: float) -> float:
    """Algorithm bandwidth in GB/s (1e9 bytes per second): nccl-tests' S divided by the time of one operation."""
    return size_bytes / seconds / 1e9


def busbw(collective: str, size_bytes: int, ranks: int, seconds: float) -> float | None:
    """Bus bandwidth in GB/s; None for one rank, where no data moves and a bandwidth has no meaning."""
    return None if ranks < 2 else algbw(size_bytes, seconds) * bus_factor(collective, ranks)


def collective_name(text: str) -> str:
    """The name of a collective as people write it: ``allreduce``, ``all-gather``, ``send/recv``.

    :raises ValueError: for anything else; the message lists the names
    """
    short = "".join(character for character in text.lower() if character.isalpha())
    for name in COLLECTIVES:
        if short == name.replace("_", ""):
            return name
    raise ValueError(f"{text!r} is none of {', '.join(COLLECTIVES)}, all")


def sizes(options: Options, device_type: str, *, crowded: bool = False) -> tuple[int, ...]:
    """The message sizes in bytes, smallest first: from ``-b``, times ``-f``, up to ``-e``, as nccl-tests counts.

    :param crowded: more ranks than cores share a host
    :raises ValueError: for a factor below 2 or a size below one byte
    """
    if options.factor < 2:
        raise ValueError(f"-f must be at least 2, not {options.factor}")
    largest = _LARGEST_BYTES.get(device_type, _LARGEST_BYTES["cpu"])
    if crowded and device_type != "cuda":
        largest = _LARGEST_CROWDED_BYTES
    low = options.min_bytes
    high = options.max_bytes
    for name, value in (("-b", low), ("-e", high)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least one byte, not {value}")
    if high is None:
        high = max(largest, low or 0)
    if low is None:
        low = min(_SMALLEST_BYTES, high)
    found = []
    while low <= high:
        found.append(low)
        low *= options.factor
    return tuple(found)


def chosen(options: Options, every_size: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """What is measured: each collective with its sizes.

    all_reduce by default; ``all`` adds the others at the smallest, the middle and the largest size; one that is named
    gets every size.

    :raises ValueError: for a name that is none
    """
    if not options.collectives:
        return (("all_reduce", every_size),)
    named = [collective_name(text) for text in options.collectives if text.lower() != "all"]
    everything = len(named) < len(options.collectives) or len(set(named)) == len(COLLECTIVES)
    plan = {} if len(set(named)) == len(COLLECTIVES) else dict.fromkeys(named, every_size)
    if everything:
        few = tuple(sorted({every_size[0], every_size[len(every_size) // 2], every_size[-1]})) if every_size else ()
        plan.setdefault("all_reduce", every_size)
        for name in COLLECTIVES:
            plan.setdefault(name, few)
    return tuple(plan.items())


def estimate_s(options: Options, size: int, device_type: str) -> float:
    """Seconds that the measurement may take before it counts as hanging; generous, for the watchdog.

    :param size: ranks of the group
    """
    kind = device_type if device_type in _SIZE_BUDGET_S else "cpu"
    slowest = _SLOWEST_GBYTES_PER_S[kind] * 1e9
    calls = _PILOT_CALLS + _LEAST_ITERATIONS + 1
    total = 0.0
    for _, chosen_sizes in chosen(options, sizes(options, kind)):
        total += len(chosen_sizes) * (2 * _SIZE_BUDGET_S[kind] + calls * _LONGEST_LATENCY_S)
        if options.max_bytes is None:
            # larger sizes are dropped once the budget of the sweep is used up; one call may still be under way
            total += 2 * _SWEEP_BUDGET_S[kind] + _PILOT_CALLS * max(chosen_sizes) / slowest
        else:
            total += calls * sum(chosen_sizes) / slowest
    return total + size * 1e-3


class _Method(NamedTuple):
    """How this group is measured: the same on all ranks."""

    dtype: Any
    element_bytes: int
    #: most bytes that the buffers of a rank may take together
    memory_bytes: float
    crowded: bool
    clock: str


def measure(live: LiveGroup, *, init_s: float | None = None, first_collective_s: float | None = None) -> Measurements:
    """Time the chosen collectives over the sizes, and return the same figures on all ranks.

    The time of an operation is the maximum over ranks; the median over the iterations counts. Data are zeros, so that
    sums in place stay zero. One call more than ``-w`` requests may run before the clock starts: the first of each
    size sets up connections.

    :param init_s: seconds that ``init_process_group`` took on this rank
    :param first_collective_s: seconds of this rank's first collective
    :raises ValueError: for options that can't be: see :func:`sizes` and :func:`chosen`
    """
    import torch

    begun = time.perf_counter()
    kind = "cuda" if live.device.type == "cuda" else "cpu"
    dtype = getattr(torch, live.options.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{live.options.dtype!r} is no dtype of torch")
    # a MIN over ranks; what must be the largest goes in with its sign turned
    agreed = _agree(
        live,
        [
            _memory_for_buffers(live),
            -float(live.ranks_here > live.cores and kind == "cpu"),
            -_or_minus_one(init_s),
            -_or_minus_one(first_collective_s),
        ],
    )
    way = _Method(dtype, torch.empty((), dtype=dtype).element_size(), agreed[0], agreed[1] < 0, "wall-clock")
    if kind == "cuda":
        way = way._replace(clock="cuda-events")
    every_size = sizes(live.options, kind, crowded=way.crowded)
    plan = chosen(live.options, every_size)
    skipped: list[tuple[str, str]] = []
    if way.crowded and live.options.max_bytes is None:
        skipped.append(
            (f"sizes above {size_text(every_size[-1])}", ("more ranks than cores share a host; -e sets larger sizes"))
        )
    if live.size < 2:
        skipped.append(("bandwidth", "with one rank no data moves: not applicable"))
    plan = _fit(plan, way, live.size, skipped)
    buffers = _Buffers(live, plan, way, skipped)
    found: list[Bandwidth] = []
    for collective, chosen_sizes in plan:
        found.extend(_sweep(live, way, buffers, collective, chosen_sizes, kind, skipped))
    del buffers
    if kind == "cuda":
        # inside of a job that goes on, the memory is the job's again
        torch.cuda.empty_cache()
    return Measurements(
        ranks=live.size,
        backend=live.backend,
        device=live.device.type,
        device_name=_device_name(live),
        hosts=len(set(live.hosts)),
        init_s=-agreed[2] if agreed[2] <= 0 else None,
        first_collective_s=-agreed[3] if agreed[3] <= 0 else None,
        bandwidth=tuple(found),
        skipped=tuple(skipped),
        clock=way.clock,
        elapsed_s=time.perf_counter() - begun,
    )


def _or_minus_one(seconds: float | None) -> float:
    return -1.0 if seconds is None else seconds


def _agree(live: LiveGroup, values: list[float]) -> list[float]:
    """Return the minimum over all ranks of each value: a reduction of a fixed shape, which all ranks must call."""
    import torch

    dist = live.operations.dist
    tensor = torch.tensor(values, dtype=torch.float64, device=live.device)
    dist.all_reduce(tensor, op=dist.ReduceOp.MIN, group=live.operations.group)
    return [float(value) for value in tensor.tolist()]


# memory


def _memory_for_buffers(live: LiveGroup) -> float:
    """Return the bytes that the buffers of this rank may take; infinite if unknown."""
    import torch

    found = math.inf
    if live.device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(live.device)
        # ranks that share a GPU share what is free on it; torch 2.4 does not name it, and its number may mean several
        name = getattr(torch.cuda.get_device_properties(live.device), "uuid", live.device.index)
        found = free * _SHARE_OF_GPU_MEMORY / _ranks_with(live, str(name))
    if live.device.type != "cuda" or live.backend != "nccl":
        # gloo moves tensors of a GPU through buffers of the same size on the host
        try:
            limits = read_limits(World())
        except Unavailable:
            limits = Limits()
        known = [limits.memory_available_bytes]
        if limits.memory_limit_bytes is not None and limits.memory_used_bytes is not None:
            known.append(max(0, limits.memory_limit_bytes - limits.memory_used_bytes))
        least = min((value for value in known if value is not None), default=math.inf)
        found = min(found, least * _SHARE_OF_HOST_MEMORY / live.ranks_here)
    return found


def _ranks_with(live: LiveGroup, device: str) -> int:
    """Return how many ranks of this host have the device of this name; all ranks must call it."""
    import torch

    own = (live.hosts[live.rank] << 32) + zlib.crc32(device.encode())
    everyone = torch.zeros(live.size, dtype=torch.int64, device=live.device)
    live.operations.all_gather(everyone, torch.tensor([own], dtype=torch.int64, device=live.device))
    return int((everyone == own).sum())


def _fit(
    plan: tuple[tuple[str, tuple[int, ...]], ...], way: _Method, ranks: int, skipped: list[tuple[str, str]]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Drop the sizes that do not fit into memory, and list them."""
    fitting = []
    for collective, chosen_sizes in plan:
        copies = 2 if collective in _TWO_BUFFERS else 1 + 1 / ranks if collective in _IN_PARTS else 1
        most = way.memory_bytes / copies
        small = tuple(size for size in chosen_sizes if size <= most)
        if len(small) < len(chosen_sizes):
            first = chosen_sizes[len(small)]
            skipped.append(
                (
                    f"{collective} from {size_text(first)} on",
                    f"the rank with the least free memory can spare {size_text(int(way.memory_bytes))}",
                )
            )
        fitting.append((collective, small))
    return tuple(fitting)


class _Buffers:
    """Two flat tensors of zeros that all collectives use, as large as the largest size needs.

    Where one rank can't have them (memory is in pieces, others took it), all ranks take smaller ones.
    """

    def __init__(
        self,
        live: LiveGroup,
        plan: tuple[tuple[str, tuple[int, ...]], ...],
        way: _Method,
        skipped: list[tuple[str, str]],
    ) -> None:
        import torch

        largest = max((size for _, chosen_sizes in plan for size in chosen_sizes), default=0)
        second = any(collective in _TWO_BUFFERS | _IN_PARTS for collective, _ in plan)
        wanted = largest
        #: sizes up to this many bytes have room
        self.most_bytes = 0
        self.outgoing: Any = None
        self.incoming: Any = None
        while largest:
            # a size is rounded up to a whole element for each rank
            elements = max(math.ceil(largest / way.element_bytes), live.size)
            try:
                self.outgoing = torch.zeros(elements, dtype=way.dtype, device=live.device)
                self.incoming = torch.zeros(elements if second else 0, dtype=way.dtype, device=live.device)
                had = 1.0
            except RuntimeError as error:  # torch's OutOfMemoryError is one, and so is that of the CPU's allocator
                if "memory" not in str(error):
                    raise
                self.outgoing = self.incoming = None
                had = 0.0
            if _agree(live, [had])[0]:
                self.most_bytes = largest
                break
            self.outgoing = self.incoming = None
            largest //= 2
        if self.most_bytes < wanted:
            why = "the memory that is free could not be had in one piece on every rank"
            skipped.append((f"sizes above {size_text(self.most_bytes)}", why))


# measuring


class _Pilot(NamedTuple):
    """What all ranks agreed on after the first calls of a size."""

    seconds: float
    #: since the sweep of this collective began, on the rank that took longest
    spent_s: float
    unsupported: bool


def _sweep(
    live: LiveGroup,
    way: _Method,
    buffers: _Buffers,
    collective: str,
    chosen_sizes: tuple[int, ...],
    kind: str,
    skipped: list[tuple[str, str]],
) -> list[Bandwidth]:
    """One collective over its sizes."""
    options = live.options
    if collective == "send_recv" and live.size < 2:
        skipped.append((collective, "it needs two ranks"))
        return []
    found: list[Bandwidth] = []
    begun = time.perf_counter()
    previous: tuple[int, float, float] | None = None

    def too_long(size_bytes: int, expected_s: float, spent_s: float) -> bool:
        """Drop a size that does not fit into the budget, where distcheck chooses the sizes, and list it."""
        if options.max_bytes is not None or spent_s + expected_s <= _SWEEP_BUDGET_S[kind]:
            return False
        wish = f"-e {_argument(chosen_sizes[-1])} measures it"
        skipped.append((f"{collective} from {size_text(size_bytes)} on", f"it takes about {expected_s:.0f} s; {wish}"))
        return True

    for wanted in chosen_sizes:
        if wanted > buffers.most_bytes:
            break
        size_bytes = _whole_elements(collective, wanted, live.size, way.element_bytes)
        if found and found[-1].size_bytes == size_bytes:
            continue
        if previous is not None:
            size_before, median_s, spent_s = previous
            if too_long(size_bytes, median_s * size_bytes / size_before * _PILOT_CALLS, spent_s):
                break
        live.announce(Step("measure", collective, options.dtype, size_bytes))
        call = _call(live, way, buffers, collective, size_bytes)
        pilot, why = _pilot(live, call, begun)
        if pilot.unsupported:
            skipped.append((f"{collective} {options.dtype}", why or "a rank's backend does not support it"))
            break
        # zero would mean that the clock did not move
        each = max(pilot.seconds, 1e-7)
        if previous is not None and too_long(size_bytes, each * _LEAST_ITERATIONS, pilot.spent_s):
            break
        affordable = int(_SIZE_BUDGET_S[kind] / each)
        iterations = max(1, min(options.iterations, max(affordable, _LEAST_ITERATIONS)))
        for _ in range(min(options.warmup - _PILOT_CALLS, affordable)):
            call()
        live.synchronize()
        own = _time_on_gpu(live, call, iterations) if kind == "cuda" else _time_on_host(call, iterations)
        slowest, fastest = _over_ranks(live, own)
        found.append(_bandwidth(collective, options.dtype, size_bytes, live.size, slowest, fastest))
        previous = (size_bytes, found[-1].time.median_s, pilot.spent_s + sum(slowest))
    fewer = [item for item in found if item.iterations < options.iterations]
    if fewer:
        least = min(item.iterations for item in fewer)
        why = f"as few as {least} of {options.iterations}: a size has {_SIZE_BUDGET_S[kind]:g} s"
        skipped.append((f"iterations of {collective} from {size_text(fewer[0].size_bytes)} on", why))
    return found


def _pilot(live: LiveGroup, call: Callable[[], None], begun: float) -> tuple[_Pilot, str]:
    """The first calls of a size: set up what it needs, and agree on how long one takes."""
    why = ""
    seconds = 0.0
    try:
        call()
        live.synchronize()
    except (RuntimeError, ValueError, NotImplementedError) as error:
        why = str(error).strip().partition("\n")[0]
        if not any(word.lower() in why.lower() for word in _UNSUPPORTED):
            raise
    else:
        seconds = math.inf
        for _ in range(_PILOT_CALLS - 1):
            first = time.perf_counter()
            call()
            live.synchronize()
            seconds = min(seconds, time.perf_counter() - first)
    agreed = _agree(live, [-seconds, -(time.perf_counter() - begun), -float(bool(why))])
    return _Pilot(-agreed[0], -agreed[1], agreed[2] < 0), why


def _time_on_host(call: Callable[[], None], iterations: int) -> list[float]:
    """Seconds of each call, by the host's clock: the call returns when it is done."""
    clock = time.perf_counter
    times = [0.0] * iterations
    for index in range(iterations):
        begin = clock()
        call()
        times[index] = clock() - begin
    return times


def _time_on_gpu(live: LiveGroup, call: Callable[[], None], iterations: int) -> list[float]:
    """Seconds of each call between two events of the current stream, which waits for the collective's own stream."""
    import torch

    with torch.cuda.device(live.device):
        begins = [torch.cuda.Event(enable_timing=True) for _ in range(iterations)]
        ends = [torch.cuda.Event(enable_timing=True) for _ in range(iterations)]
        for begin, end in zip(begins, ends, strict=True):
            begin.record()
            call()
            end.record()
        live.synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in zip(begins, ends, strict=True)]


def _over_ranks(live: LiveGroup, own: list[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Of each iteration the slowest and the fastest rank's time, the same on all ranks."""
    agreed = _agree(live, [*(-seconds for seconds in own), *own])
    return tuple(-seconds for seconds in agreed[: len(own)]), tuple(agreed[len(own) :])


def _bandwidth(
    collective: str, dtype: str, size_bytes: int, ranks: int, slowest: tuple[float, ...], fastest: tuple[float, ...]
) -> Bandwidth:
    """The figures of one size from the times of its iterations."""
    median_s = statistics.median(slowest)
    middle = slowest.index(statistics.median_low(slowest))
    return Bandwidth(
        collective,
        dtype,
        size_bytes,
        ranks,
        Times(median_s, min(slowest), max(slowest), fastest[middle]),
        algbw(size_bytes, median_s) if ranks > 1 and median_s > 0 else None,
        busbw(collective, size_bytes, ranks, median_s) if median_s > 0 else None,
        slowest,
        len(slowest),
    )


def _whole_elements(collective: str, size_bytes: int, ranks: int, element_bytes: int) -> int:
    """The size that is really sent: whole elements, and as many for each rank; at least one."""
    unit = element_bytes * ranks if collective in _IN_PARTS else element_bytes
    return max(1, size_bytes // unit) * unit


def _call(live: LiveGroup, way: _Method, buffers: _Buffers, collective: str, size_bytes: int) -> Callable[[], None]:
    """The collective as a call without arguments, so that nothing but it runs on the clock."""
    operations = live.operations
    elements = size_bytes // way.element_bytes
    part = elements // live.size
    outgoing, incoming = buffers.outgoing, buffers.incoming
    if collective == "all_reduce":
        return functools.partial(operations.all_reduce, outgoing[:elements])
    if collective == "broadcast":
        return functools.partial(operations.broadcast, outgoing[:elements], _ROOT)
    if collective == "reduce":
        return functools.partial(operations.reduce, outgoing[:elements], _ROOT)
    if collective == "all_gather":
        return functools.partial(operations.all_gather, incoming[:elements], outgoing[:part])
    if collective == "reduce_scatter":
        return functools.partial(operations.reduce_scatter, incoming[:part], outgoing[:elements])
    if collective == "all_to_all":
        return functools.partial(operations.all_to_all, incoming[:elements], outgoing[:elements])
    if collective == "gather":
        outputs = list(incoming[:elements].split(part)) if live.rank == _ROOT else None
        return functools.partial(operations.gather, outputs, outgoing[:part], _ROOT)
    if collective == "scatter":
        inputs = list(outgoing[:elements].split(part)) if live.rank == _ROOT else None
        return functools.partial(operations.scatter, incoming[:part], inputs, _ROOT)
    # each rank sends to the next and receives from the one before, as nccl-tests' sendrecv does
    return functools.partial(
        operations.exchange,
        outgoing[:elements],
        incoming[:elements],
        (live.rank + 1) % live.size,
        (live.rank - 1) % live.size,
    )


def _argument(size_bytes: int) -> str:
    """A size as ``-e`` takes it: ``1G``, ``16M``, ``1000``."""
    for unit, value in (("G", GIB), ("M", MIB), ("K", KIB)):
        if size_bytes % value == 0:
            return f"{size_bytes // value}{unit}"
    return str(size_bytes)


def _device_name(live: LiveGroup) -> str:
    """Return the name of the GPU, or of the processor; "" if unknown."""
    if live.device.type == "cuda":
        import torch

        return str(torch.cuda.get_device_name(live.device))
    try:
        lines = World().read_text("/proc/cpuinfo").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
