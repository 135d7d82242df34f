"""Arguments of a collective, and options of DDP, that differ between ranks although they must be the same on all.

Only what is reckoned from the rank, or chosen by a test of it, counts. Who reaches a collective at all is judged in
:mod:`.divergence`.
"""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from .collective_sequences import condition_text, flow_of, partial_guards
from .collective_signatures import GATHERED, OPERATIONS, ROOTS, TENSORS
from .conditions import runs_without_other_ranks
from .loader_loops import loaders_in
from .models import wraps
from .program import Program, SourceCall
from .source_text import last_name
from .tensor_devices import LIKE
from .term_queries import by_rank, callee_text, origin_call, origins, parts
from .undivided_data import is_divided
from .values import NOTHING_KNOWN, PARTIAL, Atom, Kind, RankCondition, Who
from .vocabulary import D

#: Makers of tensors by the position of their size; -1 where all positional arguments are sizes.
_SIZED = {
    **dict.fromkeys(["zeros", "ones", "empty", "rand", "randn"], -1),
    "full": 0,
    "arange": 0,
    "randperm": 0,
}
#: Calls whose result has as many elements as the values of a tensor decide.
_OF_DATA = frozenset(["bincount", "unique", "unique_consecutive", "nonzero", "argwhere", "masked_select", "where"])
_JOINS = frozenset(["cat", "concat", "concatenate", "hstack", "vstack"])
#: How to give results of these calls one size.
_FIXED_SIZES = dict.fromkeys(_OF_DATA, "gather the sizes first, pad to the largest one, and cut afterwards")
_FIXED_SIZES["bincount"] = "give bincount() the number of classes, the same on all ranks: minlength=…"
#: Options of DDP that all ranks must agree on.
_OPTIONS = ("broadcast_buffers", "find_unused_parameters", "static_graph", "bucket_cap_mb")
#: What ranks other than the root must not pass (torch 2.13 raises a ValueError).
_OF_THE_ROOT = {D + "gather": "gather_list", D + "scatter": "scatter_list"}
#: Collectives whose tensor must have the same size and type on all ranks.
_EQUAL = frozenset(
    ["all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "all_gather_single", "gather"]
)


@probe(rules.DC709)
def arguments_agree(program: Program) -> Iterator[Finding]:
    """All ranks pass the same root, operation, size and type to a collective."""
    for call in program.collectives():
        target = program.is_world_collective(call)
        if target is None or _is_apart(call):
            continue
        for what, term, severity in _must_agree(program, call, target):
            why = by_rank(program, call.file, term)
            if why is not None:
                yield _differs(program, call, what, term, why, severity)
                break
        else:
            yield from _unequal(program, call, target)
            yield from _list_on_all_ranks(program, call, target)
    for call in program.calls_to("torch.nn.parallel.DistributedDataParallel"):
        if _is_apart(call):
            continue
        for name in _OPTIONS:
            term = call.argument_term(None, name)
            why = by_rank(program, call.file, term) if term >= 0 else None
            if why is not None:
                yield _differs(program, call, name, term, why, None)


@probe(rules.DC709)
def replicas_have_the_same_layers(program: Program) -> Iterator[Finding]:
    """The layers of a model in DDP, and their sizes, are the same on all ranks."""
    for wrap in wraps(program, "ddp"):
        if _is_apart(wrap.call) or wrap.call.gives(None, "process_group"):
            continue
        file, base = wrap.base
        for number in parts(program, file, base) if base >= 0 else ():
            term = program.terms[file][number]
            layer = SourceCall(program, file, term[5]) if term[0] == "c" else None
            if layer is None or not _is_layer(layer):
                continue
            for size in layer.term[2]:
                why = by_rank(program, file, size)
                if why is not None:
                    yield _differs(program, layer, "size", size, why, None)
                    break
        for ref in wrap.classes:
            yield from _own_layers(program, ref, wrap.call)


def _is_layer(call: SourceCall) -> bool:
    """Return whether a call makes a layer of torch."""
    return any(target.startswith("torch.nn.") and target.rsplit(".", 1)[-1][:1].isupper() for target in call.targets)


def _own_layers(program: Program, ref: tuple[int, int], wrap: SourceCall) -> Iterator[Finding]:
    """Yield a finding about a layer that the constructor of a model makes on some ranks only."""
    init = program.evaluator.method(ref, "__init__")
    if init is None:
        return
    stores = [row for row in program.rows_of(*init) if row.kind == "attribute"]
    for row in stores:
        term = row.terms[row.payload[2]]
        if term[0] != "c" or not _is_layer(SourceCall(program, row.file, term[5])):
            continue
        guards = partial_guards(row)
        if not guards or any(other != row and other.payload[1] == row.payload[1] for other in stores):
            continue
        condition = condition_text(program, row.file, guards[0])
        yield row.found(
            rules.DC709,
            f"`{row.text()}` is made on some ranks only, by `{condition}` in "
            f"{program.line_name(row.file, guards[0].line)}, but DDP needs the same parameters on all ranks",
            fix="make the layer on all ranks, and let the rank decide only what is done with it",
            basis=(guards[0].who,),
            severity=row.milder_in_tests(rules.DC709),
            flow=[*flow_of(program, row.file, guards[0].term), wrap.as_step()],
        )


def _is_apart(call: SourceCall) -> bool:
    """Return whether a rank check stands around a call: other ranks may make their half elsewhere."""
    return bool(partial_guards(call)) or call.entry.who in PARTIAL or runs_without_other_ranks(call)


def _must_agree(program: Program, call: SourceCall, target: str) -> Iterator[tuple[str, int, Severity | None]]:
    """Yield what all ranks must pass alike, by its name: the term, and the level of a finding about it."""
    root = ROOTS.get(target)
    if root is not None:
        term = call.argument_term(*root[:2])
        if term >= 0:
            yield root[1], term, Severity.ERROR
    position = OPERATIONS.get(target)
    if position is not None:
        term = call.argument_term(position, "op")
        if term >= 0:
            yield "op", term, None


def _unequal(program: Program, call: SourceCall, target: str) -> Iterator[Finding]:
    """Yield a finding about a tensor whose size or type differs by rank."""
    name = target.rsplit(".", 1)[-1]
    if name not in _EQUAL or target not in TENSORS:
        return
    position, keyword = TENSORS[target][0]
    tensor = call.argument_term(position, keyword)
    if tensor < 0 or (target in GATHERED and not _list_like_own(program, call, tensor)):
        return
    makers = _makers(program, call.file, tensor)
    for maker in makers if len(makers) == 1 else ():
        if maker is None:
            return
        for what, term in _makings(maker):
            why = by_rank(program, maker.file, term)
            if why is not None:
                yield _differs(program, call, f"{what} of the tensor", term, why, None, maker)
                return

        data = _sized_by_data(maker)
        if data is not None:
            yield call.found(
                rules.DC709,
                f"{callee_text(call)}() needs the same size on all ranks, but `{maker.text()}` in {maker.line_name} "
                "has as many elements as the data of this rank decide",
                fix=_FIXED_SIZES[maker.method],
                basis=(data,),
                severity=Severity.WARNING,
                flow=[maker.as_step(), call.as_step()],
                argument="size of the tensor",
            )
            return


def _sized_by_data(maker: SourceCall) -> Atom | None:
    """Return the data of this rank that decide how many elements the result of a call has; None where none do."""
    if maker.method not in _OF_DATA or (maker.method == "bincount" and maker.argument_term(None, "minlength") >= 0):
        return None
    function = any(target.startswith("torch.") for target in maker.targets)
    if maker.method == "bincount" and maker.positional > (2 if function else 1):
        return None  # minlength by position
    if maker.method == "where" and (maker.positional != 1 or maker.keywords):
        return None
    given = maker.argument_term(0, "input") if function else maker.receiver_term
    if _has_other_values(maker, given) or _is_of_one_order(maker.program, maker.file, given):
        return None
    data = (maker.argument(0, "input") or NOTHING_KNOWN) if function else maker.receiver
    own = [atom for atom in data if atom.kind == Kind.BATCH or (atom.kind == Kind.TEST and atom.const == Who.BY_DATA)]
    return own[0] if own and len(own) == len(data.atoms) else None


def _has_other_values(maker: SourceCall, term: int) -> bool:
    """Return whether something else is joined to the data: ``torch.cat([labels, torch.arange(classes)])``."""
    joined = maker.terms[term]
    if joined[0] != "c" or last_name(maker.terms, joined[1]) not in _JOINS or not joined[2]:
        return False
    items = maker.terms[joined[2][0]]
    return items[0] in ("l", "t") and not all(maker.term_value(item).has(Kind.BATCH) for item in items[1])


def _is_of_one_order(program: Program, file: int, term: int) -> bool:
    """Return whether data come from loaders that give all ranks the same batches: no sampler, and no shuffling."""
    loaders = {
        loader
        for number in program.subterms(file, term)
        for loader in loaders_in(program, program.evaluator.value(file, number))
    }
    rows = [program.event_row(*loader) for loader in loaders]
    return bool(rows) and not any(
        isinstance(row, SourceCall) and (is_divided(program, row) or row.constant(2, "shuffle", False) is not False)
        for row in rows
    )


def _list_on_all_ranks(program: Program, call: SourceCall, target: str) -> Iterator[Finding]:
    """Yield a finding about a list that torch accepts on the root only, and that all ranks pass."""
    name = _OF_THE_ROOT.get(target)
    lists = call.argument_term(1, name) if name else -1
    if (
        name is None
        or lists < 0
        or not all(_is_full(program, file, number) for file, number in origins(program, call.file, lists))
    ):
        return
    position, parameter, _ = ROOTS[target]
    given = call.argument_term(position, parameter)
    root = call.term_text(given) if given >= 0 else "0"
    yield call.found(
        rules.DC709,
        f"every rank passes {name} to {callee_text(call)}(), which raises on all ranks but {root}",
        fix=f"pass None on the other ranks: {name}=… if dist.get_rank() == {root} else None",
        severity=call.milder_in_tests(rules.DC709),
        argument=name,
    )


def _is_full(program: Program, file: int, number: int) -> bool:
    """Return whether a term is a list that has an element for each rank, on any rank."""
    terms = program.terms[file]
    term = terms[number]
    if term[0] == "l":
        return bool(term[1])
    if term[0] != "*" or len(term) > 4 or terms[term[2]][0] != "c":
        return False
    made = SourceCall(program, file, terms[term[2]][5])
    count = made.argument(0) if made.method == "range" and made.positional == 1 else None
    return count is not None and count.only(Kind.WORLD_SIZE)


def _makers(program: Program, file: int, term: int) -> set[SourceCall | None]:
    """Return the calls that a tensor comes from, the first operand of arithmetic included; None stands for others."""
    found: set[SourceCall | None] = set()
    pending, seen = [(file, term)], {(file, term)}
    while pending:
        for ref in origins(program, *pending.pop()):
            parts = program.terms[ref[0]][ref[1]]
            left = (ref[0], parts[2]) if parts[0] == "o" else None
            if left is None:
                found.add(origin_call(program, ref))
            elif left not in seen:
                seen.add(left)
                pending.append(left)
    return found


def _list_like_own(program: Program, call: SourceCall, tensor: int) -> bool:
    """Return whether the tensors that ``all_gather`` fills are made like the own one, so that sizes must be equal."""
    terms = call.terms
    for file, number in origins(program, call.file, call.argument_term(0, "tensor_list")):
        parts = terms[number]
        if file != call.file or parts[0] != "*" or terms[parts[1]][0] != "c":
            return False
        element = terms[parts[1]]
        if last_name(terms, element[1]) not in LIKE or tuple(element[2][:1]) != (tensor,):
            return False
    return True


def _makings(maker: SourceCall) -> Iterator[tuple[str, int]]:
    """Yield what decides size and type of a new tensor."""
    if not any(target.startswith("torch.") for target in maker.targets) or maker.method not in _SIZED:
        return
    dtype = maker.argument_term(None, "dtype")
    if dtype >= 0:
        yield "type", dtype
    position = _SIZED[maker.method]
    if maker.method == "arange" and maker.positional > 1:
        return
    sizes = maker.term[2] if position < 0 else maker.term[2][position : position + 1]
    for size in sizes:
        parts = maker.terms[size]
        for term in parts[1] if parts[0] in ("t", "l") else (size,):
            yield "size", term


def _differs(
    program: Program,
    call: SourceCall,
    what: str,
    term: int,
    why: Atom | RankCondition,
    severity: Severity | None,
    maker: SourceCall | None = None,
) -> Finding:
    at = call if maker is None else maker
    text = at.term_text(term)
    made = "" if maker is None else f", made in {maker.line_name}"
    level = call.milder_in_tests(rules.DC709)
    if severity is not None and not program.is_test(call.file):
        level = severity
    return call.found(
        rules.DC709,
        f"{callee_text(call)}() needs the same {what} on all ranks, but `{text}`{made} differs by rank",
        fix=f"pass the same {what.removesuffix(' of the tensor')} on all ranks: a constant, or a value that rank 0 "
        "has broadcast",
        basis=(why,),
        severity=level,
        flow=[*flow_of(program, at.file, term), call.as_step()],
        argument=what,
    )
