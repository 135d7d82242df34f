"""Which files can matter at all, found by their bytes: most of a tree has nothing to do with ranks.

A file passes by a literal. One without may still matter because it calls or guards what another file defines: those are
found by what they import, round after round, until nothing new turns up.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from distcheck.core.patterns import lazy

from .summary import Header

#: A file that holds one of these is analysed: common parts of many words.
LITERALS: tuple[bytes, ...] = (
    b".distributed", b"Distributed", b"_distributed", b"distributed_",  b"import distributed", b"init_process",
    b"DataParallel", b"_rank", b"RANK", b"rank()", b"world_size", b"WORLD_SIZE", b"MASTER_", b"VISIBLE_DEVICES",
    b"accelerat", b"deepspeed", b"horovod", b"main_process", b"is_master", b"all_reduce", b"fsdp", b"FSDP",
    b"fully_shard",
    b"mp.spawn", b"multiprocessing", b"NCCL", b"GLOO", b"TORCHELASTIC", b"noqa: DC", b"noqa:DC",
    b"distcheck:", b"is_global_zero",
    b"set_device", b"mpi4py", b"initialize_dist",
)  # fmt: skip

#: Two that only count together: workers of a loader that use the GPU; a word that large files of labels have as well; a
#: trainer of transformers, and what is saved past it; a script whose ranks transformers sets up.
PAIRS: tuple[tuple[bytes, bytes], ...] = (
    (b"num_workers", b"cuda"),
    (b"lightning", b"import"),
    (b"TrainingArguments", b"save_pretrained"),
    (b"HfArgumentParser", b"TrainingArguments"),
)

#: What matters in a file only because one that has passed imports it: what is written, loaded, logged or fed there is
#: done by every rank.
HELPERS: tuple[bytes, ...] = (
    b"rank", b"is_main", b"master",
    b"torch.save", b"torch.load", b"import load", b"import save", b"save_file", b"save_pretrained", b"makedirs",
    b"mkdir",
    b"DataLoader", b"Dataset", b"Sampler", b"datasets", b"download", b"urlretrieve", b"random_split",
    b"train_test_split",
    b"manual_seed", b"seed(", b"set_epoch", b"wandb", b"SummaryWriter", b"mlflow", b"comet_ml", b"neptune",
    b".backward(",
    b"load_state_dict", b"cuda", b"np.save", b"init_process",
    b"torch.optim", b"clip_grad", b"requires_grad", b"extractall", b"TrainingArguments", b"FileHandler",
)  # fmt: skip
#: Calls whose callers matter: what is done there depends on who gets there. By their last name, or with the module that
#: they are imported from where the name alone is not enough.
INTEREST = frozenset(
    ["all_reduce", "barrier", "all_gather", "all_gather_object", "broadcast_object_list", "get_rank", "get_world_size",
     "init_process_group", "wait_for_everyone", "synchronize", "save_state", "save_checkpoint", "DistributedSampler",
     "DistributedDataParallel", "FullyShardedDataParallel", "fully_shard", "set_device", "new_group", "set_epoch",
     "allreduce", "torch.save", "torch.load", "os.makedirs", "os.mkdir", "torch.multiprocessing.spawn",
     "torch.distributed.broadcast", "torch.distributed.reduce", "torch.distributed.gather"]
)  # fmt: skip
#: Names that too many modules have: they count only together with the module that they are imported from.
_COMMON = frozenset(
    b"main run save load train test setup init forward get build evaluate step create parse update "
    b"Trainer Model Dataset Config State".split()
)
_IMPORT = lazy(rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]+))", re.MULTILINE)
_PARTS = lazy(r"[._]+")
_WORD = lazy(rb"\w+")


def passes(data: bytes) -> bool:
    """Return whether a file holds one of the literals, or both of a pair."""
    return any(literal in data for literal in LITERALS) or any(one in data and other in data for one, other in PAIRS)


def stem_of(path: str) -> str:
    """Return the name that a file is imported by."""
    parts = path.replace("\\", "/").rsplit(".", 1)[0].split("/")
    return parts[-2] if parts[-1] == "__init__" and len(parts) > 1 else parts[-1]


def helps(data: bytes) -> bool:
    """Return whether a file that a file of interest imports may decide something for it."""
    return any(literal in data for literal in HELPERS)


#: An import statement: the module that names are imported from, those names, or whole modules.
Import = tuple[bytes, bytes, bytes]


def imports_of(data: bytes) -> list[Import]:
    """Return the import statements of a file, found by their words."""
    return [] if b"import" not in data else [_groups(match) for match in _IMPORT.finditer(data)]


def _groups(match: re.Match[bytes]) -> Import:
    module, imported, whole = match.groups(b"")
    return module, imported, whole


#: A file that has passed by a literal matters alone only if it imports one of these …
_MODULES = frozenset(
    ["distributed", "multiprocessing", "parallel", "accelerate", "deepspeed", "horovod", "lightning", "fsdp",
     "composer", "mmengine", "mmcv", "ignite", "xla", "mpi4py", "ray", "dist", "comm", "transformers", "fabric",
     "fire", "hydra"]
)  # fmt: skip
#: … or calls one of these. ``low_rank`` and ``matrix_rank`` let many files pass that have nothing else.
_CALLS = INTEREST | frozenset(
    ["os.environ", "'…'", "environ", "update", "setdefault", "os.environ.get", "os.getenv",
     "os.environ.setdefault", "os.environ.update", "os.putenv", "getenv", "add_argument", "option", "DataLoader",
     "DataParallel", "spawn", "Process", "device_count", "is_initialized", "SummaryWriter", "init", "torch.device",
     "cuda", "subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_call", "os.system",
     "random_split", "is_main_process", "save", "load"]
)  # fmt: skip


def matters(header: Header) -> bool:
    """Return whether a file that has passed by a literal can matter alone, by its imports and calls."""
    if header.problem is not None or any("DC" in text or "distcheck" in text for _, text in header.comments):
        return True
    if any(not _MODULES.isdisjoint(_PARTS.split(name)) for name in header.imports):
        return True
    return any(not _CALLS.isdisjoint(calls) for _, calls in header.calls)


class Interest:
    """What files put aside may call or guard: the functions and classes whose callers matter, by their modules."""

    def __init__(self) -> None:
        self.names: dict[bytes, set[bytes]] = {}
        self._every: set[bytes] | None = None

    def __bool__(self) -> bool:
        return bool(self.names)

    def add(self, path: str, header: Header) -> bool:
        """Take in a file's functions of interest; False where nothing in it is of any, its own lines included."""
        found = {name.encode() for name, calls in header.calls if not INTEREST.isdisjoint(calls)}
        named = found - {b""}
        if named:
            self._every = None
            self.names.setdefault(os.fsencode(stem_of(path)), set()).update(named)
        return bool(found)

    def concerns(self, imports: Iterable[Import], data: Callable[[], bytes]) -> bool:
        """Return whether a file imports one of the names, or a module of them whose names it uses.

        :param imports: its import statements
        :param data: returns the bytes of the file
        """
        every = self._uncommon()
        for module, imported, whole in imports:
            if module:
                words = set(_WORD.findall(imported))
                last = module.rsplit(b".", 1)[-1]
                if not words.isdisjoint(every) or not words.isdisjoint(self.names.get(last, ())):
                    return True
                modules = words
            else:
                modules = {part.split()[0].rsplit(b".", 1)[-1] for part in whole.split(b",") if part.split()}
            for name in modules & self.names.keys():
                text = data()
                if any(b"." + function + b"(" in text for function in self.names[name]):
                    return True
        return False

    def _uncommon(self) -> set[bytes]:
        if self._every is None:
            self._every = set().union(*self.names.values()) - _COMMON
        return self._every
