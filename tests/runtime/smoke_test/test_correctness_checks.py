"""The proof of the collectives: inputs that are exact, results that are right, and every kind of damage found."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.checks.cluster.records import Cluster, HostRecord, RankRecord
from distcheck.core.facts_file import from_plain
from distcheck.core.model import NotApplicable, Severity, Unavailable, to_plain
from distcheck.runtime.smoke_test.cases import COLLECTIVES, DTYPES, OBJECTS, REDUCTIONS, distances, make_plan
from distcheck.runtime.smoke_test.correctness import PEER_COPY, CorrectnessRun
from distcheck.runtime.smoke_test.correctness_checks import (
    MOST_MISMATCHES,
    CollectiveFailed,
    merge_rank_results,
    peer_copies_are_right,
    results_are_right,
    verify,
)
from distcheck.runtime.smoke_test.inputs import EXACT, INTEGERS, TABLE, RandomTables, make_terms
from distcheck.runtime.smoke_test.live_group import LiveGroup, Operations
from distcheck.runtime.smoke_test.model import Correctness, Options, RankCorrectness, Step, WrongResult

NO_CLUSTER = Unavailable("not given")
TENSORS = [name for name in COLLECTIVES if name not in (*OBJECTS, *REDUCTIONS, "barrier")]
#: What gloo does not have (torch 2.13): no job on gloo can use it, so that nothing of it is left unchecked.
NOT_IN_GLOO = {"all_reduce_premul_sum"}


# the inputs


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 128, 129, 255, 256, 257, 1000, 4096, 16384])
def test_every_partial_sum_is_exact(dtype: str, size: int) -> None:
    terms, most = make_terms(dtype, size)
    positive = sum(term for term in terms if term > 0)
    negative = sum(term for term in terms if term < 0)
    assert len(terms) == size
    assert positive + most <= EXACT[dtype]
    assert -negative <= EXACT[dtype]
    assert sum(terms) >= 0, "the sum with its addend is never 0: its sign shows"
    assert size == 1 or sum(terms) != terms[0], "the rank with the addend is not right alone"
    signs = {term > 0 for term in terms if term}
    assert size == 1 or signs == ({True} if dtype == "uint8" else {True, False})
    if size < EXACT[dtype] // (2 if dtype == "uint8" else 1):
        assert 0 not in terms, "every rank counts at every index"


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=25, deadline=None)
@given(size=st.integers(1, 4096), seed=st.integers(0, 2**32))
def test_sums_in_any_order_are_the_same(dtype: str, size: int, seed: int) -> None:
    """Added up in the dtype itself, one after another and as a tree, in random orders."""
    import torch

    made = getattr(torch, dtype)
    terms, most = make_terms(dtype, size)
    rotation = seed % size
    numbers = [terms[(rotation + rank) % size] for rank in range(size)]
    addend = 1 + seed % most
    numbers[-rotation % size] += addend
    right = sum(terms) + addend
    random.Random(seed).shuffle(numbers)
    values = torch.tensor(numbers, dtype=torch.int64).to(made)
    assert [int(value) for value in values.tolist()] == numbers
    running = torch.zeros((), dtype=made)
    for value in values[:300]:
        running = running + value
    for start in range(300, size, 64):
        running = running + _tree(values[start : start + 64])
    assert int(running.item()) == right
    assert int(_tree(values).item()) == right


def _tree(values: Any) -> Any:
    """The sum of neighbours, and of their sums, each rounded to the dtype."""
    while len(values) > 1:
        half = len(values) // 2
        pairs = values[:half] + values[half : 2 * half]
        values = pairs if len(values) % 2 == 0 else _joined(pairs, values[-1:])
    return values[0]


def _joined(*parts: Any) -> Any:
    import torch

    return torch.cat(parts)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 300])
def test_the_expected_sum_is_the_sum_of_all_inputs(dtype: str, size: int) -> None:
    """Also where the buffer runs through several pieces of the table, and where it begins in the midst of one."""
    import torch

    start, elements = TABLE - 500, 1021
    made = getattr(torch, dtype)
    added = torch.zeros(elements, dtype=made)
    for rank in range(size):
        tables = RandomTables(rank, size, torch.device("cpu"))
        mine = tables.empty(dtype, elements)
        tables.sum_input(dtype, 99, start, mine)
        added = added + mine
        whole = tables.empty(dtype, start + elements)
        if rank == 0:
            tables.sum_input(dtype, 99, 0, whole)
            assert torch.equal(whole[start:], mine), "an index has one value, wherever the buffer begins"
            first = mine
    right = torch.cat([block for _, _, block in tables.sum_blocks(dtype, 99, start, start + elements)])
    assert torch.equal(added, right)
    assert len(set(right.tolist())) > elements // 20, "places can be told apart"
    assert tables.contributions(dtype, 99, [start, start + 600])[0] == [int(first[0]), int(first[600])]


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_differ_by_place_and_by_stream(dtype: str) -> None:
    import torch

    tables = RandomTables(0, 2, torch.device("cpu"))
    one, other = tables.empty(dtype, 3 * TABLE), tables.empty(dtype, 3 * TABLE)
    assert not torch.equal(one, one) or dtype in INTEGERS, "what is not written is no number"
    tables.copy_input(dtype, 7, 0, one)
    tables.copy_input(dtype, 8, 0, other)
    assert torch.isfinite(one).all()
    bits = tables.bits_dtype(dtype)
    for left, right in ((one, other), (one[:-1], one[1:]), (one[:TABLE], one[TABLE : 2 * TABLE])):
        assert (left.view(bits) == right.view(bits)).float().mean() < (0.006 if dtype == "uint8" else 0.001)


# what is tried


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8, 16, 1024])
@pytest.mark.parametrize("crowded", [False, True])
def test_every_collective_and_every_dtype_is_tried(size: int, crowded: bool) -> None:
    plan = make_plan(size, crowded=crowded)
    essential = {trial.collective for trial in plan.essential}
    alone = {"send_recv", "barrier"} if size == 1 else set()
    assert essential == set(COLLECTIVES) - alone
    assert {trial.dtype for trial in plan.essential} >= set(DTYPES)
    assert len(plan.essential) <= 50
    assert len(plan.essential) + len(plan.additional) <= 115
    streams = [trial.stream for trial in (*plan.essential, *plan.additional)]
    assert len(set(streams)) == len(streams), "no two trials send the same numbers"
    assert not set(streams) & {trial.stream for trial in make_plan(size, crowded=crowded, repetition=1).essential}
    assert all(0 <= trial.root < size for trial in (*plan.essential, *plan.additional))


@pytest.mark.parametrize(("device", "backend"), [("cpu", "gloo"), ("cuda", "nccl")])
def test_small_odd_and_large_sizes_are_tried(device: str, backend: str) -> None:
    plan = make_plan(2, device=device, backend=backend)
    for collective in TENSORS:
        sizes = {
            trial.elements
            for trial in (*plan.essential, *plan.additional)
            if trial.collective == collective and trial.dtype == "float32"
        }
        assert {1, 1021} <= sizes
        assert max(sizes) > 100_000
        assert all(elements % 2 for elements in sizes)


def test_gloo_sends_no_tensors_of_gpus() -> None:
    plan = make_plan(2, device="cuda", backend="gloo")
    assert "send_recv" not in {trial.collective for trial in (*plan.essential, *plan.additional)}
    assert "send_recv" in {trial.collective for trial in make_plan(2, device="cuda", backend="nccl").essential}


@given(st.integers(1, 200))
def test_both_neighbours_and_one_far_away_are_met(size: int) -> None:
    found = distances(size)
    assert len(set(found)) == len(found) == min(3, size - 1)
    if size > 1:
        assert {1, size - 1} <= set(found)
        assert any(min(step, size - step) == size // 2 for step in found)


class Simulated(Operations):
    """What one rank of a group of any size gets: the contributions of the others are made here."""

    def __init__(self, size: int) -> None:
        self.size = size

    def reduction(self, collective: str, dtype: str) -> None:
        import torch

        everyone = [RandomTables(rank, self.size, torch.device("cpu")) for rank in range(self.size)]
        parts = []
        for tables in everyone:
            tensor = tables.empty(dtype, 501)
            tables.reduction_input(collective, dtype, 77, tensor)
            parts.append(tensor)
        stack = torch.stack(parts)
        seen = {
            "all_reduce_min": lambda: stack.amin(0),
            "all_reduce_max": lambda: stack.amax(0),
            "all_reduce_product": lambda: stack.prod(0, dtype=stack.dtype),
            "all_reduce_avg": lambda: (stack * (1.0 / self.size)).sum(0).round(),
            "all_reduce_premul_sum": lambda: (stack * 2).sum(0),
        }[collective]()
        blocks = list(everyone[-1].reduction_blocks(collective, dtype, 77, 501))
        assert torch.equal(torch.cat([block for _, _, block in blocks]), seen)
        if dtype != "bool":
            assert len(set(seen.tolist())) > 100


@pytest.mark.torch
@pytest.mark.parametrize("size", [1, 2, 3, 8, 100, 300])
@pytest.mark.parametrize(
    ("collective", "dtype"), [(name, dtype) for name, (_, dtypes) in REDUCTIONS.items() for dtype in dtypes]
)
def test_the_expected_result_of_a_reduction_is_that_of_all_inputs(collective: str, dtype: str, size: int) -> None:
    Simulated(size).reduction(collective, dtype)


# real groups


def faulty(name: str, damage: Callable[..., Any]) -> Callable[[int], Operations]:
    """Operations with one method replaced: it calls ``damage(rank, the real method, *arguments)``."""

    def make(rank: int) -> Operations:
        operations = Operations()
        real = getattr(operations, name)
        setattr(operations, name, lambda *arguments: damage(rank, real, *arguments))
        return operations

    return make


def cases() -> dict[str, Callable[[int], Operations]]:
    """All damages, by name; n is 3."""
    found: dict[str, Callable[[int], Operations]] = {"healthy": lambda _: Operations()}

    def case(name: str, method: str) -> Callable[[Callable[..., Any]], None]:
        def take(damage: Callable[..., Any]) -> None:
            found[name] = faulty(method, damage)

        return take

    @case("one element", "all_reduce")
    def _(rank: int, real: Any, tensor: Any) -> None:
        real(tensor)
        if rank == 1 and len(tensor) > 700 and str(tensor.dtype) == "torch.float32":
            tensor[700] += 1

    @case("first element of every sum", "all_reduce")
    def _(rank: int, real: Any, tensor: Any) -> None:
        real(tensor)
        if rank == 1:
            tensor[0] += 1

    @case("rank dropped", "all_reduce")
    def _(rank: int, real: Any, tensor: Any) -> None:
        if rank == 2:
            tensor.zero_()
        real(tensor)

    @case("rank counted twice", "all_reduce")
    def _(rank: int, real: Any, tensor: Any) -> None:
        if rank == 0 and tensor.is_floating_point():
            tensor += tensor.clone()
        real(tensor)

    @case("largest one off by one", "all_reduce_by")
    def _(rank: int, real: Any, tensor: Any, name: str, factor: float) -> None:
        real(tensor, name, factor)
        if rank == 1 and name == "MAX" and len(tensor) > 7 and tensor.dtype != _torch().bool:
            tensor[7] -= 1

    @case("any is all", "all_reduce_by")
    def _(rank: int, real: Any, tensor: Any, name: str, factor: float) -> None:
        real(tensor, "MIN" if name == "MAX" and tensor.dtype == _torch().bool else name, factor)

    @case("smallest is largest", "all_reduce_by")
    def _(rank: int, real: Any, tensor: Any, name: str, factor: float) -> None:
        other = tensor.clone()
        real(tensor, name, factor)
        if name == "MIN" and len(tensor) > 1:
            real(other, "MAX", factor)
            if rank == 2:
                tensor.copy_(other)

    @case("product without a sign", "all_reduce_by")
    def _(rank: int, real: Any, tensor: Any, name: str, factor: float) -> None:
        real(tensor, name, factor)
        if rank == 0 and name == "PRODUCT" and len(tensor) > 1:
            tensor *= -1

    @case("average not divided", "all_reduce_by")
    def _(rank: int, real: Any, tensor: Any, name: str, factor: float) -> None:
        real(tensor, "SUM" if name == "AVG" else name, factor)

    @case("average off by one", "all_reduce_by")
    def _(rank: int, real: Any, tensor: Any, name: str, factor: float) -> None:
        real(tensor, name, factor)
        if rank == 2 and name == "AVG" and len(tensor) > 1:
            tensor[-1] += 1

    @case("rank dropped in one chunk", "reduce_scatter")
    def _(rank: int, real: Any, output: Any, tensor: Any) -> None:
        fixed = tensor.clone()
        if rank == 1:
            fixed[: len(output)] = 0
        real(output, fixed)

    @case("nothing happens", "all_reduce")
    def _(rank: int, real: Any, tensor: Any) -> None:
        kept = tensor.clone()
        real(tensor)
        if rank == 2 and len(tensor) > 200:
            tensor.copy_(kept)

    @case("not written", "broadcast")
    def _(rank: int, real: Any, tensor: Any, source: int) -> None:
        kept = tensor.clone()
        real(tensor, source)
        if rank == 1:
            tensor.copy_(kept)

    @case("chunks swapped", "all_gather")
    def _(rank: int, real: Any, output: Any, tensor: Any) -> None:
        real(output, tensor)
        if rank == 0:
            part = len(tensor)
            first = output[:part].clone()
            output[:part] = output[part : 2 * part]
            output[part : 2 * part] = first

    @case("stale part", "gather")
    def _(rank: int, real: Any, outputs: Any, tensor: Any, target: int) -> None:
        real(outputs, tensor, target)
        if outputs is not None:
            outputs[1].copy_(outputs[0])

    @case("another's part", "scatter")
    def _(rank: int, real: Any, tensor: Any, inputs: Any, source: int) -> None:
        mixed = None if inputs is None else [inputs[1], inputs[0], *inputs[2:]]
        real(tensor, mixed, source)

    @case("sign", "reduce_scatter")
    def _(rank: int, real: Any, output: Any, tensor: Any) -> None:
        real(output, tensor)
        if rank == 2:
            output[-1] *= -1

    @case("rounded once", "all_reduce")
    def _(rank: int, real: Any, tensor: Any) -> None:
        real(tensor)
        if rank == 0 and str(tensor.dtype) == "torch.float32" and len(tensor) > 5:
            tensor[5] = tensor[5].bfloat16().float()

    @case("only the largest size", "all_to_all")
    def _(rank: int, real: Any, output: Any, tensor: Any) -> None:
        real(output, tensor)
        if rank == 1 and len(output) > 10_000:
            output[-1] = 0.25

    @case("only int64", "reduce")
    def _(rank: int, real: Any, tensor: Any, target: int) -> None:
        real(tensor, target)
        if str(tensor.dtype) == "torch.int64":
            tensor[-1] ^= 1 << 40

    @case("one too far", "all_to_all")
    def _(rank: int, real: Any, output: Any, tensor: Any) -> None:
        real(output, tensor)
        if rank == 2:
            output.copy_(output.roll(1))

    @case("neighbour's segment", "reduce_scatter")
    def _(rank: int, real: Any, output: Any, tensor: Any) -> None:
        real(output, tensor.roll(len(output)))

    @case("sent buffer changed", "all_gather")
    def _(rank: int, real: Any, output: Any, tensor: Any) -> None:
        real(output, tensor)
        if rank == 1:
            tensor[3] = 0

    @case("one bit on the way", "exchange")
    def _(rank: int, real: Any, outgoing: Any, incoming: Any, peer: int, source: int) -> None:
        real(outgoing, incoming, peer, source)
        if (rank, source) == (2, 1):
            incoming.view(_torch().int32)[-1] ^= 1

    @case("received from another", "receive")
    def _(rank: int, real: Any, tensor: Any, source: int) -> None:
        real(tensor, source)
        if rank == 0:
            tensor.fill_(1)

    @case("no barrier", "barrier")
    def _(rank: int, real: Any) -> None:
        pass

    @case("object of another", "all_gather_object")
    def _(rank: int, real: Any, value: object, size: int) -> list[object]:
        values: list[object] = real(value, size)
        if rank == 1:
            values[2] = values[0]
        return values

    @case("object cut", "scatter_object")
    def _(rank: int, real: Any, values: Any, source: int) -> object:
        found = real(values, source)
        return {**found, "bytes": found["bytes"][:-1]} if rank == 2 else found

    return found


def _torch() -> Any:
    import torch

    return torch


def worker(rank: int, size: int, folder: str, names: list[str], cores: int, check: int) -> None:
    """One rank of a gloo group: a proof for each case, one file for all of them."""
    import os
    import warnings

    import torch
    import torch.distributed as dist

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    found = {}
    for name in names:
        steps: list[Step] = []
        live = LiveGroup(
            rank, size, "gloo", torch.device("cpu"), Options(check=check), cases()[name](rank), (0,) * size, cores,
            steps.append,
        )  # fmt: skip
        found[name] = [to_plain(verify(live)), len(steps), sorted({step.collective for step in steps})]
        dist.barrier()
    Path(folder, f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()
    os._exit(0)


def run_group(folder: Path, size: int, names: list[str], *, cores: int = 1, check: int = 1) -> dict[str, list[Any]]:
    """The proofs of all ranks, by case."""
    import torch.multiprocessing

    torch.multiprocessing.start_processes(
        worker, args=(size, str(folder), names, cores, check), nprocs=size, start_method="fork"
    )
    found = [json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(size)]
    return {name: [from_plain(RankCorrectness, one[name][0]) for one in found] for name in names}


def has_numpy() -> bool:
    import torch

    try:
        torch.zeros(1).numpy()
    except RuntimeError:
        return False
    return True


@pytest.mark.torch
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_good_dc510_a_healthy_group(size: int, tmp_path: Path) -> None:
    proofs = run_group(tmp_path, size, ["healthy"], cores=size, check=2 if size == 2 else 1)["healthy"]
    proof = merge_rank_results(proofs, size)
    assert proof.mismatches == ()
    assert proof.wrong_ranks == ()
    assert proof.failures == ()
    assert proof.checks > 60 * size
    assert set(proof.dtypes) == {*DTYPES, "bool"}
    missing = set(OBJECTS) if not has_numpy() else set()
    missing |= {"send_recv", "barrier"} if size == 1 else set()
    assert set(proof.collectives) == set(COLLECTIVES) - missing - NOT_IN_GLOO
    assert {name for what, _ in proof.skipped for name in what.split(", ")} == missing
    assert list(results_are_right(proof, NO_CLUSTER)) == []


def _as_in_torch_2_4(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch.distributed before torch 2.6: it does not know ranks of a group."""

    def older(*values: Any, **named: Any) -> Any:
        unknown = named.keys() & {"group_src", "group_dst", "group_peer"}
        if unknown:
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {min(unknown)!r}")
        return function(*values, **named)

    return older


@pytest.mark.torch
def test_good_dc510_the_oldest_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is a part of the job: its ranks have other numbers there."""
    import torch.distributed as dist
    import torch.multiprocessing

    for name in (
        "broadcast", "reduce", "gather", "scatter", "send", "recv", "P2POp",
        "broadcast_object_list", "gather_object", "scatter_object_list",
    ):  # fmt: skip
        monkeypatch.setattr(dist, name, _as_in_torch_2_4(getattr(dist, name)))
    torch.multiprocessing.start_processes(_in_a_part, args=(str(tmp_path),), nprocs=4, start_method="fork")
    proofs = [from_plain(RankCorrectness, json.loads((tmp_path / f"{rank}.json").read_text())) for rank in range(3)]
    proof = merge_rank_results(proofs, 3)
    assert (proof.mismatches, proof.failures) == ((), ())
    assert set(proof.collectives) >= set(COLLECTIVES) - set(OBJECTS) - NOT_IN_GLOO


def _in_a_part(rank: int, folder: str) -> None:
    """One of four ranks; ranks 1 to 3 are the group."""
    import os

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=4)
    group = dist.new_group([1, 2, 3])
    if rank:
        live = LiveGroup(
            rank - 1, 3, "gloo", torch.device("cpu"), Options(), Operations(group), (0,) * 3, 3, lambda _: None
        )
        Path(folder, f"{rank - 1}.json").write_text(json.dumps(to_plain(verify(live))), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[RankCorrectness]]:
    """Proofs of three ranks for every damage, in one group."""
    return run_group(tmp_path_factory.mktemp("damaged"), 3, list(cases()))


@pytest.mark.torch
def test_more_ranks_than_cores_are_tried_less_and_it_is_said(damaged: dict[str, list[RankCorrectness]]) -> None:
    proof = merge_rank_results(damaged["healthy"], 3)
    assert proof.mismatches == ()
    assert any("more ranks than cores" in why for _, why in proof.skipped)
    assert set(proof.dtypes) == {*DTYPES, "bool"}
    assert set(proof.collectives) >= set(COLLECTIVES) - set(OBJECTS) - NOT_IN_GLOO


#: case → collective, dtypes, ranks that see it, first index (None: not said), source
DAMAGES = {
    "one element": ("all_reduce", ("float32",), (1,), 700, None),
    "first element of every sum": ("all_reduce", DTYPES, (1,), 0, None),
    "rank dropped": ("all_reduce", DTYPES, (0, 1, 2), None, 2),
    "rank counted twice": ("all_reduce", ("float32", "float16", "bfloat16", "float64"), (0, 1, 2), None, 0),
    "rank dropped in one chunk": ("reduce_scatter", DTYPES, (0,), None, 1),
    "largest one off by one": ("all_reduce_max", ("float32", "int64"), (1,), 7, None),
    "any is all": ("all_reduce_max", ("bool",), (0, 1, 2), None, None),
    "smallest is largest": ("all_reduce_min", ("float32", "int64", "bool"), (2,), None, None),
    "product without a sign": ("all_reduce_product", ("float32", "int64"), (0,), None, None),
    "average not divided": ("all_reduce_avg", ("float32",), (0, 1, 2), 0, None),
    "average off by one": ("all_reduce_avg", ("float32",), (2,), 1020, None),
    "nothing happens": ("all_reduce", DTYPES, (2,), None, None),
    "not written": ("broadcast", ("float32",), (1,), 0, None),
    "chunks swapped": ("all_gather", ("float32",), (0,), 0, None),
    "stale part": ("gather", ("float32",), (1, 2), None, 1),
    "another's part": ("scatter", ("float32",), (0, 1), 0, None),
    "sign": ("reduce_scatter", DTYPES, (2,), 1020, None),
    "rounded once": ("all_reduce", ("float32",), (0,), 5, None),
    "only the largest size": ("all_to_all", ("float32",), (1,), 65534, 2),
    "only int64": ("reduce", ("int64",), None, 1020, None),
    "one too far": ("all_to_all", ("float32",), (2,), 0, None),
    "neighbour's segment": ("reduce_scatter", DTYPES, (0, 1, 2), None, None),
    "sent buffer changed": ("all_gather (input)", ("float32",), (1,), 3, None),
    "one bit on the way": ("send_recv", ("float32",), (2,), 1020, 1),
    "received from another": ("send_recv", ("float32",), (0,), 0, 2),
    "no barrier": ("barrier", ("",), (1, 2), 0, 0),
    "object of another": ("all_gather_object", ("object",), (1,), 2, 2),
    "object cut": ("scatter_object", ("object",), (2,), 0, None),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", DAMAGES)
def test_bad_dc510_damage_is_found(name: str, damaged: dict[str, list[RankCorrectness]]) -> None:
    collective, dtypes, ranks, index, source = DAMAGES[name]
    if "object" in dtypes and not has_numpy():
        pytest.skip("torch needs NumPy for object collectives")
    proof = merge_rank_results(damaged[name], 3)
    assert {item.collective for item in proof.mismatches} == {collective}
    assert {item.dtype for item in proof.mismatches} == set(dtypes)
    if ranks is None:  # the root of that trial
        assert len(proof.wrong_ranks) == 1
    else:
        assert proof.wrong_ranks == ranks
    for item in proof.mismatches:
        assert index is None or item.first_index == index
        assert source is None or item.source == source
        assert item.expected != item.seen
        assert 0 < item.wrong <= item.elements
    (finding,) = results_are_right(proof, NO_CLUSTER)
    assert (finding.code, finding.severity) == ("DC510", Severity.ERROR)
    assert collective.split()[0] in finding.message


@pytest.mark.torch
def test_only_the_damaged_elements_are_counted(damaged: dict[str, list[RankCorrectness]]) -> None:
    (item,) = damaged["one element"][1].mismatches
    assert (item.wrong, item.elements, item.size_bytes) == (1, 1021, 4084)
    assert float(item.seen) == float(item.expected) + 1
    (item,) = damaged["not written"][1].mismatches
    assert item.seen == "nan"
    (item,) = damaged["only the largest size"][1].mismatches
    assert item.size_bytes > 200_000
    assert item.seen == "0.25"


# a group of threads: any number of ranks, and nobody forgives a wrong order


class Threads:
    """Blocking sends and exchanges between threads: both sides must meet."""

    def __init__(self, size: int) -> None:
        import queue

        self.ways = {
            (source, target): (queue.Queue[Any](1), queue.Queue[Any](1))
            for source in range(size)
            for target in range(size)
        }

    def of(self, rank: int) -> Operations:
        return _Thread(self, rank)


class _Thread(Operations):
    def __init__(self, group: Threads, rank: int) -> None:
        self.threads = group
        self.rank = rank

    def send(self, tensor: Any, target: int) -> None:
        way, taken = self.threads.ways[self.rank, target]
        way.put(tensor.clone(), timeout=20)
        taken.get(timeout=20)

    def receive(self, tensor: Any, source: int) -> None:
        way, taken = self.threads.ways[source, self.rank]
        tensor.copy_(way.get(timeout=20))
        taken.put(None)

    def exchange(self, outgoing: Any, incoming: Any, peer: int, source: int | None = None) -> None:
        self.threads.ways[self.rank, peer][0].put(outgoing.clone(), timeout=20)
        sender = peer if source is None else source
        incoming.copy_(self.threads.ways[sender, self.rank][0].get(timeout=20))


@pytest.mark.torch
@pytest.mark.parametrize("size", [2, 3, 5, 8, 9])
def test_sends_meet_their_receives(size: int) -> None:
    import torch

    group = Threads(size)
    found: dict[int, RankCorrectness] = {}

    def rank(number: int) -> None:
        live = LiveGroup(
            number, size, "gloo", torch.device("cpu"), Options(), group.of(number), (0,) * size, size, lambda _: None
        )
        prover = CorrectnessRun(live)
        plan = make_plan(size)
        prover.run(trial for trial in (*plan.essential, *plan.additional) if trial.collective == "send_recv")
        found[number] = prover.result()

    threads = [threading.Thread(target=rank, args=(number,), daemon=True) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == list(range(size))
    assert all(proof.checks >= 10 and not proof.mismatches for proof in found.values())


# one rank without any group


class Alone(Operations):
    """What a group of one does."""

    def __init__(self) -> None:
        pass

    def all_reduce(self, tensor: Any) -> None:
        pass

    def all_reduce_by(self, tensor: Any, name: str, factor: float = 1.0) -> None:
        if name == "PREMUL_SUM":
            tensor *= factor

    def broadcast(self, tensor: Any, source: int) -> None:
        pass

    def reduce(self, tensor: Any, target: int) -> None:
        pass

    def all_gather(self, output: Any, tensor: Any) -> None:
        output.copy_(tensor)

    reduce_scatter = all_gather
    all_to_all = all_gather

    def gather(self, outputs: list[Any] | None, tensor: Any, target: int) -> None:
        assert outputs is not None
        outputs[0].copy_(tensor)

    def scatter(self, tensor: Any, inputs: list[Any] | None, source: int) -> None:
        assert inputs is not None
        tensor.copy_(inputs[0])

    def all_gather_object(self, value: object, size: int) -> list[Any]:
        return [value]

    def broadcast_object(self, value: object, source: int, device: Any = None) -> object:
        return value

    def gather_object(self, value: object, target: int, rank: int, size: int) -> list[Any] | None:
        return [value]

    def scatter_object(self, values: list[Any] | None, source: int) -> object:
        assert values is not None
        return values[0]


def alone(operations: Operations, announce: Callable[[Step], None] = lambda _: None) -> LiveGroup:
    import torch

    return LiveGroup(0, 1, "gloo", torch.device("cpu"), Options(), operations, (0,), 2, announce)


@pytest.mark.torch
def test_one_rank_proves_what_has_a_meaning() -> None:
    proof = verify(alone(Alone()))
    assert proof.mismatches == ()
    assert ("send_recv, barrier", "needs two ranks") in proof.skipped
    assert {"all_reduce", "all_to_all", "gather"} <= set(proof.collectives)


@pytest.mark.torch
def test_each_step_is_announced_before_it_begins() -> None:
    said: list[str] = []

    class Telling(Alone):
        def all_to_all(self, output: Any, tensor: Any) -> None:
            said.append("called")
            super().all_to_all(output, tensor)

    verify(alone(Telling(), lambda step: said.append(step.collective)))
    assert said.count("called") == said.count("all_to_all") > 1
    assert all(said[place - 1] == "all_to_all" for place, word in enumerate(said) if word == "called")


@pytest.mark.torch
def test_what_a_collective_raises_ends_the_proof() -> None:
    steps: list[Step] = []

    class Raising(Alone):
        def reduce(self, tensor: Any, target: int) -> None:
            if str(tensor.dtype) == "torch.bfloat16":
                raise RuntimeError("Invalid scalar type")

    with pytest.raises(CollectiveFailed) as caught:
        verify(alone(Raising(), steps.append))
    assert caught.value.step == steps[-1] == Step("verify", "reduce", "bfloat16", 2042)
    assert caught.value.text == "RuntimeError: Invalid scalar type"
    assert caught.value.proof.failures == (("reduce bfloat16 2.0 KiB", "RuntimeError: Invalid scalar type"),)
    assert caught.value.proof.checks > 10


@pytest.mark.torch
def test_objects_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where this torch has no NumPy: the comparison is ours."""

    class Cut(Alone):
        def gather_object(self, value: object, target: int, rank: int, size: int) -> list[Any] | None:
            return []

        def broadcast_object(self, value: object, source: int, device: Any = None) -> object:
            return None

    monkeypatch.setattr("distcheck.runtime.smoke_test.correctness._has_numpy", lambda torch: True)
    proof = verify(alone(Cut()))
    assert {item.collective: item.seen for item in proof.mismatches} == {
        "gather_object": "nothing",
        "broadcast_object": "None",
    }
    assert not verify(alone(Alone())).mismatches
    monkeypatch.setattr("distcheck.runtime.smoke_test.correctness._has_numpy", lambda torch: False)
    proof = verify(alone(Cut()))
    assert proof.mismatches == ()
    assert any("NumPy" in why for _, why in proof.skipped)


@pytest.mark.torch
def test_a_copy_to_another_device_is_compared() -> None:
    import torch

    prover = CorrectnessRun(alone(Alone()))
    prover.copy_to(torch.device("cpu"))
    assert prover.result().mismatches == ()
    calls = []

    def lossy(target: Any, source: Any) -> None:
        target.copy_(source)
        calls.append(len(target))
        if len(calls) == 2:
            target[12345:12350] = 0

    prover.copy_to(torch.device("cpu"), lossy)
    (item,) = prover.result().mismatches
    assert (item.collective, item.wrong, item.first_index, item.seen) == (PEER_COPY, 5, 12345, "0.0")


# many ranks together


def wrong(rank: int, collective: str = "all_reduce", dtype: str = "float32", **changes: Any) -> WrongResult:
    return WrongResult(rank, collective, dtype, 4 << 20, 1, 1 << 20, 77, "12.0", "13.0")._replace(**changes)


def test_proofs_are_merged() -> None:
    parts = [
        RankCorrectness(0, 10, (), (("barrier", "needs two ranks"),), (), 1.0, ("all_reduce",), ("float32",)),
        RankCorrectness(
            3, 10, (wrong(3), wrong(3, first_index=99), wrong(3, dtype="int64")), (), (), 2.5, ("all_reduce",)
        ),
        RankCorrectness(5, 10, (wrong(5, "gather"),), (("barrier", "needs two ranks"),), (("step", "text"),)),
    ]
    proof = merge_rank_results(iter(parts), 8)
    assert (proof.ranks, proof.world_size, proof.checks, proof.elapsed_s) == (3, 8, 30, 2.5)
    assert [(item.rank, item.collective, item.dtype, item.first_index) for item in proof.mismatches] == [
        (3, "all_reduce", "float32", 77),
        (3, "all_reduce", "int64", 77),
        (5, "gather", "float32", 77),
    ]
    assert proof.wrong_ranks == (3, 5)
    assert proof.wrong == (("all_reduce", "3"), ("gather", "5"))
    assert proof.skipped == (("barrier", "needs two ranks"),)
    assert proof.failures == (("step", "text"),)
    assert from_plain(Correctness, json.loads(json.dumps(to_plain(proof)))) == proof


def test_merging_keeps_few_of_many_and_names_all() -> None:
    parts = (
        RankCorrectness(
            rank, 40, tuple(wrong(rank, name) for name in ("all_reduce", "gather") if rank % 2 or name == "gather")
        )
        for rank in range(16384)
    )
    proof = merge_rank_results(parts, 16384)
    assert len(proof.mismatches) == MOST_MISMATCHES
    assert {item.collective for item in proof.mismatches} == {"all_reduce", "gather"}
    assert len(proof.wrong_ranks) == 16384
    assert dict(proof.wrong)["gather"] == "0-16383"


def test_a_barrier_is_not_blamed_for_the_sum_that_it_is_proved_by() -> None:
    barrier = wrong(1, "barrier", "", source=0)
    assert merge_rank_results([RankCorrectness(0), RankCorrectness(1, 1, (barrier,))], 2).wrong_ranks == (1,)
    both = merge_rank_results([RankCorrectness(0, 1, (wrong(0),)), RankCorrectness(1, 1, (barrier,))], 2)
    assert [item.collective for item in both.mismatches] == ["all_reduce"]


# judging


def proof_of(*mismatches: WrongResult, size: int = 8) -> Correctness:
    by_rank: dict[int, list[WrongResult]] = {}
    for item in mismatches:
        by_rank.setdefault(item.rank, []).append(item)
    return merge_rank_results([RankCorrectness(rank, 50, tuple(by_rank.get(rank, ()))) for rank in range(size)], size)


def hosts(backend: str | None = "nccl") -> Cluster:
    return Cluster(
        (
            HostRecord("gpu01", tuple(RankRecord(rank) for rank in range(4))),
            HostRecord("gpu02", tuple(RankRecord(rank) for rank in range(4, 8))),
        ),
        backend,
        8,
    )


@pytest.mark.parametrize(
    ("mismatches", "words", "suspects"),
    [
        pytest.param(
            [wrong(3)],
            ["wrong result on rank 3: 1 of 1048576", "index 77", "expected 12.0, seen 13.0"],
            [3],
            id="one rank",
        ),
        pytest.param(
            [wrong(rank) for rank in range(8)], ["all 8 ranks: on rank 0, 1 of"], [], id="all ranks, nothing tells why"
        ),
        pytest.param(
            [wrong(rank, source=5) for rank in range(8)],
            ["all 8 ranks", "contribution of rank 5 on gpu02 is missing or counted twice"],
            [5],
            id="all ranks miss one",
        ),
        pytest.param(
            [wrong(rank, "all_gather", source=5) for rank in range(8) if rank != 5],
            ["ranks 0-4,6-7", "came from rank 5"],
            [5],
            id="several receive it wrong from one",
        ),
        pytest.param(
            [wrong(2, "all_to_all", source=6)], ["between rank 2 on gpu01 and rank 6 on gpu02"], [2, 6], id="one way"
        ),
        pytest.param([wrong(2, "all_to_all")], ["on rank 2"], [2], id="one receives it wrong from several"),
        pytest.param(
            [wrong(rank, "broadcast", source=7) for rank in (1, 2)],
            ["ranks 1-2"],
            [],
            id="some receivers of a broadcast",
        ),
        pytest.param(
            [wrong(rank, "broadcast", source=7) for rank in range(7)],
            ["came from rank 7"],
            [7],
            id="all receivers of it",
        ),
        pytest.param(
            [wrong(4, "all_gather (input)")], ["changed what rank 4 had only to send"], [4], id="input changed"
        ),
        pytest.param(
            [wrong(1, "barrier", "", source=0, seen="0.3 ms", expected="at least 20 ms")],
            ["lets rank 1 go on before rank 0 has come", "waited 0.3 ms"],
            [],
            id="barrier",
        ),
        pytest.param(
            [wrong(1, "gather_object", "object", wrong=2, elements=8, size_bytes=0)],
            ["gather_object gives a wrong result on rank 1", "2 of 8 objects"],
            [1],
            id="objects",
        ),
    ],
)
def test_bad_dc510(mismatches: list[WrongResult], words: list[str], suspects: list[int]) -> None:
    (finding,) = results_are_right(proof_of(*mismatches), hosts())
    assert (finding.code, finding.severity, finding.where.phase) == ("DC510", Severity.ERROR, "verify")
    assert all(word in finding.message for word in words), finding.message
    assert not finding.message.endswith(".")
    assert finding.evidence["suspects"] == suspects
    named = {"gpu01" if rank < 4 else "gpu02" for rank in suspects}
    assert all(host in finding.fix.text for host in named) or "barrier" in finding.message
    json.dumps(to_plain(finding.evidence))


def test_bad_dc510_the_fix_is_for_the_backend() -> None:
    (finding,) = results_are_right(proof_of(wrong(3)), hosts("nccl"))
    assert "NCCL_P2P_DISABLE=1" in finding.fix.text
    assert "exclude gpu01" in finding.fix.text
    assert finding.where.host == "gpu01"
    (finding,) = results_are_right(proof_of(wrong(3)), hosts("gloo"))
    assert "NCCL" not in finding.fix.text
    (finding,) = results_are_right(proof_of(wrong(3)), NO_CLUSTER)
    assert finding.where.host is None


def test_bad_dc510_one_finding_for_each_collective_and_few_in_all() -> None:
    many = [wrong(rank, name, dtype) for rank in range(8) for name in TENSORS for dtype in ("float32", "int64")]
    findings = list(results_are_right(proof_of(*many), hosts()))
    assert [finding.where.object for finding in findings] == TENSORS[:3]
    assert set(findings[0].evidence["other_collectives"]) == set(TENSORS[1:])
    assert all(finding.evidence["wrong_ranks"] == 8 for finding in findings)


def test_bad_dc510_does_not_grow_with_the_ranks() -> None:
    few = [
        len(str(item))
        for item in results_are_right(proof_of(*[wrong(rank) for rank in range(0, 64, 2)], size=64), NO_CLUSTER)
    ]
    many = proof_of(*[wrong(rank) for rank in range(0, 16384, 2)], size=16384)
    (finding,) = results_are_right(many, NO_CLUSTER)
    assert "8192 of 16384 ranks (0,2,4,6 …)" in finding.message
    assert len(str(finding)) < few[0] + 100


def test_good_dc510() -> None:
    assert list(results_are_right(proof_of(), hosts())) == []
    assert list(results_are_right(proof_of(wrong(0, PEER_COPY)), hosts())) == [], "that is DC336"


def test_bad_dc336() -> None:
    (finding,) = peer_copies_are_right(proof_of(wrong(5, PEER_COPY)), hosts())
    assert (finding.code, finding.severity, finding.where.host) == ("DC336", Severity.ERROR, "gpu02")
    assert "GPU of rank 5" in finding.message
    assert "iommu=pt" in finding.fix.text
    (finding,) = peer_copies_are_right(proof_of(*[wrong(rank, PEER_COPY) for rank in range(8)]), NO_CLUSTER)
    assert "all 8 ranks" in finding.message


def test_good_dc336() -> None:
    copied = RankCorrectness(0, 50, collectives=("all_reduce", PEER_COPY))
    assert list(peer_copies_are_right(merge_rank_results([copied], 1), hosts())) == []


def test_good_dc336_is_not_judged_where_nothing_was_copied() -> None:
    with pytest.raises(NotApplicable):
        list(peer_copies_are_right(proof_of(wrong(3)), hosts()))
    skipped = RankCorrectness(0, 50, (), ((PEER_COPY, "GPUs here have no direct access to each other's memory"),))
    with pytest.raises(NotApplicable):
        list(peer_copies_are_right(merge_rank_results([skipped], 1), hosts()))


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Processes are forked below: this one must never have started torch's threads."""
    try:
        import torch
    except ImportError:
        yield
        return
    torch.set_num_threads(1)
    yield
