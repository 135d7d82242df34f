"""The kinds of things that torch brings, as the installed torch makes them: found, explained, fixed by leaving them out."""

from __future__ import annotations

import copy
import io
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distcheck.checks.pickles import kinds
from distcheck.checks.pickles.objects import find_unpicklable

from .test_kinds import Holder, assert_found_and_fixed, drop, loud, refused

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """torch warns of what it deprecates while these things are made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def world() -> Iterator[Any]:
    """A default group of this process alone."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist
    if dist.is_initialized():
        dist.destroy_process_group()


def linear() -> Any:
    import torch

    return torch.nn.Linear(2, 2)


def work(dist: Any) -> Any:
    import torch

    handle = dist.all_reduce(torch.ones(1), async_op=True)
    handle.wait()
    return handle


def own_ddp(dist: Any) -> Any:
    import torch

    return torch.nn.parallel.DistributedDataParallel(linear(), process_group=dist.new_group([0]))


def fully_sharded(dist: Any) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    module = linear()
    fully_shard(module, mesh=init_device_mesh("cpu", (1,)))
    return module


@pytest.mark.parametrize(
    ("make", "why", "fix"),
    [
        (lambda dist: dist.group.WORLD, "process group", "dist.new_group(ranks)"),
        (lambda dist: dist.new_group([0]), "process group", "get_process_group_ranks"),
        (work, "handle of a collective", ".wait()"),
        (lambda dist: dist.HashStore(), "store", "connect again"),
        (lambda dist: dist.PrefixStore("a", dist.HashStore()), "store", "connect again"),
        (own_ddp, "its own process group", "ddp.module.state_dict()"),
    ],
    ids=["world", "group", "work", "store", "prefix-store", "ddp-own-group"],
)
def test_bad_dc602_a_piece_of_torch_distributed(world: Any, make: Callable[[Any], Any], why: str, fix: str) -> None:
    thing = make(world)
    assert kinds.explain(thing, refused(thing), "pickle").kind == "process-group"
    assert_found_and_fixed(thing, why, fix)


def test_bad_dc602_a_ddp_whose_group_is_gone(world: Any) -> None:
    import torch

    model = torch.nn.parallel.DistributedDataParallel(linear())
    world.destroy_process_group()
    assert_found_and_fixed(model, "default group no longer exists", "ddp.module.state_dict()")


def test_bad_dc602_a_synchronized_batch_norm(world: Any) -> None:
    import torch

    model = torch.nn.Sequential(linear(), torch.nn.SyncBatchNorm(2, process_group=world.new_group([0])))
    refused(model)
    (found,) = find_unpicklable(model).offenders
    assert found.kind == "process-group"
    assert found.path.endswith(".process_group")
    drop(model, found.path)
    pickle.dumps(model)


def test_bad_a_module_that_is_fully_sharded(world: Any) -> None:
    module = fully_sharded(world)
    said = kinds.explain(module, refused(module), "pickle", "obj.model")
    assert "fully_shard" in said.why
    assert "dcp.save" in said.fix
    holder = Holder()
    holder.model = module  # type: ignore[attr-defined]
    report = find_unpicklable(holder)
    assert [offender.path for offender in report.offenders] == ["obj.model"]
    drop(holder, "obj.model")
    assert find_unpicklable(holder).ok


def script() -> Any:
    import torch

    return torch.jit.script(linear())


def parametrized() -> Any:
    import torch

    return torch.nn.utils.parametrizations.spectral_norm(linear())


def compiled_function() -> Any:
    import torch

    return torch.compile(lambda x: x + 1)


def loader_iterator() -> Any:
    import torch

    return iter(torch.utils.data.DataLoader([1, 2]))


def fake_tensor() -> Any:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(2)


def non_leaf() -> Any:
    import torch

    return torch.ones(2, requires_grad=True) * 2


def operator() -> Any:
    import torch

    return torch.ops.aten.add


def future() -> Any:
    import torch

    return torch.futures.Future()


def limits() -> Any:
    import torch

    return torch.finfo(torch.float32)


@pytest.mark.parametrize(
    ("make", "why", "fix"),
    [
        (script, "torch's interpreter", "torch.jit.save"),
        (parametrized, "parametrizations", "remove_parametrizations"),
        (compiled_function, "torch.compile", "plain function"),
        (loader_iterator, "iterator of a DataLoader", "iter(loader)"),
        (fake_tensor, "no data", "meta"),
        (lambda: non_leaf().grad_fn, "autograd graph", ".detach()"),
        (operator, "torch.ops", "aten::add"),
        (lambda: operator().Tensor, "torch.ops", "aten::add"),
        (future, "still waits", "future.wait()"),
        (limits, "limits", "keep the dtype"),
    ],
    ids=[
        "script", "parametrized", "compiled-function", "loader-iterator", "fake-tensor", "grad-fn", "operator", "overload",
        "future", "finfo",
    ],
)  # fmt: skip
def test_bad_a_kind_of_torch(make: Callable[[], Any], why: str, fix: str) -> None:
    assert_found_and_fixed(make(), why, fix)


def test_bad_a_scheduler_and_a_hook_with_a_lambda() -> None:
    import torch

    holder = Holder()
    holder.model = linear()  # type: ignore[attr-defined]
    holder.model.register_forward_hook(lambda *_: None)  # type: ignore[attr-defined]
    optimizer = torch.optim.SGD(holder.model.parameters(), lr=0.1)  # type: ignore[attr-defined]
    holder.scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch)  # type: ignore[attr-defined]
    report = find_unpicklable(holder)
    fixes = {offender.path: offender.fix for offender in report.offenders}
    assert len(fixes) == 2, fixes
    (hook,) = [path for path in fixes if "hooks" in path]
    (rate,) = [path for path in fixes if "lr_lambdas" in path]
    assert "handle.remove()" in fixes[hook]
    assert "scheduler.state_dict()" in fixes[rate]
    for path in fixes:
        drop(holder, path)
    pickle.dumps(holder)


def test_bad_a_tensor_with_a_history_can_not_be_copied() -> None:
    holder = Holder()
    holder.loss = non_leaf()  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError):
        copy.deepcopy(holder)
    for mode in ("deepcopy", "spawn"):
        (found,) = find_unpicklable(holder, mode=mode).offenders
        assert found.path == "obj.loss"
        assert "autograd" in found.why
        assert ".detach()" in found.fix
    drop(holder, "obj.loss")
    copy.deepcopy(holder)
    holder.loss = non_leaf()  # type: ignore[attr-defined]
    report = find_unpicklable(holder)
    assert report.ok
    assert [(item.path, item.kind) for item in report.warnings] == [("obj.loss", "note")]


def test_bad_a_memory_format_can_not_be_saved() -> None:
    import torch

    holder = Holder()
    holder.layout = torch.channels_last  # type: ignore[attr-defined]
    assert find_unpicklable(holder).ok
    (found,) = find_unpicklable(holder, mode="torch.save").offenders
    assert "protocol 2" in found.why
    assert "name" in found.fix
    drop(holder, found.path)
    torch.save(holder, io.BytesIO())


# what pickles and breaks


def sampler() -> Any:
    import torch

    return torch.utils.data.distributed.DistributedSampler(range(8), num_replicas=4, rank=2)


def hooked() -> Any:
    import torch

    tensor = torch.nn.Parameter(torch.ones(2))
    tensor.register_hook(print)
    return tensor


def graph_module() -> Any:
    import torch

    return torch.fx.symbolic_trace(linear())


def compiled_module() -> Any:
    import torch

    return torch.compile(linear())


def loader() -> Any:
    import torch

    return torch.utils.data.DataLoader([1, 2])


def storage() -> Any:
    import torch

    return torch.ones(2).untyped_storage()


@pytest.mark.parametrize(
    ("make", "why", "fix"),
    [
        (sampler, "same shard", "set_epoch"),
        (hooked, "hooks are not saved", "register_hook"),
        (graph_module, "generated source", "torch.export.save"),
        (compiled_module, "compiled module", "_orig_mod.state_dict()"),
        (loader, "whole data set", "batch number"),
        (storage, "can be written by pickle and not be read", "torch.tensor"),
    ],
    ids=["sampler", "hooks", "graph-module", "compiled-module", "loader", "storage"],
)
def test_bad_dc603_what_is_of_no_use_afterwards(make: Callable[[], Any], why: str, fix: str) -> None:
    report = find_unpicklable({"it": make()})
    assert report.ok, report.offenders
    breaks = [item for item in report.warnings if item.kind == "breaks"]
    assert [item.path for item in breaks] == ["obj['it']"]
    assert why in breaks[0].why
    assert fix in breaks[0].fix
    copied = find_unpicklable({"it": make()}, mode="deepcopy").warnings
    assert [item for item in copied if item.kind == "breaks"] == []


@pytest.mark.parametrize("kind", ["ddp", "mesh", "dtensor", "zero"])
def test_bad_dc603_what_needs_the_job_around_it(world: Any, kind: str) -> None:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.tensor import distribute_tensor

    if kind == "ddp":
        thing, why = torch.nn.parallel.DistributedDataParallel(linear()), "default group"
    elif kind == "zero":
        thing, why = ZeroRedundancyOptimizer(linear().parameters(), torch.optim.SGD, lr=0.1), "step()"
    elif kind == "mesh":
        thing, why = init_device_mesh("cpu", (1,)), "get_group()"
    else:
        thing, why = distribute_tensor(torch.ones(2), init_device_mesh("cpu", (1,))), "shard"
    pickle.dumps(thing)
    report = find_unpicklable({"it": thing})
    assert report.ok, report.offenders
    said = [item for item in loud(report) if item.path == "obj['it']"]
    assert len(said) == 1
    assert why in said[0].why


def test_bad_dc603_a_device_by_its_index() -> None:
    import torch

    report = find_unpicklable({"device": torch.device("cuda:3")})
    assert report.ok
    (said,) = report.warnings
    assert said.kind == "breaks"
    assert "cuda:3" in said.why
    assert "LOCAL_RANK" in said.fix
    assert find_unpicklable({"device": torch.device("cuda:0")}).warnings[0].kind == "note"
    assert find_unpicklable({"device": torch.device("cuda")}).warnings == ()
    assert find_unpicklable({"device": torch.device("cpu")}).warnings == ()


def test_a_tensor_on_a_gpu_is_said_by_its_index() -> None:
    """No GPU is needed: what is asked of the tensor is answered here."""

    def answers(name: str) -> Any:
        import torch

        return {"is_cuda": True, "device": torch.device("cuda:3")}.get(name)

    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "_tensor_attribute", lambda value, name: answers(name))
        tensor = torch.ones(1)
        saved = kinds.caution(tensor, "torch.save")
        assert saved is not None
        assert saved.kind == "breaks"
        assert "cuda:3" in saved.why
        assert "map_location" in saved.fix
        sent = kinds.caution(tensor, "collective")
        assert sent is not None
        assert "every rank" in sent.why
        assert kinds.caution(tensor, "deepcopy") is None


def model() -> Any:
    import torch

    return torch.nn.Sequential(linear(), torch.nn.BatchNorm1d(2))


def test_good_models_optimizers_and_their_states() -> None:
    import torch

    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    checkpoint = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "config": {"lr": 0.1}}
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    for thing in (net, optimizer, checkpoint, scheduler, torch.float32, torch.Size([1, 2]), torch.device("cpu")):
        for mode in ("pickle", "torch.save", "collective", "deepcopy", "spawn"):
            report = find_unpicklable({"it": thing}, mode=mode)
            assert report.ok, (mode, report.offenders)
            assert loud(report) == [], mode


def test_a_whole_module_that_is_saved_is_a_note() -> None:
    """Only where the module itself is saved as a file, not where it is a member of something that is pickled."""
    (note,) = find_unpicklable(model(), mode="torch.save").warnings
    assert note.kind == "note"
    assert "state_dict()" in note.fix
    assert find_unpicklable(model()).warnings == ()
    assert find_unpicklable(model().state_dict(), mode="torch.save").warnings == ()


def test_good_a_sampler_and_a_generator_are_no_trouble_in_this_job() -> None:
    import torch

    assert find_unpicklable({"it": sampler()}, mode="deepcopy").warnings == ()
    report = find_unpicklable({"it": torch.Generator()})
    assert report.ok
    assert loud(report) == []
    assert len(report.warnings) == 1


def test_bad_dc603_hooks_after_accumulation_are_lost() -> None:
    import torch

    parameter = torch.nn.Parameter(torch.zeros(2))
    parameter.register_post_accumulate_grad_hook(lambda tensor: None)
    (caution,) = find_unpicklable({"weight": parameter}).warnings
    assert "not written" in caution.why
    assert "register_post_accumulate_grad_hook" in caution.fix
    assert not pickle.loads(pickle.dumps(parameter))._post_accumulate_grad_hooks


def test_modules_of_a_dict_have_their_keys() -> None:
    import torch

    inner = torch.nn.Identity()
    inner.lock = threading.Lock()
    model = torch.nn.ModuleDict({"a-b": inner})
    (offender,) = find_unpicklable(model, name="model").offenders
    assert offender.path == "model['a-b'].lock"
    assert eval(offender.path, {"model": model}) is inner.lock


def test_a_function_that_torch_made_is_called_for_again() -> None:
    import torch

    module = torch.nn.Linear(2, 2)
    module.avg_fn = torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    (offender,) = find_unpicklable(module).offenders
    assert "move" not in offender.fix
    assert "get_ema_multi_avg_fn(…)" in offender.fix


def test_what_is_refused_gets_no_word_about_what_becomes_of_it_elsewhere(world: Any) -> None:
    """A sharded module is one thing: nothing is said of the meshes in it."""
    report = find_unpicklable({"model": fully_sharded(world)})
    assert [item.path for item in report.offenders] == ["obj['model']"]
    assert not report.warnings
