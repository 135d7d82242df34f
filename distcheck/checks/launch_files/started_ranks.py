"""As how many ranks launch lines start a script: what needs several is quiet where all of them start one process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Set

from distcheck.core.model import Finding, grouped_pairs
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import LAUNCHER_API, NEEDS, ONE_PROCESS, OPTION_OF, SCRIPTS, SIGN, UNREACHED
from distcheck.core.unreached import not_reached
from distcheck.launch.model import NODE_LAUNCHERS
from distcheck.launch.schedulers import task_starter

from .counts import gpus_given, nodes_given, nodes_of, ranks_on_node, tasks_of
from .given_options import DocumentedLaunch, with_launches
from .local_rank_options import with_launched_option
from .model import LaunchFiles, LaunchSite
from .scripts import Started, names_of


def starts_several(site: LaunchSite) -> bool:
    """Return whether a launch line starts several ranks, or as many as a variable holds."""
    if site.command.launcher in NODE_LAUNCHERS:
        nodes, ranks = nodes_of(site), ranks_on_node(site)
        if ranks is None:
            given = gpus_given(site)
            if given is not None and given.number == 1:
                # as many as there are GPUs, or as a variable holds
                nodes, ranks = nodes or nodes_given(site), 1
        return (nodes, ranks) != (1, 1)
    return site.pods is not None or (task_starter(site.command) is not None and tasks_of(site) != 1)


def starts_ranks(site: LaunchSite) -> bool:
    """Return whether a launch line has a launcher of ranks, even if it starts one, or starts several in another way."""
    return site.command.launcher in NODE_LAUNCHERS or starts_several(site)


def launch_of(site: LaunchSite) -> DocumentedLaunch:
    """Return a launch line as far as it decides which paths its script takes."""
    path = os.path.relpath(site.span.path)
    folder = os.path.join(os.path.dirname(path), site.folder or "")
    return DocumentedLaunch(
        f"{path}:{site.span.line}", site.command.script_args, starts_several(site), folder, _has_one_per_gpu(site)
    )


def _has_one_per_gpu(site: LaunchSite) -> bool:
    """Return whether a launch line shows as many GPUs as it starts processes, on one host."""
    if nodes_of(site) not in (None, 1):
        return False
    if site.command.nproc == "gpu":
        return True
    setting = site.settings.get("CUDA_VISIBLE_DEVICES")
    mask = site.command.assignments.get("CUDA_VISIBLE_DEVICES") or (None if setting is None else setting.value)
    return (
        bool(mask)
        and re.fullmatch(r"\d+(,\d+)*", str(mask)) is not None
        and (str(mask).count(",") + 1 == ranks_on_node(site))
    )


#: A comment with a launch line, which a user takes for several GPUs.
_LAUNCHER_IN_COMMENT = lazy(r"\s*#.*(?:torchrun|torch\.distributed\.|accelerate launch|deepspeed |srun |mpirun )")


def mentions_several(lines: Iterable[str], script: str) -> bool:
    """Return whether a comment among some lines starts a script with a launcher."""
    name = script.replace("\\", "/").rpartition("/")[2]
    return any(name in line and _LAUNCHER_IN_COMMENT.match(line) for line in lines)


def may_start_any(sites: Iterable[LaunchSite]) -> bool:
    """Return whether a launch line with several ranks may start any script: its own is not known."""
    return any(starts_several(site) and not names_of(site) for site in sites)


def _by_other_launches(finding: Finding, files: LaunchFiles, started: Set[str]) -> Finding:
    """Return a finding whose only sign is an API of a launcher, with what launches of other scripts show."""
    sites = [site for _, site in files.sites()]
    evidence = dict(finding.evidence)
    if may_start_any(sites):
        del evidence[LAUNCHER_API]
    elif any(map(starts_ranks, sites)) or not started.isdisjoint(evidence[LAUNCHER_API]):
        evidence[LAUNCHER_API] = True
    return finding._replace(evidence=evidence)


def with_launch_lines(findings: Iterable[Finding], started: Started, files: LaunchFiles) -> list[Finding]:
    """Return the findings; those that need several ranks get the launch line of a script that reaches them.

    What nothing of a project with launch lines reaches is a note.
    """
    program = started.program
    if program is None:
        return list(findings)
    lines = grouped_pairs((program.index.files[start.script].path, start.site) for start in started.starts)
    texts = grouped_pairs((program.index.files[start.script].path, start.file.lines) for start in started.starts)
    is_launched = any(starts_several(site) for _, site in files.sites())
    started_paths = {program.index.files[start.script].path for start in started.starts}
    found = []
    for finding in findings:
        if LAUNCHER_API in finding.evidence:
            finding = _by_other_launches(finding, files, started_paths)
        if is_launched and UNREACHED in finding.evidence:
            finding = not_reached(finding)
        if OPTION_OF in finding.evidence:
            scripts = finding.evidence[OPTION_OF]["scripts"]
            finding = with_launched_option(finding, [site for script in scripts for site in lines.get(script, ())])
        sites = [site for script in finding.evidence.get(SCRIPTS, ()) for site in lines.get(script, ())]
        site = next(filter(starts_several, sites), None)
        if site is not None:
            evidence = {key: value for key, value in finding.evidence.items() if key not in (SCRIPTS, LAUNCHER_API)}
            finding = finding._replace(evidence={**evidence, SIGN: f"{site.span.path}:{site.span.line}"})
        elif sites and not any(
            mentions_several(text, script)
            for script in finding.evidence.get(SCRIPTS, ())
            for text in texts.get(script, ())
        ):
            line = f"{sites[0].span.path}:{sites[0].span.line}"
            finding = finding._replace(evidence={**finding.evidence, ONE_PROCESS: line})
        if NEEDS in finding.evidence:
            finding = with_launches(
                finding,
                lambda script: map(launch_of, lines.get(script, ())),
                lambda script: any(mentions_several(text, script) for text in texts.get(script, ())),
            )
        found.append(finding)
    return found
