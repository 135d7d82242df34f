"""A site's own probe: the example of the documentation, as a test installs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import Finding, Fix, Rule, Severity, Unavailable, World, fact, probe, register_rule

SITE101 = register_rule(
    Rule(
        "SITE101",
        "scratch-not-mounted",
        Severity.ERROR,
        ("env",),
        "The site's scratch file system is not mounted",
        (Severity.ERROR,),
    )
)


class Mounts(NamedTuple):
    """The mount points of this host."""

    points: tuple[str, ...]


@fact(limit_s=1)
def read_mounts(world: World) -> Mounts:
    """Return the mount points of /proc/mounts."""
    try:
        text = world.read_text("/proc/mounts")
    except OSError as error:
        raise Unavailable(f"/proc/mounts can't be read: {error.strerror}") from error
    return Mounts(tuple(line.split()[1] for line in text.splitlines() if line))


@probe(SITE101)
def scratch_is_mounted(mounts: Mounts) -> Iterator[Finding]:
    """Jobs write their checkpoints there."""
    if "/scratch" not in mounts.points:
        yield SITE101.found(
            "/scratch is not mounted on this host",
            evidence={"mount_points": len(mounts.points)},
            fix=Fix("drain this node and tell the storage team", by="admin", where="host"),
        )
