"""Where code selects a device: every use of a GPU index, with the values that the index may have.

A device that gets a name is seen once, where it is made; what is done with the name afterwards is no place of its own.
What follows from an index is judged in :mod:`.devices` and :mod:`.ranks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from distcheck.core.model import Where
from distcheck.core.patterns import lazy

from .link import reachable
from .program import EventRow, Function, Program, SourceCall, cached
from .rank_dependence import operands
from .source_text import last_name
from .values import RANKS, Atom, Kind, Value, Who
from .vocabulary import words

#: Operators that order or equate two values.
COMPARISONS = frozenset(["==", "!=", "<", ">", "<=", ">="])
#: Kinds of devices that are numbered on each host.
ACCELERATORS = frozenset({"cuda", "xpu", "npu", "hip", "musa", "hpu"})
#: Variables that choose the GPUs of a process.
MASK = "CUDA_VISIBLE_DEVICES"
MASKS = (MASK, "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
#: The device of this process from here on.
BINDERS = (
    "torch.cuda.set_device",
    "torch.accelerator.set_device_index",
    "torch.accelerator.set_device_idx",
    *(f"torch.{kind}.set_device" for kind in ("xpu", "npu", "musa", "mlu", "hpu", "sdaa", "mtia")),
)
CONTEXTS = ("torch.cuda.device", "torch.accelerator.device_index", "torch.xpu.device", "torch.npu.device")
#: Questions and orders about one device, whose number is their first argument.
_ABOUT = tuple(
    f"torch.cuda.{name}"
    for name in words(
        "synchronize get_device_name get_device_properties get_device_capability mem_get_info "
        "memory_allocated max_memory_allocated memory_reserved max_memory_reserved reset_peak_memory_stats "
        "memory_summary utilization current_stream set_per_process_memory_fraction"
    )
)
#: Keywords that take devices, and whether they take a list.
_KEYWORDS = frozenset(["device", "device_id", "device_ids", "output_device", "map_location", "device_map"])
#: The names under which wrappers are called.
_WRAPPING = frozenset(["DistributedDataParallel", "DDP", "DataParallel", "DP"])
#: What takes devices as its second and third positional arguments.
_WRAPPERS = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.DataParallel")
#: What only shows a text.
_SHOWS = frozenset(
    ["print", "debug", "info", "warning", "warn", "error", "critical", "log", "exception", "write", "format", "join",
     "append", "pprint", "set_description", "set_postfix", "add_argument"]
)  # fmt: skip
_STARTS = ("cuda:", "xpu:", "npu:", "hip:", "musa:", "hpu:")
_TEXT_OF_DEVICE = lazy(r"(cuda|xpu|npu|hip|musa|hpu):\{\}$")
_LITERAL = lazy(r"(cuda|xpu|npu|hip|musa|hpu):(\d+)$")

# how a block uses the index
BIND, CONTEXT, MADE, MOVED, WRAPPED, LOADED, QUERIED, GROUP = (
    "bind", "context", "made", "moved", "wrapped", "loaded", "queried", "group",
)  # fmt: skip


class DeviceUse(NamedTuple):
    """One selection of a device."""

    row: EventRow
    #: what the index may be; devices that were made elsewhere are not among it
    number: Value
    #: the term that stands for the device in the row's file
    term: int
    #: ``bind``, ``context``, ``made``, ``moved``, ``wrapped``, ``loaded``, ``queried`` or ``group``
    way: str
    #: the number stands in the text of a device, where the text of a number is right
    in_text: bool
    #: tests of the conditional expression that it is an arm of: (term, which arm)
    tests: tuple[tuple[int, bool], ...] = ()
    #: position and keyword of the argument, of a call
    argument: tuple[int | None, str | None] = (None, None)

    @property
    def shown(self) -> str:
        """Its source, shortened."""
        return self.row.text()

    def where(self) -> Where:
        """Return the location of a finding: the argument itself, where a call has several lines."""
        return argument_place(self.row, *self.argument)


def argument_place(row: EventRow, position: int | None, name: str | None = None) -> Where:
    """Return where an argument of a call of several lines stands; of one line, where the call does."""
    place = row.where()
    if not isinstance(row, SourceCall) or row.span.line == row.span.end_line or (position is None and name is None):
        return place
    span = row.argument_span(position, name)
    return place if span is None else row.program.where(row.file, span, row.function.qualified or None)


def device_uses(program: Program) -> list[DeviceUse]:
    """Return all selections of a device, in order of files; made once."""
    return program.table(_all_uses)


def _all_uses(program: Program) -> Iterator[DeviceUse]:
    known: dict[SourceCall, str] = {}
    for way, targets in ((QUERIED, _ABOUT), (CONTEXT, CONTEXTS), (BIND, BINDERS), (MADE, ("torch.device",))):
        known.update(dict.fromkeys(program.calls_to(*targets), way))
    certain: dict[int, set[int]] = {}
    for call in known:
        certain.setdefault(call.file, set()).add(call.number)
    for file, shapes in enumerate(shapes_of(program)):
        chosen = shapes.devices | certain.get(file, set())
        uses: list[DeviceUse] = []
        for number in sorted(chosen):
            row = program.event_row(file, number)
            if isinstance(row, SourceCall):
                uses.extend(_in_call(row, shapes.named, known))
            else:
                uses.extend(_in_assignment(row, shapes.named))
        yield from sorted(uses, key=lambda use: (use.row.line, use.row.number))


class Shapes(NamedTuple):
    """What in one file is worth checking, by its shape, before any value is needed."""

    #: events that may select a device
    devices: set[int]
    #: terms that get a name, where there are such events: a use of one of them is a use of the name
    named: set[int]
    #: (event, term) of slices with a start and a step
    strides: tuple[tuple[int, int], ...]
    #: (event, term) of remainders that get a name, are returned, or are given where a device belongs
    remainders: tuple[tuple[int, int], ...]
    #: terms that compare two values, neither of them a literal
    comparisons: tuple[int, ...]


_NOTHING = Shapes(set(), set(), (), (), ())


def shapes_of(program: Program) -> list[Shapes]:
    """Return the shapes of all files, by their numbers; each file is searched once."""
    return program.table(_shapes)


def _shapes(program: Program) -> Iterator[Shapes]:
    for facts in program.index.files:
        found = _shapes_in(facts.summary.terms, facts.summary.events)
        yield found if any(found[position] for position in (0, 2, 3, 4)) else _NOTHING


def _shapes_in(terms: list[tuple[Any, ...]], events: list[tuple[Any, ...]]) -> Shapes:
    slices: set[int] = set()
    modulos: set[int] = set()
    comparisons: list[int] = []
    for number, parts in enumerate(terms):
        kind = parts[0]
        if kind == "=":
            if parts[1] in COMPARISONS and terms[parts[2]][0] != "k" and terms[parts[3]][0] != "k":
                comparisons.append(number)
        elif kind == "s":
            index = terms[parts[2]]
            if index[0] == ":" and min(index[1][0], index[1][2]) >= 0:
                slices.add(number)
        elif (
            kind == "o"
            and parts[1] == "%"
            and terms[parts[2]][0] not in ("k", "f")
            and terms[parts[3]][0] not in ("k", "t")
        ):
            modulos.add(number)
    devices: set[int] = set()
    named: set[int] = set()
    strides: list[tuple[int, int]] = []
    remainders: list[tuple[int, int]] = []
    for number, event in enumerate(events):
        kind = event[0]
        takes = True
        if kind == "call":
            _, callee, positional, keywords, _, _ = terms[event[7]]
            name = _last(terms[callee])
            roots = [*positional, *[value for _, value in keywords]] if slices or modulos else []
            takes = name in _TAKE_DEVICES
            if _may_take_a_device(terms, name, positional, keywords):
                devices.add(number)
        elif kind in _ASSIGNED:
            value = event[7 + _ASSIGNED[kind]]
            roots = [value] if value >= 0 else []
            if kind != "return":
                named.add(value)
            if roots and _may_hold_text(terms, value):
                devices.add(number)
        else:
            continue
        if slices:
            for root in roots:
                # what is looped over counts as well
                inner = terms[root][1] if terms[root][0] == "e" else terms[root][2] if terms[root][0] == "*" else root
                if inner in slices:
                    slices.discard(inner)
                    strides.append((number, inner))
        if modulos and takes:
            remainders.extend((number, term) for root in roots for term in _made_of(terms, root) if term in modulos)
    return Shapes(devices, named if devices else set(), tuple(strides), tuple(remainders), tuple(comparisons))


#: What a remainder may be given to, as the number of a device.
_TAKE_DEVICES = frozenset(["to", "cuda", "set_device", "device", "set_device_index"])
#: Where the value stands in the payload of what assigns.
_ASSIGNED = {"bind": 1, "attribute": 2, "return": 0}


def _last(callee: tuple[Any, ...]) -> str:
    if callee[0] in ("a", "v", "p"):
        return str(callee[2])
    return str(callee[1]).rsplit(".", 1)[-1] if callee[0] == "i" else ""


def _may_take_a_device(
    terms: list[tuple[Any, ...]], name: str, positional: tuple[int, ...], keywords: tuple[tuple[str, int], ...]
) -> bool:
    """Return whether the shape of a call lets it select a device."""
    if name in ("to", "cuda", "set_device") and positional:
        return not _is_plain(terms, positional[0])
    for keyword, value in keywords:
        if keyword in _KEYWORDS and not _is_plain(terms, value):
            return True
    if (name == "load" and len(positional) > 1) or (len(positional) > 1 and name in _WRAPPING):
        return True
    for item in positional:
        if terms[item][0] in _TEXTUAL and _may_be_text(terms, item):
            return True
    return any(terms[item][0] in _TEXTUAL and _may_be_text(terms, item) for _, item in keywords)


def _is_plain(terms: list[tuple[Any, ...]], term: int) -> bool:
    """Whether an argument is a type, or the device of another tensor: ``torch.float16``, ``x.dtype``, ``x.device``."""
    parts = terms[term]
    if parts[0] != "a":
        return bool(parts[0] == "k" and isinstance(parts[2], str) and ":" not in parts[2])
    base = terms[parts[1]]
    if base[0] == "i":
        return bool(base[1] == "torch")
    return parts[2] == "dtype" or (
        parts[2] == "device" and not (base[0] in ("p", "v") and base[2] in ("self", "cls", "args", "cfg"))
    )


def _may_hold_text(terms: list[tuple[Any, ...]], term: int, depth: int = 0) -> bool:
    parts = terms[term]
    if parts[0] in ("?", "|", "t", "l", "d", "and", "or") and depth < 5:
        return any(item >= 0 and _may_hold_text(terms, item, depth + 1) for item in operands(parts))
    return _may_be_text(terms, term)


def _made_of(terms: list[tuple[Any, ...]], term: int, depth: int = 0) -> Iterator[int]:
    """A term and what it is made of, as far as the value goes through: a comparison is something else."""
    if term < 0 or depth > 6:
        return
    yield term
    if terms[term][0] in ("f", "o", "?", "|", "t", "l"):
        for part in operands(terms[term]):
            yield from _made_of(terms, part, depth + 1)


def _in_call(call: SourceCall, named: set[int], known: dict[SourceCall, str]) -> Iterator[DeviceUse]:
    method = call.method
    way = known.get(call)
    if way == MADE:
        yield from _made(call, named)
        return
    if way is not None:
        yield from _use(call, (0, "device"), way, named)
        return
    if method in ("to", "cuda") and call.term[2]:
        # .to(…) of a project's own object may mean anything; that of torch takes a device first
        uses = list(_use(call, (0, "device"), MOVED, named))
        if uses and not call.program.functions(call):
            yield from uses
        return
    if method == "set_device" and call.term[2] and call.receiver_text and not call.program.functions(call):
        # a module of devices that was chosen at run time
        yield from _use(call, (0, "device"), BIND, named)
        return
    if method == "load" and call.is_to("torch.load") and call.positional > 1:
        yield from _loaded(call, (1, None), named)
    if method in _SHOWS:
        return
    if call.positional > 1 and call.is_to(*_WRAPPERS):
        for position in (1, 2):
            yield from _use(call, (position, None), WRAPPED, named)
    for keyword, term in call.term[3]:
        if keyword == "map_location":
            yield from _loaded(call, (None, keyword), named)
        elif keyword == "device_map":
            yield from _spread(call, keyword, named)
        elif keyword in _KEYWORDS:
            way = {"device_ids": WRAPPED, "output_device": WRAPPED, "device_id": GROUP}.get(keyword, MOVED)
            yield from _use(call, (None, keyword), way, named, of_any=True)
        else:
            yield from _text(call, term, named)
    for term in call.term[2]:
        yield from _text(call, term, named)


def _made(call: SourceCall, named: set[int]) -> Iterator[DeviceUse]:
    """``torch.device("cuda", 1)``, ``torch.device("cuda:1")``, ``torch.device(1)``."""
    index = call.argument_term(1, "index")
    if index >= 0:
        kind = call.argument(0, "type")
        names = {atom.const for atom in kind or () if atom.kind == Kind.CONST}
        number = call.term_value(index)
        # a literal number for a kind that is not known is what torch means by a kind without a number
        if names & ACCELERATORS or (not names and not number.only(Kind.CONST)):
            yield DeviceUse(call, number, index, MADE, False, (), (1, "index"))
        return
    yield from _use(call, (0, "device"), MADE, named)


def _loaded(call: SourceCall, argument: tuple[int | None, str | None], named: set[int]) -> Iterator[DeviceUse]:
    """``map_location=``: a device, or a table from devices to devices."""
    term = call.argument_term(*argument)
    if term < 0:
        return
    table = call.term_value(term).get(Kind.DICT)
    if table is None:
        yield from _use(call, argument, LOADED, named)
        return
    if _is_named(call.terms, term, named):
        return
    for value in table.items:
        atoms = [one for atom in value for one in _of_text(atom)]
        if atoms:
            yield DeviceUse(call, Value(atoms), term, LOADED, True, (), argument)


def _of_torch(call: SourceCall) -> bool:
    return any(target.startswith(("torch.", "apex.", "fairscale.")) for target in call.targets)


def _spread(call: SourceCall, keyword: str, named: set[int]) -> Iterator[DeviceUse]:
    """``device_map={"": index}``: the whole model on one device."""
    term = call.argument_term(None, keyword)
    table = call.term_value(term).get(Kind.DICT)
    if table is None:
        yield from _text(call, term, named)
        return
    atoms = [atom for value in table.items for atom in value if atom.kind in RANKS or type(atom.const) is int]
    if table.const == ("",) and atoms:
        yield DeviceUse(call, Value(atoms), term, MOVED, False, (), (None, keyword))


def _use(
    call: SourceCall,
    argument: tuple[int | None, str | None],
    way: str,
    named: set[int],
    *,
    of_any: bool = False,
    item: int | None = None,
) -> Iterator[DeviceUse]:
    term = call.argument_term(*argument) if item is None else item
    if term < 0:
        return
    parts = call.terms[term]
    if parts[0] in ("l", "t"):
        for inner in parts[1]:
            yield from _use(call, argument, way, named, of_any=of_any, item=inner)
        return
    numbers: list[Atom] = []
    texts: list[Atom] = []
    for atom in call.term_value(term):
        if atom.kind in (Kind.TEXT, Kind.CONST) and isinstance(atom.const, str):
            texts.extend(_of_text(atom, way == MADE))
        elif (
            atom.kind in RANKS
            or atom.kind in (Kind.ENV_TEXT, Kind.RANK_DEPENDENT, Kind.UNKNOWN)
            or (atom.kind == Kind.CONST and type(atom.const) is int)
        ):
            numbers.append(atom)
    # a number is a device where torch takes it; what other calls do with one is not known
    if any(atom.kind != Kind.UNKNOWN for atom in numbers) and not (of_any and not _of_torch(call)):
        yield DeviceUse(call, Value(numbers), term, way, False, (), argument)
    if texts and not _is_named(call.terms, term, named):
        yield DeviceUse(call, Value(texts), term, way, True, (), argument)


def _of_text(atom: Atom, in_device: bool = False) -> list[Atom]:
    """Return the index in the text of a device, ``cuda:{rank}``; of any kind of device where it can be nothing else."""
    if atom.kind == Kind.CONST and isinstance(atom.const, str):
        match = _LITERAL.match(atom.const)
        return [Atom(Kind.CONST, int(match[2]), when=atom.when)] if match else []
    if atom.kind == Kind.TEXT and isinstance(atom.const, str):
        if not _TEXT_OF_DEVICE.match(atom.const) and not (in_device and atom.const == "{}:{}"):
            return []
        return [one._replace(when=atom.when) if atom.when.who != Who.EVERYONE else one for one in atom.of]
    return []


def _is_named(terms: list[tuple[Any, ...]], term: int, named: set[int]) -> bool:
    """Return whether a text was made elsewhere, and is only used here by its name."""
    parts = terms[term]
    if term in named or parts[0] in ("v", "p", "a", "i", "x", "e", "s", "w"):
        return True
    if parts[0] in ("?", "|"):
        return all(_is_named(terms, arm, named) for arm in parts[-2:])
    return parts[0] == "c" and not _makes_text(terms, parts)


def _makes_text(terms: list[tuple[Any, ...]], call: tuple[Any, ...]) -> bool:
    callee = terms[call[1]]
    return bool(callee[0] == "a" and callee[2] == "format")


#: Kinds of terms that may be a text.
_TEXTUAL = frozenset(["k", "f", "o", "?", "c"])


def _may_be_text(terms: list[tuple[Any, ...]], term: int, depth: int = 0) -> bool:
    """Return whether a term looks like the text of a device, before its value is needed."""
    parts = terms[term]
    kind = parts[0]
    if kind == "k":
        return isinstance(parts[2], str) and parts[2].startswith(_STARTS)
    if depth > 4:
        return False
    if kind == "f":
        return bool(parts[1]) and _may_be_text(terms, parts[1][0], depth + 1)
    if kind == "o":
        return _may_be_text(terms, parts[2], depth + 1)
    if kind == "?":
        return any(_may_be_text(terms, arm, depth + 1) for arm in parts[2:4])
    return kind == "c" and _makes_text(terms, parts) and _may_be_text(terms, terms[parts[1]][1], depth + 1)


def _text(call: SourceCall, term: int, named: set[int]) -> Iterator[DeviceUse]:
    """Yield the text of a device among the arguments of any call."""
    terms = call.terms
    if _may_be_text(terms, term) and not _is_named(terms, term, named):
        atoms = [one for atom in call.term_value(term) if atom.kind == Kind.TEXT for one in _of_text(atom)]
        if atoms:
            yield DeviceUse(call, Value(atoms), term, MOVED, True)


def _in_assignment(row: EventRow, named: set[int]) -> Iterator[DeviceUse]:
    """A text of a device that gets a name, or is returned: ``device = f"cuda:{rank}"``."""
    terms = row.terms
    own = row.payload[_ASSIGNED[row.kind]]
    pending: list[tuple[int, tuple[tuple[int, bool], ...]]] = [(own, ())]
    while pending:
        term, tests = pending.pop()
        if term < 0 or (term in named and (term != own or row.kind == "return")):
            continue
        parts = terms[term]
        if parts[0] == "?":
            pending.append((parts[2], (*tests, (parts[1], True))))
            pending.append((parts[3], (*tests, (parts[1], False))))
        elif parts[0] in ("|", "t", "l", "d", "and", "or"):
            pending.extend((part, tests) for part in operands(parts))
        elif _may_be_text(terms, term):
            atoms = [one for atom in row.term_value(term) for one in _of_text(atom)]
            if atoms:
                yield DeviceUse(row, Value(atoms), term, MADE, True, tests)


# what runs together


@cached
def files_from(program: Program, file: int) -> frozenset[int]:
    """A file and all that it imports, and what these import."""
    return frozenset(reachable([file], program.index.imported))


def called_in(program: Program, files: Iterable[int], *dotted: str) -> list[SourceCall]:
    """Return the calls of one of these in some files."""
    wanted = set(files)
    return [call for call in program.calls_to(*dotted) if call.file in wanted]


def roots_of(program: Program, row: EventRow) -> frozenset[Function]:
    """What the processes that may reach a row start with: modules, spawned functions, functions that are handed on."""
    return roots_of_scope(program, row.file, row.scope)


@cached
def roots_of_scope(program: Program, file: int, number: int) -> frozenset[Function]:
    """Return what the processes that may enter a function start with, see :func:`roots_of`."""
    found: set[Function] = set()

    def callers_of(one: Function) -> list[Function]:
        scope = program.scope(one)
        if scope.kind == "module":
            found.add(one)
            return []
        sites = program.evaluator.callers.get(one, ())
        callers = [(site.file, int(program.events[site.file][site.event][1])) for site in sites if not site.weak]
        if scope.kind in ("lambda", "class") or (
            not callers and program.scope((one[0], scope.parent)).kind != "module"
        ):
            callers.append((one[0], scope.parent))
        if not callers and one in program.evaluator.escaped:
            found.add(one)
        return callers

    reachable([(file, number)], callers_of, most=500)
    return frozenset(found)


def run_together(one: EventRow, other: EventRow) -> bool:
    """Return whether one process may run both of two rows: one script runs both; True if that is not known."""
    roots, others = roots_of(one.program, one), roots_of(one.program, other)
    if not roots or not others or any(scope for _, scope in (*roots, *others)):
        return True
    importers = one.program.evaluator.importers
    return any(importers(first) & importers(second) for first, _ in roots for second, _ in others)


# conditions


def around(row: EventRow, depth: int = 4) -> Iterator[tuple[EventRow, int, bool]]:
    """The conditions around a row, and around the only call of its function: (row, term, polarity), from inside out."""
    program = row.program
    for _, node in reversed(row.blocks):
        if node[1] in ("if", "while") or node[1].startswith("exit:"):
            yield row, node[2], node[3]
    if depth and row.function.kind == "function":
        callers = program.callers((row.file, row.scope))
        if len(callers) == 1:
            yield from around(callers[0], depth - 1)


def is_for_one_process(use: DeviceUse) -> bool:
    """Return whether a block is the arm of a conditional expression for a run without other ranks."""
    for term, polarity in use.tests:
        who = use.row.program.evaluator.test(use.row.file, term)
        if (who if polarity else who.inverse()).who == Who.SINGLE:
            return True
    return False


def fits_on_one_host(row: EventRow) -> bool:
    """Whether the program makes sure of one host: it compares the world size with the GPUs, or reads the nodes."""
    program = row.program
    if any(_counts_hosts(program, one.file, term) for one, term, _ in around(row)):
        return True
    return row.file in _comparing_files(program)


_HOSTS = lazy(r"^(n|num|number_of)_?(of_)?(nodes|hosts|machines)$|^(node|host|machine)_count$", re.IGNORECASE)


def _counts_hosts(program: Program, file: int, term: int) -> bool:
    """Return whether a condition reads the number of hosts."""
    terms = program.terms[file]
    for number in program.subterms(file, term, names=False):
        parts = terms[number]
        if parts[0] in ("v", "p", "a") and _HOSTS.match(str(parts[2])):
            return True
        if parts[0] == "k" and parts[1] == "str" and _HOSTS.match(parts[2]):
            return True
        if parts[0] == "=" and parts[1] != "is":
            # a name that was assigned here is lost in the terms: check the value instead
            for side in parts[2:4]:
                value = program.evaluator.value(file, side)
                if any(atom.kind == Kind.UNIFORM and _is_host_variable(atom.const) for atom in value):
                    return True
    return False


def _is_host_variable(name: Any) -> bool:
    return isinstance(name, str) and bool(
        _HOSTS.match(name) or name in ("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "PET_NNODES")
    )


@cached
def _comparing_files(program: Program) -> set[int]:
    """Files that compare the world size with the number of this host's GPUs or ranks."""
    found = set()
    for file, shapes in enumerate(shapes_of(program)):
        for number in shapes.comparisons:
            parts = program.terms[file][number]
            left, right = (program.evaluator.value(file, side) for side in parts[2:4])
            for one, other in ((left, right), (right, left)):
                if one.has(Kind.WORLD_SIZE) and other.has(Kind.DEVICE_COUNT, Kind.LOCAL_WORLD_SIZE):
                    found.add(file)
    return found


# the number of this process on its host, as this code has it


def local_rank_here(row: EventRow) -> str | None:
    """A name that holds the local rank whenever a row runs, as it would be written here."""
    program = row.program
    scopes = {row.scope, 0}
    for other in program.rows("bind", (row.file,)):
        if other.scope not in scopes or other.payload[0] == "_" or not _is_bound_by_then(program, other, row):
            continue
        atoms = [atom for atom in other.term_value(other.payload[1]) if atom.kind != Kind.CONST]
        if atoms and all(atom.kind == Kind.LOCAL_RANK and atom.traced for atom in atoms):
            return str(other.payload[0])
    scope = program.index.scopes[row.file][row.scope]
    for name, _, star in scope.parameters:
        if star or name in scope.bindings:
            continue
        given = program.evaluator.parameter(row.file, row.scope, name)
        # the index of a spawned process: LOCAL_RANK is not set there
        if given.only(Kind.LOCAL_RANK) and all(atom.traced for atom in given):
            return name
    return None


def _is_bound_by_then(program: Program, one: EventRow, row: EventRow) -> bool:
    """Return whether what is bound in a row has its name whenever another row runs."""
    if one.scope == row.scope:
        return program.dominates(one, row)
    return not one.inside("if", "for", "while", "except")


def name_here(row: EventRow, dotted: str) -> str | None:
    """The name under which a module is imported where a row runs, None where it is not."""
    program = row.program
    scopes = program.index.scopes[row.file]
    imports = [other for other in program.rows("import", (row.file,)) if other.payload[0] == dotted]
    for number in dict.fromkeys((row.scope, 0)):
        own = scopes[number].bindings
        names = [name for name, terms in own.items() if any(row.terms[term] == ("i", dotted) for term in terms)]
        if names and any(other.scope == number and _is_bound_by_then(program, other, row) for other in imports):
            return names[0]
    return None


def torch_distributed(row: EventRow) -> str:
    """Return what ``torch.distributed`` is called where a row runs."""
    return name_here(row, "torch.distributed") or "torch.distributed"


# options that never reach their use


@cached
def is_overwritten(program: Program, files: frozenset[int], name: str) -> bool:
    """Return whether an option gets another value on every way: in a statement for all, or in both arms of one ``if``.

    What is made of the option itself, as in ``args.local_rank = int(args.local_rank)``, is no other value.
    """
    arms: set[tuple[int, int, int, bool]] = set()
    for row in program.rows("attribute", files):
        base, attribute, value = row.payload[:3]
        terms = row.terms
        if attribute != name or last_name(terms, base) in ("self", "cls"):
            continue
        if any(
            terms[number][0] in ("a", "s") and _names(terms, number, name)
            for number in program.subterms(row.file, value, names=False)
        ):
            continue
        tests = [node for _, node in row.blocks if node[1] not in ("with", "try")]
        if not tests:
            return True
        if len(tests) == 1 and tests[0][1] == "if":
            arms.add((row.file, row.scope, tests[0][2], tests[0][3]))
    return any((file, scope, term, not polarity) in arms for file, scope, term, polarity in arms)


def _names(terms: list[tuple[Any, ...]], number: int, name: str) -> bool:
    parts = terms[number]
    return bool(parts[2] == name) if parts[0] == "a" else terms[parts[2]][:1] == ("k",) and terms[parts[2]][2] == name


@cached
def is_read(program: Program, files: frozenset[int], name: str) -> bool:
    """Return whether any of these files reads an attribute so called, or an item with that key.

    A read that only copies it to a place of the same name, as into a dict of settings, is none.
    """
    for file in files:
        terms = program.terms[file]
        numbers = {
            number for number, parts in enumerate(terms) if parts[0] in ("a", "s") and _names(terms, number, name)
        }
        if not numbers:
            continue
        copied = set()
        for event in program.events[file]:
            if (event[0] == "store" and event[9] in numbers and terms[event[8]] == ("k", "str", name)) or (
                event[0] == "attribute" and event[9] in numbers and event[8] == name
            ):
                copied.add(event[9])
        if numbers - copied:
            return True
        # the same text read once more is the same term
        used = sum(1 for event in program.events[file] for part in event[7:] if part in copied)
        if used > len(copied) or any(not copied.isdisjoint(operands(parts)) for parts in terms):
            return True
    return False


# devices that are made for nothing


def is_never_used(row: EventRow) -> bool:
    """Return whether a device gets a name, and nothing ever reads that name: making it does not fail."""
    program = row.program
    term = row.payload[0] if row.kind == "call" else row.payload[_ASSIGNED[row.kind]]
    holders = [
        other
        for other in program.rows_of(row.file, row.scope)
        if other.kind in ("bind", "attribute") and other.payload[_ASSIGNED[other.kind]] == term
    ]
    if not holders or row.at_module_level or any(term in operands(parts) for parts in row.terms):
        return False
    own = {row.number, *(holder.number for holder in holders)}
    for number, event in enumerate(program.events[row.file]):
        if number not in own and term in event[7:] and event[0] != "call":
            return False
    return not any(_is_read_again(holder) for holder in holders)


def _is_read_again(holder: EventRow) -> bool:
    """Return whether a name or an attribute is read anywhere."""
    program = holder.program
    if holder.kind == "bind":
        return any(parts[0] == "v" and parts[2] == holder.payload[0] for parts in holder.terms)
    owner = program.evaluator.owner_of(holder.file, holder.scope)
    if owner < 0 or last_name(holder.terms, holder.payload[0]) not in ("self", "cls"):
        return True
    name = holder.payload[1]
    for file in program.component(holder.file):
        for parts in program.terms[file]:
            if parts[0] == "k" and parts[2] == name:
                return True  # getattr(self, "device")
            if parts[0] == "a" and parts[2] == name and _may_be_of(program, file, parts[1], (holder.file, owner)):
                return True
    return False


def _may_be_of(program: Program, file: int, term: int, owner: Function) -> bool:
    """Return whether a term may be an instance of a class, or of one that derives from it."""
    if file == owner[0] and last_name(program.terms[file], term) in ("self", "cls"):
        return True
    return any(
        atom.kind in (Kind.OBJECT, Kind.CLASS) and _is_or_derives(program, atom.const, owner)
        for atom in program.evaluator.value(file, term)
    )


def _is_or_derives(program: Program, ref: Function, owner: Function, depth: int = 0) -> bool:
    return ref == owner or (
        depth < 8
        and any(
            base.kind == Kind.CLASS and _is_or_derives(program, base.const, owner, depth + 1)
            for base in program.evaluator.bases(ref)
        )
    )
