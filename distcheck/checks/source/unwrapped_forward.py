"""Losses of a model that Accelerate prepared, computed with the module that ``unwrap_model()`` returned (DC750)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import call_paths, path_values
from .model_wrapping import NOT_FORWARD, reduced_by_hand
from .models import Made, calls_in, without_gradients
from .program import Function, Program, SourceCall
from .source_text import last_name
from .values import Atom, Value

_ACCELERATOR = "accelerate.Accelerator."
_UNWRAPS = ("accelerate.Accelerator.unwrap_model", "accelerate.utils.extract_model_from_parallel")
_REDUCE = "accelerate.Accelerator.reduce"
#: Names of what makes an optimizer: ``optimizer_class`` and those of other libraries, too.
_OPTIMIZER = lazy(r"optim|adam|sgd|lion|prodigy|adafactor|rmsprop|lamb", re.IGNORECASE)
_BACKWARD = "accelerate.Accelerator.backward"


@probe(rules.DC750)
def losses_come_from_the_prepared_model(program: Program) -> Iterator[Finding]:
    """A loss that is trained on comes from the model that was prepared, and not from the module inside."""
    for unwrap in program.calls_to(*_UNWRAPS):
        model = unwrap.argument_term(0, "model")
        value = unwrap.argument(0, "model")
        if model < 0 or value is None or value.wrapped("prepared") is None:
            continue
        rows = calls_in(program, (unwrap.file, unwrap.scope))
        others = [row for row in rows if not any(target.startswith(_ACCELERATOR) for target in row.targets)]
        if any(_base(program, row) == model or model in row.argument_terms for row in others):
            continue  # the wrapper makes a forward pass as well, or gets into one
        if any(_calls(program, function, value) for row in others for function in program.functions(row)):
            continue
        if not _is_trained(program, unwrap, value) or _averages(program, unwrap.file):
            continue
        for backward in rows:
            if not backward.is_to(_BACKWARD) or backward.number < unwrap.number:
                continue
            forward = _forward_of(program, unwrap, backward)
            path = None if forward is None else call_paths.path_of_all_ranks(program, backward)
            if forward is None or path is None or path_values.in_tests(path):
                continue
            name = unwrap.argument_text(0, "model")
            yield forward.found(
                rules.DC750,
                f"the loss in {backward.line_name} comes from `{forward.text()}`, which bypasses the prepared "
                f"`{name}`: no gradient of it is averaged over the ranks",
                fix=f"call {name}(…) for the loss; unwrap_model() is for saving and for evaluation",
                basis=(path.certainty,),
                severity=Severity.WARNING,
                flow=[unwrap.as_step(), forward.as_step(), backward.as_step()],
            )
            break


def _calls(program: Program, function: Function, model: Value) -> bool:
    """Return whether a function calls a prepared model, which an object keeps."""
    made = _makers(model)
    return any(not made.isdisjoint(_makers(call.callee)) for call in calls_in(program, function))


def _is_trained(program: Program, unwrap: SourceCall, model: Value) -> bool:
    """Return whether an optimizer gets the parameters of a prepared model, and nothing may freeze them."""
    made = _makers(model)
    files = program.component(unwrap.file)
    for call in program.calls_named("requires_grad_", files=frozenset(files)):
        same = _base(program, call) == unwrap.event[7] or not made.isdisjoint(_makers(call.receiver))
        if same and call.constant(0, "requires_grad", True) is False:
            return False
    return any(
        not made.isdisjoint(_makers(call.term_value(number)))
        for call in program.rows("call", files)
        if isinstance(call, SourceCall) and _OPTIMIZER.search(call.method)
        for number in program.subterms(call.file, *call.argument_terms[:1])
    )


def _makers(atoms: Iterable[Atom]) -> set[Made]:
    """Return the calls that made what a value may be, without wrappers."""
    inner = {one for atom in atoms if atom.of for one in _makers(atom.of)}
    return inner | {atom.call for atom in atoms if not atom.of and atom.call is not None}


def _averages(program: Program, file: int) -> bool:
    """Return whether the project averages gradients itself."""
    files = program.component(file)
    if reduced_by_hand(program, files):
        return True
    reductions = (call for call in program.calls_named("reduce", files=frozenset(files)) if call.is_to(_REDUCE))
    return any(".grad" in call.text() for call in reductions)


def _forward_of(program: Program, unwrap: SourceCall, backward: SourceCall) -> SourceCall | None:
    """Return the call of what was unwrapped, or of a part of it, that a loss is computed from; None for any other."""
    terms = backward.terms
    for number in program.subterms(backward.file, *backward.argument_terms):
        if terms[number][0] != "c":
            continue
        call = SourceCall(program, backward.file, terms[number][5])
        callee = terms[call.term[1]]
        if callee[0] == "a" and (callee[2] in NOT_FORWARD or callee[2].startswith(("get_", "_"))):
            continue
        if _base(program, call) == unwrap.event[7] and call != unwrap and not without_gradients(program, call):
            return call
    return None


def _base(program: Program, call: SourceCall) -> int:
    """Return what a call is a call of, without attributes, and through one name: ``unwrap(model)`` for ``m.net(x)``."""
    terms, number = call.terms, call.term[1]
    while terms[number][0] == "a":
        number = terms[number][1]
    bound = program.bound(call.file, terms[number])
    return bound[0] if len(bound) == 1 and last_name(terms, number) else number
