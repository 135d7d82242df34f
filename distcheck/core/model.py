"""The values that all of distcheck shares: rule, finding, fix, report.

This module reads nothing from the system and imports no other module of distcheck. So readers, probes, reporters and
plug-ins can all use it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import IntEnum
from typing import Any, Literal, NamedTuple, TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

#: Version of the JSON that reports are written in; it grows when a key changes its meaning or goes away.
SCHEMA_VERSION = 1


class Severity(IntEnum):
    """How serious a finding is. Ordered: ``Severity.ERROR > Severity.WARNING > Severity.INFO``."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """Return ``error``, ``warning`` or ``info``, as users type and read it."""
        return self.name.lower()

    @classmethod
    def parse(cls, word: str) -> Severity:
        """Return the severity of ``error``, ``warning`` or ``info``; raises ValueError for another word."""
        try:
            return cls[word.strip().upper()]
        except KeyError:
            raise ValueError(f"severity {word!r} is none of error, warning, info") from None


class Unavailable(Exception):  # noqa: N818 - it is also a fact ("could not be read"), not only an error
    """A fact that can't be read, and why. Readers raise it. It is saved and shown instead of the fact."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unavailable) and other.why == self.why

    def __hash__(self) -> int:
        return hash((Unavailable, self.why))


class ReaderCrashed(Unavailable):
    """The process that read a fact ended without an answer: what it read broke it."""


class NotApplicable(Unavailable):
    """There is nothing that the fact could describe: no scheduler, no launch that names a port.

    Probes that need such a fact have nothing to check. They are not listed as *not checked*.
    """


class Where(NamedTuple):
    """The location of a finding. Only fields that apply are set. Lines and columns count from 1."""

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
        """Return the fields that are set, by name."""
        return {name: value for name, value in zip(self._fields, self, strict=True) if value is not None}


class Edit(NamedTuple):
    """One replacement in a file, from (line, column) to (end_line, end_column), exclusive. Both count from 1."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


#: Who can apply a fix.
FIX_BY = ("user", "admin", "site")
#: Where a fix must be applied to have an effect.
FIX_WHERE = ("launch-line", "job-script", "each-task", "this-shell", "host", "code")


class Fix(NamedTuple):
    """What to do about a finding.

    ``command`` is set only if the caller may run it, it changes nothing of other users or jobs, and it works at the
    location that ``where`` names. Otherwise it is None, and ``text`` names who can help.
    """

    #: for a person: what to do
    text: str
    #: the line to type
    command: str | None = None
    #: changes of files with the same effect; they may be applied together
    edits: tuple[Edit, ...] = ()
    #: the edits can be applied without a review
    safe: bool = False
    #: who can apply it: ``user``, ``admin`` or ``site``
    by: str = "user"
    #: where it has an effect: ``launch-line``, ``job-script``, ``each-task``, ``this-shell``, ``host`` or ``code``
    where: str = "this-shell"
    #: what it may cost or break; None if nothing is known
    risk: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fix as plain JSON values."""
        return {**self._asdict(), "edits": [edit._asdict() for edit in self.edits]}


class Finding(NamedTuple):
    """One violation of a rule: location, observed values, and the fix for this case.

    :meth:`Rule.found` makes findings. It requires a fix.
    """

    #: of the rule
    code: str
    #: of the rule
    name: str
    #: of this case; it may differ from the rule's default
    severity: Severity
    #: one sentence: what is wrong, with the observed values
    message: str
    #: for this case
    fix: Fix
    where: Where = Where()
    #: the observed values, as plain JSON values; names of quantities end in their unit (``free_bytes``)
    evidence: Mapping[str, Any] = {}

    @property
    def key(self) -> str:
        """Return an identifier without line, host and rank, for baselines and for merging."""
        place = self.where
        parts = (place.path, place.cell, place.variable, place.gpu, place.peer, place.phase, place.object)
        subject = ":".join(str(part) for part in parts if part is not None)
        return f"{self.code}:{subject or self.message}"

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain JSON values, in the order of the published schema."""
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
        """Return a finding from the values of :meth:`as_dict`."""
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
    """Return the address of a rule's page in the documentation."""
    return f"https://distcheck.readthedocs.io/rules/{code}/"


#: At its own level; ``many``: at ``info`` in more than FEW_FILES files, because too few of its findings in public code
#: were judged right; ``info``: always, because it is too often wrong there; ``note``: with ``--preview`` as well,
#: because it is mostly wrong there; ``warning``: as a note, but at most a warning in fewer files, because only its
#: errors are mostly wrong there.
InFolders = Literal["own", "many", "info", "note", "warning"]
#: In so many files a user can read all findings of ``lint``.
FEW_FILES = 10


class Rule(NamedTuple):
    """One thing that can be wrong: one code, one name, one page, and any number of probes that detect it."""

    #: letters and digits; ``DC`` is reserved for distcheck, and plug-ins use other letters
    code: str
    #: words joined by hyphens
    name: str
    #: of a finding that sets no other
    severity: Severity
    #: the checks that can detect it: ``env``, ``ranks``, ``live``, ``lint``, ``launch``, ``pickle``, ``log``
    ways: tuple[str, ...]
    #: one sentence without a full stop
    summary: str
    #: all severities that a finding of this rule may have, with its default
    severities: tuple[Severity, ...]
    #: False: it runs only if it is selected
    on_by_default: bool = True
    #: its level in ``lint``, unless the rule or the file is named
    in_folders: InFolders = "own"

    def found(
        self,
        message: str,
        *,
        fix: Fix,
        where: Where = Where(),
        evidence: Mapping[str, Any] | None = None,
        severity: Severity | None = None,
    ) -> Finding:
        """Return a finding of this rule.

        :param message: one sentence without a full stop: what is wrong, with the observed values
        :param fix: what to do about it, for this case
        :param where: its location; empty if it concerns the whole host or launch
        :param evidence: the observed values, as plain JSON values, names with their unit (``free_bytes``)
        :param severity: a severity other than the default, if the catalogue allows it
        :raises ValueError: without a fix or a message, or for a severity that the catalogue does not list.
            ``info`` is always allowed, because rules about an unplanned launch are at most ``info``
        """
        if not message.strip():
            raise ValueError(f"{self.code}: a finding needs a message")
        if not isinstance(fix, Fix) or not fix.text.strip():
            raise ValueError(f"{self.code}: a finding needs a fix with a text")
        if fix.by not in FIX_BY or fix.where not in FIX_WHERE:
            raise ValueError(
                f"{self.code}: a fix is by one of {FIX_BY} and in one of {FIX_WHERE}, not {fix.by}, {fix.where}"
            )
        level = self.severity if severity is None else severity
        if level not in self.severities and level is not Severity.INFO:
            raise ValueError(f"{self.code}: severity {level.word} is not in the catalogue for this rule")
        return Finding(self.code, self.name, level, message, fix, where, {} if evidence is None else evidence)


class NotChecked(NamedTuple):
    """Something that could not be checked, and why. ``what`` is a list of rule codes or a short phrase."""

    what: str
    why: str


class ProbeRun(NamedTuple):
    """The status of one probe or reader: ``ran``, ``failed``, ``timed-out``, ``not-checked`` or ``not-applicable``."""

    name: str
    status: str
    elapsed_s: float = 0.0
    traceback: str | None = None


class Report(NamedTuple):
    """The result of a run. Reports can be added: ``rank0 + rank1``."""

    #: the command that made it: ``env``, ``lint``, ``log``, …
    command: str
    #: ``shell``, ``planned`` or ``rank``; None for commands that judge no launch
    stage: str | None = None
    #: what was checked, as plain JSON values
    subject: Mapping[str, Any] = {}
    #: worst first; for ``log``, the cause first
    findings: tuple[Finding, ...] = ()
    #: what could not be checked, grouped by reason; it must not be read as passed
    not_checked: tuple[NotChecked, ...] = ()
    probes: tuple[ProbeRun, ...] = ()
    #: facts by the name of their type
    facts: Mapping[str, Any] = {}
    #: seconds
    elapsed_s: float = 0.0
    #: codes of the rules for which at least one probe ran to its end
    checked: frozenset[str] = frozenset()
    #: the caller's time limit was over before all facts were read
    out_of_time: bool = False
    #: what the smoke test measured, as plain JSON values; {} for other commands
    measurements: Mapping[str, Any] = {}
    #: the root-cause summary of a log, as plain JSON values; {} for other commands
    story: Mapping[str, Any] = {}
    #: info findings that only JSON shows; ``-v`` shows them everywhere
    hidden: tuple[Finding, ...] = ()

    def count(self, severity: Severity) -> int:
        """Return how many findings have exactly this severity."""
        return sum(finding.severity is severity for finding in self.findings)

    @property
    def worst(self) -> Severity | None:
        """Return the highest severity of the findings, or None without findings."""
        return max((finding.severity for finding in self.findings), default=None)

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings at or above a severity, worst first."""
        return tuple(finding for finding in self.findings if finding.severity >= severity)

    def as_dict(self, *, with_facts: bool = False) -> dict[str, Any]:
        """Return the report as plain JSON values, in the published shape (``reporters/report.schema.json``).

        :param with_facts: add the facts, as ``-v`` does
        """
        from distcheck._version import __version__

        plain: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "distcheck", "version": __version__},
            "command": self.command,
            "stage": self.stage,
            "subject": dict(self.subject),
            "findings": [finding.as_dict() for finding in (*self.findings, *self.hidden)],
            "not_checked": [item._asdict() for item in self.not_checked],
            "probes": [probe._asdict() for probe in self.probes],
            "summary": {
                "error": self.count(Severity.ERROR),
                "warning": self.count(Severity.WARNING),
                "info": self.count(Severity.INFO) + len(self.hidden),
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

    def as_record(self) -> dict[str, Any]:
        """Return what another process needs to merge this report, as plain JSON values."""
        plain = self.as_dict()
        return {
            **{name: to_plain(plain[name]) for name in ("stage", "subject", "findings", "not_checked", "probes")},
            "elapsed_s": round(self.elapsed_s, 4),
            "checked": sorted(self.checked),
            "out_of_time": self.out_of_time,
        }

    @classmethod
    def from_record(cls, plain: Mapping[str, Any]) -> Report:
        """Reverse :meth:`as_record`; raises KeyError, TypeError or ValueError."""
        return cls(
            "env",
            stage=plain["stage"],
            subject=dict(plain["subject"]),
            findings=tuple(Finding.from_dict(finding) for finding in plain["findings"]),
            not_checked=tuple(NotChecked(**item) for item in plain["not_checked"]),
            probes=tuple(ProbeRun(**item) for item in plain["probes"]),
            elapsed_s=float(plain["elapsed_s"]),
            checked=frozenset(plain["checked"]),
            out_of_time=bool(plain["out_of_time"]),
        )

    def merge(self, *others: Report) -> Report:
        """Return one report of this and others of the same host. Equal findings become one that names all ranks."""
        everyone = (self, *others)
        return self._replace(
            findings=merge_findings(finding for report in everyone for finding in report.findings),
            hidden=merge_findings(finding for report in everyone for finding in report.hidden),
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
    """Return the findings, worst first. Those with equal key, severity and message become one with all their ranks."""
    groups: dict[tuple[str, Severity, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.key, finding.severity, finding.message), []).append(finding)
    merged = []
    for group in groups.values():
        first = group[0]
        ranks = sorted({rank for item in group for rank in ranks_of(item.where)})
        if len(ranks) > 1:
            first = first._replace(where=first.where._replace(rank=None, local_rank=None, ranks=rank_ranges(ranks)))
        merged.append(first)
    return sort_findings(merged)


def merge_not_checked(items: Iterable[NotChecked]) -> tuple[NotChecked, ...]:
    """Return one entry for each reason, with all that it concerns."""
    groups: dict[str, dict[str, None]] = {}
    for item in items:
        groups.setdefault(item.why, {}).update(dict.fromkeys(item.what.split(", ")))
    return tuple(NotChecked(", ".join(sorted(what)), why) for why, what in groups.items())


def ranks_of(where: Where) -> list[int]:
    """Return the ranks of a location."""
    return [*(() if where.rank is None else (where.rank,)), *expand_ranges(where.ranks or "")]


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings sorted by severity, location and code, worst first."""
    return tuple(
        sorted(
            findings,
            key=lambda item: (-item.severity, item.where.path or "", item.where.line or 0, item.code, item.message),
        )
    )


def rank_ranges(ranks: Iterable[int]) -> str:
    """Return ranks as ranges: ``rank_ranges([0, 1, 2, 5]) == "0-2,5"``."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def surplus_ranks(gpus: int, ranks: int) -> str:
    """Return the local ranks without a GPU as a clause: ``local ranks 4-7 have none``."""
    return f"local rank {gpus} has none" if ranks == gpus + 1 else f"local ranks {gpus}-{ranks - 1} have none"


def placement_of(hosts: Mapping[int, str]) -> list[dict[str, str]]:
    """Return the ranks of each host as plain JSON values: ``[{"host": "gpu01", "ranks": "0-7"}]``.

    :param hosts: rank → host; ranks with an empty host are dropped
    """
    by_host = grouped((rank for rank in sorted(hosts) if hosts[rank]), hosts.__getitem__)
    return [{"host": host, "ranks": rank_ranges(ranks)} for host, ranks in by_host.items()]


def size_text(size_bytes: float) -> str:
    """Return ``4 MiB``, ``1.5 KiB`` or ``12 B``."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:g} {unit}" if value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:g} GiB" if value == int(value) else f"{value:.1f} GiB"


def expand_ranges(text: str, below: int = 1 << 20) -> list[int]:
    """Return the numbers of ``0-2,5``, the reverse of :func:`rank_ranges`; parts that are no range are skipped.

    :param below: larger numbers are dropped, and so is what follows as many: a text from elsewhere must not fill memory
    """
    found: list[int] = []
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        # int() takes no more than 4,300 digits
        if low.isdecimal() and (high or low).isdecimal() and max(len(low), len(high)) < 20:
            found.extend(range(int(low), min(int(high or low), below - 1) + 1))
        if len(found) > below:
            break
    return found


def rank_names(ranks: Iterable[int]) -> str:
    """Return ``rank 1`` or ``ranks 0-3``."""
    listed = sorted(set(ranks))
    return f"rank{'s' * (len(listed) != 1)} {rank_ranges(listed)}"


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by their key, both in their order."""
    return grouped_pairs((key(item), item) for item in items)


def grouped_pairs(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Return the second items of pairs by the first, both in their order."""
    found: dict[Key, list[Item]] = {}
    for key, item in pairs:
        if key in found:
            found[key].append(item)
        else:
            found[key] = [item]
    return found


def to_plain(value: Any) -> Any:
    """Return a fact as plain JSON values. Named tuples become objects, sets sorted lists, Unavailable an object."""
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
