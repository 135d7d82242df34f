"""Which ranks hold the same part of a parameter, by the mesh of a DTensor: replicas of shards, and of whole parameters.

A plain parameter of a module that ``parallelize_module`` has divided is replicated along that mesh, too: each rank
computes its gradient from the same activations.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from .wrap import put_around


class MeshReplicas(NamedTuple):
    """Parameters of one optimizer whose local parts are the same on some ranks."""

    ranks: tuple[int, ...]
    #: each rank computes the gradients, and no call reduces them
    computed: bool
    named: list[tuple[str, Any]]


class DividedModules:
    """The modules that ``parallelize_module`` has divided."""

    def __init__(self) -> None:
        self._modules: list[tuple[weakref.ref[Any], Any]] = []
        self._on_input: Callable[[Any, Any], None] | None = None

    def attach(self, module: Any) -> None:
        """Observe ``torch.distributed.tensor.parallel.api``."""

        def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
            def parallelize_module(divided: Any, *args: Any, **kwargs: Any) -> Any:
                result = real(divided, *args, **kwargs)
                mesh = kwargs.get("device_mesh", args[0] if args else None)
                if hasattr(mesh, "mesh") and hasattr(result, "named_parameters"):
                    self._modules.append((weakref.ref(result), mesh))
                return result

            return parallelize_module

        put_around(module.parallelize_module, wrapped)

    def attach_inputs(self, module: Any) -> None:
        """Observe ``torch.distributed.tensor._api``: inputs that a plan takes for the same on all ranks of a mesh."""

        def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
            def from_local(*args: Any, **kwargs: Any) -> Any:
                if self._on_input is not None and _is_of_plan(sys._getframe(1)):
                    mesh = kwargs.get("device_mesh", args[1] if len(args) > 1 else None)
                    placements = kwargs.get("placements", args[2] if len(args) > 2 else None)
                    if mesh is not None and placements and all(one.is_replicate() for one in placements):
                        self._on_input(kwargs.get("local_tensor", args[0] if args else None), mesh)
                return real(*args, **kwargs)

            return from_local

        put_around(module.DTensor.from_local, wrapped)

    def observe_inputs(self, observer: Callable[[Any, Any], None] | None) -> None:
        """Call a function with each such input, and its mesh; None: no more."""
        self._on_input = observer

    def forget(self) -> None:
        """Forget the parent's modules, in a fork."""
        self._modules.clear()

    def _mesh_of_plain(self) -> dict[int, Any]:
        """Return the mesh of each plain parameter, by its ID."""
        found: dict[int, Any] = {}
        for reference, mesh in self._modules:
            module = reference()
            for one in module.parameters() if module is not None else ():
                if not hasattr(one, "device_mesh"):
                    found[id(one)] = mesh
        return found

    def replicas(self, optimizer: Any, owned: set[int]) -> Iterator[MeshReplicas]:
        """Yield the replicas of which this rank is one, with the parameters of an optimizer.

        :param owned: IDs of parameters that another wrapper holds
        """
        divided = self._mesh_of_plain() if self._modules else {}
        found: dict[tuple[tuple[int, ...], bool], list[tuple[str, Any]]] = {}
        for index, group in enumerate(optimizer.param_groups):
            for position, one in enumerate(group["params"]):
                if id(one) in owned:
                    continue
                computed = id(one) in divided
                if computed:
                    ranks = tuple(sorted(divided[id(one)].mesh.flatten().tolist()))
                elif hasattr(one, "device_mesh"):
                    ranks = ranks_alike(one.device_mesh, one.placements)
                else:
                    continue
                if len(ranks) > 1:
                    found.setdefault((ranks, computed), []).append((f"{position} of parameter group {index}", one))
        for (ranks, computed), named in found.items():
            yield MeshReplicas(ranks, computed, named)


def _is_of_plan(frame: FrameType | None) -> bool:
    """Return whether a part of a plan of tensor parallelism calls, below frames of this package."""
    while frame is not None and "distcheck" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and os.path.join("tensor", "parallel", "") in frame.f_code.co_filename


def ranks_alike(mesh: Any, placements: Any) -> tuple[int, ...]:
    """Return the ranks that hold the same part of a DTensor as this one; () if this rank is not in its mesh."""
    here = mesh.get_coordinate()
    if here is None:
        return ()
    chosen = mesh.mesh
    # from the last one on, so that the numbers of the other dimensions stay
    for dimension in reversed(range(len(placements))):
        if not placements[dimension].is_replicate():
            chosen = chosen.select(dimension, here[dimension])
    return tuple(sorted(chosen.flatten().tolist()))


def local_of(tensor: Any) -> Any:
    """Return the part of a tensor that this rank holds; None for a sum that is still in parts."""
    if any(placement.is_partial() for placement in getattr(tensor, "placements", ())):
        return None
    return getattr(tensor, "_local_tensor", tensor)
