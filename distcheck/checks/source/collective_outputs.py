"""What a collective writes into: temporaries (DC711), and lists that hold one tensor several times (DC712)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Edit, Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .collective_signatures import GATHERED, OUTPUT
from .program import EventRow, Program, SourceCall
from .tensor_devices import (
    ALWAYS_COPY,
    FACTORIES,
    FILLER_FACTORIES,
    LIKE,
    MAY_COPY,
    MOVES,
    VIEWS,
    is_library_function,
    known_device,
    leaves_cpu,
)
from .term_queries import Ref, callee_text, first_event, origins, parts, payload_terms
from .values import Kind
from .vocabulary import D, word_set


@probe(rules.DC711)
def result_lands_in_temporary(program: Program) -> Iterator[Finding]:
    """The tensor that a collective writes into has a name under which it is read."""
    for call in program.calls_to(*OUTPUT):
        target = next(target for target in call.targets if target in OUTPUT)
        if target.endswith(("_object", "_object_list")) or target == D + "scatter":
            continue
        term = call.argument_term(*OUTPUT[target])
        if term < 0 or not may_be_temporary(program, call, term):
            continue
        if call.use != "drop" and call.is_async is not True:
            continue  # DC710 reports a return value that is used as the result
        span = call.argument_span(*OUTPUT[target])
        if span is None or is_name(source := " ".join(program.source(span).split())):
            continue
        copy = copy_of(program, call, term, top=True)
        if copy is None or not _is_missed(program, call, copy):
            continue
        made, lost = copy.made, copy.shown
        severity = Severity.INFO if target == D + "broadcast" else call.level_in_tests
        shown = source if len(source) <= 60 else source[:57] + "…"
        yield call.found(
            rules.DC711,
            f"{callee_text(call)}() writes into {shown}, {made} that is thrown away"
            + (f"; {lost} keeps the value of its rank" if lost else ""),
            fix=f"name it (reduced = {shown}), call {callee_text(call)}(reduced, …), and read reduced afterwards",
            severity=severity,
        )


#: What makes a tensor of others, or of numbers.
_MAKE_TENSORS = word_set("torch.tensor torch.stack torch.cat torch.Tensor torch.FloatTensor torch.cuda.FloatTensor")


class _Copy:
    """What a temporary was made of: the terms of its bases, how it was made, the source of what was copied."""

    __slots__ = ("bases", "lasting", "made", "shown")

    def __init__(self, bases: list[int], made: str, shown: str = "", lasting: bool = False) -> None:
        self.bases = bases
        self.made = made
        self.shown = shown
        self.lasting = lasting


def may_be_temporary(program: Program, call: SourceCall, term: int) -> bool:
    kind = program.terms[call.file][term][0]
    return kind in ("c", "o", "*", "l", "u")


_NAME = lazy(r"[\w.]+(\[[^\[\]]*\])*")


def is_name(source: str) -> bool:
    return bool(_NAME.fullmatch(source)) or ":=" in source


def copy_of(program: Program, call: SourceCall, number: int, top: bool = False) -> _Copy | None:
    """Return how a term is a copy; None where it may be the tensor itself."""
    terms = program.terms[call.file]
    term = terms[number]
    if term[0] == "o":
        if term[1] not in ("+", "-", "*", "/", "//", "**") or any(terms[side][0] in ("l", "t") for side in term[2:4]):
            return None
        return _Copy(list(term[2:4]), "a new tensor")
    if term[0] == "*" and top:
        return _Copy([], "a list", lasting=True) if _is_made_here(program, call.file, term[1]) else None
    if term[0] != "c":
        return None
    callee = terms[term[1]]
    if callee[0] == "a" and not is_library_function(program, call.file, term[1]):
        method, base = callee[2], callee[1]
        if method in ALWAYS_COPY:
            return _Copy([base], ALWAYS_COPY[method])
        inner = copy_of(program, call, base) if _is_inline(program, call.file, base) else None
        if inner is not None and (method in MAY_COPY or method in VIEWS or method in ("to", "type")):
            return inner
        if method in MAY_COPY and method != "cpu":
            return _Copy([base], "a copy")
        if method == "to" and known_device(program, call.file, base) == "cpu" and leaves_cpu(program, call.file, term):
            return _Copy([base], "a copy")
        if method in VIEWS and _is_inline(program, call.file, base):
            return inner
        return None
    for atom in program.evaluator.value(call.file, term[1]):
        if atom.kind != Kind.NAMED:
            return None
        if atom.const in _MAKE_TENSORS:
            return _Copy(list(term[2][:1]), "a tensor made on the spot")
    return None


def _is_inline(program: Program, file: int, number: int) -> bool:
    """Return whether a call is written within the expression, and not kept under a name before."""
    term = program.terms[file][number]
    if term[0] == "o":
        return True
    if term[0] != "c":
        return False
    return not str(program.events[file][term[5]][8]).startswith("assign:")


def _is_made_here(program: Program, file: int, element: int) -> bool:
    """Return whether the element of a comprehension is a tensor made for it."""
    term = program.terms[file][element]
    if term[0] != "c" or not _is_inline(program, file, element):
        return False
    return any(
        atom.kind == Kind.NAMED
        and str(atom.const).startswith("torch.")
        and str(atom.const).rsplit(".", 1)[-1] in FACTORIES | LIKE
        for atom in program.evaluator.value(file, term[1])
    )


def _is_missed(program: Program, call: SourceCall, copy: _Copy) -> bool:
    """Return whether the code goes on to read what was copied, and so takes the old value for the new one."""
    if copy.lasting:
        return True
    terms = program.terms[call.file]
    # the value of a rank or a size that is reduced is there to make ranks synchronize, or to try the connection
    roots = [number for base in copy.bases for number in originals(terms, base)]
    roots = [number for number in roots if terms[number][0] != "k"]
    roots = [number for number in roots if not _is_of_ranks(program, call.file, number)]
    for number in roots:
        kind = terms[number][0]
        if _is_repeated(program, call, number):
            continue
        if kind in ("a", "s") and not _is_made_of_call(terms, number):
            copy.shown = _shown(program, call, copy, number)
            return True
        if kind == "c" and is_constant_tensor(program, call.file, number):
            continue
        for row in program.rows_of(call.file, call.scope):
            # the call itself comes after the events of its arguments, so that all later ones are other code
            if row.number <= call.number:
                continue
            if row.kind in ("call", "return", "bind", "attribute", "store", "yield", "compare") and any(
                number in parts(program, call.file, root) for root in payload_terms(row) if root >= 0
            ):
                copy.shown = _shown(program, call, copy, number)
                return True
    return False


def is_constant_tensor(program: Program, file: int, number: int) -> bool:
    """``torch.ones(1)``: nothing is lost with it."""
    terms = program.terms[file]
    term = terms[number]
    for atom in program.evaluator.value(file, term[1]):
        dotted = str(atom.const)
        if atom.kind != Kind.NAMED or not dotted.startswith("torch."):
            return False
        name = dotted.rsplit(".", 1)[-1]
        if name in FILLER_FACTORIES:
            return True
        if name in FACTORIES and term[2]:
            return all(terms[part][0] in ("k", "l", "t") for part in parts(program, file, term[2][0]))
    return False


def _is_repeated(program: Program, call: SourceCall, number: int) -> bool:
    """Return whether a loop reduces copies of one value that it does not change: to warm up, or to measure."""
    terms = program.terms[call.file]
    if not call.loops:
        return False
    block, iterable = call.loops[-1]
    term = terms[number]
    if term[0] in ("p", "v"):
        return True
    if term[0] == "c":
        around = [around for around, _ in SourceCall(program, call.file, term[5]).blocks]
        return block not in around and not any(
            terms[part][:2] == ("e", iterable) for part in parts(program, call.file, number)
        )
    return False


def _is_made_of_call(terms: list[tuple[Any, ...]], number: int) -> bool:
    while terms[number][0] in ("a", "s"):
        number = terms[number][1]
    return bool(terms[number][0] == "c")


def originals(terms: list[tuple[Any, ...]], number: int) -> Iterator[int]:
    """Yield the tensors that a value was copied from: views, moves and lists are searched."""
    term = terms[number]
    if term[0] in ("t", "l"):
        for item in term[1]:
            yield from originals(terms, item)
    elif term[0] == "*":
        yield from originals(terms, term[1])
    elif term[0] == "o":
        yield from originals(terms, term[2])
        yield from originals(terms, term[3])
    elif (
        term[0] == "c"
        and terms[term[1]][0] == "a"
        and terms[term[1]][2] in (VIEWS | MAY_COPY | MOVES | {"item", "clone", "data", "tolist"})
    ):
        yield from originals(terms, terms[term[1]][1])
    elif term[0] == "u" and term[1] != "not":
        yield from originals(terms, term[2])
    elif term[0] == "a" and term[2] in ("data", "grad_fn"):
        yield from originals(terms, term[1])
    else:
        yield number


def _is_of_ranks(program: Program, file: int, number: int) -> bool:
    value = program.evaluator.value(file, number)
    return value.rank is not None or value.has(Kind.WORLD_SIZE, Kind.LOCAL_WORLD_SIZE, Kind.DEVICE_COUNT)


def _shown(program: Program, call: SourceCall, copy: _Copy, number: int) -> str:
    """Return the name of what was copied; empty where it has none."""
    terms = program.terms[call.file]
    listed = [item for base in copy.bases if terms[base][0] in ("l", "t") for item in terms[base][1]]
    wanted = [*listed, number, *copy.bases]
    for candidate in wanted:
        term = terms[candidate]
        if term[0] in ("p", "v"):
            return str(term[2])
        for row in program.rows_of(call.file, call.scope):
            if row.number < call.number and row.kind == "bind" and row.payload[1] in _ways(terms, candidate):
                return str(row.payload[0])
        if term[0] in ("a", "s"):
            return call.term_text(candidate)
    return ""


def _ways(terms: list[tuple[Any, ...]], number: int) -> list[int]:
    """A value, or the values of which it is one."""
    found = [number]
    for one in found:
        if terms[one][0] in ("|", "?"):
            found.extend(terms[one][-2:])
    return found[:10]


@probe(rules.DC712)
def gather_list_has_own_tensors(program: Program) -> Iterator[Finding]:
    """A list that a gather fills holds as many tensors as it has slots."""
    seen: set[Ref] = set()
    for call in program.calls_to(*GATHERED):
        target = next(target for target in call.targets if target in GATHERED)
        term = call.argument_term(*OUTPUT[target])
        if term < 0:
            continue
        for ref in origins(program, call.file, term):
            if ref in seen:
                continue
            alias = _aliased(program, ref)
            if alias is None or _is_refilled(program, ref):
                continue
            seen.add(ref)
            row = first_event(program, ref) or call
            name = str(row.payload[0]) if row.kind == "bind" else "the list"
            edit = _unalias(program, row, ref)
            text = _own_tensors(program, row, alias, edit)
            yield row.found(
                rules.DC712,
                f"{name} holds {alias[0]} several times: {callee_text(call)}() writes the parts of all ranks into it",
                fix=text,
                edits=(edit,) if edit else (),
                safe=edit is not None,
                severity=row.level_in_tests,
                flow=[f"{call.place}: filled by {callee_text(call)}()"],
            )


def _aliased(program: Program, ref: Ref) -> tuple[str, str, str] | None:
    """One tensor many times: what it is, what to make instead, over what; None where each slot has its own."""
    file, number = ref
    terms = program.terms[file]
    term = terms[number]
    row = EventRow(program, file, 0)
    if term[0] == "o" and term[1] == "*":
        for side, other in ((term[2], term[3]), (term[3], term[2])):
            if terms[side][0] != "l" or len(terms[side][1]) != 1 or terms[other][:3] == ("k", "int", 1):
                continue
            element = terms[side][1][0]
            if terms[element][0] in ("k", "t", "l", "d", "*", "fn", "cls", "-", "f"):
                return None
            shown = _name_of(program, file, element) or row.term_text(element)
            count = f"range({row.term_text(other)})"
            if terms[element][0] == "c" and _is_inline(program, file, element):
                return "one new tensor", shown, count
            return shown, f"torch.empty_like({shown})", count
        return None
    if term[0] == "*":
        element = term[1]
        if terms[element][0] not in ("p", "v", "a", "c") or any(
            terms[part][0] == "e" for part in parts(program, file, element)
        ):
            return None
        if terms[element][0] == "c" and not _named(program, file, element):
            return None
        if terms[element][0] != "c" and program.evaluator.value(file, element).constant is None:
            return None
        shown = _name_of(program, file, element) or row.term_text(element)
        return shown, f"torch.empty_like({shown})", row.term_text(term[2])
    return None


def _named(program: Program, file: int, number: int) -> bool:
    """Return whether a call's result has a name, so that using the name again means the same tensor."""
    term = program.terms[file][number]
    return str(program.events[file][term[5]][8]).startswith("assign:")


def _name_of(program: Program, file: int, number: int) -> str | None:
    term = program.terms[file][number]
    if term[0] != "c":
        return None
    use = str(program.events[file][term[5]][8])
    return use.removeprefix("assign:") or None if use.startswith("assign:") else None


def _is_refilled(program: Program, ref: Ref) -> bool:
    """Return whether slots of the list are assigned to."""
    file, number = ref
    return any(row.file == file and row.payload[0] == number for row in program.rows("store"))


def _own_tensors(program: Program, row: EventRow, alias: tuple[str, str, str], edit: Edit | None) -> str:
    """Return the fix as text. A value that the line does not name, as the one that a variable had first, is no fix."""
    if edit is not None:
        return f"make one tensor for each rank: {' '.join(edit.text.split())}"
    _, made, count = alias
    written = set(_WORD.findall(program.source(row.span)))
    if written.issuperset(set(_WORD.findall(f"{made} {count}")) - _IN_FIXES) and "[]" not in made:
        return f"make one tensor for each rank: [{made} for _ in {count}]"
    return "make one tensor for each rank: create it in a comprehension, instead of repeating one in the list"


_WORD = lazy(r"[^\W\d]\w*")
#: What the printed comprehension adds to the words of the line.
_IN_FIXES = frozenset(["torch", "empty_like", "range"])


def _unalias(program: Program, row: EventRow, ref: Ref) -> Edit | None:
    """The edit that puts a comprehension in the place of ``[tensor] * n``; None for a tensor that was made before."""
    if program.terms[ref[0]][ref[1]][0] != "o":
        return None
    found = program.repetitions(row)
    if len(found) != 1:
        return None
    block, element, count = found[0]
    return block.replaced_by(f"[{element} for _ in range({count})]")
