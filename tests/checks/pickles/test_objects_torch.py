"""What the walk says of torch's objects is what torch does with them, in all five modes, in a world of one rank."""

from __future__ import annotations

import copy
import io
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distcheck.checks.pickles.modes import MODES, as_if_spawning
from distcheck.checks.pickles.objects import find_unpicklable

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")
dist = torch.distributed
nn = torch.nn


@pytest.fixture(scope="module", autouse=True)
def world() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def really(mode: str, value: Any) -> str:
    """What the real thing raises; empty where it succeeds."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if mode == "pickle":
                pickle.dumps(value)
            elif mode == "torch.save":
                torch.save(value, io.BytesIO())
            elif mode == "deepcopy":
                copy.deepcopy(value)
            elif mode == "collective":
                dist.broadcast_object_list([value], src=0)
                dist.all_gather_object([None], value)
            else:
                from multiprocessing.reduction import ForkingPickler

                with as_if_spawning("spawn"):
                    ForkingPickler.dumps(value)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is
        return f"{type(error).__name__}: {error}"
    return ""


def local() -> Any:
    class Local(nn.Module):
        pass

    return Local()


def non_leaf() -> Any:
    return torch.ones(2, requires_grad=True) * 2


def hooked() -> Any:
    tensor = torch.ones(2, requires_grad=True)
    tensor.register_hook(lambda grad: grad)
    return tensor


def with_attribute(content: Any) -> Any:
    tensor = torch.ones(2)
    tensor.note = content
    return tensor


def parameter_with_attribute(content: Any) -> Any:
    parameter = nn.Parameter(torch.ones(2))
    parameter.note = content
    return parameter


def forward_hooked() -> Any:
    module = nn.Linear(2, 2)
    module.register_forward_hook(lambda *_: None)
    return module


def shared_dtypes() -> Any:
    tensor = torch.ones(4)
    return {"floats": tensor, "integers": tensor.view(torch.int32)}


def with_grad() -> Any:
    tensor = torch.ones(2, requires_grad=True)
    tensor.sum().backward()
    return tensor


def with_graph_in_grad() -> Any:
    tensor = torch.ones(2, requires_grad=True)
    (tensor**3).sum().backward(create_graph=True)
    return tensor


def dataloader(workers: int = 0) -> Any:
    return torch.utils.data.DataLoader([1, 2, 3], num_workers=workers)


def scheduler(function: Any) -> Any:
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, function)


def ddp(**options: Any) -> Any:
    return nn.parallel.DistributedDataParallel(nn.Linear(2, 2), **options)


def fully_sharded() -> Any:
    from torch.distributed.fsdp import fully_shard

    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    fully_shard(module, mesh=mesh())
    return module


def mesh() -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (1,))


def dtensor() -> Any:
    from torch.distributed.tensor import Replicate, distribute_tensor

    return distribute_tensor(torch.ones(2), mesh(), [Replicate()])


def fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(2)


def scripted() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(nn.Linear(2, 2))


def spectral() -> Any:
    return nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2))


def weight_normed() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.utils.weight_norm(nn.Linear(2, 2))


def zero_optimizer() -> Any:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    return ZeroRedundancyOptimizer(nn.Linear(2, 2).parameters(), torch.optim.SGD, lr=0.1)


class Named(torch.Tensor):
    """A subclass that brings nothing."""


class Own(torch.Tensor):
    """A subclass that refuses."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("not this one")


def double(factor: int) -> float:
    return 2.0 * factor


CASES: dict[str, Callable[[], Any]] = {
    "group": lambda: dist.group.WORLD,
    "new group": lambda: dist.new_group(),
    "work": lambda: dist.all_reduce(torch.ones(1), async_op=True),
    "hash store": lambda: dist.HashStore(),
    "prefix store": lambda: dist.PrefixStore("x", dist.HashStore()),
    "future": lambda: torch.futures.Future(),
    "ddp": ddp,
    "ddp with a group": lambda: ddp(process_group=dist.new_group()),
    "sync batch norm": lambda: nn.SyncBatchNorm(2, process_group=dist.new_group()),
    "fsdp 2": fully_sharded,
    "mesh": mesh,
    "dtensor": dtensor,
    "zero": zero_optimizer,
    "loader": dataloader,
    "loader iterator": lambda: iter(dataloader()),
    "stream": lambda: torch.Stream(device="cpu"),
    "event": lambda: torch.Event(device="cpu"),
    "sampler": lambda: torch.utils.data.DistributedSampler([1, 2], 1, 0),
    "generator": lambda: torch.Generator(),
    "lambda scheduler": lambda: scheduler(lambda step: 1.0),
    "scheduler": lambda: scheduler(double),
    "forward hook": forward_hooked,
    "local module": local,
    "module": lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU()),
    "module list": lambda: nn.ModuleList([nn.Linear(2, 2)]),
    "lazy module": lambda: nn.LazyLinear(2),
    "optimizer": lambda: torch.optim.Adam(nn.Linear(2, 2).parameters()),
    "state dict": lambda: nn.Linear(2, 2).state_dict(),
    "tensor": lambda: torch.ones(2),
    "parameter": lambda: nn.Parameter(torch.ones(2)),
    "buffer": lambda: nn.Buffer(torch.ones(2)),
    "non-leaf": non_leaf,
    "non-leaf in a list": lambda: [non_leaf()],
    "hooked": hooked,
    "tensor with a lock": lambda: with_attribute(threading.Lock()),
    "tensor with a number": lambda: with_attribute(3),
    "tensor with a list": lambda: with_attribute([3, {}]),
    "parameter with a lock": lambda: parameter_with_attribute(threading.Lock()),
    "grad": with_grad,
    "graph in the grad": with_graph_in_grad,
    "grad_fn": lambda: non_leaf().grad_fn,
    "two dtypes": shared_dtypes,
    "two views": lambda: [tensor := torch.ones(4), tensor[:2]],
    "meta": lambda: torch.ones(2, device="meta"),
    "sparse": lambda: torch.eye(2).to_sparse(),
    "csr": lambda: torch.eye(2).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
    "bits": lambda: torch.ones(2, dtype=torch.uint16),
    "fake": fake,
    "subclass": lambda: torch.ones(2).as_subclass(Named),
    "refusing subclass": lambda: torch.ones(2).as_subclass(Own),
    "storage": lambda: torch.ones(2).untyped_storage(),
    "typed storage": lambda: torch.ones(2)._typed_storage(),
    "empty storage": lambda: torch.UntypedStorage(0),
    "dtype": lambda: torch.float32,
    "device": lambda: torch.device("cpu"),
    "size": lambda: torch.ones(2).size(),
    "memory format": lambda: torch.channels_last,
    "layout": lambda: torch.strided,
    "finfo": lambda: torch.finfo(torch.float32),
    "script": scripted,
    "parametrized": spectral,
    "weight norm": weight_normed,
    "op": lambda: torch.ops.aten.add,
    "op overload": lambda: torch.ops.aten.add.Tensor,
    "compiled module": lambda: torch.compile(nn.Linear(2, 2)),
    "compiled function": lambda: torch.compile(double),
    "fx": lambda: torch.fx.symbolic_trace(nn.Linear(2, 2)),
    "function": lambda: torch.nn.functional.relu,
    "builtin": lambda: torch.add,
    "torch": lambda: torch,
    "distribution": lambda: torch.distributions.Normal(0.0, 1.0),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_the_walk_agrees_with_torch(case: str, mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = CASES[case]()
        report = find_unpicklable({"member": value}, mode=mode)
        truth = really(mode, {"member": value})
    assert report.complete, report.unfinished
    assert report.ok == (not truth), (truth, str(report))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", ["group", "tensor", "non-leaf", "two dtypes", "module", "ddp", "state dict"])
def test_the_real_thing_agrees(case: str, mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = find_unpicklable([CASES[case]()], mode=mode, confirm=True)
    assert report.confirmation == ""


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(200_000_000 // 4))
        self.process_group = None

    def forward(self, values: Any) -> Any:
        return values


@pytest.mark.parametrize("mode", MODES)
def test_a_large_model_is_judged_without_a_copy_of_it(mode: str) -> None:
    import psutil

    model = Model()
    process = psutil.Process()
    before = process.memory_info().rss
    report = find_unpicklable(model, mode=mode)
    assert report.ok, str(report)
    assert process.memory_info().rss - before < 50 << 20
    model.process_group = dist.group.WORLD
    report = find_unpicklable(model, mode=mode, name="model")
    assert [offender.path for offender in report.offenders] == ["model.process_group"]
    assert process.memory_info().rss - before < 50 << 20


def test_modules_in_modules_have_the_paths_that_people_type() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ModuleDict({"a b": nn.SyncBatchNorm(2, process_group=dist.group.WORLD)}))
    holder = nn.Module()
    holder.encoder = model
    report = find_unpicklable(holder, name="model")
    (offender,) = report.offenders
    assert offender.path == "model.encoder[1]['a b'].process_group"
    assert eval(offender.path, {"model": holder}) is dist.group.WORLD
    assert offender.attribute == "process_group"
    assert find_unpicklable(nn.Parameter(torch.ones(2)), name="weight").ok
