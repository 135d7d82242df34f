"""Which ranks train one model from parts of the data, and which must see the same: what wraps the model, and on which
mesh. Also which backward passes feed such a wrapper: other models that a script trains don't matter.
"""

from __future__ import annotations

import functools
import re
import sys
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from .logged_events import EventSink
from .patching import attach_to, harmless, wrap
from .sampling import EXCHANGE

#: Names of a mesh's dimensions along which the data is divided.
_OF_DATA = re.compile(r"(^|_)(dp|ddp|fsdp|hsdp|data|replicate|replica|shard|world|batch)(_|\d|$)")
#: If these are imported, ranks get data by means that are not observed here.
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

    #: wrappers whose forward has run, the gradients below them, and the collectives of their groups
    wrappers: tuple[tuple[Any, tuple[tuple[int, int], ...], int], ...]
    #: shards whose gradients were done
    sharded: int


class Parallel:
    """Notes ``samples.wrapped`` and ``samples.twins``.

    :param forwards: observe the forwards of DDP, which ``torch.compile`` would trace. Else each model in DDP counts
        as called once its reducer has reduced gradients
    """

    def __init__(self, event_log: EventSink, *, forwards: bool) -> None:
        self.event_log = event_log
        self.forwards = forwards
        #: models in DDP, and those whose reducer has reduced
        self.models: weakref.WeakSet[Any] = weakref.WeakSet()
        self.reduced: weakref.WeakSet[Any] = weakref.WeakSet()
        #: ``with Join(…)`` that this process is in
        self.joined = 0
        self._noted: set[tuple[str, tuple[int, ...]]] = set()
        #: wrappers that average gradients, and have been called with gradients since they were last fed
        self.called: weakref.WeakSet[Any] = weakref.WeakSet()
        self.sharded = 0
        #: engines of DeepSpeed that have been called with gradients since the last backward pass
        self.engines: weakref.WeakSet[Any] = weakref.WeakSet()

    def install(self, *, first: bool) -> None:
        """Notes are taken for this one from now on."""
        global _parallel
        _parallel = self
        if not first:
            return
        for module, function, then in _AFTER:
            if function.endswith("DistributedDataParallel.forward") and not self.forwards:
                continue
            attach_to(module, self.event_log, _TOPIC, functools.partial(_call_after, function, then))

    def not_data_parallel(self) -> list[str]:
        """Ways of parallelism that are in use, and under which ranks may see what they like."""
        return [name for name in _OTHER_WAYS if name in sys.modules]

    def divides_models(self) -> bool:
        """Return whether ranks hold parts of a model, or may do so."""
        return bool(self.not_data_parallel()) or any(kind == "samples.twins" for kind, _ in self._noted)

    def before_backward(self) -> Before:
        """What :meth:`was_fed` compares with."""
        wrappers = self.called if self.forwards else self.models
        return Before(tuple((one, _gradients(one), _collectives(one)) for one in wrappers), self.sharded)

    def was_fed(self, before: Before) -> bool:
        """Whether a backward pass has given a data-parallel wrapper gradients, of a forward through it."""
        # an engine moves gradients into buffers of its own, some of them after the backward pass
        called = bool(self.engines)
        self.engines.clear()
        fed = [wrapper for wrapper, gradients, _ in before.wrappers if _gradients(wrapper) != gradients]
        if self.forwards:
            for wrapper in fed:
                self.called.discard(wrapper)
        else:
            self.reduced.update(one for one, _, number in before.wrappers if _collectives(one) > number)
            fed = [wrapper for wrapper in fed if wrapper in self.reduced]
        return bool(fed) or called or self.sharded != before.sharded

    def note(self, kind: str, ranks: list[int], how: str) -> None:
        key = (kind, tuple(ranks))
        if key not in self._noted:
            self._noted.add(key)
            self.event_log.note(kind, ranks=ranks, how=how)

    def note_mesh(self, mesh: Any) -> None:
        """Log the ranks of a mesh that share this rank's part of the data."""
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
    parallel.models.add(model)
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


def _engine(parallel: Parallel, engine: Any, *_: Any) -> None:
    group = getattr(engine, "data_parallel_group", None)  # None with sequence parallelism: ranks share samples
    if group is not None:
        parallel.note("samples.wrapped", _ranks_of(group), "DeepSpeed")


def _engine_called(parallel: Parallel, engine: Any, *_: Any) -> None:
    if sys.modules["torch"].is_grad_enabled():
        parallel.engines.add(engine)


def _gradients(wrapper: Any) -> tuple[tuple[int, int], ...]:
    """Which gradient each parameter has, and how often that was changed: a backward pass adds in place."""
    gradients = [one.grad for one in wrapper.parameters()]
    # a DTensor's own number stays as it is
    return tuple((id(one), -1 if one is None else getattr(one, "_local_tensor", one)._version) for one in gradients)


def _collectives(wrapper: Any) -> int:
    """Return the number of collectives of a model's group, those of its reducer included; 0 if nothing counts them."""
    try:
        return int(wrapper.process_group._get_sequence_number_for_group())
    except (RuntimeError, AttributeError):
        return 0


def _called(parallel: Parallel, wrapper: Any, *_: Any) -> None:
    if sys.modules["torch"].is_grad_enabled():
        parallel.called.add(wrapper)


def _reduced(parallel: Parallel, *_: Any) -> None:
    parallel.sharded += 1


def _tensor_parallel(parallel: Parallel, *args: Any) -> None:
    mesh = next((one for one in args if hasattr(one, "mesh_dim_names")), None)
    if mesh is not None:
        parallel.note("samples.twins", sorted(rank for _, rank in _numbered(mesh.mesh.tolist(), ())), "tensor parallel")


def _exchanged(parallel: Parallel, *args: Any) -> None:
    """Ranks that send each other parts share out the work of one batch: tables of a recommender, experts, sequences."""
    distributed = sys.modules["torch.distributed"]
    group = next((one for one in args if isinstance(one, distributed.ProcessGroup)), None)
    parallel.note("samples.twins", _ranks_of(group), EXCHANGE)


def _join_begins(parallel: Parallel, *_: Any) -> None:
    parallel.joined += 1


def _join_ends(parallel: Parallel, *_: Any) -> None:
    parallel.joined -= 1


def _call_after(name: str, then: Callable[..., None], module: Any) -> None:
    """Call ``then(parallel, *args)`` after each call of a function."""

    def around(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        if _parallel is not None:
            with harmless(_parallel.event_log, _TOPIC):
                then(_parallel, *args, *kwargs.values())
        return result

    # packages export functions of their modules
    package = sys.modules.get(module.__name__.rpartition(".")[0])
    wrap(module if "." in name else (module, package), name, around)


#: Module, function, and what is called after it.
_AFTER: tuple[tuple[str, str, Callable[..., None]], ...] = (
    ("torch.nn.parallel.distributed", "DistributedDataParallel._ddp_init_helper", _ddp),
    ("torch.nn.parallel.distributed", "DistributedDataParallel.forward", _called),
    (f"{_FSDP}._runtime_utils", "_post_backward_hook", _reduced),
    (f"{_FSDP}.fully_sharded_data_parallel", "FullyShardedDataParallel.__init__", _fsdp),
    (f"{_FSDP}._fully_shard._fsdp_param_group", "FSDPParamGroup.__init__", _fully_shard),
    (f"{_FSDP}._fully_shard._fsdp_param_group", "FSDPParamGroup.post_backward", _reduced),
    # until torch 2.5
    (f"{_OLD_FSDP}._fsdp_param_group", "FSDPParamGroup.__init__", _fully_shard),
    (f"{_OLD_FSDP}._fsdp_param_group", "FSDPParamGroup.post_backward", _reduced),
    ("deepspeed.runtime.engine", "DeepSpeedEngine._configure_distributed_model", _engine),
    ("deepspeed.runtime.engine", "DeepSpeedEngine.forward", _engine_called),
    ("torch.distributed.tensor.parallel.api", "parallelize_module", _tensor_parallel),
    ("torch.distributed.distributed_c10d", "all_to_all", _exchanged),
    ("torch.distributed.distributed_c10d", "all_to_all_single", _exchanged),
    ("torch.distributed.algorithms.join", "Join.__enter__", _join_begins),
    ("torch.distributed.algorithms.join", "Join.__exit__", _join_ends),
)
