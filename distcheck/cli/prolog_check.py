"""The checks of ``distcheck env --profile prolog``, and the rules that drain a node.

They check the node alone, for a job that uses all of its GPUs and NCCL: no variables, launch options, user files or
plug-ins. The entry point with the time limit is :mod:`.prolog_guard`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from distcheck.checks.host.gpus import Gpus
from distcheck.checks.host.software import Software
from distcheck.core.checker import Checker
from distcheck.core.configuration import SITE_FILE, Configuration, ConfigurationError, load
from distcheck.core.model import Report, Severity, Unavailable
from distcheck.core.world import World
from distcheck.launch.model import Launch
from distcheck.rules import Selection, UnknownRule

from . import prolog_words

#: The rules that give status 1 at severity *error*: faults of the hardware or its driver that end every job on these
#: GPUs, and that no user has caused or can fix.
DRAINING = ("DC309", "DC312", "DC313", "DC314")
#: The rules that are reported and never give status 1. A running job may have filled /dev/shm (DC320) or /tmp (DC327),
#: and the other rules only make jobs slow.
WARNING_ONLY = ("DC310", "DC320", "DC327", "DC414", "DC416")
RULES = (*DRAINING, *WARNING_ONLY)

#: The job for which the node is checked: all GPUs of several nodes, with NCCL.
JOB = Launch("planned", nnodes=2, backend="nccl")
#: The installed torch belongs to users, and reading it would search all folders of packages.
_USERS_OWN = Unavailable("what users have installed does not count here")


def check_node(options: prolog_words.PrologOptions, until: float) -> tuple[int, str]:
    """Check this node until then (monotonic seconds). Return the exit status, and the line without its beginning."""
    start = time.monotonic()
    world = World({})
    try:
        configuration = Configuration() if options.isolated else _configuration(world, options.config)
        ignored = _ignored(options.ignore, configuration)
        required = _named(options.must_check)
        if options.must_check and not required:
            return 0, f"{prolog_words.NOT_CHECKED}: --must-check names no rule of this profile"
    except (ConfigurationError, UnknownRule) as error:
        return 0, f"{prolog_words.NOT_CHECKED}: {error}"
    codes = tuple(code for code in RULES if code not in ignored)
    if not codes:
        return 0, f"{prolog_words.NOT_CHECKED}: every rule of this profile is ignored"
    report = examine_node(world, configuration, codes, until - time.monotonic())
    return verdict(report, codes, time.monotonic() - start, required)


def examine_node(
    world: World,
    configuration: Configuration = Configuration(),
    codes: tuple[str, ...] = RULES,
    budget_s: float | None = None,
    *,
    facts: dict[type, object] | None = None,
) -> Report:
    """Return the report on the node itself.

    :param facts: facts that are already read, by type
    """
    given: dict[type, object] = {**(facts or {}), Launch: JOB, Configuration: configuration, Software: _USERS_OWN}
    # no plug-in: it must not decide about a node, nor run as root before every job
    plan = Checker(Selection.of(codes), plug_ins=False).plan(type(world), *given)
    return plan.run(world, facts=given, budget_s=budget_s)


def verdict(
    report: Report, codes: tuple[str, ...], elapsed_s: float, required: frozenset[str] = frozenset()
) -> tuple[int, str]:
    """Return the exit status and the line: the worst finding first, then what was not checked.

    If the driver did not answer, the line is never "ok". If it answers without some values, they are named at the end.

    :param required: rules that also drain the node if they were not checked (``--must-check``)
    """
    loud = [finding for finding in report.findings if finding.severity > Severity.INFO]
    drains = [item for item in loud if item.severity is Severity.ERROR and item.code in DRAINING]
    missed = [code for code in codes if code not in report.checked]
    gpus = report.facts.get(Gpus.__name__)
    if not drains and required:
        unread = [code for code in missed if code in required]
        if unread:
            alike, why = _unseen(unread, report)
            return 1, f"{prolog_words.FAILED}: {alike} not checked: {why}"
        if isinstance(gpus, Gpus) and not gpus.gpus and DRAINING[0] in required:
            return 1, f"{prolog_words.FAILED}: {DRAINING[0]} not checked: the driver is loaded and finds no GPU"
    if loud:
        first = (drains or loud)[0]
        word = prolog_words.FAILED if drains else prolog_words.WARNING
        rest = f" (+{len(loud) - 1} more)" if len(loud) > 1 else ""
        rest += f"; {len(missed)} rule{'s' if len(missed) > 1 else ''} not checked" if missed else ""
        # how much more there is matters more than the end of a long message
        room = prolog_words.LONGEST_LINE - len(prolog_words.NAME)
        head = prolog_words.one_line(f"{word}: {first.code} {first.message}", max(room - len(rest), room // 2))
        return int(bool(drains)), head + rest
    alike, why = _unseen(missed, report)
    if DRAINING[0] in missed or isinstance(gpus, Unavailable):
        return 0, f"{prolog_words.NOT_CHECKED}: {why} ({alike})"
    if isinstance(gpus, Gpus) and not gpus.gpus:
        return 0, f"{prolog_words.NOT_CHECKED}: the driver is loaded and finds no GPU"
    cards = len(gpus.gpus) if isinstance(gpus, Gpus) else 0
    hidden = [code for code in RULES if code not in codes]
    ignored = f"; ignored: {' '.join(hidden)}" if hidden else ""
    seen = f"{cards} GPU{'' if cards == 1 else 's'}, {len(codes) - len(missed)} rules, {elapsed_s:.1f} s"
    unseen = f"; not checked: {alike} ({why})" if missed else ""
    return 0, f"{prolog_words.OK}: {seen}{unseen}{ignored}"


def _unseen(missed: Sequence[str], report: Report) -> tuple[str, str]:
    """Return the codes that were not checked for the first reason, the number of others, and that reason."""
    reasons = {code: item.why for item in report.not_checked for code in item.what.split(", ")}
    why = reasons.get(missed[0], "no probe ran") if missed else ""
    alike = [code for code in missed if reasons.get(code, "no probe ran") == why]
    others = len(missed) - len(alike)
    return " ".join(alike) + (f" and {others} more" if others else ""), why


def _configuration(world: World, path: str | None) -> Configuration:
    """Return the site's configuration, with that of ``--config`` if given; a project's file belongs to a user."""
    if path is not None:
        return load(world, path)
    return load(world, SITE_FILE) if world.exists(SITE_FILE) else Configuration()


def _ignored(options: tuple[str, ...], configuration: Configuration) -> frozenset[str]:
    """Return the codes that an option or the site's file ignores; raises UnknownRule for those of an option."""
    named = _named(options)
    entries: list[str] = []
    for value in configuration.values("ignore"):
        try:
            entries.extend(Selection.of((), (), (value,)).ignore)
        except UnknownRule:
            continue  # a plug-in's rule is not one of this profile
    return named | _of_this_profile(entries)


def _named(options: tuple[str, ...]) -> frozenset[str]:
    """Return the codes of this profile that an option names; raises UnknownRule."""
    return _of_this_profile(Selection.of((), (), options).ignore)


def _of_this_profile(entries: Iterable[str]) -> frozenset[str]:
    return frozenset(code for code in RULES if any(entry == "ALL" or code.startswith(entry) for entry in entries))
