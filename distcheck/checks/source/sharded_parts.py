"""Models of which ``fully_shard`` gets only the parts: the other parameters are never averaged (DC758)."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from . import call_paths
from .program import Program, SourceCall
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


@probe(rules.DC758)
def whole_model_is_sharded(program: Program) -> Iterator[Finding]:
    """A model of which parts are sharded is sharded itself afterwards: that covers its other parameters."""
    calls = list(program.calls_to(_FULLY_SHARD))
    parts = [(call, found) for call in calls if (found := _model_of(call)) is not None]
    if not parts or len(parts) < len(calls) or any(program.is_test(call.file) for call in calls):
        return
    if any(True for _ in program.calls_named(*_OTHERS)) or not any(True for _ in program.calls_named("backward")):
        return
    if any("grad" in call.text() for call in program.calls_named("all_reduce", "all_reduce_coalesced")):
        return
    sharded = {name.split(".")[0] for _, (_, name) in parts}
    done = set()
    for call, (model, name) in parts:
        text = call.term_text(model)
        if (call.file, call.scope, text) in done or not _has_other_layers(program, call, model, sharded):
            continue
        done.add((call.file, call.scope, text))
        path = call_paths.path_of_all_ranks(program, call)
        if path is None:
            continue
        yield call.found(
            rules.DC758,
            f"fully_shard() gets only parts of {text}, such as {text}.{name}: the gradients of its other parameters "
            "are never averaged",
            fix=f"shard the rest as well, after its parts: fully_shard({text})",
            basis=(path.certainty,),
            severity=Severity.WARNING,
            flow=[*program.flow(path.steps), call.as_step()],
        )


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
    if not names or term < 0 or terms[term][0] not in ("p", "v", "c", "|", "?"):
        return None
    return term, ".".join(reversed(names))


def _has_other_layers(program: Program, call: SourceCall, model: int, sharded: set[str]) -> bool:
    """Return whether a model has layers besides those that are sharded: its class is known, and makes them."""
    evaluator = program.evaluator
    value = evaluator.value(call.file, model)
    owners = {atom.const for atom in value}
    if len(owners) != 1 or not value.only(Kind.OBJECT):
        return False
    for (file, number, name), sites in evaluator.stores.items():
        if (file, number) in owners and name not in sharded:
            for site in sites:
                row = program.event_row(*site)
                if any(
                    atom.kind == Kind.RESULT and str(atom.const).startswith("torch.nn.")
                    for atom in evaluator.value(row.file, row.payload[2])
                ):
                    return True
    return False
