"""What the hooks for devices, groups, gradients and pickling write down, in a process with simulated GPUs of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.event_log import read_rows

ROOT = Path(__file__).parents[4]
INSTALL = """
import importlib, runpy, sys
from distcheck.runtime.coordination.frames import this_is_own
from distcheck.runtime.rehearsal.fake_cuda import FakeGpus, on_import
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
folder, script, begun = sys.argv[1:]
event_log = EventLog(folder, float(begun), 0)
on_import(FakeGpus(2))
for name in ("devices", "groups", "gradients", "pickling", "training", "dropouts"):
    importlib.import_module("distcheck.runtime.rehearsal.simulation.hooks." + name).install(event_log, RehearsalPlan(script))
assert "torch" not in sys.modules
this_is_own(script)
runpy.run_path(script, run_name="__main__")
event_log.close()
assert not event_log.lost, event_log.lost
"""


@pytest.fixture
def rows(tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, list[LoggedEvent]]:
    """What a script has left in the event_log, by kind."""
    folder, script = tmp_path / "events", tmp_path / "train.py"
    folder.mkdir()
    script.write_text(textwrap.dedent(request.param), encoding="utf-8")
    environ = {
        **os.environ, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "RANK": "0",
        "WORLD_SIZE": "1", "LOCAL_RANK": "0",
    }  # fmt: skip
    words = [sys.executable, "-W", "ignore", "-c", INSTALL, str(folder), str(script), str(time.time())]
    done = subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=240, cwd=tmp_path, env=environ
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[LoggedEvent]] = {}
    for row in read_rows(str(folder)):
        found.setdefault(row.kind, []).append(row)
    assert "stage.hook_failed" not in found, found["stage.hook_failed"]
    return found


def lines(found: list[LoggedEvent]) -> list[int]:
    return [int(row.place.rpartition(":")[2]) for row in found]


DEVICES = """\
import os
import torch
torch.cuda.set_device(1)
kept = torch.ones(1000, device="cuda:0")
try:
    kept.to("cuda:5")
except RuntimeError as error:
    assert "invalid device ordinal" in str(error)
torch.save({"weights": [kept]}, "last.pt")
torch.load("last.pt")
torch.load("last.pt", map_location="cpu")
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
os.environ["OTHER"] = "2"
"""


@pytest.mark.torch
@pytest.mark.parametrize("rows", [DEVICES], indirect=True)
def test_devices(rows: dict[str, list[LoggedEvent]]) -> None:
    assert {kind for kind in rows if kind.startswith("devices.")} == {
        "devices.bind", "devices.taken", "devices.refused", "devices.load", "devices.mask",
    }  # fmt: skip
    assert lines(rows["devices.bind"]) == [3]
    assert (rows["devices.bind"][0].data["index"], rows["devices.bind"][0].data["card"]) == (1, "1")
    assert [(row.data["index"], line) for row, line in zip(rows["devices.refused"], [6], strict=True)] == [(5, 6)]
    assert lines(rows["devices.load"]) == [10]
    assert rows["devices.load"][0].data["cards"] == {"0": 4000}
    assert (lines(rows["devices.mask"]), rows["devices.mask"][0].data["value"]) == ([12], "1")


GRADIENTS = """\
import tempfile
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x))

    def loss(self, x):
        return self.head(self.body(x)).sum()

def main():
    dist.init_process_group("nccl", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
    net = Net().cuda()
    net.head.bias.requires_grad = False
    ddp = DDP(net)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    x = torch.ones(2, 4, device="cuda")
    ddp(x).sum().backward()
    optimizer.step()
    ddp.module.loss(x).backward()
    with torch.no_grad():
        ddp.module(x)
    optimizer.step()
    net.head.bias.requires_grad_(True)
    net.head.bias.requires_grad_(True)
    ddp.cpu()
    ddp.cuda()
    net.body = torch.nn.Linear(4, 8).cuda()
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = net(x).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    alone = Net()
    other = torch.optim.SGD(alone.parameters(), lr=0.1)
    alone(torch.ones(2, 4)).sum().backward()
    other.step()
    before = torch.get_rng_state()
    optimizer.step()
    assert torch.equal(before, torch.get_rng_state())
    assert torch.save(ddp.state_dict(), tempfile.mktemp()) is None
    dist.destroy_process_group()
    return ddp

kept = main()
"""


@pytest.mark.torch
@pytest.mark.parametrize("rows", [GRADIENTS], indirect=True)
def test_gradients_and_groups(rows: dict[str, list[LoggedEvent]]) -> None:
    assert (lines(rows["groups.made"]), lines(rows["groups.destroyed"])) == ([17], [51])
    assert rows["groups.made"][0].data["direct"] is True
    assert "nccl" in rows["groups.made"][0].data["devices"]
    (wrapped,) = rows["gradients.wrap"]
    assert (lines([wrapped]), wrapped.data["parameters"], wrapped.data["trained"]) == ([20], 4, 3)
    first, second, third, _ = rows["gradients.step"]
    assert (first.data["since"], first.data["around"], first.data["forwards"]) == (1, [], 1)
    # the line that calls the model's method, and not the method's; nothing of the forward without gradients
    assert (second.data["since"], second.data["around"]) == (0, [["train.py:25", "main"]])
    # gradients of a closure are there when it has run
    assert lines([third]) == [42]
    assert third.data["around"] == [["train.py:38", "closure"]]
    by_name = {name: (state, gradient) for name, state, gradient, _ in third.data["parameters"]}
    assert {name: state for name, (state, _) in by_name.items()} == {
        "body.weight": "replaced", "body.bias": "replaced", "head.weight": "owned", "head.bias": "unfrozen",
    }  # fmt: skip
    assert by_name["head.bias"][1][1] == pytest.approx(2.0)
    (switched,) = rows["gradients.switch"]
    assert (lines([switched]), switched.data["name"], switched.data["wanted"]) == ([29], "head.bias", True)
    moves = [(row.data["before"], row.data["after"]) for row in rows["gradients.move"]]
    assert lines(rows["gradients.move"]) == [31, 32]
    assert moves == [("cuda:0 float32", "cpu float32"), ("cpu float32", "cuda:0 float32")]
    assert len(rows["gradients.last"]) == 1


PICKLING = """\
import copy, tempfile, threading
import torch, torch.distributed as dist, torch.multiprocessing as mp

def child(rank, given):
    pass

def refused(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except (TypeError, AttributeError) as error:
        return error
    raise AssertionError("it was pickled")

def main():
    dist.init_process_group("nccl", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
    refused(torch.save, {"trainer": [dist.group.WORLD]}, "x.pt")
    refused(copy.deepcopy, {"group": dist.group.WORLD})
    refused(dist.all_gather_object, [None], {"group": dist.group.WORLD})
    refused(mp.spawn, child, args=({"lock": threading.Lock()},), nprocs=1)
    process = mp.get_context("spawn").Process(target=child, args=(0, lambda: 1))
    refused(process.start)
    try:
        torch.save({"lock": threading.Lock()}, "/nonexistent/x.pt")
    except RuntimeError:
        pass
    copy.deepcopy({"plain": [1, 2]})
    # what torch.distributed copies is its own
    of_torch = compile("copy.deepcopy({'options': dist.group.WORLD})", dist.distributed_c10d.__file__, "eval")
    refused(eval, of_torch, globals())

if __name__ == "__main__":
    main()
"""


@pytest.mark.torch
@pytest.mark.parametrize("rows", [PICKLING], indirect=True)
def test_pickling(rows: dict[str, list[LoggedEvent]]) -> None:
    found = rows["pickling.refused"]
    told = [(row.data["mode"], row.data["offenders"][0]["path"], row.data["offenders"][0]["kind"]) for row in found]
    assert told == [
        ("torch.save", "obj['trainer'][0]", "process-group"),
        ("deepcopy", "obj['group']", "process-group"),
        ("collective", "obj['group']", "process-group"),
        ("spawn", "args[0]['lock']", "unpicklable"),
        ("spawn", "args[1]", "unpicklable"),
    ]
    assert found[4].data["made"] == ["train.py:20", "main"]


@pytest.mark.torch
@pytest.mark.parametrize(
    "rows",
    [
        """
        import torch
        net = torch.nn.Linear(9, 4).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(4):
            for _ in range(2):
                given = torch.nn.functional.dropout(torch.randn(5, 9).cuda(), 0.5)
                net(given).square().mean().backward()
            optimizer.step()
            if step != 2:
                optimizer.zero_grad()
        torch.nn.functional.dropout(torch.ones(5, 9), 0.5, training=False)
        """
    ],
    indirect=True,
)
def test_what_dropout_makes(rows: dict[str, list[LoggedEvent]]) -> None:
    assert len(rows["dropouts.call"]) == 8
    assert all(row.data["given"][1] == 1 for row in rows["dropouts.call"])
    assert len({row.data["result"] for row in rows["dropouts.call"]}) == 8
