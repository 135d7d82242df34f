"""Wrappers of DDP that nothing calls: the training uses the module inside, and no gradient is averaged (DC750)."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from . import call_paths
from .model_wrapping import NOT_FORWARD, reduced_by_hand
from .models import calls_in, trains, wraps
from .program import Program, SourceCall
from .source_text import last_name
from .term_queries import passed_on, payload_terms, users

_DDP = "torch.nn.parallel.DistributedDataParallel"


@probe(rules.DC750)
def wrappers_are_called(program: Program) -> Iterator[Finding]:
    """A model that DDP wraps is trained by the wrapper."""
    for wrap in wraps(program, "ddp"):
        call = wrap.call
        name = call.use.removeprefix("assign:")
        if not call.is_to(_DDP) or name in ("", call.use) or call.at_module_level or program.is_test(call.file):
            continue
        inside = _inside(program, call, name)
        training = None if inside is None else _training(program, call, inside)
        if training is None or reduced_by_hand(program, list(program.component(call.file))):
            continue
        yield call.found(
            rules.DC750,
            f"nothing calls `{name}` as a DistributedDataParallel: `{training.text()}` in {training.line_name} trains "
            "the module inside, so no gradient is averaged over the ranks",
            fix=f"train what DistributedDataParallel() returns: use {name}(…) for the forward pass, and {name}.module "
            "to save its weights only",
            severity=Severity.INFO,
            flow=[call.as_step(), training.as_step()],
        )


def _inside(program: Program, call: SourceCall, name: str) -> set[int] | None:
    """Return the terms of the module in a wrapper, if its function only takes that, or parameters, out of the wrapper.

    None where the wrapper is called, handed to something, kept, or read by another function.
    """
    terms = call.terms
    wrapper = set(passed_on(program, call.file, call.payload[0]))
    found = {call.argument_term(0, "module")}
    for term in wrapper:
        for user in users(program, call.file).get(term, ()):
            if user in wrapper:
                continue
            if terms[user][0] != "a" or (terms[user][2] != "module" and terms[user][2] not in NOT_FORWARD):
                return None
            if terms[user][2] == "module":
                found.add(user)
    if any(term[0] == "v" and term[2] == name and term[1] != call.scope for term in terms):
        return None
    for row in program.rows_of(call.file, call.scope):
        if row.kind in ("return", "yield", "attribute", "store") and not wrapper.isdisjoint(payload_terms(row)):
            return None
    return found


def _training(program: Program, wrap: SourceCall, inside: set[int]) -> SourceCall | None:
    """Return the call after a wrapper that hands the module inside to a function which trains."""
    for row in calls_in(program, (wrap.file, wrap.scope)):
        if row.number > wrap.number and not inside.isdisjoint(row.argument_terms):
            for function in program.functions(row):
                if trains(program, function) or _steps(program, function):
                    return row
    return None


def _steps(program: Program, function: tuple[int, int]) -> bool:
    """Return whether a function steps an optimizer, itself or by what it calls."""
    return any(
        call.method == "step"
        and call.receiver_term >= 0
        and "optim" in last_name(call.terms, call.receiver_term).lower()
        for one in call_paths.reached_from(program, function)
        for call in calls_in(program, one)
    )
