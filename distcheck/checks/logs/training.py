"""What a script did with its process group and its wrappers: too early, twice, not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distcheck import rules
from distcheck.core.model import Fix
from distcheck.rules import shared_fixes

from .context import came_through
from .log_probe import LogFinding, SignatureRow, log_probe, register_rows, signature_probe
from .model import Event, Timeline


def _place(event: Event) -> str:
    """Return the user's own line, as ``train.py:33 in main``, or an empty text without a traceback."""
    frame = event.traceback.users if event.traceback is not None else None
    if frame is None:
        return ""
    name = frame.path.replace("\\", "/").rpartition("/")[2]
    return f"{name}:{frame.line}" + ("" if frame.function == "<module>" else f" in {frame.function}")


@signature_probe(rules.DC740, "group-missing")
def group_was_there_before_its_use(timeline: Timeline, events: Sequence[Event]) -> LogFinding:
    """A collective or a wrapper used the process group before it was created, or after it was destroyed."""
    first = events[0]
    place = _place(first)
    ended = "destroyed" in first.text or came_through(first, "destroy_process_group")
    what = (
        f"the {(first.values.get('group') or '').strip()} parallel group"
        if first.values.get("group")
        else "the process group"
    )
    message = (
        f"{what} is used after it was destroyed, or where it never was"
        if ended
        else f"{what} is used before it exists, or after it was destroyed"
    )
    return LogFinding(
        events,
        message + (f": {place}" if place else ""),
        Fix(
            "call torch.distributed.init_process_group() before it, right after the device is set, and destroy "
            "the group last. In code that also runs alone, check dist.is_available() and dist.is_initialized()",
            where="code",
        ),
        evidence={"place": place or None},
    )


@signature_probe(rules.DC741, "group-twice")
def group_was_made_once(timeline: Timeline, events: Sequence[Event]) -> LogFinding:
    """``init_process_group`` was called where a group was there already."""
    place = _place(events[0])
    return LogFinding(
        events,
        "the process group is created a second time" + (f": {place}" if place else ""),
        Fix(
            "create it at one call site, or check first: if not torch.distributed.is_initialized(): "
            "init_process_group(…)",
            where="code",
        ),
        evidence={"place": place or None},
    )


@log_probe(rules.DC754)
def every_parameter_got_a_gradient(timeline: Timeline) -> Iterator[LogFinding]:
    """DDP waited for gradients that never came, or got one twice."""
    events = timeline.of("unused-parameters")
    if events:
        named = [event for event in timeline.of("unused-parameters-named") if event.values]
        which = next((event.values.get("names") or event.values.get("indices") for event in named), None)
        known = f": {which.strip(' .')}" if which else ""
        yield LogFinding(
            events,
            f"parameters of the model got no gradient in the step before{known}",
            Fix(
                "use all outputs in the loss, or freeze parameters that are not trained (requires_grad_(False), "
                "before DDP(...)). If branches are skipped on purpose, set find_unused_parameters=True. "
                "TORCH_DISTRIBUTED_DEBUG=INFO names the parameters",
                where="code",
            ),
            evidence={"parameters": which},
        )
    if twice := timeline.of("parameter-ready-twice"):
        yield LogFinding(
            twice,
            "the gradient of a parameter came twice in one step: find_unused_parameters=True with activation "
            "checkpointing, or parameters that are used again",
            Fix(
                "omit find_unused_parameters, and let checkpoint(..., use_reentrant=False); where the "
                "same parameters are used in every step, static_graph=True",
                where="code",
            ),
        )
    if needless := timeline.of("unused-flag"):
        yield LogFinding(
            needless,
            "find_unused_parameters=True found no unused parameter, and costs time in every step",
            Fix(
                "remove it where every parameter gets a gradient; with the same unused ones in every step, "
                "static_graph=True",
                where="code",
            ),
            notice=True,
        )


_OF_ROOT = Fix(
    "pass the list on the root alone: gather_list=parts if rank == dst else None, and likewise scatter_list and src",
    where="code",
)

ROWS = register_rows(
    __name__,
    # torch checks the list of gather and scatter on each rank, before the collective begins.
    SignatureRow(
        "only_the_root_passes_a_list",
        rules.DC709,
        "list-of-root",
        "a rank that is not the {root} passes {argument}",
        _OF_ROOT,
    ),
    SignatureRow(
        "the_root_passes_a_list",
        rules.DC709,
        "list-missing-on-root",
        "the {root} rank passes no {argument}",
        _OF_ROOT,
    ),
    SignatureRow(
        "tensors_have_the_size_of_the_collective",
        rules.DC709,
        "tensor-of-other-size",
        "tensor {index} of {operation} has the {what} {own}, and needs {expected}",
        Fix("give the output a part for each rank, and all parts one size and dtype: pad shorter ones", where="code"),
    ),
    SignatureRow(
        "lists_have_a_tensor_for_each_rank",
        rules.DC709,
        "list-of-other-length",
        "the {what} list of {operation} has {own} tensors for {expected} ranks",
        Fix("make the list with one tensor for each rank of the group: dist.get_world_size(group)", where="code"),
    ),
    SignatureRow(
        "messages_go_to_other_ranks",
        rules.DC709,
        "message-to-itself",
        "a rank sends to itself, or receives from itself",
        Fix("copy the part of the own rank, and send and receive only where peer != rank", where="code"),
    ),
    SignatureRow(
        "roots_are_in_their_group",
        rules.DC715,
        "rank-not-in-group",
        "rank {of} of the job is not in the group of a collective, or of a send or receive",
        Fix(
            "count within the group with group_src= or group_dst=, or pass dist.get_global_rank(group, 0)",
            where="code",
        ),
    ),
    SignatureRow(
        "a_sampler_shuffles_by_itself",
        rules.DC731,
        "shuffle-with-sampler",
        "a DataLoader gets shuffle=True and a sampler",
        Fix("omit shuffle=True: DistributedSampler shuffles by itself", where="code"),
    ),
    # NCCL or torch reports at the end that the process group was not destroyed.
    SignatureRow(
        "group_was_destroyed",
        rules.DC743,
        "group-not-destroyed",
        "the process group is not destroyed at the end",
        shared_fixes.DESTROY_THE_GROUP,
        notice=True,
    ),
)
