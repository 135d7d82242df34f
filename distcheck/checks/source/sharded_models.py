"""What sees only this rank's shard of a model in FSDP1: a plain GradScaler, the state of the module inside."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .collective_sequences import who_runs
from .models import is_whole, leaves_whole, lines_near, model_of_parameters, wrapper_of, wraps
from .program import Program, SourceCall
from .values import FEW, Atom, Kind, Value

#: Scalers that exchange nothing with other ranks: where ``enabled`` stands among their arguments.
_SCALERS = {"torch.amp.GradScaler": 5, "torch.amp.grad_scaler.GradScaler": 5, "torch.cuda.amp.GradScaler": 4}
#: A type whose range makes infinite gradients rare.
_BFLOAT16 = lazy(r"bfloat16|bf16")
#: Conditions that may keep a step from a sharded model.
_DISTINGUISHES = lazy(r"fsdp|shard|strategy|isinstance|parallel", re.IGNORECASE)
#: What code has that lets the ranks agree on infinite gradients itself.
_AGREES = lazy(r"found_inf")


@probe(rules.DC769)
def scalers_see_all_shards(program: Program) -> Iterator[Finding]:
    """A scaler of the loss checks the gradients in the shards of all ranks."""
    if not wraps(program, "fsdp"):
        return
    done = set()
    for step in program.calls_named("step"):
        scaler = _plain_scaler(program, step.receiver)
        if scaler is None or scaler in done or step.inside("except"):
            continue
        wrapper = _sharded_by(program, step.argument(0, "optimizer"))
        if wrapper is None or any(
            _DISTINGUISHES.search(row.term_text(node[2]))
            for row in (step, scaler)
            for _, node in row.blocks
            if node[1] == "if" or node[1].startswith("exit:")
        ):
            continue
        done.add(scaler)
        enabled = scaler.constant(_SCALERS[str(step.receiver.atoms[0].const)], "enabled", True)
        if enabled is False or any(_AGREES.search(line) for line in lines_near(step)):
            continue
        rare = enabled is not True or any(_BFLOAT16.search(line) for line in lines_near(step))
        yield scaler.found(
            rules.DC769,
            f"`{step.text()}` in {step.line_name} checks this rank's shard of FSDP only: a rank that finds inf skips "
            "the step alone",
            fix="use torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler(): its ranks agree",
            basis=(wrapper,),
            severity=Severity.INFO if rare or program.is_test(scaler.file) else Severity.WARNING,
            flow=[*program.flow(wrapper.flow), scaler.as_step(), step.as_step()],
        )


def _plain_scaler(program: Program, value: Value) -> SourceCall | None:
    """Return the call that made a scaler which exchanges nothing with other ranks, if a value can be nothing else."""
    made = program.call_of(value.atoms[0]) if len(value.atoms) == 1 and value.only(Kind.RESULT) else None
    return made if made is not None and value.atoms[0].const in _SCALERS and not made.has_star else None


def _sharded_by(program: Program, optimizer: Value | None) -> Atom | None:
    """Return the wrapper of the model whose shards an optimizer has, if it can have no other."""
    if optimizer is None or len(optimizer.atoms) != 1:
        return None
    made = program.call_of(optimizer.atoms[0])
    if made is None or not str(optimizer.atoms[0].const).startswith("torch.optim."):
        return None
    model = model_of_parameters(program, made.file, made.argument_term(0, "params"))
    value = program.evaluator.value(made.file, model) if model >= 0 else Value()
    wrapper = value.wrapped("fsdp")
    if wrapper is None or value.wrapped("ddp", "dp", "fsdp2", "deepspeed", "prepared") or value.has(Kind.BARE):
        return None
    wrap = program.call_of(wrapper)
    return None if wrap is None or leaves_whole(wrap) else wrapper


@probe(rules.DC705)
def states_come_from_the_wrapper(program: Program) -> Iterator[Finding]:
    """The state of a model in FSDP comes from the wrapper: the module inside has only the shard of its rank."""
    if not wraps(program, "fsdp"):
        return
    for call in program.calls_named("state_dict"):
        who = call.reached_by
        inside = call.receiver
        if who.who not in FEW or not who.traced or not inside.only(Kind.BARE) or is_whole(program, call):
            continue
        wrappers = [wrapper_of(atom, "fsdp") for atom in inside]
        wrapper = wrappers[0]
        if wrapper is None or None in wrappers:
            continue
        wrap = program.call_of(inside.atoms[0])
        if wrap is None or leaves_whole(wrap) or program.is_of_own_group(wrap):
            continue
        model = call.receiver_text.removesuffix(".module")
        yield call.found(
            rules.DC705,
            f"`{call.text()}` goes past the wrapper of FSDP: it has only the shard of this rank, and hangs where "
            f"layers inside are wrapped, since {who_runs(who)} it",
            fix=f"call {model}.state_dict() on all ranks, with FSDP.state_dict_type(…, FULL_STATE_DICT), and save the "
            "result on one",
            basis=(who, wrapper),
            severity=call.milder_in_tests(rules.DC705),
            flow=[wrap.as_step(), call.as_step()],
            reached_by=who.who,
        )
