"""Probes of what is handed over by pickling: process groups inside of objects, arguments of spawned processes, whole
modules in checkpoints. Files that exist already, and live objects, are checked elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .program import Program, SourceCall
from .term_queries import callee_text
from .values import Atom, Kind, Value
from .vocabulary import PROCESSES, SPAWNS

D = "torch.distributed."
#: What pickles or copies an object: where it stands among the arguments.
_PICKLES: dict[str, tuple[int, str]] = {
    "copy.deepcopy": (0, "x"),
    "torch.save": (0, "obj"),
    "pickle.dump": (0, "obj"),
    "pickle.dumps": (0, "obj"),
    "cloudpickle.dump": (0, "obj"),
    "cloudpickle.dumps": (0, "obj"),
    "dill.dump": (0, "obj"),
    "dill.dumps": (0, "obj"),
    "joblib.dump": (0, "value"),
    D + "all_gather_object": (1, "obj"),
    D + "gather_object": (0, "obj"),
    D + "broadcast_object_list": (0, "object_list"),
    D + "scatter_object_list": (1, "scatter_object_input_list"),
}
_STORES = frozenset(D + name for name in ("TCPStore", "FileStore", "HashStore", "PrefixStore"))
#: Methods by which a class defines what is pickled.
_OWN_WAY = ("__getstate__", "__reduce__", "__reduce_ex__")
#: How deep objects are followed.
_DEEPEST = 3


def _members(program: Program, atom: Atom) -> Iterator[tuple[str, Value]]:
    """Yield the attributes that the methods of an object's class assign, those of its bases included."""
    seen: set[str] = set()
    pending = [atom.const]
    visited = set()
    while pending:
        ref = pending.pop()
        if ref in visited:
            continue
        visited.add(ref)
        for name in program.evaluator.attributes_of(ref):
            if name not in seen:
                seen.add(name)
                value = program.evaluator.member(atom, name)
                if value is not None:
                    yield name, value
        pending.extend(base.const for base in program.evaluator.bases(ref) if base.kind == Kind.CLASS)


def _defines_pickling(program: Program, atom: Atom, *more: str) -> bool:
    return any(program.evaluator.method(atom.const, name) is not None for name in (*_OWN_WAY, *more))


# DC602


def _connection(program: Program, value: Value, *, copied: bool, depth: int = 0) -> tuple[str, str] | None:
    """The path to a process group or a store inside of a value and what is there; None where there is none for sure."""
    found = None
    for atom in value:
        inner = _connection_in(program, atom, copied=copied, depth=depth)
        if inner is None:
            return None
        found = found or inner
    return found


def _connection_in(program: Program, atom: Atom, *, copied: bool, depth: int) -> tuple[str, str] | None:
    if atom.kind == Kind.GROUP:
        return "", "a process group"
    if atom.kind == Kind.RESULT and atom.const in _STORES:
        return "", f"a {str(atom.const).rsplit('.', 1)[-1]}"
    if depth >= _DEEPEST:
        return None
    if atom.kind in (Kind.TUPLE, Kind.LIST):
        for position, item in enumerate(atom.items):
            inner = _connection(program, item, copied=copied, depth=depth + 1)
            if inner is not None:
                return f"[{position}]{inner[0]}", inner[1]
    if atom.kind == Kind.DICT:
        for key, item in zip(atom.const or (), atom.items, strict=False):
            inner = _connection(program, item, copied=copied, depth=depth + 1)
            if inner is not None:
                return f"[{key!r}]{inner[0]}", inner[1]
    if atom.kind == Kind.OBJECT and not _defines_pickling(program, atom, *(("__deepcopy__",) if copied else ())):
        for name, member in _members(program, atom):
            inner = _connection(program, member, copied=copied, depth=depth + 1)
            if inner is not None:
                return f".{name}{inner[0]}", inner[1]
    if atom.kind == Kind.WRAPPED and atom.const == "ddp":
        wrap = program.call_of(atom)
        given = wrap.argument(6, "process_group") if wrap is not None else None
        if given is not None and given.only(Kind.GROUP) and any(part.const == "sub" for part in given):
            return ".process_group", "a process group"
    return None


class _PickledArgument(NamedTuple):
    """An object that is pickled: where, its term, and which argument it is."""

    call: SourceCall
    term: int
    position: int
    #: the name of the parameter; empty for what a process gets
    name: str

    @property
    def text(self) -> str:
        """What the source calls it."""
        return self.call.argument_text(self.position, self.name) if self.name else _role(self.position)


def _handed_over(program: Program) -> Iterator[_PickledArgument]:
    """Yield all calls that pickle or copy an object."""
    for call in program.calls_to(*_PICKLES):
        target = next((target for target in call.targets if target in _PICKLES), "")
        position, name = _PICKLES.get(target, (0, ""))
        term = call.argument_term(position, name)
        if term >= 0:
            yield _PickledArgument(call, term, position, name)
    for call, target_term, arguments in _started(program):
        for position, term in enumerate((target_term, *arguments)):
            yield _PickledArgument(call, term, position, "")


def _role(position: int) -> str:
    """Return what a process gets, in words: its function (0), or one of its arguments."""
    return "the function" if position == 0 else f"args[{position - 1}]"


@probe(rules.DC602)
def process_group_in_object(program: Program) -> Iterator[Finding]:
    """What is pickled or copied holds no process group and no store."""
    for handed in _handed_over(program):
        call, way = handed.call, handed.call.method
        found = _group_in(program, call, way, handed.term)
        if found is None:
            continue
        path, what = found
        member = _attribute(path) or "the group"
        if way in ("save", "dump", "dumps"):
            fix = f"write the state without it: a state_dict, or a __getstate__ that leaves {member} out"
        elif way == "deepcopy":
            fix = f"copy before {member} is attached, or drop it in __getstate__ and create it again afterwards"
        elif way in ("spawn", "start_processes", "Process"):
            fix = "pass address and port, and let each process create its store and groups"
        else:
            fix = "send the list of ranks, and let each rank call new_group with it"
        yield call.found(
            rules.DC602,
            f"{handed.text}{path} is {what}, which can't be pickled: {callee_text(call)} raises TypeError",
            fix=fix,
            severity=call.level_in_tests,
            call=call.text(),
            path=path,
        )


def _group_in(program: Program, call: SourceCall, way: str, term: int) -> tuple[str, str] | None:
    found = _connection(program, call.term_value(term), copied=way == "deepcopy")
    if found is None or _dropped(program, call, _attribute(found[0])):
        return None
    return found


def _attribute(path: str) -> str:
    """Return the last attribute of a path, empty where it has none."""
    names = re.findall(r"\.(\w+)", path)
    return names[-1] if names else ""


def _dropped(program: Program, call: SourceCall, name: str) -> bool:
    """Return whether such an attribute gets another value in the same function before a call."""
    if not name:
        return False
    return any(
        row.kind == "attribute"
        and row.payload[1] == name
        and row.number < call.number
        and not row.term_value(row.payload[2]).has(Kind.GROUP)
        for row in program.rows_of(call.file, call.scope)
    )


# DC605


#: What can't be pickled, by the call that makes it: what to call it.
_LIVE: dict[str, str] = {
    "open": "an open file",
    "io.open": "an open file",
    "threading.Lock": "a lock of this process",
    "threading.RLock": "a lock of this process",
    "threading.Condition": "a condition of this process",
    "threading.Event": "an event of this process",
    "threading.Semaphore": "a semaphore of this process",
    "threading.Barrier": "a barrier of this process",
    "threading.Thread": "a thread",
    "threading.Timer": "a thread",
    "threading.local": "a thread's own storage",
    "queue.Queue": "a queue of this process",
    "queue.SimpleQueue": "a queue of this process",
    "queue.LifoQueue": "a queue of this process",
    "queue.PriorityQueue": "a queue of this process",
    "socket.socket": "a socket",
    "sqlite3.connect": "a database connection",
    "subprocess.Popen": "a process handle",
    "concurrent.futures.ThreadPoolExecutor": "a pool of threads",
    "concurrent.futures.ProcessPoolExecutor": "a pool of processes",
    "torch.utils.tensorboard.SummaryWriter": "a SummaryWriter",
    "tensorboardX.SummaryWriter": "a SummaryWriter",
    "torch.cuda.Stream": "a CUDA stream",
    "torch.cuda.Event": "a CUDA event",
    "generator": "a generator",
}
_CONTEXTS = frozenset({"torch.multiprocessing.get_context", "multiprocessing.get_context"})
_FRESH = frozenset({"spawn", "forkserver"})


def _started(program: Program) -> Iterator[tuple[SourceCall, int, list[int]]]:
    """Processes that begin as a fresh Python: the call, the term of the function, the terms of its arguments."""
    for call in program.calls_to(*SPAWNS):
        if call.constant(5, "start_method", "spawn") not in _FRESH:
            continue
        yield call, call.argument_term(0, "fn"), _items(program, call.file, call.argument_term(1, "args"))
    for call in program.calls_named("Process"):
        if not _is_fresh_context(program, call.receiver) and not _fresh_by_default(program, call):
            continue
        given = _items(program, call.file, call.argument_term(3, "args"))
        yield call, call.argument_term(1, "target"), given + _items(program, call.file, call.argument_term(4, "kwargs"))


def _is_fresh_context(program: Program, value: Value) -> bool:
    """Return whether a multiprocessing context starts its processes again."""
    found = False
    for atom in value:
        if atom.kind != Kind.RESULT or atom.const not in _CONTEXTS:
            return False
        made = program.call_of(atom)
        if made is None or made.constant(0, "method") not in _FRESH:
            return False
        found = True
    return found


def _fresh_by_default(program: Program, call: SourceCall) -> bool:
    """Return whether the file sets the start method to spawn or forkserver, without a condition, for such processes."""
    if not call.is_to(*PROCESSES):
        return False
    for other in program.calls_to("torch.multiprocessing.set_start_method", "multiprocessing.set_start_method"):
        if other.file == call.file and other.constant(0, "method") in _FRESH:
            return not any(node[1] == "if" and "__name__" not in other.term_text(node[2]) for _, node in other.blocks)
    return False


def _items(program: Program, file: int, term: int) -> list[int]:
    """Return the terms in a tuple or dict that is written out; the term itself where it is neither."""
    if term < 0:
        return []
    operation = program.terms[file][term]
    if operation[0] in ("t", "l"):
        return list(operation[1])
    if operation[0] == "d":
        return list(operation[2])
    return [term]


@probe(rules.DC605)
def spawn_argument_unpicklable(program: Program) -> Iterator[Finding]:
    """What a fresh process gets can be pickled."""
    for call, target, arguments in _started(program):
        for position, term in enumerate((target, *arguments)):
            found = _unpicklable(program, call.file, term)
            if found is None:
                continue
            path, what = found
            message = f"{_role(position)}{path} of {callee_text(call)} is {what}: a spawned process can't get it"
            yield _refused(program, call, message, what)
            break
    for call in program.calls_to("torch.utils.data.DataLoader"):
        refused = _of_loader(program, call)
        if refused is not None:
            name, path, what = refused
            message = f"{name}{path} of this loader is {what}: its spawned workers can't get it"
            yield _refused(program, call, message, what)


def _refused(program: Program, call: SourceCall, message: str, what: str) -> Finding:
    if "lambda" in what or "function" in what:
        fix = "define it at the top of a module, and pass what varies with functools.partial or as an argument"
    elif "class" in what:
        fix = "define the class at the top of a module"
    elif "queue" in what or "lock" in what or "event" in what or "condition" in what or "semaphore" in what:
        fix = 'use the same context: torch.multiprocessing.get_context("spawn")'
    elif what == "a generator":
        fix = "pass a list, or what the child needs to create the generator"
    else:
        fix = "pass what it is made from (a path, an address), and let the child open it"
    return call.found(rules.DC605, message, fix=fix, severity=call.level_in_tests, call=call.text())


def _unpicklable(program: Program, file: int, term: int, depth: int = 0) -> tuple[str, str] | None:
    """The path to something in a term that can't be pickled, and what it is; None where there is none for sure."""
    if term < 0:
        return None
    operation = program.terms[file][term]
    if operation[0] == "*" and operation[3] == -1:
        return "", "a generator"
    if operation[0] in ("t", "l", "d") and depth < _DEEPEST:
        for item in _items(program, file, term):
            found = _unpicklable(program, file, item, depth + 1)
            if found is not None:
                return found
        return None
    return _unpicklable_value(program, program.evaluator.value(file, term), depth)


def _unpicklable_value(program: Program, value: Value, depth: int) -> tuple[str, str] | None:
    found = None
    for atom in value:
        inner = _unpicklable_atom(program, atom, depth)
        if inner is None:
            return None
        found = found or inner
    return found


def _unpicklable_atom(program: Program, atom: Atom, depth: int) -> tuple[str, str] | None:
    if atom.kind == Kind.FUNCTION:
        scope = program.scope(atom.const)
        if scope.kind == "lambda":
            return "", "a lambda"
        outer = program.index.scopes[atom.const[0]][scope.parent] if scope.parent >= 0 else None
        if outer is not None and outer.kind == "function":
            return "", f"a function defined inside {outer.name}()"
        return _unpicklable_atom(program, atom.of[0], depth) if atom.of and depth < _DEEPEST else None
    if atom.kind == Kind.RESULT and atom.const in _LIVE:
        return "", _LIVE[atom.const]
    if atom.kind == Kind.RESULT and atom.const == "functools.partial":
        made = program.call_of(atom)
        return _unpicklable(program, made.file, made.argument_term(0), depth + 1) if made is not None else None
    if atom.kind == Kind.NAMED and atom.const == "os.environ":
        return "", "the environment itself (pass dict(os.environ))"
    if depth >= _DEEPEST:
        return None
    if atom.kind in (Kind.TUPLE, Kind.LIST, Kind.DICT):
        for item in atom.items:
            inner = _unpicklable_value(program, item, depth + 1)
            if inner is not None:
                return inner
    if atom.kind == Kind.OBJECT and not _defines_pickling(program, atom):
        file, number = atom.const
        scopes = program.index.scopes[file]
        outer = scopes[scopes[program.index.classes[file][number].scope].parent]
        if outer.kind == "function":
            return "", f"of a class defined inside {outer.name}()"
        for name, member in _members(program, atom):
            inner = _unpicklable_value(program, member, depth + 1)
            if inner is not None:
                return f".{name}{inner[0]}", inner[1]
    return None


def _of_loader(program: Program, call: SourceCall) -> tuple[str, str, str] | None:
    """Return what a loader whose workers are spawned can't hand to them."""
    context = call.argument(11, "multiprocessing_context")
    if context is None or call.constant(5, "num_workers", 0) == 0:
        return None
    if context.constant not in _FRESH and not _is_fresh_context(program, context):
        return None
    for position, name in ((6, "collate_fn"), (10, "worker_init_fn"), (0, "dataset")):
        found = _unpicklable(program, call.file, call.argument_term(position, name))
        if found is not None:
            return name, found[0], found[1]
    return None


# DC615


_LAYER = lazy(r"^torch\.nn\.(modules\.\w+\.)?(?!Parameter|Buffer|Uninitialized)[A-Z]\w*$")
_FACTORIES = lazy(
    # not what a method of such a model gives
    r"^(?!.*\.(state_dict|(named_)?(parameters|buffers|children|modules))$)"
    r"(torchvision\.models\.(\w+\.)*\w+|timm\.(models\.)?create_model"
    r"|transformers\.\w*(Model|For[A-Z])\w*\.from_pretrained)$"
)
_BASES = lazy(
    r"^(torch\.nn\.(modules\.\w+\.)?[A-Z]\w*|lightning\.pytorch\.LightningModule"
    r"|transformers\.(PreTrainedModel|\w+Model)|torchvision\.models\.\w+)$"
)


def is_module(program: Program, atom: Atom, depth: int = 0) -> bool:
    """Return whether an alternative is certainly a torch module."""
    if atom.kind == Kind.BARE or (atom.kind == Kind.METHOD and atom.const == "module"):
        # whatever has a module inside: a wrapper, or a model that was not wrapped on this way
        return bool(atom.of) and depth < 8 and is_module(program, atom.of[0], depth + 1)
    if atom.kind == Kind.WRAPPED:
        return atom.const in ("ddp", "fsdp", "fsdp2", "dp")
    if atom.kind == Kind.RESULT and isinstance(atom.const, str):
        return bool(_LAYER.match(atom.const) or _FACTORIES.match(atom.const))
    if atom.kind in (Kind.OBJECT, Kind.CLASS) and depth < 8:
        for base in program.evaluator.bases(atom.const):
            if base.kind == Kind.NAMED and _BASES.match(str(base.const)):
                return True
            if base.kind == Kind.CLASS and base.const != atom.const and is_module(program, base, depth + 1):
                return True
    return False


def _only_modules(program: Program, value: Value | None) -> bool:
    return value is not None and bool(value.atoms) and all(is_module(program, atom) for atom in value)


@probe(rules.DC615)
def whole_module_saved(program: Program) -> Iterator[Finding]:
    """A checkpoint holds states, and not the objects that they belong to."""
    reported: set[tuple[int, int, int]] = set()
    for call in program.calls_to("torch.save"):
        term = call.argument_term(0, "obj")
        if term < 0 or _in_memory(call) or _group_in(program, call, "save", term) is not None:
            continue
        found = _module_in(program, call, term)
        if found is None:
            continue
        # one object under several names is one error
        if (call.file, call.scope, term) in reported:
            continue
        reported.add((call.file, call.scope, term))
        text, value = found
        state = "its state_dict()" if value.wrapped() is None else "the state_dict() of its .module"
        distributed = program.is_distributed(call.file) and not program.is_test(call.file)
        yield call.found(
            rules.DC615,
            f"torch.save writes {text} as an object: only this code can load the file, and not with weights_only",
            fix=f"save {state} instead, and load it with load_state_dict",
            severity=Severity.WARNING if distributed else Severity.INFO,
            call=call.text(),
        )


def _module_in(program: Program, call: SourceCall, term: int) -> tuple[str, Value] | None:
    """Return the module that a term is, or has as the value of a key: its source and its value."""
    value = call.term_value(term)
    if _only_modules(program, value):
        return call.argument_text(0, "obj"), value
    for atom in value:
        if atom.kind == Kind.DICT:
            for key, item in zip(atom.const or (), atom.items, strict=False):
                if _only_modules(program, item):
                    given = call.argument_text(0, "obj")
                    return (f"{given}[{key!r}]" if given.isidentifier() else f"the value of {key!r}"), item
    return None


def _in_memory(call: SourceCall) -> bool:
    """Return whether what is written stays in memory."""
    given = call.argument(1, "f")
    return given is not None and given.named("io.BytesIO") is not None
