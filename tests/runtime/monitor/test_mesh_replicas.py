"""Replicas that a mesh holds, of shards and of whole parameters, are compared on real gloo ranks."""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from distcheck.cli.watch import drift_report_of
from distcheck.rules import Selection
from distcheck.runtime.coordination.drift import Drift, ReplicaExchange, ReplicaRow
from distcheck.runtime.coordination.store_client import MemoryStore
from distcheck.testing import run_ranks

from .test_drift import observed

STEPS = 4


def found(body: Callable[[Any, int], None], ranks: int) -> list[Drift]:
    """Return the drifts of a body on some ranks; each rank has to compare something."""
    store, drifts = MemoryStore(), []  # type: ignore[var-annotated]
    for rank, (rows, unchecked) in enumerate(run_ranks(ranks, lambda: observed(body))):
        assert (unchecked, bool(rows)) == ("", True)
        ReplicaExchange(deque(ReplicaRow(*row) for row in rows), drifts.append, str).tick(store, rank, True)
    return drifts


@pytest.fixture(scope="module")
def warm() -> None:
    """Import what each rank would import by itself."""
    for name in (
        "torch._dynamo", "torch.distributed.optim", "torch.distributed.fsdp", "torch.distributed.tensor.parallel",
        "torch.distributed.algorithms.join",
    ):  # fmt: skip
        importlib.import_module(name)


def _hybrid(torch: Any) -> Any:
    """A model in shards over two ranks, of which there are two replicas."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    net = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    return fully_shard(net, mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")))


def _parallel(torch: Any, size: int) -> Any:
    """A block whose linear layers tensor parallelism divides, and whose norm and dropout each rank has whole."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    net = torch.nn.Sequential(
        torch.nn.LayerNorm(6), torch.nn.Dropout(0.3), torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 6)
    )
    plan = {"2": ColwiseParallel(), "4": RowwiseParallel()}
    return parallelize_module(net, init_device_mesh("cpu", (size,), mesh_dim_names=("tp",)), plan)


def _train(
    torch: Any, net: Any, seed: int, before_step: Callable[[int], Any] = lambda _: None, rate: float = 0.1,
    groups: Any = None,
) -> None:  # fmt: skip
    optimizer = torch.optim.SGD(groups or net.parameters(), lr=rate)
    data = torch.Generator().manual_seed(seed)
    for step in range(STEPS):
        optimizer.zero_grad()
        (net(torch.randn(8, 6, generator=data)) - 1).square().mean().backward()
        before_step(step)
        optimizer.step()


# faults


def shards_clipped_by_each_replica(torch: Any, rank: int) -> None:
    net = _hybrid(torch)

    def clip(_: int) -> None:
        if rank > 1:
            for one in net.parameters():
                one.grad.to_local().mul_(0.5)

    _train(torch, net, rank, clip)


def shards_with_other_rates(torch: Any, rank: int) -> None:
    _train(torch, _hybrid(torch), rank, rate=0.1 + rank // 2)


def dropout_of_each_rank(torch: Any, rank: int) -> None:
    net = _parallel(torch, 2)
    torch.manual_seed(rank)
    _train(torch, net, 0)


def whole_parameter_changed_on_one_rank(torch: Any, rank: int) -> None:
    net = _parallel(torch, 2)
    if rank:
        with torch.no_grad():
            net[0].bias.add_(1)
    torch.manual_seed(0)
    _train(torch, net, 0)


FAULTS = [
    (shards_clipped_by_each_replica, 4, "DC763", "gradient"), (shards_with_other_rates, 4, "DC764", "learning rate"),
    (dropout_of_each_rank, 2, "DC763", "gradient"), (whole_parameter_changed_on_one_rank, 2, "DC763", "parameter"),
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("body", "ranks", "code", "what"), FAULTS)
def test_bad(body: Callable[[Any, int], None], ranks: int, code: str, what: str) -> None:
    drifts = found(body, ranks)
    assert {drift.what for drift in drifts} == {what}
    for drift in drifts:
        (finding,) = drift_report_of(drift, Selection()).findings
        assert (finding.code, finding.where.line is not None) == (code, True)
        # the shards of one replica differ from each other: only the other replica's part is compared with each
        assert (drift.rows[0].ranks, len(drift.rows)) == ((drift.rows[0].rank, drift.rows[0].rank + ranks // 2), 2)


# correct twins


def hybrid(torch: Any, rank: int) -> None:
    net = _hybrid(torch)
    _train(torch, net, rank, lambda _: torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1))


def tensor_parallel(torch: Any, rank: int) -> None:
    net = _parallel(torch, 2)
    torch.manual_seed(5)
    _train(torch, net, 0)


def hybrid_with_options_of_each_layer(torch: Any, rank: int) -> None:
    net = _hybrid(torch)
    groups = [{"params": list(net[at].parameters()), "lr": 0.1 / (at + 1)} for at in (0, 2)]
    _train(torch, net, rank, groups=groups)


TWINS = [(hybrid, 4), (hybrid_with_options_of_each_layer, 4), (tensor_parallel, 2)]


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("body", "ranks"), TWINS)
def test_good(body: Callable[[Any, int], None], ranks: int) -> None:
    assert found(body, ranks) == []


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
def test_shards_alone_have_no_replicas() -> None:
    """One dimension that shards: no rank holds what another one does."""

    def body(torch: Any, rank: int) -> None:
        from torch.distributed.fsdp import fully_shard

        net = torch.nn.Linear(6, 4)
        _train(torch, fully_shard(net), rank)

    for rows, unchecked in run_ranks(2, lambda: observed(body)):
        # how ranks treat their shards is compared, and nothing of what these hold
        assert all(row.shards.options and not (row.values or row.rest or row.rates) for row in rows)
        assert unchecked.startswith("no optimizer steps")


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("seed_by_rank", [True, False])
def test_inputs_of_tensor_parallel_ranks(seed_by_rank: bool) -> None:
    """Each rank passes a batch of its own to layers that a plan divides; no optimizer is needed to see it."""

    def body(torch: Any, rank: int) -> None:
        net = _parallel(torch, 2).eval()
        data = torch.Generator().manual_seed(rank if seed_by_rank else 0)
        for _ in range(STEPS):
            net(torch.randn(8, 6, generator=data))

    store, drifts = MemoryStore(), []  # type: ignore[var-annotated]
    for rank, (rows, _) in enumerate(run_ranks(2, lambda: observed(body))):
        assert len(rows) >= STEPS
        ReplicaExchange(deque(ReplicaRow(*row) for row in rows), drifts.append, str).tick(store, rank, True)
    findings = [one for drift in drifts for one in drift_report_of(drift, Selection()).findings]
    assert [(one.code, one.severity.word) for one in findings] == [("DC709", "warning")] * seed_by_rank
    assert all((one.where.path or "").endswith("test_mesh_replicas.py") for one in findings)


def _input_rows(key: str, step: int, *values: float) -> list[ReplicaRow]:
    from .test_drift import _row

    digests = [_row(rank, step, value).values["weight"][1] for rank, value in enumerate(values)]
    return [
        ReplicaRow(
            rank, key, tuple(range(len(values))), step, 0, "", "a.py:3", (), {}, {"input of a module": digest}, computed=True
        )
        for rank, digest in enumerate(digests)
    ]  # fmt: skip


def _model_rows(step: int, *values: float) -> list[ReplicaRow]:
    from .test_drift import _rows

    ranks = tuple(range(len(values)))
    return [row._replace(key="mesh computed.0", ranks=ranks, computed=True) for row in _rows(step, *values)]


#: what differs: the batch, what a rank computes from it, parameters. And what is reported
CAUSES = [
    ((True, True, True), ["input"]), ((True, True, False), ["input"]), ((False, True, True), ["parameter"]),
    ((False, True, False), ["input"]), ((False, False, True), ["parameter"]), ((False, False, False), []),
]  # fmt: skip


@pytest.mark.parametrize(("differ", "reported"), CAUSES)
def test_what_a_tensor_parallel_group_computes_has_one_cause(differ: tuple[bool, ...], reported: list[str]) -> None:
    from distcheck.runtime.coordination.drift import COMPUTED_INPUTS, drifts_of

    batch, computed, parameter = (1.0 + one for one in differ)
    rows = [
        row
        for step in (1, 2, 3, 4)
        for row in (
            *_input_rows("inputs 0,1", step, 1.0, batch),
            *_input_rows(f"{COMPUTED_INPUTS} 0,1", 2 * step - 1, 1.0, computed),
            *_input_rows(f"{COMPUTED_INPUTS} 0,1", 2 * step, 1.0, computed),
            *_model_rows(step, 1.0, parameter),
        )
    ]
    assert [drift.what for drift in drifts_of(rows)] == reported
    for final in (True, False):
        store, drifts = MemoryStore(), []  # type: ignore[var-annotated]
        for rank in (1, 0):
            mine = deque(row for row in rows if row.rank == rank)
            ReplicaExchange(mine, drifts.append, str).tick(store, rank, final)
        assert [drift.what for drift in drifts] == reported


def test_what_rounding_explains_is_no_difference_where_each_rank_computes_its_gradients() -> None:
    from distcheck.runtime.coordination.drift import drift_of

    from .test_drift import _rows

    def rows(step: int, *, computed: bool, by: float) -> list[ReplicaRow]:
        return [row._replace(computed=computed) for row in _rows(step, 1.0, 1.0 + by, 1.0)]

    def drifts(**more: Any) -> bool:
        return drift_of(rows(1, **more), rows(2, **more)) is not None

    assert [drifts(computed=computed, by=1e-5) for computed in (False, True)] == [True, False]
    assert drifts(computed=True, by=0.1)
