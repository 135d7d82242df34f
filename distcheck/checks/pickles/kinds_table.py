"""The tables behind :mod:`.kinds`, ``kinds.txt`` and ``pitfalls.txt``: what is known about types, by their names.

Behavior was observed with Python 3.11 and torch 2.13. Where versions differ, one entry has several names. An entry is
the full names of types, then one line for each field. A name that ends with a dot or a star is a prefix.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeVar

from distcheck.core.resources import read_shipped


class KindEntry(NamedTuple):
    """What is known about types that can't be pickled."""

    #: one sentence without a full stop, which can follow the path of a member
    why: str
    #: the expression that creates such an object again
    recreate: str = ""
    #: what is better than to drop it
    instead: str = ""
    #: ``unpicklable`` or ``process-group``
    kind: str = "unpicklable"
    #: the fix for copy.deepcopy, for a spawned process, for an object collective, where it is not the usual one
    copy: str = ""
    spawn: str = ""
    send: str = ""
    #: pickling fails in its inner parts, which are no concern of a user
    opaque: bool = False


class Pitfall(NamedTuple):
    """Why an object that can be pickled is of no use afterwards, or only on this machine."""

    why: str
    fix: str
    #: ``breaks``, or ``note`` where it is only worth knowing
    kind: str = "breaks"
    modes: tuple[str, ...] = ("pickle", "torch.save")
    #: report it only for the first object of a type with this reason
    once: bool = False
    #: no other object of this type has another pitfall, so the others need no check
    final: bool = False


_Entry = TypeVar("_Entry", KindEntry, Pitfall)


def _parse(table: str, entry: type[_Entry]) -> tuple[dict[str, _Entry], dict[str, _Entry]]:
    """Return the entries of a table by exact name, and by prefix."""
    text = read_shipped("distcheck.checks.pickles", table).decode()
    exact: dict[str, _Entry] = {}
    prefixes: dict[str, _Entry] = {}
    joined = re.sub(r"\n +", " ", re.sub(r"(?m)^# .*\n", "", text))
    for block in joined.strip().split("\n\n"):
        names, *lines = block.split("\n")
        fields: dict[str, Any] = {}
        for line in lines:
            field, _, value = line.partition(": ")
            fields[field] = tuple(value.split()) if field == "modes" else value == "yes" or value
        row = entry(**fields)
        for name in names.split():
            if name.endswith((".", "*")):
                prefixes[name.removesuffix("*")] = row
            else:
                exact[name] = row
    return exact, prefixes


EXACT, PREFIXES = _parse("kinds.txt", KindEntry)
#: What can be pickled, and breaks later.
PITFALLS, PITFALL_PREFIXES = _parse("pitfalls.txt", Pitfall)

#: Whether and why a tensor can't be pickled depends on the tensor.
TENSOR = EXACT["torch.Tensor"]
#: ``grad_fn`` of a tensor: C types without a module of their own.
GRAD_FN = re.compile(r"builtins\.\w+Backward\d*|builtins\.AccumulateGrad|builtins\.\w*GradFn\w*")
GRAD_FN_KIND = PREFIXES["torch.autograd.function."]

#: Bases of classes that are made at run time: such a class is explained as its base.
SHARDED = frozenset(
    {"torch.distributed.fsdp.FSDPModule", "torch.distributed.fsdp._fully_shard._fully_shard.FSDPModule"}
)

#: Packages of Python whose objects are the inner parts of others, without the underscore of their C halves.
PLUMBING = frozenset(
    {
        *("builtins", "types", "operator", "itertools", "functools", "contextlib", "contextvars", "collections", "io"),
        *("thread", "threading", "queue", "weakref", "weakrefset", "logging", "socket", "ssl", "select", "selectors"),
        *("multiprocessing", "concurrent", "asyncio", "pybind11_builtins"),
    }
)

#: The fix for a function or lambda whose path shows its purpose.
FUNCTION_FIXES = {
    ".lr_lambdas": "save scheduler.state_dict() and load it into a new LambdaLR; or give LambdaLR an object with"
    " __call__, or a function at the top of a module",
    "default_factory": "use defaultdict(list) or a function at the top of a module as the factory; or store"
    " dict(values)",
    ".collate_fn": "write collate_fn as a function at the top of a module, with functools.partial for what varies",
    ".worker_init_fn": "write worker_init_fn as a function at the top of a module",
}

#: Types where it depends on the object: full name → the check of :mod:`.kinds`.
INSPECTED = {
    "torch.Tensor": "tensor",
    "torch.nn.parameter.Parameter": "tensor",
    "torch.device": "device",
    "torch.storage.UntypedStorage": "storage",
    "pathlib.PurePath": "path",
    "pathlib._local.PurePath": "path",
    "logging.Logger": "logger",
}
