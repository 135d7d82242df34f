"""Point-to-point messages that wait for each other, or that no rank receives: wrong order, neighbor or tag."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .models import calls_in
from .program import Program, SourceCall
from .values import PARTIAL, RANKS, Kind, Who
from .vocabulary import D

_SEND = "torch.distributed.send"
_RECEIVE = "torch.distributed.recv"
_SENDS = (D + "send", D + "isend")
_RECEIVES = (D + "recv", D + "irecv")
#: Words for the position of a process among others, in a condition without a known rank.
_POSITIONS = lazy(r"stage|first|last|prev|next|peer|partner|even|odd|parity|turn|rank", re.I)


@probe(rules.DC716)
def sends_and_receives_take_turns(program: Program) -> Iterator[Finding]:
    """No rank waits in ``send`` for one that waits in ``send`` as well."""
    done: set[tuple[int, int]] = set()
    calls = [call for call in program.calls_to(_SEND, _RECEIVE) if _by_everyone(program, call) and _peer(call)]
    for first in calls:
        if (first.file, first.scope) in done:
            continue
        second = next(
            (
                other
                for other in calls
                if program.may_precede(first, other) and other.is_to(_SEND) != first.is_to(_SEND)
            ),
            None,
        )
        if second is None:
            continue
        done.add((first.file, first.scope))
        what = "sends" if first.is_to(_SEND) else "receives"
        then = "receive" if first.is_to(_SEND) else "send"
        yield first.found(
            rules.DC716,
            f"every rank {what} here and gets to `{second.text()}` in {second.line_name} only afterwards: no rank is "
            f"ready to {then}",
            fix="start one of the two without waiting (`work = dist.isend(…)`, then recv, then `work.wait()`). Or pass "
            "both to dist.batch_isend_irecv, or let even ranks send first and odd ones receive first",
            severity=first.milder_in_tests(rules.DC716),
            flow=[first.as_step(), second.as_step()],
        )


def _by_everyone(program: Program, call: SourceCall) -> bool:
    """Return whether all ranks come here in the same way: no condition that could distinguish them."""
    for _, node in call.blocks:
        if node[1] in ("if", "while") or node[1].startswith("exit:"):
            if node[1] == "exit:raise":
                continue
            if program.evaluator.test(call.file, node[2]).who not in (Who.EVERYONE, Who.DISTRIBUTED):
                return False
            if _POSITIONS.search(call.term_text(node[2])):
                return False
    return call.entry.who not in PARTIAL and not call.inside("except")


def _peer(call: SourceCall) -> bool:
    """Return whether the other side is reckoned from the own rank: then each rank has another one."""
    name = "dst" if call.is_to(_SEND) else "src"
    value = call.argument(1, name)
    if value is None:
        return False
    return any(atom.kind == Kind.RANK_DEPENDENT or atom.kind in RANKS for atom in value)


class _Message(NamedTuple):
    """One end of a message."""

    call: SourceCall
    sends: bool
    #: the term of the other rank, or -1
    peer: int
    #: the tag, 0 without one; None where it is not known
    tag: int | None


@probe(rules.DC709)
def messages_have_a_receiver(program: Program) -> Iterator[Finding]:
    """What is sent to the right is received from the left, with the same tag."""
    functions = {(call.file, call.scope) for call in program.calls_to(*_SENDS, *_RECEIVES, D + "P2POp")}
    for function in sorted(functions):
        messages = [found for call in calls_in(program, function) if (found := _message(call)) is not None]
        sent = [one for one in messages if one.sends]
        received = [one for one in messages if not one.sends]
        yield from _missing_neighbor(program, messages)
        if sent and received:
            yield from _wrong_neighbor(program, sent, received)
            yield from _wrong_tag(sent, received)


def _message(call: SourceCall) -> _Message | None:
    if call.is_to(D + "P2POp"):
        operation = call.argument(0, "op")
        sends = operation is not None and operation.named(*_SENDS) is not None
        if not sends and (operation is None or operation.named(*_RECEIVES) is None):
            return None
        peer, tag = call.argument_term(2, "peer"), call.constant(4, "tag", 0)
    elif call.is_to(*_SENDS, *_RECEIVES):
        sends = call.is_to(*_SENDS)
        peer, tag = call.argument_term(1, "dst" if sends else "src"), call.constant(3, "tag", 0)
    else:
        return None
    return _Message(call, sends, peer, tag if isinstance(tag, int) else None)


def _missing_neighbor(program: Program, messages: list[_Message]) -> Iterator[Finding]:
    """Yield a finding where every rank has a message for ``rank + n`` or ``rank - n``: at one end there is none."""
    for one in messages:
        step = _distance(program, one.call, one.peer)
        if not step or not _by_everyone(program, one.call) or one.call.gives(None, "group"):
            continue
        peer, end = f"rank {'+' if step > 0 else '-'} {abs(step)}", "last" if step > 0 else "first"
        yield one.call.found(
            rules.DC709,
            f"every rank gets to `{one.call.text()}`, but the {end} one has no neighbor {peer}",
            fix=f"close the ring: ({peer}) % world_size; or let the {end} rank omit it",
            severity=one.call.milder_in_tests(rules.DC709),
        )
        return


def _distance(program: Program, call: SourceCall, term: int) -> int | None:
    """Return how far a rank is from the own one: 1 for ``rank + 1``."""
    operation = call.terms[term] if term >= 0 else ("-",)
    if operation[0] != "o" or operation[1] not in ("+", "-"):
        return None
    left, right = (program.evaluator.value(call.file, side) for side in operation[2:4])
    if not left.only(Kind.GLOBAL_RANK, Kind.RANK) or not isinstance(right.constant, int):
        return None
    return right.constant if operation[1] == "+" else -right.constant


def _wrong_neighbor(program: Program, sent: list[_Message], received: list[_Message]) -> Iterator[Finding]:
    """Yield a finding where each rank receives from a neighbor that sends it nothing."""
    every = [*sent, *received]
    steps = {one.call.number: _step(program, one) for one in every}
    if None in steps.values() or not all(_by_everyone(program, one.call) for one in every):
        return
    offered = {-(steps[one.call.number] or 0) for one in sent}
    for one in received:
        if (steps[one.call.number] or 0) not in offered:
            yield one.call.found(
                rules.DC709,
                f"`{one.call.text()}` receives from a neighbor that sends this rank nothing: every rank sends to the "
                f"same side, in {sent[0].call.line_name}",
                fix="receive from the other side: what rank + 1 gets comes from rank - 1",
                severity=one.call.milder_in_tests(rules.DC709),
                flow=[sent[0].call.as_step()],
            )
            return


def _step(program: Program, message: _Message) -> int | None:
    """Return how far the other rank is away in a ring: 1 for ``(rank + 1) % world_size``."""
    terms = message.call.terms
    operation = terms[message.peer] if message.peer >= 0 else ("-",)
    if operation[0] != "o" or operation[1] != "%":
        return None
    if not program.evaluator.value(message.call.file, operation[3]).only(Kind.WORLD_SIZE):
        return None
    return _distance(program, message.call, operation[2])


def _wrong_tag(sent: list[_Message], received: list[_Message]) -> Iterator[Finding]:
    """Yield a finding where a function sends and receives with tags of which one has no match."""
    tags = {one.tag for one in sent}
    waiting = {one.tag for one in received}
    if None in tags | waiting or tags <= waiting or waiting <= tags:
        return
    one = next(message for message in received if message.tag not in tags)
    other = next(message for message in sent if message.tag not in waiting)
    yield one.call.found(
        rules.DC709,
        f"`{one.call.text()}` waits for tag {one.tag}, but the messages of this function have other tags: "
        f"`{other.call.text()}` in {other.call.line_name} has tag {other.tag}",
        fix="give the send and its receive the same tag",
        severity=one.call.milder_in_tests(rules.DC709),
        flow=[other.call.as_step()],
    )
