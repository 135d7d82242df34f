"""How a collective is called: its return value, the tensor that it writes into, its handle, its device, its root.

Who reaches a collective is the business of :mod:`.divergence`; when the process group exists, of :mod:`.lifecycle`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Edit, Finding, Severity
from distcheck.core.registry import probe

from .program import EventRow, Program, SourceCall
from .source_text import last_name
from .term_queries import (
    Ref,
    Users,
    callee_text,
    first_event,
    mentions,
    origin_call,
    origins,
    parts,
    passed_on,
    payload_terms,
    users,
)
from .values import PARTIAL, Kind, Who
from .vocabulary import INIT, D, word_set, words

#: Where ``async_op`` stands among the positional parameters (torch 2.13).
ASYNC: dict[str, int] = {
    D + name: position
    for position, names in {
        1: "barrier",
        3: "all_reduce broadcast all_gather all_gather_into_tensor _all_gather_base all_to_all",
        4: "reduce gather scatter reduce_scatter reduce_scatter_tensor _reduce_scatter_base",
        5: "all_to_all_single",
    }.items()
    for name in names.split()
}
#: What returns None, always.
_NEVER_A_HANDLE = tuple(
    D + name
    for name in words(
        "all_gather_object gather_object broadcast_object_list scatter_object_list monitored_barrier send"
    )
)
#: Where the tensor or list that is written into stands.
OUTPUT: dict[str, tuple[int, str]] = {
    **dict.fromkeys((D + name for name in ["all_reduce", "broadcast", "reduce", "scatter"]), (0, "tensor")),
    **dict.fromkeys(
        (D + name for name in ["reduce_scatter", "reduce_scatter_tensor", "all_to_all_single"]), (0, "output")
    ),
    D + "all_gather": (0, "tensor_list"),
    D + "gather": (1, "gather_list"),
    D + "all_gather_into_tensor": (0, "output_tensor"),
    D + "all_to_all": (0, "output_tensor_list"),
    D + "all_gather_object": (0, "object_list"),
    D + "gather_object": (1, "object_gather_list"),
    D + "broadcast_object_list": (0, "object_list"),
    D + "scatter_object_list": (0, "scatter_object_output_list"),
}
#: Where the rank that a collective starts from or ends at stands, and its group.
ROOTS: dict[str, tuple[int, str, int]] = {
    D + "broadcast": (1, "src", 2),
    D + "reduce": (1, "dst", 3),
    D + "gather": (2, "dst", 3),
    D + "scatter": (2, "src", 3),
    D + "broadcast_object_list": (1, "src", 2),
    D + "gather_object": (2, "dst", 3),
    D + "scatter_object_list": (2, "src", 3),
}
#: Where the operation of a reduction stands.
OPERATIONS: dict[str, int] = {
    **dict.fromkeys((D + name for name in ["all_reduce"]), 1),
    **dict.fromkeys((D + name for name in ["reduce", "reduce_scatter", "reduce_scatter_tensor"]), 2),
}
#: Tensors that NCCL must find on the GPU.
TENSORS: dict[str, tuple[tuple[int, str], ...]] = {
    **dict.fromkeys(
        (D + name for name in ["all_reduce", "broadcast", "reduce", "gather", "scatter"]), ((0, "tensor"),)
    ),
    D + "all_gather": ((1, "tensor"),),
    **dict.fromkeys((D + name for name in ["reduce_scatter", "reduce_scatter_tensor"]), ((0, "output"),)),
    D + "all_to_all_single": ((0, "output"), (1, "input")),
    D + "all_gather_into_tensor": ((1, "input_tensor"), (0, "output_tensor")),
}
_GROUP: dict[str, int] = {
    **{target: position - 1 for target, position in ASYNC.items()},
    **{target: group for target, (_, _, group) in ROOTS.items()},
    D + "monitored_barrier": 0,
}
GATHERED = (D + "all_gather", D + "gather", D + "all_to_all")
_TORCH_MAKES = frozenset(
    {
        "tensor", "zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "randperm", "linspace", "eye",
        "Tensor", "FloatTensor", "LongTensor", "IntTensor", "DoubleTensor", "HalfTensor", "ByteTensor", "BoolTensor",
        "from_numpy", "scalar_tensor",
    }
)  # fmt: skip
#: Of these, the ones with filler values.
_FILLED = frozenset(
    ["zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "randperm", "linspace", "eye"]
)
LIKE = frozenset(["zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"])


def is_async(call: SourceCall) -> bool | None:
    """Return whether a collective is called for a handle; None where that is not known."""
    for target in call.targets:
        if target in ASYNC:
            given = call.argument(ASYNC[target], "async_op")
            if given is None:
                return None if call.has_star else False
            return given.constant if isinstance(given.constant, bool) else None
    return None


# DC710


@probe(rules.DC710)
def result_of_collective_is_used(program: Program) -> Iterator[Finding]:
    """The return value of a synchronous collective is None, and no code computes with it."""
    tables: dict[int, Users] = {}
    for call in program.calls_to(*ASYNC, *_NEVER_A_HANDLE):
        if call.has_star or call.use == "drop":
            continue
        if not call.is_to(*_NEVER_A_HANDLE) and is_async(call) is not False:
            continue
        if len(call.callee.atoms) != 1:
            continue  # only one of several functions that may stand here
        how = _used_how(program, call, tables)
        if how is None:
            continue
        name, tensor = callee_text(call), _written(call)
        if "handle" in how:
            text = f"pass async_op=True to {name}() to get a handle, or drop the wait: the call has finished"
        else:
            text = f"call {name}({tensor}, …) on a separate line, then use {tensor}, which holds the result"
        yield call.found(
            rules.DC710,
            f"{name}() puts its result into {tensor} and returns None, which is {how}",
            fix=text,
            severity=call.level_in_tests,
        )


def _written(call: SourceCall) -> str:
    """Return the argument that a collective writes into, as source."""
    for target in call.targets:
        if target in OUTPUT:
            return call.argument_text(*OUTPUT[target]) or "its argument"
    return call.argument_text(0) or "its argument"


def _used_how(program: Program, call: SourceCall, tables: dict[int, Users]) -> str | None:
    """Return how the result of a call is used; None where it is not, or where the code copes with None."""
    use = call.use
    if call.is_to(D + "barrier", D + "monitored_barrier", D + "send") and use not in (
        "attribute",
        "arithmetic",
        "subscript",
    ):
        return None
    if call.file not in tables:
        tables[call.file] = users(program, call.file)
    if use == "arithmetic":
        return "computed with"
    if use in ("attribute", "callee"):
        return _attribute_read(program, call.file, tables[call.file], call.event[7])
    if use == "subscript":
        return "indexed"
    if use == "compare":
        compared = (program.terms[call.file][user] for user in tables[call.file].of.get(call.event[7], ()))
        return None if any(term[0] == "=" and term[1] in ("is", "is not") for term in compared) else "compared"
    if use == "test":
        return "tested" if not call.inside("while") else None
    if use == "return":
        return _used_by_callers(program, call, tables)
    name = use.removeprefix("assign:") if use.startswith("assign:") else ""
    if name and name == _written(call):
        return f"assigned to {name}"
    if use == "assign:" and _stored_over_itself(program, call):
        return f"assigned to {_written(call)}"
    if name and _is_bound_again(program, call, name):
        return None
    if name.strip("_") and _is_temporary(program, call) and tables[call.file].of.get(call.event[7]):
        return f"kept as {name}"
    return _later_use(program, call, tables[call.file], name)


def _is_bound_again(program: Program, call: SourceCall, name: str) -> bool:
    """Return whether the name holds another value at each call of its methods: a line under the same conditions has
    assigned it before, in the same turn of a loop.
    """
    rows = [row for row in program.rows_of(call.file, call.scope) if row.number > call.number]
    used = [row for row in rows if isinstance(row, SourceCall) and row.text().startswith(f"{name}.")]
    bound = [row for row in rows if row.kind == "bind" and row.payload[0] == name and row.payload[1] != call.event[7]]
    return bool(used) and all(
        any(one.number < row.number and _conditions(one) <= _conditions(row) for one in bound) for row in used
    )


def _conditions(row: EventRow) -> frozenset[tuple[object, ...]]:
    """Return the conditions around a row as text, and its loops."""
    return frozenset(
        (kind, number) if kind in ("for", "while") else (kind, row.term_text(term), polarity)
        for number, (_, kind, term, polarity, _, _) in row.blocks
    )


def _is_temporary(program: Program, call: SourceCall) -> bool:
    """Return whether the tensor has no name, so that the return value must have been meant."""
    target = next((target for target in call.targets if target in OUTPUT), None)
    if target is None:
        return False
    term = call.argument_term(*OUTPUT[target])
    if term < 0 or not _may_be_temporary(program, call, term):
        return False
    source = call.argument_text(*OUTPUT[target])
    copy = None if _is_name(source) else _copied(program, call, term)
    terms = program.terms[call.file]
    return copy is not None and any(terms[root][0] != "k" for base in copy.bases for root in _roots(terms, base))


def _attribute_read(program: Program, file: int, users_of: Users, term: int) -> str:
    terms = program.terms[file]
    names = [terms[user][2] for user in users_of.of.get(term, ()) if terms[user][0] == "a"]
    if names and names[0] in ("wait", "is_completed", "is_success", "get_future", "result"):
        return f"used as a handle (.{names[0]})"
    return f"read for .{names[0]}" if names else "read for an attribute"


def _stored_over_itself(program: Program, call: SourceCall) -> bool:
    """``self.total = all_reduce(self.total)``, ``sums["loss"] = all_reduce(sums["loss"])``."""
    terms = program.terms[call.file]
    own = call.event[7]
    written = next((call.argument_term(*OUTPUT[target]) for target in call.targets if target in OUTPUT), -1)
    for row in program.rows_of(call.file, call.scope):
        if row.number > call.number:
            if row.kind == "attribute" and row.payload[2] == own:
                return ("a", row.payload[0], row.payload[1]) == terms[written] or _text_before(row) == _written(call)
            if row.kind == "store" and row.payload[2] == own:
                return ("s", row.payload[0], row.payload[1]) == terms[written]
    return False


def _text_before(row: EventRow) -> str:
    """Return the target of an assignment as source."""
    return row.text().partition("=")[0].strip()


def _later_use(program: Program, call: SourceCall, users_of: Users, name: str) -> str | None:
    terms = program.terms[call.file]
    same = passed_on(program, call.file, users_of, call.event[7])
    tested = {node[2] for node in program.blocks[call.file] if node[1] in ("if", "while")}
    if any(number in tested for number in same):
        return None
    found = None
    prefix = f"kept as {name} and " if name else ""
    for number in same:
        for user in users_of.of.get(number, ()):
            term = terms[user]
            if term[0] == "=":
                if term[1] in ("is", "is not"):
                    return None
                found = found or f"{prefix}compared"
            elif term[0] in ("and", "or") or (term[0] == "u" and term[1] == "not"):
                return None
            elif term[0] == "o":
                found = found or f"{prefix}computed with"
            elif term[0] == "a":
                found = found or prefix + _attribute_read(program, call.file, users_of, number)
            elif term[0] == "s" and term[1] == number:
                found = found or f"{prefix}indexed"
            elif (term[0] == "e" and term[1] == number) or (term[0] == "*" and term[2] == number):
                found = found or f"{prefix}iterated over"
            elif term[0] == "x":
                found = found or f"{prefix}unpacked"
            elif term[0] == "c" and number != term[1] and _needs_a_value(program, call.file, term):
                found = found or f"{prefix}passed to {last_name(terms, term[1])}()"
    return found


def _needs_a_value(program: Program, file: int, term: tuple[Any, ...]) -> bool:
    """Return whether a call fails for None as its argument."""
    for atom in program.evaluator.value(file, term[1]):
        if atom.kind != Kind.NAMED:
            return False
        dotted = str(atom.const)
        if dotted not in ("float", "int", "len", "sum", "list", "tuple", "max", "min", "sorted") and not (
            dotted.startswith(("torch.", "numpy.")) and not dotted.startswith(D)
        ):
            return False
    return True


def _used_by_callers(program: Program, call: SourceCall, tables: dict[int, Users]) -> str | None:
    """A function that returns the return value: whether one of its callers computes with it."""
    function = call.function
    if function.kind != "function" or any(star for _, _, star in function.parameters if star in ("*", "**")):
        return None
    for site in program.evaluator.callers.get((call.file, call.scope), ()):
        if site.weak or site.kind != "call":
            continue
        outer = SourceCall(program, site.file, site.event)
        if outer.use == "arithmetic":
            return f"computed with in {outer.path}, line {outer.line}"
        if outer.use in ("attribute", "subscript"):
            if site.file not in tables:
                tables[site.file] = users(program, site.file)
            return f"used at {outer.path}:{outer.line}"
    return None


# DC711


@probe(rules.DC711)
def result_lands_in_temporary(program: Program) -> Iterator[Finding]:
    """The tensor that a collective writes into has a name under which it is read."""
    for call in program.calls_to(*OUTPUT):
        target = next(target for target in call.targets if target in OUTPUT)
        if target.endswith(("_object", "_object_list")) or target == D + "scatter":
            continue
        term = call.argument_term(*OUTPUT[target])
        if term < 0 or not _may_be_temporary(program, call, term):
            continue
        if call.use != "drop" and is_async(call) is not True:
            continue  # DC710 reports a return value that is used as the result
        span = call.argument_span(*OUTPUT[target])
        if span is None or _is_name(source := " ".join(program.source(span).split())):
            continue
        copy = _copied(program, call, term, top=True)
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


class _Copy:
    """What a temporary was made of: the terms of its bases, how it was made, the source of what was copied."""

    __slots__ = ("bases", "lasting", "made", "shown")

    def __init__(self, bases: list[int], made: str, shown: str = "", lasting: bool = False) -> None:
        self.bases = bases
        self.made = made
        self.shown = shown
        self.lasting = lasting


def _may_be_temporary(program: Program, call: SourceCall, term: int) -> bool:
    kind = program.terms[call.file][term][0]
    return kind in ("c", "o", "*", "l", "u")


_NAME = re.compile(r"[\w.]+(\[[^\[\]]*\])*")


def _is_name(source: str) -> bool:
    return bool(_NAME.fullmatch(source)) or ":=" in source


#: Methods whose result is always another tensor, by what to call it.
_ALWAYS_NEW = {
    "clone": "a copy",
    **dict.fromkeys(["mean", "sum", "std", "var", "prod", "norm", "abs", "sqrt", "exp", "log"], "a new tensor"),
    **dict.fromkeys(["max", "min", "argmax", "mul", "div", "add", "sub", "pow"], "a new tensor"),
}
#: Methods whose result is another tensor where something has to change.
_OFTEN_NEW = frozenset(["cuda", "cpu", "float", "half", "double", "bfloat16", "long", "int"])
#: Methods whose result shares its memory with the tensor.
_VIEWS = word_set("detach view flatten reshape squeeze unsqueeze contiguous requires_grad_ narrow expand_as view_as")
_MOVES = frozenset(["to", "cuda", "npu", "xpu"])


def _copied(program: Program, call: SourceCall, number: int, top: bool = False) -> _Copy | None:
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
    if callee[0] == "a" and not _is_outside(program, call.file, term[1]):
        method, base = callee[2], callee[1]
        if method in _ALWAYS_NEW:
            return _Copy([base], _ALWAYS_NEW[method])
        inner = _copied(program, call, base) if _is_inline(program, call.file, base) else None
        if inner is not None and (method in _OFTEN_NEW or method in _VIEWS or method in ("to", "type")):
            return inner
        if method in _OFTEN_NEW and method != "cpu":
            return _Copy([base], "a copy")
        if method == "to" and _place(program, call.file, base) == "cpu" and _leaves_cpu(program, call.file, term):
            return _Copy([base], "a copy")
        if method in _VIEWS and _is_inline(program, call.file, base):
            return inner
        return None
    for atom in program.evaluator.value(call.file, term[1]):
        if atom.kind != Kind.NAMED:
            return None
        if atom.const in (
            "torch.tensor",
            "torch.stack",
            "torch.cat",
            "torch.Tensor",
            "torch.FloatTensor",
            "torch.cuda.FloatTensor",
        ):
            return _Copy(list(term[2][:1]), "a tensor made on the spot")
    return None


def _leaves_cpu(program: Program, file: int, term: tuple[Any, ...]) -> bool:
    """Return whether ``to(…)`` goes to a device, and not only to another type."""
    if not term[2] or any(name == "dtype" for name, _ in term[3]):
        return False
    return not any(
        str(atom.const).startswith("torch.") and atom.kind == Kind.NAMED
        for atom in program.evaluator.value(file, term[2][0])
    )


def _is_outside(program: Program, file: int, callee: int) -> bool:
    """Return whether ``a.b`` names a function of a library, not a method of a value."""
    return any(atom.kind in (Kind.NAMED, Kind.FUNCTION, Kind.CLASS) for atom in program.evaluator.value(file, callee))


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
        and str(atom.const).rsplit(".", 1)[-1] in _TORCH_MAKES | LIKE
        for atom in program.evaluator.value(file, term[1])
    )


def _is_missed(program: Program, call: SourceCall, copy: _Copy) -> bool:
    """Return whether the code goes on to read what was copied, and so takes the old value for the new one."""
    if copy.lasting:
        return True
    terms = program.terms[call.file]
    # the value of a rank or a size that is reduced is there to make ranks synchronize, or to try the connection
    roots = [number for base in copy.bases for number in _roots(terms, base)]
    roots = [number for number in roots if terms[number][0] != "k"]
    roots = [number for number in roots if not _is_of_ranks(program, call.file, number)]
    for number in roots:
        kind = terms[number][0]
        if _is_repeated(program, call, number):
            continue
        if kind in ("a", "s") and not _is_made_of_call(terms, number):
            copy.shown = _shown(program, call, copy, number)
            return True
        if kind == "c" and _is_constant_tensor(program, call.file, number):
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


def _is_constant_tensor(program: Program, file: int, number: int) -> bool:
    """``torch.ones(1)``: nothing is lost with it."""
    terms = program.terms[file]
    term = terms[number]
    for atom in program.evaluator.value(file, term[1]):
        dotted = str(atom.const)
        if atom.kind != Kind.NAMED or not dotted.startswith("torch."):
            return False
        name = dotted.rsplit(".", 1)[-1]
        if name in _FILLED:
            return True
        if name in _TORCH_MAKES and term[2]:
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


def _roots(terms: list[tuple[Any, ...]], number: int) -> Iterator[int]:
    """Yield the tensors that a value was copied from: views, moves and lists are searched."""
    term = terms[number]
    if term[0] in ("t", "l"):
        for item in term[1]:
            yield from _roots(terms, item)
    elif term[0] == "*":
        yield from _roots(terms, term[1])
    elif term[0] == "o":
        yield from _roots(terms, term[2])
        yield from _roots(terms, term[3])
    elif (
        term[0] == "c"
        and terms[term[1]][0] == "a"
        and terms[term[1]][2] in (_VIEWS | _OFTEN_NEW | _MOVES | {"item", "clone", "data", "tolist"})
    ):
        yield from _roots(terms, terms[term[1]][1])
    elif term[0] == "u" and term[1] != "not":
        yield from _roots(terms, term[2])
    elif term[0] == "a" and term[2] in ("data", "grad_fn"):
        yield from _roots(terms, term[1])
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


# DC712


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
                flow=[f"{call.path}:{call.line}: filled by {callee_text(call)}()"],
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


_WORD = re.compile(r"[^\W\d]\w*")
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
    return block.replaced(f"[{element} for _ in range({count})]")


# DC713

#: What lets a whole device or stream finish; a barrier is a collective more, and waits for no other.
SETTLES = frozenset(["synchronize", "wait_stream", "wait_event", "record_event"])
MANAGERS = words(
    "_coalescing_manager coalescing_manager _CoalescingManager CoalescingManager stream StreamContext "
    "_batch_p2p_manager"
)
ALWAYS_ASYNC = (D + "isend", D + "irecv", D + "batch_isend_irecv")


@probe(rules.DC713)
def handle_is_kept(program: Program) -> Iterator[Finding]:
    """The handle of an asynchronous collective is kept, so the code can wait for it."""
    tables: dict[int, Users] = {}
    for call in program.calls_to(*ASYNC, *ALWAYS_ASYNC):
        if not call.is_to(*ALWAYS_ASYNC) and is_async(call) is not True:
            continue
        if not _is_dropped(program, call, tables):
            continue
        if call.within(*MANAGERS) or _settles_later(program, call) or _is_load_only(program, call):
            continue
        if _is_warm_up(program, call):
            continue
        tensor = call.argument_text(0) or "its tensors"
        many = call.is_to(D + "batch_isend_irecv")
        text = (
            f"for work in {callee_text(call)}({tensor}): work.wait()"
            if many
            else f"work = {call.text()}, and work.wait() before {tensor} is used"
        )
        yield call.found(
            rules.DC713,
            f"{callee_text(call)}() returns a handle that is never waited for: {tensor} may be used before it is ready",
            fix=text,
            severity=call.level_in_tests or (Severity.INFO if program.is_example(call.file) else None),
        )


def _is_dropped(program: Program, call: SourceCall, tables: dict[int, Users]) -> bool:
    if call.use == "drop":
        return True
    name = call.use.removeprefix("assign:")
    if not call.use.startswith("assign:") or not name.strip("_"):
        return False  # "_ = …" drops it on purpose
    if call.file not in tables:
        tables[call.file] = users(program, call.file)
    if tables[call.file].of.get(call.event[7]):
        return False
    # handles go round loops and into closures under their names, which terms do not show
    function = call.function
    lines = program.lines(call.file)[max(function.line - 1, 0) : function.end_line or None]
    if call.at_module_level:
        lines = program.lines(call.file)
    return len(re.findall(rf"\b{re.escape(name)}\b", "\n".join(lines))) == 1


def _settles_later(program: Program, call: SourceCall) -> bool:
    """Whether the device or the stream is waited for: later in this function, in its loop, or by another method."""
    loops = {number for number, _ in call.loops}
    owner = program.evaluator.owner_of(call.file, call.scope)
    for other in program.calls_named(*SETTLES):
        if other.file != call.file:
            continue
        if other.scope == call.scope:
            if other.number > call.number or loops.intersection(number for number, _ in other.loops):
                return True
        elif owner >= 0 and program.evaluator.owner_of(other.file, other.scope) == owner:
            return True
    return False


def _is_warm_up(program: Program, call: SourceCall) -> bool:
    """Return whether no code can use the tensors of a batch: each operation gets one that has no name."""
    if not call.is_to(D + "batch_isend_irecv"):
        return False
    value = call.argument(0, "p2p_op_list")
    items = value.atoms[0].items if value is not None and len(value.atoms) == 1 else ()
    made = [program.call_of(atom) for item in items for atom in item]
    tensors = [one.argument_term(1, "tensor") if one is not None else -1 for one in made]
    return bool(tensors) and all(
        term >= 0 and one is not None and one.terms[term][0] == "c" for one, term in zip(made, tensors, strict=True)
    )


def _is_load_only(program: Program, call: SourceCall) -> bool:
    """Whether the tensor was made for this and nothing but collectives ever gets it: traffic for a measurement."""
    terms = program.terms[call.file]
    target = next((target for target in call.targets if target in OUTPUT), None)
    if target is None:
        return False
    number = call.argument_term(*OUTPUT[target])
    if number >= 0 and terms[number][0] == "*":
        number = terms[number][1]
    if number < 0 or terms[number][0] != "c" or not _is_constant_tensor(program, call.file, number):
        return False
    written = call.argument_term(*OUTPUT[target])
    for row in program.rows_of(call.file, call.scope):
        if row.kind not in ("call", "return", "attribute", "store", "yield", "compare"):
            continue
        if isinstance(row, SourceCall) and (row.event[7] == number or any(name.startswith(D) for name in row.targets)):
            continue
        if any(written in parts(program, call.file, root) for root in payload_terms(row) if root >= 0):
            return False
    return True


# DC714 and DC120: backends


def _backends(program: Program, file: int) -> set[Any]:
    """The backends that a file's program creates its group with; None stands for one that is not given or not known."""
    found: set[Any] = set()
    files = set(program.component(file))
    for call in program.calls_to(*INIT):
        if call.file not in files:
            continue
        value = call.argument(0, "backend" if call.is_to(D + "init_process_group") else "dist_backend")
        constant = None if value is None else value.constant
        found.add(constant.lower() if isinstance(constant, str) else None)
    return found


def _group_backend(program: Program, call: SourceCall, position: int | None) -> str | None:
    """Return the backend of the group that a call works on; None where it is not known for sure."""
    term = call.argument_term(position, "group")
    if term >= 0 and not program.evaluator.is_world(call.file, term):
        found: set[Any] = set()
        for ref in origins(program, call.file, term):
            made = origin_call(program, ref)
            if made is None or not made.is_to(D + "new_group"):
                return None
            value = made.argument(2, "backend")
            if value is None or value.constant is None:
                return None
            found.add(str(value.constant).lower() if isinstance(value.constant, str) else None)
        return next(iter(found)) if len(found) == 1 else None
    backends = _backends(program, call.file)
    return next(iter(backends)) if len(backends) == 1 else None


@probe(rules.DC714)
def nccl_gets_gpu_tensors(program: Program) -> Iterator[Finding]:
    """What goes through NCCL is on a GPU."""
    for call in program.calls_to(*TENSORS):
        if call.has_star:
            continue
        target = next(target for target in call.targets if target in TENSORS)
        for position, name in TENSORS[target]:
            term = call.argument_term(position, name)
            if term < 0:
                continue
            number = _is_number(program, call.file, term)
            if not number and _place(program, call.file, term) != "cpu":
                continue
            group = call.argument_term(_GROUP.get(target), "group")
            if group >= 0 and not program.evaluator.is_world(call.file, group):
                continue
            if _backends(program, call.file) != {"nccl"} or _has_default_device(program, call.file):
                continue
            shown = call.argument_text(position, name)
            what = "a number" if number else "a tensor on the CPU"
            fix = (
                f"{shown} = torch.tensor({shown}, device=…)"
                if number
                else f"make {shown} with device=…, or move it with .cuda()"
            )
            yield call.found(
                rules.DC714,
                f"{shown} is {what}, and the process group has nothing but NCCL to move it",
                fix=f'{fix}; or create the group with "cpu:gloo,cuda:nccl"',
                severity=call.level_in_tests,
            )
            break


def _has_default_device(program: Program, file: int) -> bool:
    return program.in_component(
        file, "torch.set_default_device", "torch.set_default_tensor_type", "torch.set_default_tensor_type_"
    )


def _is_number(program: Program, file: int, number: int, depth: int = 0) -> bool:
    """Return whether a term is surely a number of Python."""
    if depth > 8:
        return False
    terms = program.terms[file]
    term = terms[number]

    def again(other: int) -> bool:
        return _is_number(program, file, other, depth + 1)

    if term[0] == "k":
        return term[1] in ("int", "float", "bool")
    if term[0] == "o":
        return again(term[2]) and again(term[3])
    if term[0] == "|":
        return again(term[1]) and again(term[2])
    if term[0] == "?":
        return again(term[2]) and again(term[3])
    if term[0] == "c":
        callee = terms[term[1]]
        if callee[0] == "a" and callee[2] == "item" and not term[2]:
            return True
        return any(
            atom.kind == Kind.NAMED and atom.const in ("len", "int", "float")
            for atom in program.evaluator.value(file, term[1])
        )
    return False


def _place(program: Program, file: int, number: int, depth: int = 0) -> str | None:
    """``cpu`` for a tensor that is surely on the CPU; None for anything else."""
    if depth > 10:
        return None
    terms = program.terms[file]
    term = terms[number]

    def again(other: int) -> str | None:
        return _place(program, file, other, depth + 1)

    if term[0] == "u" and term[1] in ("reduced", "-"):
        return again(term[2])
    if term[0] == "|":
        return "cpu" if again(term[1]) == "cpu" and again(term[2]) == "cpu" else None
    if term[0] == "?":
        return "cpu" if again(term[2]) == "cpu" and again(term[3]) == "cpu" else None
    if term[0] == "o":
        sides = [again(term[2]), again(term[3])]
        numbers = [_is_number(program, file, term[2]), _is_number(program, file, term[3])]
        return (
            "cpu"
            if "cpu" in sides and all(side == "cpu" or plain for side, plain in zip(sides, numbers, strict=True))
            else None
        )
    if term[0] != "c":
        return None
    callee = terms[term[1]]
    if callee[0] == "a" and not _is_outside(program, file, term[1]):
        return _place_of_method(program, file, term, callee, depth)
    for atom in program.evaluator.value(file, term[1]):
        if atom.kind != Kind.NAMED or not str(atom.const).startswith("torch."):
            return None
        name = str(atom.const).removeprefix("torch.")
        if name in _TORCH_MAKES:
            call = SourceCall(program, file, term[5])
            if call.gives(None, "device") or call.has_star or call.within("device", "DeviceContext", "default_device"):
                return None
            if name in ("tensor", "Tensor", "FloatTensor", "LongTensor", "scalar_tensor"):
                given = term[2][0] if term[2] else -1
                if given < 0:
                    return None
                return "cpu" if _is_number(program, file, given) or terms[given][0] in ("l", "t", "*") else None
            return "cpu"
        if name in LIKE:
            call = SourceCall(program, file, term[5])
            return None if call.gives(None, "device") or not term[2] else again(term[2][0])
    return None


def _place_of_method(
    program: Program, file: int, term: tuple[Any, ...], callee: tuple[Any, ...], depth: int
) -> str | None:
    method, base = callee[2], callee[1]
    if method == "cpu":
        return "cpu"
    if method == "to":
        if term[2] and program.evaluator.value(file, term[2][0]).constant == "cpu":
            return "cpu"
        if len(term[2]) == 1 and not term[3] and not _leaves_cpu(program, file, term):
            return _place(program, file, base, depth + 1)
        return None
    if method in _VIEWS or method in _ALWAYS_NEW or method in _OFTEN_NEW - {"cuda"} or method.endswith("_"):
        return _place(program, file, base, depth + 1)
    return None


@probe(rules.DC120)
def operation_fits_backend(program: Program) -> Iterator[Finding]:
    """The backend that the code names has the operations that the code calls, and the hosts have the backend."""
    for call in program.calls_to(D + "monitored_barrier"):
        backend = _group_backend(program, call, 0)
        if backend == "nccl" and not call.inside("try") and not mentions(program, call, "get_backend", "backend"):
            yield call.found(
                rules.DC120,
                f'{callee_text(call)}() exists on gloo only, and the group is created with "nccl"',
                fix='use a separate group, created once with dist.new_group(backend="gloo"), or use dist.barrier()',
                severity=call.level_in_tests,
            )
    for call in program.calls_to(
        *(D + name for name in ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"))
    ):
        term = call.argument_term(1 if call.is_to(D + "all_reduce") else 2, "op")
        if term < 0 or not program.evaluator.value(call.file, term).named(D + "ReduceOp.AVG"):
            continue
        if _backends(program, call.file) == {"mpi"} and not call.gives(None, "group"):
            yield call.found(
                rules.DC120,
                'MPI has no ReduceOp.AVG, and the group is created with "mpi"',
                fix="reduce with ReduceOp.SUM and divide by dist.get_world_size()",
                severity=call.level_in_tests,
            )
    yield from _nccl_everywhere(program)


def _nccl_everywhere(program: Program) -> Iterator[Finding]:
    """Yield scripts that test for GPUs, except where they create the group."""
    copes = {call.file for call in program.calls_to("torch.cuda.is_available", D + "is_nccl_available")}
    bound = {call.file for call in program.calls_to("torch.cuda.set_device") if not call.inside("if")}
    for call in program.calls_to(D + "init_process_group"):
        if call.file not in copes or call.file in bound or call.has_star:
            continue
        value = call.argument(0, "backend")
        if value is None or value.constant != "nccl" or call.inside("if", "try", "except"):
            continue
        yield call.found(
            rules.DC120,
            'the backend is "nccl" on every host, but other lines of this file test for a GPU',
            fix='backend = "nccl" if torch.cuda.is_available() else "gloo"',
            severity=Severity.INFO,
        )


# DC715


@probe(rules.DC715)
def root_is_a_member(program: Program) -> Iterator[Finding]:
    """The rank that a collective of a subgroup starts from or ends at is a member, counted in the whole job."""
    for call in program.calls_to(*ROOTS):
        target = next(target for target in call.targets if target in ROOTS)
        position, name, group_position = ROOTS[target]
        value = call.argument(position, name)
        group = call.argument_term(group_position, "group")
        if value is None or group < 0 or isinstance(value.constant, bool) or not isinstance(value.constant, int):
            continue
        why = _outside_of(program, call, group, value.constant)
        if why is None:
            continue
        root = value.constant
        text = call.argument_text(group_position, "group")
        yield call.found(
            rules.DC715,
            f"{name}={root} is rank {root} of the whole job, {why}",
            fix=f"group_{name}={root} counts within {text}; older torch: {name}=dist.get_global_rank({text}, {root})",
            severity=call.level_in_tests,
        )


def _outside_of(program: Program, call: SourceCall, group: int, root: int) -> str | None:
    """Why a rank is not a member of every group that may stand here; None where it may be."""
    found = None
    for ref in origins(program, call.file, group):
        term = program.terms[ref[0]][ref[1]]
        if term[0] == "k" and term[1] == "none":
            continue
        why = _without(program, ref, root)
        if why is None:
            return None
        found = why
    if found is not None and "one of several" in found and call.own_reached_by.who in (*PARTIAL, Who.MEMBERS):
        return None
    return found


def _without(program: Program, ref: Ref, root: int) -> str | None:
    file, number = ref
    terms = program.terms[file]
    term = terms[number]
    if term[0] == "x":
        made = origin_call(program, (file, term[1]))
        if made is not None and term[2] == 0 and made.is_to(D + "new_subgroups", D + "new_subgroups_by_enumeration"):
            return "and the group is one of several, not all of which have it"
        return None
    made = origin_call(program, ref)
    if made is None:
        return None
    if made.is_to(D + "new_group"):
        ranks = made.argument_term(0, "ranks")
        if ranks < 0 or made.has_star:
            return None
        members = _members(program, file, ranks)
        if members is not None:
            shown = ", ".join(map(str, sorted(members)[:8]))
            return None if root in members else f"which is not in the group of ranks {shown}"
        return _family(program, made, ranks, root)
    if made.method == "get_group":
        dimensions = _dimensions(program, made)
        if dimensions is not None and sum(size != 1 for size in dimensions) > 1:
            return "and the group is one of several of a mesh, not all of which have it"
    return None


def _members(program: Program, file: int, ranks: int) -> set[int] | None:
    """Return the ranks of a group, where they are all written out."""
    for ref in origins(program, file, ranks):
        term = program.terms[ref[0]][ref[1]]
        if (
            term[0] == "c"
            and term[2]
            and any(atom.const in ("list", "tuple", "sorted") for atom in program.evaluator.value(ref[0], term[1]))
        ):
            term = program.terms[ref[0]][term[2][0]]
        if term[0] in ("l", "t"):
            numbers = [program.evaluator.value(ref[0], item).constant for item in term[1]]
        elif term[0] == "c" and any(atom.const == "range" for atom in program.evaluator.value(ref[0], term[1])):
            ends = [program.evaluator.value(ref[0], item).constant for item in term[2]]
            if not ends or not all(isinstance(end, int) and 0 <= end < 100_000 for end in ends) or 0 in ends[2:]:
                return None
            numbers = list(range(*ends))
        else:
            return None
        if not numbers or not all(isinstance(item, int) and not isinstance(item, bool) for item in numbers):
            return None
        if len(origins(program, file, ranks)) != 1:
            return None
        return {int(item) for item in numbers}
    return None


def _family(program: Program, made: SourceCall, ranks: int, root: int) -> str | None:
    """Groups made in a loop from its variable: all together they have each rank once."""
    terms = program.terms[made.file]
    if not made.inside("for"):
        return None
    numbers = list(parts(program, made.file, ranks, stop="e"))
    if not any(terms[number][0] == "e" for number in numbers):
        return None
    for number in numbers:
        term = terms[number]
        # a list that names the root itself, or ranges that all begin with it
        if term[0] in ("l", "t") and any(terms[item][:3] == ("k", "int", root) for item in term[1]):
            return None
        if term[0] == "c" and any(atom.const == "range" for atom in program.evaluator.value(made.file, term[1])):
            first = term[2][0] if len(term[2]) > 1 else -1
            if (len(term[2]) == 1 and not _has_element(program, made.file, term[2][0])) or (
                first >= 0
                and terms[first][0] == "k"
                and not any(_has_element(program, made.file, end) for end in term[2][2:])
            ):
                return None
        if term[0] == "o" and term[1] == "+" and any(terms[side][0] == "l" for side in term[2:4]):
            return None
    return "and the group is one of several that a loop makes, not all of which have it"


def _has_element(program: Program, file: int, number: int) -> bool:
    terms = program.terms[file]
    return any(terms[part][0] == "e" for part in parts(program, file, number))


def _dimensions(program: Program, call: SourceCall) -> list[Any] | None:
    """Return the sizes of the dimensions of the mesh that a group is taken from; None where they are not seen."""
    terms = program.terms[call.file]
    callee = terms[call.term[1]]
    if callee[0] != "a":
        return None
    sizes: list[Any] | None = None
    for file, number in origins(program, call.file, callee[1]):
        term = program.terms[file][number]
        while term[0] == "s":
            inner = origins(program, file, term[1])
            if len(inner) != 1:
                return None
            file, number = inner[0]
            term = program.terms[file][number]
        made = origin_call(program, (file, number))
        if made is None or not made.is_to(D + "init_device_mesh"):
            return None
        shape = made.argument_term(1, "mesh_shape")
        if shape < 0 or program.terms[file][shape][0] not in ("t", "l"):
            return None
        sizes = [program.evaluator.value(file, item).constant for item in program.terms[file][shape][1]]
    return sizes


# DC616

_UNPICKLES = tuple(
    D + name
    for name in [
        "all_gather_object",
        "gather_object",
        "broadcast_object_list",
        "scatter_object_list",
        "recv_object_list",
    ]
)


@probe(rules.DC616)
def object_collective_unpickles(program: Program) -> Iterator[Finding]:
    """Objects from other ranks are read with weights_only, or their ranks are trusted."""
    for call in program.calls_to(*_UNPICKLES):
        if call.has_star:
            continue
        given = call.argument(None, "weights_only")
        if given is not None and given.constant is not False:
            continue
        yield call.found(
            rules.DC616,
            f"{callee_text(call)}() unpickles what other ranks send, and unpickling can run any code",
            fix="pass weights_only=True where the torch in use has it (2.15); numbers go into a tensor",
            severity=Severity.INFO,
        )
