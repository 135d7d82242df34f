"""Attributes and methods of a model that are taken from its wrapper, which has none of that name (DC768)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from .models import FAR, WrappedModel, comes_after, near, wraps
from .program import EventRow, Program
from .several_ranks import signs
from .term_queries import first_event, parts, payload_terms
from .values import Atom, Kind, Who
from .vocabulary import word_set

#: The public attributes of ``DistributedDataParallel`` and ``torch.nn.Module`` (torch 2.13), and what older ones had.
OF_WRAPPERS = word_set(
    "T_destination add_module apply batched_grad_copy bfloat16 broadcast_bucket_size broadcast_buffers "
    "bucket_bytes_cap bucket_bytes_cap_default bucket_bytes_cap_list buffers call_super_init check_reduction children "
    "compile cpu cuda ddp_join_enabled ddp_join_throw_on_early_termination ddp_uneven_inputs_config device device_ids "
    "device_mesh device_type dim double dump_patches eval extra_repr find_unused_parameters float forward "
    "forward_sync_buffers gather get_buffer get_extra_state get_parameter get_submodule gradient_as_bucket_view half "
    "ipu is_multi_device_module join join_device join_hook join_process_group load_state_dict logger mixed_precision "
    "module modules modules_buffers modules_params mtia named_buffers named_children named_module_buffers "
    "named_modules named_parameters no_sync output_device parameters parameters_to_ignore process_group reducer "
    "register_backward_hook register_buffer register_comm_hook register_forward_hook register_forward_pre_hook "
    "register_full_backward_hook register_full_backward_pre_hook register_load_state_dict_post_hook "
    "register_load_state_dict_pre_hook register_module register_parameter register_state_dict_post_hook "
    "register_state_dict_pre_hook require_backward_grad_sync require_forward_param_sync requires_grad_ scatter "
    "set_extra_state set_submodule share_memory skip_all_reduce_unused_params state_dict static_graph to to_empty "
    "to_kwargs train training type use_side_stream_for_tensor_copies will_sync_module_buffers xpu zero_grad"
)
_DDP = "torch.nn.parallel.DistributedDataParallel"
#: Terms below which a part of an expression may never be read.
_CHOOSES = frozenset(["?", "and", "or"])


@probe(rules.DC768)
def attributes_are_those_of_the_wrapper(program: Program) -> Iterator[Finding]:
    """What only the model has is taken from the model, and not from the DDP around it."""
    known = {(wrap.call.file, wrap.call.number): wrap for wrap in wraps(program, "ddp") if wrap.call.is_to(_DDP)}
    if not known:
        return
    added = {row.payload[1] for row in program.rows("attribute") if row.term_value(row.payload[0]).wrapped("ddp")}
    for file in sorted(near(program, known.values())):
        terms = program.terms[file]
        called = {terms[event[7]][1] for event in program.events[file] if event[0] == "call"}
        for number, term in enumerate(terms):
            if term[0] != "a" or term[2] in OF_WRAPPERS or term[2] in added or term[2].startswith("_"):
                continue
            if not program.evaluator.value(file, term[1]).wrapped("ddp"):
                continue
            row = first_event(program, (file, number))
            if row is None or row.inside("try") or _is_tested(program, row) or not _is_read(program, row, number):
                continue
            value = row.term_value(term[1])
            wrapped = [atom for atom in value if atom.kind == Kind.WRAPPED]
            made = [known.get(atom.call) for atom in wrapped if atom.call is not None]
            wrap = made[0] if made else None
            if wrap is None or None in made or len(made) != len(wrapped):
                continue
            if not all(atom in wrapped or _is_replaced(program, atom, wrap, row) for atom in value):
                continue
            conditional = wrap.call.inside("if") or any(atom.when.who != Who.EVERYONE for atom in wrapped)
            if row.reached_by.who == Who.SINGLE or (conditional and not _may_be_wrapped(program, wrap, row)):
                continue
            name = term[2]
            match = re.search(rf"([\w.]+)\.{name}\b", program.source(row.span))
            shown = match[1] if match else row.term_text(term[1])
            what = f"method {name}()" if number in called else f"attribute {name}"
            yield row.found(
                rules.DC768,
                f"{shown} is a DistributedDataParallel here, which has no {what}: AttributeError",
                fix=f"call {shown}.module.{name}(); a forward pass that trains must go through {shown}() itself"
                if number in called
                else f"read {shown}.module.{name}",
                basis=tuple(wrapped),
                severity=row.milder_in_tests(rules.DC768),
                flow=program.flow(*(atom.flow for atom in wrapped)),
                wrapped_at=f"{wrap.call.place}",
                **(signs(row) if conditional else {}),
            )


def _is_read(program: Program, row: EventRow, term: int) -> bool:
    """Return whether a row reads a term whatever the conditions inside of its expression are."""
    return any(term in parts(program, row.file, root, _CHOOSES) for root in payload_terms(row))


def _is_replaced(program: Program, atom: Atom, wrap: WrappedModel, row: EventRow) -> bool:
    """Return whether an alternative is none where there are other ranks, or when the row runs."""
    return (
        atom.when.who == Who.SINGLE
        or (atom.kind == Kind.CONST and atom.const is None)
        # what the constructor of a class wraps after it has made it
        or (atom.kind in (Kind.OBJECT, Kind.RESULT) and comes_after(program, wrap.call, row))
    )


def _may_be_wrapped(program: Program, wrap: WrappedModel, row: EventRow, depth: int = 0) -> bool:
    """Return whether a method is called on an object whose constructor may wrap; True for what is no such method.

    ``Trainer(local_rank=-1)`` for the evaluation does not wrap, whatever other objects of the class do.
    """
    evaluator = program.evaluator
    made = (wrap.call.file, wrap.call.scope)
    owner = evaluator.owner_of(*made)
    if (
        wrap.call.function.name != "__init__"
        or row.file != wrap.call.file
        or evaluator.owner_of(row.file, row.scope) != owner
    ):
        return True
    contexts = evaluator.contexts(made)
    sites = [(site.file, site.event) for site in evaluator.callers.get(made, ())]
    excluded = {
        site
        for site, context in zip(sites, contexts, strict=False)
        for _, node in wrap.call.blocks
        if node[1] == "if" and evaluator.settled(wrap.call.file, node[2], context) is (not node[3])
    }
    for call in program.callers((row.file, row.scope))[:20]:
        if evaluator.owner_of(call.file, call.scope) == owner and call.file == row.file:
            if depth < FAR and _may_be_wrapped(program, wrap, call, depth + 1):
                return True
        elif any(atom.kind == Kind.OBJECT and atom.call not in excluded for atom in call.receiver):
            return True
    return False


def _is_tested(program: Program, row: EventRow) -> bool:
    """Return whether a condition around a row tests the attribute, the wrapper, or whether there are other ranks."""
    return any(
        node[1] == "if" or node[1].startswith("exit:")
        for _, node in row.blocks
        if any(
            word in program.lines(row.file)[node[4] - 1]
            for word in ("hasattr", "isinstance", "module", "distributed", "ddp", "DDP", "world_size", "parallel")
        )
    )
