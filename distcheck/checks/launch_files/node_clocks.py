"""Names of a run that each node of a launch makes from its own clock: ``--output_dir runs/$(date +%H%M%S)`` (DC767)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .context import (
    NODE_RANK_OPTIONS,
    by_each_task,
    is_remote,
    launch_lines,
    location_of,
    setting,
    several_nodes,
    shown,
    step_of,
    with_variables,
    worst_per_location,
)
from .model import LaunchFiles, LaunchSite, Word

#: The time to the second or finer, as the shell takes it.
_CLOCK = lazy(
    r"(?:\$\(|`)\s*date\b(?P<format>[^)`]*)(?:\)|`)|\$\{?(?:EPOCHSECONDS|EPOCHREALTIME|SECONDS|(?P<random>RANDOM))\b"
)
_VARIABLE = lazy(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
#: What each node does, without and with a random number.
_READS = ("reads its own clock", "draws its own random number")
#: What differs by the node on purpose.
_OF_NODE = lazy(r"(?i)hostname|\$\{?(?:HOST\b|\w*(?:rank|nodeid|procid|node_?name|uuid)\w*)|\$\$")
#: Options whose value is a name.
_NAMING = lazy(r"(?i)dir|name|path|out|log|folder|run|exp|save|ckpt|checkpoint|(?:^|[-_])id$|tag")
_COARSE = lazy(r"\+(?!.*%[sSTXcrN])")
#: Kinds of files that are no script of a node.
_SHOWN = frozenset({"markdown", "slurm"})


@probe(rules.DC767)
@worst_per_location
def nodes_share_names(launch_files: LaunchFiles) -> Iterator[Finding]:
    """An argument of a launch on several nodes has no part that each node takes from its own clock."""
    for _, site in launch_lines(launch_files):
        if not several_nodes(site):
            continue
        words = site.words[len(site.words) - len(site.command.script_args) :]
        for word, before in zip(words, (None, *words), strict=False):
            match = _clock_in(site, word)
            if match is None or _COARSE.search(match["format"] or "") or not _is_read_by_each_node(site, word):
                continue
            if not _is_shared_name(word.text, match[0], "" if before is None else before.text):
                continue
            yield rules.DC767.found(
                f"each node {_READS[match['random'] is not None]} for {shown(word.text)}, so the ranks of two nodes "
                "get different names",
                # a script may use the name on rank 0 only
                severity=Severity.INFO,
                where=location_of(site, word),
                evidence={"word": shown(word.text), "by": shown(match[0])},
                fix=Fix(
                    "make the name once, before the nodes start, and give it to all of them: "
                    + ("in a job of Slurm take $SLURM_JOB_ID" if step_of(site).starter == "srun" else "as an argument"),
                    where="job-script",
                ),
            )


def _clock_in(site: LaunchSite, word: Word) -> re.Match[str] | None:
    """Return the clock in a word, or in a variable that the shell of each node sets."""
    if (match := _CLOCK.search(word.text)) is not None:
        return match
    given = [setting(site, name) for pair in _VARIABLE.findall(word.text) for name in pair if name]
    # the job script has set the others, once
    once = step_of(site).starter is not None or is_remote(site)
    if once and not any(one is not None and one.by_each_task for one in given):
        return None
    return _CLOCK.search(with_variables(site, word.text))


def _is_shared_name(word: str, clock: str, before: str) -> bool:
    """Return whether a word is a name that all nodes share, as a path: no number alone, and no name of the node."""
    if _OF_NODE.search(word):
        return False
    option = word.partition("=")[0] if word.startswith("-") and "=" in word else before
    alone = word.rpartition("=")[2].strip("\"'") == clock
    return not alone or _NAMING.search(option) is not None


def _is_read_by_each_node(site: LaunchSite, word: Word) -> bool:
    """Return whether the shell of each node replaces a substitution, not one shell for all of them."""
    if step_of(site).starter is not None or is_remote(site):
        return by_each_task(site, word) is True
    # a script that each node runs, with its number from outside
    number = site.value(*NODE_RANK_OPTIONS)
    given = number is not None and "node_rank" in site.command.unknown and not site.repeats
    return given and site.kind not in _SHOWN
