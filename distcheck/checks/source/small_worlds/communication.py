"""What ``torch.distributed`` does: the calls of a rank that others take part in, and what they leave in its tensors."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from . import builtins_known
from .follower import Follower
from .matching import Call, Fault, InvalidCall, NotApplicable, Part, part_of
from .values import UNKNOWN, Group, Instance, Outside, Tensor, Undecided, Work

#: The parameters of each function (torch 2.13).
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    name: tuple(parameters.split())
    for name, parameters in {
        "all_reduce": "tensor op group async_op",
        "broadcast": "tensor src group async_op group_src",
        "reduce": "tensor dst op group async_op group_dst",
        "all_gather": "tensor_list tensor group async_op",
        "all_gather_into_tensor": "output_tensor input_tensor group async_op",
        "gather": "tensor gather_list dst group async_op group_dst",
        "scatter": "tensor scatter_list src group async_op group_src",
        "reduce_scatter": "output input_list op group async_op",
        "reduce_scatter_tensor": "output input op group async_op",
        "all_to_all": "output_tensor_list input_tensor_list group async_op",
        "all_to_all_single": "output input output_split_sizes input_split_sizes group async_op",
        "barrier": "group async_op device_ids",
        "monitored_barrier": "group timeout wait_all_ranks",
        "broadcast_object_list": "object_list src group device group_src",
        "all_gather_object": "object_list obj group",
        "gather_object": "obj object_gather_list dst group group_dst",
        "scatter_object_list": "scatter_object_output_list scatter_object_input_list src group group_src",
        "send": "tensor dst group tag group_dst",
        "isend": "tensor dst group tag group_dst",
        "recv": "tensor src group tag group_src",
        "irecv": "tensor src group tag group_src",
        "send_object_list": "object_list dst group device group_dst",
        "recv_object_list": "object_list src group device group_src",
    }.items()
}
NAMES = frozenset([*_PARAMETERS, "batch_isend_irecv", "new_group", "new_subgroups", "init_device_mesh"])
_MESSAGES = ("send", "isend", "recv", "irecv", "send_object_list", "recv_object_list")
_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "SUM": lambda a, b: builtins_known.operate("Add", a, b),
    "PRODUCT": lambda a, b: builtins_known.operate("Mult", a, b),
    "MAX": lambda a, b: UNKNOWN if UNKNOWN in (a, b) else max(a, b),
    "MIN": lambda a, b: UNKNOWN if UNKNOWN in (a, b) else min(a, b),
}


def initialize(follows: Follower, keywords: Mapping[str, Any]) -> None:
    """``init_process_group``."""
    rank, size = keywords.get("rank", -1), keywords.get("world_size", -1)
    if isinstance(size, int) and size not in (-1, follows.world.size):
        raise NotApplicable
    if not isinstance(rank, int) or not isinstance(size, int) or rank not in (-1, follows.rank):
        raise Undecided
    follows.initialized = True


def call(follows: Follower, name: str, given: list[Any], keywords: dict[str, Any], node: ast.expr) -> Any:
    """Return what a function of ``torch.distributed`` yields that others take part in."""
    if not follows.initialized:
        raise Undecided
    if name == "batch_isend_irecv":
        return _batch(follows, given, node)
    if name in ("new_group", "new_subgroups"):
        return _new_group(follows, name, given, keywords, node)
    if name == "init_device_mesh":
        shape = given[1] if len(given) > 1 else keywords.get("mesh_shape")
        made = _made(follows, name, node, follows.world.default)
        made.agreed = {"shape": shape if builtins_known.is_plain_key(shape) else None}
        follows.world.enter(made)
        return UNKNOWN
    arguments = dict(zip(_PARAMETERS[name], given, strict=False))
    arguments.update(keywords)
    group = group_of(follows, arguments.get("group"))
    if follows.rank not in group.ranks:
        # torch warns, and does nothing
        return None
    if name in _MESSAGES:
        return _message(follows, name, arguments, group, node)
    return _collective(follows, name, arguments, group, node)


def group_of(follows: Follower, value: Any) -> Group:
    """Return the group that an argument names."""
    if value is None:
        return follows.world.default
    if isinstance(value, Group):
        return value
    raise Undecided


def _made(follows: Follower, kind: str, node: ast.expr, group: Group) -> Call:
    return Call(kind, follows.module.file, node, group)


def _new_group(follows: Follower, name: str, given: list[Any], keywords: Mapping[str, Any], node: ast.expr) -> Any:
    world = follows.world
    if name == "new_subgroups":
        size = given[0] if given else keywords.get("group_size", follows.world.size)
        if not isinstance(size, int) or size < 1 or len(given) > 1 or "group" in keywords:
            raise Undecided
        made = _made(follows, "new_group", node, world.default)
        if world.size % size:
            raise NotApplicable
        parts = [tuple(range(start, start + size)) for start in range(0, world.size, size)]
        made.agreed = {"ranks": tuple(part for part in parts)}
        world.enter(made)
        groups = [Group(1000 * (world.turn(made) + 1) + place, part) for place, part in enumerate(parts)]
        return next(one for one in groups if follows.rank in one.ranks), groups
    ranks = given[0] if given else keywords.get("ranks")
    if keywords.get("use_local_synchronization", False) is not False:
        raise Undecided
    members = world.default.ranks if ranks is None else _numbers(follows.items(ranks))
    if any(not 0 <= one < world.size for one in members):
        raise NotApplicable
    made = _made(follows, "new_group", node, world.default)
    # each rank may make a group of its own: torch compares the number of the group only
    made.agreed = {"ranks": None if members == (follows.rank,) else tuple(sorted(members))}
    world.enter(made)
    return Group(1000 * (world.turn(made) + 1), tuple(sorted(members)))


def _numbers(items: list[Any] | None) -> tuple[int, ...]:
    if items is None or not all(isinstance(one, int) for one in items):
        raise Undecided
    return tuple(items)


def _peer(follows: Follower, made: Call, arguments: Mapping[str, Any], names: tuple[str, str]) -> int:
    """Return the other rank that an argument names, of the whole job."""
    name, in_group = names
    group = made.group
    if arguments.get(in_group) is not None:
        place = arguments[in_group]
        if not isinstance(place, int) or not 0 <= place < len(group.ranks):
            raise Undecided
        return group.ranks[place]
    rank = arguments.get(name)
    if not isinstance(rank, int) or isinstance(rank, bool):
        raise Undecided
    if rank not in group.ranks:
        if group.number == 0:
            raise InvalidCall(
                Fault(
                    "DC709",
                    made,
                    f"rank {follows.rank} calls {{call}} with {name}={rank}, and there is no such rank",
                    "close the ring with % world_size, or let the ranks at the ends omit the call",
                )
            )
        members = ", ".join(map(str, group.ranks))
        raise InvalidCall(
            Fault(
                "DC715",
                made,
                f"rank {follows.rank} calls {{call}} with {name}={rank} in the group of ranks {members}: "
                f"{name} is a rank of the whole job",
                f"pass dist.get_global_rank(group, {rank}), or group_{name}={rank}",
            )
        )
    return rank


def _message(follows: Follower, name: str, arguments: Mapping[str, Any], group: Group, node: ast.expr) -> Any:
    sends = "send" in name
    objects = name.endswith("_object_list")
    made = _made(follows, "send" if sends else "recv", node, group)
    made.blocking = not name.startswith("i")
    made.tag = arguments.get("tag", 0) if not objects else "objects"
    if not isinstance(made.tag, (int, str)):
        raise Undecided
    made.peer = _peer(follows, made, arguments, ("dst", "group_dst") if sends else ("src", "group_src"))
    if made.peer == follows.rank:
        raise InvalidCall(
            Fault(
                "DC709",
                made,
                f"rank {follows.rank} {'sends to' if sends else 'receives from'} itself in {{call}}",
                "handle the own part without a message",
            )
        )
    value = arguments.get("object_list" if objects else "tensor", UNKNOWN)
    if objects:
        part = Part(None, None, _plain(value), "objects")
        made.tag = 0
    else:
        part = part_of(value)
    if sends:
        made.gives = [part]
    else:
        made.takes = [part]
    return _entered(follows, made, value, writes=not sends)


def _entered(follows: Follower, made: Call, value: Any, *, writes: bool) -> Any:
    """Enter a call of one tensor or list; what it receives is stored when it is done."""

    def store(parts: list[Any]) -> None:
        if made.kind == "recv":
            _put(value, parts[0].data)

    return _done(follows, made, store, [value] if writes else [], [] if writes else [value])


def _done(
    follows: Follower, made: Call, store: Callable[[list[Any]], None], written: list[Any], read: list[Any]
) -> Any:
    made.takes = made.takes or []
    for one in written:
        follows.touched(one, writes=True, by=made)
    for one in read:
        follows.touched(one, writes=False, by=made)
    parts = follows.world.enter(made)
    if parts is not None:
        for one in written:
            _put(one, None)
        store(parts)
        follows.settle(made.group)
        return None
    work = Work((made, store, written))
    for one in written:
        if isinstance(one, Tensor):
            one.forget()
            follows.pend(one, made, writes=True)
    for one in read:
        if isinstance(one, Tensor):
            follows.pend(one, made, writes=False)
    return work


def wait(follows: Follower, work: Work) -> bool:
    """``work.wait()``."""
    made, store, written = work.call
    parts = follows.world.result(made)
    follows.settle_call(made)
    for one in written:
        _put(one, None)
    store(parts)
    return True


def _put(value: Any, data: Any) -> None:
    """Store what a tensor or a list has received; None is not known."""
    if isinstance(value, Tensor):
        value.forget()
        if isinstance(data, list) and value.count == len(data):
            value.data = list(data)
    elif isinstance(value, list) and isinstance(data, list) and len(data) == len(value):
        value[:] = data
    elif isinstance(value, list):
        value[:] = [UNKNOWN] * len(value)


def _plain(value: Any) -> Any:
    """Return a copy of a list whose elements are plain, else unknown ones."""
    if isinstance(value, list):
        return [one if builtins_known.is_plain_key(one) else UNKNOWN for one in value]
    return None


def _batch(follows: Follower, given: list[Any], node: ast.expr) -> Any:
    operations = follows.items(given[0]) if given else None
    if operations is None:
        raise Undecided
    works = []
    for one in operations:
        if not isinstance(one, Instance) or one.cls is not None or "op" not in one.attributes:
            raise Undecided
        arguments = dict(one.attributes)
        op = arguments["op"]
        name = op.name.rpartition(".")[2] if isinstance(op, Outside) else ""
        if name not in ("isend", "irecv"):
            raise Undecided
        arguments["dst" if name == "isend" else "src"] = arguments.get("peer")
        group = group_of(follows, arguments.get("group"))
        works.append(_message(follows, name, arguments, group, arguments["node"]))
    return works


def _collective(follows: Follower, name: str, arguments: Mapping[str, Any], group: Group, node: ast.expr) -> Any:
    made = _made(follows, name, node, group)
    made.blocking = arguments.get("async_op", False) is not True
    size, place = len(group.ranks), group.ranks.index(follows.rank)
    root = ("dst", "group_dst") if "dst" in _PARAMETERS[name] else ("src", "group_src")
    own_root = False
    if root[0] in _PARAMETERS[name]:
        if (
            root[0] not in arguments
            and root[1] not in arguments
            and name not in ("gather", "gather_object", "scatter", "scatter_object_list")
        ):
            raise Undecided
        chosen = arguments.get(root[0], 0)
        known = isinstance(chosen, int) or arguments.get(root[1]) is not None
        made.agreed[root[0]] = _peer(follows, made, {root[0]: chosen, **arguments}, root) if known else None
        own_root = made.agreed[root[0]] == follows.rank
        if not known:
            raise Undecided
    if "op" in _PARAMETERS[name]:
        made.agreed["op"] = _operation(arguments.get("op"))
    handler = _KINDS.get(name)
    if handler is None:
        follows.world.enter(made)
        follows.settle(group)
        return None if made.blocking else Work((made, lambda parts: None, []))
    store, written, read = handler(follows, made, arguments, size, place, own_root)
    return _done(follows, made, store, written, read)


def _operation(value: Any) -> str | None:
    if value is None:
        return "SUM"
    return value.name.rpartition(".")[2] if isinstance(value, Outside) else None


_Store = tuple[Callable[[list[Any]], None], list[Any], list[Any]]


def _reduced(parts: list[Any], made: Call) -> list[Any] | None:
    lists = [part[0].data for part in parts]
    operation = _OPERATIONS.get(made.agreed.get("op") or "")
    if operation is None or any(one is None or len(one) != len(lists[0]) for one in lists):
        return None
    total = list(lists[0])
    for one in lists[1:]:
        total = [operation(a, b) for a, b in zip(total, one, strict=True)]
    return total


def _reduce(follows: Follower, made: Call, arguments: Mapping[str, Any], size: int, place: int, root: bool) -> _Store:
    tensor = arguments.get("tensor", UNKNOWN)
    made.gives, made.takes = [part_of(tensor)], [part_of(tensor)]

    def store(parts: list[Any]) -> None:
        if made.kind == "all_reduce" or root:
            _put(tensor, _reduced(parts, made))
        else:
            _put(tensor, None)

    return store, [tensor], []


def _broadcast(
    follows: Follower, made: Call, arguments: Mapping[str, Any], size: int, place: int, root: bool
) -> _Store:
    tensor = arguments.get("tensor", UNKNOWN)
    made.gives, made.takes = [part_of(tensor)], [part_of(tensor)]

    def store(parts: list[Any]) -> None:
        _put(tensor, parts[made.group.ranks.index(made.agreed["src"])][0].data)

    return store, [] if root else [tensor], [tensor] if root else []


def _listed(follows: Follower, value: Any) -> list[Any] | None:
    return value if isinstance(value, list) and id(value) not in follows.lost else None


def _refuse_length(made: Call, items: list[Any] | None, size: int, what: str) -> None:
    if items is not None and len(items) != size:
        raise InvalidCall(
            Fault(
                "DC709",
                made,
                f"the {what} of {{call}} has {len(items)} elements for a group of {size} ranks",
                "make one element for each rank of the group",
                with_any_number=True,
            )
        )


def _all_gather(
    follows: Follower, made: Call, arguments: Mapping[str, Any], size: int, place: int, root: bool
) -> _Store:
    outputs, tensor = _listed(follows, arguments.get("tensor_list")), arguments.get("tensor", UNKNOWN)
    _refuse_length(made, outputs, size, "list")
    made.gives = [part_of(tensor)]
    made.takes = [part_of(one) for one in outputs] if outputs else []

    def store(parts: list[Any]) -> None:
        for one, part in zip(outputs or [], parts, strict=False):
            _put(one, part[0].data)

    return store, list(outputs or []), [tensor]


def _into_tensor(
    follows: Follower, made: Call, arguments: Mapping[str, Any], size: int, place: int, root: bool
) -> _Store:
    output, tensor = arguments.get("output_tensor", UNKNOWN), arguments.get("input_tensor", UNKNOWN)
    whole, part = part_of(output).size, part_of(tensor).size
    if whole is not None and part is not None and whole != part * size:
        raise InvalidCall(
            Fault(
                "DC709",
                made,
                f"the output of {{call}} has {whole} elements, and {size} ranks give {part} each",
                f"make the output {size} times as large as the input: one part for each rank",
            )
        )
    made.agreed["size"] = part

    def store(parts: list[Any]) -> None:
        _put(output, None)

    return store, [output], [tensor]


def _gather(follows: Follower, made: Call, arguments: Mapping[str, Any], size: int, place: int, root: bool) -> _Store:
    outputs, tensor = _listed(follows, arguments.get("gather_list")), arguments.get("tensor", UNKNOWN)
    made.gives = [part_of(tensor)]
    if root:
        _refuse_length(made, outputs, size, "gather_list")
        made.takes = [part_of(one) for one in outputs] if outputs else []

    def store(parts: list[Any]) -> None:
        for one, part in zip(outputs or [], parts, strict=False):
            _put(one, part[0].data)

    return store, list(outputs or []) if root else [], [tensor]


def _scatter(follows: Follower, made: Call, arguments: Mapping[str, Any], size: int, place: int, root: bool) -> _Store:
    inputs, tensor = _listed(follows, arguments.get("scatter_list")), arguments.get("tensor", UNKNOWN)
    made.takes = [part_of(tensor)]
    if root:
        if isinstance(arguments.get("scatter_list"), tuple):
            inputs = list(arguments["scatter_list"])
        _refuse_length(made, inputs, size, "scatter_list")
        made.gives = [part_of(one) for one in inputs] if inputs else []

    def store(parts: list[Any]) -> None:
        given = parts[made.group.ranks.index(made.agreed["src"])]
        _put(tensor, given[place].data if len(given) == size else None)

    return store, [tensor], list(inputs or []) if root else []


def _all_to_all(
    follows: Follower, made: Call, arguments: Mapping[str, Any], size: int, place: int, root: bool
) -> _Store:
    outputs, inputs = (_listed(follows, arguments.get(name)) for name in ("output_tensor_list", "input_tensor_list"))
    _refuse_length(made, outputs, size, "output list")
    _refuse_length(made, inputs, size, "input list")
    made.gives = [part_of(one) for one in inputs] if inputs else []
    made.takes = [part_of(one) for one in outputs] if outputs else []

    def store(parts: list[Any]) -> None:
        for one, part in zip(outputs or [], parts, strict=False):
            _put(one, part[place].data if len(part) == size else None)

    return store, list(outputs or []), list(inputs or [])


def _all_to_all_single(
    follows: Follower, made: Call, arguments: Mapping[str, Any], size: int, place: int, root: bool
) -> _Store:
    output, tensor = arguments.get("output", UNKNOWN), arguments.get("input", UNKNOWN)
    sizes = [
        _split_sizes(follows, arguments.get(f"{one}_split_sizes"), value, size)
        for one, value in (("input", tensor), ("output", output))
    ]
    if sizes[0] is not None and size > 1:
        made.gives = [Part(one, part_of(tensor).dtype, None) for one in sizes[0]]
    if sizes[1] is not None and size > 1:
        made.takes = [Part(one, part_of(output).dtype, None) for one in sizes[1]]

    def store(parts: list[Any]) -> None:
        _put(output, None)

    return store, [output], [tensor]


def _split_sizes(follows: Follower, value: Any, tensor: Any, size: int) -> list[int] | None:
    shape = tensor.shape if isinstance(tensor, Tensor) else None
    if value is None:
        return [shape[0] // size] * size if shape and shape[0] % size == 0 else None
    items = follows.items(value)
    known = items is not None and len(items) == size and all(isinstance(one, int) for one in items)
    return items if known else None


def _objects(follows: Follower, made: Call, arguments: Mapping[str, Any], size: int, place: int, root: bool) -> _Store:
    values = _listed(follows, arguments.get("object_list"))
    made.agreed["length of the list"] = None if values is None else len(values)
    made.gives = [Part(None, None, _plain(values), "any")]

    def store(parts: list[Any]) -> None:
        if not root:
            _put(values, parts[made.group.ranks.index(made.agreed["src"])][0].data)

    return store, [], []


def _gather_objects(
    follows: Follower, made: Call, arguments: Mapping[str, Any], size: int, place: int, root: bool
) -> _Store:
    everywhere = made.kind == "all_gather_object"
    values = _listed(follows, arguments.get("object_list" if everywhere else "object_gather_list"))
    if everywhere or root:
        _refuse_length(made, values, size, "list")
    made.gives = [Part(None, None, _plain([arguments.get("obj", UNKNOWN)]), "any")]

    def store(parts: list[Any]) -> None:
        if everywhere or root:
            _put(values, [part[0].data[0] for part in parts])

    return store, [], []


_KINDS: Mapping[str, Callable[..., _Store]] = {
    "all_reduce": _reduce,
    "reduce": _reduce,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "all_gather_into_tensor": _into_tensor,
    "gather": _gather,
    "scatter": _scatter,
    "all_to_all": _all_to_all,
    "all_to_all_single": _all_to_all_single,
    "broadcast_object_list": _objects,
    "all_gather_object": _gather_objects,
    "gather_object": _gather_objects,
}
