"""Models of which ``fully_shard`` gets only the parts: the other parameters are never averaged (DC758)."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import call_paths
from .models import name_of
from .program import EventRow, Program, SourceCall
from .source_text import last_name
from .values import Kind

_FULLY_SHARD = "torch.distributed.fsdp.fully_shard"
#: Calls that go through their first argument, and methods that go through the layers of what they are called on.
_THROUGH = frozenset(["reversed", "list", "tuple", "enumerate", "sorted", "zip"])
_LAYERS = frozenset(["values", "items", "named_children", "children"])
#: Other functions that may average what is not sharded.
_OTHERS = (
    *("replicate", "parallelize_module", "distribute_module", "register_post_accumulate_grad_hook", "register_hook"),
    *("DistributedDataParallel", "FullyShardedDataParallel", "fully_shard_model"),
)
#: Layers of torch with parameters.
_WITH_PARAMETERS = lazy(
    r"torch\.nn\.(Linear|Bilinear|Embedding|EmbeddingBag|Conv\w+|(Layer|Group|RMS)Norm|BatchNorm\w+|SyncBatchNorm|PReLU"
    r"|MultiheadAttention|Transformer\w*|RNN|LSTM|GRU|Parameter)$"
)
_GRADIENT = lazy(r"\.grad\b")


@probe(rules.DC758)
def whole_model_is_sharded(program: Program) -> Iterator[Finding]:
    """A model of which parts are sharded is sharded itself afterwards: that covers its other parameters."""
    calls = list(program.calls_to(_FULLY_SHARD))
    parts = [(call, found) for call in calls if (found := _model_of(call)) is not None]
    if not parts or len(parts) < len(calls) or any(program.is_test(call.file) for call in calls):
        return
    if _may_shard_elsewhere(program, calls) or not any(True for _ in program.calls_named("backward")):
        return
    sharded = {name.split(".")[0] for _, (_, name) in parts}
    done = set()
    for call, (model, name) in parts:
        key = (call.file, call.scope, call.term_text(model))
        if key in done or not _has_other_layers(program, call, model, sharded):
            continue
        done.add(key)
        path = call_paths.path_of_all_ranks(program, call)
        if path is None:
            continue
        text = _name_of_model(program, call, model)
        yield call.found(
            rules.DC758,
            f"fully_shard() gets only parts of {text or 'a model'}, such as {f'{text}.{name}' if text else name}: the "
            "gradients of its other parameters are never averaged",
            fix=f"shard the rest as well, after its parts: fully_shard({text or 'model'})",
            basis=(path.certainty,),
            severity=Severity.WARNING,
            flow=[*program.flow(path.steps), call.as_step()],
        )


def _may_shard_elsewhere(program: Program, calls: list[SourceCall]) -> bool:
    """Return whether the program may shard, average or freeze other parameters where no call shows it."""
    if any(True for _ in program.calls_named(*_OTHERS, "requires_grad_")):
        return True
    if any(row.payload[1] == "requires_grad" for row in program.rows("attribute")):
        return True
    if len(list(program.calls_named("fully_shard"))) > len(calls) or any(
        "fully_shard" in one.text and _is_a_value(program, file) for file, one in enumerate(program.index.files)
    ):
        return True
    reduced = {call.file for call in program.calls_named("all_reduce", "all_reduce_coalesced", "reduce")}
    return any(_GRADIENT.search(program.index.files[file].text) for file in reduced)


def _is_a_value(program: Program, file: int) -> bool:
    """Return whether a file uses ``fully_shard`` as a value: ``partial(fully_shard, mesh=mesh)``."""
    terms = program.terms[file]
    values = {value for scope in program.index.scopes[file] for found in scope.bindings.values() for value in found}
    for term in terms:
        if term[0] == "c":
            values.update(term[2], (value for _, value in term[3]))
        elif term[0] in ("t", "l"):
            values.update(term[1])
        elif term[0] == "d":
            values.update(term[2])
        elif term[0] in ("?", "|"):
            values.update(term[1:])
    return any(
        number >= 0 and terms[number][0] in ("a", "v") and last_name(terms, number) == "fully_shard"
        for number in values
    )


def _name_of_model(program: Program, call: SourceCall, model: int) -> str:
    """Return the name of a model in the source; empty if it is not known."""
    term = call.terms[model]
    if term[0] == "c":
        return name_of(program, SourceCall(program, call.file, term[5]))
    return call.term_text(model) if term[0] in ("p", "v") else ""


def _model_of(call: SourceCall) -> tuple[int, str] | None:
    """Return the model of which a call shards a part, as a term, and the attribute with the part; None for another."""
    terms = call.terms
    term = call.argument_term(0, "module")
    if term >= 0 and terms[term][0] == "x":
        term = terms[term][1]
    if term >= 0 and terms[term][0] == "e":
        term = terms[term][1]
    while term >= 0:
        kind = terms[term]
        if kind[0] == "s":
            term = kind[1]
        elif kind[0] == "c" and terms[kind[1]][0] == "a" and last_name(terms, kind[1]) in _LAYERS:
            term = terms[kind[1]][1]
        elif kind[0] == "c" and last_name(terms, kind[1]) in _THROUGH and kind[2]:
            term = kind[2][0]
        else:
            break
    names: list[str] = []
    while term >= 0 and terms[term][0] == "a":
        names.append(terms[term][2])
        term = terms[term][1]
    if not names or "_modules" in names or term < 0 or terms[term][0] not in ("p", "v", "c", "|", "?"):
        return None
    return term, ".".join(reversed(names))


def _has_other_layers(program: Program, call: SourceCall, model: int, sharded: set[str]) -> bool:
    """Return whether a model that is trained has layers besides those that are sharded, which its class makes."""
    evaluator = program.evaluator
    value = evaluator.value(call.file, model)
    owners = {atom.const for atom in value}
    if len(owners) != 1 or not value.only(Kind.OBJECT):
        return False
    if not any(
        one.receiver.only(Kind.OBJECT) and one.receiver.atoms[0].const in owners
        for one in program.calls_named("parameters", "named_parameters")
    ):
        return False
    rows = {
        name: [program.event_row(*site) for site in sites]
        for (file, number, name), sites in evaluator.stores.items()
        if (file, number) in owners
    }
    inside = {
        (row.file, number)
        for name in sharded.intersection(rows)
        for row in rows[name]
        for number in program.subterms(row.file, row.payload[2])
    }
    return any(
        (row.file, row.payload[2]) not in inside and _has_parameters(program, row)
        for name, stores in rows.items()
        if name not in sharded
        for row in stores
    )


def _has_parameters(program: Program, row: EventRow) -> bool:
    """Return whether what is assigned to an attribute has parameters, as far as torch's own layers show it."""
    layers = [
        SourceCall(program, row.file, row.terms[number][5])
        for number in program.subterms(row.file, row.payload[2])
        if row.terms[number][0] == "c"
    ]
    return any(
        any(map(_WITH_PARAMETERS.match, layer.targets))
        and not any(layer.gives(None, name) for name in ("affine", "elementwise_affine", "requires_grad"))
        for layer in layers
    )
