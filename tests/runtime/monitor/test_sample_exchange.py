"""Ranks that read the same are found in a running job, and those that do so on purpose are not. Ranks are forks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from distcheck.cli.watch import sample_report_of, summary_of
from distcheck.core.model import Finding
from distcheck.rules import Selection
from distcheck.runtime.coordination.call_recorder import CallRecorder
from distcheck.runtime.coordination.ledger import Summary
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.coordination.protocol import SAMPLES_UNCHECKED
from distcheck.runtime.coordination.store_client import MemoryStore
from distcheck.runtime.monitor.sample_exchange import SampledRanks, SampleExchange, SampleLog, compared_ranks
from distcheck.testing import run_ranks

from .test_summary import ledger

SAMPLES, BATCH = 64, 4


def observed(body: Callable[[Any, int], None]) -> tuple[str, str]:
    """Run one rank, and return its rows as it sends them, and why it could not make some."""
    import torch
    import torch.distributed as dist

    from distcheck.runtime.coordination import loader_hooks
    from distcheck.runtime.coordination.training import TrainingObserver
    from distcheck.runtime.monitor.sample_exchange import LIMITS

    recorder = CallRecorder()
    recorder.attach(dist.distributed_c10d)
    log, observer = SampleLog(recorder), TrainingObserver(recorder, 100, digests=False)
    watcher = loader_hooks.install(log, LIMITS)
    observer.observe_reduced(lambda: watcher.has_batches, watcher.fed_by_hand)
    observer.install()
    torch.set_num_threads(1)
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    recorder.joined = True
    torch.manual_seed(0)
    body(torch, dist.get_rank())
    log.finish()
    dist.barrier()
    return json.dumps(log.taken()), log.error or observer.error


class Sent:
    """The log of a rank that has ended, with the rows that it would send."""

    def __init__(self, rows: Sequence[Any], error: str = "") -> None:
        self.error = error
        self._rows = [LoggedEvent(*row) for row in rows]

    def finish(self) -> None:
        """All rows are complete."""

    def taken(self) -> list[LoggedEvent]:
        rows, self._rows = self._rows, []
        return rows


def judged(body: Callable[[Any, int], None], ranks: int = 2, store: MemoryStore | None = None) -> list[Finding]:
    """Return what the last rank that ends reports about a body."""
    store, found = store or MemoryStore(), []  # type: ignore[var-annotated]
    for rank, (rows, error) in enumerate(run_ranks(ranks, lambda: observed(body))):
        assert not error

        def judge(sampled: SampledRanks, _: Any) -> None:
            found[:] = sample_report_of(sampled.samples, Selection()).findings

        SampleExchange(Sent(json.loads(rows)), judge).tick(store, rank, ranks, True)  # type: ignore[arg-type]
    return found


def _records(torch: Any) -> Any:
    class Records(torch.utils.data.TensorDataset):  # type: ignore[misc]
        pass

    return Records(torch.arange(2.0 * SAMPLES).view(SAMPLES, 2), torch.arange(SAMPLES) % 5)


def _loader(torch: Any, **more: Any) -> Any:
    return torch.utils.data.DataLoader(_records(torch), batch_size=BATCH, **more)


def _divided(torch: Any, **more: Any) -> Any:
    return torch.utils.data.DistributedSampler(_records(torch), **more)


def _train(torch: Any, loader: Any, model: Any, after_backward: Callable[[Any], object] = lambda _: None) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        after_backward(model)
        optimizer.step()


def _ddp(torch: Any, **more: Any) -> Any:
    return torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 5), **more)


def _average(model: Any) -> None:
    import torch.distributed as dist

    for one in model.parameters():
        dist.all_reduce(one.grad)
        one.grad /= dist.get_world_size()


# faults


def no_sampler(torch: Any, rank: int) -> None:
    _train(torch, _loader(torch), _ddp(torch))


def an_order_for_each_rank(torch: Any, rank: int) -> None:
    torch.manual_seed(rank)
    _train(torch, _loader(torch, shuffle=True), _ddp(torch))


def seed_by_rank(torch: Any, rank: int) -> None:
    _train(torch, _loader(torch, sampler=_divided(torch, seed=rank)), _ddp(torch))


def gradients_averaged_by_hand(torch: Any, rank: int) -> None:
    _train(torch, _loader(torch), torch.nn.Linear(2, 5), _average)


def sharded_model(torch: Any, rank: int) -> None:
    from torch.distributed.fsdp import fully_shard

    _train(torch, _loader(torch), fully_shard(torch.nn.Linear(2, 5)))


def accumulated_without_sampler(torch: Any, rank: int) -> None:
    ddp = _ddp(torch)
    for number, (x, _) in enumerate(_loader(torch)):
        if number % 2:
            ddp(x).sum().backward()
        else:
            with ddp.no_sync():
                ddp(x).sum().backward()


def stream(torch: Any, rank: int) -> None:
    class Lines(torch.utils.data.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            for number in range(SAMPLES):
                yield torch.full((2,), float(number)), number % 5

    _train(torch, torch.utils.data.DataLoader(Lines(), batch_size=BATCH), _ddp(torch))


def no_set_epoch(torch: Any, rank: int) -> None:
    sampler, model = _divided(torch), _ddp(torch)
    loader = _loader(torch, sampler=sampler)
    for _ in range(2):
        _train(torch, loader, model)


FAULTS = [
    (no_sampler, "DC732"), (an_order_for_each_rank, "DC732"), (seed_by_rank, "DC732"),
    (gradients_averaged_by_hand, "DC732"), (sharded_model, "DC732"), (accumulated_without_sampler, "DC732"),
    (stream, "DC735"), (no_set_epoch, "DC730"),
]  # fmt: skip


@pytest.fixture(scope="module")
def warm() -> None:
    """Import what each rank would import by itself."""
    for name in ("torch._dynamo", "torch.distributed.fsdp", "torch.distributed.tensor", "torch.utils.data"):
        __import__(name)


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("body", "code"), FAULTS)
def test_bad(body: Callable[[Any, int], None], code: str) -> None:
    (finding,) = judged(body)
    assert finding.code == code
    assert (finding.where.path or "").endswith("test_sample_exchange.py")


# the same on purpose, and correct ones


def distributed_sampler(torch: Any, rank: int) -> None:
    sampler, model = _divided(torch), _ddp(torch)
    loader = _loader(torch, sampler=sampler)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        _train(torch, loader, model)


def evaluation_on_all_ranks(torch: Any, rank: int) -> None:
    model = _ddp(torch)
    _train(torch, _loader(torch, sampler=_divided(torch)), model)
    for _ in range(2):
        for x, _y in _loader(torch):
            with torch.no_grad():
                model(x)


def no_wrapper(torch: Any, rank: int) -> None:
    _train(torch, _loader(torch), torch.nn.Linear(2, 5))


def a_model_of_its_own_beside_the_wrapped_one(torch: Any, rank: int) -> None:
    _train(torch, _loader(torch, sampler=_divided(torch)), _ddp(torch))
    _train(torch, _loader(torch), torch.nn.Linear(2, 5))


def tensor_parallel(torch: Any, rank: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model = parallelize_module(torch.nn.Linear(2, 6), mesh, ColwiseParallel())
    for x, _ in _loader(torch):
        model(x).sum().backward()


def averaged_metric(torch: Any, rank: int) -> None:
    """All ranks train alike, and reduce a number that is no gradient."""
    import torch.distributed as dist

    _train(torch, _loader(torch), torch.nn.Linear(2, 5), lambda _: dist.all_reduce(torch.ones(1)))


def groups_that_split_the_model(torch: Any, rank: int) -> None:
    """Ranks of one group of the script's own read the same, and the two groups read different data."""
    import torch.distributed as dist

    groups = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    dist.all_reduce(torch.ones(1), group=groups[rank // 2])
    _train(torch, _loader(torch, sampler=_divided(torch, num_replicas=2, rank=rank // 2)), _ddp(torch))


def tables_shared_out(torch: Any, rank: int) -> None:
    """A recommender: each rank looks up its table for all samples, sends the others theirs, and trains on its share."""
    import torch.distributed as dist

    model, table, mine = _ddp(torch), torch.nn.Embedding(5, 2), BATCH // 2
    for _, y in _loader(torch):
        features = torch.empty(BATCH, 2)
        dist.all_to_all_single(features, table(y).detach())
        model(features[rank * mine : (rank + 1) * mine]).sum().backward()


GOOD = [
    (tables_shared_out, 2),
    (distributed_sampler, 2), (evaluation_on_all_ranks, 2), (no_wrapper, 2),
    (a_model_of_its_own_beside_the_wrapped_one, 2), (tensor_parallel, 2), (averaged_metric, 2),
    (groups_that_split_the_model, 4),
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("body", "ranks"), GOOD)
def test_good(body: Callable[[Any, int], None], ranks: int) -> None:
    assert judged(body, ranks) == []


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (tables_shared_out, "ranks 0-1 send each other parts by all_to_all, and may read the same on purpose"),
        (distributed_sampler, None),
    ],
)
def test_ranks_that_send_each_other_parts_are_not_checked(body: Callable[[Any, int], None], why: str | None) -> None:
    store = MemoryStore()
    judged(body, store=store)
    assert store.get(SAMPLES_UNCHECKED) == why


# exchange


def test_ranks_of_large_jobs_are_neighbours_and_spread_ones() -> None:
    assert compared_ranks(4) == (0, 1, 2, 3)
    assert compared_ranks(1024) == (*range(8), *range(128, 1024, 128))


def test_a_rank_that_is_not_compared_sends_nothing() -> None:
    store = MemoryStore()
    SampleExchange(Sent([["samples.open", None, 0, 0.0, 0]]), lambda *_: None).tick(store, 9, 1024, False)  # type: ignore[arg-type]
    assert not store.check(["distcheck/watch/samples/9/0"])


def test_rows_are_judged_once_all_ranks_have_sent_theirs() -> None:
    store, judged_ranks = MemoryStore(), []
    exchanges = [
        SampleExchange(Sent([["samples.open", None, 0, 0.0, 0]]), lambda sampled, _: judged_ranks.append(sampled.ranks))  # type: ignore[arg-type]
        for _ in range(2)
    ]
    for rank in (0, 1, 0, 0):
        exchanges[rank].tick(store, rank, 2, False)
        if rank == 1:
            assert judged_ranks == []
    assert judged_ranks == [(0, 1)]


def test_what_could_not_be_recorded_is_not_checked() -> None:
    store = MemoryStore()
    SampleExchange(Sent([], "TypeError: no"), lambda *_: None).tick(store, 0, 2, True)  # type: ignore[arg-type]
    why = store.get(SAMPLES_UNCHECKED) or ""
    (missed,) = [
        item for item in summary_of(Summary((ledger(0),), 1, samples_unchecked=why), Selection()).not_checked
        if item.what.startswith("DC732")
    ]  # fmt: skip
    assert missed.why == "rank 0: TypeError: no"


def test_rows_beyond_the_limit_are_lost_and_rows_of_open_passes_wait() -> None:
    log = SampleLog(CallRecorder())
    for _ in range(3_000):
        log.note("samples.batch", place=("", ""))
    assert log.taken() == []
    assert log.lost == {"samples.batch": 1_000}
    assert log.error == "more than 2,000 rows wait to be sent"  # so that the samples are not checked, see above
    log.finish()
    assert len(log.taken()) == 2_000
