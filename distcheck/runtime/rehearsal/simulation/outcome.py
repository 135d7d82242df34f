"""How the ranks ended, in words: which failed, what was not reached, what could not be simulated."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import NotChecked, grouped, rank_names, rank_ranges
from distcheck.runtime.coordination.root_cause import reports_lost_peer
from distcheck.runtime.coordination.sampling import EXCHANGE, samples_of

from .launcher import ENDED, HUNG, NO_STORE, TIME, UNEVEN, RehearsalResult
from .plan import End, Rehearsal, RehearsalPlan

#: Lines of a rank's output that are shown where it failed.
_LAST_LINES = 12


class SharedFailure(NamedTuple):
    """Ranks that have ended with the same error."""

    ends: tuple[End, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(end.rank for end in self.ends)

    @property
    def who(self) -> str:
        """``rank 1``, ``ranks 0-3``."""
        return rank_names(self.ranks)

    @property
    def text(self) -> str:
        """``rank 1 raised ValueError: no such split at train.py:12, before the first step``."""
        end = self.ends[0]
        place = f" at {end.place}" if end.place else ""
        return f"{self.who} {_how(end)}{place}, {_when(end.steps)}"


def _how(end: End) -> str:
    if end.how == "raised":
        first = end.detail.splitlines()[0] if end.detail else "an exception"
        return f"raised {first}"
    if end.how == "killed":
        try:
            return f"was killed by {signal.Signals(-end.status).name}"
        except ValueError:
            return f"was killed by signal {-end.status}"
    if end.how == "exited":
        return f"ended without an exception (os._exit or exec) with status {end.status}"
    return f"ended with status {end.status}" + (f" ({end.detail})" if end.detail else "")


def _when(steps: int) -> str:
    if not steps:
        return "before the first optimizer step"
    return f"after {steps} optimizer step{'s' * (steps > 1)}"


def failures(ends: Iterable[End]) -> tuple[SharedFailure, ...]:
    """Those that ended with an error of their own; those that only lost another rank where there is no other."""
    bad = [end for end in ends if end.how in ("killed", "exited", "raised") or (end.how == "finished" and end.status)]
    own = [end for end in bad if not reports_lost_peer(end.detail)]
    # the text after the colon may differ from rank to rank; the first one is shown
    groups = grouped(own or bad, lambda end: (end.how, end.status, end.place, end.steps, end.detail.partition(":")[0]))
    return tuple(SharedFailure(tuple(group)) for group in groups.values())


def last_lines(outputs: Sequence[str]) -> list[str]:
    """The end of what a rank has printed.

    :param outputs: its standard output and standard error
    """
    text = outputs[1].strip("\n") or outputs[0].strip("\n")
    # marks below a line of a traceback take space without information
    lines = [line.rstrip() for line in text.split("\n") if set(line.partition("]:")[2] or line) - set(" ~^")]
    shown = lines[-_LAST_LINES:]
    if shown == [""]:
        return []
    return ([f"… {len(lines) - len(shown)} lines before"] if len(lines) > len(shown) else []) + shown


def failure_lines(result: RehearsalResult) -> list[str]:
    """Return a line for each failure, with the last lines of output; empty if no rank failed."""
    found = []
    for failure in failures(result.rehearsal.ends):
        lines = last_lines(outputs_of(result, failure))
        found.append(f"{failure.text}:" if lines else failure.text)
        found += [f"  | {line}" for line in lines]
    return found


def outputs_of(result: RehearsalResult, failure: SharedFailure) -> tuple[str, str]:
    """Standard output and standard error of the first of its ranks, or of the process that started it."""
    rank, plan = failure.ends[0].rank, result.rehearsal.plan
    return result.outputs.get(plan.node_of(rank) if plan.launcher == "script" else rank, ("", ""))


def steps_of(rehearsal: Rehearsal) -> int:
    """Optimizer steps that every rank has done."""
    return min((end.steps for end in rehearsal.ends), default=0)


def not_checked(result: RehearsalResult) -> list[NotChecked]:
    """Return what was not reached, and what could not be simulated or observed."""
    rehearsal = result.rehearsal
    found = [*_not_reached(result), *_not_simulated(rehearsal)]
    for missed in rehearsal.missed:
        what, colon, why = missed.partition(": ")
        found.append(NotChecked(what, why) if colon else NotChecked("rehearsal", missed))
    for row in rehearsal.of("stage.hook_failed"):
        found.append(NotChecked(f"what {row.data['hook']} observes", f"it could not be installed: {row.data['why']}"))
    if any(row.data["how"] == EXCHANGE for row in rehearsal.of("samples.twins")):
        samples = samples_of(rehearsal.of("samples."), rehearsal.plan.world_size)
        if why := samples.unchecked():
            found.append(NotChecked(f"{rules.DC732.code}, the samples of ranks", why))
    lost = {kind for row in rehearsal.of("stage.lost") for kind in row.data["kinds"]}
    if lost:
        found.append(NotChecked(", ".join(sorted(lost)), "more events occurred than were logged"))
    return list(dict.fromkeys(found))


def _not_reached(result: RehearsalResult) -> list[NotChecked]:
    rehearsal, plan = result.rehearsal, result.rehearsal.plan
    done = steps_of(rehearsal)
    rest = _rest(plan, done)
    if result.why == NO_STORE:
        return [NotChecked("rehearsal", "the process that serves the store for torchrun has exited")]
    found = []
    if bad := failures(rehearsal.ends):
        found.append(NotChecked(rest, "; ".join(failure.text for failure in bad)))
    elif result.why == HUNG:
        found.append(NotChecked(rest, "the ranks did not reach it"))
    elif result.why == TIME:
        found.append(NotChecked(rest, f"the {plan.seconds:g} s of --seconds passed"))
    elif result.why == UNEVEN:
        who = rank_ranges(result.unfinished)
        found.append(
            NotChecked(f"steps of ranks {who}", "they were not complete when the others had done twice as many")
        )
    elif result.why == ENDED and rehearsal.ends:
        found += _of_the_end(rehearsal, plan)
    return found


def _rest(plan: RehearsalPlan, done: int) -> str:
    if plan.steps is None or done >= plan.steps:
        return "the rest of the script"
    return f"step {done + 1}" if done + 1 == plan.steps else f"steps {done + 1} to {plan.steps}"


def _of_the_end(rehearsal: Rehearsal, plan: RehearsalPlan) -> list[NotChecked]:
    joined = any(row.data.get("joined") for row in rehearsal.of("stage.end"))
    found = []
    if not joined:
        found.append(NotChecked("collectives", "no rank created a process group: nothing was distributed"))
    if any(end.how == "steps" for end in rehearsal.ends):
        shorter = "" if plan.epoch_steps else "; --epoch-steps 2 --steps 0 reaches it through short epochs"
        done = max(end.steps for end in rehearsal.ends)
        found.append(
            NotChecked(
                "the end of the script",
                f"the ranks were ended after {done} optimizer steps{_of_epoch(rehearsal)}{shorter}",
            )
        )
    elif joined and not steps_of(rehearsal):
        found.append(NotChecked("optimizer steps", "the script ended without a step"))
    return found


def _of_epoch(rehearsal: Rehearsal) -> str:
    """``, 3 of 157 batches of the loop at train.py:30``: of the longest pass over a loader that was not complete."""
    passes = {(row.rank, row.data["number"]): row for row in rehearsal.of_ranks("samples.pass")}
    open_passes = [
        (passes[row.rank, row.data["number"]], row.data["given"])
        for row in rehearsal.of_ranks("samples.open")
        if (row.rank, row.data["number"]) in passes
    ]
    known = [(row.data["length"], given, row.place) for row, given in open_passes if row.data["length"]]
    if not known:
        return ""
    length, given, place = max(known)
    return f", in batch {given} of {length} of the loop at {place}"


def _not_simulated(rehearsal: Rehearsal) -> list[NotChecked]:
    found = []
    for row in rehearsal.of("stage.not_simulated"):
        what = row.data["what"]
        found.append(NotChecked(f"{row.place}: {what}" if row.place else what, row.data["instead"]))
    return found
