"""Point-to-point messages that wait for each other: every rank sends before it receives, or the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from .program import Program, SourceCall
from .values import PARTIAL, RANKS, Kind, Who

_SEND = "torch.distributed.send"
_RECEIVE = "torch.distributed.recv"


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
            f"every rank {what} here and gets to `{second.text()}` in line {second.line} only afterwards: no rank is "
            f"ready to {then}",
            fix="start one of the two without waiting (`work = dist.isend(…)`, then recv, then `work.wait()`). Or pass "
            "both to dist.batch_isend_irecv, or let even ranks send first and odd ones receive first",
            severity=first.milder_in_tests(rules.DC716),
            flow=[f"{first.path}:{first.line}: {first.text()}", f"{second.path}:{second.line}: {second.text()}"],
        )


def _by_everyone(program: Program, call: SourceCall) -> bool:
    """Return whether all ranks come here in the same way: no condition that could distinguish them."""
    for _, node in call.blocks:
        if node[1] in ("if", "while") or node[1].startswith("exit:"):
            if node[1] == "exit:raise":
                continue
            if program.evaluator.test(call.file, node[2]).who not in (Who.EVERYONE, Who.DISTRIBUTED):
                return False
    return call.entry.who not in PARTIAL and not call.inside("except")


def _peer(call: SourceCall) -> bool:
    """Return whether the other side is reckoned from the own rank: then each rank has another one."""
    name = "dst" if call.is_to(_SEND) else "src"
    value = call.argument(1, name)
    if value is None:
        return False
    return any(atom.kind == Kind.RANK_DEPENDENT or atom.kind in RANKS for atom in value)
