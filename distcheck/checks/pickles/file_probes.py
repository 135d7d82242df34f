"""Probes of files: what loading one would run, what torch refuses, what is broken, and what goes wrong after loading.

They read the fact of a file and its verdict only. No file is opened here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Where
from distcheck.core.registry import probe
from distcheck.core.wording import counted, is_or_are
from distcheck.rules import shared_fixes

from .picklefile import Anomaly, PickleFile
from .verdict import FileVerdict, Policy, WeightsOnly, purpose_of

#: Findings of one rule about one file; a file can be made that has a million reasons.
_MOST = 20
#: Names that a message holds; the evidence has more.
_NAMED = 5
_LISTED = 100
#: Last parts of the names of what is a connection of a process (torch 2.13, ``torch/_C/_distributed_c10d.pyi``).
_CONNECTIONS = frozenset(
    {"ProcessGroup", "Store", "TCPStore", "FileStore", "HashStore", "PrefixStore", "Work", "_World", "Backend"}
)
#: Wrapper → prefix that its ``state_dict`` puts before each key.
_WRAPPERS = {
    "module.": "DistributedDataParallel or DataParallel",
    "_orig_mod.": "torch.compile",
    "_fsdp_wrapped_module.": "FullyShardedDataParallel",
    "_checkpoint_wrapped_module.": "an activation-checkpoint wrapper",
}
_DDP = "torch.nn.parallel.distributed.DistributedDataParallel"
#: What may stand in a line to paste: a dotted name, ``(Class, 'name')``, an import.
_PASTED = r"[^\W\d][\w.]*|\([^\W\d][\w.]*, '[\w.]+'\)|(from [\w.]+ )?import [\w.]+( as \w+)?(, [\w.]+( as \w+)?)*"
#: Locations from which every machine can load.
_ANYWHERE = ("cpu", "meta")


class JudgedFile(NamedTuple):
    """A file with its verdict, and what the caller wanted to know."""

    file: PickleFile
    verdict: FileVerdict
    policy: Policy = Policy()


def locations(file: PickleFile) -> dict[str, int]:
    """How many storages a file requests by location tag (``cpu``, ``cuda:3``), most first."""
    found: dict[str, int] = {}
    for stream in file.streams:
        for storages in stream.trace.storages:
            found[storages.location] = found.get(storages.location, 0) + storages.count
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def prefixes(file: PickleFile) -> dict[str, int]:
    """How many keys begin with a wrapper's prefix, most first."""
    found: dict[str, int] = {}
    for stream in file.streams:
        for prefix, count in stream.trace.keys.prefixes.items():
            if count:
                found[prefix] = found.get(prefix, 0) + count
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


@probe(rules.DC610)
def nothing_dangerous_is_called(judged: JudgedFile) -> Iterator[Finding]:
    """Loading the file calls nothing that is not known to be harmless."""
    dangers = judged.verdict.dangers
    for number, danger in enumerate(dangers[:_MOST]):
        more = len(dangers) - _MOST if number == _MOST - 1 else 0
        also = f" (and {counted(more, 'more call')} like it)" if more > 0 else ""
        call = f"loading it calls {danger.call}: " if danger.call else ""
        yield rules.DC610.found(
            f"{call}{danger.why}{also}",
            where=Where(path=judged.file.path, object=danger.member, offset=danger.offset),
            evidence={
                "call": danger.call,
                "global": None if danger.what is None else danger.what.path,
                "places": len(dangers),
            },
            fix=Fix(
                "do not load this file, and delete it where others may; get safetensors from its author, or a "
                "state_dict that loads with weights_only=True",
                where="code",
            ),
        )


@probe(rules.DC611)
def torch_loads_it_by_default(judged: JudgedFile) -> Iterator[Finding]:
    """Loading needs no code that is not on the trusted list, and ``weights_only=True`` needs no help."""
    verdict = judged.verdict
    if verdict.dangers:  # nothing of it is to be allowed
        return
    answer = verdict.weights_only
    by_torch = purpose_of(judged.file, judged.policy) == "weights-only" and answer is not None
    if answer is not None and by_torch and answer.answer not in ("accept", "unknown") and not _is_broken(judged):
        yield _not_by_default(judged, answer)
    elif verdict.untrusted and (not by_torch or verdict.word == "needs-allow-listing"):
        # also where torch takes its part of a file, and another part is for another reader
        names = [found.path for found in verdict.untrusted]
        yield rules.DC611.found(
            f"loading it runs code that is not on the trusted list: {_some(names)}",
            severity=Severity.ERROR,
            where=Where(path=judged.file.path),
            evidence={"unvouched": names[:_LISTED]},
            fix=Fix(
                f"read that code before you load the file{_allow(names)}; else get plain data from its author "
                "(JSON, safetensors, numpy)",
                where="code",
            ),
        )


def _is_broken(judged: JudgedFile) -> bool:
    """Whether DC612 already reports why the file can't be loaded."""
    return judged.verdict.word == "malformed"


def _not_by_default(judged: JudgedFile, answer: WeightsOnly) -> Finding:
    verdict = judged.verdict
    untrusted = [found.path for found in verdict.untrusted]
    benign = [found.path for found in verdict.benign]
    evidence = {"inert": benign[:_LISTED], "unvouched": untrusted[:_LISTED], "torch": verdict.torch_version}
    where = Where(path=judged.file.path, offset=answer.offset)
    severity = Severity.ERROR if untrusted else Severity.WARNING
    if answer.answer == "import":
        modules = " and ".join(answer.modules)
        return rules.DC611.found(
            f"torch.load refuses it with weights_only=True until {modules} {is_or_are(answer.modules)} imported",
            where=where,
            severity=severity,
            evidence={**evidence, "modules": list(answer.modules)},
            fix=Fix(
                "import it before torch.load",
                command="\n".join(f"import {module}" for module in answer.modules),
                where="code",
            ),
        )
    named = f"code that is not on the trusted list: {_some(untrusted)}" if untrusted else f"{_some(benign)}"
    if answer.answer == "allowlist":
        paste = "paste this before torch.load"
        first = "read the code of these classes first: allowing them lets the file call them; if it is sound"
        return rules.DC611.found(
            f"torch.load refuses it with weights_only=True: it needs {named}",
            where=where,
            severity=severity,
            evidence={**evidence, "allowlist": list(answer.allowlist), "modules": list(answer.modules)},
            fix=Fix(f"{first}, {paste}" if untrusted else f"harmless; {paste}", command=allowing(answer), where="code"),
        )
    why = answer.why or "it holds what torch's restricted unpickler does not know"
    also = f"; it needs {named}" if untrusted else ""
    fix = answer.fix or "save it again with torch.save, as a plain dict of tensors and numbers"
    if untrusted:
        # loading it without the check runs that code
        fix += "; weights_only=False runs the code that it names: only where you have read it"
    return rules.DC611.found(
        f"no allow-list makes torch.load take it with weights_only=True: {why}{also}",
        where=where,
        severity=severity,
        evidence=evidence,
        fix=Fix(fix, where="code"),
    )


def allowing(answer: WeightsOnly) -> str | None:
    """The lines to paste before ``torch.load``; None where none are needed, or where one would be more than names."""
    if not all(re.fullmatch(_PASTED, part) for part in (*answer.modules, *answer.imports, *answer.allowlist)):
        return None
    lines = [f"import {module}" for module in answer.modules]
    lines += [line for line in answer.imports if line not in lines]
    if answer.allowlist:
        lines.append(f"torch.serialization.add_safe_globals([{', '.join(answer.allowlist)}])")
    return "\n".join(lines) or None


@probe(rules.DC612)
def the_file_is_whole(judged: JudgedFile) -> Iterator[Finding]:
    """The container is what it claims to be, all readers see the same in it, and every stream in it ends."""
    file = judged.file
    kinds = {"disagree": Severity.ERROR, "malformed": Severity.ERROR, "note": Severity.INFO}
    listed = [anomaly for anomaly in file.anomalies if anomaly.kind in kinds]
    for anomaly in _worst_first(listed)[:_MOST]:
        yield rules.DC612.found(
            anomaly.what,
            where=Where(path=file.path, object=anomaly.member, offset=anomaly.offset),
            severity=kinds[anomaly.kind],
            evidence={"format": file.format, "kind": anomaly.kind, "size_bytes": file.size},
            fix=_fix(anomaly),
        )
    reported = {(anomaly.what, anomaly.offset) for anomaly in listed}
    broken = [
        unresolved for unresolved in judged.verdict.malformed if (unresolved.why, unresolved.offset) not in reported
    ]
    for unresolved in broken[:_MOST]:
        yield rules.DC612.found(
            unresolved.why,
            where=Where(path=file.path, offset=unresolved.offset),
            evidence={"format": file.format, "kind": "malformed", "size_bytes": file.size},
            fix=shared_fixes.COPY_AGAIN,
        )
    if file.storages_absent:
        number = len(file.storages_absent)
        yield rules.DC612.found(
            f"{counted(number, 'tensor storage')} that it requests {'is' if number == 1 else 'are'} not in it: "
            f"{_some(file.storages_absent)}",
            where=Where(path=file.path),
            evidence={"absent": list(file.storages_absent[:_LISTED]), "size_bytes": file.size},
            fix=shared_fixes.COPY_AGAIN,
        )


def _fix(anomaly: Anomaly) -> Fix:
    if anomaly.fix and anomaly.fix.startswith("git lfs pull"):
        return shared_fixes.FETCH_FROM_LFS
    if anomaly.fix:
        return Fix(anomaly.fix, where="code")
    if anomaly.kind == "disagree":
        return Fix(
            "do not load it: one program would read something else in it than another; get a file from its author "
            "as torch.save writes it",
            where="code",
        )
    if anomaly.kind == "note":
        return Fix("nothing has to be done; a file as torch.save writes it does not have this", where="code")
    return shared_fixes.COPY_AGAIN


def _worst_first(anomalies: list[Anomaly]) -> list[Anomaly]:
    order = ("disagree", "malformed", "note")
    return sorted(anomalies, key=lambda anomaly: order.index(anomaly.kind))


@probe(rules.DC613)
def tensors_load_on_any_machine(judged: JudgedFile) -> Iterator[Finding]:
    """No tensor is pinned to a device that another machine may not have, or that all ranks would share."""
    if judged.verdict.dangers:
        return
    found = locations(judged.file)
    pinned = {tag: count for tag, count in found.items() if tag not in _ANYWHERE}
    if not pinned:
        return
    tags = [f"{count} on {tag}" for tag, count in list(pinned.items())[:_NAMED]]
    if len(pinned) > _NAMED:
        tags.append(f"more on {len(pinned) - _NAMED} other devices")
    number = sum(pinned.values())
    yield rules.DC613.found(
        f"{counted(number, 'tensor storage')} will be put where {'it was' if number == 1 else 'they were'} saved "
        f"({', '.join(tags)}): {_who_is_surprised(pinned, judged.policy.gpus)}",
        where=Where(path=judged.file.path),
        evidence={"locations": dict(list(found.items())[:_LISTED]), "gpus": judged.policy.gpus},
        fix=shared_fixes.load_to_the_cpu(_quoted(judged.file.path)),
    )


def _who_is_surprised(pinned: Mapping[str, int], gpus: int | None) -> str:
    indices = {int(index) for tag in pinned for kind, _, index in [tag.partition(":")] if index.isdecimal()}
    kinds = sorted({tag.partition(":")[0] for tag in pinned})
    if gpus is not None and kinds == ["cuda"]:
        beyond = sorted(index for index in indices if index >= gpus)
        if beyond or gpus == 0:
            number = "no GPU" if gpus == 0 else counted(gpus, "GPU")
            return f"without map_location, torch.load raises on a machine with {number}"
    without = " or ".join("CUDA" if kind == "cuda" else kind for kind in kinds)
    if len(pinned) == 1:
        (tag,) = pinned
        return f"without map_location, every rank that loads it fills {tag}, and torch.load raises without {without}"
    return (
        "without map_location, every rank fills all of these, "
        f"and torch.load raises where one is missing or without {without}"
    )


@probe(rules.DC614)
def keys_are_those_of_the_model(judged: JudgedFile) -> Iterator[Finding]:
    """Keys begin as the model's own parameters do, not with a wrapper's prefix."""
    if judged.verdict.dangers:
        return
    total = sum(stream.trace.keys.total for stream in judged.file.streams)
    for prefix, count in list(prefixes(judged.file).items())[:_MOST]:
        example = next(
            (found for stream in judged.file.streams if (found := stream.trace.keys.examples.get(prefix))), prefix
        )
        wrapper = _WRAPPERS.get(prefix, "a wrapper")
        yield rules.DC614.found(
            f"{count} of {counted(max(total, count), 'key')} begin with {prefix} ({example}): it was saved from "
            f"{wrapper}, and load_state_dict of the bare model misses every one",
            where=Where(path=judged.file.path, object=prefix),
            evidence={"prefix": prefix, "keys": count, "of": total, "example": example},
            fix=shared_fixes.strip_prefix(prefix),
        )


@probe(rules.DC615)
def states_were_saved(judged: JudgedFile) -> Iterator[Finding]:
    """A checkpoint holds states, and not the modules that they belong to."""
    verdict = judged.verdict
    if verdict.dangers or not verdict.modules_saved:
        return
    names = list(dict.fromkeys(call.function.path for call in verdict.modules_saved if call.function is not None))
    first = verdict.modules_saved[0]
    member = next((stream.member for stream in judged.file.streams if first in stream.trace.calls), None)
    group = "; loading a DistributedDataParallel raises where no process group was made before" if _DDP in names else ""
    yield rules.DC615.found(
        f"it holds whole modules, and not their state: {_some(names)}{group}",
        where=Where(path=judged.file.path, object=member, offset=first.offset),
        evidence={"classes": names[:_LISTED]},
        fix=Fix(
            "save the state_dict; a file that you wrote: load it once where its classes are, and save the state",
            command=None
            if judged.file.format in ("tar archive", "zip archive")
            else f"model = torch.load({_quoted(judged.file.path)}, weights_only=False)  # only if you wrote it\n"
            'torch.save(getattr(model, "module", model).state_dict(), "state.pt")',
            where="code",
        ),
    )


@probe(rules.DC602)
def no_process_group_is_in_it(judged: JudgedFile) -> Iterator[Finding]:
    """Nothing in the file is a connection of the process that wrote it."""
    verdict = judged.verdict
    if verdict.dangers:
        return
    names = [found.path for found in verdict.distributed if _is_connection(found.name)]
    if not names:
        return
    place = next(
        (
            (stream.member, naming.offset)
            for stream in judged.file.streams
            for naming in stream.trace.globals
            if naming.what.path in names
        ),
        (None, None),
    )
    yield rules.DC602.found(
        f"it holds {_some(names)}: a connection of the process that wrote it, which no other process has",
        where=Where(path=judged.file.path, object=place[0], offset=place[1]),
        evidence={"classes": names[:_LISTED]},
        fix=Fix(
            "remove it when saving (__getstate__), and make it again with dist.new_group(ranks) after loading",
            where="code",
        ),
    )


def _is_connection(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last in _CONNECTIONS or last.startswith("ProcessGroup")


def _some(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    listed = list(dict.fromkeys(names))
    shown = ", ".join(listed[:_NAMED])
    return shown if len(listed) <= _NAMED else f"{shown} and {len(listed) - _NAMED} more"


def _allow(names: list[str]) -> str:
    """The ``--allow`` options for these names. Empty without plain names of Python, since a shell would read others."""
    plain = [name for name in names if all(part.isidentifier() for part in name.split("."))]
    return f"; allow what you trust with {' '.join(f'--allow {name}' for name in plain[:_NAMED])}" if plain else ""


def _quoted(path: str) -> str:
    """A path as a Python literal in double quotes where that is possible."""
    plain = path.isprintable() and '"' not in path and "\\" not in path
    return f'"{path}"' if plain else ascii(path)
