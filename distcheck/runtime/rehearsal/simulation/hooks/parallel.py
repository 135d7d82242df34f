"""Which ranks train one model from parts of the data, and which must see the same: what wraps the model, and on which
mesh. And which backward passes feed such a wrapper: what a script trains beside it is its own affair.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from distcheck.runtime.rehearsal.simulation.event_log import EventLog

from .patching import attach_to, harmless, wrap

#: Names of a mesh's dimensions along which the data is divided.
_OF_DATA = re.compile(r"(^|_)(dp|ddp|fsdp|hsdp|data|replicate|replica|shard|world|batch)(_|\d|$)")
#: Whoever has imported these feeds ranks in ways that can't be seen here.
_OTHER_WAYS = (
    "torch.distributed.pipelining",
    "torch.distributed.tensor.experimental._attention",
    "torch.distributed.tensor.experimental._context_parallel",
    "megatron.core",
)
_FSDP, _OLD_FSDP = "torch.distributed.fsdp", "torch.distributed._composable.fsdp"
_TOPIC = "samples"
_parallel: Parallel | None = None


class Before(NamedTuple):
    """What a backward pass found."""

    #: wrappers that a forward has gone through, and the gradients below them
    wrappers: tuple[tuple[Any, tuple[tuple[int, int], ...]], ...]
    #: shards whose gradients were done
    sharded: int


class Parallel:
    """Notes ``samples.wrapped`` and ``samples.twins``."""

    def __init__(self, notebook: EventLog) -> None:
        self.notebook = notebook
        #: ``with Join(…)`` that this process is in
        self.joined = 0
        self._noted: set[tuple[str, tuple[int, ...]]] = set()
        #: wrappers that average gradients, and have been called with gradients since they were last fed
        self.called: weakref.WeakSet[Any] = weakref.WeakSet()
        self.sharded = 0

    def install(self, *, first: bool) -> None:
        """Notes are taken for this one from now on."""
        global _parallel
        _parallel = self
        if not first:
            return
        attached: tuple[tuple[str, Callable[[Any], None]], ...] = (
            ("torch.nn.parallel.distributed", lambda module: _after(module.DistributedDataParallel, _ddp)),
            (
                "torch.nn.parallel.distributed",
                lambda module: _after_call(module.DistributedDataParallel, "forward", _called),
            ),
            (f"{_FSDP}._runtime_utils", lambda module: _after_call(module, "_post_backward_hook", _reduced)),
            (f"{_FSDP}.fully_sharded_data_parallel", lambda module: _after(module.FullyShardedDataParallel, _fsdp)),
            (f"{_FSDP}._fully_shard._fsdp_param_group", _attach_fully_shard),
            # until torch 2.5
            (f"{_OLD_FSDP}._fsdp_param_group", _attach_fully_shard),
            ("torch.distributed.tensor.parallel.api", lambda module: wrap(module, "parallelize_module", _parallelize)),
            ("torch.distributed.algorithms.join", _attach_join),
        )
        for module, attach in attached:
            attach_to(module, self.notebook, _TOPIC, attach)

    def not_data_parallel(self) -> list[str]:
        """Ways of parallelism that are in use, and under which ranks may see what they like."""
        return [name for name in _OTHER_WAYS if name in sys.modules]

    def before_backward(self) -> Before:
        """What :meth:`was_fed` compares with."""
        return Before(tuple((one, _gradients(one)) for one in self.called), self.sharded)

    def was_fed(self, before: Before) -> bool:
        """Whether a backward pass has given a data-parallel wrapper gradients, of a forward through it."""
        fed = [wrapper for wrapper, gradients in before.wrappers if _gradients(wrapper) != gradients]
        for wrapper in fed:
            self.called.discard(wrapper)
        return bool(fed) or self.sharded != before.sharded

    def note(self, kind: str, ranks: list[int], how: str) -> None:
        key = (kind, tuple(ranks))
        if key not in self._noted:
            self._noted.add(key)
            self.notebook.note(kind, ranks=ranks, how=how)

    def note_mesh(self, mesh: Any) -> None:
        """The ranks that a mesh puts beside this one without a part of the data of their own."""
        root = _root_of(mesh)
        names = getattr(root, "mesh_dim_names", None)
        if not names or all(_OF_DATA.search(name) for name in names):
            return
        divided = [place for place, name in enumerate(names) if _OF_DATA.search(name)]
        alike: dict[tuple[int, ...], list[int]] = {}
        for place, rank in _numbered(root.mesh.tolist(), ()):
            alike.setdefault(tuple(place[number] for number in divided), []).append(rank)
        for ranks in alike.values():
            if len(ranks) > 1:
                self.note("samples.twins", sorted(ranks), "×".join(names))


def _root_of(mesh: Any) -> Any:
    if hasattr(mesh, "_get_root_mesh"):
        return mesh._get_root_mesh()
    resources = getattr(sys.modules.get("torch.distributed.device_mesh"), "_mesh_resources", None)
    get_root = getattr(resources, "get_root_mesh", None)
    return mesh if get_root is None else get_root(mesh)


def _numbered(nested: Any, place: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
    if not isinstance(nested, list):
        return [(place, int(nested))]
    return [pair for number, inner in enumerate(nested) for pair in _numbered(inner, (*place, number))]


def _ranks_of(group: Any) -> list[int]:
    return sorted(sys.modules["torch.distributed"].get_process_group_ranks(group))


def _ddp(parallel: Parallel, model: Any, *_: Any) -> None:
    parallel.note("samples.wrapped", _ranks_of(model.process_group), "DistributedDataParallel")
    mesh = getattr(model, "device_mesh", None)
    if mesh is not None:
        parallel.note_mesh(mesh)


def _fsdp(parallel: Parallel, model: Any, *_: Any) -> None:
    ranks = set(_ranks_of(model.process_group))
    across = getattr(model, "_inter_node_pg", None)
    if across is not None:
        others = _ranks_of(across)
        # replicas of shards: all of them together, where they are a rectangle
        world = sys.modules["torch.distributed"].get_world_size()
        ranks = set(range(world)) if len(ranks) * len(others) == world else ranks | set(others)
    parallel.note("samples.wrapped", sorted(ranks), "FullyShardedDataParallel")
    mesh = getattr(model, "_device_mesh", None)
    if mesh is not None:
        parallel.note_mesh(mesh)


def _fully_shard(parallel: Parallel, _: Any, *args: Any) -> None:
    mesh = next((one.mesh for one in args if hasattr(one, "mesh")), None)
    if mesh is not None:
        ranks = sorted(rank for _, rank in _numbered(mesh.mesh.tolist(), ()))
        parallel.note("samples.wrapped", ranks, "fully_shard")
        parallel.note_mesh(mesh)


def _quietly(function: Callable[..., Any], *args: Any) -> None:
    if _parallel is not None:
        with harmless(_parallel.notebook, _TOPIC):
            function(_parallel, *args)


def _gradients(wrapper: Any) -> tuple[tuple[int, int], ...]:
    """Which gradient each parameter has, and how often that was changed: a backward pass adds in place."""
    gradients = [one.grad for one in wrapper.parameters()]
    # a DTensor's own number stays as it is
    return tuple((id(one), -1 if one is None else getattr(one, "_local_tensor", one)._version) for one in gradients)


def _called(parallel: Parallel, wrapper: Any, *_: Any) -> None:
    if sys.modules["torch"].is_grad_enabled():
        parallel.called.add(wrapper)


def _reduced(parallel: Parallel, *_: Any) -> None:
    parallel.sharded += 1


def _attach_fully_shard(module: Any) -> None:
    _after(module.FSDPParamGroup, _fully_shard)
    _after_call(module.FSDPParamGroup, "post_backward", _reduced)


def _after_call(owner: Any, name: str, then: Callable[..., None]) -> None:
    def around(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        _quietly(then, *args)
        return result

    wrap(owner, name, around)


def _after(owner: Any, then: Callable[..., None]) -> None:
    def around(real: Callable[..., None], one: Any, *args: Any, **kwargs: Any) -> None:
        real(one, *args, **kwargs)
        _quietly(then, one, *args, *kwargs.values())

    wrap(owner, "__init__", around)


def _parallelize(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    mesh = kwargs.get("device_mesh", args[1] if len(args) > 1 else None)
    if mesh is not None:
        _quietly(_tensor_parallel, mesh)
    return real(*args, **kwargs)


def _tensor_parallel(parallel: Parallel, mesh: Any) -> None:
    parallel.note("samples.twins", sorted(rank for _, rank in _numbered(mesh.mesh.tolist(), ())), "tensor parallel")


def _attach_join(module: Any) -> None:
    wrap(module.Join, "__enter__", _entering)
    wrap(module.Join, "__exit__", _leaving)


def _entering(real: Callable[..., Any], join: Any) -> Any:
    _quietly(_count, 1)
    return real(join)


def _leaving(real: Callable[..., Any], join: Any, *error: Any) -> Any:
    _quietly(_count, -1)
    return real(join, *error)


def _count(parallel: Parallel, step: int) -> None:
    parallel.joined += step
