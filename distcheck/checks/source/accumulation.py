"""A probe of gradients that are accumulated over several steps, and averaged over the ranks in each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from .call_paths import related
from .models import WrappedModel, name_of, wraps
from .program import Program, SourceCall

#: What a program mentions that decides itself when gradients are averaged.
_DECIDES = re.compile(r"no_sync|grad_sync|gradient_sync|delay_allreduce|register_comm_hook|accumulate\(")
#: Objects that step: optimizers and what scales their loss.
_STEPPERS = re.compile(r"opt(im|$|_)|scaler", re.IGNORECASE)


@probe(rules.DC762)
def gradients_are_averaged_once_a_step(program: Program) -> Iterator[Finding]:
    """The gradients that one optimizer step uses are averaged once."""
    known = wraps(program, "ddp")
    if not known:
        return
    done: set[tuple[int, int]] = set()
    for call in program.calls_named("backward", "loss_scaler"):
        if not call.loops or program.framework(call.file) is not None:
            continue
        loop = (call.file, call.loops[-1][0])
        line = _waits(program, call)
        if line is None or loop in done:
            continue
        files = related(program, call.file)
        wrap = next((wrap for wrap in known if wrap.call.file in files), None)
        if wrap is None or any(_DECIDES.search(program.index.files[file].text) for file in files):
            continue
        done.add(loop)
        yield _found(call, wrap, line)


def _found(call: SourceCall, wrap: WrappedModel, line: int) -> Finding:
    where = "" if line == call.line else f" in line {line}"
    model = name_of(call.program, wrap.call) or "model"
    return call.found(
        rules.DC762,
        f"{call.method}() averages the gradients of all ranks in each turn of the loop, "
        f"but a condition{where} lets the optimizer skip turns",
        fix=f"put forward and backward of all turns but the last into `with {model}.no_sync():`",
        severity=Severity.INFO,
        wrapped_at=f"{wrap.call.path}:{wrap.call.line}",
    )


def _waits(program: Program, call: SourceCall) -> int | None:
    """Return the line of the condition under which alone the optimizer steps, every so many turns; None without one."""
    given = call.argument_term(None, "update_grad")
    if given >= 0:
        return call.line if _counts(program, call.file, given) else None
    around = {number for number, _ in call.blocks}
    loop = call.loops[-1][0]
    line = None
    for row in program.rows_of(call.file, call.scope):
        if not isinstance(row, SourceCall) or row.method != "step" or not _STEPPERS.search(row.receiver_text):
            continue
        if all(number != loop for number, _ in row.blocks):
            continue
        lines = [
            node[4]
            for number, node in row.blocks
            if number not in around and node[1] in ("if", "exit:continue") and _counts(program, call.file, node[2])
        ]
        if not lines:
            return None
        line = lines[0]
    return line


def _counts(program: Program, file: int, term: int) -> bool:
    """Return whether a condition holds in every so many turns."""
    terms = program.terms[file]
    return term >= 0 and any(terms[part][:2] == ("o", "%") for part in program.subterms(file, term))
