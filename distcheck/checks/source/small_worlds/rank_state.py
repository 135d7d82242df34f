"""What is known of one rank while it is followed: its environment, objects that changed, calls that go on."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from .follower import Sources
from .matching import Call, Fault, InvalidCall
from .values import (
    UNKNOWN,
    Frame,
    Group,
    Instance,
    Project,
    Supply,
    Tensor,
)
from .world import World

#: Values that have an identity and may be changed by who gets them.
MUTABLE = (list, dict, set, Instance, Supply)


class RankState:
    """One rank of a world."""

    def __init__(self, sources: Sources, world: World, rank: int) -> None:
        self.sources = sources
        self.world = world
        self.rank = rank
        #: objects whose content is not known any more, by identity; they are kept, so that no other gets their number
        self.lost: dict[int, Any] = {}
        self.module = Project(-1)
        self.initialized = False
        self.spawned = False
        #: the number of processes that were started before this rank's
        self.started = 0
        #: whether ``torch.zeros(2)`` has float32
        self.float_is_default = True
        #: where the rank is
        self.place: ast.expr | None = None
        self.pending: list[tuple[Tensor, Call, bool]] = []
        self.environment: dict[str, Any] = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": world.ranks,
            "LOCAL_WORLD_SIZE": world.ranks,
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": "29500",
        }
        self.modules: dict[int, Project] = {}
        self.depth = 0

    # objects whose content is not known

    def lose(self, value: Any) -> None:
        """What an object holds is not known any more."""
        if isinstance(value, Tensor):
            value.forget()
        elif isinstance(value, Instance):
            for name in value.attributes:
                value.attributes[name] = UNKNOWN
        elif isinstance(value, MUTABLE):
            self.lost[id(value)] = value

    def forget(self, statements: Sequence[ast.AST], frame: Frame) -> None:
        """What these statements may assign or change is not known any more."""
        self.pending = []
        for node in itertools.chain.from_iterable(map(own_nodes, statements)):
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Store):
                    self.store_name(node.id, UNKNOWN, frame)
                elif (names := frame.find(node.id)) is not None and isinstance(names[node.id], (*MUTABLE, Tensor)):
                    self.lose(names[node.id])
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.store_name(node.name, UNKNOWN, frame)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    self.store_name((alias.asname or alias.name).partition(".")[0], UNKNOWN, frame)

    def store_name(self, name: str, value: Any, frame: Frame) -> None:
        frame.shared.get(name, frame.names)[name] = value

    # buffers of calls that go on

    def pend(self, tensor: Tensor, call: Call, *, writes: bool) -> None:
        """A call goes on that reads a tensor, or writes it."""
        self.pending.append((tensor.memory, call, writes))

    def touched(self, value: Any, *, writes: bool, by: Call | None = None) -> None:
        """A tensor is read or written here; ``by`` a call, which the group makes after those before it."""
        if not self.pending or not isinstance(value, Tensor):
            return
        for memory, call, written in self.pending:
            if (
                by is not None
                and "recv" not in (by.kind, call.kind)
                and "send" not in (by.kind, call.kind)
                and by.group.number == call.group.number
            ):
                continue
            if memory is value.memory and (writes or written) and self.place is not None:
                use = Call("use", self.module.file, self.place, call.group)
                what = "writes" if writes else "reads"
                at_work = "receives into it" if written else "reads it"
                raise InvalidCall(
                    Fault(
                        "DC717",
                        use,
                        f"rank {self.rank} {what} the tensor in {{call}} while `{{other}}` in line {{line}} {at_work}",
                        "call wait() of its handle first, or use another tensor",
                        call,
                    )
                )

    def settle_call(self, call: Call) -> None:
        """A call has ended."""
        self.pending = [one for one in self.pending if one[1] is not call]

    def settle(self, group: Group) -> None:
        """All calls of a group have ended: a later one has."""
        self.pending = [
            one for one in self.pending if one[1].group.number != group.number or one[1].kind in ("send", "recv")
        ]


def own_nodes(node: ast.AST) -> Iterable[ast.AST]:
    """Yield a node and what is inside, without the bodies of functions and classes in it."""
    left = [node]
    first = True
    while left:
        one = left.pop()
        yield one
        if first or not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            left.extend(ast.iter_child_nodes(one))
        first = False
