"""Which launch shows that several ranks execute the line of a finding, see :mod:`..source.shown_reach`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from distcheck.core.model import Finding
from distcheck.core.rank_evidence import CHAINS, SHOWN

from .given_options import DocumentedLaunch, GivenOptions

#: More launch lines of one script are not kept.
_MOST_LAUNCHES = 60


def with_chain_launches(finding: Finding, launches: Callable[[str], Iterable[DocumentedLaunch]]) -> Finding:
    """Return a finding with the launch lines in launch files that start its chains."""
    chains = tuple(
        (*chain[:4], tuple(tuple(one) for one in itertools.islice(launches(chain[0]), _MOST_LAUNCHES)))
        for chain in finding.evidence[CHAINS]
    )
    return finding._replace(evidence={**finding.evidence, CHAINS: chains})


def by_chains(
    finding: Finding,
    launches: Callable[[str], Iterable[DocumentedLaunch]],
    options: Callable[[str, DocumentedLaunch], GivenOptions],
) -> Finding:
    """Return a finding with what shows that several ranks execute its line, if anything does.

    :param launches: the launch lines of a script in documents
    :param options: returns what a launch line of a script gives to options
    """
    evidence = {key: value for key, value in finding.evidence.items() if key != CHAINS}
    for script, launched, alone, spawn, *known in finding.evidence[CHAINS]:
        lines = [*itertools.starmap(DocumentedLaunch, known[0] if known else ()), *launches(script)]
        shown = next(
            (
                line.where
                for line in lines
                if not line.one_gpu and options(script, line).takes(launched if line.several else alone)
            ),
            None,
        )
        if shown is None and not lines and spawn and GivenOptions(()).takes(alone):
            shown = spawn  # its defaults are all that the project shows
        if shown is not None:
            step = f"{shown}: starts several ranks that execute this line"
            return finding._replace(evidence={**evidence, SHOWN: shown, "flow": [step, *evidence.get("flow", ())]})
    return finding._replace(evidence=evidence)
