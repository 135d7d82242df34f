"""The Python API of pickle checks: find what can't be pickled in an object, and what loading a file would do.

The command and the library share :class:`Scanner`, so they give the same answer. Each call imports what it needs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotChecked, ProbeRun, Report, Where, sort_findings, to_plain
from distcheck.rules import Selection

if TYPE_CHECKING:
    from distcheck.core.checker import Plan

    from .picklability import PickleReport
    from .picklefile import PickleFile
    from .source_bytes import ByteSource, ScanLimits
    from .verdict import Danger, FileVerdict, Policy

#: From the worst to the best.
VERDICTS = ("dangerous", "malformed", "incomplete", "needs-allow-listing", "safe")
#: Names in a list that a report holds; a file can name as many as it likes.
_LISTED = 1000
_REPORT_IT = "please report it to the authors of distcheck, with its JSON; do not load the file meanwhile"


class FileReport(NamedTuple):
    """What loading one file would do. Nothing of it was loaded."""

    #: as it was named; ``<bytes>`` for bytes
    path: str
    #: in users' words: ``torch zip``, ``pickle``, ``safetensors``, …
    format: str
    #: bytes
    size: int
    #: ``safe``, ``needs-allow-listing``, ``dangerous``, ``malformed`` or ``incomplete``
    verdict: str
    #: one line: the verdict with what it rests on
    sentence: str
    #: what ``torch.load(weights_only=True)`` does: ``accept``, ``import``, ``allowlist`` or ``never``; None where torch
    #: has nothing to do with the file
    weights_only: str | None = None
    #: why ``weights_only`` is not ``accept``; empty where it is
    why: str = ""
    #: what stands in the brackets of ``torch.serialization.add_safe_globals([…])``
    allowlist: tuple[str, ...] = ()
    #: import statements that the allow-list needs
    imports: tuple[str, ...] = ()
    #: modules to import before ``torch.load``
    modules: tuple[str, ...] = ()
    #: calls that must not happen: where, and why
    dangerous: tuple[Danger, ...] = ()
    #: storages by location tag (``cpu``, ``cuda:3``)
    locations: Mapping[str, int] = {}
    #: keys by wrapper's prefix (``module.``)
    prefixes: Mapping[str, int] = {}
    #: names from ``torch.distributed`` that the file holds
    distributed: tuple[str, ...] = ()
    #: False where a limit was reached, or something could not be opened
    complete: bool = True
    #: what was not checked, and why
    unopened: tuple[str, ...] = ()
    #: the result of ``--confirm``: None without it, ``""`` if torch agrees, else how it disagrees
    confirmation: str | None = None
    #: the findings, and what was not checked
    report: Report = Report("pickle")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Worst first."""
        return self.report.findings

    def as_dict(self) -> dict[str, Any]:
        """All but the findings as plain JSON values, as it stands among the ``verdicts`` of a report's subject."""
        answer = None
        if self.weights_only is not None:
            answer = {
                "answer": self.weights_only,
                "allowlist": list(self.allowlist[:_LISTED]),
                "imports": list(self.imports[:_LISTED]),
                "modules": list(self.modules[:_LISTED]),
                "why": self.why,
            }
        return {
            "path": self.path,
            "format": self.format,
            "size_bytes": self.size,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "weights_only": answer,
            "dangers": [
                {
                    "member": danger.member,
                    "offset": danger.offset,
                    "call": danger.call,
                    "why": danger.why,
                    "global": None if danger.what is None else danger.what.path,
                }
                for danger in self.dangerous[:_LISTED]
            ],
            "locations": dict(list(self.locations.items())[:_LISTED]),
            "prefixes": dict(self.prefixes),
            "distributed": list(self.distributed[:_LISTED]),
            "complete": self.complete,
            "unopened": list(self.unopened[:_LISTED]),
            "confirmation": self.confirmation,
        }

    def __str__(self) -> str:
        from distcheck.reporters import render

        return render(summarise((self,), elapsed_s=self.report.elapsed_s), "full").rstrip("\n")


class Scanner:
    """Reads, judges and probes files, one after another, by one policy.

    :param policy: what the caller wants to know
    :param selection: which rules may speak; all that are on by default without one
    :param limits: what one file may cost
    :param plug_ins: let probes of plug-ins judge as well
    """

    def __init__(
        self,
        policy: Policy,
        *,
        selection: Selection | None = None,
        limits: ScanLimits | None = None,
        plug_ins: bool = True,
    ) -> None:
        self.policy = policy
        self.limits = limits
        self.selection = Selection() if selection is None else selection
        self._plug_ins = plug_ins
        self._plan: Plan | None = None

    def plan(self) -> Plan:
        """What runs on each file; made once."""
        if self._plan is None:
            from distcheck.core.checker import Checker

            from .file_probes import JudgedFile

            checker = Checker(
                self.selection, modules=("distcheck.checks.pickles.file_probes",), plug_ins=self._plug_ins
            )
            self._plan = checker.plan(JudgedFile, command="pickle", closed=True)
        return self._plan

    def scan(self, given: str | bytes | ByteSource, path: str | None = None) -> FileReport:
        """Judge one file.

        :param given: a path, the bytes themselves, or a source of bytes
        :param path: how to name a source
        :raises OSError: the file can't be read
        """
        begin = time.monotonic()
        plan = self.plan()
        name = path if path is not None else given if isinstance(given, str) else "<bytes>"
        try:
            file = self._read(given, name)
            from .file_probes import JudgedFile
            from .verdict import judge, purpose_of

            verdict = judge(file, self.policy)
            report = plan.run(JudgedFile(file, verdict, self.policy))
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a file does to us, it is reported of that file, and never "fine"
            return failed(name, f"{type(error).__name__}: {error}", selection=self.selection, error=error)
        return _described(file, verdict, purpose_of(file, self.policy), report, time.monotonic() - begin)

    def _read(self, given: str | bytes | ByteSource, name: str) -> PickleFile:
        from . import files
        from .source_bytes import ScanLimits

        limits = ScanLimits() if self.limits is None else self.limits
        return files.read_file(given, limits, name=name)


def _described(file: PickleFile, verdict: FileVerdict, purpose: str, report: Report, elapsed_s: float) -> FileReport:
    from .file_probes import locations, prefixes

    answer = verdict.weights_only
    unopened = tuple(dict.fromkeys((*file.unopened, *verdict.not_checked)))
    complete = file.complete and not unopened and verdict.word != "incomplete"
    if not complete and not unopened:
        unopened = ("a part of it",)
    report = report._replace(
        facts={},
        elapsed_s=elapsed_s,
        not_checked=(*report.not_checked, *(NotChecked(file.path, why) for why in unopened)),
    )
    return FileReport(
        path=file.path,
        format=file.format,
        size=file.size,
        verdict=verdict.word,
        sentence=_sentence(file, verdict, unopened, purpose),
        weights_only=None if answer is None else answer.answer,
        why="" if answer is None else answer.why,
        allowlist=() if answer is None else answer.allowlist,
        imports=() if answer is None else answer.imports,
        modules=() if answer is None else answer.modules,
        dangerous=verdict.dangers,
        locations=locations(file),
        prefixes=prefixes(file),
        distributed=tuple(dict.fromkeys(found.path for found in verdict.distributed)),
        complete=complete,
        unopened=unopened,
        report=report,
    )


_PACKED = (" in gzip", " in bz2", " in xz", " in lzma", " in zlib", " in zstd")
_ARCHIVES = ("tar archive", "zip archive")


def _sentence(file: PickleFile, verdict: FileVerdict, unopened: tuple[str, ...], purpose: str) -> str:
    """The verdict in a line: ``loads with weights_only=True``."""
    answer = verdict.weights_only
    if verdict.word == "dangerous":
        calls = list(dict.fromkeys(danger.call or danger.why for danger in verdict.dangers))
        more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
        return f"dangerous: {calls[0] if calls else 'do not load it'}{more}"
    if verdict.word == "malformed":
        reasons = [anomaly.what for anomaly in file.anomalies if anomaly.kind in ("disagree", "malformed")]
        reasons += [unresolved.why for unresolved in verdict.malformed]
        if file.storages_absent:
            reasons.append("tensors are missing")
        return f"malformed: {reasons[0] if reasons else 'it can not be read as what it claims to be'}"
    if verdict.word == "incomplete":
        more = f" and {len(unopened) - 1} more" if len(unopened) > 1 else ""
        return f"not all of it could be checked: {unopened[0] if unopened else 'a part of it'}{more}"
    if file.executes_nothing:
        return "safe: nothing in it can run"
    if verdict.word == "safe":
        if answer is not None and answer.answer == "accept":
            return f"loads with weights_only=True{_when(file)}"
        return "safe: names nothing that could do harm"
    return _needs(verdict, purpose)


def _when(file: PickleFile) -> str:
    """What has to be done before torch.load, where the file is one around that of torch."""
    if file.format.endswith(_PACKED):
        return ", once it is unpacked"
    return ", each member by itself" if file.format in _ARCHIVES else ""


def _needs(verdict: FileVerdict, purpose: str) -> str:
    answer = verdict.weights_only
    unknown = len(verdict.untrusted)
    of_unknown = f", {unknown} of unknown code" if unknown else ""
    if purpose == "pickle" or answer is None or answer.answer == "accept":
        return f"runs code that is not on the trusted list: {', '.join(found.path for found in verdict.untrusted[:3])}"
    if answer.answer == "import":
        return f"loads with weights_only=True after import {', '.join(answer.modules)}"
    if answer.answer == "allowlist":
        number = len(answer.allowlist)
        return f"needs allow-listing: {number} name{'s' * (number != 1)}{of_unknown}"
    return f"does not load with weights_only=True: {answer.why}"


def failed(
    path: str, text: str, *, selection: Selection | None = None, error: BaseException | None = None
) -> FileReport:
    """The report on a file whose scan failed because of a bug in distcheck: incomplete, with DC901."""
    trace = None
    if error is not None:
        import traceback

        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    finding = rules.DC901.found(
        f"the scan failed with {text}",
        where=Where(path=path),
        evidence={"error": text},
        fix=Fix(_REPORT_IT, where="host"),
    )
    taken = selection is None or selection.takes(rules.DC901)
    why = f"the scan failed ({text})"
    report = Report(
        "pickle",
        findings=(finding,) if taken else (),
        not_checked=(NotChecked(path, why),),
        probes=(ProbeRun("pickling_api.scan", "failed", traceback=trace),),
    )
    return FileReport(
        path,
        "unknown",
        _size(path),
        "incomplete",
        f"not checked: {why}",
        complete=False,
        unopened=(why,),
        report=report,
    )


def unreadable(path: str, why: str, *, selection: Selection | None = None) -> FileReport:
    """The report on what is named, or stands in a folder that is, and can't be read (DC904)."""
    finding = rules.DC904.found(
        f"can't be checked: {why}",
        where=Where(path=path),
        fix=Fix("name a file that this user can read, or omit it", where="this-shell"),
    )
    taken = selection is None or selection.takes(rules.DC904)
    report = Report("pickle", findings=(finding,) if taken else (), not_checked=(NotChecked(path, why),))
    return FileReport(path, "unreadable", 0, "incomplete", why, complete=False, unopened=(why,), report=report)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def summarise(files: Iterable[FileReport], *, elapsed_s: float = 0.0) -> Report:
    """One report of several files: all findings, and the verdicts in its subject."""
    found = tuple(files)
    findings: list[Finding] = []
    not_checked: dict[str, list[str]] = {}
    runs: dict[tuple[str, str], Any] = {}
    checked: frozenset[str] | None = None
    for file in found:
        report = file.report
        findings.extend(report.findings)
        for item in report.not_checked:
            not_checked.setdefault(item.why, []).append(item.what)
        for run in report.probes:
            known = runs.get((run.name, run.status))
            runs[run.name, run.status] = (
                run
                if known is None
                else known._replace(
                    elapsed_s=known.elapsed_s + run.elapsed_s, traceback=known.traceback or run.traceback
                )
            )
        if file.format != "unreadable":
            # a rule that did not run on one file did not run
            checked = report.checked if checked is None else checked & report.checked
    counts = {word: sum(file.verdict == word for file in found) for word in VERDICTS}
    number = len(found)
    return Report(
        "pickle",
        subject={
            "files": number,
            "verdicts": [file.as_dict() for file in sorted(found, key=_worst_first)],
            "verdict_counts": counts,
            "line": [f"{number} file{'s' * (number != 1)}"],
        },
        findings=sort_findings(findings),
        not_checked=tuple(NotChecked(", ".join(dict.fromkeys(what)), why) for why, what in not_checked.items()),
        probes=tuple(runs.values()),
        elapsed_s=elapsed_s,
        checked=frozenset() if checked is None else checked | {rules.DC904.code},
    )


def _worst_first(file: FileReport) -> tuple[int, str]:
    return VERDICTS.index(file.verdict), file.path


def policy_of(
    *,
    torch_version: str | None = None,
    allow: Iterable[str] = (),
    purpose: str | None = None,
    gpus: int | None = None,
) -> Policy:
    """What the caller wants to know; without a version of torch, the one that is installed counts, if any.

    :raises ValueError: a version of torch that no table is known for, a purpose or a name that can't be read
    """
    from .verdict import Policy

    if purpose not in (None, "weights-only", "pickle"):
        raise ValueError(f"the purpose is {purpose!r}; expected 'weights-only' or 'pickle'")
    names = frozenset(name.strip() for name in allow)
    for name in names:
        if "." not in name or not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"{name!r} is no dotted name; write module.Name, as in argparse.Namespace")
    if gpus is not None and gpus < 0:
        raise ValueError(f"{gpus} GPUs; expected a number from 0")
    return Policy(_torch_version(torch_version), names, purpose, gpus)


def _torch_version(requested: str | None) -> str | None:
    """The version of torch that counts; None for the newest that is known."""
    from .torch_globals import installed_torch_version, known_versions, rules_for

    version = installed_torch_version() if requested is None else requested
    try:
        rules_for(version)
    except ValueError as error:
        if requested is None:
            return None  # a custom build of torch
        known = known_versions()
        raise ValueError(f"{error}; tables are there from {known[0]} to {known[-1]}") from None
    return version


def scan_pickle(
    path_or_bytes: str | os.PathLike[str] | bytes,
    *,
    torch_version: str | None = None,
    allow: Iterable[str] = (),
    purpose: str | None = None,
    gpus: int | None = None,
) -> FileReport:
    """Report what loading a checkpoint or pickle would do. Nothing in it is executed or imported.

    :param path_or_bytes: a file, the folder of a distributed checkpoint, or the bytes themselves
    :param torch_version: the torch that will load it; without one, the installed one, else the newest that is known
    :param allow: globals (``module.Name``) that the caller trusts, as if ``add_safe_globals`` had been called
    :param purpose: what *safe* means: ``weights-only`` or ``pickle``; without one, by the format
    :param gpus: GPUs of the machine that will load it
    :raises OSError: the file can't be read
    :raises ValueError: an argument that can't be read
    """
    policy = policy_of(torch_version=torch_version, allow=allow, purpose=purpose, gpus=gpus)
    given = path_or_bytes if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
    return _scanner(policy).scan(given)


@lru_cache(maxsize=8)
def _scanner(policy: Policy) -> Scanner:
    """Planning costs as much as reading a small file: a loop over many plans once."""
    return Scanner(policy)


def find_unpicklable(
    obj: object,
    *,
    mode: str = "pickle",
    name: str = "obj",
    confirm: bool = False,
    limit: int | None = None,
) -> PickleReport:
    """Every member of an object that can't be pickled, by its path; one walk, no byte is written.

    :param obj: the object; its own ``__reduce__`` and ``__getstate__`` are called, as pickle would call them
    :param mode: who pickles: ``pickle``, ``torch.save``, ``deepcopy``, ``spawn`` or ``collective``
    :param name: what each path begins with
    :param confirm: also run the real pickler without keeping its output, and report where it disagrees
    :param limit: most objects to walk
    :raises ValueError: a mode that does not exist
    """
    from .objects import find_unpicklable as find

    return find(obj, mode=mode, name=name, confirm=confirm, limit=limit)


def assert_picklable(
    obj: object,
    *,
    mode: str = "pickle",
    name: str = "obj",
    confirm: bool = False,
    limit: int | None = None,
) -> None:
    """For tests: an object can be pickled, as :func:`find_unpicklable` sees it.

    :param obj: the object
    :param mode: who pickles: ``pickle``, ``torch.save``, ``deepcopy``, ``spawn`` or ``collective``
    :param name: what each path begins with
    :param confirm: also run the real pickler without keeping its output, and report where it disagrees
    :param limit: most objects to walk
    :raises AssertionError: it can't, or a limit ended the walk; the text names every path with its fix
    :raises ValueError: a mode that does not exist
    """
    report = find_unpicklable(obj, mode=mode, name=name, confirm=confirm, limit=limit)
    if not report.ok:
        raise AssertionError(str(report))


def report_of(found: PickleReport, *, selection: Selection | None = None, elapsed_s: float = 0.0) -> Report:
    """What was found in an object as a report, for all formats."""
    from distcheck.core.checker import Checker

    from .picklability import PickleReport

    checker = Checker(selection, modules=("distcheck.checks.pickles.object_probes",))
    report = checker.plan(PickleReport, command="pickle", closed=True).run(found)
    not_checked = list(report.not_checked)
    if not found.complete:
        not_checked.append(NotChecked(found.name, f"a limit ended the walk after {found.objects} objects"))
    plain = to_plain(found)
    return report._replace(
        facts={},
        elapsed_s=elapsed_s or report.elapsed_s,
        not_checked=tuple(not_checked),
        subject={
            "object": {
                **{key: plain[key] for key in ("name", "mode", "complete", "objects", "confirmation")},
                "ok": found.ok,
                "offenders": plain["offenders"],
                "warnings": plain["warnings"],
            },
            "line": [
                f"{found.name} for {found.mode}",
                f"{found.objects} object{'s' * (found.objects != 1)}",
            ],
        },
    )
