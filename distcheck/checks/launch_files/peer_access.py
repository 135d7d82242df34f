"""Why a project switches off direct access between GPUs, as lines of a launch file or a document show (DC114).

GeForce cards have no peer access without NVLink, and a project may document an error with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import PEER_ACCESS

#: Variables that switch it off.
OF_PEER_ACCESS = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL")
#: A GeForce card, by its whole name or by the number of one of the largest.
_GEFORCE = lazy(
    r"(?i)(?<![0-9a-z])(?:(?:geforce|rtx)[ _-]?){1,2}[345]0[5-9]0(?![0-9])"
    r"|(?<![0-9a-z_.,:/=-])[345]090s?(?![0-9a-z_.,:])"
)
#: Cards and links with peer access. Where they are named as well, it is open which of them a launch uses.
_OTHERS = lazy(
    r"(?i)(?<![0-9a-z])(?:[avhp]100|[hb]200|[ah]800|h20|gb[23]00|a[34]0|l40s?|mi[23]\d\dx?|nvlink|nvswitch|[dh]gx)"
    r"(?![0-9a-z])"
)
_PEER = lazy(r"(?i)(?<![a-z])p2p(?![a-z])|\bpeer[ -](?:to[ -]peer|access)\b")
_PROBLEM = lazy(
    r"(?i)(?<![a-z_])(?:issues?|problems?|errors?|hangs?|hung|stuck|deadlocks?|fix(?:e[sd])?|avoids?|prevents?"
    r"|unstable|unsupported|broken|work[ -]?around|(?:no|not|n't|without) (?:\w+ )?support\w*)(?![a-z_])"
    r"|\u95ee\u9898|\u907f\u514d|\u4e0d\u652f\u6301|\u4e0d\u7a33\u5b9a|\u5361\u6b7b|\u5361\u4f4f"
)
#: Lines of a file that are searched.
_MAX_LINES = 20_000


def why_off(path: str, lines: Iterable[str]) -> str | None:
    """Return the line of a file that shows why peer access is off, as a clause, or None."""
    card, others = "", False
    for number, line in enumerate(islice(lines, _MAX_LINES), 1):
        if _PEER.search(line) and _PROBLEM.search(line):
            return f"{path}:{number} gives a reason"
        others = others or _OTHERS.search(line) is not None
        named = None if card else _GEFORCE.search(line)
        if named is not None:
            card = f"{path}:{number} names {named[0].strip()}, a card without peer access"
    return card if card and not others else None


def with_reason(finding: Finding, why: str | None) -> Finding:
    """Return a finding about peer access once all files are known: a note with the reason, if there is one."""
    evidence = {key: value for key, value in finding.evidence.items() if key != PEER_ACCESS}
    if why is None:
        return finding._replace(evidence=evidence)
    return finding._replace(severity=Severity.INFO, message=f"{finding.message}; {why}", evidence=evidence)
