"""A text of the site's own in the logs of dead jobs: the example of docs/plugins.md."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import (
    Finding,
    Fix,
    Kind,
    Rule,
    Severity,
    Signature,
    Timeline,
    found_in_log,
    probe,
    register_rule,
    register_signature,
)

SITE102 = register_rule(
    Rule(
        "SITE102",
        "scratch-quota",
        Severity.ERROR,
        ("log",),
        "The site's scratch quota ended the job",
        (Severity.ERROR,),
    )
)

register_signature(
    Signature(
        "site-quota",
        Kind.CAUSE,
        r"scratchd: user (?P<user>\w+) is over quota",
        ("scratchd: user alice is over quota (5.1 of 5.0 TB)",),
        codes=("SITE102",),
    )
)


@probe(SITE102)
def quota_is_left(timeline: Timeline) -> Iterator[Finding]:
    """The storage daemon writes this line into the job's output when it ends the job."""
    events = timeline.of("site-quota")
    if events:
        yield found_in_log(
            SITE102,
            timeline,
            events,
            f"user {events[0].values['user']} has no quota left on /scratch",
            fix=Fix("delete old checkpoints, or ask the storage team for more", where="host"),
        )
