"""Gradients that are accumulated over several steps: averaged over the ranks in each of them (DC762), or cleared before
the last one by an optimizer of Accelerate (DC758).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .call_paths import related
from .models import calls_in, is_backward, name_of, wraps
from .option_paths import expression_of
from .program import Program, SourceCall, cached
from .rank_dependence import names_in
from .source_text import last_name
from .values import Kind

#: What a program mentions that decides itself when gradients are averaged.
_DECIDES = lazy(
    r"no_sync|grad_sync(?!\s*==)|gradient_sync|(dis|en)able_allreduce|register_comm_hook|(?<!itertools\.)accumulate\(|_do_sync",
    literals=(
        "no_sync", "grad_sync", "gradient_sync", "able_allreduce", "register_comm_hook", "accumulate(", "_do_sync"
    ),
)  # fmt: skip
#: Objects that step: optimizers and what scales their loss.
_STEPPERS = lazy(r"opt(im|$|_)|scaler", re.IGNORECASE)
#: Words in the number of turns of a loop that accumulates.
_ACCUMULATES = lazy(r"accum|micro", re.IGNORECASE)
_ACCELERATOR = "accelerate.Accelerator"


#: A program that mentions it may leave the number of steps to DeepSpeed's engine.
_BY_AN_ENGINE = "deepspeed"


@probe(rules.DC762)
def gradients_are_averaged_once_a_step(program: Program) -> Iterator[Finding]:
    """The gradients that one optimizer step uses are averaged once."""
    known = wraps(program, "ddp")
    done: set[tuple[int, int]] = set()
    for call in program.calls_named("backward", "loss_scaler"):
        made = _accelerator_of(program, call)
        if (made is None and not known) or program.framework(call.file) != (None if made is None else "accelerate"):
            continue
        why = _why_accumulated(program, call) if call.loops else ""
        if not why and made is not None and _is_for_several(made):
            why = _NOT_ENTERED
        loop = (call.file, call.loops[-1][0] if call.loops else -call.number)
        if not why or loop in done:
            continue
        files = related(program, call.file)
        wrap = next((wrap.call for wrap in known if wrap.call.file in files), None) if made is None else made
        if wrap is None or any(_decides(program, file) for file in files):
            continue
        if made is not None and _BY_AN_ENGINE in program.index.files[call.file].text.lower():
            continue
        done.add(loop)
        yield _found(call, wrap, why) if made is None else _found_of_accelerator(call, made, why)


_NOT_ENTERED = "no code enters accumulate(): every step is taken, with a part of its loss"


def _found(call: SourceCall, wrap: SourceCall, why: str) -> Finding:
    model = name_of(call.program, wrap) or "model"
    return call.found(
        rules.DC762,
        f"{call.method}() averages the gradients of all ranks in each iteration, but {why}",
        fix=f"run forward and backward of all iterations but the last under `with {model}.no_sync():`",
        severity=Severity.INFO,
        wrapped_at=f"{wrap.place}",
    )


@cached
def _decides(program: Program, file: int) -> bool:
    """Return whether a file decides itself which backward passes average gradients."""
    return _DECIDES.search(program.index.files[file].text) is not None


def _found_of_accelerator(call: SourceCall, made: SourceCall, why: str) -> Finding:
    name = call.receiver_text
    if why == _NOT_ENTERED:
        text = "this Accelerator has gradient_accumulation_steps, but "
        fix = f"run forward, backward and step under `with {name}.accumulate(model):`"
    else:
        text = "backward() averages the gradients of all ranks in each iteration, but "
        fix = f"run forward and backward of all iterations but the last under `with {name}.no_sync(model):`"
    return call.found(rules.DC762, text + why, fix=fix, severity=Severity.INFO, accelerator=f"{made.place}")


def _accelerator_of(program: Program, call: SourceCall) -> SourceCall | None:
    """Return the call that made the Accelerator of a backward pass; None for a backward pass of a tensor."""
    for atom in call.receiver if call.method == "backward" else ():
        if atom.kind == Kind.RESULT and atom.const == _ACCELERATOR:
            return program.call_of(atom)
    return None


def _is_for_several(made: SourceCall) -> bool:
    """Return whether an Accelerator is given a number of steps to accumulate: it divides each loss by that."""
    steps = made.argument(None, "gradient_accumulation_steps")
    return steps is not None and steps.constant != 1


def _why_accumulated(program: Program, call: SourceCall) -> str:
    """Return what shows that several turns of the loop around a backward pass are for one step; empty without it."""
    line = _waits(program, call)
    if line is not None:
        where = "" if line == call.line else f" in {program.line_name(call.file, line)}"
        return f"a condition{where} skips the optimizer step in some iterations"
    line = _steps_behind(program, call)
    return f"the optimizer steps after the loop, in {program.line_name(call.file, line)}" if line is not None else ""


def _steps_behind(program: Program, call: SourceCall) -> int | None:
    """Return the line of the one step behind a loop ``for _ in range(accumulation_steps)``; None for another loop."""
    loop, turns = call.loops[-1]
    head = call.terms[turns]
    if head[0] != "c" or last_name(call.terms, head[1]) != "range" or not _ACCUMULATES.search(names_in(call, turns)):
        return None
    around = [number for number, _ in call.blocks]
    outer = around[: around.index(loop)]
    line = None
    for row in program.rows_of(call.file, call.scope):
        if not isinstance(row, SourceCall) or row.method != "step" or not _STEPPERS.search(row.receiver_text):
            continue
        inside = [number for number, _ in row.blocks]
        if loop in inside:
            return None
        if row.number > call.number and inside[: len(outer)] == outer:
            line = line or row.line
    return line


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


@probe(rules.DC758)
def accumulated_gradients_are_kept(program: Program) -> Iterator[Finding]:
    """No prepared optimizer clears gradients under ``accumulate()`` before the backward pass.

    It ignores ``zero_grad()`` until the last batch of an accumulation (Accelerate 1.15, ``AcceleratedOptimizer``). So
    that call drops the gradients of all batches before.
    """
    for context in program.calls_named("accumulate"):
        made = next((program.call_of(atom) for atom in context.receiver if atom.const == _ACCELERATOR), None)
        if made is None or not _is_for_several(made):
            continue
        if _BY_AN_ENGINE in program.index.files[context.file].text.lower():
            continue
        for block, node in enumerate(program.blocks[context.file]):
            if node[1] == "with" and node[2] == context.event[7]:
                yield from (_found_of_cleared(call, context, made) for call in _cleared_early(program, context, block))


def _cleared_early(program: Program, context: SourceCall, block: int) -> Iterator[SourceCall]:
    """Yield each ``zero_grad()`` in a block that comes before the backward pass for the step of its optimizer."""
    here = calls_in(program, (context.file, context.scope))
    rows = [row for row in here if any(number == block for number, _ in row.blocks)]
    for call in rows:
        if call.method != "zero_grad" or not call.receiver.wrapped("prepared"):
            continue
        if any(node[1] != "with" for number, node in call.blocks if number > block):
            continue
        steps = [row for row in rows if row.method == "step" and row.receiver_text == call.receiver_text]
        if steps and all(row.number > call.number for row in steps):
            between = [row for row in rows if call.number < row.number < steps[0].number]
            if any(is_backward(row) for row in between):
                yield call


def _found_of_cleared(call: SourceCall, context: SourceCall, made: SourceCall) -> Finding:
    steps = made.argument_text(None, "gradient_accumulation_steps")
    option = expression_of(call.program, made.file, made.argument_term(None, "gradient_accumulation_steps"))
    number = option[4] if option[0] == "o" else option
    accumulates = number[0] == "k" and isinstance(number[1], int) and number[1] > 1
    return call.found(
        rules.DC758,
        f"under `{context.text()}`, `{call.text()}` is ignored until the last batch of an accumulation: there it drops "
        "the gradients of all batches before",
        fix="call it after the step",
        severity=call.milder_in_tests(rules.DC758) if accumulates else Severity.INFO,
        accelerator=f"{made.place}: gradient_accumulation_steps={steps}",
    )
