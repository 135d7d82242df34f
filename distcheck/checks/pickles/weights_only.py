"""What ``torch.load(weights_only=True)`` would do with a file.

It accepts the file, accepts it after an import or an allow-list line, or refuses it whatever is allow-listed. The
answer has the reason and the fix. It repeats the decisions of torch's restricted unpickler
(``torch/_weights_only_unpickler.py``) on a trace, and those of ``torch.load`` on the container. A dangerous global
never gets an allow-list line.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from keyword import iskeyword
from typing import NamedTuple

from .known_functions import MOST_APART
from .picklefile import Anomaly, PickleFile, Stream
from .torch_globals import OPCODES, TorchRules, rules_for, torch_name
from .trace import Global, Naming, StreamCall, StreamWrite, Trace
from .trusted_globals import python3_name, trust_of


class Policy(NamedTuple):
    """What the caller wants to know."""

    #: the torch whose tables count (``2.13.0``); None: the newest that is known
    torch_version: str | None = None
    #: globals that the caller trusts, as if ``add_safe_globals`` had been called (``module.Name``)
    allow: frozenset[str] = frozenset()
    #: ``weights-only`` or ``pickle``; None: by the format of the file
    purpose: str | None = None
    #: GPUs of the machine that will load it; None: unknown
    gpus: int | None = None


class WeightsOnly(NamedTuple):
    """What ``torch.load(weights_only=True)`` would do."""

    #: ``accept``, ``import`` (after importing ``modules``), ``allowlist`` (after ``add_safe_globals``), ``never``;
    #: ``unknown`` where a limit ended the scan before anything was known
    answer: str
    #: modules to import first
    modules: tuple[str, ...] = ()
    #: what stands in the brackets of ``torch.serialization.add_safe_globals([…])``, ready to paste
    allowlist: tuple[str, ...] = ()
    #: import statements that the line needs, ready to paste
    imports: tuple[str, ...] = ()
    #: why not, in torch's terms, and what to do: sentences without a full stop
    why: str = ""
    fix: str = ""
    offset: int | None = None


#: Roles of streams that torch.load unpickles.
_READ = ("object", "header", "keys")
_MOST_REASONS = 3
#: Forms of numpy's dtypes in a pickle, and the class that each is an instance of (numpy 2.4, ``numpy.dtypes``).
_DTYPES = {
    "b1": "Bool",
    "i1": "Int8",
    "i2": "Int16",
    "i4": "Int32",
    "i8": "Int64",
    "u1": "UInt8",
    "u2": "UInt16",
    "u4": "UInt32",
    "u8": "UInt64",
    "f2": "Float16",
    "f4": "Float32",
    "f8": "Float64",
    "f12": "LongDouble",
    "f16": "LongDouble",
    "c8": "Complex64",
    "c16": "Complex128",
    "c24": "CLongDouble",
    "c32": "CLongDouble",
    "O": "Object",
    "S": "Bytes",
    "U": "Str",
    "V": "Void",
    "M": "DateTime64",
    "m": "TimeDelta64",
}
_EVERY_DTYPE = "*{type(numpy.dtype(code)) for code in '?bBhHiIlLqQefdgFDGSUVOMm'}"
#: What a function gives that BUILD then fills, where the stream need not name its class.
_GIVES = {
    "numpy.random._pickle.__generator_ctor": "numpy.random.Generator",
    "numpy.random._pickle.__randomstate_ctor": "numpy.random.RandomState",
    "numpy.random.bit_generator.__pyx_unpickle_SeedSequence": "numpy.random.SeedSequence",
}
#: Other names for the same thing that hold in all versions of a package.
_STABLE_NAMES = {"pathlib._local": "pathlib"}
#: Values that do not know their own name: torch needs the name.
_NAMELESS = frozenset({"builtins.Ellipsis", "builtins.NotImplemented"})
#: Of what torch allows: functions, of which there are no instances, and classes whose instances have no attributes.
_FUNCTIONS = ("_codecs.encode", "torch._utils._rebuild_", "torch._tensor._rebuild_", "torch.serialization._get_layout")
_WITHOUT_ATTRIBUTES = frozenset(
    {"builtins.set", "builtins.complex", "builtins.bytearray", "torch.Size", "torch.device", "_codecs.encode"}
)
#: Names that our lines use themselves.
_TAKEN = frozenset({"numpy", "torch", "pair", *vars(builtins)})
#: What torch can't rebuild out of its old format, which gives the content of tensors only after all else is rebuilt.
_NOT_IN_LEGACY = {
    "torch.storage.UntypedStorage": "a storage or a tensor of a newer data type (torch.uint16, torch.float8_…)",
    "torch._utils._rebuild_nested_tensor": "a nested tensor",
    "torch._C.Generator": "a torch.Generator",
}
_GETATTR = Global("builtins", "getattr")
TYPE = Global("builtins", "type")
_CONSTANTS = ("None)", "builtins.Ellipsis)", "builtins.NotImplemented)")
#: Opens files where it is called; as the class of an array that was saved by value it does nothing.
MEMORY_MAP = Global("numpy", "memmap")
#: What is harmless and may call something that it is given.
_CALL_ARGUMENTS = (
    "builtins.iter",
    "builtins.map",
    "collections.defaultdict",
    "copyreg.",
    "copy_reg.",
    "functools.",
    "numpy.random.",
    "torch._tensor.",
    "torch.nested.",
    "torch.optim.",
)
_DO_NOT_LOAD = "do not load it"
_PROTOCOL = "save it again with torch.save and its own protocol, which is 2 (drop pickle_protocol)"
_COPY_AGAIN = "copy or download it again"


class _Reason(NamedTuple):
    """One thing that no allow-list helps against."""

    #: the smallest comes first: 0 dangerous, 1 the container, 2 the stream
    rank: int
    offset: int | None
    why: str
    fix: str


class _Needs:
    """What has to be imported and allow-listed, in the order of the stream, and what can't be helped."""

    def __init__(self) -> None:
        self.modules: dict[str, None] = {}
        self.entries: dict[str, None] = {}
        self.imports: dict[str, None] = {}
        #: name in our lines → where it comes from
        self._names: dict[str, str] = {}
        self.reasons: dict[_Reason, None] = {}
        self.unknown = False

    def refuse(self, rank: int, offset: int | None, why: str, fix: str) -> None:
        """No allow-list helps."""
        self.reasons[_Reason(rank, offset, why, fix)] = None

    def refer(self, what: Global) -> str | None:
        """Python text for a thing, whose import is noted; None where its name is none of Python's."""
        module = _STABLE_NAMES.get(what.module, what.module)
        parts = [*module.split("."), *what.name.split(".")]
        if not all(part.isidentifier() and part.isprintable() and not iskeyword(part) for part in parts):
            return None
        if module == "builtins":
            return what.name
        if "." not in module:
            self.imports[f"import {module}"] = None
            self._names[module] = module
            return f"{module}.{what.name}"
        # some packages take the names of their modules away again (torch.optim): only this form finds them
        first, *inner = what.name.split(".")
        source = f"{module}.{first}"
        name, line = first, f"from {module} import {first}"
        if self._names.get(first, source) != source or first in _TAKEN:
            name = source.replace(".", "_")
            line += f" as {name}"
        self._names[name] = source
        self.imports[line] = None
        return ".".join((name, *inner))

    def answer(self) -> WeightsOnly:
        """All of it in one value."""
        if self.reasons:
            worst = min(reason.rank for reason in self.reasons)
            reasons = sorted(
                (reason for reason in self.reasons if reason.rank == worst), key=lambda reason: reason.offset or 0
            )
            whys = list(dict.fromkeys(reason.why for reason in reasons))[:_MOST_REASONS]
            fixes = list(dict.fromkeys(reason.fix for reason in reasons))[:_MOST_REASONS]
            return WeightsOnly("never", why="; ".join(whys), fix="; ".join(fixes), offset=reasons[0].offset)
        if self.unknown:
            return WeightsOnly("unknown")
        if self.entries:
            return WeightsOnly("allowlist", tuple(self.modules), tuple(self.entries), tuple(self.imports))
        return WeightsOnly("import", tuple(self.modules)) if self.modules else WeightsOnly("accept")


def weights_only(traces: Iterable[Trace], policy: Policy = Policy(), *, legacy: bool = False) -> WeightsOnly:
    """What torch's restricted unpickler would do with these streams, one after another.

    :param legacy: they stand in a file of torch's old format, which is no zip
    :raises ValueError: for a version of torch that is none
    """
    rules = rules_for(policy.torch_version)
    needs = _Needs()
    for trace in traces:
        _judge_stream(trace, rules, policy, needs, legacy)
    return needs.answer()


def weights_only_of_file(file: PickleFile, policy: Policy = Policy()) -> WeightsOnly | None:
    """What ``torch.load`` would do with a file; None where torch has nothing to do with it.

    :raises ValueError: for a version of torch that is none
    """
    read = [stream for stream in file.streams if is_read_by_torch(stream)]
    if file.format == "pickle" and not read:
        return WeightsOnly(
            "never",
            why="it is a plain pickle, and no file of torch.save: torch.load raises 'Invalid magic number'",
            fix="load it with pickle.load, or save it again with torch.save",
        )
    if not read and not is_torch_format(file.format):
        return None
    if file.format == "torch.export archive":
        return WeightsOnly(
            "never",
            why="it is an archive of torch.export, and torch.load finds no data.pkl in it",
            fix="load it with torch.export.load",
        )
    rules = rules_for(policy.torch_version)
    needs = _Needs()
    for anomaly in file.anomalies:
        if anomaly.kind == "refused" or (anomaly.kind == "malformed" and not _is_behind(anomaly, read)):
            needs.refuse(1, anomaly.offset, anomaly.what, anomaly.fix or _FIXES[anomaly.kind])
    if file.storages_absent:
        needs.refuse(
            1, None, f"{len(file.storages_absent)} of the storages that it requests are not in it", _COPY_AGAIN
        )
    for stream in read:
        _judge_stream(stream.trace, rules, policy, needs, stream.reader == "torch-legacy")
    if not read or (file.unopened and file.format == "distributed checkpoint"):
        needs.unknown = True
    return needs.answer()


def _is_behind(anomaly: Anomaly, read: Iterable[Stream]) -> bool:
    """Whether something stands behind the end of a stream that torch reads: it never gets there."""
    return anomaly.offset is not None and any(
        stream.member == anomaly.member and stream.trace.ended == "stop" and anomaly.offset >= stream.trace.end
        for stream in read
        if stream.role == "object" and stream.reader == "torch"
    )


_FIXES = {
    "refused": "load it with the program that wrote it, and save the state_dict with torch.save",
    "malformed": _COPY_AGAIN,
}


def is_torch_format(form: str) -> bool:
    """Whether a format (as a file's fact words it) is one that torch writes or reads."""
    return form.startswith(("torch", "Torch"))


def is_read_by_torch(stream: Stream) -> bool:
    """Whether torch's restricted unpickler would read a stream."""
    return stream.reader in ("torch", "torch-legacy") and stream.role in _READ


def names_in_file(naming: Naming) -> Global:
    """The module and the name in the stream, before any translation of Python-2 names."""
    if naming.written is None:
        return naming.what
    module, _, name = naming.written.rpartition(".")
    return Global(module, name)


def is_allowed(naming: Naming, allow: frozenset[str]) -> bool:
    """Whether the caller trusts it, by its name in the file or by that in Python 3."""
    return bool(allow) and not allow.isdisjoint(
        (naming.what.path, python3_name(naming.what).path, names_in_file(naming).path)
    )


def folded_getattr(trace: Trace) -> bool:
    """Whether every use of ``getattr`` in a stream finds a plain nested name, which stands among its globals."""
    return any(naming.opcode == "getattr" for naming in trace.globals) and not any(
        call.function is not None and python3_name(call.function) == _GETATTR for call in trace.calls
    )


def only_of_constants(trace: Trace) -> bool:
    """Whether ``type`` is only called with None and other constants."""
    texts = [call.text for call in trace.calls if call.function is not None and python3_name(call.function) == TYPE]
    return bool(texts) and all(text.partition("(")[2] in _CONSTANTS for text in texts)


def only_rebuilt(trace: Trace) -> bool:
    """Whether ``numpy.memmap`` is only the class of an array whose content stands in the stream: nothing calls it."""
    calls = any(call.function == MEMORY_MAP and call.opcode != "BUILD" for call in trace.calls)
    return not calls and not any(naming.what.path.startswith(_CALL_ARGUMENTS) for naming in trace.globals)


def _judge_stream(trace: Trace, rules: TorchRules, policy: Policy, needs: _Needs, legacy: bool) -> None:
    if trace.ended in ("broken", "cut"):
        problem = trace.problem
        needs.refuse(
            2,
            problem.offset if problem else trace.end,
            problem.why if problem else "its pickle breaks off",
            _COPY_AGAIN,
        )
    elif trace.ended != "stop":
        needs.unknown = True
    _judge_opcodes(trace, needs)
    folded = folded_getattr(trace)
    for naming in trace.globals:
        if naming.opcode == "getattr" or (folded and python3_name(naming.what) == _GETATTR):
            continue
        _judge_global(naming, trace, rules, policy, needs)
        if legacy and (held := _NOT_IN_LEGACY.get(naming.what.path)):
            needs.refuse(
                2,
                naming.offset,
                f"it holds {held}, which torch itself can't load again from its old format",
                "save it again in the present format (drop _use_new_zipfile_serialization)",
            )
    if folded:
        _judge_nested(trace, rules, policy, needs)
    _judge_calls(trace, needs)
    for write in trace.writes:
        _judge_write(write, rules, needs)
    _add_numpy_types(trace, needs)
    for unresolved in trace.foreign_ids:
        needs.refuse(
            2,
            unresolved.offset,
            f"it holds a persistent id that requests no storage: {unresolved.why}",
            "it can be loaded only by the program that wrote it",
        )
    for unresolved in trace.unresolved:
        needs.refuse(0, unresolved.offset, unresolved.why, _DO_NOT_LOAD)


def _judge_opcodes(trace: Trace, needs: _Needs) -> None:
    missing = sorted((offset, opcode) for opcode, offset in trace.opcodes.items() if opcode not in OPCODES)
    if not missing:
        return
    named = [opcode for _, opcode in missing]
    offset = missing[0][0]
    some = ", ".join(named[:_MOST_REASONS]) + (f" and {len(named) - _MOST_REASONS} more" if len(named) > 3 else "")
    if named == ["LONG4"]:
        why = "it holds an integer of more than 255 bytes (opcode LONG4)"
        fix = "save that integer as text, with str() or hex()"
    elif set(named) <= {"EXT1", "EXT2", "EXT4"}:
        why, fix = f"it names something by an extension code ({some})", _DO_NOT_LOAD
    else:
        why = f"it is a pickle of protocol {trace.protocol}, whose opcodes torch's restricted unpickler lacks ({some})"
        fix = _PROTOCOL
    needs.refuse(2, offset, why, fix)


def _judge_global(naming: Naming, trace: Trace, rules: TorchRules, policy: Policy, needs: _Needs) -> None:
    in_file = names_in_file(naming)
    module, name = torch_name(*in_file)
    path = f"{module}.{name}"
    if module in rules.blocked:
        needs.refuse(
            0,
            naming.offset,
            f"it names {path}, and torch takes nothing of {module}, even if allow-listed",
            _DO_NOT_LOAD,
        )
    elif path in rules.allowed or is_allowed(naming, policy.allow):
        return
    elif path in rules.imported:
        needs.modules[rules.imported[path]] = None
    else:
        judged = trust_of(naming.what)
        if naming.what == MEMORY_MAP and only_rebuilt(trace):
            if rules.has_tuples:
                needs.imports["import numpy"] = None
                needs.entries["(numpy.ndarray, 'numpy.memmap')"] = None  # which opens no file
            else:
                why = "it holds a memory map of numpy, whose class can open files"
                needs.refuse(2, naming.offset, why, "save numpy.array() of it")
        elif path == TYPE.path and rules.has_tuples and only_of_constants(trace):
            needs.entries["(lambda value: type(value), 'builtins.type')"] = None  # which can't make new classes
        elif judged.kind == "dangerous":
            needs.refuse(0, naming.offset, f"it names {naming.what.path}, which {judged.why}", _DO_NOT_LOAD)
        else:
            _allow(python3_name(naming.what), path, naming.offset, rules, needs)


def _allow(what: Global, path: str, offset: int, rules: TorchRules, needs: _Needs) -> None:
    """One entry of the allow-list; ``path`` is the name that torch finds."""
    if not rules.has_allow_list:
        needs.refuse(
            2,
            offset,
            f"it names {what.path}, and torch before 2.4 has no add_safe_globals",
            "save plain tensors, dicts, lists and numbers, or load it with torch 2.4 or newer",
        )
        return
    text = needs.refer(what)
    if text is None:
        needs.refuse(2, offset, f"it names {path}, which is no name that can be written in Python", _DO_NOT_LOAD)
        return
    apart = path != f"{what.module}.{what.name}" or path.startswith("numpy.core.") or path in _NAMELESS
    apart = apart or what.module in _STABLE_NAMES
    if apart and not rules.has_tuples:
        needs.refuse(
            2,
            offset,
            f"it names {path}, which is called otherwise now, and torch before 2.6 takes no other name for it",
            "convert it to text, numbers or a plain dict before saving",
        )
        return
    needs.entries[f"({text}, '{path}')" if apart else text] = None


def _judge_nested(trace: Trace, rules: TorchRules, policy: Policy, needs: _Needs) -> None:
    """``getattr(Outer, 'Inner')``: torch is given a function in the place of getattr that finds just these."""
    used = {call.function for call in trace.calls} | {write.of for write in trace.writes}
    pairs = []
    for naming in trace.globals:
        if naming.opcode != "getattr":
            continue
        judged = trust_of(naming.what)
        if judged.kind == "dangerous" and not is_allowed(naming, policy.allow):
            needs.refuse(0, naming.offset, f"it names {naming.what.path}, which {judged.why}", _DO_NOT_LOAD)
            continue
        if not rules.has_tuples:
            needs.refuse(
                2,
                naming.offset,
                f"{naming.what.path} is nested in another class",
                "move that class to the top level of its module, and save again",
            )
            continue
        outer, _, inner = naming.what.name.rpartition(".")
        text = needs.refer(python3_name(Global(naming.what.module, outer)))
        if text is None or not inner.isidentifier() or iskeyword(inner):
            needs.refuse(2, naming.offset, f"{naming.what.path} is no name that can be written in Python", _DO_NOT_LOAD)
            continue
        pairs.append((text, inner))
        if naming.what in used:
            needs.entries[f"{text}.{inner}"] = None
    if pairs:
        table = ", ".join(f"({outer}, '{inner}'): {outer}.{inner}" for outer, inner in dict.fromkeys(pairs))
        needs.entries[f"(lambda *pair: {{{table}}}[pair], 'builtins.getattr')"] = None


def _judge_calls(trace: Trace, needs: _Needs) -> None:
    for call in trace.calls:
        if call.function is None:
            needs.refuse(
                2, call.offset, f"it calls what another call gave: {call.text}", "save plain values, dicts and tensors"
            )
        elif call.opcode == "NEWOBJ" and call.function.path.startswith(_FUNCTIONS):
            needs.refuse(
                2, call.offset, f"it makes an instance of {call.function.path}, which is no class", _DO_NOT_LOAD
            )
        elif call.function.module == "torch" and _is_no_function(call.function.name):
            needs.refuse(2, call.offset, f"it calls {call.function.path}, which is no function", _DO_NOT_LOAD)


def _is_no_function(name: str) -> bool:
    """Of what torch allows in the module ``torch``: data types, ways to quantize, and placeholders for storages."""
    return name.endswith("Storage") or (
        name[:1].islower() and f"torch.{name}" in rules_for(None).allowed and name != "device"
    )


def _judge_write(write: StreamWrite, rules: TorchRules, needs: _Needs) -> None:
    of = None if write.of is None else python3_name(write.of)
    named = of.path if of is not None else write.target
    target = write.target
    if target == "instance" and of in (Global("builtins", "list"), Global("builtins", "dict")):
        target = of.name if of is not None else target
    if write.opcode in ("APPEND", "APPENDS"):
        if target != "list":
            needs.refuse(
                2,
                write.offset,
                f"it appends to {_a(named)}, and torch appends to plain lists only",
                f"convert {_what(named)} to a plain list before saving, and back after loading",
            )
    elif write.opcode in ("SETITEM", "SETITEMS"):
        known = of in (Global("collections", "OrderedDict"), Global("collections", "Counter"))
        if not (target == "dict" or (target == "instance" and (known or not rules.fills_dictionaries_only))):
            needs.refuse(
                2,
                write.offset,
                f"it puts items into {_a(named)}, and torch fills dict, OrderedDict and Counter only",
                f"convert {_what(named)} to a plain dict before saving, and back after loading",
            )
    elif write.opcode == "BUILD":
        if target == "set" and not write.names and "builtins.set" in rules.allowed:
            return  # an empty state passes
        if target != "instance":
            needs.refuse(
                2,
                write.offset,
                f"it writes a state into {_a('a class or function' if target == 'global' else target)}",
                _DO_NOT_LOAD if target == "global" else "save plain values, dicts and tensors",
            )
        elif of is not None and of.path in _WITHOUT_ATTRIBUTES and write.names:
            needs.refuse(2, write.offset, f"it gives attributes to {_a(of.path)}, which has none", _DO_NOT_LOAD)
        elif of is not None and of.path in _GIVES:
            module, _, name = _GIVES[of.path].rpartition(".")
            if text := needs.refer(Global(module, name)):
                needs.entries[text] = None


def _a(thing: str) -> str:
    if thing.startswith("a "):
        return thing
    return f"{'an' if thing[:1] in 'aeiou' and '.' not in thing else 'a'} {thing}"


def _what(named: str) -> str:
    """A thing that is to be converted, in the words of a fix."""
    return f"the {named.rpartition('.')[2]}"


def _add_numpy_types(trace: Trace, needs: _Needs) -> None:
    """The classes of numpy's data types: no stream names them, and torch needs each one that gets a state."""
    if not any(write.opcode == "BUILD" and write.of == Global("numpy", "dtype") for write in trace.writes):
        return
    recent = any(naming.what.module.startswith("numpy._core") for naming in trace.globals)
    calls = [call for call in trace.calls if call.function == Global("numpy", "dtype")]
    names = [_dtype_class(call, recent) for call in calls]
    needs.imports["import numpy"] = None
    if None in names or not names or len(calls) > MOST_APART:  # beyond, different calls are one
        needs.entries[_EVERY_DTYPE] = None
        return
    for name in names:
        if name is not None:
            needs.entries[name] = None


def _dtype_class(call: StreamCall, recent: bool) -> str | None:
    """Of ``numpy.dtype('f8', False, True)``: ``numpy.dtypes.Float64DType``; in old numpy what gives that class."""
    code = call.text.partition("('")[2].partition("'")[0]
    kind = code if code in _DTYPES else code.rstrip("0123456789")
    if kind not in _DTYPES:
        return None
    return f"numpy.dtypes.{_DTYPES[kind]}DType" if recent else f"type(numpy.dtype('{code}'))"
