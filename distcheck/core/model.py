"""The words that every part of distcheck speaks: rule, finding, fix, report.

Only values stand here, no behaviour that looks at the world, and no import of another module of ours,
so that readers, probes, reporters and plug-ins can all build on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

#: Version of the JSON that reports are written in; it grows when a key changes its meaning or goes away.
SCHEMA_VERSION = 1


class Severity(IntEnum):
    """How bad a finding is. Ordered: ``Severity.ERROR > Severity.WARNING > Severity.INFO``."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """The word that users type and read: ``error``, ``warning`` or ``info``."""
        return self.name.lower()

    @classmethod
    def parse(cls, word: str) -> Severity:
        """Read ``error``, ``warning`` or ``info``; raises ValueError for anything else."""
        try:
            return cls[word.strip().upper()]
        except KeyError:
            raise ValueError(f"severity {word!r} is none of error, warning, info") from None


class Unavailable(Exception):  # noqa: N818 - it is a fact as well ("could not look"), not only an error
    """A fact that can't be had, and why. Readers raise it; it is saved and shown in the fact's place."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unavailable) and other.why == self.why

    def __hash__(self) -> int:
        return hash((Unavailable, self.why))


class NotApplicable(Unavailable):
    """There is nothing that the fact could describe: no scheduler is around, no launch names a port.

    Probes that need such a fact have nothing to look at. That is not the same as *could not look*, and it is not
    listed as *not checked*.
    """


class Where(NamedTuple):
    """The place of a finding. Only what applies is set; lines and columns count from 1."""

    path: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    cell: int | None = None
    variable: str | None = None
    host: str | None = None
    rank: int | None = None
    ranks: str | None = None
    local_rank: int | None = None
    peer: str | None = None
    gpu: str | None = None
    phase: str | None = None
    object: str | None = None
    offset: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fields that are set, by name."""
        return {name: value for name, value in zip(self._fields, self, strict=True) if value is not None}


class Edit(NamedTuple):
    """One replacement in a file: from (line, column) up to (end_line, end_column), exclusive, counted from 1."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


#: Who can carry a fix out.
FIX_BY = ("user", "admin", "site")
#: Where a fix has to be carried out to have an effect.
FIX_WHERE = ("launch-line", "job-script", "each-task", "this-shell", "host", "code")


class Fix(NamedTuple):
    """What to do about a finding.

    ``command`` is given only if the caller may run it, it touches nothing of other users or jobs, and it
    works in the place that ``where`` names; otherwise it is None and ``text`` says who can help.
    """

    #: for a person: what to do
    text: str
    #: the line to type
    command: str | None = None
    #: changes of files that do the same; they may be applied together
    edits: tuple[Edit, ...] = ()
    #: the edits can be applied without a look at them
    safe: bool = False
    #: who can carry it out: ``user``, ``admin`` or ``site``
    by: str = "user"
    #: where it has an effect: ``launch-line``, ``job-script``, ``each-task``, ``this-shell``, ``host`` or ``code``
    where: str = "this-shell"
    #: what it may cost or break; None: nothing that is known
    risk: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fix as plain JSON values."""
        return {**self._asdict(), "edits": [edit._asdict() for edit in self.edits]}


class Finding(NamedTuple):
    """A rule that is broken here: where, the values seen, and the fix for exactly this case.

    Made by :meth:`Rule.found`, which insists on a fix.
    """

    #: of the rule
    code: str
    #: of the rule
    name: str
    #: of this case, which may differ from the rule's default
    severity: Severity
    #: one sentence: what is wrong, with the values seen
    message: str
    #: for exactly this case
    fix: Fix
    where: Where = Where()
    #: the values seen, as plain JSON values; names of quantities end in their unit (``free_bytes``)
    evidence: Mapping[str, Any] = {}

    @property
    def key(self) -> str:
        """Identifies the finding without its line, its host and its rank: for baselines and for merging."""
        place = self.where
        parts = (place.path, place.cell, place.variable, place.gpu, place.peer, place.phase, place.object)
        subject = ":".join(str(part) for part in parts if part is not None)
        return f"{self.code}:{subject or self.message}"

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain JSON values, in the order of the published schema."""
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity.word,
            "message": self.message,
            "where": self.where.as_dict(),
            "evidence": to_plain(self.evidence),
            "fix": self.fix.as_dict(),
            "key": self.key,
            "url": page_url(self.code),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Finding:
        """The reverse of :meth:`as_dict`."""
        fix = dict(plain["fix"])
        fix["edits"] = tuple(Edit(**edit) for edit in fix.get("edits", ()))
        return cls(
            plain["code"],
            plain["name"],
            Severity.parse(plain["severity"]),
            plain["message"],
            Fix(**fix),
            Where(**plain["where"]),
            plain["evidence"],
        )


def page_url(code: str) -> str:
    """Where the page of a rule stands in the documentation."""
    return f"https://distcheck.readthedocs.io/rules/{code}/"


class Rule(NamedTuple):
    """One thing that can be wrong: one code, one name, one page, however many probes can see it."""

    #: letters and digits, ours begin with ``DC``; a plug-in takes letters of its own
    code: str
    #: words joined by hyphens
    name: str
    #: of a finding that says nothing else
    severity: Severity
    #: what can see it: ``env``, ``ranks``, ``live``, ``lint``, ``launch``, ``pickle``, ``log``
    ways: tuple[str, ...]
    #: one sentence without a full stop
    summary: str
    #: every severity that a finding of this rule may have, its default among them
    severities: tuple[Severity, ...]
    #: False: only where it is selected
    on_by_default: bool = True

    def found(
        self,
        message: str,
        *,
        fix: Fix,
        where: Where = Where(),
        evidence: Mapping[str, Any] | None = None,
        severity: Severity | None = None,
    ) -> Finding:
        """Make a finding of this rule.

        :param message: one sentence, no full stop at its end: what is wrong, with the values seen
        :param fix: what to do about it, for exactly this case
        :param where: its place; nothing of it where it concerns the whole host or launch
        :param evidence: the values seen, as plain JSON values, names with their unit (``free_bytes``)
        :param severity: another severity than the default, where the catalogue allows it
        :raises ValueError: without a fix or a message, or for a severity that the catalogue does not list;
            ``info`` is always allowed, since no rule speaks louder about a launch that nobody has planned
        """
        if not message.strip():
            raise ValueError(f"{self.code}: a finding needs a message")
        if not isinstance(fix, Fix) or not fix.text.strip():
            raise ValueError(f"{self.code}: a finding needs a fix that says what to do")
        if fix.by not in FIX_BY or fix.where not in FIX_WHERE:
            raise ValueError(
                f"{self.code}: a fix is by one of {FIX_BY} and in one of {FIX_WHERE}, not {fix.by}, {fix.where}"
            )
        level = self.severity if severity is None else severity
        if level not in self.severities and level is not Severity.INFO:
            raise ValueError(f"{self.code}: severity {level.word} is not in the catalogue for this rule")
        return Finding(self.code, self.name, level, message, fix, where, {} if evidence is None else evidence)


class NotChecked(NamedTuple):
    """Something that could not be looked at, and why. ``what`` is a list of rule codes or a short phrase."""

    what: str
    why: str


class ProbeRun(NamedTuple):
    """What became of one probe or reader: ``ran``, ``failed``, ``timed-out``, ``not-checked`` or ``not-applicable``."""

    name: str
    status: str
    elapsed_s: float = 0.0
    traceback: str | None = None


class Report(NamedTuple):
    """The outcome of a run. Reports add up: ``rank0 + rank1``."""

    #: which command made it: ``env``, ``lint``, ``log``, …
    command: str
    #: ``shell``, ``planned`` or ``rank``; None for commands that judge no launch
    stage: str | None = None
    #: what was looked at, as plain JSON values
    subject: Mapping[str, Any] = {}
    #: worst first; of ``log`` the cause first
    findings: tuple[Finding, ...] = ()
    #: what could not be looked at, grouped by its reason: never to be read as *fine*
    not_checked: tuple[NotChecked, ...] = ()
    probes: tuple[ProbeRun, ...] = ()
    #: facts by the name of their type
    facts: Mapping[str, Any] = {}
    #: seconds
    elapsed_s: float = 0.0
    #: codes of the rules that at least one probe looked for, to its end
    checked: frozenset[str] = frozenset()
    #: the caller's time limit was over before all facts were read
    out_of_time: bool = False
    #: what the smoke test measured, as plain JSON values; {} elsewhere
    measurements: Mapping[str, Any] = {}
    #: what a log tells, as plain JSON values: what happened first, where, why, what it led to; {} elsewhere
    story: Mapping[str, Any] = {}

    def count(self, severity: Severity) -> int:
        """How many findings have exactly this severity."""
        return sum(finding.severity is severity for finding in self.findings)

    @property
    def worst(self) -> Severity | None:
        """The highest severity found, None without findings."""
        return max((finding.severity for finding in self.findings), default=None)

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings at or above a severity, worst first."""
        return tuple(finding for finding in self.findings if finding.severity >= severity)

    def as_dict(self, *, with_facts: bool = False) -> dict[str, Any]:
        """The report as plain JSON values, in the published shape (``reporters/report.schema.json``).

        :param with_facts: with the facts, which ``-v`` adds
        """
        from distcheck._version import __version__

        plain: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "distcheck", "version": __version__},
            "command": self.command,
            "stage": self.stage,
            "subject": dict(self.subject),
            "findings": [finding.as_dict() for finding in self.findings],
            "not_checked": [item._asdict() for item in self.not_checked],
            "probes": [probe._asdict() for probe in self.probes],
            "summary": {
                "error": self.count(Severity.ERROR),
                "warning": self.count(Severity.WARNING),
                "info": self.count(Severity.INFO),
                "elapsed_s": round(self.elapsed_s, 4),
            },
        }
        if self.measurements:
            plain["measurements"] = to_plain(self.measurements)
        if self.story:
            plain["story"] = to_plain(self.story)
        if with_facts:
            plain["facts"] = {name: to_plain(value) for name, value in self.facts.items()}
        return plain

    def merge(self, *others: Report) -> Report:
        """This report and others of the same host in one: equal findings once, with the ranks that saw them."""
        everyone = (self, *others)
        return self._replace(
            findings=merge_findings(finding for report in everyone for finding in report.findings),
            not_checked=merge_not_checked(item for report in everyone for item in report.not_checked),
            probes=tuple(probe for report in everyone for probe in report.probes),
            elapsed_s=max(report.elapsed_s for report in everyone),
            checked=frozenset().union(*(report.checked for report in everyone)),
            out_of_time=any(report.out_of_time for report in everyone),
        )

    def __add__(self, other: object) -> Report:
        if not isinstance(other, Report):
            return NotImplemented
        return self.merge(other)


def merge_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Equal findings (same key, severity and message) become one that names all their ranks; worst first."""
    groups: dict[tuple[str, Severity, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.key, finding.severity, finding.message), []).append(finding)
    merged = []
    for group in groups.values():
        first = group[0]
        ranks = sorted({rank for item in group for rank in _ranks(item.where)})
        if len(ranks) > 1:
            first = first._replace(where=first.where._replace(rank=None, local_rank=None, ranks=rank_ranges(ranks)))
        merged.append(first)
    return sort_findings(merged)


def merge_not_checked(items: Iterable[NotChecked]) -> tuple[NotChecked, ...]:
    """One line for each reason, with everything that it concerns, each once."""
    groups: dict[str, dict[str, None]] = {}
    for item in items:
        groups.setdefault(item.why, {}).update(dict.fromkeys(item.what.split(", ")))
    return tuple(NotChecked(", ".join(sorted(what)), why) for why, what in groups.items())


def _ranks(where: Where) -> list[int]:
    """The ranks of a place; the reverse of :func:`rank_ranges`."""
    named = [] if where.rank is None else [where.rank]
    for part in (where.ranks or "").split(",") if where.ranks else ():
        low, _, high = part.partition("-")
        named.extend(range(int(low), int(high or low) + 1))
    return named


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first, then by place and code."""
    return tuple(
        sorted(
            findings,
            key=lambda item: (-item.severity, item.where.path or "", item.where.line or 0, item.code, item.message),
        )
    )


def rank_ranges(ranks: Iterable[int]) -> str:
    """Ranks in short: ``rank_ranges([0, 1, 2, 5]) == "0-2,5"``."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def to_plain(value: Any) -> Any:
    """A fact as plain JSON values: named tuples become objects, sets sorted lists, Unavailable an object of its own."""
    if isinstance(value, NotApplicable):
        return {"not_applicable": value.why}
    if isinstance(value, Unavailable):
        return {"unavailable": value.why}
    if hasattr(value, "_asdict"):
        return {name: to_plain(part) for name, part in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(name): to_plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted(to_plain(part) for part in value)
    return value
