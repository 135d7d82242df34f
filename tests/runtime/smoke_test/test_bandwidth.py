"""Sizes, formulas, and real measurements on a few gloo ranks; on a GPU also beside a plain loop of torch."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.core.facts_file import from_plain
from distcheck.core.model import to_plain
from distcheck.runtime.smoke_test import bandwidth
from distcheck.runtime.smoke_test.bandwidth import (
    COLLECTIVES,
    algbw,
    bus_factor,
    busbw,
    chosen,
    collective_name,
    estimate_s,
    measure,
    sizes,
)
from distcheck.runtime.smoke_test.live_group import LiveGroup, Operations
from distcheck.runtime.smoke_test.model import Measurements, Options, Step

pytestmark = pytest.mark.quiet

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
RANKS = st.integers(2, 20_000)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("names", "hosts", "ranks"),
    [
        pytest.param("abcd", (0, 0, 0, 0), (1, 1, 1, 1), id="Slurm shows each task one GPU"),
        pytest.param("aabb", (0, 0, 0, 0), (2, 2, 2, 2), id="two ranks a GPU"),
        pytest.param("0000", (0, 0, 1, 1), (2, 2, 2, 2), id="torch gives numbers only"),
        pytest.param("abab", (0, 0, 1, 1), (1, 1, 1, 1), id="the same name on another host"),
    ],
)
def test_ranks_that_share_a_gpu(names: str, hosts: tuple[int, ...], ranks: tuple[int, ...]) -> None:
    import torch

    class Group(Operations):
        """Gathers what each rank has in its turn."""

        def __init__(self) -> None:
            self.sent: list[Any] = []

        def all_gather(self, output: Any, tensor: Any) -> None:
            self.sent.append(tensor)
            output[: len(self.sent)] = torch.cat(self.sent)

    def shared(group: Group) -> list[int]:
        return [
            bandwidth._ranks_with(
                LiveGroup(rank, 4, "nccl", torch.device("cpu"), Options(), group, hosts, 4, lambda _: None), name
            )
            for rank, name in enumerate(names)
        ]

    first = Group()
    shared(first)
    complete = Group()
    complete.all_gather = lambda output, tensor: output.copy_(torch.cat(first.sent))  # type: ignore[method-assign]
    assert tuple(shared(complete)) == ranks


# formulas


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("all_reduce", 1.75),
        ("all_gather", 0.875),
        ("reduce_scatter", 0.875),
        ("all_to_all", 0.875),
        ("gather", 0.875),
        ("scatter", 0.875),
        ("broadcast", 1.0),
        ("reduce", 1.0),
        ("send_recv", 1.0),
    ],
)
def test_the_factors_of_nccl_tests_for_eight_ranks(collective: str, factor: float) -> None:
    assert bus_factor(collective, 8) == factor


def test_a_line_that_nccl_tests_printed() -> None:
    """8 x A100, all_reduce of 1 GiB in 8203.9 us: 130.88 and 229.04 GB/s (stas00/ml-engineering, network/README.md)."""
    assert algbw(GIB, 8203.9e-6) == pytest.approx(130.88, abs=0.01)
    assert busbw("all_reduce", GIB, 8, 8203.9e-6) == pytest.approx(229.04, abs=0.01)


@given(st.sampled_from(COLLECTIVES), RANKS)
def test_factors_lie_between_a_half_and_two(collective: str, ranks: int) -> None:
    assert 0.5 <= bus_factor(collective, ranks) < 2
    assert bus_factor(collective, ranks) <= bus_factor(collective, ranks + 1)


@given(RANKS, st.integers(1, 1 << 40), st.floats(1e-6, 100))
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(ranks: int, size: int, seconds: float) -> None:
    """The same wire: twice the time of one of its halves gives the same bus bandwidth."""
    assert busbw("all_reduce", size, ranks, 2 * seconds) == pytest.approx(busbw("all_gather", size, ranks, seconds))


@given(st.sampled_from(COLLECTIVES), st.integers(1, 1 << 40), st.floats(1e-9, 100))
def test_one_rank_has_no_bus_bandwidth(collective: str, size: int, seconds: float) -> None:
    assert busbw(collective, size, 1, seconds) is None


def test_what_has_no_factor() -> None:
    with pytest.raises(ValueError, match="at least one rank"):
        bus_factor("all_reduce", 0)
    with pytest.raises(ValueError, match="all_gather"):
        bus_factor("gossip", 2)


# sizes


@pytest.mark.parametrize(
    ("options", "device", "expected"),
    [
        (Options(), "cuda", [KIB * 4**power for power in range(11)]),
        (Options(), "cpu", [KIB * 4**power for power in range(8)]),
        (Options(min_bytes=8, max_bytes=128, factor=2), "cpu", [8, 16, 32, 64, 128]),
        (Options(min_bytes=8, max_bytes=100, factor=10), "cpu", [8, 80]),
        (Options(max_bytes=100), "cpu", [100]),
        (Options(min_bytes=GIB), "cpu", [GIB]),
        (Options(min_bytes=4 * MIB), "cpu", [4 * MIB, 16 * MIB]),
        (Options(min_bytes=9, max_bytes=8), "cpu", []),
    ],
)
def test_sizes(options: Options, device: str, expected: list[int]) -> None:
    assert list(sizes(options, device)) == expected


def test_ranks_that_share_cores_get_smaller_sizes_unless_asked() -> None:
    assert sizes(Options(), "cpu", crowded=True)[-1] == 4 * MIB
    assert sizes(Options(max_bytes=16 * MIB), "cpu", crowded=True)[-1] == 16 * MIB
    assert sizes(Options(), "cuda", crowded=True)[-1] == GIB


@given(
    st.one_of(st.none(), st.integers(1, 1 << 36)),
    st.one_of(st.none(), st.integers(1, 1 << 36)),
    st.integers(2, 100),
    st.sampled_from(["cpu", "cuda"]),
)
def test_sizes_grow_by_the_factor_and_stay_within_the_bounds(
    low: int | None, high: int | None, factor: int, device: str
) -> None:
    found = sizes(Options(min_bytes=low, max_bytes=high, factor=factor), device)
    assert all(after == before * factor for before, after in itertools.pairwise(found))
    assert all(size >= (low or 1) for size in found)
    assert all(size <= high for size in found if high is not None)
    assert found or (low is not None and high is not None and low > high)


@pytest.mark.parametrize("options", [Options(factor=1), Options(min_bytes=0), Options(max_bytes=-1)])
def test_sizes_that_never_end_are_refused(options: Options) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        sizes(options, "cpu")


@pytest.mark.parametrize(
    ("text", "name"),
    [("allreduce", "all_reduce"), ("All-Gather", "all_gather"), ("send/recv", "send_recv"), ("alltoall", "all_to_all")],
)
def test_names_as_people_write_them(text: str, name: str) -> None:
    assert collective_name(text) == name


def test_names_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"all_reduce, .*, all"):
        collective_name("gossip")


def test_what_is_measured() -> None:
    every = (1, 2, 3, 4, 5)
    assert chosen(Options(), every) == (("all_reduce", every),)
    assert chosen(Options(collectives=("broadcast", "reduce")), every) == (("broadcast", every), ("reduce", every))
    for collectives in (("all",), COLLECTIVES):
        found = dict(chosen(Options(collectives=collectives), every))
        assert set(found) == set(COLLECTIVES)
        assert found.pop("all_reduce") == every
        assert set(found.values()) == {(1, 3, 5)}
    assert dict(chosen(Options(collectives=("gather", "all")), every))["gather"] == every


@given(st.integers(1, 16_384), st.sampled_from(["cpu", "cuda"]))
def test_the_watchdog_waits_longer_than_the_sweep_may_take(ranks: int, device: str) -> None:
    found = estimate_s(Options(), ranks, device)
    assert found > 2 * bandwidth._SWEEP_BUDGET_S[device]
    assert estimate_s(Options(collectives=("all",)), ranks, device) > found
    assert estimate_s(Options(max_bytes=16 * GIB), ranks, device) > 16 * GIB / 1e9


# real ranks


def work(rank: int, folder: str, options: Options, world_size: int, job: Callable[[LiveGroup], object]) -> None:
    """One rank: a group, the job, and what it returned in a file."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", world_size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    steps: list[Step] = []
    live = LiveGroup(
        rank, world_size, "gloo", torch.device("cpu"), options, Operations(), (0,) * world_size,
        os.cpu_count() or 1, steps.append,
    )  # fmt: skip
    found = job(live)
    Path(f"{folder}/{rank}.json").write_text(json.dumps([to_plain(found), [step.text for step in steps]]))
    dist.destroy_process_group()


def on_ranks(
    folder: Path, world_size: int, options: Options, job: Callable[[LiveGroup], object] = measure
) -> list[tuple[Any, list[str]]]:
    """Fork the ranks from this process, which has imported torch and run nothing in it."""
    import torch.multiprocessing

    torch.multiprocessing.start_processes(
        work, (str(folder), options, world_size, job), nprocs=world_size, start_method="fork"
    )
    return [tuple(json.loads((folder / f"{rank}.json").read_text())) for rank in range(world_size)]


def measured_on(folder: Path, world_size: int, options: Options) -> tuple[list[Measurements], list[str]]:
    found = on_ranks(folder, world_size, options)
    return [from_plain(Measurements, plain) for plain, _ in found], found[0][1]


SMALL = Options(min_bytes=KIB, max_bytes=64 * KIB, factor=8, iterations=7, warmup=2)


@pytest.mark.torch
def test_two_ranks(tmp_path: Path) -> None:
    everyone, steps = measured_on(tmp_path, 2, SMALL)
    first = everyone[0]
    assert [item.size_bytes for item in first.bandwidth] == [KIB, 8 * KIB, 64 * KIB]
    assert steps == ["all_reduce float32 1 KiB", "all_reduce float32 8 KiB", "all_reduce float32 64 KiB"]
    assert (first.ranks, first.backend, first.device, first.hosts, first.clock) == (2, "gloo", "cpu", 1, "wall-clock")
    assert first.device_name
    for item in first.bandwidth:
        assert item.iterations == len(item.samples_s) == 7
        assert item.time.median_s == pytest.approx(statistics.median(item.samples_s))
        assert 0 < item.time.min_s <= item.time.median_s <= item.time.max_s
        assert 0 < item.time.fastest_rank_s <= item.time.median_s
        assert item.algbw_gbytes_per_s == pytest.approx(item.size_bytes / item.time.median_s / 1e9)
        assert item.busbw_gbytes_per_s == item.algbw_gbytes_per_s  # 2 (n - 1) / n is 1 for two ranks
    assert everyone[1].bandwidth == first.bandwidth, "all ranks have the same figures"


@pytest.mark.torch
def test_one_rank_has_times_and_no_bandwidth(tmp_path: Path) -> None:
    everyone, _ = measured_on(tmp_path, 1, SMALL._replace(collectives=("all",)))
    assert {item.collective for item in everyone[0].bandwidth} == set(COLLECTIVES) - {"send_recv"}
    for item in everyone[0].bandwidth:
        assert item.time.median_s > 0
        assert item.algbw_gbytes_per_s is None
        assert item.busbw_gbytes_per_s is None
    skipped = dict(everyone[0].skipped)
    assert "not applicable" in skipped["bandwidth"]
    assert "two ranks" in skipped["send_recv"]


@pytest.mark.torch
def test_three_ranks_measure_every_collective(tmp_path: Path) -> None:
    everyone, _ = measured_on(tmp_path, 3, SMALL._replace(collectives=("all",), max_bytes=10_000))
    found: dict[str, list[int]] = {}
    for item in everyone[0].bandwidth:
        found.setdefault(item.collective, []).append(item.size_bytes)
        assert item.busbw_gbytes_per_s is not None
        assert item.busbw_gbytes_per_s == pytest.approx((item.algbw_gbytes_per_s or 0) * bus_factor(item.collective, 3))
    assert set(found) == set(COLLECTIVES)
    # three equal parts of whole float32
    assert found["all_gather"] == [1020, 8184]
    assert found["broadcast"] == [KIB, 8 * KIB]
    assert all(one.bandwidth == everyone[0].bandwidth for one in everyone)


class Slow(Operations):
    """Rank 1 comes late to every all_reduce."""

    def all_reduce(self, tensor: Any) -> None:
        if self.dist.get_rank() == 1:
            time.sleep(0.02)
        super().all_reduce(tensor)


def measure_beside_a_slow_rank(live: LiveGroup) -> Measurements:
    return measure(live._replace(operations=Slow()), init_s=float(live.rank), first_collective_s=None)


@pytest.mark.torch
def test_the_slowest_rank_decides(tmp_path: Path) -> None:
    options = SMALL._replace(iterations=5, max_bytes=KIB)
    for plain, _ in on_ranks(tmp_path, 3, options, measure_beside_a_slow_rank):
        found: Measurements = from_plain(Measurements, plain)
        assert found.bandwidth[0].time.min_s >= 0.02
        assert found.init_s == 2.0
        assert found.first_collective_s is None


class Lacking(Operations):
    """A backend without one collective, and with another that breaks."""

    def all_gather(self, output: Any, tensor: Any) -> None:
        raise RuntimeError("Backend gossip does not support all_gather_into_tensor")

    def reduce(self, tensor: Any, target: int) -> None:
        raise RuntimeError("Connection closed by peer")


def measure_what_is_lacking(live: LiveGroup) -> Measurements:
    return measure(live._replace(operations=Lacking()))


def measure_what_breaks(live: LiveGroup) -> str:
    try:
        measure(live._replace(operations=Lacking(), options=live.options._replace(collectives=("reduce",))))
    except RuntimeError as error:
        return str(error)
    return "nothing was raised"


@pytest.mark.torch
def test_what_a_backend_lacks_is_said_and_the_rest_is_measured(tmp_path: Path) -> None:
    options = SMALL._replace(collectives=("all_gather", "broadcast"))
    for plain, _ in on_ranks(tmp_path, 2, options, measure_what_is_lacking):
        found: Measurements = from_plain(Measurements, plain)
        assert {item.collective for item in found.bandwidth} == {"broadcast"}
        assert "does not support" in dict(found.skipped)["all_gather float32"]


@pytest.mark.torch
def test_what_breaks_is_not_hidden(tmp_path: Path) -> None:
    for text, _ in on_ranks(tmp_path, 2, SMALL, measure_what_breaks):
        assert text == "Connection closed by peer"


def measure_with_little_memory(live: LiveGroup) -> Measurements:
    # only one rank is short of memory: all must leave out the same sizes
    bandwidth._memory_for_buffers = lambda live: 10_000.0 if live.rank == 1 else 1e12
    return measure(live)


@pytest.mark.torch
def test_all_ranks_leave_out_what_does_not_fit_on_one(tmp_path: Path) -> None:
    options = SMALL._replace(collectives=("all_reduce", "all_to_all"))
    for plain, _ in on_ranks(tmp_path, 2, options, measure_with_little_memory):
        found: Measurements = from_plain(Measurements, plain)
        assert [(item.collective, item.size_bytes) for item in found.bandwidth] == [
            ("all_reduce", KIB),
            ("all_reduce", 8 * KIB),
            ("all_to_all", KIB),
        ]
        skipped = dict(found.skipped)
        assert "9.8 KiB" in skipped["all_reduce from 64 KiB on"]
        assert "9.8 KiB" in skipped["all_to_all from 8 KiB on"]


def measure_where_an_allocation_fails(live: LiveGroup) -> Measurements:
    import torch

    zeros = torch.zeros

    def failing(elements: int, **others: Any) -> Any:
        if live.rank == 1 and elements > 4 * KIB:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 64 KiB")
        return zeros(elements, **others)

    torch.zeros = failing
    return measure(live)


@pytest.mark.torch
def test_all_ranks_take_smaller_buffers_where_one_can_t_have_them(tmp_path: Path) -> None:
    for plain, _ in on_ranks(tmp_path, 2, SMALL, measure_where_an_allocation_fails):
        found: Measurements = from_plain(Measurements, plain)
        assert [item.size_bytes for item in found.bandwidth] == [KIB, 8 * KIB]
        assert "sizes above 16 KiB" in dict(found.skipped)


class Crawling(Operations):
    """A network of 100 kB/s."""

    def all_reduce(self, tensor: Any) -> None:
        time.sleep(tensor.nbytes / 1e5)
        super().all_reduce(tensor)


def measure_over_a_crawling_network(live: LiveGroup) -> Measurements:
    bandwidth._SWEEP_BUDGET_S["cpu"] = 1.0
    return measure(live._replace(operations=Crawling()))


@pytest.mark.torch
def test_sizes_that_take_too_long_are_left_out_and_said(tmp_path: Path) -> None:
    for plain, _ in on_ranks(tmp_path, 2, Options(), measure_over_a_crawling_network):
        found: Measurements = from_plain(Measurements, plain)
        assert found.bandwidth[0].size_bytes == KIB
        assert found.bandwidth[-1].size_bytes < 256 * KIB
        reasons = dict(found.skipped)
        (why,) = [text for what, text in reasons.items() if what.startswith("all_reduce from")]
        assert "-e 16M" in why
        assert any(what.startswith("iterations") for what in reasons)
        assert all(item.iterations >= bandwidth._LEAST_ITERATIONS for item in found.bandwidth)


def sum_of_buffers(live: LiveGroup) -> float:
    """What a sum in place leaves behind after many iterations."""
    seen: list[Any] = []

    class Watching(Operations):
        def all_reduce(self, tensor: Any) -> None:
            seen.append(tensor)
            super().all_reduce(tensor)

    measure(live._replace(operations=Watching(), options=live.options._replace(iterations=200)))
    return max(float(tensor.abs().max()) for tensor in seen)


@pytest.mark.torch
def test_sums_in_place_do_not_run_away(tmp_path: Path) -> None:
    assert [found for found, _ in on_ranks(tmp_path, 2, SMALL, sum_of_buffers)] == [0.0, 0.0]


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64"])
def test_other_dtypes(tmp_path: Path, dtype: str) -> None:
    everyone, steps = measured_on(tmp_path, 2, SMALL._replace(dtype=dtype, max_bytes=KIB))
    assert everyone[0].bandwidth[0].dtype == dtype
    assert steps == [f"all_reduce {dtype} 1 KiB"]


@pytest.mark.torch
def test_a_dtype_that_is_none(tmp_path: Path) -> None:
    live = LiveGroup(0, 1, "gloo", None, Options(dtype="float31"), Operations(), (0,), 1, lambda step: None)

    class Device:
        type = "cpu"

    with pytest.raises(ValueError, match="float31"):
        measure(live._replace(device=Device()))


# on a GPU


def on_one_gpu(rank: int, folder: str, backend: str, world_size: int) -> None:
    """Medians of this measurement and of a plain loop, alternating, and what was measured."""
    import torch
    import torch.distributed as dist

    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    store = dist.FileStore(f"{folder}/store", world_size)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size)
    options = Options(min_bytes=16 * MIB, max_bytes=64 * MIB, iterations=20)
    live = LiveGroup(rank, world_size, backend, device, options, Operations(), (0,) * world_size, 8, lambda step: None)
    found = measure(live)
    tensor = torch.zeros(64 * MIB // 4, device=device)
    ours, plain = [], []
    for _ in range(9):
        ours.append(measure(live).bandwidth[-1].time.median_s)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        for _ in range(5):
            dist.all_reduce(tensor)
        torch.cuda.synchronize()
        begin.record()
        for _ in range(20):
            dist.all_reduce(tensor)
        end.record()
        torch.cuda.synchronize()
        plain.append(begin.elapsed_time(end) / 20e3)
    if rank == 0:
        both = [statistics.median(ours), statistics.median(plain)]
        Path(f"{folder}/gpu.json").write_text(json.dumps([to_plain(found), *both]))
    dist.destroy_process_group()


def spawned(folder: Path, backend: str, world_size: int) -> tuple[Measurements, float, float]:
    import torch.multiprocessing

    torch.multiprocessing.spawn(on_one_gpu, (str(folder), backend, world_size), nprocs=world_size)
    plain, ours, loop = json.loads((folder / "gpu.json").read_text())
    return from_plain(Measurements, plain), ours, loop


@pytest.mark.gpu
@pytest.mark.torch
def test_gloo_with_tensors_of_a_gpu_is_as_fast_as_a_plain_loop(tmp_path: Path) -> None:
    found, ours, loop = spawned(tmp_path, "gloo", 2)
    assert (found.clock, found.device, found.backend) == ("cuda-events", "cuda", "gloo")
    assert found.device_name
    assert found.bandwidth[-1].busbw_gbytes_per_s
    assert ours == pytest.approx(loop, rel=0.05)


@pytest.mark.gpu
@pytest.mark.torch
def test_nccl_with_one_rank_has_times_and_no_bandwidth(tmp_path: Path) -> None:
    """One rank's all_reduce in place does nothing: the loop beside it takes microseconds, where 5 % is noise."""
    found, ours, loop = spawned(tmp_path, "nccl", 1)
    assert (found.clock, found.backend) == ("cuda-events", "nccl")
    assert all(item.busbw_gbytes_per_s is None for item in found.bandwidth)
    assert ours == pytest.approx(loop, rel=0.05, abs=20e-6)
