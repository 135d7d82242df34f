"""Probes about environment variables in source: text taken for numbers, numbers given as text, a falsy rank, switches.

The tables of reads and writes of ``os.environ`` stand here, too; :mod:`.launching` uses them. What a launcher does with
the variables is not judged here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Edit, Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe
from distcheck.core.spans import Span
from distcheck.launch.model import RENDEZVOUS_VARIABLES

from .dead_code import is_dead
from .program import EventRow, Program, SourceCall, device_of
from .source_text import last_name
from .values import RANKS, Atom, Kind, Value
from .vocabulary import VARIABLES

_READERS = ("os.environ.get", "os.getenv", "os.environ.pop")
_SETTERS = ("os.environ.setdefault", "os.putenv", "os.environ.__setitem__")
#: Switches of torch's watchdog for collectives (torch 2.13, ProcessGroupNCCL.hpp: 0 is "no handling"; the old name is
#: still read).
_ERROR_HANDLING = ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING")
_BLOCKING_WAIT = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
#: Variables whose text is a number that may well be the default that a script gives.
_NUMBERED = frozenset(VARIABLES)


class VariableWrite(NamedTuple):
    """One variable that code sets in its own environment."""

    row: EventRow
    name: str
    value: Value
    #: the value's term in the row's file, -1 where it is not known
    term: int
    #: ``=``, ``setdefault``, ``putenv`` or ``update``
    way: str
    #: finds where the value stands, None where it is not known
    find: Callable[[], Span | None]

    @property
    def span(self) -> Span | None:
        """Where the value stands, None where it is not known."""
        return self.find()


class Read(NamedTuple):
    """One variable that code reads."""

    row: EventRow
    name: str
    #: a missing variable raises
    must: bool


def writes(program: Program) -> list[VariableWrite]:
    """Return all variables that code sets in its own environment, in order of files; found once."""
    return program.table(_writes)


def _writes(program: Program) -> Iterator[VariableWrite]:
    for row in program.rows("store"):
        base, index, value, operator = row.payload
        if operator != "=":
            continue
        # most of what is stored into is a table of something else: its name shows that before its value
        name = last_name(program.terms[row.file], base)
        if "env" in name.lower() and row.term_value(base).named("os.environ"):
            name = row.term_value(index).constant
            if isinstance(name, str):
                yield VariableWrite(row, name, row.term_value(value), value, "=", partial(_assigned, row))
    for call in program.calls_to(*_SETTERS):
        variable = call.constant(0, "key")
        value = call.argument(1, "value")
        if isinstance(variable, str) and value is not None:
            term = call.argument_term(1, "value")
            yield VariableWrite(call, variable, value, term, call.method, partial(call.argument_span, 1, "value"))
    for call in program.calls_to("os.environ.update"):
        yield from _updates(program, call)


def only_where_missing(write: VariableWrite) -> bool:
    """Return whether a variable is set only where nothing has set it: below ``if "RANK" not in os.environ:``.

    A launcher sets its variables together, so that one of them which is missing shows that of the others.
    """
    if write.way == "setdefault":
        return True
    together = RENDEZVOUS_VARIABLES if write.name in RENDEZVOUS_VARIABLES else (write.name,)
    return any(
        _shows_missing(write.row.terms, term, polarity, together)
        for _, (_, kind, term, polarity, _, _) in write.row.blocks
        if kind == "if" or kind.startswith("exit:")
    )


def _shows_missing(terms: Sequence[tuple[Any, ...]], term: int, polarity: bool, names: Container[str]) -> bool:
    """Return whether a condition holds only where one of these variables is not set."""
    while terms[term][:2] == ("u", "not"):
        term, polarity = terms[term][2], not polarity
    parts = terms[term]
    if parts[0] in ("and", "or"):
        # all of a conjunction hold where it holds, and all of a disjunction fail where it fails
        every = any if (parts[0] == "and") == polarity else all
        return every(_shows_missing(terms, one, polarity, names) for one in parts[1])
    return (
        parts[:2] in (("=", "in"), ("=", "not in"))
        and terms[parts[2]][:2] == ("k", "str")
        and terms[parts[2]][2] in names
        and (parts[1] == "not in") == polarity
    )


def _assigned(row: EventRow) -> Span | None:
    spans = row.program.operand_spans(row)
    return spans[0] if spans else None


def _updates(program: Program, call: SourceCall) -> Iterator[VariableWrite]:
    for name in call.keywords:
        value = call.argument(None, name)
        if value is not None:
            term = call.argument_term(None, name)
            yield VariableWrite(call, name, value, term, "update", partial(call.argument_span, None, name))
    given = call.argument(0)
    mapping = given.get(Kind.DICT) if given is not None and len(given.atoms) == 1 else None
    if mapping is None:
        return
    literal = program.terms[call.file][call.argument_term(0)]
    terms = dict(zip(mapping.const, literal[2], strict=False)) if literal[0] == "d" else {}
    for name, value in zip(mapping.const, mapping.items, strict=False):
        if isinstance(name, str):
            block = partial(program.entry_span, call, 0, name)
            yield VariableWrite(call, name, value, terms.get(name, -1), "update", block)


def reads(program: Program) -> list[Read]:
    """All variables that code reads, found once: ``os.environ["RANK"]``, ``os.environ.get(…)``, ``os.getenv(…)``."""
    return program.table(_reads)


def _reads(program: Program) -> Iterator[Read]:
    for row in program.rows("read"):
        atom = row.term_value(row.payload[0]).get(Kind.ENV_TEXT)
        if atom is not None:
            yield Read(row, str(atom.const), True)
    for call in program.calls_to(*_READERS):
        name = call.constant(0, "key")
        if isinstance(name, str):
            yield Read(call, name, False)


def version_is_tested(program: Program, row: EventRow) -> bool:
    """Return whether a condition around a row speaks of a version, so that it runs with some releases only."""
    terms = program.terms[row.file]
    for _, node in row.blocks:
        if node[1] == "if" or node[1].startswith("exit:"):
            for number in program.subterms(row.file, node[2]):
                term = terms[number]
                text = str(term[2] if term[0] in ("a", "v", "p") else term[1] if term[0] == "i" else "")
                if "version" in text.lower() or "TORCH_" in text:
                    return True
    return False


def traced(atom: Atom | None) -> bool:
    """Whether a rank comes from an API, a variable or a launcher's argument, and is a number; not only by its name."""
    if atom is None or atom.kind not in RANKS:
        return False
    return atom.call is not None or atom.const in VARIABLES or atom.const in ("modulo", "sum", "spawn")


# text compared with numbers


@probe(rules.DC209)
def text_compared_with_a_number(program: Program) -> Iterator[Finding]:
    """The text of a variable is never compared with a number, which no text equals."""
    for row in program.rows("compare"):
        terms = program.terms[row.file]
        comparison = terms[row.payload[0]]
        if comparison[0] != "=":
            continue
        _, operator, left, right = comparison
        for text, number, position in ((left, right, 0), (right, left, 1)):
            if operator in ("in", "not in") and position == 1:
                continue
            numbers = _numbers(terms, number)
            if numbers is None:
                continue
            found = row.term_value(text)
            if not _is_text(found) or _tests_whether_set(found, operator, numbers):
                continue
            if _also_as_text(terms, text):
                continue
            yield _compared(program, row, found, text, position, operator, row.term_text(number))
            break


def _numbers(terms: list[tuple[Any, ...]], number: int) -> list[Any] | None:
    """Return the numbers that a term is or lists; None for anything else."""
    term = terms[number]
    if term[0] == "k" and term[1] in ("int", "float", "bool"):
        return [term[2]]
    if term[0] in ("t", "l") and term[1]:
        inner = [terms[item] for item in term[1]]
        if all(item[0] == "k" and item[1] in ("int", "float", "bool") for item in inner):
            return [item[2] for item in inner]
    return None


def _also_as_text(terms: list[tuple[Any, ...]], compared: int) -> bool:
    """Whether the same value is compared with a text, too: then each comparison is meant for one of two types."""
    return any(
        term[0] == "=" and term[1] in ("==", "!=") and term[2] == compared and terms[term[3]][:2] == ("k", "str")
        for term in terms
    )


def _is_text(value: Value) -> bool:
    """Return whether a value is a variable's text, or a default given for a missing one."""
    return value.has(Kind.ENV_TEXT) and value.only(Kind.ENV_TEXT, Kind.CONST)


def _defaults(value: Value) -> list[Any]:
    """Return what stands for a missing variable."""
    found = [atom.const for atom in value if atom.kind == Kind.CONST]
    for atom in value:
        if atom.kind == Kind.ENV_TEXT:
            found.extend(default.const for default in atom.of if default.kind == Kind.CONST)
    return found


def _tests_whether_set(value: Value, operator: str, numbers: list[Any]) -> bool:
    """``os.environ.get("LOCAL_RANK", -1) == -1`` tests whether the variable is there, and is right.

    That holds for defaults that the variable's text never has: truth values, negative numbers; and for any
    default of a variable that is no rank or size, where "set" and "not set" may be all that is meant.
    """
    if operator not in _EQUALITY:
        return False
    atom = value.get(Kind.ENV_TEXT)
    known = atom is not None and atom.const in _NUMBERED
    defaults = [item for item in _defaults(value) if not isinstance(item, str) and item is not None]
    for number in numbers:
        same = any(type(item) is type(number) and item == number for item in defaults)
        if not same or (known and not isinstance(number, bool) and number >= 0):
            return False
    return True


#: What a comparison of text with a number comes to.
_EQUALITY = {
    "==": "is always false",
    "is": "is always false",
    "in": "is always false",
    "!=": "is always true",
    "is not": "is always true",
    "not in": "is always true",
}


def _compared(
    program: Program, row: EventRow, value: Value, term: int, position: int, operator: str, number: str
) -> Finding:
    atom = value.get(Kind.ENV_TEXT)
    name = str(atom.const) if atom is not None else ""
    spans = program.operand_spans(row)
    span = spans[position] if position < len(spans) <= 2 else None
    text = " ".join(program.source(span).split()) if span is not None else row.term_text(term)
    what = text if name in text else f"{text}, the text of {name},"
    outcome = _EQUALITY.get(operator, "raises a TypeError")
    missing = any(not isinstance(item, str) for item in _defaults(value))
    condition = f" where {name} is set" if missing else ""
    # int(None) raises: without a default, a missing variable has to stay missing
    always = _always_text(program, row, term, value)
    sure = span is not None and operator not in _AS_NUMBERS and always
    edits = _around(program, span) if span is not None and sure else ()
    # the text of a variable that no launcher sets may be anything
    numeric = name in _NUMBERED
    number_text = number if len(number) <= 30 else "a number"
    return row.found(
        rules.DC209,
        f"{what} is compared with the number {number_text}: '{operator}' {outcome}{condition}",
        fix=_comparable(text, _AS_NUMBERS.get(operator, operator), number_text, always=always),
        severity=_loss(row, name, operator, always=always),
        edits=edits,
        safe=bool(edits) and numeric,
        risk=None if numeric or not edits else f"int() raises where {name} is no number",
        basis=() if atom is None else (atom,),
        variable=name,
        flow=program.flow(atom.flow) if atom is not None else [],
    )


_AS_NUMBERS = {"is": "==", "is not": "!="}
#: Beginnings of variables that bear on distributed training without being set by launchers.
_OF_THE_FIELD = (
    "MASTER_", "NCCL_", "TORCH", "PET_", "SLURM_", "OMPI_", "PMI", "HOROVOD_", "CUDA_", "GLOO_", "DIST", "NODE",
    "WORLD", "RDZV", "OMP_", "ACCELERATE_", "FSDP_", "DEEPSPEED_", "DS_", "XLA_", "HIP_", "ROCR_",
)  # fmt: skip


def _comparable(text: str, operator: str, number: str, *, always: bool) -> str:
    """Return the fix in words; ``int()`` of a variable that may be missing raises a TypeError."""
    if always:
        return f"convert it: int({text}) {operator} {number}"
    if operator in ("==", "!=") and re.fullmatch(r"-?\d+", number):
        return f'compare it with text, since the variable may be missing: {text} {operator} "{number}"'
    return f"give the variable a default where it is read, and convert it: int(…) {operator} {number}"


def _loss(row: EventRow, name: str, operator: str, *, always: bool) -> Severity | None:
    """Return the level of a comparison whose outcome is fixed; None for that of the rule.

    It is an error for what launchers set. A test that takes a missing variable for the first rank may be right for the
    launchers that the script has, and what other variables switch is not known to bear on the ranks.
    """
    if operator not in _EQUALITY:
        return None if always or name in _NUMBERED else Severity.WARNING
    if name not in _NUMBERED:
        return Severity.WARNING if name.startswith(_OF_THE_FIELD) else Severity.INFO
    return Severity.WARNING if _also_tested_for_absence(row, name) else None


def _also_tested_for_absence(row: EventRow, name: str) -> bool:
    """Return whether the comparison is a part of a condition that also tests whether the variable is set."""
    terms = row.terms
    for parts in terms:
        if parts[0] not in ("or", "and") or row.payload[0] not in parts[1]:
            continue
        for part in parts[1]:
            tested = terms[part]
            if tested[0] == "=" and tested[1] in ("in", "not in") and terms[tested[2]] == ("k", "str", name):
                return True
            if tested[0] == "=" and tested[1] in ("is", "is not") and terms[tested[3]] == ("k", "none", None):
                value = row.term_value(tested[2]).get(Kind.ENV_TEXT)
                if value is not None and value.const == name:
                    return True
    return False


def _always_text(program: Program, row: EventRow, term: int, value: Value) -> bool:
    """Whether int() of a value never gets None: every read raises where the variable is missing, or has a default."""
    if any(item is None for item in _defaults(value)):
        return False
    for atom in value:
        if atom.kind == Kind.ENV_TEXT and not atom.of and not _subscripted(program, row, term, str(atom.const)):
            return False
    return True


def _subscripted(program: Program, row: EventRow, term: int, name: str) -> bool:
    """Return whether a term holds ``os.environ[name]``, seen in its own file."""
    terms = program.terms[row.file]
    for number in program.subterms(row.file, term):
        part = terms[number]
        if part[0] == "s" and any(item.const == name for item in row.term_value(number) if item.kind == Kind.ENV_TEXT):
            return True
    return False


def _around(program: Program, span: Span) -> tuple[Edit, ...]:
    return (span.replaced_by(f"int({program.source(span)})"),)


# numbers given as text


@probe(rules.DC210)
def assigned_without_being_text(program: Program) -> Iterator[Finding]:
    """What is assigned to a variable is text; anything else raises a TypeError."""
    seen = set()
    for write in program.table(writes):
        kind = _no_text(program, write)
        if kind is None:
            continue
        span = write.span
        block = (write.row.path, span or write.row.span)
        if block in seen:
            continue
        seen.add(block)
        source = " ".join(program.source(span).split()) if span is not None else ""
        shown = source if 0 < len(source) <= 50 else "its value"
        text, edits = _as_text(program, write, kind, source)
        yield write.row.found(
            rules.DC210,
            f"{write.name} gets {shown}, which is {_ARTICLES.get(kind, kind)}: the environment accepts text only, "
            "so this raises a TypeError",
            fix=text,
            edits=edits,
            safe=bool(edits),
            variable=write.name,
            type=kind,
        )


_ARTICLES = {
    "int": "an int",
    "float": "a float",
    "bool": "a bool",
    "NoneType": "None",
    "list": "a list",
    "tuple": "a tuple",
    "dict": "a dict",
}
#: Calls that give a number.
_NUMBERS = frozenset(["len", "os.getpid", "os.cpu_count", "random.randint", "random.randrange", "numpy.random.randint"])


def _no_text(program: Program, write: VariableWrite) -> str | None:
    """Return the type of what is assigned, where it is known and is no text."""
    value = write.value
    if not value.atoms:
        return None
    if _is_number(program, write.row, write.term):
        return None if _is_tested(write) else "int"
    term = program.terms[write.row.file][write.term] if write.term >= 0 else ("-",)
    kinds = set()
    for atom in value:
        if atom.kind == Kind.RESULT and (term[0] != "c" or atom.call != (write.row.file, term[5])):
            return None  # what was called lies further back: str() may stand between
        kind = _type_of(atom)
        if kind is None:
            return None
        if kind:
            kinds.add(kind)
    if len(kinds) != 1:
        return None
    kind = kinds.pop()
    literal = term[0] in ("k", "l", "t", "d")
    if not literal and (kind in ("NoneType", "bool", "list", "tuple", "dict") or _is_tested(write)):
        # a default, or one way of several, that may be kept from getting here
        return None
    return kind


def _is_number(program: Program, row: EventRow, number: int, depth: int = 0) -> bool:
    """Whether a term is a number by what it is made of: arithmetic with one, or an option with a numeric type."""
    if number < 0 or depth > 5:
        return False
    term = program.terms[row.file][number]
    if term[0] == "a":
        return _option_is_number(program, row, number, term[2])
    if term[0] == "o":
        sides = [_counts(program, row, side, depth) for side in term[2:4]]
        if term[1] == "%":
            return sides[0]
        if term[1] in ("*", "+"):
            values = [row.term_value(side) for side in term[2:4]]
            texts = any(value.has(Kind.TEXT, Kind.ENV_TEXT) or isinstance(value.constant, str) for value in values)
            return not texts and all(sides)
        return any(sides)
    return False


def _counts(program: Program, row: EventRow, number: int, depth: int) -> bool:
    value = row.term_value(number)
    if value.atoms and all(_type_of(atom) in ("int", "float") and atom.kind != Kind.RESULT for atom in value):
        return True
    return _is_number(program, row, number, depth + 1)


def _option_is_number(program: Program, row: EventRow, number: int, name: str) -> bool:
    """Whether an attribute is an option of the command line that the parser makes a number, and nothing assigns it."""
    terms = program.terms[row.file]
    if not row.term_value(terms[number][1]).has(Kind.NAMESPACE):
        return False
    for other in program.rows("attribute"):
        if other.file == row.file and other.payload[1] == name:
            return False
    declared = [call for call in program.calls_named("add_argument") if call.file == row.file and _dest(call) == name]
    return bool(declared) and all(_is_numeric_option(call) for call in declared)


def _is_numeric_option(call: SourceCall) -> bool:
    kind = call.argument(None, "type")
    return kind is not None and kind.named("int", "float") is not None and not call.gives(None, "nargs")


def _dest(call: SourceCall) -> str:
    """Return the attribute that an option of argparse is stored as."""
    dest = call.constant(None, "dest")
    if isinstance(dest, str):
        return dest
    spellings = [text for position in range(call.positional) if isinstance(text := call.constant(position), str)]
    long = [text for text in spellings if text.startswith("--")] or spellings
    return long[0].lstrip("-").replace("-", "_") if long else ""


def _type_of(atom: Atom) -> str | None:
    """A type that is no text, empty for one that may be a number, None for anything else."""
    if atom.kind == Kind.CONST:
        return None if isinstance(atom.const, str) else type(atom.const).__name__
    if atom.kind in RANKS:
        return "int" if traced(atom) else None
    if atom.kind in (Kind.DEVICE_COUNT, Kind.WORLD_SIZE, Kind.LOCAL_WORLD_SIZE):
        return "int" if atom.call is not None or atom.const in VARIABLES else None
    if atom.kind == Kind.RESULT:
        return "int" if atom.const in _NUMBERS else None
    if atom.kind == Kind.UNIFORM:
        # the given value of an option whose default is seen; alone it is no evidence
        return "" if atom.const is None else "int" if isinstance(atom.const, str) and atom.const.isupper() else None
    return {Kind.LIST: "list", Kind.TUPLE: "tuple", Kind.DICT: "dict"}.get(atom.kind)


def _is_tested(write: VariableWrite) -> bool:
    """Return whether a condition around the write speaks of what is written, so that not every value gets there."""
    program, row = write.row.program, write.row
    for _, node in row.blocks:
        if node[1] == "if" and write.term in program.subterms(row.file, node[2], names=False):
            return True
    return False


def _as_text(program: Program, write: VariableWrite, kind: str, source: str) -> tuple[str, tuple[Edit, ...]]:
    constant = write.value.constant
    if kind == "NoneType":
        return f'to remove the variable: os.environ.pop("{write.name}", None)', ()
    if kind == "bool":
        word = "true" if constant else "false"
        return f'assign text that the reader of {write.name} knows: "{int(bool(constant))}" or "{word}"', ()
    if kind in ("list", "tuple", "dict"):
        return 'join it to one text: ",".join(str(item) for item in …)', ()
    text = f"str({source})"
    if source.lstrip("-").replace("_", "").isdigit() and constant is not None:
        text = f'"{constant}"'
    if not source:
        return "convert it with str(…)", ()
    span = write.span
    return f"write {text if len(text) < 60 else 'str(…)'}", (span.replaced_by(text),) if span is not None else ()


# switches


@probe(rules.DC119)
def error_handling_switched_off(program: Program) -> Iterator[Finding]:
    """No code stops torch's watchdog from ending failed collectives."""
    every = program.table(writes)
    waiting = {
        write.row.file for write in every if write.name in _BLOCKING_WAIT and str(write.value.constant) not in ("0", "")
    }
    for write in every:
        if write.name in _ERROR_HANDLING and write.value.constant == "0" and write.row.file not in waiting:
            yield write.row.found(
                rules.DC119,
                f"{write.name} is set to 0: if a rank dies or a collective hangs, the others wait indefinitely",
                fix=f"drop {write.name}; a collective that is slow for a good reason needs a longer "
                "init_process_group(timeout=timedelta(…))",
                severity=Severity.INFO
                if program.is_test(write.row.file)
                or _captures(program, write.row.file)
                or program.is_leftover(write.row.file)
                or is_dead(program, write.row.file, write.row.function.qualified or "")
                else None,
                variable=write.name,
                value="0",
            )


def _captures(program: Program, file: int) -> bool:
    """Whether a file captures CUDA graphs: with DDP that wants error handling off (torch's notes on CUDA semantics)."""
    return any(_CUDA_GRAPH.search(line) for line in program.lines(file))


_CUDA_GRAPH = lazy(r"cuda_?graph|cuda\.(graph|make_graphed)", re.IGNORECASE)


# rank 0 as "no rank"


@probe(rules.DC211)
def rank_zero_taken_for_none(program: Program) -> Iterator[Finding]:
    """Whether a rank was given is tested with ``is None``, since rank 0 is false."""
    for row in program.rows("or"):
        term, use = row.payload
        if use in ("test", "drop"):
            continue
        first, *rest = program.terms[row.file][term][1]
        given = row.term_value(first)
        others = [row.term_value(other) for other in rest]
        if given.constants and None not in given.constants and not given.has(Kind.UNKNOWN):
            # it is a number in any case: another rank in place of 0 is wanted
            others = [other for other in others if other.rank is None]
        if any(_stands_for_a_rank(given, other) for other in others):
            yield _falsy(program, row, given)
    for row in program.rows("choice"):
        _, test, yes, no = program.terms[row.file][row.payload[0]]
        given, chosen, instead = row.term_value(test), row.term_value(yes), row.term_value(no)
        same = test == yes or (_place(chosen) is not None and test in program.subterms(row.file, yes, names=False))
        if same and _stands_for_a_rank(given, instead, device=_place(chosen) is not None and test != yes):
            yield _falsy(program, row, given)


def _stands_for_a_rank(given: Value, instead: Value, *, device: bool = False) -> bool:
    """Return whether the first is a rank that may be 0, and what is taken instead of a 0 is something else."""
    rank = given.rank
    if rank is None or given.has(Kind.TEXT, Kind.ENV_TEXT):
        return False
    other = _place(instead)
    if device:
        # "cuda" and "cuda:0" mean the device of the first rank as well
        return other == "cpu" and (traced(rank) or rank.kind == Kind.LOCAL_RANK)
    constant = instead.constant
    if constant is None:
        return traced(rank)
    if isinstance(constant, (int, float, str)):
        return traced(rank) and isinstance(constant, int) and constant != 0 and not isinstance(constant, bool)
    return any(traced(atom) or (atom.kind == Kind.ENV_TEXT and atom.const in VARIABLES) for atom in instead)


def _place(value: Value) -> str | None:
    """Return the type of device that a value names: ``cuda``, ``cpu``; None for anything else."""
    kinds = {device_of(atom)[0] for atom in value if atom.kind in (Kind.DEVICE, Kind.CONST, Kind.TEXT)}
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind if kind in ("cuda", "cpu", "xpu", "npu", "mps", "hpu") else None


def _falsy(program: Program, row: EventRow, given: Value) -> Finding:
    rank = given.rank
    texts = [" ".join(program.source(span).split()) for span in program.operand_spans(row)]
    text, other = (texts[0], texts[-1 if row.kind == "choice" else 1]) if len(texts) > 1 else ("it", "the other value")
    other = other if len(other) <= 50 else "the other value"
    kind = rank.kind if rank is not None else "rank"
    chosen = text if row.kind == "or" else texts[1] if len(texts) == 3 and len(texts[1]) <= 50 else "the first value"
    return row.found(
        rules.DC211,
        f"{text} is a {kind}, and 0 is false: rank 0 gets {other} too",
        fix=f"test for None: {other} if {text} is None else {chosen}",
        rank=text,
        flow=program.flow(rank.flow) if rank is not None else [],
    )
