"""What names from outside of the project yield: torch, the environment, options, loaders, processes."""

from __future__ import annotations

import ast
import functools
import sys
from typing import Any

from . import builtins_known, communication, tensors
from .follower import Follower
from .matching import Call, NotApplicable
from .values import UNKNOWN, Group, Instance, Native, Options, Outside, ScriptExit, Supply, Undecided, Work

_D = "torch.distributed."
_WORLD = frozenset([_D + "group.WORLD", _D + "GroupMember.WORLD", _D + "distributed_c10d.group.WORLD"])
_CREATES = frozenset(["torch", "torch.nn.functional"])
_SPAWNS = frozenset(
    ["torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn", "torch.multiprocessing.start_processes"]
)
_PROCESSES = frozenset(["torch.multiprocessing.Process", "multiprocessing.Process"])
_LEAVES = frozenset(["sys.exit", "os._exit"])
#: What all ranks make, each with its model.
WRAPPERS = frozenset(
    ["torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel"]
)


#: Packages whose functions make no call for the script that other ranks take part in.
HARMLESS = frozenset(
    [
        "torch",
        "torchvision",
        "torchaudio",
        "torchtext",
        "numpy",
        "np",
        "scipy",
        "sklearn",
        "pandas",
        "PIL",
        "cv2",
        "tqdm",
        "matplotlib",
        "yaml",
        "einops",
        "timm",
        "wandb",
        "tensorboard",
        "tensorboardX",
        "psutil",
        "rich",
    ]
) | frozenset(sys.stdlib_module_names)


class Loader:
    """A ``DataLoader`` with a known number of batches."""

    __slots__ = ("turns",)

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def batches(self) -> list[Any] | None:
        """Return what a loop gets."""
        return [UNKNOWN] * self.turns if self.turns <= builtins_known.LONGEST else None


class Sampler:
    """A ``DistributedSampler`` with a known number of samples."""

    __slots__ = ("count",)

    def __init__(self, count: int | None) -> None:
        self.count = count


def constant(follows: Follower, dotted: str) -> Any:
    """Return what a dotted name stands for."""
    if dotted in _WORLD:
        return follows.world.default
    return Outside(dotted)


def call(follows: Follower, name: str, given: list[Any], keywords: dict[str, Any], node: ast.expr | None) -> Any:
    """Return what a call of a dotted name yields."""
    if name in builtins_known.NAMES:
        if name in ("exit", "quit"):
            raise ScriptExit
        return builtins_known.call(follows, name, given, keywords)
    package, _, last = name.rpartition(".")
    if name.startswith(_D):
        return _distributed(follows, name.removeprefix(_D), given, keywords, node)
    if package in _CREATES or package == "torch.Tensor":
        if last in ("set_default_dtype", "set_default_tensor_type"):
            follows.float_is_default = False
            return None
        return tensors.create(follows, last, given, keywords)
    if package == "torch.cuda":
        return {"is_available": True, "device_count": follows.world.ranks}.get(last, UNKNOWN)
    if package == "os.environ" or name == "os.getenv":
        return _variable(follows, last, given, keywords)
    if name in _LEAVES:
        raise ScriptExit
    if name in _SPAWNS:
        return _spawn(follows, given, keywords)
    if name in _PROCESSES:
        return _process(follows, keywords)
    if name == "fire.Fire" and len(given) == 1:
        follows.world.assumed = True
        return follows.call(given[0], [], {}, node)
    if name == "argparse.ArgumentParser":
        return Options()
    if name in WRAPPERS and follows.initialized and node is not None:
        group = communication.group_of(follows, keywords.get("process_group"))
        if follows.rank in group.ranks:
            follows.world.enter(Call("DistributedDataParallel", follows.module.file, node, group))
        return UNKNOWN
    if last == "DataLoader" and package.startswith("torch.utils.data"):
        return _loader(follows, given, keywords)
    if last == "DistributedSampler" and package.startswith("torch.utils.data"):
        return _sampler(follows, given, keywords)
    return builtins_known.library(follows, name, given, keywords)


def _distributed(
    follows: Follower, name: str, given: list[Any], keywords: dict[str, Any], node: ast.expr | None
) -> Any:
    name = name.removeprefix("distributed_c10d.").removeprefix("device_mesh.")
    if name == "init_process_group":
        communication.initialize(follows, keywords)
        return None
    if name == "destroy_process_group":
        # of the whole job: a call without a group is an error, and no rank waits in it
        follows.initialized = follows.initialized and bool(given or keywords)
        return None
    if name in ("get_rank", "get_world_size", "get_group_rank", "get_global_rank", "get_process_group_ranks"):
        return _rank_question(follows, name, given, keywords)
    if name in ("is_initialized", "is_available"):
        return follows.initialized or name == "is_available"
    if name == "P2POp":
        names = ("op", "tensor", "peer", "group", "tag")
        return Instance(None, {**dict(zip(names, given, strict=False)), **keywords, "node": node})
    if name in communication.NAMES and node is not None:
        return communication.call(follows, name, given, keywords, node)
    return UNKNOWN


def _rank_question(follows: Follower, name: str, given: list[Any], keywords: dict[str, Any]) -> Any:
    if not follows.initialized:
        return UNKNOWN
    group = communication.group_of(follows, given[0] if given else keywords.get("group"))
    if name == "get_world_size":
        if group.number == 0:
            return follows.world.ranks
        return len(group.ranks) if follows.rank in group.ranks else -1
    if name == "get_rank":
        return group.ranks.index(follows.rank) if follows.rank in group.ranks else -1
    if name == "get_process_group_ranks":
        return list(group.ranks)
    which = given[1] if len(given) > 1 else keywords.get("group_rank" if name == "get_global_rank" else "global_rank")
    if not isinstance(which, int):
        return UNKNOWN
    if name == "get_global_rank":
        return group.ranks[which] if 0 <= which < len(group.ranks) else UNKNOWN
    return group.ranks.index(which) if which in group.ranks else UNKNOWN


def _variable(follows: Follower, name: str, given: list[Any], keywords: dict[str, Any]) -> Any:
    if name not in ("get", "getenv", "setdefault", "pop") or not given or not isinstance(given[0], str):
        return UNKNOWN
    if given[0] in follows.environment:
        return follows.environment[given[0]]
    default = given[1] if len(given) > 1 else keywords.get("default")
    if name == "setdefault":
        follows.environment[given[0]] = default
    # a user may set it
    follows.world.assumed = True
    return default


def _spawn(follows: Follower, given: list[Any], keywords: dict[str, Any]) -> Any:
    names = ("fn", "args", "nprocs")
    arguments = {**dict(zip(names, given, strict=False)), **keywords}
    count, passed = arguments.get("nprocs", 1), arguments.get("args", ())
    if follows.initialized or follows.spawned or not isinstance(passed, (tuple, list)):
        raise Undecided
    if isinstance(count, int) and count != follows.world.size:
        raise NotApplicable
    follows.spawned = True
    follows.call(arguments.get("fn"), [follows.rank, *passed], {}, None)
    raise ScriptExit


def _process(follows: Follower, keywords: dict[str, Any]) -> Any:
    if follows.initialized or follows.spawned or not isinstance(keywords.get("args", ()), (tuple, list)):
        return UNKNOWN
    return Instance(None, {"start": Native(functools.partial(_started, follows, keywords)), "join": Native(_joined)})


def _joined(*given: Any, **keywords: Any) -> Any:
    # fewer processes than ranks were started
    raise NotApplicable


def _started(follows: Follower, keywords: dict[str, Any], /, *_: Any, **__: Any) -> Any:
    target = keywords.get("target")
    if follows.started < follows.rank:
        follows.started += 1
        return None
    follows.spawned = True
    follows.call(target, list(keywords.get("args", ())), {}, None)
    raise ScriptExit


def _loader(follows: Follower, given: list[Any], keywords: dict[str, Any]) -> Any:
    if len(given) > 2 or keywords.get("batch_sampler") is not None:
        return UNKNOWN
    data = given[0] if given else keywords.get("dataset")
    batch = given[1] if len(given) > 1 else keywords.get("batch_size", 1)
    sampler = keywords.get("sampler")
    size = sampler.count if isinstance(sampler, Sampler) else follows.length(data) if sampler is None else None
    drops = follows.truth(keywords.get("drop_last", False))
    if size is None or not isinstance(batch, int) or batch < 1 or drops is None:
        return UNKNOWN
    return Loader(size // batch if drops else -(-size // batch))


def _sampler(follows: Follower, given: list[Any], keywords: dict[str, Any]) -> Any:
    data = given[0] if given else keywords.get("dataset")
    ranks = given[1] if len(given) > 1 else keywords.get("num_replicas")
    ranks = follows.world.size if ranks is None else ranks
    size, drops = follows.length(data), follows.truth(keywords.get("drop_last", False))
    if size is None or drops is None or not isinstance(ranks, int) or ranks < 1:
        return Sampler(None)
    return Sampler(size // ranks if drops else -(-size // ranks))


# attributes of what is modelled


def work_attribute(follows: Follower, owner: Work, name: str) -> Any:
    """Return an attribute of the handle of a call."""
    if name == "wait":
        return Native(lambda *given, **keywords: communication.wait(follows, owner))
    return UNKNOWN


def group_attribute(follows: Follower, owner: Group, name: str) -> Any:
    """Return an attribute of a process group."""
    inside = follows.rank in owner.ranks
    answers = {"size": len(owner.ranks), "rank": owner.ranks.index(follows.rank) if inside else -1}
    return Native(lambda *given, **keywords: answers[name]) if name in answers else UNKNOWN


def helper_attribute(follows: Follower, owner: Options | Supply, name: str) -> Any:
    """Return an attribute of a parser of options or of an iterator."""
    if isinstance(owner, Options):
        if name == "add_argument":
            return Native(functools.partial(_option, follows, owner))
        if name in ("parse_args", "parse_known_args"):
            follows.world.assumed = True
            values = Instance(None, dict(owner))
            return Native(lambda *given, **keywords: values if name == "parse_args" else (values, []))
        if name in ("add_argument_group", "add_mutually_exclusive_group"):
            return Native(lambda *given, **keywords: owner)
        if name == "set_defaults":
            return Native(lambda *given, **keywords: owner.update(keywords))
    return UNKNOWN


def _option(follows: Follower, owner: Options, /, *given: Any, **keywords: Any) -> Any:
    names = [one for one in given if isinstance(one, str)]
    if not names:
        return UNKNOWN
    long = next((one for one in names if one.startswith("--")), names[0])
    target = keywords.get("dest", long.lstrip("-").replace("-", "_"))
    action = keywords.get("action")
    default = keywords.get(
        "default", {"store_true": False, "store_false": True}.get(action) if isinstance(action, str) else None
    )
    if not long.startswith("-") and "default" not in keywords:
        default = UNKNOWN
    if isinstance(default, str) and keywords.get("type") is not None:
        kind = keywords["type"]
        default = (
            builtins_known.call(follows, kind.name, [default], {})
            if isinstance(kind, Outside) and kind.name in ("int", "float", "str")
            else UNKNOWN
        )
    if keywords.get("required") is True:
        default = UNKNOWN
    if isinstance(target, str):
        owner[target] = default
    return UNKNOWN
