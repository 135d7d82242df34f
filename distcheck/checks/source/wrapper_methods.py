"""Methods of a model that are called on its wrapper, which has none of that name (DC768)."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from .models import near, wraps
from .program import Program, SourceCall
from .values import Kind
from .vocabulary import word_set

#: The public methods of ``DistributedDataParallel`` and ``torch.nn.Module`` (torch 2.13), and what older releases had.
OF_WRAPPERS = word_set(
    "add_module apply bfloat16 buffers children compile cpu cuda double eval extra_repr float forward gather "
    "get_buffer get_extra_state get_parameter get_submodule half ipu join join_hook load_state_dict modules mtia "
    "named_buffers named_children named_modules named_parameters no_sync parameters register_backward_hook "
    "register_buffer register_comm_hook register_forward_hook register_forward_pre_hook register_full_backward_hook "
    "register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook "
    "register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ "
    "scatter set_extra_state set_submodule share_memory state_dict to to_empty to_kwargs train type "
    "will_sync_module_buffers xpu zero_grad"
)
_DDP = "torch.nn.parallel.DistributedDataParallel"


@probe(rules.DC768)
def methods_are_those_of_the_wrapper(program: Program) -> Iterator[Finding]:
    """A method of the model is called on the model, and not on the DDP around it."""
    known = [wrap for wrap in wraps(program, "ddp") if wrap.call.is_to(_DDP)]
    names = {
        program.scope(method).name
        for wrap in known
        for file, number in wrap.classes
        for method in program.methods_of(file, number)
    }
    names = {name for name in names if not name.startswith("__") and name not in OF_WRAPPERS}
    if not names:
        return
    added = {row.payload[1] for row in program.rows("attribute") if row.term_value(row.payload[0]).wrapped("ddp")}
    made = {(wrap.call.file, wrap.call.number): wrap for wrap in known}
    for call in program.calls_named(*sorted(names - added), files=near(program, known)):
        receiver = call.receiver
        wrapped = [made.get(atom.call) for atom in receiver if atom.kind == Kind.WRAPPED and atom.call is not None]
        wrap = wrapped[0] if wrapped and len(wrapped) == len(receiver.atoms) and None not in wrapped else None
        if (
            wrap is None
            or call.inside("try")
            or not any(program.evaluator.method(owner, call.method) for owner in wrap.classes)
        ):
            continue
        if _is_tested(program, call):
            continue
        shown = call.text().partition(f".{call.method}(")[0]
        yield call.found(
            rules.DC768,
            f"{shown} is a DistributedDataParallel here, which has no method {call.method}(): AttributeError",
            fix=f"call {shown}.module.{call.method}(); a forward pass that trains must go through {shown}() itself",
            basis=tuple(receiver),
            severity=call.milder_in_tests(rules.DC768),
            flow=program.flow(*(atom.flow for atom in receiver)),
            wrapped_at=f"{wrap.call.path}:{wrap.call.line}",
        )


def _is_tested(program: Program, call: SourceCall) -> bool:
    """Return whether a condition around a call tests the attribute, the wrapper, or whether there are other ranks."""
    return any(
        node[1] == "if" or node[1].startswith("exit:")
        for _, node in call.blocks
        if any(
            word in program.lines(call.file)[node[4] - 1]
            for word in ("hasattr", "isinstance", "module", "distributed", "ddp", "DDP", "world_size", "parallel")
        )
    )
