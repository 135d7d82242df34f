"""The hooks that see what a rank draws, in a process with torch: what they write down, and that nobody feels them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.event_log import read_rows

pytestmark = pytest.mark.torch

#: Starts a script as a rehearsed rank is started, with the one hook, or with none.
_START = """
import json, os, sys
from distcheck.runtime.coordination.run_script import run
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
folder, script, *options = sys.argv[1:]
plan = RehearsalPlan(script, epoch_steps=2 if "short" in options else None)
event_log = EventLog(folder, 0.0, 0)
if "bare" not in options:
    from distcheck.runtime.rehearsal.simulation.hooks import samples
    samples.install(event_log, plan)
def ended(_):
    for function in event_log.at_end:
        function()
    if event_log.lost:
        event_log.note("lost", place=("", ""), kinds=event_log.lost)
run(script, [], ended=ended)
"""
_SCRIPT = """
import copy, torch, torch.distributed as dist, torch.utils.checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, Sampler, Subset, TensorDataset
from torch.utils.data import random_split

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
data = TensorDataset(torch.arange(24.0).view(12, 2), torch.arange(12) % 5)
part, rest = random_split(data, [8, 4])  # split
sampler = DistributedSampler(part, num_replicas=2, rank=1)  # sampler
loader = DataLoader(part, batch_size=2, sampler=sampler)  # loader
valid = DataLoader(rest, batch_size=2, num_workers=1, persistent_workers=True)  # valid
model = DistributedDataParallel(torch.nn.Linear(2, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:  # train
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
    for x, y in valid:  # evaluate
        with torch.no_grad():
            print(model(x).sum().item())
print("lengths", len(loader), len(valid), [len(list(valid)), len(list(loader))])


class Lines(IterableDataset):
    def __iter__(self):
        yield from range(7)


class Caching(Sampler):
    def __iter__(self):
        yield from (3, 1, 2)

    def __len__(self):
        print("somebody asked")
        return 3


def batches():
    for batch in DataLoader(Subset(Subset(data, [9, 7, 5, 3]), [2, 0]), batch_size=2):  # chain
        yield batch


print([batch.tolist() for batch in DataLoader(Lines(), batch_size=3)])  # lines
for _ in batches():  # outer
    break
for _ in DataLoader(data, sampler=Caching(), batch_size=None):  # caching
    pass
for number, batch in enumerate(DataLoader(data, batch_size=5, shuffle=True)):  # early
    if number == 1:
        break


class Checkpointed(torch.nn.Linear):
    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(super().forward, x.requires_grad_(), use_reentrant=True)


again = torch.nn.Linear(2, 5)
copied = copy.deepcopy(model.module)
for x, _ in DataLoader(data, batch_size=6):  # baseline
    again(x).sum().backward()
for x, _ in DataLoader(data, batch_size=6):  # beside
    copied(x).sum().backward()
    with torch.no_grad():
        model(x)
for x, _ in DataLoader(data, batch_size=6):  # both
    again(x).sum().backward()
    with model.no_sync():
        model(x).sum().backward()
viewed = DistributedDataParallel(torch.nn.Linear(2, 5), gradient_as_bucket_view=True)
for x, _ in DataLoader(data, batch_size=6):  # views
    viewed.zero_grad(set_to_none=False)
    viewed(x * 0).sum().backward()
checkpointed = DistributedDataParallel(Checkpointed(2, 5))
for x, _ in DataLoader(data, batch_size=6):  # checkpointed
    checkpointed(x).sum().backward()
sharded = fully_shard(torch.nn.Linear(2, 5), mesh=init_device_mesh("cpu", (1,)))
for x, _ in DataLoader(data, batch_size=6):  # sharded
    sharded(x).sum().backward()
for x, _ in DataLoader(data, batch_size=6):  # sharded-baseline
    again(x).sum().backward()
print(torch.rand(1).item())
dist.destroy_process_group()
"""


class Seen:
    """What one run has printed and written down."""

    def __init__(self, folder: Path, *options: str, script_text: str = _SCRIPT) -> None:
        event_logs = folder / "-".join(("events", *options))
        event_logs.mkdir()
        script = folder / "train.py"
        script.write_text(script_text)
        done = subprocess.run(
            [sys.executable, "-c", _START, str(event_logs), "train.py", *options],
            cwd=folder, capture_output=True, text=True, timeout=200, check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.printed = done.stdout
        self.rows = read_rows(str(event_logs))

    def of(self, kind: str, mark: str = "") -> list[LoggedEvent]:
        """The rows of a kind, of a line that ends with a mark."""
        place = f"train.py:{line_of(mark)}" if mark else ""
        return [row for row in self.rows if row.kind == f"samples.{kind}" and (not mark or row.place == place)]

    def batches(self, one: LoggedEvent) -> list[Any]:
        """The samples of each batch of a pass."""
        return [row.data["ids"] for row in self.of("batch") if row.data["number"] == one.data["number"]]


def line_of(mark: str) -> int:
    return next(number for number, line in enumerate(_SCRIPT.splitlines(), 1) if line.endswith(f"# {mark}"))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return Seen(tmp_path_factory.mktemp("seen"))


def test_nothing_was_lost(seen: Seen) -> None:
    assert [row.data for row in seen.rows if not row.kind.startswith("samples.")] == []


def test_the_script_does_not_feel_it(seen: Seen, tmp_path: Path) -> None:
    """The same losses, the same random numbers at its end, and nobody asks the script's sampler for its length."""
    assert Seen(tmp_path, "bare").printed == seen.printed
    assert "somebody asked" not in seen.printed


def test_a_loader_and_what_it_is_made_of(seen: Seen) -> None:
    (row,) = seen.of("loader", "loader")
    (layer,) = row.data["layers"]
    assert (layer["maker"], layer["place"], layer["seeded"]) == ("random_split", f"train.py:{line_of('split')}", False)
    assert len(layer["some"]) == layer["length"] == 8
    sampler = row.data["sampler"]
    assert sampler["place"] == f"train.py:{line_of('sampler')}"
    assert (sampler["replicas"], sampler["part"], sampler["shuffle"]) == (2, 1, True)
    assert row.data["print"] == seen.of("loader", "valid")[0].data["print"]
    rest = set(seen.of("loader", "valid")[0].data["layers"][0]["some"])
    assert rest | set(layer["some"]) == set(range(12))
    assert not rest & set(layer["some"])


def test_passes_that_train_and_passes_that_do_not(seen: Seen) -> None:
    sums = {row.data["number"]: row.data for row in (*seen.of("end"), *seen.of("open"))}
    first, second, _ = [
        row for row in seen.of("pass") if row.data["loader"] == seen.of("loader", "loader")[0].data["loader"]
    ]
    assert [sums[row.data["number"]]["trained"] for row in (first, second)] == [2, 2]
    assert [row.data["sampler"]["epoch"] for row in (first, second)] == [0, 1]
    assert first.data["loop"] == f"train.py:{line_of('train')}"
    assert (first.data["bounded"], first.data["length"]) == (False, 2)
    inside = set(seen.of("loader", "loader")[0].data["layers"][0]["some"])
    drawn = [[number for batch in seen.batches(row) for number in batch] for row in (first, second)]
    assert set(drawn[0]) <= inside
    assert drawn[0] != drawn[1]
    assert all(len(one) == 4 for one in drawn)


def test_a_pass_with_workers_begins_anew_each_time(seen: Seen) -> None:
    passes = seen.of("pass", "evaluate")
    assert len(passes) == 2
    assert seen.batches(passes[0]) == seen.batches(passes[1])
    sums = {row.data["number"]: row.data for row in seen.of("end")}
    assert [(sums[row.data["number"]]["given"], sums[row.data["number"]]["trained"]) for row in passes] == [(2, 0)] * 2


@pytest.mark.parametrize(
    ("mark", "trained", "fed"),
    [
        ("baseline", 2, 0), ("beside", 2, 0), ("both", 2, 2), ("views", 2, 2), ("checkpointed", 2, 2),
        ("sharded", 2, 2), ("sharded-baseline", 2, 0),
    ],
)  # fmt: skip
def test_batches_that_feed_a_wrapper(seen: Seen, mark: str, trained: int, fed: int) -> None:
    """A model that nobody averages may be trained beside one that is wrapped."""
    (row,) = seen.of("pass", mark)
    (end,) = [one.data for one in seen.of("end") if one.data["number"] == row.data["number"]]
    assert (end["given"], end["trained"], end["fed"]) == (2, trained, fed)


def test_samples_are_told_apart_by_what_they_hold(seen: Seen) -> None:
    held: dict[int, set[str]] = {}
    for row in seen.of("batch"):
        if row.data["ids"] is not None and len(row.data["leaves"]) == 2 and row.data["count"] > 1:
            for number, digest in zip(row.data["ids"], row.data["leaves"][0], strict=True):
                held.setdefault(number, set()).add(digest)
    assert len(held) == 12
    assert all(len(digests) == 1 for digests in held.values())
    assert len(set.union(*held.values())) == 12


def test_subsets_of_subsets_and_a_generator_between(seen: Seen) -> None:
    (row,) = seen.of("pass", "chain")
    assert seen.batches(row) == [[5, 9]]
    assert row.data["loop"] == f"train.py:{line_of('chain')}"
    assert row.data["bounded"] is True  # whoever asks the generator breaks off


def test_iterable_data(seen: Seen) -> None:
    (row,) = seen.of("pass", "lines")
    batches = [one.data for one in seen.of("batch") if one.data["number"] == row.data["number"]]
    assert [(one["ids"], one["count"]) for one in batches] == [(None, 3), (None, 3), (None, 1)]
    assert len({json.dumps(one["leaves"]) for one in batches}) == 3
    assert row.data["length"] is None


def test_a_length_that_only_the_script_may_ask_for(seen: Seen) -> None:
    (row,) = seen.of("pass", "caching")
    assert row.data["length"] is None
    assert seen.batches(row) == [[3], [1], [2]]


def test_a_loop_that_ends_early(seen: Seen) -> None:
    (row,) = seen.of("pass", "early")
    assert (row.data["bounded"], row.data["length"]) == (True, 3)


def test_the_wrapped_model(seen: Seen) -> None:
    assert [row.data["ranks"] for row in seen.of("wrapped")] == [[0]]


_ENGINE = """
import torch
import torch.distributed as dist


class DeepSpeedEngine(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.data_parallel_group = None
        self._configure_distributed_model(model)

    def _configure_distributed_model(self, model):
        self.module = model
        self.data_parallel_group = dist.new_group()

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)

    def backward(self, loss):
        loss.backward()
        self.kept = [one.grad for one in self.module.parameters()]
        for one in self.module.parameters():
            one.grad = None
"""
_WITH_ENGINE = """
import torch, torch.distributed as dist
from torch.utils.data import DataLoader
from deepspeed.runtime.engine import DeepSpeedEngine

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
engine, other = DeepSpeedEngine(torch.nn.Linear(2, 5)), torch.nn.Linear(2, 5)
data = torch.rand(12, 2)
for x in DataLoader(data, batch_size=6):
    engine.backward(engine(x).sum())
for x in DataLoader(data, batch_size=6):
    other(x).sum().backward()
for x in DataLoader(data, batch_size=6):
    with torch.no_grad():
        engine(x)
    other(x).sum().backward()
dist.destroy_process_group()
"""


def test_an_engine_of_deepspeed_divides_the_data(tmp_path: Path) -> None:
    """It has removed the gradients when its backward pass returns."""
    package = tmp_path / "deepspeed" / "runtime"
    package.mkdir(parents=True)
    (package / "engine.py").write_text(_ENGINE)
    seen = Seen(tmp_path, script_text=_WITH_ENGINE)
    assert [(row.data["ranks"], row.data["how"]) for row in seen.of("wrapped")] == [([0], "DeepSpeed")]
    assert [(row.data["trained"], row.data["fed"]) for row in seen.of("end")] == [(2, 2), (2, 0), (2, 0)]


def test_short_epochs(tmp_path: Path) -> None:
    short = Seen(tmp_path, "short")
    assert "lengths 2 2 [2, 2]" in short.printed
    (row,) = short.of("pass", "lines")
    (end,) = [one for one in short.of("end") if one.data["number"] == row.data["number"]]
    assert (end.data["given"], end.data["cut"]) == (2, True)
    (early,) = short.of("pass", "early")
    assert early.data["length"] == 3  # the real one
