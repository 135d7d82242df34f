"""What *watch* costs a job: ratios of one run, and what the coordinator does with thousands of ranks.

    python benchmarks/watch.py [--rounds 40] [--steps 400] [--seconds 60] [--parts step,replicas,coordinator]
        [--device cpu|cuda] [--json]

``step`` trains a small DDP model on two gloo ranks (one NCCL rank with ``--device cuda``) and reduces the loss with a
call of its own in each step. Blocks with and without *watch* alternate inside one process group, each first in turn,
so that a machine whose speed drifts slows both alike; the ratios are those of neighbours. Each rank may use one core;
run it where as many cores as ranks do nothing else. That no collective is added is counted, not measured.
``replicas`` adds the checks at optimizer steps: those that every job has, and those of ``--consistency``, on a small
model and on one of 100 million parameters. Their processor time is also measured by itself, in the hooks and the side
thread: on a machine with other load, ratios of blocks scatter by more than it is. ``--seconds`` ends the rounds of each
model, so that all of it takes less than ten minutes on a loaded machine; one round is always made.
``coordinator`` reads synthetic heartbeats from a dictionary: seconds of the processor, without the store.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import platform
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

#: Ranks of a small model whose step costs what a small model's step costs: everything of ours shows.
WIDTH, BATCH = 512, 64
TARGET = 1.01


# a step


def make_step(dist: Any, torch: Any, device: str) -> Any:
    """One step of training: forward, backward with DDP's own collectives, and one call of Python's."""
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH))
    ddp = torch.nn.parallel.DistributedDataParallel(model.to(device))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    batch = torch.randn(BATCH, WIDTH, device=device)

    def step() -> None:
        optimizer.zero_grad()
        loss = ddp(batch).square().mean()
        loss.backward()
        optimizer.step()
        # a line as scripts have them
        dist.all_reduce(loss.detach())

    return step


class Switch:
    """Puts *watch* on and takes it off in one process: its functions by exchanging cells, its thread each time."""

    def __init__(self, module: Any) -> None:
        from distcheck.runtime.coordination.call_recorder import CallRecorder
        from distcheck.runtime.coordination.call_signatures import KINDS

        self.posts = CallRecorder()
        cells = [getattr(getattr(module, name, None), "__closure__", None) for name in KINDS]
        self._cells = [cell[0] for cell in cells if cell]
        self._plain = [cell.cell_contents for cell in self._cells]
        self.posts.attach(module)
        self._ours = [cell.cell_contents for cell in self._cells]
        self._module = module
        self._monitor: Any = None
        self.off()

    def off(self) -> None:
        if self._monitor is not None:
            self._monitor.leave()
        for cell, plain in zip(self._cells, self._plain, strict=True):
            cell.cell_contents = plain

    def on(self, on_tick: Any = None) -> None:
        from distcheck.runtime.coordination.coordinator import MonitorReporter
        from distcheck.runtime.coordination.rank_info import RankInfo
        from distcheck.runtime.coordination.rank_monitor import RankMonitor
        from distcheck.runtime.coordination.store_client import JobStoreConnection

        for cell, ours in zip(self._cells, self._ours, strict=True):
            cell.cell_contents = ours
        self.posts.joined = True
        module = self._module
        self._monitor = RankMonitor(
            self.posts, RankInfo(module.get_rank(), module.get_world_size(), host="here"),
            JobStoreConnection(lambda: True, {}), MonitorReporter(), on_tick=on_tick,
        )  # fmt: skip
        self._monitor.start()

    def thread_s(self) -> float:
        """Processor seconds of the side thread."""
        return time.clock_gettime(time.pthread_getcpuclockid(self._monitor._thread.ident))

    def note_s(self, tensor: Any) -> float:
        """Processor seconds that a call is longer by: a function that does nothing, with and without."""
        from distcheck.runtime.coordination.call_recorder import CallRecorder
        from distcheck.runtime.coordination.call_signatures import KINDS
        from distcheck.runtime.coordination.shared_table import SharedTable

        posts = CallRecorder()
        posts._module = self._module
        posts.observe(None, SharedTable(mmap.mmap(-1, 1 << 20), 0, begun=0.0, ranks=8))

        def nothing(*args: Any, **kwargs: Any) -> None:
            return None

        ours = posts._around("all_reduce", KINDS["all_reduce"])(nothing)

        def cost(function: Any) -> float:
            begun = time.thread_time()
            for _ in range(2000):
                function(tensor)
            return (time.thread_time() - begun) / 2000

        return min(cost(ours) - cost(nothing) for _ in range(15))


def rounds_until(seconds: float, rounds: int, torch: Any, device: str = "cpu") -> Iterator[int]:
    """Numbers of rounds, the same on all ranks, until the time of one rank is over."""
    until = time.monotonic() + seconds
    for number in range(rounds):
        yield number
        left = torch.tensor([until - time.monotonic()], device=device)
        torch.distributed.all_reduce(left, op=torch.distributed.ReduceOp.MIN)
        if left.item() < 0:
            return


def step_rank(rank: int, folder: str, ranks: int, rounds: int, steps: int, seconds: float, device: str) -> None:
    """One rank: blocks with and without, each first in turn."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    backend = "nccl" if device == "cuda" else "gloo"
    address = ("127.0.0.1", int(Path(folder, "port").read_text()))
    store = dist.TCPStore(*address, world_size=ranks, is_master=rank == 0)
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks)
    step = make_step(dist, torch, device)
    switch = Switch(dist.distributed_c10d)
    group = dist.group.WORLD

    def block(watched: bool) -> dict[str, float]:
        if watched:
            switch.on()
        for _ in range(3):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        dist.barrier()
        counted = group._get_sequence_number_for_group()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        found = {
            "wall_s": (time.perf_counter() - wall) / steps,
            "cpu_s": (time.process_time() - cpu) / steps,
            "collectives": group._get_sequence_number_for_group() - counted,
        }
        if watched:
            found["thread_s_per_s"] = switch.thread_s() / (time.perf_counter() - wall)
            switch.off()
        return found

    rows = []
    for number in rounds_until(seconds, rounds, torch, device):
        first = bool(number % 2)
        pair = {first: block(first), not first: block(not first)}
        rows.append({"watched": pair[True], "alone": pair[False]})
    rows[0]["note_s"] = switch.note_s(torch.ones(1))
    Path(folder, f"rows.{rank}.json").write_text(json.dumps(rows), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def on_ranks(ranks: int, body: Any, given: tuple[Any, ...]) -> list[Any]:
    """Run ``body(rank, folder, *given)`` on some ranks, and return what each one wrote."""
    import torch.multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            Path(folder, "port").write_text(str(probe.getsockname()[1]))
        torch.multiprocessing.start_processes(body, (folder, *given), nprocs=ranks, start_method="spawn")
        return [json.loads(Path(folder, f"rows.{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]


def measure_step(rounds: int, steps: int, seconds: float, device: str) -> dict[str, Any]:
    """Wall and processor time of a step with *watch*, to that of the same step without."""
    ranks = 1 if device == "cuda" else 2
    tables = on_ranks(ranks, step_rank, (ranks, rounds, steps, seconds, device))
    rows = [row for table in tables for row in table]
    added = {row["watched"]["collectives"] - row["alone"]["collectives"] for row in rows}

    def ratios(key: str) -> list[float]:
        return [row["watched"][key] / row["alone"][key] for row in rows]

    note_s = max(table[0]["note_s"] for table in tables)
    thread = statistics.median(row["watched"]["thread_s_per_s"] for row in rows)
    step_s = statistics.median(row["alone"]["cpu_s"] for row in rows)
    return {
        "step": f"{ranks} {'NCCL' if device == 'cuda' else 'gloo'} rank{'s' * (ranks > 1)}, DDP, 2 layers of {WIDTH}, "
        f"batch {BATCH}; {len(rows) // ranks} pairs of {steps} steps",
        "median_ms": {
            side: {
                key: round(1e3 * statistics.median(row[side][key] for row in rows), 3) for key in ("wall_s", "cpu_s")
            }
            for side in ("alone", "watched")
        },
        "ratios": {
            f"wall time of a step, watched / alone (target: at most {TARGET})": statistics.median(ratios("wall_s")),
            "processor time of a step with all threads, watched / alone": statistics.median(ratios("cpu_s")),
        },
        "by itself": f"a call is longer by {1e6 * note_s:.1f} us; the thread takes {1e3 * thread:.2f} ms of a second: "
        f"{note_s / step_s + thread:.2%} of such a step",
        "quartiles of wall": [round(value, 3) for value in statistics.quantiles(ratios("wall_s"), n=4)],
        "quartiles of cpu": [round(value, 3) for value in statistics.quantiles(ratios("cpu_s"), n=4)],
        "collectives added (target: none)": sorted(added),
    }


# checks at optimizer steps

#: Layers, their width, the batch, and steps in a block: a small model, and one of 100 million parameters.
MODELS = {"small": (2, WIDTH, BATCH, 25), "100 M parameters": (24, 2048, 8, 1)}
MODES = ("alone", "watch", "watch --consistency")
#: Default of ``--consistency-interval``.
INTERVAL = 100


def make_model(torch: Any, layers: int, width: int, batch: int) -> Any:
    """Return a step of training as scripts make it: DDP, AdamW, a schedule, a loss that is reduced."""
    dist = torch.distributed
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1_000_000)
    inputs = torch.randn(batch, width)

    def step() -> None:
        optimizer.zero_grad()
        loss = ddp(inputs).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        dist.all_reduce(loss.detach())

    return step


def replicas_rank(rank: int, folder: str, rounds: int, seconds: float, shape: tuple[int, int, int, int]) -> None:
    """One rank: blocks alone, with watch, and with ``--consistency``, each first in turn."""
    import torch
    import torch.distributed as dist
    import torch.optim.optimizer as optimizers

    from distcheck.runtime.coordination.drift import ReplicaExchange
    from distcheck.runtime.coordination.training import TrainingObserver

    torch.set_num_threads(1)
    address = ("127.0.0.1", int(Path(folder, "port").read_text()))
    store = dist.TCPStore(*address, world_size=2, is_master=rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    switch = Switch(dist.distributed_c10d)
    *sizes, steps = shape
    compared_s: list[float] = []
    tables = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)
    hooks, exchanges = {MODES[0]: ({}, {})}, {}
    ours_s = [0.0]

    def accounted(hook: Any) -> Any:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            begun = time.thread_time()
            try:
                return hook(*args, **kwargs)
            finally:
                ours_s[0] += time.thread_time() - begun

        return hooked

    for mode in MODES[1:]:
        observer = TrainingObserver(switch.posts, steps, digests=mode == MODES[2])
        observer.install()
        hooks[mode] = tuple({key: accounted(hook) for key, hook in table.items()} for table in tables)
        for table in tables:
            table.clear()
        exchanges[mode] = (observer.rows, ReplicaExchange(observer.rows, print, str))
        digests_of = observer._digests_of

        def timed(*args: Any, _real: Any = digests_of, **kwargs: Any) -> Any:
            begun = time.thread_time()
            try:
                return _real(*args, **kwargs)
            finally:
                compared_s.append(time.thread_time() - begun)

        if mode == MODES[2]:
            observer._digests_of = timed  # type: ignore[method-assign]
    step = make_model(torch, *sizes)

    def tick(mode: str, client: Any, here: int, final: bool) -> None:
        rows, exchange = exchanges[mode]
        for index, row in enumerate(rows):
            # both modes count the same steps, in one store
            rows[index] = row._replace(key=f"{row.key.partition(' ')[0]} {mode}")
        exchange.tick(client, here, final)

    def block(mode: str) -> dict[str, float]:
        for table, chosen in zip(tables, hooks[mode], strict=True):
            table.clear()
            table.update(chosen)
        if mode != MODES[0]:
            switch.on(partial(tick, mode))
        dist.barrier()
        ours_s[0], thread = 0.0, -switch.thread_s() if mode != MODES[0] else 0.0
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        found = {"wall_s": (time.perf_counter() - wall) / steps, "cpu_s": (time.process_time() - cpu) / steps}
        if mode != MODES[0]:
            thread += switch.thread_s()
            switch.off()
        return {**found, "hooks_s": ours_s[0] / steps, "thread": thread / steps / found["wall_s"]}

    for mode in MODES:
        block(mode)  # warm, and the steps 1 and 2, which are always compared
    compared_s.clear()
    rows = []
    for number in rounds_until(seconds, rounds, torch):
        order = [MODES[(number + index) % len(MODES)] for index in range(len(MODES))]
        rows.append({mode: block(mode) for mode in order})
    found = {"rows": rows, "compared_s": compared_s, "note_s": switch.note_s(torch.ones(1))}
    Path(folder, f"rows.{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def measure_replicas(rounds: int, seconds: float) -> dict[str, Any]:
    """Wall and processor time of a step with the checks at optimizer steps, to that of the same step alone."""
    found: dict[str, Any] = {"ratios": {}}
    for name, shape in MODELS.items():
        tables = on_ranks(2, replicas_rank, (rounds, seconds, shape))
        rows = [row for table in tables for row in table["rows"]]
        note_s = max(table["note_s"] for table in tables)
        compared = statistics.median(one for table in tables for one in table["compared_s"])
        wall, step = (statistics.median(row[MODES[0]][key] for row in rows) for key in ("wall_s", "cpu_s"))
        found[name] = (
            f"{len(rows)} blocks of {shape[3]} steps, one compared in each; a step takes {1e3 * wall:.1f} ms, and "
            f"{1e3 * step:.1f} ms of processor time; a compared one {1e3 * compared:.1f} ms of it more"
        )
        for mode in MODES[1:]:
            ratios = {key: [row[mode][key] / row[MODES[0]][key] for row in rows] for key in ("wall_s", "cpu_s")}
            for key, values in ratios.items():
                quartiles = statistics.quantiles(values, n=4) if len(values) > 1 else 3 * values
                low, middle, high = quartiles
                text = f"{name}, {mode}, {key[:-2]} of a step to that alone (quartiles {low:.3f} to {high:.3f})"
                found["ratios"][text] = middle
            # the call of a step's all_reduce and the hooks of its optimizer, of compared steps as many as by default
            often = (1 / shape[3] - 1 / INTERVAL) * compared if mode == MODES[2] else 0.0
            hooks = note_s + statistics.median(row[mode]["hooks_s"] for row in rows) - often
            thread = statistics.median(row[mode]["thread"] for row in rows)
            found[f"{name}, {mode}"] = (
                f"{1e3 * hooks:.3f} ms of processor time in a step, and {1e3 * thread:.2f} ms of a second in the side "
                f"thread: {hooks / step + thread:.2%} of such a step"
            )
    return found


# the coordinator


def coordinator_of(ranks: int) -> dict[str, float]:
    """Return CPU seconds of one check: all compute, all wait for a working rank, and one rank has exited."""
    from distcheck.runtime.coordination.coordinator import Coordinator, MonitorReporter
    from distcheck.runtime.coordination.model import CollectiveCall, Frame, Position
    from distcheck.runtime.coordination.protocol import Heartbeat, packed, packed_heartbeat, rank_key, stack_key
    from distcheck.runtime.coordination.store_client import MemoryStore

    class Reporter(MonitorReporter):
        def hang(self, positions: Any) -> None:
            found.append(positions)

    store = MemoryStore()
    found: list[Any] = []
    clock = [0.0]
    coordinator = Coordinator(
        store, ranks, Reporter(), hang_timeout_s=20.0, tick_s=ranks / 2000, clock=lambda: clock[0],
    )  # fmt: skip
    call = CollectiveCall(
        412, "all_reduce", "0", ((1024, 1024),), ("bfloat16",), "sum", None, "package/train.py:88", "main"
    )
    frames = tuple(Frame(f"package/module{depth}.py", depth, "function", depth == 3) for depth in range(30))
    store.set(stack_key("same"), packed(frames))
    digests = {"0": [(number, number * 7919) for number in range(396, 412)]}

    def publish(beat: int, state: str, since_s: float, last: str, requested: int) -> None:
        for rank in range(ranks):
            mine = last if rank == ranks - 1 else state
            entered = 411 if rank == ranks - 1 else 412
            position = Position(rank, f"gpu{rank // 8}", rank, mine, call, 411, since_s, (), None, "", {"0": entered})
            post = Heartbeat(
                beat, position, digests, "space", {"0": 600.0}, requested, {}, {}, "same" if requested else ""
            )
            store.set(rank_key(rank), packed_heartbeat(post))

    def look(beat: int) -> float:
        clock[0] += 0.01
        begun = time.process_time()
        coordinator.look(beat)
        return time.process_time() - begun

    publish(1, "computing", 0.0, "computing", 0)
    look(1)
    publish(2, "computing", 0.0, "computing", 0)
    figures = {"all compute_s": look(2)}
    coordinator._compares_at = 0.0
    figures["digests_s"] = look(2)
    publish(3, "waiting", 300.0, "computing", 0)
    figures["all but one wait_s"] = look(3)
    clock[0] += 1000
    publish(4, "waiting", 30.0, "left", 0)
    figures["suspicion_s"] = look(4)
    publish(5, "waiting", 31.0, "left", coordinator.question)
    figures["verdict_s"] = look(5)
    assert len(found) == 1, "the rank that has left must be found"
    figures["post_bytes"] = len(store.values[rank_key(0)])
    figures["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def measure_coordinator(sizes: tuple[int, ...] = (1024, 16384)) -> dict[str, Any]:
    """Each size in a process of its own, so that its peak memory is its own."""
    found = {}
    for ranks in sizes:
        here = str(ROOT / "benchmarks")
        code = f"import json, sys; sys.path.insert(0, {here!r}); import watch; "
        code += f"print(json.dumps(watch.coordinator_of({ranks})))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
        figures = json.loads(done.stdout)
        found[f"{ranks} ranks, one check every {max(1.0, ranks / 2000):.0f} s"] = {
            key: round(value, 3) for key, value in figures.items()
        }
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="pairs of blocks")
    parser.add_argument(
        "--steps", type=int, default=400, help="steps in a block: a second and more, for the thread's ticks"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of the rounds of each model, at most")
    parser.add_argument("--parts", default="step,replicas,coordinator")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    parts = {
        "step": lambda: measure_step(arguments.rounds, arguments.steps, arguments.seconds, arguments.device),
        "replicas": lambda: measure_replicas(arguments.rounds, arguments.seconds),
        "coordinator": measure_coordinator,
    }
    names = arguments.parts.split(",")
    if unknown := [name for name in names if name not in parts]:
        parser.error(f"--parts: {unknown[0]!r} is none; expected some of {', '.join(parts)}, with commas between")
    found = {name: parts[name]() for name in names}
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for name, figures in found.items():
        print(name)
        for key, value in figures.items():
            if key == "ratios":
                for text, ratio in value.items():
                    print(f"  {ratio:8.3f}  {text}")
            else:
                print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
