"""Facts as JSON and back: what one machine looked like, kept in a file and judged on another.

The codec follows the annotations of the facts' own types, so that a fact needs no code of its own here.
"""

from __future__ import annotations

import functools
import json
import re
import types
import typing
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy

from .model import Finding, NotApplicable, NotChecked, ProbeRun, Report, Unavailable, to_plain
from .redaction import mask_all

#: Version of the file; it grows when a fact changes in a way that an older reader would misread.
FACTS_SCHEMA_VERSION = 1


class FactsFileError(ValueError):
    """The file can't be used; the message has the reason and the fix."""


_UNIONS = (typing.Union, types.UnionType)
#: Who can apply a fix, and where it has an effect.
_BY = ("user", "admin", "site")
_PLACES = ("launch-line", "job-script", "each-task", "this-shell", "host", "code")


class _HostRanks(NamedTuple):
    """The ranks of a host, as a report has them."""

    host: str
    ranks: str


#: The subject of a report about hosts and ranks.
_SUBJECT: Mapping[str, Any] = {
    "host": str,
    "line": tuple[str, ...],
    "placement": tuple[_HostRanks, ...],
}


def dump_facts(facts: Mapping[type, object], *, tool_version: str, saved_at: str) -> str:
    """Facts as the text of a facts file."""
    return (
        json.dumps(
            {
                "schema_version": FACTS_SCHEMA_VERSION,
                "kind": "distcheck facts",
                "tool": {"name": "distcheck", "version": tool_version},
                "saved_at": saved_at,
                "facts": {made.__name__: mask_all(to_plain(value)) for made, value in facts.items()},
            },
            indent=1,
            ensure_ascii=True,
        )
        + "\n"
    )


def load_facts(text: str, known: Mapping[str, type]) -> dict[type, object]:
    """Return the facts of the text of a facts file.

    :param known: the types of fact by their names; facts of other names are dropped
    :raises FactsFileError: damaged, of another kind, or of another schema version
    """
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FactsFileError(
            f"it is no JSON ({error}); expected a file that 'distcheck env --save-facts' wrote"
        ) from None
    if not isinstance(plain, dict) or plain.get("kind") != "distcheck facts":
        raise FactsFileError("it is JSON, but no facts file; expected a file that 'distcheck env --save-facts' wrote")
    version = plain.get("schema_version")
    tool = plain.get("tool")
    if version != FACTS_SCHEMA_VERSION:
        tool_version = tool.get("version", "?") if isinstance(tool, dict) else "?"
        newer = isinstance(version, int) and version > FACTS_SCHEMA_VERSION
        advice = "judge it with that distcheck, or newer" if newer else "save the facts again with this distcheck"
        raise FactsFileError(
            f"its schema version is {version!r} (written by distcheck {tool_version}), "
            f"this distcheck reads version {FACTS_SCHEMA_VERSION}; {advice}"
        )
    stored = plain.get("facts")
    if not isinstance(stored, dict):
        raise FactsFileError("its 'facts' are missing or damaged; save the facts again")
    facts: dict[type, object] = {}
    for name, value in stored.items():
        made = known.get(name)
        if made is None:
            continue
        try:
            facts[made] = from_plain(made, value)
        except (TypeError, ValueError, KeyError) as error:
            raise FactsFileError(f"its fact {name!r} is damaged: {error}") from None
    return facts


def from_plain(made: Any, value: Any) -> Any:
    """The reverse of :func:`.model.to_plain` for a value of a given type; raises TypeError or ValueError."""
    return _missing(value) if _is_missing(value) and hasattr(made, "_fields") else _from_plain(made, value)


def _is_missing(value: Any) -> bool:
    return isinstance(value, dict) and (set(value) == {"unavailable"} or set(value) == {"not_applicable"})


def _missing(value: Any) -> Unavailable:
    ((name, why),) = value.items()
    return Unavailable(str(why)) if name == "unavailable" else NotApplicable(str(why))


def _from_plain(made: Any, value: Any) -> Any:
    origin = typing.get_origin(made)
    arguments = typing.get_args(made)
    # a part of a fact is missing only where its type allows that
    if _is_missing(value) and (made in (Any, object) or {Unavailable, NotApplicable}.intersection((made, *arguments))):
        return _missing(value)
    if made is Any or made is object:
        return value
    if origin in _UNIONS:
        if value is None and type(None) in arguments:
            return None
        failures = []
        for argument in arguments:
            if argument is type(None):
                continue
            try:
                return _from_plain(argument, value)
            except (TypeError, ValueError) as error:
                failures.append(str(error))
        raise TypeError("; ".join(failures))
    if origin in (tuple, list, frozenset, set):
        if not isinstance(value, list):
            raise TypeError(f"expected a list, found {value!r:.60}")
        if origin is tuple and arguments[-1:] != (Ellipsis,):
            if len(arguments) != len(value):
                raise TypeError(f"expected {len(arguments)} values, found {len(value)}")
            return tuple(_from_plain(argument, part) for argument, part in zip(arguments, value, strict=True))
        return origin(_from_plain(arguments[0], part) for part in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise TypeError(f"expected an object, found {value!r:.60}")
        # a key of a JSON object is a text
        key_of = int if arguments[0] is int else str
        return {key_of(key): _from_plain(arguments[1], part) for key, part in value.items()}
    if isinstance(made, type) and hasattr(made, "_fields"):
        if not isinstance(value, dict):
            raise TypeError(f"expected an object for {made.__name__}, found {value!r:.60}")
        hints = _hints(made)
        return made(**{name: _from_plain(hints[name], part) for name, part in value.items() if name in hints})
    if isinstance(made, type) and issubclass(made, Enum):
        return made(value)
    if made is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if made is int and isinstance(value, bool):
        raise TypeError("expected a number, found a truth value")
    if isinstance(made, type) and not isinstance(value, made):
        raise TypeError(f"expected {made.__name__}, found {value!r:.60}")
    return value


def checked_report(report: Report, lists: Iterable[str] = ()) -> Report:
    """Return a report that another process wrote; raises TypeError or ValueError if a value has another type.

    Of its subject, only what the checks of hosts and ranks write is kept.

    :param lists: lists of the subject that the caller reads by their types
    """
    findings = tuple(from_plain(Finding, to_plain(finding)) for finding in report.findings)
    for fix in (finding.fix for finding in findings):
        if fix.by not in _BY or fix.where not in _PLACES:
            raise ValueError(f"no fix is by {fix.by!r:.40} at {fix.where!r:.40}")
    subject = {
        name: to_plain(from_plain(kind, to_plain(report.subject[name])))
        for name, kind in _SUBJECT.items()
        if report.subject.get(name) is not None
    }
    subject.update((name, report.subject[name]) for name in lists if isinstance(report.subject.get(name), list))
    return Report(
        from_plain(str, report.command),
        stage=from_plain(str | None, report.stage),
        subject=subject,
        findings=findings,
        not_checked=tuple(from_plain(NotChecked, to_plain(item)) for item in report.not_checked),
        probes=tuple(from_plain(ProbeRun, to_plain(item)) for item in report.probes),
        elapsed_s=from_plain(float, report.elapsed_s),
        checked=from_plain(frozenset[str], list(report.checked)),
        out_of_time=from_plain(bool, report.out_of_time),
        measurements=report.measurements,
    )


@functools.cache
def _hints(made: type) -> dict[str, Any]:
    """The types of a named tuple's fields: working them out takes longer than reading a value."""
    return typing.get_type_hints(made)


def redacted(text: str) -> str:
    """The text of a facts file with names of hosts and users, addresses, and serial numbers replaced.

    Only values are changed, each always to the same word. Addresses stay in their networks (two that shared a /24
    share one afterwards), and what NCCL's rules check (loopback, link-local, Docker's own network) stays as it is.
    """
    plain = json.loads(text)
    return json.dumps(_Redaction(plain.get("facts", {})).apply(plain), indent=1, ensure_ascii=True) + "\n"


class _Redaction:
    """What was replaced by what, so that the same word always becomes the same."""

    #: Keys whose values are no addresses, though they look like some.
    VERSIONS = frozenset(
        {"version", "torch", "cuda", "driver_version", "nccl_packages", "packages", "kernel", "python"}
    )

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.names: dict[str, str] = {}
        self.networks: dict[str, int] = {}
        self.numbers: dict[str, str] = {}
        for name in _names(facts):
            for part in (name, name.split(".")[0]):
                if len(part) > 1 and not re.fullmatch(r"localhost.*|[\d.:]+|none", part):
                    self.names.setdefault(part, f"host-{len(self.names) + 1}")
        words = sorted(self.names, key=len, reverse=True)
        self.pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, words))})(?![\w-])") if words else None

    def apply(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            if set(value) >= {"name", "value"} and isinstance(value["name"], str):
                return {**value, "value": self.apply(value["value"], value["name"])}
            return {name: self.apply(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [self.apply(part, key) for part in value]
        return self.text(value, key) if isinstance(value, str) else value

    def text(self, text: str, key: str) -> str:
        if key == "user" and text not in ("root", ""):
            return "user"
        if key in _NAMING_VARIABLES:
            return re.sub(r"[A-Za-z][\w.-]*", lambda match: self.names.get(match[0], "host"), text)
        if self.pattern is not None:
            text = self.pattern.sub(lambda match: self.names[match[0]], text)
        text = _DOMAINS.sub("host.example", text)
        text = re.sub(r"[\w.+-]+@(?=[\w-]+\.)", "user@", text)
        text = re.sub(r"\bip-\d+-\d+-\d+-\d+\b", "host", text)
        text = _FOLDERS.sub(r"\1user", text)
        text = re.sub(r"\b(GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", self.number, text)
        text = re.sub(r"\b0x[0-9a-fA-F]{12,16}\b", "0x0", text)
        if key not in self.VERSIONS:
            text = re.sub(r"(?<![\d.\w-])(?:\d{1,3}\.){3}\d{1,3}(?![\d.\w-])", self.address, text)
        return re.sub(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])", _replace_v6, text)

    def number(self, match: re.Match[str]) -> str:
        count = len(self.numbers)
        return self.numbers.setdefault(match[0], f"{match[1]}-{count:08d}-0000-0000-0000-000000000000")

    def address(self, match: re.Match[str]) -> str:
        network, last = match[0].rsplit(".", 1)
        if network.split(".")[0] in ("0", "127", "255") or network.startswith(("169.254.", "172.17.")):
            return match[0]
        count = self.networks.setdefault(network, len(self.networks))
        return f"{198 + count // 65536}.{18 + count // 256 % 2}.{count % 256}.{last}"


#: Full names of hosts, by the ends that such names have.
_DOMAINS = lazy(r"(?<![\w-])(?:[\w-]+\.)+(?:com|org|net|edu|gov|io|ai|local|internal|lan|corp|cloud|de|uk|eu|cn)\b")
#: Folders below which the next part of a path is a user's name.
_FOLDERS = lazy(r"(/(?:home|Users|u|users\d*|scratch|work|data|gpfs|lustre|project|projects|nfs)/)(?!user\b)[^/\s:,;]+")
#: Variables whose values are names of hosts, jobs or clusters.
_NAMING_VARIABLES = frozenset(
    {
        "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST", "SLURMD_NODENAME", "SLURM_SUBMIT_HOST",
        "SLURM_CLUSTER_NAME", "SLURM_JOB_NAME", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_TOPOLOGY_ADDR", "HOSTNAME",
        "node_list", "node_name", "rdzv_id", "USER", "LOGNAME",
    }
)  # fmt: skip


def _replace_v6(match: re.Match[str]) -> str:
    """IPv6 addresses, GIDs and MACs keep their first group, which shows their kind, and their number of groups."""
    groups = match[0].split(":")
    if match[0] in ("::", "::1") or not any(groups[1:]):
        return match[0]
    return ":".join([groups[0], *("0" * len(group) for group in groups[1:-1]), "1" if groups[-1] else ""])


def _names(facts: Mapping[str, Any]) -> list[str]:
    """The names of hosts in saved facts: those of the facts themselves, and those that variables and lists give."""
    found = []
    for fact in facts.values():
        for key, value in fact.items() if isinstance(fact, dict) else ():
            if key in ("full_name", "master_addr", "host", "node_name") and isinstance(value, str):
                found.append(value)
            elif key == "name" and isinstance(value, dict) and isinstance(value.get("name"), str):
                found.append(value["name"])
            elif key == "node_list" and isinstance(value, str):
                found.extend(re.findall(r"[A-Za-z][\w.-]*", value))
    return found
