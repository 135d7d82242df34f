"""The phases of the smoke test: their order, what each is for, and how long each may take."""

from __future__ import annotations

from typing import NamedTuple

from .model import Options

#: Seconds more for each thousand ranks: what torch 2.13 itself adds to its barrier in ``init_process_group``
#: (``distributed_c10d._store_based_barrier``).
_S_PER_RANK = 1e-3


class Phase(NamedTuple):
    """One phase."""

    name: str
    text: str
    #: it runs inside the workers, on a live group
    live: bool = False


PHASES = (
    Phase("env", "the environment probes of 'distcheck env' on every host"),
    Phase("membership", "who is here and who is missing, before any backend starts"),
    Phase("compare", "versions, settings, GPUs, networks, clocks, code side by side; every host reaches every other"),
    Phase("start", "init_process_group and the first collective", live=True),
    Phase("verify", "every collective gives the right result, in every dtype and several sizes", live=True),
    Phase("measure", "bus bandwidth and latency over message sizes", live=True),
    Phase("stragglers", "who comes late, who computes slowly, which link is slow", live=True),
    Phase("verdict", "against --min-busbw, --baseline and the published figures"),
)  # fmt: skip

LIVE = tuple(phase.name for phase in PHASES if phase.live)


def limit_s(phase: str, options: Options, world_size: int, *, device: str = "cpu") -> float:
    """Seconds that a phase may take on any rank before it counts as hanging."""
    base = options.timeout_s + world_size * _S_PER_RANK
    if phase == "measure":
        from .bandwidth import estimate_s

        return base + float(estimate_s(options, world_size, device))
    if phase == "stragglers":
        from .stragglers import estimate_pairs_s

        return base + float(estimate_pairs_s(world_size))
    return base


def live_phases(options: Options, world_size: int) -> tuple[str, ...]:
    """The phases that the workers will run."""
    wanted = {"start"}
    if options.check:
        wanted.add("verify")
    if not options.quick:
        wanted.update(("measure", "stragglers"))
    return tuple(name for name in LIVE if name in wanted)
