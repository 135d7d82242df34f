"""Plan which probes run on the given facts, read only the facts that they need, and isolate failures.

It knows no topic. Packages register their readers and probes on import, and the checker works on types.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import registry
from .internal_rules import DC901, DC902, DC903
from .model import (
    Finding,
    Fix,
    NotApplicable,
    NotChecked,
    ProbeRun,
    ReaderCrashed,
    Report,
    Unavailable,
    Where,
    merge_not_checked,
    sort_findings,
)
from .registry import Parameter, Probe, Reader
from .selection import Selection

if TYPE_CHECKING:
    import queue

    from . import isolation

#: Packages whose readers and probes check one process and one host.
ENVIRONMENT = ("distcheck.checks.host",)

#: Seconds for one probe of a plug-in.
PLUG_IN_LIMIT_S = 10.0
_REPORT_IT = "run it again with -v, and send the output to the authors of {what}; the other probes ran"


class PlanError(Exception):
    """Probes can't be planned: a fact has no reader, or facts need each other in a cycle."""


class ResolvedStep(NamedTuple):
    """A reader or probe with its resolved parameters."""

    item: Any
    parameters: tuple[Parameter, ...]


class KnownFindings(NamedTuple):
    """What probes found in facts that are the same in this run."""

    #: the types of these facts; a probe that needs another one is run
    facts: frozenset[type]
    #: by the name of the probe; a run adds what other probes of these facts find
    by_probe: dict[str, tuple[Finding, ...]]


class Plan(NamedTuple):
    """The readers and probes that will run. Planning resolves and verifies them; running can be repeated cheaply."""

    command: str
    probes: tuple[ResolvedStep, ...]
    readers: Mapping[type, ResolvedStep]
    #: types that a closed run lacks: they are not given and have no reader
    absent: frozenset[type]
    selection: Selection
    early: tuple[Finding, ...]

    def without_absent(self) -> Plan:
        """Return the plan of the probes whose facts can be had: one event is given, and others have probes as well."""
        kept = tuple(step for step in self.probes if self.absent.isdisjoint(one.type for one in step.parameters))
        return self._replace(probes=kept, absent=frozenset())

    def run(
        self,
        *given: object,
        facts: Mapping[type, object] | None = None,
        budget_s: float | None = None,
        place: Where = Where(),
        known: KnownFindings | None = None,
    ) -> Report:
        """Read the missing facts, run the probes, and return the report.

        :param given: facts; each counts for its own type and its base types
        :param facts: facts by type; a value may be Unavailable
        :param budget_s: seconds for reading all facts; what was not read by then is *not checked*
        :param place: the location of findings of probes *per process*: the rank
        :param known: findings of probes that need not run
        """
        values: dict[type, object] = dict(facts or {})
        for value in given:
            for base in type(value).__mro__:
                if base not in (object, tuple):
                    values.setdefault(base, value)
        return _Run(self, values, budget_s, place, known).report()


class Checker:
    """Choose probes and make plans of them.

    :param selection: the selected rules; by default all that are on
    :param modules: to import for their readers and probes; a package may have a function ``load_probes`` for this
    :param plug_ins: import the modules of the entry-point group ``distcheck.plugins`` as well
    """

    def __init__(
        self, selection: Selection | None = None, *, modules: Iterable[str] = ENVIRONMENT, plug_ins: bool = True
    ) -> None:
        self.selection = Selection() if selection is None else selection
        self.modules = tuple(modules)
        for name in self.modules:
            __import__(name)
            # a package whose readers are also used without probes registers the probes only on demand
            load = getattr(sys.modules[name], "load_probes", None)
            if load is not None:
                load()
        self.early: tuple[Finding, ...] = load_plug_ins() if plug_ins else ()

    def plan(
        self,
        *given: type,
        command: str = "env",
        closed: bool = False,
        every_fact: bool = False,
        also: Iterable[type] = (),
        per: str | None = None,
    ) -> Plan:
        """Resolve which probes run and what they need.

        :param given: the types of the facts that :meth:`Plan.run` will get
        :param command: the command that the report names
        :param closed: read nothing from the system: what can't be derived from the given facts is *not checked*
        :param every_fact: also read facts that no selected probe needs
        :param also: facts to read even if no selected probe needs them
        :param per: only the probes that judge per ``host`` or per ``process``
        :raises PlanError: a fact has no reader, or facts need each other in a cycle
        """
        readers = registry.readers()
        chosen = tuple(
            ResolvedStep(probe, registry.parameters(probe.function))
            for probe in registry.probes()
            if (per is None or probe.per == per)
            and self._is_here(probe, given, closed)
            and any(self.selection.takes(rule) for rule in probe.rules)
        )
        wanted = [*also, *(parameter.type for step in chosen for parameter in step.parameters)]
        if every_fact:
            # a command such as rehearse is given facts without a reader; what derives from them belongs to it alone
            wanted.extend(made for made in readers if _is_within_reach(made, given, readers))
        needed: dict[type, ResolvedStep] = {}
        absent: set[type] | None = set() if closed else None
        for made in wanted:
            self._need(made, given, readers, needed, absent, ())
        return Plan(command, chosen, needed, frozenset(absent or ()), self.selection, self.early)

    def _is_here(self, probe: Probe, given: tuple[type, ...], closed: bool) -> bool:
        """Return whether a probe belongs to this checker. A probe of a plug-in belongs where its facts are."""
        module = probe.function.__module__
        if module.startswith("distcheck."):
            return any(module == name or module.startswith(f"{name}.") for name in self.modules)
        required = [parameter.type for parameter in registry.parameters(probe.function)]
        if not closed or self.modules in ((), ENVIRONMENT):
            # one command alone gives a fact of distcheck that has no reader: the probe belongs to that command
            readers = registry.readers()
            elsewhere = [
                made
                for made in required
                if made.__module__.startswith("distcheck.") and made not in readers
                if not any(issubclass(one, made) for one in given)
            ]
            return not elsewhere
        return any(issubclass(one, made) for one in given for made in required)

    def _need(
        self,
        made: type,
        given: tuple[type, ...],
        readers: Mapping[type, Reader],
        needed: dict[type, ResolvedStep],
        absent: set[type] | None,
        path: tuple[type, ...],
    ) -> None:
        if made in path:
            circle = " → ".join(part.__name__ for part in (*path[path.index(made) :], made))
            raise PlanError(f"facts need each other in a cycle: {circle}")
        if made in needed or any(issubclass(one, made) for one in given):
            return
        reader = readers.get(made)
        if reader is None and absent is not None:
            absent.add(made)
            return
        if reader is None:
            raise PlanError(f"no reader makes the fact {made.__name__}, and it is not given")
        required = registry.parameters(reader.function)
        for parameter in required:
            self._need(parameter.type, given, readers, needed, absent, (*path, made))
        needed[made] = ResolvedStep(reader, required)


def _is_within_reach(
    made: type, given: tuple[type, ...], readers: Mapping[type, Reader], path: tuple[type, ...] = ()
) -> bool:
    """Return whether a fact can be derived from what is given. A cycle is reported when the plan is made."""
    if made in path or any(issubclass(one, made) for one in given):
        return True
    reader = readers.get(made)
    return reader is not None and all(
        _is_within_reach(parameter.type, given, readers, (*path, made))
        for parameter in registry.parameters(reader.function)
    )


def make_selection(
    select: Iterable[str] = (), extend_select: Iterable[str] = (), ignore: Iterable[str] = ()
) -> Selection:
    """Return a selection from what users type, with rules of plug-ins; raises UnknownRule for an unknown rule."""
    entries = (tuple(select), tuple(extend_select), tuple(ignore))
    if not any(entries):
        return Selection()
    load_plug_ins()
    return Selection.of(*entries)


def load_plug_ins() -> tuple[Finding, ...]:
    """Import all plug-ins. Return a finding for each that does not import."""
    found = []
    for name, error in registry.load_plug_ins(entry for entry in sys.path if entry):
        if error is not None:
            found.append(
                DC903.found(
                    f"the plug-in {name} does not import: {type(error).__name__}: {error}",
                    where=Where(object=name),
                    evidence={"error": f"{type(error).__name__}: {error}"},
                    fix=Fix(
                        "fix or uninstall the package that contains it; the built-in probes ran without it",
                        where="host",
                    ),
                )
            )
    return tuple(found)


class _Run:
    """The state of one run."""

    def __init__(
        self,
        plan: Plan,
        facts: dict[type, object],
        budget_s: float | None,
        place: Where,
        known: KnownFindings | None = None,
    ) -> None:
        self.plan = plan
        self.place = place
        self.known = known
        self.start = time.monotonic()
        self.end = None if budget_s is None else self.start + budget_s
        self.facts = facts
        self.findings: list[Finding] = list(plan.early)
        self.not_checked: list[NotChecked] = []
        self.runs: list[ProbeRun] = []
        self.checked: set[str] = set()
        self.out_of_time = False

    def report(self) -> Report:
        for made in self.plan.absent:
            self.facts.setdefault(made, Unavailable("it was not given"))
        self.gather()
        for step in self.plan.probes:
            self.judge(step)
        takes = self.plan.selection.takes
        judged = [rule for step in self.plan.probes for rule in step.item.rules]
        known = {rule.code: rule for rule in (*judged, DC901, DC902, DC903)}
        return Report(
            self.plan.command,
            findings=sort_findings(item for item in self.findings if item.code not in known or takes(known[item.code])),
            not_checked=merge_not_checked(self.not_checked),
            probes=tuple(self.runs),
            facts={
                made.__name__: value
                for made, value in self.facts.items()
                if hasattr(value, "_fields") or isinstance(value, Unavailable)
            },
            elapsed_s=time.monotonic() - self.start,
            checked=frozenset(self.checked),
            out_of_time=self.out_of_time,
        )

    # gathering

    def gather(self) -> None:
        """Read all missing facts: isolated ones in forked children first, then the others in daemon threads."""
        missing = {made: step for made, step in self.plan.readers.items() if made not in self.facts}
        if not missing:
            return
        # a closed run reads nothing, and must not wait for the import of threads and processes
        import queue

        from . import isolation

        answers: queue.SimpleQueue[tuple[type, object, float]] = queue.SimpleQueue()
        deadlines: dict[type, float] = {}
        limits: dict[type, float] = {}
        children: dict[type, isolation.Child] = {}
        # forked before the first thread starts: a child of a threaded process may inherit a lock that is never released
        for made, step in missing.items():
            known = step.item.isolated and all(parameter.type in self.facts for parameter in step.parameters)
            values = [self.facts[part.type] for part in step.parameters] if known else []
            if known and _lacking(step.parameters, values) is None:
                limits[made] = step.item.limit_for(values)
                children[made] = isolation.start(step.item, values)
        for made, child in children.items():
            deadlines[made] = time.monotonic() + limits[made]
            _in_thread(lambda made=made, child=child: answers.put((made, *_timed(child.result))))
        while True:
            self._start_ready(missing, deadlines, limits, answers)
            if not deadlines:
                break
            until = min(deadlines.values())
            if self.end is not None:
                until = min(until, self.end)
            try:
                made, value, elapsed = answers.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                self._give_up_overdue(missing, deadlines, limits)
                continue
            if made in deadlines:
                del deadlines[made]
                self._take(missing[made].item, value, elapsed)
        for child in children.values():
            child.leave()

    def _start_ready(
        self,
        missing: Mapping[type, ResolvedStep],
        deadlines: dict[type, float],
        limits: dict[type, float],
        answers: queue.SimpleQueue[tuple[type, object, float]],
    ) -> None:
        """Start each reader whose facts are there. A reader that lacks a fact is unavailable at once.

        One pass is enough: in a plan, each reader comes after those that it needs.
        """
        for made, step in missing.items():
            if made in self.facts or made in deadlines or any(part.type not in self.facts for part in step.parameters):
                continue
            values = [self.facts[parameter.type] for parameter in step.parameters]
            lacking = _lacking(step.parameters, values)
            if lacking is not None:
                self.facts[made] = lacking
            else:
                limits[made] = step.item.limit_for(values)
                deadlines[made] = time.monotonic() + limits[made]
                _in_thread(
                    lambda made=made, step=step, values=values: answers.put(
                        (made, *_timed(lambda: step.item.function(*values)))
                    )
                )

    def _give_up_overdue(
        self, missing: Mapping[type, ResolvedStep], deadlines: dict[type, float], limits: Mapping[type, float]
    ) -> None:
        now = time.monotonic()
        spent = self.end is not None and now >= self.end
        for made in [made for made, deadline in deadlines.items() if spent or deadline <= now]:
            del deadlines[made]
            reader = missing[made].item
            name = registry.name_of(reader.function)
            if spent:
                self.out_of_time = True
                why = f"the time limit of the whole run was over before {name} answered"
                self.facts[made] = Unavailable(why)
                self.runs.append(ProbeRun(name, "timed-out", now - self.start))
                continue
            why = f"{name} did not answer within {limits[made]:g} s"
            self.facts[made] = Unavailable(why)
            self.runs.append(ProbeRun(name, "timed-out", limits[made]))
            self.findings.append(_unanswered(name, why, {"limit_s": limits[made]}))

    def _take(self, reader: Reader, value: object, elapsed: float) -> None:
        name = registry.name_of(reader.function)
        if isinstance(value, Unavailable):
            self.facts[reader.type] = value
            if isinstance(value, ReaderCrashed):
                self.findings.append(_unanswered(name, f"{name}: {value.why}", {}))
        elif isinstance(value, BaseException):
            trace = _trace(value)
            self.facts[reader.type] = Unavailable(f"{name} failed: {_text(value)}")
            self.runs.append(ProbeRun(name, "failed", elapsed, trace))
            self.findings.append(_failure(name, value))
        else:
            self.facts[reader.type] = value
        self.not_slow(name, elapsed)

    def not_slow(self, name: str, elapsed: float) -> None:
        """List a reader that answered with its seconds, so that a slow start can be explained."""
        if not self.runs or self.runs[-1].name != name:
            self.runs.append(ProbeRun(name, "ran", round(elapsed, 6)))

    # judging

    def judge(self, step: ResolvedStep) -> None:
        probe: Probe = step.item
        values = [self.facts[parameter.type] for parameter in step.parameters]
        lacking = _lacking(step.parameters, values)
        codes = [rule.code for rule in probe.rules if self.plan.selection.takes(rule)]
        if lacking is not None:
            self.not_run(probe, codes, lacking)
            return
        start = time.perf_counter()
        known = self.known
        kept = (
            known.by_probe
            if known is not None and all(parameter.type in known.facts for parameter in step.parameters)
            else None
        )
        own: list[Finding] = []
        try:
            for finding in (
                kept[probe.name] if kept is not None and probe.name in kept else self.found_by(probe, values)
            ):
                if not isinstance(finding, Finding):
                    raise TypeError(f"it yielded {type(finding).__name__}, not a Finding")
                own.append(finding)
                self.findings.append(self.placed(finding) if probe.per == "process" else finding)
        except Unavailable as unavailable:
            self.not_run(probe, codes, unavailable)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - one broken probe must not take the others with it
            self.runs.append(ProbeRun(probe.name, "failed", time.perf_counter() - start, _trace(error)))
            self.findings.append(_failure(probe.name, error))
            self.not_checked.extend(NotChecked(code, f"its probe {probe.name} failed") for code in codes)
        else:
            self.runs.append(ProbeRun(probe.name, "ran", round(time.perf_counter() - start, 6)))
            self.checked.update(codes)
            if kept is not None:
                kept[probe.name] = tuple(own)

    def found_by(self, probe: Probe, values: list[object]) -> Iterator[Finding]:
        """Yield the findings of a probe; a probe of a plug-in has a limit, because it may hang.

        :raises Unavailable: it did not answer, which is a finding
        """
        if probe.function.__module__.startswith("distcheck."):
            yield from probe.function(*values)
            return
        import queue

        found: list[Finding] = []
        ended: queue.SimpleQueue[object] = queue.SimpleQueue()
        _in_thread(lambda: ended.put(_timed(lambda: found.extend(probe.function(*values)))[0]))
        limit_s = PLUG_IN_LIMIT_S if self.end is None else min(PLUG_IN_LIMIT_S, max(0.0, self.end - time.monotonic()))
        try:
            error = ended.get(timeout=limit_s)
        except queue.Empty:
            why = f"{probe.name} did not answer within {limit_s:.1f} s"
            self.findings.append(_unanswered(probe.name, why, {"limit_s": round(limit_s, 1)}))
            error = Unavailable(why)
        yield from tuple(found)
        if isinstance(error, BaseException):
            raise error

    def not_run(self, probe: Probe, codes: list[str], lacking: Unavailable) -> None:
        """Record a probe that lacks a fact: it had nothing to check, or it could not check."""
        if isinstance(lacking, NotApplicable):
            self.runs.append(ProbeRun(probe.name, "not-applicable"))
            return
        self.not_checked.extend(NotChecked(code, lacking.why) for code in codes)
        self.runs.append(ProbeRun(probe.name, "not-checked"))

    def placed(self, finding: Finding) -> Finding:
        """Return the finding with this process's rank, unless it has one."""
        where = finding.where
        if where.rank is not None or where.ranks is not None:
            return finding
        return finding._replace(where=where._replace(rank=self.place.rank, local_rank=self.place.local_rank))


def _lacking(parameters: Iterable[Parameter], values: Iterable[object]) -> Unavailable | None:
    for parameter, value in zip(parameters, values, strict=True):
        if isinstance(value, Unavailable) and not parameter.optional:
            return value
    return None


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - even its text can be broken
        return type(error).__name__


def _unanswered(name: str, why: str, evidence: Mapping[str, object]) -> Finding:
    return DC902.found(
        f"{why}; what depends on it was not checked",
        where=Where(object=name),
        evidence=evidence,
        fix=Fix(
            "check what it reads: a device, a mount or a name server that does not answer makes it hang",
            by="admin",
            where="host",
        ),
    )


def _failure(name: str, error: BaseException) -> Finding:
    return DC901.found(
        f"{name} failed with {_text(error)}",
        where=Where(object=name),
        evidence={"error": _text(error)},
        fix=Fix(_REPORT_IT.format(what="distcheck or of the plug-in that contains it"), where="host"),
    )


def _trace(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _timed(function: Any) -> tuple[object, float]:
    """Return what a function returns or raises, and the seconds that it took."""
    start = time.perf_counter()
    try:
        value = function()
    except BaseException as error:  # noqa: BLE001 - it crosses a thread, and the main thread handles it
        value = error
    return value, time.perf_counter() - start


def _in_thread(function: Any) -> None:
    """Run a function in a daemon thread: a reader that hangs must not keep the process from exiting."""
    import threading

    try:
        threading.Thread(target=function, daemon=True).start()
    except RuntimeError:  # the limit of threads is reached: slower, but read
        function()
