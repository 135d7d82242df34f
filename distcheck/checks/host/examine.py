"""The main job as a function: a launch and a world in, a report on this process and this host out.

The command line, the Python API and the training job's own pre-flight all call it, so that they can't differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distcheck.core.checker import Checker, Plan
from distcheck.core.model import Report, Unavailable, Where
from distcheck.core.registry import readers
from distcheck.core.world import World
from distcheck.launch.model import Launch
from distcheck.launch.reader import without_credentials
from distcheck.rules import Selection

from .subject import describe

#: Why host facts are not checked for a job that runs on other machines.
ELSEWHERE = Unavailable("this host is not in the job")


def examine(
    launch: Launch,
    world: World | None = None,
    *,
    facts: Mapping[type, object] | None = None,
    selection: Selection | None = None,
    budget_s: float | None = None,
    every_fact: bool = False,
    per: str | None = None,
    plans: dict[Any, Plan] | None = None,
) -> Report:
    """Check this process and this host for a launch.

    :param world: the way to the outside; without one, nothing is collected: only ``facts`` are judged
    :param facts: facts that are already there, by type
    :param budget_s: seconds for all readers together
    :param every_fact: read also the facts that no selected probe needs (to save or to show them)
    :param per: only the probes that judge per ``host`` or per ``process``
    :param plans: where plans are kept between calls that judge many hosts' facts alike
    """
    place = Where(rank=launch.rank, local_rank=launch.local_rank)
    given: dict[type, object] = {**(facts or {}), Launch: launch}
    if not launch.on_this_host:
        given.update((made, ELSEWHERE) for made, reader in readers().items() if reader.of_this_host)
    if world is None:
        known = (frozenset(given), selection, every_fact, per)
        plan = None if plans is None else plans.get(known)
        if plan is None:
            plan = Checker(selection).plan(*given, closed=True, every_fact=every_fact, per=per)
        if plans is not None:
            plans[known] = plan
        report = plan.run(facts=given, budget_s=budget_s, place=place)
    else:
        plan = Checker(selection).plan(type(world), *given, every_fact=every_fact, per=per)
        report = plan.run(world, facts=given, budget_s=budget_s, place=place)
    return finish(report, launch, world)


def finish(report: Report, launch: Launch, world: World | None) -> Report:
    """The report with its stage and its subject."""
    host = "" if world is None else world.host_name()
    shown = without_credentials(launch)
    facts = {**report.facts, Launch.__name__: shown} if Launch.__name__ in report.facts else report.facts
    return report._replace(stage=launch.stage, subject=describe(launch, facts, host), facts=facts)
