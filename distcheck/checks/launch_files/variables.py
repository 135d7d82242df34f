"""The variables that launch files set: names, values, debugging leftovers, masks, interfaces.

The functions that check a process's environment also check the settings of a launch line. Their findings are moved to
the assignments. ``variable_forwarding.py`` checks whether a variable reaches the ranks.
"""

from __future__ import annotations

import itertools
import re
import shlex
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from distcheck import rules
from distcheck.core.configuration import Configuration
from distcheck.core.model import Edit, Finding, Fix, Severity, Unavailable
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import PEER_ACCESS, SINCE
from distcheck.core.redaction import mask
from distcheck.core.registry import probe
from distcheck.core.spans import Span
from distcheck.core.variable_table import VariableTable
from distcheck.launch.model import LOOPBACK_NAMES, Launch
from distcheck.launch.reader import make_launch
from distcheck.launch.settings import COMMAND, ENVIRONMENT, Settings
from distcheck.launch.settings import Setting as InForce

from .counts import gpus_given, nodes_of, ranks_on_node
from .model import FileSetting, LaunchFile, LaunchFiles, LaunchSite, Nodes
from .peer_access import OF_PEER_ACCESS, why_off, with_reason

if TYPE_CHECKING:
    from distcheck.checks.host.variables import DisabledTransport

#: The masks of CUDA and ROCm.
MASKS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
#: Values that are meant to hide all GPUs.
_NO_GPUS = frozenset({"", "none", "cpu", "void", "null", "off", "nodevfiles"})
#: ``pytorch/pytorch:1.13.1-cuda11.6``, ``nvcr.io/nvidia/pytorch:23.10-py3``, ``pytorch_22.08.sif``, ``torch==2.0.1``
_TORCH_RELEASE = lazy(r"torch(?:[:/_-]|==)v?(?P<major>\d{1,2})\.(?P<minor>\d{1,2})(?!\d)")
_FIRST_BY_MONTH = 17
#: More cards than any mask names; higher indices count as errors only if the nodes are known.
_ANY_CARDS = 1024
#: A file, folder or comment about debugging or measurements: its settings are deliberate.
_DELIBERATE = lazy(
    r"(?i)(?<![a-z])(?:debug\w*|diag(?:nos\w*)?|tests?|testing|bench\w*|profil\w*|repro\w*|smoke|sanity|ablation)(?![a-z])"
    r"|nccl[-_]?tests|(?:all_?reduce|all_?gather|alltoall|broadcast|sendrecv|reduce_scatter)_perf"
)
#: Words of a comment that gives a reason for a setting.
_REASON = lazy(
    r"(?i)\b(?:no|not|without|lacks?|broken|hangs?|bug|because|since|needed|need|requires?d?|workaround|fix(?:es)?|"
    r"ethernet|tcp|pcie|geforce|rtx|wsl|only|avoid\w*|unless|unsupported|cloud|ec2|gcp|azure)\b|n't\b"
    # a language without blanks writes its words next to the number
    r"|(?<![0-9a-z])[345]0[0-9]0(?![0-9a-z])"
)
#: Signs of a placeholder.
_TO_FILL_IN = lazy(r"(?i)[<>{}]|\byour|\bxxx+\b|placeholder|change_?me|\bTODO\b|^[XN]$")
#: Variables of which NCCL refuses unknown words from 2.24 on, and the first torch whose packages need such an NCCL:
#: 2.6.0 needs nvidia-nccl-cu12 2.21.5, 2.7.0 needs 2.26.2.
_STRICT = ("NCCL_ALGO", "NCCL_PROTO")
_STRICT_SINCE = "2.7"
#: Limits of variables per launch line, and of assignments of one variable without a line. More come from generated
#: files.
_MAX_SETTINGS = 1000
#: Limit of the settings of all launch lines of a file.
_MAX_PAIRS = 200_000
_MAX_BATCHES = 200
#: Limit of lines that are searched for other uses of a name.
_MAX_LINES = 20_000
#: Longest corrected line in a fix.
_MAX_LINE_LENGTH = 160


class SettingGroup(NamedTuple):
    """Settings that apply together: those of a launch line, or of a file without one."""

    file: LaunchFile
    site: LaunchSite | None
    settings: Mapping[str, FileSetting]


#: A comment, or a command that only shows values or tests that they are set.
_PRINTS = lazy(r"\s*(#|echo\b|printf\b|:\s)")


@probe(rules.DC110)
def names_are_known(launch_files: LaunchFiles, configuration: Configuration | Unavailable) -> Iterator[Finding]:
    """Every variable with a library's prefix is one that the library reads."""

    def judge(group: SettingGroup, launch: Launch, settings: Settings) -> Iterator[Finding]:
        from distcheck.checks.host.variables import IN_USE, judge_names

        for finding in judge_names(launch, settings, IN_USE):
            setting = group.settings[finding.where.variable or ""]
            # the file may set the option from another variable
            if setting.value is None and "torchrun does not read it" in finding.message:
                continue
            if not _is_read_by(group.file, finding.where.variable or ""):
                yield finding

    yield from _judged(launch_files, configuration, judge, only_known=False)


def _is_read_by(file: LaunchFile, name: str) -> bool:
    """Return whether a script itself uses a variable: not to print it, nor to hand it on under its own name."""
    use = re.compile(rf"(?<!{re.escape(name)}=)(?<!{re.escape(name)}=[\"'])\$\{{?{re.escape(name)}\b")
    return any(use.search(line) and not _PRINTS.match(line) for line in file.lines)


@probe(rules.DC111)
def names_are_current(launch_files: LaunchFiles, configuration: Configuration | Unavailable) -> Iterator[Finding]:
    """No variable is set that libraries have removed or renamed."""

    def judge(group: SettingGroup, launch: Launch, settings: Settings) -> Iterator[Finding]:
        from distcheck.checks.host.variables import IN_USE, judge_age

        for finding in judge_age(settings, IN_USE):
            variable = VariableTable().lookup(finding.where.variable or "")
            if variable is None or variable.owner != "torch" or not _names_old_torch(group.file):
                yield finding

    yield from _judged(launch_files, configuration, judge, only_known=False)


def _names_old_torch(file: LaunchFile) -> bool:
    """Return whether a file names a torch before 2.2, which renamed its variables: an image, a module, a requirement.

    The images of NVIDIA are numbered by month; 24.01 is the first with torch 2.2.
    """
    lines = (line for line in file.lines if not line.lstrip().startswith("#"))
    for match in itertools.chain.from_iterable(map(_TORCH_RELEASE.finditer, lines)):
        release = int(match["major"]), int(match["minor"])
        if release < ((24, 1) if release[0] >= _FIRST_BY_MONTH else (2, 2)):
            return True
    return False


@probe(rules.DC112)
def values_are_understood(launch_files: LaunchFiles, configuration: Configuration | Unavailable) -> Iterator[Finding]:
    """Every value has its intended meaning for the library that reads it."""

    def judge(group: SettingGroup, launch: Launch, settings: Settings) -> Iterator[Finding]:
        from distcheck.checks.host.variables import IN_USE, judge_values

        for finding in judge_values(launch, settings, IN_USE):
            value = group.settings[finding.where.variable or ""].value or ""
            # typographic.py reports quotes of a text
            if _TO_FILL_IN.search(value) or value.startswith(("\u201c", "\u201d", "\u2018", "\u2019")):
                continue
            if finding.where.variable in _STRICT:
                finding = finding._replace(evidence={**finding.evidence, SINCE: _STRICT_SINCE})
            yield finding

    yield from _judged(launch_files, configuration, judge)


@probe(rules.DC113)
def debugging_is_off(launch_files: LaunchFiles, configuration: Configuration | Unavailable) -> Iterator[Finding]:
    """No debugging setting is left on."""

    def judge(group: SettingGroup, launch: Launch, settings: Settings) -> Iterator[Finding]:
        from distcheck.checks.host.variables import IN_USE, judge_debugging

        for finding in judge_debugging(launch, settings, IN_USE):
            setting = group.settings[finding.where.variable or ""]
            gpus = None if group.site is None else gpus_given(group.site)
            # a job without GPUs launches no kernel
            without = gpus is not None and gpus.number == 0
            meant = without or not is_certain(setting, group.site) or is_deliberate(group, setting)
            if group.file.kind == "markdown":
                if setting.reach == "line":
                    continue  # a document shows how to search for an error, with one command
                meant = True
            yield finding._replace(severity=Severity.INFO) if meant else finding

    yield from _judged(launch_files, configuration, judge)


@probe(rules.DC114)
def transports_are_on(
    launch_files: LaunchFiles, nodes: Nodes | Unavailable, configuration: Configuration | Unavailable
) -> Iterator[Finding]:
    """No variable disables a transport of NCCL that the launch could use."""
    stated = nodes if isinstance(nodes, Nodes) else None

    def judge(group: SettingGroup, launch: Launch, settings: Settings) -> Iterator[Finding]:
        from distcheck.checks.host.variables import IN_USE, judge_transports

        def loss(entry: DisabledTransport) -> str | None:
            setting = group.settings[entry.name]
            if not is_certain(setting, group.site) or is_deliberate(group, setting) or has_reason(group.file, setting):
                return None
            if entry.name == "NCCL_IB_DISABLE" and _another_network(group):
                return None
            return _loss(entry, group.site, stated)

        for finding in judge_transports(launch, settings, IN_USE, loss):
            if finding.severity > Severity.INFO and finding.where.variable in OF_PEER_ACCESS:
                why = why_off(group.file.path, group.file.lines)
                # documents may show the reason as well
                open_yet = finding._replace(evidence={**finding.evidence, PEER_ACCESS: True})
                finding = open_yet if why is None else with_reason(finding, why)
            yield finding

    yield from _judged(launch_files, configuration, judge)


@probe(rules.DC204)
def masks_say_what_they_do(launch_files: LaunchFiles, nodes: Nodes | Unavailable) -> Iterator[Finding]:
    """No entry of a mask hides GPUs by mistake."""
    stated = nodes if isinstance(nodes, Nodes) else None

    def found() -> Iterator[tuple[FileSetting, Finding]]:
        for group in groups_of(launch_files):
            for name in MASKS:
                setting = group.settings.get(name)
                if setting is not None and setting.value is not None:
                    yield from ((setting, finding) for finding in _faults_of_mask(group, setting, stated))

    yield from worst_of_each(found())


@probe(rules.DC406)
def interfaces_lead_to_the_nodes(launch_files: LaunchFiles, nodes: Nodes | Unavailable) -> Iterator[Finding]:
    """NCCL_SOCKET_IFNAME names no interface that stays on its node, and one that the nodes have."""
    stated = nodes if isinstance(nodes, Nodes) else None

    def found() -> Iterator[tuple[FileSetting, Finding]]:
        for group in groups_of(launch_files):
            setting = group.settings.get("NCCL_SOCKET_IFNAME")
            if setting is None or setting.value is None or len(setting.value) < 2:
                continue
            # DC112 reports blanks, and placeholders are not checked
            if not _TO_FILL_IN.search(setting.value) and setting.value.strip() == setting.value:
                yield from ((setting, finding) for finding in _wrong_interface(group, setting, stated))

    yield from worst_of_each(found())


def worst_of_each(found: Iterable[tuple[FileSetting, Finding]]) -> Iterator[Finding]:
    """Yield the worst finding of each assignment that several launch lines get; the first of equal ones."""
    worst: dict[Span, Finding] = {}
    for setting, finding in found:
        before = worst.get(setting.span)
        if before is None or _weight(finding) > _weight(before):
            worst[setting.span] = finding
    yield from worst.values()


def _weight(finding: Finding) -> tuple[int, bool]:
    """Return the order of findings: by severity, then by whether the fix has edits."""
    return finding.severity, bool(finding.fix.edits)


# settings and launches


def groups_of(launch_files: LaunchFiles) -> Iterator[SettingGroup]:
    """Yield the settings that concern training, by what applies together; each group once."""
    table = VariableTable()
    for file in launch_files.files:
        reached: set[Span] = set()
        done: set[tuple[object, ...]] = set()
        sites = _first_of(file.sites)
        for site in sites:
            bearing = (
                (name, setting)
                for name, setting in site.settings.items()
                if setting.reaches_processes and table.bears_on_training(name)
            )
            settings = dict(islice(bearing, _MAX_SETTINGS))
            reached.update(setting.span for setting in settings.values())
            known = (
                tuple(setting.span for setting in settings.values()),
                *(site.command.launcher, site.command.nproc, nodes_of(site), ranks_on_node(site), site.command.script),
            )
            if settings and known not in done:
                done.add(known)
                yield SettingGroup(file, site, settings)
        last: dict[str, int] = {}
        for site in sites:
            last[site.span.path] = max(site.span.line, last.get(site.span.path, 0))
        rest: list[dict[str, FileSetting]] = []
        pods = (setting for pod in file.pods for setting in pod.settings)
        for setting in (*file.settings, *pods):
            if setting.span in reached or not setting.reaches_processes or not table.bears_on_training(setting.name):
                continue
            # a setting that no launch line has was unset or replaced before the first line after it
            if setting.certain and setting.reach == "exported" and setting.span.line < last.get(setting.span.path, 0):
                continue
            reached.add(setting.span)
            batch = next((one for one in rest if setting.name not in one), None)
            if batch is None and len(rest) < _MAX_BATCHES:
                rest.append(batch := {})
            if batch is not None and len(batch) < _MAX_SETTINGS:
                batch[setting.name] = setting
        for batch in rest:
            yield SettingGroup(file, None, batch)


def _first_of(sites: Sequence[LaunchSite]) -> Sequence[LaunchSite]:
    """Return the launch lines whose settings are checked: up to a limit for generated files."""
    pairs = 0
    for index, site in enumerate(sites):
        pairs += len(site.settings)
        if pairs > _MAX_PAIRS:
            return sites[:index]
    return sites


def launch_of(group: SettingGroup) -> Launch:
    """Return the launch for a group of settings; a shell if no line is known."""
    site = group.site
    if site is None:
        return Launch(on_this_host=False)
    launch = make_launch({}, command=site.command)
    nodes = nodes_of(site)
    return launch._replace(on_this_host=False, nnodes=nodes, nnodes_max=nodes, nproc=ranks_on_node(site))


def settings_of(group: SettingGroup, known: frozenset[str] = frozenset(), *, only_known: bool = True) -> Settings:
    """Return settings for the functions that check an environment.

    :param known: names from the configuration
    :param only_known: drop settings with an unknown value; otherwise the value is as written
    """
    found = []
    for name, setting in group.settings.items():
        if setting.value is None and only_known:
            continue
        text = setting.written or f"${name}" if setting.value is None else setting.value
        origin = COMMAND if setting.reach == "line" else ENVIRONMENT
        found.append(InForce(name, mask(text, name=name), origin))
    return Settings(tuple(sorted(found)), known=known, files_apply=False)


def _judged(
    launch_files: LaunchFiles,
    configuration: Configuration | Unavailable,
    judge: Callable[[SettingGroup, Launch, Settings], Iterable[Finding]],
    *,
    only_known: bool = True,
) -> Iterator[Finding]:
    """Yield the findings of a function for the environment, at the assignments, each once."""
    own = frozenset() if isinstance(configuration, Unavailable) else frozenset(configuration.values("known-variables"))

    def found() -> Iterator[tuple[FileSetting, Finding]]:
        table = VariableTable().names()
        done: set[Span] = set()
        for group in groups_of(launch_files):
            if not group.settings:
                continue
            # names without a table entry mean the same to every line, and near names are slow to find
            passed = frozenset(name for name, setting in group.settings.items() if setting.span in done)
            settings = settings_of(group, own | passed, only_known=only_known)
            for finding in judge(group, launch_of(group), settings):
                setting = group.settings.get(finding.where.variable or "")
                if setting is not None:
                    yield setting, _in_place(finding, setting, group, own)
            done.update(setting.span for name, setting in group.settings.items() if name not in table)

    yield from worst_of_each(found())


# locations and fixes


def at_assignment(setting: FileSetting, finding: Finding) -> Finding:
    """Return the finding at the assignment."""
    return finding._replace(where=setting.span.where(variable=setting.name, object=finding.where.object))


def _in_place(finding: Finding, setting: FileSetting, group: SettingGroup, own: frozenset[str]) -> Finding:
    evidence = {name: value for name, value in finding.evidence.items() if name not in ("origin", "installed")}
    evidence["reach"] = setting.reach
    fix = finding.fix
    made = (
        _renamed(finding, setting, group, own)
        or _revalued(finding, setting, group)
        or Fix(fix.text, where="code" if fix.where == "code" else _where_of(setting))
    )
    return at_assignment(setting, finding._replace(evidence=evidence, fix=made))


def _where_of(setting: FileSetting) -> str:
    return "launch-line" if setting.reach == "line" else "job-script"


def _renamed(finding: Finding, setting: FileSetting, group: SettingGroup, own: frozenset[str]) -> Fix | None:
    """Return the fix that renames the assignment, if nothing else has to change."""
    new = finding.evidence.get("meant" if finding.code == rules.DC110.code else "successor")
    if finding.code not in (rules.DC110.code, rules.DC111.code) or not isinstance(new, str):
        return None
    if finding.code == rules.DC110.code and "is read" not in finding.message:
        return None  # what is meant has another value
    if "has no effect" in finding.message or "differ; the new name" in finding.message:
        return None  # removed long ago: its replacement is not a new name
    if new in group.settings or not _stands_alone(setting, group.file):
        return None
    edit = _edit_of(setting.name_span, new, setting.name, group.file)
    if edit is None or _would_be_found(new, setting, group, own):
        return None
    line = corrected_line(group.file, (edit,))
    text = f"call it {new}" + (f": {line}" if line else "")
    if finding.code == rules.DC110.code:
        text += "; a name of your own belongs in 'known-variables' of the configuration"
    safe = _is_read_by_now(finding)
    risk = None if safe else "releases from before the new name overlook it"
    return Fix(text, edits=(edit,), safe=safe, where=_where_of(setting), risk=risk)


def _is_read_by_now(finding: Finding) -> bool:
    """Return whether the releases in use read the new name."""
    from distcheck.checks.host.software import version_numbers
    from distcheck.checks.host.variables import IN_USE

    if finding.code != rules.DC111.code:
        return True
    variable = VariableTable().lookup(str(finding.evidence.get("successor")))
    oldest = None if variable is None else IN_USE.at_least(variable.owner)
    since = version_numbers(str(finding.evidence.get("since") or ""))
    return oldest is not None and () < since <= oldest


def _would_be_found(new: str, setting: FileSetting, group: SettingGroup, own: frozenset[str]) -> bool:
    """Return whether the setting would be reported under its new name as well."""
    from distcheck.checks.host import variables as judges

    if setting.value is None:
        return new in judges.FLAGGED
    renamed = SettingGroup(group.file, group.site, {new: setting._replace(name=new)})
    settings, launch = settings_of(renamed, own), launch_of(group)
    found = (
        judges.judge_names(launch, settings, judges.IN_USE),
        judges.judge_age(settings, judges.IN_USE),
        judges.judge_values(launch, settings, judges.IN_USE),
        judges.judge_debugging(launch, settings, judges.IN_USE),
        judges.judge_transports(launch, settings, judges.IN_USE, lambda entry: None),
    )
    return any(True for one in found for _ in one)


def _stands_alone(setting: FileSetting, file: LaunchFile) -> bool:
    """Return whether the file uses the name only once."""
    if len(file.lines) > _MAX_LINES:
        return False
    pattern = re.compile(rf"(?<![\w]){re.escape(setting.name)}(?![\w])")
    used = sum(
        len(pattern.findall(line)) for line in file.lines if setting.name in line and not line.lstrip().startswith("#")
    )
    return used == 1


def _revalued(finding: Finding, setting: FileSetting, group: SettingGroup) -> Fix | None:
    """Return the fix with the intended value, if the finding's own fix has it."""
    command = finding.fix.command or ""
    if finding.code != rules.DC112.code or not command.startswith(f"export {setting.name}="):
        return None
    value = command.partition("=")[2]
    edit = value_edit(setting, value, group.file)
    if edit is None:
        return None
    line = corrected_line(group.file, (edit,))
    shows = f"{setting.name}={value}" in finding.fix.text
    text = finding.fix.text + (f": {line}" if line and not shows else "")
    risk = "what was not taken as it was meant will be, and changes what the job does"
    return Fix(text, edits=(edit,), where=_where_of(setting), risk=risk)


def value_edit(setting: FileSetting, value: str, file: LaunchFile) -> Edit | None:
    """Return the edit that changes the value of a setting and keeps its quotes, or None."""
    written = setting.written
    quote = written[:1] if written[:1] in ("'", '"') and written[-1:] == written[:1] else ""
    if not quote and setting.reach in ("container", "workflow"):
        quote = '"'  # a number in YAML is no text
    new = f"{quote}{value}{quote}" if quote else shlex.quote(value)
    return _edit_of(setting.value_span, new, written, file)


def _edit_of(span: Span | None, new: str, old: str, file: LaunchFile) -> Edit | None:
    """Return the edit of a range of one line, or None if the file does not contain the old text there."""
    if span is None or span.path != file.path or span.line != span.end_line or not 1 <= span.line <= len(file.lines):
        return None
    if file.lines[span.line - 1][span.column - 1 : span.end_column - 1] != old:
        return None
    return span.replaced_by(new)


def corrected_line(file: LaunchFile, edits: Iterable[Edit]) -> str | None:
    """Return the edited line for a fix, or None if it is long or holds a credential.

    A continued line ends with ``…``.
    """
    made = sorted(edits, key=lambda edit: edit.column)
    if len({edit.line for edit in made}) != 1 or any(edit.line != edit.end_line for edit in made):
        return None
    line = file.lines[made[0].line - 1]
    for edit in reversed(made):
        line = line[: edit.column - 1] + edit.text + line[edit.end_column - 1 :]
    line = line.strip()
    if line.endswith("\\"):
        line = f"{line[:-1].rstrip()} …"
    elif line.endswith(("'", '"')) and line.count(line[-1]) % 2:
        line = f"{line} …"
    return line if len(line) <= _MAX_LINE_LENGTH and mask(line) == line and line.isprintable() else None


# what was meant


def is_certain(setting: FileSetting, site: LaunchSite | None) -> bool:
    """Return whether the launch line always has it.

    An assignment on the line itself always applies, and one in the same loop whenever the line runs.
    """
    if setting.certain or setting.reach == "line":
        return True
    if site is None or site.conditions:
        return False
    return any(
        repeat.span.path == setting.span.path and repeat.span.line <= setting.span.line <= site.span.end_line
        for repeat in site.repeats
    )


def is_deliberate(group: SettingGroup, setting: FileSetting) -> bool:
    """Return whether a file, a comment or a line about debugging or measurements sets it."""
    site = group.site
    # folders do not count: scripts below tests/ are often real jobs
    texts = [setting.span.path.rpartition("/")[2], *comments_at(group.file, setting)]
    if site is not None:
        texts.extend(((site.command.script or "").rpartition("/")[2], *site.conditions))
        texts.extend(word.text for word in site.words[:3])
    return any(_DELIBERATE.search(text) for text in texts)


def has_reason(file: LaunchFile, setting: FileSetting) -> bool:
    """Return whether a comment on the line of the assignment, or directly above it, gives a reason."""
    return any(_REASON.search(text) for text in comments_at(file, setting))


def comments_at(file: LaunchFile, setting: FileSetting) -> tuple[str, ...]:
    """Return the comments on the line of a setting, and on a comment line above it."""
    if setting.span.path != file.path:
        return ()
    line = setting.span.line
    above = file.lines[line - 2].lstrip().startswith(("#", "//")) if 2 <= line <= len(file.lines) + 1 else False
    first = bisect_left(file.comments, (line - 1 if above else line, ""))
    return tuple(text for number, text in file.comments[first : first + 3] if number <= line)


def _another_network(group: SettingGroup) -> bool:
    """Return whether NCCL uses libfabric (EFA, Slingshot), so that its own InfiniBand transport does not matter."""
    value = {name: (given.value or "").lower() for name, given in group.settings.items()}
    return value.get("FI_PROVIDER", "").startswith(("efa", "cxi")) or "libfabric" in value.get("NCCL_NET", "")


def _loss(entry: DisabledTransport, site: LaunchSite | None, nodes: Nodes | None) -> str | None:
    """Return what the launch loses without a transport, as a clause, or None if unknown."""
    if site is None:
        return None
    if entry.kind == "gpus":
        if "P2P" in entry.name and nodes is not None and "GeForce" in (nodes.gpu_name or ""):
            return None
        ranks = ranks_on_node(site)
        return f"each node runs {ranks} ranks" if ranks is not None and ranks > 1 else None
    if entry.kind == "rdma":
        count = nodes_of(site)
        return f"the job runs on {count} nodes" if count is not None and count > 1 else None
    return None


# masks


def _faults_of_mask(group: SettingGroup, setting: FileSetting, nodes: Nodes | None) -> Iterator[Finding]:
    """Yield masks that leave fewer GPUs than they name."""
    from distcheck.checks.host.devices import apply_masks
    from distcheck.checks.host.gpus import Gpu, Gpus

    value = setting.value or ""
    if value.strip().lower() in _NO_GPUS or _TO_FILL_IN.search(value):
        return
    stated = None if nodes is None else nodes.gpus
    if re.match(r"\s*['\"]?(?:GPU|MIG)-", value):
        fault, left, meant = _fault_of_uuids(value)
    else:
        vendor = "nvidia" if setting.name == MASKS[0] else "amd"
        cards = tuple(Gpu(number, "", "") for number in range(_ANY_CARDS if stated is None else stated))
        devices = apply_masks({setting.name: value}, Gpus(vendor, cards))
        fault, left = "; ".join(devices.dropped), devices.count or 0
        meant = _meant(value)
    if not fault:
        return
    if stated is not None and nodes is not None:
        fault = fault.replace(" here)", f" on the nodes of {nodes.origin})")
    ranks = None if group.site is None else ranks_on_node(group.site)
    short = left == 0 or left < (len(meant) if ranks is None else ranks)
    fix = Fix(
        f"write numbers of GPUs that are there, each once, with commas between them: {setting.name}={','.join(meant)}"
        if meant
        else "write numbers of GPUs that are there, each once, with commas between them, or drop the variable",
        where=_where_of(setting),
    )
    edit = value_edit(setting, ",".join(meant), group.file) if meant else None
    enough = ranks is None or len(meant) >= ranks  # fewer than the ranks would be another fault
    if edit is not None and enough and (stated is None or all(int(entry) < stated for entry in meant)):
        fix = fix._replace(edits=(edit,), risk="which GPUs are meant is taken from the list as it stands")
    yield at_assignment(
        setting,
        rules.DC204.found(
            f"{setting.name}={value[:80]!r} leaves {left or 'no'} GPU{'s' * (left != 1)}: {fault}",
            severity=None if short else Severity.INFO,
            evidence={"value": value, "left": left, "ranks_on_node": ranks, "gpus_on_node": stated},
            fix=fix,
        ),
    )


def _meant(value: str) -> tuple[str, ...]:
    """Return the numbers that a mask seems to mean: ``0-3`` is four of them. Empty if ambiguous."""
    found: list[str] = []
    for entry in re.split(r"[,;:\s]+", value.strip(" \t\"'[]()")):
        span = re.fullmatch(r"(\d{1,3})(?:-|\.\.)(\d{1,3})", entry)
        if span is not None and int(span[1]) < int(span[2]) < _ANY_CARDS:
            found.extend(str(number) for number in range(int(span[1]), int(span[2]) + 1))
        elif re.fullmatch(r"\d{1,4}", entry):
            found.append(str(int(entry)))
        elif entry:
            return ()
    return tuple(dict.fromkeys(found))


def _fault_of_uuids(value: str) -> tuple[str, int, tuple[str, ...]]:
    """Return what is wrong with a list of UUIDs: quotes, duplicates, or numbers in it."""
    if value[:1] in "'\"":
        return f"the quote {value[0]} is a part of the value", 0, ()
    entries = [entry.strip() for entry in value.split(",")]
    known: list[str] = []
    for entry in entries:
        if not entry.startswith(("GPU-", "MIG-")):
            fault = f"{entry!r} is no UUID as the entries before it are, which ends the list" if entry else ""
            return fault, len(known), ()
        if entry in known:
            return f"{entry!r} stands in it twice, for which CUDA hides all GPUs", 0, ()
        known.append(entry)
    return "", len(known), ()


# interfaces


def _wrong_interface(group: SettingGroup, setting: FileSetting, nodes: Nodes | None) -> Iterator[Finding]:
    """Yield interfaces that stay on a node of a job on several, or that the nodes do not have."""
    from distcheck.checks.host.interfaces import HOST_ONLY_NAMES
    from distcheck.checks.host.nccl_interfaces import parse_filter

    value = setting.value or ""
    wanted = parse_filter(value)
    names = [name for name, _ in wanted.entries]
    if not names:
        return
    there = None if nodes is None else nodes.interfaces
    if there is not None and nodes is not None and not any(wanted.takes(name) for name in there):
        yield at_assignment(
            setting,
            rules.DC406.found(
                f"NCCL_SOCKET_IFNAME={value[:80]} gives NCCL no interface of the nodes of {nodes.origin}, which have "
                f"{', '.join(there[:8]) or 'none'}",
                severity=Severity.ERROR,
                evidence={"value": value, "interfaces": list(there)},
                fix=_better_interface(setting, there, group.file),
            ),
        )
        return
    if wanted.exclude or not all(name == "lo" or name.startswith(HOST_ONLY_NAMES) for name in names):
        return
    if group.site is None or (nodes_of(group.site) or 1) < 2 or _meets_on_loopback(group.site):
        return
    what = "the loopback interface" if all(name == "lo" for name in names) else "interfaces of one host only"
    yield at_assignment(
        setting,
        rules.DC406.found(
            f"NCCL_SOCKET_IFNAME={value[:80]} names {what}, and the job runs on {nodes_of(group.site)} nodes: none of "
            "them can reach another one through it",
            evidence={"value": value, "nodes": nodes_of(group.site)},
            fix=_better_interface(setting, there, group.file),
        ),
    )


def _meets_on_loopback(site: LaunchSite) -> bool:
    """Return whether the rendezvous is on this machine: one machine simulates several nodes."""
    command = site.command
    endpoint = (command.rdzv_endpoint or "").rpartition(":")[0] or command.rdzv_endpoint
    return any(host in LOOPBACK_NAMES for host in (command.master_addr, endpoint) if host)


def _better_interface(setting: FileSetting, there: tuple[str, ...] | None, file: LaunchFile) -> Fix:
    """Return the fix with the only interface to other nodes, if the nodes are known, otherwise how to find it."""
    from distcheck.checks.host.interfaces import HOST_ONLY_NAMES, VPN_NAMES

    left = [name for name in there or () if name != "lo" and not name.startswith((*HOST_ONLY_NAMES, *VPN_NAMES))]
    if len(left) == 1:
        edit = value_edit(setting, f"={left[0]}", file)
        return Fix(
            f"name the interface that leads to the other nodes: NCCL_SOCKET_IFNAME=={left[0]} (the second = means: "
            "exactly this name)",
            edits=() if edit is None else (edit,),
            where=_where_of(setting),
            risk=None if edit is None else "it is the interface of the nodes that were stated",
        )
    return Fix(
        "name the interface that leads to the other nodes ('ip route get ADDRESS-OF-ANOTHER-NODE' shows it after dev) "
        "as NCCL_SOCKET_IFNAME==NAME, or drop the variable",
        where=_where_of(setting),
    )
