"""Merges the reports of many hosts: what is equal, what was found on which hosts, who is missing, what to exclude.

Pure: reports and records in, one report out. How records travel is ``exchange.py``; what shows only when hosts are
laid side by side is judged elsewhere and handed in. The text does not grow with the number of hosts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.core.model import (
    Finding,
    NotChecked,
    ProbeRun,
    Report,
    Severity,
    Where,
    grouped_pairs,
    merge_not_checked,
    rank_ranges,
    ranks_of,
    sort_findings,
)
from distcheck.launch.schedulers import expand_hostlist

from .hostlist import compress_hosts, shorten_hosts
from .records import Cluster, HostRecord

#: Hosts that are named one by one in evidence; what they have in common is in the message.
_MOST_NAMED = 4
#: Probes that failed, of all hosts, that the report keeps with their tracebacks.
_MOST_PROBES = 20
#: Rules whose errors are one host's own, unless most hosts have them: hardware and host (DC3xx),
#: network (DC4xx), and the two that distinguish a host from its peers.
_OF_A_HOST = ("DC3", "DC4", "DC503", "DC505")
#: … but for those of the launch: two ranks on a GPU, the port and the address of the rendezvous.
_OF_THE_LAUNCH = frozenset({"DC303", "DC401", "DC402", "DC408", "DC419"})
#: A rule of distcheck's own; those of plug-ins are distinguished by where their fix has to be carried out.
_OWN_CODE = re.compile(r"DC\d{3}")


class HostReport(NamedTuple):
    """What one host, or one task on it, sends."""

    #: its own name
    host: str
    report: Report
    #: compared with the other hosts'; None where it could not be made
    record: HostRecord | None = None
    #: its name by the scheduler, which is what can be excluded
    node: str | None = None
    #: number of the task that sent it, and how many tasks it stands for
    task: int | None = None
    tasks: int = 1
    #: of the launch that was judged, as far as it is known
    backend: str | None = None
    rendezvous: str | None = None
    world_size: int | None = None

    @property
    def name(self) -> str:
        """What the report calls it."""
        return self.node or self.host


class Missing(NamedTuple):
    """Who should have sent something and did not, or nothing that can be read."""

    #: by name
    silent: tuple[str, ...] = ()
    #: how many sent nothing that nothing names
    unnamed: int = 0
    #: name and what is wrong with its record
    damaged: tuple[tuple[str, str], ...] = ()
    #: seconds that were waited for them; None if there was no wait
    waited_s: float | None = None
    #: what ``unnamed`` counts: ``task`` or ``host``
    unit: str = "task"

    @property
    def anyone(self) -> bool:
        """Return whether at least one host was not checked."""
        return bool(self.silent or self.unnamed or self.damaged)

    @property
    def counted(self) -> str:
        """How many of what nothing names."""
        return f"{self.unnamed:,} {self.unit}{'s' * (self.unnamed != 1)}"


# before judging


def one_per_host(reports: Iterable[HostReport]) -> tuple[HostReport, ...]:
    """Merge the reports of several tasks on one host; hosts that share a name get a number.

    A host is known by its name, its boot and its UTS namespace, so that two containers called ``localhost`` stay two.
    Where files do not have the boot id, each is a host: redacted ones may all have one name.
    """
    hosts: dict[tuple[str, str, str], list[HostReport]] = {}
    for number, item in enumerate(reports):
        record = item.record
        boot = "" if record is None else record.boot_id
        if not boot and item.task is None:
            boot = str(number)
        uts = "" if record is None else record.namespaces.get("uts", "")
        hosts.setdefault((item.name, boot, uts), []).append(item)
    used: Counter[str] = Counter()
    joined = []
    for (name, *_), group in hosts.items():
        used[name] += 1
        one = _joined(group)
        label = name if used[name] == 1 else f"{name}#{used[name]}"
        record = None if one.record is None else one.record._replace(host=label)
        joined.append(one._replace(node=label, record=record))
    return tuple(sorted(joined, key=lambda item: _natural(item.name)))


def _joined(group: list[HostReport]) -> HostReport:
    first = group[0]
    if len(group) == 1:
        return first
    records = [item.record for item in group if item.record is not None]
    record = None
    if records:
        ranks = {rank.rank: rank for one in records for rank in one.ranks}
        record = records[0]._replace(ranks=tuple(ranks[number] for number in sorted(ranks)))
    return first._replace(
        report=first.report.merge(*(item.report for item in group[1:])),
        record=record,
        tasks=sum(item.tasks for item in group),
    )


def cluster_of(hosts: Sequence[HostReport], missing: Missing = Missing()) -> Cluster:
    """The records side by side, for the rules that compare them."""
    launched = any(item.report.stage in ("planned", "rank") for item in hosts)
    return Cluster(
        tuple(item.record for item in hosts if item.record is not None),
        backend=_common(item.backend for item in hosts),
        world_size=_common(item.world_size for item in hosts),
        rendezvous=_common(item.rendezvous for item in hosts),
        silent=missing.silent,
        launched=launched,
    )


def silent_hosts(nodes: Sequence[str], hosts: Sequence[HostReport], damaged: Iterable[tuple[str, str]]) -> list[str]:
    """Those of the scheduler's list that nothing came from; names are compared without their domain."""
    heard = {_short(name) for item in hosts for name in (item.name, item.host)}
    heard.update(_short(name) for name, _ in damaged)
    return [name for name in dict.fromkeys(nodes) if _short(name) not in heard]


# the one report


def merge(
    hosts: Sequence[HostReport],
    *,
    judged: Report | None = None,
    missing: Missing = Missing(),
    scheduler: str | None = None,
    elapsed_s: float | None = None,
    note: str = "",
    seen_by_both: Collection[str] = (),
) -> Report:
    """One report of many hosts' (:func:`one_per_host`).

    :param judged: what was found by comparing their records
    :param scheduler: whose option leaves hosts out; None where it is not known
    :param elapsed_s: of all of it; else the longest of the hosts' own
    :param note: a line about how the records came together
    :param seen_by_both: rules that hosts by themselves and the comparison can see: where the comparison has found
        one, the hosts' own findings of it are the same again
    """
    names = [item.name for item in hosts]
    of_cluster = () if judged is None else judged.findings
    compared = {finding.code for finding in of_cluster}.intersection(seen_by_both)
    of_hosts = (
        (item.name, item.host, [finding for finding in item.report.findings if finding.code not in compared])
        for item in hosts
    )
    findings = (*group_findings(of_hosts), *of_cluster)
    not_checked = (
        *_missing_lines(missing),
        *_not_checked(hosts),
        *(() if judged is None else judged.not_checked),
    )
    everything = frozenset.intersection(*(item.report.checked for item in hosts)) if hosts else frozenset()
    # a host that sent nothing was not checked: then no rule was checked everywhere
    checked = frozenset() if missing.anyone else everything | (frozenset() if judged is None else judged.checked)
    subject = _subject(hosts, names, findings, missing, scheduler)
    if note:
        subject["closing"] = [note, *subject["closing"]]
    return Report(
        "env",
        stage=_common(item.report.stage for item in hosts),
        subject=subject,
        findings=sort_findings(findings),
        not_checked=not_checked,
        probes=(*_failed_probes(hosts), *(() if judged is None else judged.probes)),
        elapsed_s=max((item.report.elapsed_s for item in hosts), default=0.0) if elapsed_s is None else elapsed_s,
        checked=checked,
        out_of_time=any(item.report.out_of_time for item in hosts),
    )


def _subject(
    hosts: Sequence[HostReport],
    names: Sequence[str],
    findings: Sequence[Finding],
    missing: Missing,
    scheduler: str | None,
) -> dict[str, Any]:
    subject: dict[str, Any] = {"host": compress_hosts(names), "merged_hosts": len(hosts)}
    for key in ("launcher", "scheduler", "gpus", "driver", "python", "torch", "cuda", "hip", "nccl"):
        if all(key in item.report.subject for item in hosts):
            subject[key] = _common(item.report.subject[key] for item in hosts)
    excluded = hosts_to_leave_out(findings, names, missing)
    subject["silent"] = compress_hosts(missing.silent) if missing.silent else None
    subject["exclude"] = compress_hosts(excluded) if excluded else None
    subject["line"] = [_how_many(len(hosts), missing), *_equal_phrases(hosts)]
    subject["closing"] = [*_closing(missing, subject["exclude"], scheduler)]
    return subject


def _how_many(here: int, missing: Missing) -> str:
    lost = len(missing.silent) + len(missing.damaged)
    if lost:
        return f"{here:,} of {here + lost:,} hosts"
    if missing.unnamed:
        return f"{here:,} host{'s' * (here != 1)}, not all"
    return f"{here:,} host{'s' * (here != 1)}"


def _equal_phrases(hosts: Sequence[HostReport]) -> list[str]:
    """Return what the first lines of all hosts have in common, in their order."""
    seen = Counter(phrase for item in hosts for phrase in dict.fromkeys(_phrases(item)))
    return [phrase for phrase in _phrases(hosts[0]) if seen[phrase] == len(hosts)] if hosts else []


def _phrases(item: HostReport) -> list[str]:
    own = {item.host, item.name, str(item.report.subject.get("host"))}
    return [str(phrase) for phrase in item.report.subject.get("line", ()) if phrase not in own]


def _missing_lines(missing: Missing) -> Iterator[NotChecked]:
    within = "" if missing.waited_s is None else f" within {missing.waited_s:g} s"
    if missing.silent:
        yield NotChecked(compress_hosts(missing.silent), f"sent nothing{within}")
    if missing.unnamed:
        yield NotChecked("hosts that nothing names", f"{missing.counted} sent nothing{within}")
    for why, names in grouped_pairs((why, name) for name, why in missing.damaged).items():
        yield NotChecked(compress_hosts(names), f"what it sent can't be used: {why}")


def _closing(missing: Missing, excluded: str | None, scheduler: str | None) -> Iterator[str]:
    """The last lines of the text: who is missing, and what to paste."""
    within = "" if missing.waited_s is None else f" within {missing.waited_s:g} s"
    if missing.silent:
        yield f"sent nothing{within}: {shorten_hosts(missing.silent)}"
    if missing.unnamed:
        where = ", which nothing names" if missing.unit == "host" else ", on hosts that nothing names"
        yield f"sent nothing{within}: {missing.counted}{where}"
    if missing.damaged:
        yield f"sent what can't be read: {shorten_hosts([name for name, _ in missing.damaged])}"
    if excluded and scheduler in (None, "slurm"):
        yield f"to run without them: --exclude={excluded}"
    elif excluded:
        yield f"to run without them, exclude: {excluded}"


def hosts_to_leave_out(findings: Iterable[Finding], names: Sequence[str], missing: Missing = Missing()) -> list[str]:
    """Return the hosts with errors of their own: an error that most do not share, or no answer.

    None at all where most hosts would have to go: then single hosts are not the cause.
    """
    known = set(names)
    out = set(missing.silent) | {name for name, _ in missing.damaged}
    for finding in findings:
        if finding.severity is not Severity.ERROR or not _is_own(finding) or not finding.where.host:
            continue
        try:
            concerned = known.intersection(expand_hostlist(finding.where.host))
        except ValueError:
            continue
        if len(concerned) * 2 < len(known):
            out |= concerned
    everyone = known | set(missing.silent) | {name for name, _ in missing.damaged}
    return sorted(out, key=_natural) if len(out) * 2 < len(everyone) else []


def _is_own(finding: Finding) -> bool:
    if not _OWN_CODE.fullmatch(finding.code):
        return finding.fix.where == "host"
    return finding.code.startswith(_OF_A_HOST) and finding.code not in _OF_THE_LAUNCH


# findings


class _HostFinding(NamedTuple):
    """A finding on a host."""

    host: str
    finding: Finding


def group_findings(hosts: Iterable[tuple[str, str, Iterable[Finding]]]) -> tuple[Finding, ...]:
    """Findings of many hosts, those that are alike in one, which names its hosts in hostlist syntax.

    Alike are findings of one code and severity about the same variable or file whose messages differ in numbers and
    names of devices and of the host alone, or whose fix is the same.

    :param hosts: of each its name, the name that it calls itself, and its findings
    """
    groups: dict[tuple[Any, ...], list[_HostFinding]] = {}
    masked: dict[str, str] = {}
    for name, own_name, findings in hosts:
        for finding in findings:
            text = finding.message
            for word in dict.fromkeys((name, own_name, _short(own_name))):
                text = text.replace(word, "@")
            shape = masked.get(text)
            if shape is None:
                shape = masked[text] = _MARKED.sub("#", text)
            place = (finding.where.path, finding.where.variable)
            groups.setdefault((finding.code, finding.severity, *place, shape), []).append(_HostFinding(name, finding))
    by_fix: dict[tuple[Any, ...], list[_HostFinding]] = {}
    for key, group in groups.items():
        by_fix.setdefault((*key[:4], group[0].finding.fix.text), []).extend(group)
    return sort_findings(_one_of(group) for group in by_fix.values())


#: Words with a digit in them: numbers, sizes, addresses, names of devices.
_MARKED = re.compile(r"[\w.:-]*\d[\w.:-]*")


def _one_of(group: list[_HostFinding]) -> Finding:
    """The finding that stands for a group: the one that was seen most often, of the first host."""
    usual, _ = Counter(seen.finding.message for seen in group).most_common(1)[0]
    shown = min((seen for seen in group if seen.finding.message == usual), key=lambda seen: _natural(seen.host))
    hosts = sorted({seen.host for seen in group}, key=_natural)
    findings = [seen.finding for seen in group]
    message = usual
    if any(finding.message != usual for finding in findings):
        others = len(hosts) - 1
        more = f"{others:,} more host{'s' * (others != 1)} alike" if others else f"{len(group) - 1} more alike"
        message = f"{usual} (on {shown.host}; {more})" if others else f"{usual} ({more})"
    return shown.finding._replace(
        message=message,
        where=_common_place([finding.where for finding in findings])._replace(host=compress_hosts(hosts)),
        evidence=_common_evidence(group, shown.finding.evidence),
    )


def _common_place(places: list[Where]) -> Where:
    """Return what all locations have in common, with all their ranks."""
    first = places[0]
    if any(place != first for place in places):
        ranks = sorted({rank for place in places for rank in ranks_of(place)})
        alike = {
            name: value
            for name, value in first._asdict().items()
            if all(getattr(place, name) == value for place in places)
        }
        first = Where(**alike)._replace(rank=None, local_rank=None, ranks=rank_ranges(ranks) if ranks else None)
    return first


def _common_evidence(group: list[_HostFinding], shown: Mapping[str, Any]) -> dict[str, Any]:
    """Values that all share; of numbers that differ the least and the greatest; of the rest, what was shown."""
    if len(group) == 1:
        return dict(shown)
    evidence: dict[str, Any] = {}
    for key, value in shown.items():
        values: list[Any] = [seen.finding.evidence.get(key) for seen in group]
        if all(other == value for other in values):
            evidence[key] = value
        elif all(isinstance(other, (int, float)) and not isinstance(other, bool) for other in values):
            evidence[key] = {"lowest": min(values), "highest": max(values)}
        else:
            evidence[key] = value
    gpus: dict[str, str] = {}
    for seen in group:
        if seen.finding.where.gpu is not None and seen.host not in gpus:
            gpus[seen.host] = seen.finding.where.gpu
    if len(set(gpus.values())) > 1:
        evidence["gpu_on_host"] = dict(sorted(gpus.items(), key=lambda item: _natural(item[0]))[:_MOST_NAMED])
    evidence["hosts"] = len({seen.host for seen in group})
    return evidence


# what was not checked


def _not_checked(hosts: Sequence[HostReport]) -> tuple[NotChecked, ...]:
    """One line a reason, with the hosts where it holds unless it does on all."""
    reasons: dict[str, tuple[str, list[str], dict[str, None]]] = {}
    shapes: dict[str, str] = {}
    for item in hosts:
        for entry in item.report.not_checked:
            why = entry.why
            for word in dict.fromkeys((item.name, item.host, _short(item.host))):
                why = why.replace(word, "@")
            shape = shapes.get(why)
            if shape is None:
                shape = shapes[why] = _MARKED.sub("#", why)
            _, names, what = reasons.setdefault(shape, (entry.why, [], {}))
            names.append(item.name)
            what.update(dict.fromkeys(entry.what.split(", ")))
    lines = []
    for why, names, what in reasons.values():
        different = dict.fromkeys(names)
        suffix = "" if len(different) == len(hosts) else f" (on {compress_hosts(different)})"
        lines.append(NotChecked(", ".join(sorted(what)), why + suffix))
    return merge_not_checked(lines)


def _failed_probes(hosts: Sequence[HostReport]) -> tuple[ProbeRun, ...]:
    """Probes that failed, each once: their tracebacks are what their authors need."""
    failed: dict[str, ProbeRun] = {}
    for item in hosts:
        for probe in item.report.probes:
            if probe.status in ("failed", "timed-out"):
                failed.setdefault(probe.name, probe)
    return tuple(failed.values())[:_MOST_PROBES]


# small things


def _common(values: Iterable[Any]) -> Any:
    """The value that all share; None where they differ or there is none."""
    found = list(values)
    return found[0] if found and all(value == found[0] for value in found) else None


def _short(name: str) -> str:
    """A name without its domain; an address stays whole."""
    return name if re.fullmatch(r"[\d.:]+", name) else name.partition(".")[0]


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Orders names as people count: gpu9 before gpu10."""
    return tuple(
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", name) if part
    )
