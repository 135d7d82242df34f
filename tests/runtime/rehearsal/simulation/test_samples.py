"""What all ranks drew, from hand-made rows: DC732, DC735, DC730, DC519, DC733."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from typing import Any

import pytest

from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Report, Severity
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.coordination.model import CollectiveCall, Position, Positions
from distcheck.runtime.coordination.sample_contents import IdentityCache
from distcheck.runtime.coordination.samplers import describe
from distcheck.runtime.coordination.sampling import samples_of
from distcheck.runtime.rehearsal.simulation.plan import Rehearsal, RehearsalPlan

TOTAL = 64
SEQUENTIAL = {"types": ["BatchSampler", "SequentialSampler"]}
RANDOM = {"types": ["BatchSampler", "RandomSampler"]}
DISTRIBUTED = {
    "types": ["BatchSampler", "DistributedSampler"],
    "epoch_setter": "DistributedSampler",
    "place": "train.py:9",
    "epoch": 0,
    "shuffle": True,
    "seed": 0,
}
SAYS_NOTHING = {
    "of_torch": True, "epoch_setter": "", "place": "", "epoch": None, "shuffle": None, "seed": None, "replicas": None,
    "part": None, "replacement": False,
}  # fmt: skip


def row(kind: str, rank: int, line: int, at_s: float = 1.0, **data: Any) -> LoggedEvent:
    return LoggedEvent(f"samples.{kind}", rank, 100 + rank, at_s, 0, f"train.py:{line}", "main", data)


def wrapped(*ranks: int, of: Sequence[int] = ()) -> list[LoggedEvent]:
    return [row("wrapped", rank, 5, ranks=list(of or ranks), how="DistributedDataParallel") for rank in ranks]


def made(
    rank: int, *, loader: int = 1, line: int = 10, sampler: dict[str, Any] = SEQUENTIAL, **more: Any
) -> LoggedEvent:
    data = {
        "loader": loader, "chain": [f"train.py:{line}", "train.py:90"], "type": "DataLoader", "of": None,
        "of_library": False, "iterable": False, "dataset": "Images", "base": "Images", "length": TOTAL,
        "base_length": TOTAL, "print": "aa", "batch_size": 4, "layers": [], "split": "", "libraries": [],
        "sampler": {**SAYS_NOTHING, **sampler}, **more,
    }  # fmt: skip
    return row("loader", rank, line, 1.0, **data)


def layer(*indices: int, maker: str = "random_split", seeded: bool = False, line: int = 7) -> dict[str, Any]:
    return {
        "place": f"train.py:{line}", "maker": maker, "seeded": seeded, "length": len(indices),
        "first": list(indices[:8]), "digest": hash(indices), "some": sorted(indices),
    }  # fmt: skip


def walk(
    rank: int,
    batches: Sequence[Sequence[Any]],
    *,
    loader: int = 1,
    number: int = 1,
    at_s: float = 2.0,
    line: int = 20,
    trains: bool = True,
    alone: bool = False,
    leaves: Any = None,
    ended: bool = False,
    sampler: dict[str, Any] = SEQUENTIAL,
    **more: Any,
) -> list[LoggedEvent]:
    """A pass over a loader; what a sample holds depends on its number alone, where ``leaves`` says nothing else."""
    begun = {
        "number": number, "loader": loader, "count": 0, "length": 16, "loop": f"train.py:{line}", "bounded": False,
        "joined": False, "unsplit": [], "sampler": {**SAYS_NOTHING, **sampler}, **more,
    }  # fmt: skip
    rows = [row("pass", rank, line, at_s, **begun)]
    for index, ids in enumerate(batches):
        held = [[f"x{item}" for item in ids], [f"y{item}" for item in ids]] if leaves is None else leaves(rank, ids)
        known = None if begun.get("iterable") else list(ids)
        data = {"index": index, "count": len(ids), "ids": known, "leaves": held, "trained": 0, "gradients": trains}
        data["fed"] = 0
        rows.append(row("batch", rank, line, at_s + 0.1 * (index + 1), number=number, **data))
    given = {
        "given": len(batches),
        "trained": max(1, len(batches) - 1) if trains else 0,
        "fed": max(1, len(batches) - 1) if trains and not alone else 0,
        "cut": False,
        "gradients": trains,
    }
    return [*rows, row("end" if ended else "open", rank, line, at_s + 9.0, number=number, **given)]


def in_batches(ids: Sequence[int], size: int = 4, count: int = 3) -> list[list[int]]:
    return [list(ids[place : place + size]) for place in range(0, size * count, size)]


def shuffled(seed: int, total: int = TOTAL) -> list[int]:
    ids = list(range(total))
    random.Random(seed).shuffle(ids)
    return ids


def report_of(*rows: LoggedEvent, ranks: int = 2, positions: Positions = Positions((), 2)) -> Report:
    rehearsal = Rehearsal(
        RehearsalPlan("train.py", nproc_per_node=ranks), (), tuple(sorted(rows, key=lambda one: one.at_s))
    )
    modules = (
        *(f"distcheck.runtime.rehearsal.simulation.{topic}" for topic in ("samples", "batch_counts")),
        *(f"distcheck.runtime.coordination.{topic}" for topic in ("sample_checks", "epochs", "splits")),
    )
    plan = Checker(modules=modules, plug_ins=False).plan(Rehearsal, Positions, command="rehearse", closed=True)
    report = plan.run(rehearsal, positions)
    assert all(probe.status in ("ran", "not-applicable") for probe in report.probes), report.probes
    return report


def judged(*rows: LoggedEvent, ranks: int = 2) -> list[Finding]:
    return list(report_of(*rows, ranks=ranks).findings)


def only(*rows: LoggedEvent, ranks: int = 2) -> Finding:
    (finding,) = judged(*rows, ranks=ranks)
    return finding


# DC732


def test_bad_dc732_all_ranks_draw_the_same() -> None:
    batches = in_batches(range(12))
    finding = only(*wrapped(0, 1), *[one for rank in (0, 1) for one in (made(rank), *walk(rank, batches))])
    assert (finding.code, finding.severity, finding.where.path, finding.where.line) == (
        "DC732", Severity.ERROR, "train.py", 10,
    )  # fmt: skip
    assert "0, 1, 2, 3, 4, 5, 6, 7, …" in finding.message
    assert finding.evidence["rank 0"] == finding.evidence["rank 1"] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert finding.where.ranks == "0-1"
    assert "DistributedSampler(dataset)" in finding.fix.text


def test_bad_dc732_the_same_although_one_rank_is_further() -> None:
    long, short = in_batches(range(16), count=4), in_batches(range(8), count=2)
    finding = only(*wrapped(0, 1), made(0), made(1), *walk(0, long), *walk(1, short))
    assert finding.evidence["samples"] == 8


def test_bad_dc732_each_rank_draws_from_all_in_an_order_of_its_own() -> None:
    rows = [made(rank, sampler=RANDOM) for rank in (0, 1)]
    finding = only(
        *wrapped(0, 1),
        *rows,
        *walk(0, [[5, 9, 12, 3]], sampler=RANDOM),
        *walk(1, [[7, 12, 5, 2]], sampler=RANDOM),
    )
    assert (finding.code, finding.severity) == ("DC732", Severity.ERROR)
    assert "all 64 samples" in finding.message
    assert "two or more ranks got 5, 12" in finding.message
    assert "instead of shuffle=True" in finding.fix.text


def test_bad_dc732_of_a_large_data_set_without_a_sample_in_common() -> None:
    """Nothing that was drawn shows that the data are the same; what the data sets hold does."""
    rows = [made(rank, sampler=RANDOM, length=10**6, base_length=10**6) for rank in (0, 1)]
    draws = [*walk(0, [[5, 9, 12, 3]], sampler=RANDOM), *walk(1, [[70, 120, 51, 22]], sampler=RANDOM)]
    assert only(*wrapped(0, 1), *rows, *draws).severity is Severity.WARNING
    other = [rows[0], rows[1]._replace(data={**rows[1].data, "print": "bb"})]
    assert judged(*wrapped(0, 1), *other, *draws) == []


def test_bad_dc732_augmented_samples_with_equal_labels() -> None:
    def leaves(rank: int, ids: Sequence[int]) -> list[list[str]]:
        return [[f"{rank}-{item}" for item in ids], [f"y{item % 5}" for item in ids]]

    rows = [made(rank, print=None) for rank in (0, 1)]
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(range(12)), leaves=leaves)]
    assert only(*wrapped(0, 1), *rows, *walks).severity is Severity.ERROR


def test_bad_dc732_sampler_that_counts_local_ranks() -> None:
    def sampler(rank: int) -> dict[str, Any]:
        return {**DISTRIBUTED, "replicas": 2, "part": rank % 2}

    rows = [made(rank, sampler=sampler(rank)) for rank in range(4)]
    walks = [
        one for rank in range(4) for one in walk(rank, in_batches(shuffled(0)[rank % 2 :: 2]), sampler=sampler(rank))
    ]
    finding = only(*wrapped(0, 1, 2, 3), *rows, *walks, ranks=4)
    assert finding.code == "DC732"
    assert finding.message.startswith("ranks 0,2 draw the same")
    assert "rank 0 of 2" in finding.fix.text


@pytest.mark.parametrize(
    ("libraries", "words"),
    [(["accelerate"], "accelerator.prepare(loader)"), (["pytorch_lightning"], "use_distributed_sampler=True")],
)
def test_bad_dc732_the_fix_is_that_of_the_framework(libraries: list[str], words: str) -> None:
    rows = [made(rank, libraries=libraries) for rank in (0, 1)]
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(range(12)))]
    assert words in only(*wrapped(0, 1), *rows, *walks).fix.text


def test_bad_dc732_replicas_beside_tensor_parallel_ranks() -> None:
    """2 × 2: ranks 0 and 1 hold one model; 0 and 2 are replicas."""
    twins = [
        row("twins", rank, 5, ranks=[rank // 2 * 2, rank // 2 * 2 + 1], how="tensor parallel") for rank in range(4)
    ]
    groups = [*wrapped(0, 2), *wrapped(1, 3)]
    rows = [made(rank) for rank in range(4)]
    alike = [one for rank in range(4) for one in walk(rank, in_batches(range(12)))]
    assert {finding.code for finding in judged(*groups, *twins, *rows, *alike, ranks=4)} == {"DC732"}


def test_good_dc732_tensor_parallel_ranks_draw_the_same() -> None:
    twins = [
        row("twins", rank, 5, ranks=[rank // 2 * 2, rank // 2 * 2 + 1], how="tensor parallel") for rank in range(4)
    ]
    groups = [*wrapped(0, 1, 2, 3)]
    rows = [made(rank) for rank in range(4)]
    parts = [one for rank in range(4) for one in walk(rank, in_batches(range(rank // 2, 64, 2)))]
    assert judged(*groups, *twins, *rows, *parts, ranks=4) == []


@pytest.mark.parametrize(
    ("how", "trains", "unchecked"),
    [("all_to_all", True, True), ("all_to_all", False, False), ("tensor parallel", True, False)],
)
def test_ranks_that_send_each_other_parts_are_not_checked(how: str, trains: bool, unchecked: bool) -> None:
    twins = [row("twins", rank, 5, ranks=[0, 1], how=how) for rank in (0, 1)]
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(range(64)), trains=trains)]
    samples = samples_of([*wrapped(0, 1), *twins, made(0), made(1), *walks], 2)
    assert bool(samples.unchecked()) is unchecked
    assert samples_of(twins, 2).unchecked() == ""  # nothing was read


def test_good_dc732_pipeline_stages_draw_the_same() -> None:
    walks = [
        one for rank in (0, 1) for one in walk(rank, in_batches(range(12)), unsplit=["torch.distributed.pipelining"])
    ]
    assert judged(*wrapped(0, 1), made(0), made(1), *walks) == []


def test_good_dc732_no_model_is_wrapped() -> None:
    assert judged(made(0), made(1), *walk(0, in_batches(range(12))), *walk(1, in_batches(range(12)))) == []


def test_good_dc732_evaluation_on_every_rank() -> None:
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(range(12)), trains=False)]
    assert judged(*wrapped(0, 1), made(0), made(1), *walks) == []


def test_good_dc732_a_baseline_that_every_rank_trains_alone() -> None:
    """The same script wraps another model: what no wrapper averages may be the same everywhere."""
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(range(12)), alone=True)]
    assert judged(*wrapped(0, 1), made(0), made(1), *walks) == []


def test_good_dc732_evaluation_that_ends_where_training_goes_on() -> None:
    """One backward pass after eleven batches is that of the training batch behind them."""
    batches = [*in_batches(range(44), count=11)]
    walks = []
    for rank in (0, 1):
        rows = walk(rank, batches, trains=False)
        once = {"trained": 1, "fed": 1}
        walks += [one._replace(data={**one.data, **once}) if "trained" in one.data else one for one in rows]
    assert judged(*wrapped(0, 1), made(0), made(1), *walks) == []


def test_good_dc732_distributed_sampler() -> None:
    sampler = [{**DISTRIBUTED, "replicas": 2, "part": rank} for rank in (0, 1)]
    rows = [made(rank, sampler=sampler[rank]) for rank in (0, 1)]
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(shuffled(0)[rank::2]), sampler=sampler[rank])]
    assert judged(*wrapped(0, 1), *rows, *walks) == []


def _shares(**differs: Sequence[int]) -> list[LoggedEvent]:
    """Rows of two ranks, each with its part of an order that its seed and epoch decide."""
    sampler = [
        {**DISTRIBUTED, "replicas": 2, "part": rank, **{name: values[rank] for name, values in differs.items()}}
        for rank in (0, 1)
    ]
    rows = [made(rank, sampler=sampler[rank]) for rank in (0, 1)]
    orders = [shuffled(10 * one["seed"] + one["epoch"])[rank::2] for rank, one in enumerate(sampler)]
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(orders[rank]), sampler=sampler[rank])]
    return [*wrapped(0, 1), *rows, *walks]


@pytest.mark.parametrize("what", ["seed", "epoch"])
def test_bad_dc732_shares_of_different_orders(what: str) -> None:
    finding = only(*_shares(**{what: (3, 4)}))
    assert (finding.code, finding.severity, finding.where.line) == ("DC732", Severity.ERROR, 9)
    assert f"({what} 3 on rank 0 and 4 on rank 1), so the shares overlap: two or more ranks got" in finding.message


def test_good_dc732_shares_of_one_order() -> None:
    assert judged(*_shares(seed=(3, 3), epoch=(2, 2))) == []


OWN = {"types": ["BatchSampler", "Resumed"], "of_torch": False}


def _in_steps(*starts: int, step: int = 2, **more: Any) -> list[LoggedEvent]:
    """Rows of ranks that read samples in steps, from a sampler of the script's own."""
    walks = [
        event
        for rank, start in enumerate(starts)
        for event in walk(rank, in_batches(range(start, TOTAL, step)), sampler=OWN, **more)
    ]
    return [*wrapped(*range(len(starts))), *(made(rank, sampler=OWN) for rank in range(len(starts))), *walks]


def test_bad_dc732_steps_that_begin_at_the_same_remainder() -> None:
    """After a restart, each rank begins at the number of samples that it has read itself."""
    finding = only(*_in_steps(9, 19))
    assert (finding.code, finding.severity) == ("DC732", Severity.WARNING)
    assert "in steps of 2, beginning at 9 on rank 0 and 19 on rank 1, so the shares overlap" in finding.message


def _of_own_files(rank: int, ids: Sequence[int]) -> list[list[str]]:
    return [[f"{rank}-{item}" for item in ids]]


@pytest.mark.parametrize(
    "rows",
    [_in_steps(0, 1), _in_steps(8, 19), _in_steps(0, 8, step=1), _in_steps(9, 19, leaves=_of_own_files)],
    ids=["divided", "other remainders", "windows that overlap", "the same number is another sample"],
)
def test_good_dc732_steps(rows: list[LoggedEvent]) -> None:
    assert judged(*rows) == []


DRAWN = {"types": ["Buckets"], "of_torch": False}


def _orders(
    *orders: Sequence[int],
    per_rank: int,
    more: Sequence[dict[str, Any]] = ({}, {}),
    sampler: dict[str, Any] = DRAWN,
    **of_walk: Any,
) -> Any:
    """Rows of ranks that read the first samples of an order each, from a sampler of the script's own."""
    batches = [in_batches(order, count=min(per_rank // 4, 8)) for order in orders]
    of_walk = {"length": per_rank // 4, **of_walk}
    walks = [walk(rank, of, sampler=sampler, **of_walk) for rank, of in enumerate(batches)]
    loaders = [made(rank, sampler=sampler, **more[rank]) for rank in range(len(orders))]
    return [*wrapped(*range(len(orders))), *loaders, *(event for events in walks for event in events)]


def test_bad_dc732_shares_of_another_order_on_each_rank() -> None:
    finding = only(*_orders(shuffled(100)[::2], shuffled(101)[1::2], per_rank=32))
    assert (finding.code, finding.severity) == ("DC732", Severity.WARNING)
    assert "Buckets gives each rank its share of 64 samples in an order of its own, each sample once" in finding.message
    assert "indices[rank::world_size] of an order that all share" in finding.fix.text


def test_bad_dc732_the_end_of_a_pass_shows_how_long_it_is() -> None:
    """A length that needs the script's code is not computed."""
    orders = shuffled(100)[::2], shuffled(101)[1::2]
    assert only(*_orders(*orders, per_rank=32, length=None, ended=True)).code == "DC732"
    assert judged(*_orders(*orders, per_rank=32, length=None)) == []


def test_bad_dc732_a_sampler_of_the_script_that_gives_each_rank_all() -> None:
    finding = only(*_orders(shuffled(1), shuffled(2), per_rank=64))
    assert "Buckets gives each rank all 64 samples in an order of its own" in finding.message


def _with_replacement(seed: int) -> list[int]:
    return random.Random(seed).choices(range(TOTAL), k=32)


@pytest.mark.parametrize(
    "rows",
    [
        _orders(shuffled(1)[::2], shuffled(1)[1::2], per_rank=32),
        _orders(_with_replacement(1), _with_replacement(2), per_rank=32),
        _orders(shuffled(1)[:16], shuffled(2)[:16], per_rank=16),
        _orders([*range(32)], [*range(32, 60), *range(4)], per_rank=32),
        _orders(shuffled(1)[::2], shuffled(2)[1::2], per_rank=32, leaves=_of_own_files),
        _orders(shuffled(1)[:32], shuffled(2)[:32], per_rank=32, sampler=DRAWN | {"chooses": True}),
        _orders(
            shuffled(1),
            shuffled(2),
            per_rank=64,
            more=[{"layers": [layer(*range(rank, 128, 2), maker="Subset")]} for rank in (0, 1)],
        ),
    ],
    ids=[
        "divided",
        "with replacement",
        "a choice",
        "padded",
        "the same number is another sample",
        "a choice of half",
        "subsets",
    ],
)
def test_good_dc732_orders_of_the_script(rows: list[LoggedEvent]) -> None:
    assert judged(*rows) == []


def test_good_dc732_orders_without_shuffle_do_not_depend_on_the_seed() -> None:
    assert judged(*_shares(seed=(3, 4), shuffle=(False, False))) == []


def test_good_dc732_so_few_samples_that_the_sampler_repeats_them() -> None:
    sampler = [{**DISTRIBUTED, "replicas": 2, "part": rank} for rank in (0, 1)]
    rows = [made(rank, sampler=sampler[rank], length=1, base_length=1) for rank in (0, 1)]
    walks = [one for rank in (0, 1) for one in walk(rank, [[0]], sampler=sampler[rank])]
    assert judged(*wrapped(0, 1), *rows, *walks) == []


@pytest.mark.parametrize("order", [SEQUENTIAL, RANDOM])
def test_good_dc732_data_divided_before(order: dict[str, Any]) -> None:
    """Files of its own for each rank: the same numbers, but other contents."""

    def leaves(rank: int, ids: Sequence[int]) -> list[list[str]]:
        return [[f"{rank}-{item}" for item in ids], [f"{rank}+{item}" for item in ids]]

    rows = [made(rank, sampler=order, print=f"file{rank}") for rank in (0, 1)]
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(range(12)), leaves=leaves, sampler=order)]
    other = [
        *walk(0, [[3, 4, 5, 1]], leaves=leaves, sampler=order),
        *walk(1, [[4, 5, 1, 9]], leaves=leaves, sampler=order),
    ]
    assert judged(*wrapped(0, 1), *rows, *walks) == []
    assert judged(*wrapped(0, 1), *rows, *other) == []


def test_good_dc732_subsets_of_their_own() -> None:
    """Ids are seen from below the subsets."""
    parts = [list(range(rank, TOTAL, 2)) for rank in (0, 1)]
    rows = [made(rank, sampler=RANDOM, length=32, layers=[layer(*parts[rank], maker="Subset")]) for rank in (0, 1)]
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(parts[rank][::-1]), sampler=RANDOM)]
    assert judged(*wrapped(0, 1), *rows, *walks) == []


def test_good_dc732_the_same_number_is_another_sample_on_each_rank() -> None:
    """Made up in __getitem__, or read from a place that only the code knows."""

    def leaves(rank: int, ids: Sequence[int]) -> list[list[str]]:
        return [[f"{rank}-{item}" for item in ids]]

    rows = [made(rank, sampler=RANDOM) for rank in (0, 1)]
    walks = [
        *walk(0, [[3, 4, 5, 1]], leaves=leaves, sampler=RANDOM),
        *walk(1, [[4, 5, 1, 9]], leaves=leaves, sampler=RANDOM),
    ]
    assert judged(*wrapped(0, 1), *rows, *walks) == []


def test_good_dc732_with_replacement() -> None:
    order = {**RANDOM, "replacement": True}
    walks = [*walk(0, [[5, 9, 12, 3]], sampler=order), *walk(1, [[7, 12, 5, 2]], sampler=order)]
    assert judged(*wrapped(0, 1), made(0, sampler=order), made(1, sampler=order), *walks) == []


def test_good_dc732_data_that_a_benchmark_makes_up() -> None:
    rows = [made(rank, dataset="SyntheticImages", base="SyntheticImages") for rank in (0, 1)]
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(range(12)))]
    assert only(*wrapped(0, 1), *rows, *walks).severity is Severity.INFO


def test_bad_dc732_a_sampler_for_several_ranks_should_divide_made_up_data() -> None:
    same = {**DISTRIBUTED, "replicas": 2, "part": 0}
    rows = [made(rank, dataset="SyntheticImages", base="SyntheticImages", sampler=same) for rank in (0, 1)]
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(range(40)), sampler=same)]
    assert only(*wrapped(0, 1), *rows, *walks).severity > Severity.INFO


def test_good_dc732_constant_contents_say_nothing() -> None:
    rows = [made(rank, print=None) for rank in (0, 1)]
    walks = [
        one
        for rank in (0, 1)
        for one in walk(rank, in_batches(range(40), count=10), leaves=lambda _, ids: [["same"] * len(ids)])
    ]
    assert judged(*wrapped(0, 1), *rows, *walks) == []


def test_good_dc732_one_rank_alone_has_the_loader() -> None:
    assert judged(*wrapped(0, 1), made(0), *walk(0, in_batches(range(12)))) == []


def test_good_dc732_rank_zero_draws_and_dispatches() -> None:
    """accelerate's dispatcher: the others make an iterator, and never ask it."""
    assert judged(*wrapped(0, 1), made(0), made(1), *walk(0, in_batches(range(12))), *walk(1, [])) == []


def test_good_dc732_a_framework_has_divided_the_loader() -> None:
    rows, walks = [], []
    for rank in (0, 1):
        part = {"types": ["BatchSamplerShard", "BatchSampler", "RandomSampler"], "of_torch": False}
        sampler = {**part, "replicas": 2, "part": rank}
        rows += [made(rank, sampler=RANDOM), made(rank, loader=2, of=1, of_library=True, sampler=sampler, line=14)]
        walks += walk(rank, in_batches(shuffled(0)[rank::2]), loader=2, sampler=sampler)
    assert judged(*wrapped(0, 1), *rows, *walks) == []


# DC735


def test_bad_dc735_all_ranks_get_the_same_items() -> None:
    rows = [made(rank, iterable=True, dataset="Lines", length=None) for rank in (0, 1)]
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(range(12)), iterable=True, length=None)]
    finding = only(*wrapped(0, 1), *rows, *walks)
    assert (finding.code, finding.where.line) == ("DC735", 10)
    assert "Lines" in finding.message


def test_good_dc735_other_files_with_equal_contents() -> None:
    rows = [made(rank, iterable=True, held=f"files{rank}", sampler=SAYS_NOTHING) for rank in (0, 1)]
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(range(12)), iterable=True)]
    assert judged(*wrapped(0, 1), *rows, *walks) == []


def test_good_dc735_items_of_their_own() -> None:
    rows = [made(rank, iterable=True, length=None) for rank in (0, 1)]
    walks = [one for rank in (0, 1) for one in walk(rank, in_batches(range(rank, 64, 2)), iterable=True, length=None)]
    assert judged(*wrapped(0, 1), *rows, *walks) == []


def test_good_dc735_a_baseline_that_every_rank_trains_alone() -> None:
    rows = [made(rank, iterable=True, length=None, base_length=None) for rank in (0, 1)]
    feed = [walk(rank, in_batches(range(12)), iterable=True, alone=alone) for rank in (0, 1) for alone in (True, False)]
    assert judged(*wrapped(0, 1), *rows, *feed[0], *feed[2]) == []
    assert [one.code for one in judged(*wrapped(0, 1), *rows, *feed[1], *feed[3])] == ["DC735"]


# DC730


def epochs(*sampler: dict[str, Any], orders: Sequence[Sequence[int]], **more: Any) -> list[LoggedEvent]:
    rows = [*wrapped(0, 1)]
    for rank in (0, 1):
        told = [{**one, "replicas": 2, "part": rank} for one in sampler]
        rows.append(made(rank, sampler=told[0]))
        for number, order in enumerate(orders):
            batches = in_batches(order[rank::2])
            rows += walk(rank, batches, number=number + 1, at_s=2.0 + number, sampler=told[number], ended=True, **more)
    return rows


def test_bad_dc730_the_same_order_in_both_epochs() -> None:
    finding = only(*epochs(DISTRIBUTED, DISTRIBUTED, orders=[shuffled(0)] * 2, length=3))
    assert (finding.code, finding.where.line, finding.where.ranks) == ("DC730", 9, "0-1")
    assert "its epoch is still 0" in finding.message
    assert "train.py:20" in finding.fix.text
    assert finding.evidence["first"] == finding.evidence["second"]


def test_bad_dc730_a_loader_for_each_epoch() -> None:
    rows = [*wrapped(0, 1)]
    for rank in (0, 1):
        sampler = {**DISTRIBUTED, "replicas": 2, "part": rank}
        for number in (1, 2):
            rows.append(made(rank, loader=number, sampler=sampler))
            batches = in_batches(shuffled(0)[rank::2])
            rows += walk(rank, batches, loader=number, number=number, at_s=1.0 + number, sampler=sampler)
    assert [finding.code for finding in judged(*rows)] == ["DC730"]


def test_bad_dc730_gradients_that_no_wrapper_averages() -> None:
    """The sampler divides for ranks that train together, whoever brings their gradients together."""
    assert only(*epochs(DISTRIBUTED, DISTRIBUTED, orders=[shuffled(0)] * 2, length=3, alone=True)).code == "DC730"


#: A sampler class of the script, which has no set_epoch() and shuffles in its __iter__.
OWN = {**DISTRIBUTED, "types": ["ShardSampler"], "of_torch": False, "epoch_setter": "", "epoch": None, "shuffle": None}


def test_bad_dc730_a_sampler_of_the_script_that_shuffles_with_a_constant_seed() -> None:
    finding = only(*epochs(*[{**OWN, "shuffler": "ShardSampler"}] * 2, orders=[shuffled(0)] * 2, length=3))
    assert (finding.code, finding.where.line) == ("DC730", 9)
    assert "the ShardSampler shuffles with the same random numbers" in finding.message


def test_good_dc730_a_sampler_of_the_script() -> None:
    shuffler = {**OWN, "shuffler": "ShardSampler"}
    assert judged(*epochs(shuffler, shuffler, orders=[shuffled(0), shuffled(1)], length=3)) == []
    # one that shuffles nowhere: sorted by length, or in the order of a curriculum
    assert judged(*epochs(OWN, OWN, orders=[shuffled(0)] * 2, length=3)) == []


def test_which_samplers_shuffle_by_themselves() -> None:
    class Shuffled:
        def __iter__(self) -> Any:
            return iter(random.Random(0).sample(range(8), 8))

    class Sorted:
        def __init__(self) -> None:
            self.order = random.sample(range(8), 8)

        def __iter__(self) -> Any:
            return iter(self.order)

    assert [describe([one], IdentityCache())["shuffler"] for one in (Shuffled(), Sorted())] == ["Shuffled", ""]


def test_which_samplers_choose_samples() -> None:
    class Hardest(list[int]):
        def __iter__(self) -> Any:
            return self.hardest()

        def hardest(self) -> Any:
            return iter(heapq.nlargest(2, range(4)))

    class Divided(list[int]):
        def __iter__(self) -> Any:
            return iter(sorted(range(4))[::2])

    assert [describe([one], IdentityCache())["chooses"] for one in (Hardest(), Divided())] == [True, False]


def test_good_dc730_set_epoch() -> None:
    later = {**DISTRIBUTED, "epoch": 1}
    assert judged(*epochs(DISTRIBUTED, later, orders=[shuffled(0), shuffled(1)], length=3)) == []


def test_good_dc730_no_shuffle() -> None:
    plain = {**DISTRIBUTED, "shuffle": False}
    assert judged(*epochs(plain, plain, orders=[range(64), range(64)], length=3)) == []
    # the order of the subset below it
    assert judged(*epochs(plain, plain, orders=[shuffled(0)] * 2, length=3)) == []


def test_good_dc730_evaluation_has_one_order() -> None:
    assert judged(*epochs(DISTRIBUTED, DISTRIBUTED, orders=[shuffled(0)] * 2, length=3, trains=False)) == []


def test_good_dc730_one_pass_only() -> None:
    assert judged(*epochs(DISTRIBUTED, orders=[shuffled(0)], length=3)) == []


def test_good_dc730_two_loaders_side_by_side() -> None:
    """Two views of the same samples, one pass each at the same time."""
    rows = [*wrapped(0, 1)]
    for rank in (0, 1):
        sampler = {**DISTRIBUTED, "replicas": 2, "part": rank}
        for number in (1, 2):
            rows.append(made(rank, loader=number, sampler=sampler))
            rows += walk(rank, in_batches(shuffled(0)[rank::2]), loader=number, number=number, sampler=sampler)
    assert judged(*rows) == []


# DC519


def uneven(*lengths: int | None, sampler: dict[str, Any] = RANDOM, **more: Any) -> list[LoggedEvent]:
    rows = [*wrapped(*range(len(lengths)))]
    for rank, length in enumerate(lengths):
        part = list(range(rank, TOTAL, len(lengths)))
        layers = [layer(*part, maker="Subset")]
        rows.append(made(rank, sampler=sampler, length=length, layers=layers, print=f"part{rank}"))
        rows += walk(rank, in_batches(part), sampler=sampler, length=length, **more)
    return rows


def test_bad_dc519_different_lengths_before_the_end() -> None:
    finding = only(*uneven(19, 18))
    assert (finding.code, finding.severity, finding.where.line, finding.where.rank) == ("DC519", Severity.ERROR, 20, 1)
    assert "18 on rank 1, 19 on rank 0" in finding.message
    assert "Subset at train.py:7" in finding.fix.text


def test_bad_dc519_counted_to_the_end() -> None:
    rows = [*wrapped(0, 1), *(made(rank, iterable=True, length=None) for rank in (0, 1))]
    rows += walk(0, in_batches(range(0, 64, 2), count=4), iterable=True, length=None)
    rows += walk(1, in_batches(range(1, 64, 2), count=3), iterable=True, length=None, ended=True)
    finding = only(*rows)
    assert finding.evidence["batches"] == {"0": 4, "1": 3}
    assert "ReduceOp.MIN" in finding.fix.text


def test_bad_dc519_a_sampler_of_the_scripts_own() -> None:
    finding = only(*uneven(19, 18, sampler={"types": ["BatchSampler", "ByRank"], "of_torch": False}))
    assert "let ByRank cut the total" in finding.fix.text


@pytest.mark.parametrize("bounded", [True, None])
def test_good_dc519_the_loop_may_end_before(bounded: bool | None) -> None:
    finding = only(*uneven(19, 18, bounded=bounded))
    assert finding.severity is Severity.INFO
    assert "unless the loop ends earlier" in finding.message


def test_bad_dc519_the_others_wait_for_whoever_is_through() -> None:
    """That the loop might have ended before is no excuse any more."""
    call = CollectiveCall(4, "all_reduce", place="train.py:22")
    waiting = Position(0, state="waiting", call=call, since_s=9.0, entered={"0": 4})
    positions = Positions((waiting, Position(1, state="left", entered={"0": 3})), 2, 5.0)
    rows = [*wrapped(0, 1), made(0, print="p0"), made(1, print="p1")]
    rows += walk(0, in_batches(range(0, 64, 2), count=4), length=4, bounded=True)
    rows += walk(1, in_batches(range(1, 64, 2), count=3), length=3, bounded=True, ended=True)
    (finding,) = report_of(*rows, positions=positions).findings
    assert (finding.severity, finding.where.rank) == (Severity.ERROR, 1)
    assert only(*rows).severity is Severity.INFO


def test_good_dc519_under_join() -> None:
    assert judged(*uneven(19, 18, joined=True)) == []


def test_good_dc519_equal_lengths() -> None:
    assert judged(*uneven(18, 18)) == []


def test_good_dc519_evaluation_may_be_uneven() -> None:
    assert judged(*uneven(19, 18, trains=False)) == []


def test_good_dc519_nobody_waits_in_training_without_a_wrapper() -> None:
    assert judged(*uneven(19, 18, alone=True)) == []


def test_good_dc519_unknown_lengths() -> None:
    assert judged(*uneven(None, None)) == []


def test_good_dc519_cut_short_by_the_rehearsal() -> None:
    """--epoch-steps ends a pass: what was counted then is no length."""
    rows = []
    for one in uneven(None, None):
        is_sum = one.kind == "samples.open"
        given = 4 if one.rank else 5
        rows.append(one._replace(kind="samples.end", data={**one.data, "cut": True, "given": given}) if is_sum else one)
    assert judged(*rows) == []


# DC733


def split(
    rank: int, order: Sequence[int], *, seeded: bool = False, used: bool = True, maker: str = "random_split"
) -> list[LoggedEvent]:
    """A loader for training over 48 samples, one for evaluation over the other 16."""
    train, valid = order[:48], order[48:]
    sampler = {**DISTRIBUTED, "replicas": 2, "part": rank}
    rows = [made(rank, sampler=sampler, length=48, layers=[layer(*train, seeded=seeded, maker=maker)])]
    if used:
        rows.append(made(rank, loader=2, line=12, length=16, layers=[layer(*valid, seeded=seeded, maker=maker)]))
    return [*rows, *walk(rank, in_batches(train[rank::2]), sampler=sampler)]


@pytest.mark.parametrize("maker", ["random_split", "Subset"])
def test_bad_dc733_trained_here_and_evaluated_there(maker: str) -> None:
    finding = only(*wrapped(0, 1), *split(0, shuffled(0), maker=maker), *split(1, shuffled(1), maker=maker))
    assert (finding.code, finding.severity, finding.where.line) == ("DC733", Severity.WARNING, 7)
    assert finding.where.ranks == "0-1"
    both = finding.evidence["in_both"]
    assert both
    assert set(both) <= set(shuffled(0)[:48]) & set(shuffled(1)[48:])
    assert ("generator=torch.Generator()" in finding.fix.text) is (maker == "random_split")


def test_bad_dc733_only_rank_zero_evaluates() -> None:
    rows = [*split(0, shuffled(0)), *split(1, shuffled(1), used=False)]
    assert "rank 1 trains on samples that rank 0 has" in only(*wrapped(0, 1), *rows).message


def test_bad_dc733_the_part_for_training_alone() -> None:
    rows = [*split(0, shuffled(0), used=False), *split(1, shuffled(1), used=False)]
    assert "the random split differs between ranks" in only(*wrapped(0, 1), *rows).message


def divided(rank: int, order: Sequence[int], *, seeded: bool = False, **more: Any) -> LoggedEvent:
    """A sampler that divides a part of the data, without a loader."""
    layers = [layer(*order[:48], seeded=seeded)]
    given = {"print": "x", "base_length": TOTAL, "layers": layers, "replicas": 2, "part": rank, **more}
    return row("divided", rank, 9, 1.0, **given)


def test_bad_dc733_a_sampler_divides_other_parts() -> None:
    found = only(divided(1, shuffled(1)), divided(0, shuffled(0)))
    assert (found.code, found.severity, found.where.ranks) == ("DC733", Severity.WARNING, "0-1")
    assert "first on rank 0" in found.message


@pytest.mark.parametrize(
    "rows",
    [
        [divided(0, shuffled(0)), divided(1, shuffled(0))],
        # each rank by itself, or on purpose
        [divided(rank, shuffled(rank), replicas=1, part=0) for rank in (0, 1)],
        [divided(rank, shuffled(rank), seeded=True) for rank in (0, 1)],
        [divided(rank, shuffled(rank), print=f"file{rank}") for rank in (0, 1)],
        [divided(0, shuffled(0))],
    ],
    ids=["one split", "ensembles", "seeded", "other data", "one rank"],
)
def test_good_dc733_samplers(rows: list[LoggedEvent]) -> None:
    assert judged(*rows) == []


def test_good_dc733_one_split() -> None:
    assert judged(*wrapped(0, 1), *split(0, shuffled(0)), *split(1, shuffled(0))) == []


def test_good_dc733_a_sample_of_its_own_on_purpose() -> None:
    """A generator of its own for each rank, and nothing is done with the rest."""
    rows = [one for rank in (0, 1) for one in split(rank, shuffled(rank), seeded=True, used=False)]
    assert judged(*wrapped(0, 1), *rows) == []


def test_good_dc733_parts_of_different_data() -> None:
    rows = [one for rank in (0, 1) for one in split(rank, shuffled(rank))]
    own = [one._replace(data={**one.data, "print": f"file{one.rank}"}) if "print" in one.data else one for one in rows]
    assert judged(*wrapped(0, 1), *own) == []


def test_good_dc733_every_rank_trains_a_model_of_its_own() -> None:
    assert judged(*split(0, shuffled(0)), *split(1, shuffled(1))) == []


def test_good_dc733_shares_of_one_split() -> None:
    """Each rank takes its share of both parts: nothing of one rank's training is in another's evaluation."""
    rows = []
    for rank in (0, 1):
        train, valid = shuffled(0)[rank:48:2], shuffled(0)[48 + rank :: 2]
        rows.append(made(rank, sampler=RANDOM, length=24, layers=[layer(*train, maker="Subset")]))
        rows.append(made(rank, loader=2, line=12, length=8, layers=[layer(*valid, maker="Subset")]))
        rows += walk(rank, in_batches(train), sampler=RANDOM)
    assert judged(*wrapped(0, 1), *rows) == []


def test_good_dc733_evaluation_on_a_part_of_what_is_trained() -> None:
    """A sample of its own of the training data on each rank: it is no split."""
    rows = []
    for rank in (0, 1):
        rows += split(rank, shuffled(0), used=False)
        rows.append(
            made(rank, loader=2, line=12, length=8, layers=[layer(*shuffled(0)[rank : 40 + rank : 5], maker="Subset")])
        )
    assert judged(*wrapped(0, 1), *rows) == []


def test_good_dc733_a_split_of_this_ranks_share() -> None:
    rows = []
    for rank in (0, 1):
        share = shuffled(0)[rank::2]
        layers = [layer(*share[:24]), layer(*share, maker="Subset", line=6)]
        rows.append(made(rank, sampler=RANDOM, length=24, layers=layers))
        rows += walk(rank, in_batches(share[:24]), sampler=RANDOM)
    assert judged(*wrapped(0, 1), *rows) == []


def scikit(train: str, rank: int, given: str = "all") -> LoggedEvent:
    return row("split", rank, 6, given=given, train=train, test="t", first=["'a.png'", "'b.png'"], stated=False)


def test_bad_dc733_train_test_split() -> None:
    rows = [scikit("one", 0), scikit("two", 1)]
    for rank in (0, 1):
        rows += [made(rank, split="train.py:6", print=f"p{rank}"), *walk(rank, in_batches(range(rank, 64, 2)))]
    finding = only(*wrapped(0, 1), *rows)
    assert (finding.code, finding.severity, finding.where.line) == ("DC733", Severity.WARNING, 6)
    assert "random_state=0" in finding.fix.text


def test_good_dc733_train_test_split() -> None:
    assert judged(*wrapped(0, 1), scikit("one", 0), scikit("one", 1)) == []
    assert judged(*wrapped(0, 1), scikit("one", 0, "a"), scikit("two", 1, "b")) == []
    # what became of it is not known: rank 0's may have been sent to all
    assert only(*wrapped(0, 1), scikit("one", 0), scikit("two", 1)).severity is Severity.INFO


# the fact


def test_a_script_without_loaders_is_not_judged() -> None:
    report = report_of(*wrapped(0, 1))
    assert report.findings == ()
    assert [probe.status for probe in report.probes].count("not-applicable") == 4


def test_loaders_are_the_same_by_their_place_and_not_by_their_number() -> None:
    """Rank 0 has made one more before."""
    rows = [made(0, loader=1, line=3), made(0, loader=2), made(1, loader=1)]
    finding = only(*wrapped(0, 1), *rows, *walk(0, in_batches(range(12)), loader=2), *walk(1, in_batches(range(12))))
    assert finding.where.line == 10
