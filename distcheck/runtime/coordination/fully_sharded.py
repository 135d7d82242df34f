"""Models that ``fully_shard`` divides: how each rank treats its shards, and which parameters stay outside.

Shards are no replicas, so their values differ. What is equal is how they are treated: the options of their optimizer,
whether they are changed at all, and the factor by which their averaged gradients are scaled.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .copy_observer import roots_of_models
from .digests import Digests
from .vectors import Vector, factor_of, norm_of

#: Options of a parameter group that are compared.
_OPTIONS = ("lr", "weight_decay", "momentum", "betas", "eps")
#: Shards whose gradients are observed, and those that no optimizer steps whose changes are counted.
_MOST_GRADIENTS, _MOST_CHANGES = 6, 8
#: Elements of a gradient from which on a clamp of each element is no common factor.
_LEAST_ELEMENTS = 8
#: Relative error of gradients that one factor has scaled.
_EQUAL = 2e-3


class Shards(NamedTuple):
    """How one rank treats its shards."""

    #: parameter → option of its group → value
    options: Mapping[str, Mapping[str, str]] = {}
    #: parameter that no optimizer of this rank steps → how often its shard was changed since the first row
    changes: Mapping[str, int] = {}
    #: of the gradients that the optimizer uses to those that the backward pass gave; 0: not known
    factor: float = 0.0


class Shard(NamedTuple):
    """The part of a parameter that this rank holds."""

    name: str
    parameter: Any
    #: those that hold the other parts
    group: Any


class FullyShardedModels:
    """The modules of this process that ``fully_shard`` has divided."""

    def __init__(self) -> None:
        #: groups of parameters, in the order of the calls, with the names of their parameters
        self._groups: list[tuple[weakref.ref[Any], tuple[str, ...]]] = []
        #: ranks of a mesh → calls
        self._calls: Counter[tuple[int, ...]] = Counter()
        #: name → number of changes when it was first seen
        self._versions: dict[str, int] = {}
        #: name → what the last backward pass gave
        self._gradients: dict[str, Vector] = {}
        self._outside: weakref.WeakKeyDictionary[Any, list[tuple[str, Any]]] = weakref.WeakKeyDictionary()

    def attach(self, module: Any) -> None:
        """Observe ``torch.distributed.fsdp._fully_shard._fsdp_param_group``."""
        kind = module.FSDPParamGroup
        real = kind.__init__

        def init(group: Any, *args: Any, **kwargs: Any) -> None:
            real(group, *args, **kwargs)
            self._outside.clear()
            ranks = tuple(group.mesh_info.mesh.mesh.flatten().tolist())
            # a rank may hold groups of other meshes as well
            number = self._calls[ranks] = self._calls[ranks] + 1
            self._groups.append((weakref.ref(group), tuple(_names(group, number))))

        kind.__init__ = init

    def attach_backward(self, module: Any, after: Callable[[], None]) -> None:
        """Call a function after each backward pass. Observes ``torch.distributed.fsdp._fully_shard._fsdp_state``."""
        kind = module.FSDPState
        real = kind._root_post_backward_final_callback

        def final_callback(state: Any) -> None:
            real(state)
            after()

        kind._root_post_backward_final_callback = final_callback

    def forget(self) -> None:
        """Forget the parent's models, in a fork."""
        self._groups.clear()
        self._calls.clear()
        self._versions.clear()
        self._gradients.clear()
        self._outside.clear()

    def _alive(self) -> Iterator[tuple[Any, tuple[str, ...]]]:
        return ((group, names) for reference, names in self._groups if (group := reference()) is not None)

    def shards(self) -> Iterator[Shard]:
        """Yield the shards of this rank, with the ranks that hold the others of one replica."""
        for group, names in self._alive():
            # what differs between replicas shows in their shards
            shared_among = getattr(group.mesh_info, "shard_process_group", None)
            for name, one in zip(names, group.fsdp_params, strict=False):
                yield Shard(name, one.sharded_param, shared_among)

    def see_gradients(self, digests: Digests | None) -> None:
        """Keep some gradients as the backward pass gave them; None: forget those of an earlier one."""
        self._gradients = {} if digests is None else dict(_gradients(self.shards(), digests))

    def treatment(
        self, optimizer: Any, stepped: set[int], digests: Digests | None
    ) -> Iterator[tuple[Any, tuple[int, ...], Shards]]:
        """Yield how this rank treats its shards, after the group that holds all of them and its ranks.

        :param stepped: IDs of the parameters of all optimizers
        :param digests: None: gradients are not compared
        """
        groups = {id(one): group for group in optimizer.param_groups for one in group["params"]}
        found: dict[tuple[int, ...], list[Shard]] = {}
        for shard in self.shards():
            if shard.group is not None:
                found.setdefault(tuple(sorted(_ranks_of_group(shard.group))), []).append(shard)
        for ranks, shards in found.items():
            mine = [shard for shard in shards if id(shard.parameter) in groups]
            if len(ranks) > 1 and mine:
                yield (
                    mine[0].group,
                    ranks,
                    Shards(
                        {shard.name: _options(groups[id(shard.parameter)]) for shard in mine},
                        dict(self._changes(shard for shard in shards if id(shard.parameter) not in stepped)),
                        self._factor(mine, digests) if digests is not None else 0.0,
                    ),
                )

    def _changes(self, shards: Iterable[Shard]) -> Iterator[tuple[str, int]]:
        for shard, _ in zip(shards, range(_MOST_CHANGES), strict=False):
            local = shard.parameter._local_tensor
            if local.numel() and not local.is_inference():
                yield shard.name, local._version - self._versions.setdefault(shard.name, local._version)

    def _factor(self, shards: list[Shard], digests: Digests) -> float:
        """Return the factor by which all observed gradients were scaled since the backward pass; 0: there is none."""
        known = [shard for shard in shards if shard.name in self._gradients]
        used = dict(_gradients(known, digests))
        pairs = [factor_of(vector, self._gradients[name]) for name, vector in used.items()]
        if not pairs or len(used) < len(known) or any(error > _EQUAL for _, error in pairs):
            return 0.0
        factors = [factor for factor, _ in pairs]
        return factors[0] if max(factors) - min(factors) <= _EQUAL * abs(max(factors)) else 0.0

    def outside(self, optimizer: Any) -> list[tuple[str, Any]]:
        """Return the parameters of an optimizer that ``fully_shard`` did not divide with the rest of their model."""
        known = self._outside.get(optimizer)
        if known is None:
            known = self._outside[optimizer] = list(self._find_outside(optimizer))
        return known

    def ranks_of_all(self) -> tuple[int, ...]:
        """Return the ranks of the mesh of all shards, replicas included; () if there are several meshes."""
        found = {tuple(sorted(group.mesh_info.mesh.mesh.flatten().tolist())) for group, _ in self._alive()}
        return found.pop() if len(found) == 1 else ()

    def _find_outside(self, optimizer: Any) -> Iterator[tuple[str, Any]]:
        plain = {
            id(one)
            for group in optimizer.param_groups
            for one in group["params"]
            if one.requires_grad and not hasattr(one, "device_mesh")
        }
        divided = [module for group, _ in self._alive() for module in group.modules]
        if not plain or not divided:
            return
        # what a divided module holds and keeps whole, the script has excluded
        inside = {id(one) for module in divided for one in module.parameters()}
        wanted = set(map(id, divided))
        for root in roots_of_models():
            if wanted.isdisjoint(map(id, root.modules())):
                continue
            for name, one in root.named_parameters():
                if id(one) in plain and id(one) not in inside:
                    yield f"{name} of {type(root).__name__}", one


def _names(group: Any, number: int) -> Iterator[str]:
    """Yield a name for each parameter of a group: the same on all ranks that make the same calls."""
    paths: dict[int, str] = {}
    for module in group.modules:
        for path, inner in module.named_modules():
            paths.setdefault(id(inner), f"{path}." if path else "")
    for one in group.fsdp_params:
        info = one._module_info
        kind = type(group.modules[0]).__name__
        yield f"{paths.get(id(info.module), '')}{info.param_name} of {kind} in call {number} of fully_shard"


def _ranks_of_group(group: Any) -> list[int]:
    return list(sys.modules["torch.distributed.distributed_c10d"].get_process_group_ranks(group))


def _options(group: Mapping[str, Any]) -> dict[str, str]:
    """Return some options of a parameter group, as they are compared."""
    numbers = (int, float, sys.modules["torch"].Tensor)
    chosen = {name: group[name] for name in _OPTIONS if name in group}
    return {name: f"{float(one) if isinstance(one, numbers) else one}" for name, one in chosen.items()}


def _gradients(shards: Iterable[Shard], digests: Digests) -> Iterator[tuple[str, Vector]]:
    count = 0
    for name, parameter, _ in shards:
        local = getattr(parameter.grad, "_local_tensor", None)
        if local is None or local.numel() < _LEAST_ELEMENTS or count >= _MOST_GRADIENTS:
            continue
        count += 1
        vector = tuple(digests.projections(local))
        if norm_of(vector):
            yield name, vector
