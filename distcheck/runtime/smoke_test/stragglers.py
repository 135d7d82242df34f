"""Measures which rank arrives late, which computes slowly, and the exchange of each pair of ranks.

In a ring all ranks seem equal: each waits for the slowest. So lateness is measured as the time that the others wait for
a rank in a collective, computing by the same work on each rank, and links by disjoint pairs that exchange at the same
time. Every decision about the next step uses numbers that all ranks share, so that no rank is alone in a collective.
:mod:`.straggler_checks` judges the figures.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from distcheck.core.model import grouped

from .live_group import LiveGroup
from .model import Lateness, Pair, Pairs, Step
from .straggler_checks import (
    ALONE,
    FEWEST_RANKS,
    PHASE,
    compare,
    late_ranks,
    pair_factor,
    slack,
    slow_computers,
    slow_pairs,
)

#: Repetitions that are thrown away, since libraries load and connections are made in them.
WARM_UP = 2
#: Repetitions of the arrival, an odd number so that the median is one of them.
REPETITIONS = 7
#: Rows of the square matrices: 2.5 ms on one core at 45 GFLOP/s, and eight products 1.5 ms on an H100 at 700 TFLOP/s.
_ROWS_CPU, _PRODUCTS_CPU = 384, 1
_ROWS_CUDA, _PRODUCTS_CUDA = 4096, 8
#: Elements of the all_reduce in which ranks wait for each other, float32; at least one for each rank, since empty
#: parts of a ring need not be waited for.
_TOKEN_ELEMENTS = 256
#: Up to this many ranks every pair is measured (CHS finds its heat map useful up to 32 nodes).
COMPLETE_RANKS = 32
#: Inside of a host all rounds run at once on all hosts, so that a complete tournament of so many ranks costs little.
COMPLETE_INSIDE = 16
#: Above this many ranks, pairs are measured only on request: the records of all pairs would fill a report.
AUTOMATIC_RANKS = 1024
#: Messages of a pair: latency and bandwidth. Over sockets 2 MiB distinguish 1 Gbit/s (17 ms) from 10 Gbit/s whatever a
#: scheduler adds; NCCL's links are past their latency at 64 MiB.
LATENCY_BYTES = 1024
BANDWIDTH_BYTES_CPU = 2 << 20
BANDWIDTH_BYTES_CUDA = 64 << 20
_PAIR_REPETITIONS = 8
#: A message that takes longer than this many seconds is sent once only after the first time.
_LONG_S = 0.1
#: Slow pairs that are measured again, the slowest first; more of them are no outliers.
MOST_OUTLIERS = 256
#: Extra rounds for slow pairs: again, again for those that did not fit, with good partners.
RETEST_ROUNDS = 3
#: No round begins when the pairs have taken this many seconds; what was not measured by then is dropped.
BUDGET_S = 20.0
#: Seconds of a slow round: 2 MiB twice at 20 Mbit/s, or eight times 64 MiB twice at 5 Gbit/s.
ROUND_S = 2.0

Round = tuple[tuple[int, int], ...]


def find_late(live: LiveGroup) -> Lateness:
    """Lateness and own time of each rank, at least ``REPETITIONS`` times; the same on every rank.

    In each repetition all ranks do the same matrix products, timed alone, and then call all_reduce. The rank that comes
    last waits least: lateness is the longest wait of any rank less one's own, which needs no common clock. Where the
    figures of some rank stand out, a second series is measured and the better of both counts: what happened once is no
    verdict. What a rank does inside the collective itself cannot be distinguished from waiting for the others.
    """
    if live.size == 1:
        return Lateness(not_applicable=ALONE)
    product = _product(live)
    crowded, short = _agree(live, crowded=live.ranks_here > live.cores, short=product is None)
    if crowded or short or product is None:
        return Lateness(not_applicable=short or crowded)
    with _OneThread(live):
        late, own = _series(live, product)
        stands_out = late_ranks(late) or slow_computers(own, cuda=live.device.type == "cuda")
        if not _any(live, bool(stands_out)):
            return Lateness(tuple(late), tuple(own), REPETITIONS)
        again_late, again_own = _series(live, product)
    return Lateness(tuple(map(min, late, again_late)), tuple(map(min, own, again_own)), 2 * REPETITIONS)


def find_pairs(live: LiveGroup) -> Pairs:
    """What each pair of ranks exchanges while all other pairs of the round do; the same on every rank.

    Costs as many rounds as :func:`rounds_of` gives (n - 1 up to 32 ranks, O(log n) above), each of a few exchanges, and
    up to three more for slow pairs. No round begins after ``BUDGET_S`` seconds.
    """
    begun = time.perf_counter()
    wanted = live.options.pairs
    if live.size == 1:
        return Pairs(not_applicable=ALONE)
    if wanted is False:
        return Pairs(not_applicable="pairs are disabled by --no-pairs")
    if wanted is None and live.size > AUTOMATIC_RANKS:
        return Pairs(not_applicable=f"above {AUTOMATIC_RANKS} ranks pairs are measured only with --pairs")
    buffers = _buffers(live)
    crowded, short = _agree(live, crowded=live.ranks_here > live.cores, short=buffers is None)
    if short or buffers is None or (crowded and not wanted):
        return Pairs(not_applicable=short or crowded)
    size_bytes = buffers[-1][0].numel()
    rounds = rounds_of(live.size, live.hosts)
    found, done = _play(live, buffers, rounds, begun, BUDGET_S, first=0)
    again: Sequence[Round] = ()
    if live.size >= FEWEST_RANKS:
        again = retests_of(found, live.hosts, live.backend, size_bytes)
        if not _equal(live, again):  # a group that gives ranks different numbers: no round could be agreed on
            again = ()
    more, repeated = _play(live, buffers, again, begun, BUDGET_S + ROUND_S * RETEST_ROUNDS, first=done)
    return Pairs(
        pairs=(*found, *(pair._replace(retest=True) for pair in more)),
        size_bytes=size_bytes,
        rounds=done + repeated,
        complete=done == len(rounds) and live.size <= COMPLETE_RANKS,
        not_applicable=crowded,
        elapsed_s=time.perf_counter() - begun,
    )


def estimate_pairs_s(size: int) -> float:
    """Seconds that the pairs of ``size`` ranks may take on slow links; for deadlines, not for schedules."""
    if size < 2:
        return 0.0
    rounds = size if size <= COMPLETE_RANKS else COMPLETE_INSIDE + 2 * math.ceil(math.log2(size))
    return min(rounds * ROUND_S, BUDGET_S + ROUND_S) + RETEST_ROUNDS * ROUND_S


# which ranks form pairs


def rounds_of(size: int, hosts: Sequence[int]) -> tuple[Round, ...]:
    """Rounds of disjoint pairs (a < b): first ranks of one host among themselves, then hosts with hosts.

    In a round between hosts all ranks of a host have the same other host as partner, so that links are shared alike in
    every round. Up to ``COMPLETE_RANKS`` ranks every pair occurs once, by the circle method; with hosts of equal size
    that takes n - 1 rounds, or n where one rank has to rest. Above, each rank has O(log n) partners.

    :param hosts: the host of each rank
    """
    members = grouped(range(size), lambda rank: hosts[rank])
    groups = list(members.values())
    complete = size <= COMPLETE_RANKS
    rounds: list[Round] = []
    met: set[tuple[int, int]] = set()
    for pairs in (*_inside(groups, complete=complete), *_between(groups, complete=complete)):
        # hosts of different sizes, paired with several shifts, would repeat some pairs
        new = tuple(sorted(pair for pair in pairs if pair not in met))
        met.update(new)
        if new:
            rounds.append(new)
    return tuple(rounds)


def _inside(groups: Sequence[Sequence[int]], *, complete: bool) -> Iterator[list[tuple[int, int]]]:
    plans = [_chosen(_circle_rounds(len(group)), whole=complete or len(group) <= COMPLETE_INSIDE) for group in groups]
    for place in range(max(map(len, plans), default=0)):
        yield [
            _ordered(group[i], group[j])
            for group, plan in zip(groups, plans, strict=True)
            if place < len(plan)
            for i, j in _circle(len(group), plan[place])
        ]


def _between(groups: Sequence[Sequence[int]], *, complete: bool) -> Iterator[list[tuple[int, int]]]:
    """Pair hosts by the circle method, then rank i of the smaller one with rank i + shift of the larger one."""
    rounds = _chosen(_circle_rounds(len(groups)), whole=complete)
    if not rounds:
        return
    largest = max(map(len, groups))
    # with few hosts, several shifts give each rank several partners
    turns = largest if complete else min(largest, max(1, math.ceil(FEW_ROUNDS / len(rounds))))
    for turn in range(turns):
        for place, number in enumerate(rounds):
            pairs = []
            for i, j in _circle(len(groups), number):
                few, many = sorted((groups[i], groups[j]), key=len)
                shift = turn if complete else place + turn * len(many) // turns
                if complete and shift >= len(many):
                    continue
                pairs += [_ordered(rank, many[(at + shift) % len(many)]) for at, rank in enumerate(few)]
            yield pairs


#: So many rounds, or all of them, each rank has at least of either kind.
FEW_ROUNDS = 5


def _chosen(rounds: int, *, whole: bool) -> list[int]:
    """All rounds, or O(log) of them, evenly spaced."""
    count = rounds if whole or rounds <= FEW_ROUNDS else min(rounds, max(FEW_ROUNDS, math.ceil(math.log2(rounds + 1))))
    return [place * rounds // count for place in range(count)]


def _circle_rounds(players: int) -> int:
    """Return rounds in which every two members form a pair once; with an odd number one rests in each."""
    return 0 if players < 2 else players - 1 + players % 2


def _circle(players: int, number: int) -> Iterator[tuple[int, int]]:
    """One round of the circle method: one player stands, the others move on by one each round."""
    even = players + players % 2
    others = even - 1
    for step in range(even // 2):
        i, j = (others, number) if step == 0 else ((number + step) % others, (number - step) % others)
        if i < players and j < players:
            yield i, j


def _ordered(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def retests_of(pairs: Iterable[Pair], hosts: Sequence[int], backend: str, size_bytes: int) -> tuple[Round, ...]:
    """Up to three more rounds: slow pairs once more, the slowest first, and their ranks with partners that are well.

    A pure function of what was measured, so that every rank comes to the same rounds.
    """
    groups = compare(pairs, hosts, slack(backend, size_bytes))
    outliers = [(pair.a, pair.b) for pair in slow_pairs(groups, pair_factor(backend))]
    if not outliers:
        return ()
    worst = outliers[:MOST_OUTLIERS]
    again, left = _disjoint(worst)
    rounds = [again, _disjoint(left)[0]]
    slow: dict[int, int] = {}
    for a, b in outliers:
        slow[a] = slow.get(a, 0) + 1
        slow[b] = slow.get(b, 0) + 1
    met: dict[int, int] = {}
    for group in groups:
        for rank, values in group.of_rank.items():
            met[rank] = met.get(rank, 0) + len(values)
    # who is slow with less than half of its partners is well
    well = [rank for rank in range(len(hosts)) if 2 * slow.get(rank, 0) < met.get(rank, 1)]
    rounds.append(_with_the_well(worst, well, hosts))
    return tuple(tuple(sorted(chosen)) for chosen in rounds if chosen)


def _disjoint(pairs: Iterable[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return pairs that can be measured at the same time, first come first served, and those that can't."""
    busy: set[int] = set()
    chosen, left = [], []
    for a, b in pairs:
        if a in busy or b in busy:
            left.append((a, b))
        else:
            busy.update((a, b))
            chosen.append((a, b))
    return chosen, left


def _with_the_well(
    outliers: Sequence[tuple[int, int]], well: Sequence[int], hosts: Sequence[int]
) -> list[tuple[int, int]]:
    """Pair each slow rank with a healthy partner: on its own host if the slow pair was, else on another host."""
    partners: dict[int, set[int]] = {}
    for a, b in outliers:
        partners.setdefault(a, set()).add(b)
        partners.setdefault(b, set()).add(a)
    busy: set[int] = set()
    chosen = []
    at_home = grouped(well, lambda rank: hosts[rank])
    for a, b in outliers:
        for rank in (a, b):
            if rank in busy:
                continue
            candidates = at_home.get(hosts[rank], []) if hosts[a] == hosts[b] else well
            for partner in candidates:
                fits = (hosts[partner] == hosts[rank]) == (hosts[a] == hosts[b])
                if partner != rank and partner not in busy and fits and partner not in partners[rank]:
                    busy.update((rank, partner))
                    chosen.append(_ordered(rank, partner))
                    break
    return chosen


# on the live group


class _OneThread:
    """The matrix product on one core, whatever the job's own setting is; that is put back afterwards."""

    def __init__(self, live: LiveGroup) -> None:
        self.on_processor = live.device.type == "cpu"
        self.threads = 0

    def __enter__(self) -> None:
        if self.on_processor:
            import torch

            self.threads = torch.get_num_threads()
            torch.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        if self.on_processor:
            import torch

            torch.set_num_threads(self.threads)


def _product(live: LiveGroup) -> Callable[[], None] | None:
    """The work that every rank does alike; None where there is no memory for it."""
    import torch

    cuda = live.device.type == "cuda"
    rows, products = (_ROWS_CUDA, _PRODUCTS_CUDA) if cuda else (_ROWS_CPU, _PRODUCTS_CPU)
    dtype = torch.float16 if cuda else torch.float32
    # a generator of its own: the job's random numbers stay what they are. Equal on all ranks, since the power that a
    # GPU draws, and with it the clock, depends on the numbers
    generator = torch.Generator(live.device).manual_seed(0)
    try:
        left, right = (torch.rand(rows, rows, device=live.device, generator=generator).to(dtype) for _ in range(2))
        result = torch.empty(rows, rows, device=live.device, dtype=dtype)
    except RuntimeError:  # torch.OutOfMemoryError is one; all ranks hear of it in _agree
        return None

    def work() -> None:
        for _ in range(products):
            torch.mm(left, right, out=result)

    return work


def _series(live: LiveGroup, product: Callable[[], None]) -> tuple[list[float], list[float]]:
    """Lateness and own time in seconds by rank, medians of one series."""
    import torch

    token = torch.zeros(max(_TOKEN_ELEMENTS, live.size), dtype=torch.float32, device=live.device)
    work = Step(PHASE, "matrix product", str(live.device.type))
    arrive = Step(PHASE, "all_reduce", "float32", token.numel() * 4)
    waits, owns = [], []
    for _ in range(WARM_UP + REPETITIONS):
        live.announce(work)
        live.synchronize()
        begun = time.perf_counter()
        product()
        live.synchronize()
        owns.append(time.perf_counter() - begun)
        live.announce(arrive)
        begun = time.perf_counter()
        live.operations.all_reduce(token)
        live.synchronize()
        waits.append(time.perf_counter() - begun)
    rows = _gather(live, [*waits[WARM_UP:], *owns[WARM_UP:]])
    wait, own = rows[:, :REPETITIONS], rows[:, REPETITIONS:]
    late = wait.max(dim=0).values - wait
    return late.median(dim=1).values.tolist(), own.median(dim=1).values.tolist()


def _buffers(live: LiveGroup) -> list[tuple[Any, Any]] | None:
    """What goes out and what comes in, small and large; None where there is no memory for it."""
    import torch

    cuda = live.device.type == "cuda"
    large = BANDWIDTH_BYTES_CUDA if cuda else BANDWIDTH_BYTES_CPU
    if live.options.max_bytes is not None:
        large = max(LATENCY_BYTES, min(large, live.options.max_bytes))
    try:
        return [
            (
                torch.ones(size, dtype=torch.uint8, device=live.device),
                torch.zeros(size, dtype=torch.uint8, device=live.device),
            )
            for size in (LATENCY_BYTES, large)
        ]
    except RuntimeError:  # torch.OutOfMemoryError is one; all ranks hear of it in _agree
        return None


def _play(
    live: LiveGroup,
    buffers: list[tuple[Any, Any]],
    rounds: Sequence[Round],
    begun: float,
    until_s: float,
    *,
    first: int,
) -> tuple[list[Pair], int]:
    """Play rounds one after another; return the pairs that were measured, and how many rounds there was time for.

    :param first: number of the first round
    """
    if not rounds:
        return [], 0
    taken: list[float] = []
    played = 0
    for pairs_of_round in rounds:
        # all pairs begin together; rank 0's clock alone decides whether this round is still to be
        if _sum(live, [time.perf_counter() - begun if live.rank == 0 else 0.0])[0] > until_s:
            break
        peer = next((b if a == live.rank else a for a, b in pairs_of_round if live.rank in (a, b)), None)
        taken += _meet(live, buffers, peer)
        played += 1
    if not played:
        return [], 0
    seconds = _gather(live, taken).tolist()
    large_bytes = buffers[-1][0].numel()
    pairs = []
    for number, pairs_of_round in enumerate(rounds[:played]):
        for a, b in pairs_of_round:
            # both ends measured it, and the slower one has waited for all of it
            latency, bandwidth = (max(seconds[a][2 * number + i], seconds[b][2 * number + i]) for i in range(2))
            pairs.append(Pair(a, b, first + number, large_bytes / bandwidth / 1e9, latency))
    return pairs, played


def _meet(live: LiveGroup, buffers: list[tuple[Any, Any]], peer: int | None) -> list[float]:
    """Seconds of an exchange with this round's peer, small and large; who rests announces as many steps.

    The least of the repetitions: what a scheduler does to a message (4 ms a time on a busy core, longer than 1 MiB
    takes) is no property of the link, and a link that is slow is slow every time.
    """
    least = []
    for outgoing, incoming in buffers:
        size_bytes = outgoing.numel()
        if peer is None:
            live.announce(Step(PHASE, "rest", "", size_bytes))
            least.append(0.0)
            continue
        live.announce(Step(PHASE, f"exchange with rank {peer}", "uint8", size_bytes))
        taken = _exchange_s(live, outgoing, incoming, peer)  # the first one makes the connection
        # both ends must come to the same number of repetitions: each sends its time to the other
        long = max(taken, _swap(live, taken, peer)) > _LONG_S
        repetitions = 1 if long else _PAIR_REPETITIONS
        least.append(min(_exchange_s(live, outgoing, incoming, peer) for _ in range(repetitions)))
    return least


def _exchange_s(live: LiveGroup, outgoing: Any, incoming: Any, peer: int) -> float:
    begun = time.perf_counter()
    live.operations.exchange(outgoing, incoming, peer)
    live.synchronize()
    return time.perf_counter() - begun


def _swap(live: LiveGroup, value: float, peer: int) -> float:
    """The peer's value for one's own."""
    import torch

    incoming = torch.zeros(1, dtype=torch.float64, device=live.device)
    live.operations.exchange(torch.full_like(incoming, value), incoming, peer)
    return float(incoming.item())


def _agree(live: LiveGroup, *, crowded: bool, short: bool) -> tuple[str | None, str | None]:
    """Return why no rank can be named, and why nothing can be measured, or None; the same on all ranks."""
    many, poor = _sum(live, [float(crowded), float(short)])
    shared = "more ranks than cores on the hosts of {:.0f} of {} ranks: they wait for each other's cores"
    lacking = "{:.0f} of {} ranks have no memory for it"
    return (
        shared.format(many, live.size) if many else None,
        lacking.format(poor, live.size) if poor else None,
    )


def _any(live: LiveGroup, mine: bool) -> bool:
    return _sum(live, [float(mine)])[0] > 0


def _equal(live: LiveGroup, rounds: Sequence[Round]) -> bool:
    """Whether all ranks have the same rounds in mind: the sum of squares is n times the square of a value only then."""
    value = 1.0
    for place, (a, b) in enumerate(pair for pairs_of_round in rounds for pair in pairs_of_round):
        value = (value * 31 + 7 * a + b + place) % 8191
    total, squares = _sum(live, [value, value * value])
    return live.size * squares == total * total  # whole numbers below 2**53: exact


def _sum(live: LiveGroup, values: list[float]) -> list[float]:
    """Return the sum over all ranks, equal on all of them; no rank continues before all have called."""
    import torch

    live.announce(Step(PHASE, "all_reduce", "float64", 8 * max(len(values), live.size)))
    tensor = torch.zeros(max(len(values), live.size), dtype=torch.float64, device=live.device)
    tensor[: len(values)] = torch.tensor(values, dtype=torch.float64, device=live.device)
    live.operations.all_reduce(tensor)
    found: list[float] = tensor[: len(values)].tolist()
    return found


def _gather(live: LiveGroup, values: list[float]) -> Any:
    """The values of all ranks, one row a rank, on the CPU."""
    import torch

    live.announce(Step(PHASE, "all_gather", "float64", 8 * len(values) * live.size))
    tensor = torch.tensor(values, dtype=torch.float64, device=live.device)
    output = torch.empty(len(values) * live.size, dtype=torch.float64, device=live.device)
    live.operations.all_gather(output, tensor)
    return output.view(live.size, len(values)).cpu()
