"""What a phase uses on one rank of a live process group, and the collectives themselves.

Phases run one after another, in the same order on all ranks. They announce each step before it begins, so that the
supervisor knows the step of a rank. The result of a phase returns as a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .model import Options, Step


class Operations:
    """The collectives of one process group, on flat tensors, as nccl-tests defines them.

    n is the size of the group. Reductions are sums unless their name is given. A test may substitute a faulty one.

    :param group: a process group of torch; None is the default group
    """

    def __init__(self, group: Any = None) -> None:
        import torch.distributed

        self.dist: Any = torch.distributed
        self.group = group
        # torch 2.13 has renamed them, and warns at each call of the old names
        self._all_gather = getattr(self.dist, "all_gather_single", None) or self.dist.all_gather_into_tensor
        self._reduce_scatter = getattr(self.dist, "reduce_scatter_single", None) or self.dist.reduce_scatter_tensor
        self._members = None if group is None else self.dist.get_process_group_ranks(group)

    def _rank(self, number: int) -> int:
        """Return the rank in the default group: group_src, group_dst and group_peer came with torch 2.6."""
        return number if self._members is None else self._members[number]

    def all_reduce(self, tensor: Any) -> None:
        """Sum in place, on all ranks."""
        self.dist.all_reduce(tensor, group=self.group)

    def all_reduce_by(self, tensor: Any, name: str, factor: float = 1.0) -> None:
        """Reduce in place, on all ranks, by a name of ``ReduceOp``; PREMUL_SUM multiplies by the factor first."""
        by = self.dist._make_nccl_premul_sum(factor) if name == "PREMUL_SUM" else getattr(self.dist.ReduceOp, name)
        self.dist.all_reduce(tensor, op=by, group=self.group)

    def broadcast(self, tensor: Any, source: int) -> None:
        """The source's tensor on all ranks, in place."""
        self.dist.broadcast(tensor, group=self.group, src=self._rank(source))

    def reduce(self, tensor: Any, target: int) -> None:
        """Sum in place on the target; what the others hold afterwards is undefined."""
        self.dist.reduce(tensor, group=self.group, dst=self._rank(target))

    def all_gather(self, output: Any, tensor: Any) -> None:
        """The tensors of all ranks, one after another, in ``output`` (n times as long)."""
        self._all_gather(output, tensor, group=self.group)

    def reduce_scatter(self, output: Any, tensor: Any) -> None:
        """Each rank's part of the sum of ``tensor`` (n times as long) in ``output``."""
        self._reduce_scatter(output, tensor, group=self.group)

    def all_to_all(self, output: Any, tensor: Any) -> None:
        """Part i of ``tensor`` to rank i; both have n equal parts."""
        self.dist.all_to_all_single(output, tensor, group=self.group)

    def gather(self, outputs: list[Any] | None, tensor: Any, target: int) -> None:
        """All tensors on the target; ``outputs`` is None elsewhere."""
        self.dist.gather(tensor, outputs, group=self.group, dst=self._rank(target))

    def scatter(self, tensor: Any, inputs: list[Any] | None, source: int) -> None:
        """Input i of the source on rank i; ``inputs`` is None elsewhere."""
        self.dist.scatter(tensor, inputs, group=self.group, src=self._rank(source))

    def send(self, tensor: Any, target: int) -> None:
        """Blocking send to one rank."""
        self.dist.send(tensor, group=self.group, dst=self._rank(target))

    def receive(self, tensor: Any, source: int) -> None:
        """Blocking receive from one rank."""
        self.dist.recv(tensor, group=self.group, src=self._rank(source))

    def exchange(self, outgoing: Any, incoming: Any, peer: int, source: int | None = None) -> None:
        """Send to a peer and receive from it, or from another rank, at the same time."""
        operations = [
            self.dist.P2POp(self.dist.isend, outgoing, self._rank(peer), self.group),
            self.dist.P2POp(self.dist.irecv, incoming, self._rank(peer if source is None else source), self.group),
        ]
        for work in self.dist.batch_isend_irecv(operations):
            work.wait()

    def barrier(self) -> None:
        """Wait until all ranks have called it."""
        self.dist.barrier(group=self.group)

    def all_gather_object(self, value: object, size: int) -> list[Any]:
        """The objects of all ranks, by rank."""
        values: list[Any] = [None] * size
        self.dist.all_gather_object(values, value, group=self.group)
        return values

    def broadcast_object(self, value: object, source: int, device: Any = None) -> object:
        """The source's object on all ranks."""
        values = [value]
        self.dist.broadcast_object_list(values, group=self.group, src=self._rank(source), device=device)
        return values[0]

    def gather_object(self, value: object, target: int, rank: int, size: int) -> list[Any] | None:
        """All objects on the target, None elsewhere."""
        values: list[Any] | None = [None] * size if rank == target else None
        self.dist.gather_object(value, values, group=self.group, dst=self._rank(target))
        return values

    def scatter_object(self, values: list[Any] | None, source: int) -> object:
        """Object i of the source on rank i."""
        found: list[Any] = [None]
        self.dist.scatter_object_list(found, values, group=self.group, src=self._rank(source))
        return found[0]


class LiveGroup(NamedTuple):
    """A rank of a live process group."""

    rank: int
    size: int
    backend: str
    #: ``torch.device`` of the tensors
    device: Any
    options: Options
    operations: Operations
    #: number of the host of each rank, by rank; hosts count from 0 in the order of their first rank
    hosts: tuple[int, ...]
    #: cores that the ranks of this host share
    cores: int
    #: called before each step; must cost next to nothing
    announce: Callable[[Step], None]

    def synchronize(self) -> None:
        """Wait until the device has done all queued work."""
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)

    @property
    def ranks_here(self) -> int:
        """Ranks on this rank's host."""
        return self.hosts.count(self.hosts[self.rank])
