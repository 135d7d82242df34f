"""Judge what loading a file would do, from its fact: safe, needs allow-listing, dangerous, malformed, incomplete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from .picklefile import PickleFile, Stream
from .torch_globals import BLOCKED_MODULES, TorchRules, rules_for, torch_name
from .trace import Global, Naming, StreamCall, Trace, Unresolved
from .trusted_globals import Trust, python3_name, trust_of
from .values import printable
from .weights_only import (
    MEMORY_MAP,
    TYPE,
    folded_getattr,
    is_allowed,
    is_read_by_torch,
    is_torch_format,
    names_in_file,
    only_of_constants,
    only_rebuilt,
    weights_only_of_file,
)
from .weights_only import Policy as Policy
from .weights_only import WeightsOnly as WeightsOnly


class Danger(NamedTuple):
    """One thing that must not be loaded."""

    member: str | None
    offset: int
    #: ``os.system('…')``, printable; empty where nothing is called, or it can't be known what
    call: str
    #: why it is not trusted, without a full stop: a clause that can follow the call (``it runs a shell command``),
    #: or a full sentence where there is none
    why: str
    #: None where what is called can't be known
    what: Global | None = None


class FileVerdict(NamedTuple):
    """The judgement of one file."""

    #: ``safe``, ``needs-allow-listing``, ``dangerous``, ``malformed``, ``incomplete``
    word: str
    #: None where torch has nothing to do with the file
    weights_only: WeightsOnly | None
    dangers: tuple[Danger, ...] = ()
    #: globals on no list: code of others, neither known to be harmless nor known to be harmful
    untrusted: tuple[Global, ...] = ()
    #: globals that are harmless, but that torch does not allow by itself
    benign: tuple[Global, ...] = ()
    malformed: tuple[Unresolved, ...] = ()
    #: classes of whole modules (``torch.nn.Module`` and what derives from it, as far as names show)
    modules_saved: tuple[StreamCall, ...] = ()
    #: process groups, device meshes and other things of ``torch.distributed``
    distributed: tuple[Global, ...] = ()
    #: the torch version whose tables were used
    torch_version: str = ""
    #: why it is not the one that was requested, else empty
    torch_note: str = ""
    #: why the file is incomplete, in addition to what could not be opened
    not_checked: tuple[str, ...] = ()


#: Dangers that are kept of one file; more add nothing.
_MOST_DANGERS = 1_000
_FILLING = ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS")
_LOADS_BYTES = Global("torch.storage", "_load_from_bytes")
_GETATTR = Global("builtins", "getattr")
_DISTRIBUTED = ("torch.distributed.", "torch._C._distributed_", "torch.nn.parallel.distributed.")
#: Of `torch.distributed`, and yet plain data about tensors.
_PLAIN_DATA = (
    "torch.distributed.checkpoint.",
    "torch.distributed._shard.metadata.",
    "torch.distributed._shard.sharded_tensor.metadata.",
)
#: Why a file is incomplete of which all was read: an archive without a pickle, for one.
NOTHING_TO_JUDGE = "nothing was found in it that could be judged"
#: Classes that are benign as long as pickle makes their objects without calling them, which these opcodes do.
_CONNECTING = frozenset({Global("torch.distributed.device_mesh", "DeviceMesh")})
_CALLING = ("REDUCE", "INST", "OBJ")
_OF_TORCHSCRIPT = ("__torch__.", "torch.jit._pickle.")
#: Attributes that every ``torch.nn.Module`` has next to ``_modules`` (torch 2.13, ``torch/nn/modules/module.py``).
_OF_A_MODULE = frozenset({"_parameters", "_buffers", "training"})
_CONSUMERS = frozenset(
    Global(module, name)
    for module, names in (
        ("builtins", "list tuple set frozenset dict bytes bytearray str"),
        ("collections", "deque Counter OrderedDict defaultdict UserList UserDict"),
        ("array", "array"),
        ("torch", "Size"),
    )
    for name in names.split()
)
_OF_A_SIZE = frozenset({Global("builtins", "bytes"), Global("builtins", "bytearray")})
_NUMBERS = frozenset({Global("builtins", "int"), Global("fractions", "Fraction")})
_ENDLESS = r"\b(?:builtins\.range|itertools\.\w+|ipaddress\.\w+Network)\("
_NUMBER = r"\s*(\d+)\)\Z"
_EXPONENT = r"'[^']*[eE]\s*[+-]?\d[^']*'"
#: Of a number of bytes that a harmless pickle might request.
_MOST_DIGITS = 8


def purpose_of(file: PickleFile, policy: Policy) -> str:
    """The caller's purpose, else ``weights-only`` for a file that torch writes, else ``pickle``."""
    if policy.purpose is not None:
        return policy.purpose
    by_torch = is_torch_format(file.format) or any(is_read_by_torch(stream) for stream in file.streams)
    return "weights-only" if by_torch else "pickle"


def judge(file: PickleFile, policy: Policy = Policy()) -> FileVerdict:
    """Judge a file.

    :raises ValueError: for a version of torch that is none
    """
    rules = rules_for(policy.torch_version)
    purpose = purpose_of(file, policy)
    answer = weights_only_of_file(file, policy)
    dangers: list[Danger] = []
    untrusted: dict[Global, None] = {}
    #: of streams that the restricted unpickler does not guard
    unguarded: dict[Global, None] = {}
    benign: dict[Global, None] = {}
    distributed: dict[Global, None] = {}
    modules: list[StreamCall] = []
    malformed: list[Unresolved] = []
    not_checked: dict[str, None] = {}
    for stream in file.streams:
        trace = stream.trace
        if trace.ended in ("broken", "cut") and stream.role != "hidden":
            malformed.append(trace.problem or Unresolved(trace.end, "its pickle breaks off"))
        elif trace.ended not in ("stop", "broken", "cut"):
            not_checked[trace.problem.why if trace.problem else "not all of it was checked"] = None
        if stream.role != "hidden":
            malformed.extend(_impossible(trace))
        dangers.extend(islice(_dangers(stream, policy), _MOST_DANGERS - len(dangers)))
        guarded = purpose == "weights-only" and is_read_by_torch(stream)
        for naming in trace.globals:
            if naming.what.path.startswith(_DISTRIBUTED) and not naming.what.path.startswith(_PLAIN_DATA):
                distributed[naming.what] = None
            judged = _trust(naming, stream, policy)
            if judged.kind == "untrusted":
                untrusted[python3_name(naming.what)] = None
                if not guarded:
                    unguarded[naming.what] = None
            elif (
                judged.kind == "benign"
                and python3_name(naming.what) != _GETATTR
                and not _is_allowed_by_torch(naming, rules, policy)
            ):
                benign[python3_name(naming.what)] = None
        modules.extend(_modules_saved(trace))
        if trace.foreign_ids and not is_read_by_torch(stream):
            not_checked["it holds persistent ids, and only the program that wrote it knows what they stand for"] = None
    reported = any(anomaly.kind != "note" for anomaly in file.anomalies)
    if not file.streams and not file.executes_nothing and not reported and not file.unopened:
        not_checked[NOTHING_TO_JUDGE] = None
    dangers.sort(key=lambda danger: (danger.member or "", danger.offset))
    return FileVerdict(
        word=_verdict(
            dangerous=bool(dangers),
            malformed=bool(malformed or file.storages_absent)
            or any(anomaly.kind in ("malformed", "disagree") for anomaly in file.anomalies),
            incomplete=bool(not_checked) or not file.complete or (answer is not None and answer.answer == "unknown"),
            needs=bool(unguarded) or (purpose == "weights-only" and answer is not None and answer.answer != "accept"),
        ),
        weights_only=answer,
        dangers=tuple(dangers),
        untrusted=tuple(untrusted),
        benign=tuple(benign),
        malformed=tuple(dict.fromkeys(malformed)),
        modules_saved=tuple(modules),
        distributed=tuple(distributed),
        torch_version=rules.version,
        torch_note=rules.note,
        not_checked=tuple(not_checked),
    )


def _verdict(*, dangerous: bool, malformed: bool, incomplete: bool, needs: bool) -> str:
    if dangerous:
        return "dangerous"
    if malformed:
        return "malformed"
    if incomplete:
        return "incomplete"
    return "needs-allow-listing" if needs else "safe"


def _trust(naming: Naming, stream: Stream, policy: Policy) -> Trust:
    """The trust in a global. The caller may trust it, and it may only lead to a nested name."""
    what = python3_name(naming.what)
    if stream.reader == "torchscript" and f"{what.module}.".startswith(_OF_TORCHSCRIPT):
        # read by C++ code that knows no globals of Python; whatever else is named there is judged as elsewhere
        return Trust("benign", "is a type of the program in the archive")
    blocked = {naming.what.module, names_in_file(naming).module, what.module} & BLOCKED_MODULES
    if is_allowed(naming, policy.allow):
        if not blocked:
            return Trust("benign", "trusted by the caller")
        judged = trust_of(naming.what)
        return Trust("dangerous", f"{judged.why} (torch takes nothing of {min(blocked)}, even if it is allowed)")
    if what == _GETATTR and folded_getattr(stream.trace):
        return Trust("benign", "finds nested names, which are judged by themselves")
    if what == TYPE and only_of_constants(stream.trace):
        return Trust("benign", "is the type of a constant")
    if naming.what == MEMORY_MAP and only_rebuilt(stream.trace):
        return Trust("benign", "is the class of an array that was saved by value")
    return trust_of(naming.what)


def _is_allowed_by_torch(naming: Naming, rules: TorchRules, policy: Policy) -> bool:
    path = ".".join(torch_name(*names_in_file(naming)))
    return path in rules.allowed or path in rules.imported or is_allowed(naming, policy.allow)


def _dangers(stream: Stream, policy: Policy) -> Iterator[Danger]:
    """What is dangerous in one stream: names, and locations where it can't be known what would happen."""
    trace = stream.trace
    calls: dict[Global, StreamCall] = {}
    for call in trace.calls:
        if call.function is not None:
            calls.setdefault(call.function, call)
    seen: set[int] = set()
    for naming in trace.globals:
        judged = _trust(naming, stream, policy)
        if judged.kind != "dangerous":
            continue
        if naming.what == _LOADS_BYTES and _was_followed(trace):
            continue
        made = calls.get(naming.what)
        place = naming.offset if made is None else made.offset
        seen.add(place)
        if made is not None:
            yield Danger(stream.member, place, made.text, f"it {judged.why}", naming.what)
        else:
            path = python3_name(naming.what).path
            yield Danger(stream.member, place, "", f"it names {printable(path)}, which {judged.why}", naming.what)
    for call in trace.calls:
        if _is_bomb(call):
            seen.add(call.offset)
            yield Danger(stream.member, call.offset, call.text, "it would take all memory or go on for very long")
        elif call.function in _CONNECTING and call.opcode in _CALLING:
            seen.add(call.offset)
            why = "it makes process groups, and so connects to the other ranks of a job"
            yield Danger(stream.member, call.offset, call.text, why, call.function)
    for unresolved in trace.unresolved:
        seen.add(unresolved.offset)
        yield Danger(stream.member, unresolved.offset, "", unresolved.why)
    for call in trace.calls:
        if call.function is None and call.offset not in seen:
            seen.add(call.offset)
            yield Danger(stream.member, call.offset, call.text, "what it calls is known only when it runs")


def _impossible(trace: Trace) -> Iterator[Unresolved]:
    """Opcodes that no unpickler gets past: filling what can't be filled."""
    for write in trace.writes:
        if write.target in ("constant", "tuple", "frozenset") and write.opcode in _FILLING:
            yield Unresolved(
                write.offset, f"it puts something into a {write.target} ({write.opcode}), which can't be done"
            )


def _was_followed(trace: Trace) -> bool:
    """Whether all bytes that a stream has torch unpickle are at hand: then each is a stream of its own, and judged."""
    wanted = sum(call.count for call in trace.calls if call.function == _LOADS_BYTES)
    return 0 < wanted <= len(trace.nested)


def _is_bomb(call: StreamCall) -> bool:
    """Whether a call of something harmless, which pickle never writes, would go on for very long or fill the memory."""
    if call.function is None:
        return False
    inside = call.text.partition("(")[2]
    if call.function in _CONSUMERS and re.search(_ENDLESS, inside):
        return True
    if call.function in _OF_A_SIZE and (found := re.match(_NUMBER, inside)):
        return len(found.group(1)) > _MOST_DIGITS
    if call.function in _NUMBERS:
        return bool(re.search(_EXPONENT, inside)) or "decimal.Decimal(" in inside
    return False


def _modules_saved(trace: Trace) -> Iterator[StreamCall]:
    """Calls that make a whole module: layers of torch, and classes that get the attributes of a module."""
    classes = {
        write.of
        for write in trace.writes
        if write.opcode == "BUILD" and write.of is not None and _is_state_of_module(write.names)
    }
    for call in trace.calls:
        if call.function is None or call.opcode == "BUILD":
            continue
        if call.function in classes or trust_of(call.function).why == "a layer of torch":
            yield call


def _is_state_of_module(names: tuple[str, ...]) -> bool:
    return "_modules" in names and not _OF_A_MODULE.isdisjoint(names)
