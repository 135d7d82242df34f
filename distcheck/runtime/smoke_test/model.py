"""The values of the smoke test: its options, and the result of each phase. No behaviour, no torch.

Their names are the keys of the JSON (``measurements``); quantities end in their unit, GB is 1e9 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from distcheck.core.model import size_text
from distcheck.runtime.coordination.model import Failure

#: Version of ``measurements`` in the JSON.
MEASUREMENTS_VERSION = 1


class Options(NamedTuple):
    """The options of the run. Sizes in bytes, as nccl-tests counts them."""

    #: ``auto``, ``nccl`` or ``gloo``; after the comparison it is never ``auto``
    backend: str = "auto"
    #: ``auto``, ``cpu`` or ``cuda``
    device: str = "auto"
    #: None: what suits the device
    min_bytes: int | None = None
    max_bytes: int | None = None
    factor: int = 4
    iterations: int = 20
    warmup: int = 5
    #: collectives to measure, by name; () is the default choice
    collectives: tuple[str, ...] = ()
    dtype: str = "float32"
    #: repetitions of the correctness check with new seeds; 0 disables the check
    check: int = 1
    #: compare the hosts and check that the results are correct, no more
    quick: bool = False
    #: measure pairs: None decides by the number of ranks
    pairs: bool | None = None
    #: seconds for each phase
    timeout_s: float = 60.0
    min_busbw_gbytes_per_s: float | None = None


class Step(NamedTuple):
    """What a rank is about to do, so that a watchdog can report where it was."""

    phase: str
    collective: str = ""
    dtype: str = ""
    size_bytes: int = 0

    @property
    def text(self) -> str:
        """``all_reduce float32 4 MiB``, or the phase alone."""
        parts = [part for part in (self.collective, self.dtype) if part]
        if self.size_bytes:
            parts.append(size_text(self.size_bytes))
        return " ".join(parts) or self.phase


class WrongResult(NamedTuple):
    """A wrong result on one rank."""

    rank: int
    collective: str
    dtype: str
    size_bytes: int
    #: elements that are wrong, of how many
    wrong: int
    elements: int
    #: the first wrong element: where, what was expected, what was there
    first_index: int
    expected: str
    seen: str
    #: the repetition
    seed: int = 0
    #: the rank whose contribution is wrong, if the values show it
    source: int | None = None


class RankCorrectness(NamedTuple):
    """What one rank proved."""

    rank: int
    #: results that were compared
    checks: int = 0
    mismatches: tuple[WrongResult, ...] = ()
    #: what was not run, and why: ``(("float16", "the backend has none"), …)``
    skipped: tuple[tuple[str, str], ...] = ()
    #: collectives that raised: name of the step and the text
    failures: tuple[tuple[str, str], ...] = ()
    elapsed_s: float = 0.0
    #: collectives and dtypes that were tried
    collectives: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()


class Correctness(NamedTuple):
    """What all ranks proved."""

    #: ranks whose word arrived, of how many
    ranks: int
    world_size: int
    checks: int = 0
    mismatches: tuple[WrongResult, ...] = ()
    #: ranks with a wrong result, all of them (``mismatches`` is cut to the first of each)
    wrong_ranks: tuple[int, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    elapsed_s: float = 0.0
    #: collectives and dtypes that were proved
    collectives: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    #: collective → the ranks on which it is wrong, all of them (``0-3,7``)
    wrong: tuple[tuple[str, str], ...] = ()


class Times(NamedTuple):
    """Seconds of one operation: over the iterations, each the maximum over ranks."""

    median_s: float
    min_s: float
    max_s: float
    #: of the median iteration: the fastest rank's own time
    fastest_rank_s: float


class Bandwidth(NamedTuple):
    """One collective at one size. ``busbw`` is None where it has no meaning (one rank, a size bound by latency)."""

    collective: str
    dtype: str
    #: nccl-tests' S: the total size (for gather-like operations n times the buffer of one rank)
    size_bytes: int
    ranks: int
    time: Times
    algbw_gbytes_per_s: float | None
    busbw_gbytes_per_s: float | None
    #: each iteration's maximum over ranks
    samples_s: tuple[float, ...] = ()
    iterations: int = 0


class Measurements(NamedTuple):
    """What the sweep measured."""

    ranks: int
    backend: str = ""
    device: str = ""
    #: name of the GPU, or of the processor
    device_name: str = ""
    hosts: int = 1
    init_s: float | None = None
    first_collective_s: float | None = None
    bandwidth: tuple[Bandwidth, ...] = ()
    #: sizes that were reduced or dropped, and why
    skipped: tuple[tuple[str, str], ...] = ()
    #: how it was measured: ``cuda-events`` or ``wall-clock``
    clock: str = "wall-clock"
    elapsed_s: float = 0.0


class Lateness(NamedTuple):
    """Who comes late, and who computes slowly: one entry a rank, by rank."""

    #: seconds after the first rank at which each rank arrived at the collective, median over repetitions
    lateness_s: tuple[float, ...] = ()
    #: seconds of an equal small matrix product on each rank, median
    own_time_s: tuple[float, ...] = ()
    repetitions: int = 0
    #: why no rank can be named: more ranks than cores …
    not_applicable: str | None = None


class Pair(NamedTuple):
    """Two ranks that sent to each other while all other pairs did."""

    a: int
    b: int
    round: int
    busbw_gbytes_per_s: float | None
    latency_s: float | None
    #: a repetition with a good partner, to distinguish the rank from the link
    retest: bool = False


class Pairs(NamedTuple):
    """Disjoint pairs, measured concurrently."""

    pairs: tuple[Pair, ...] = ()
    size_bytes: int = 0
    rounds: int = 0
    #: every pair was measured; false: each rank exchanged data with a few partners
    complete: bool = False
    not_applicable: str | None = None
    elapsed_s: float = 0.0


class SmokeTest(NamedTuple):
    """All of it: ``measurements`` of the JSON."""

    version: int
    ranks: int
    hosts: tuple[str, ...]
    backend: str = ""
    device: str = ""
    #: phase → seconds
    phases: Mapping[str, float] = {}
    proof: Correctness | None = None
    measured: Measurements | None = None
    lateness: Lateness | None = None
    pairs: Pairs | None = None
    failure: Failure | None = None
    #: how each measured size compares: filled by the verdict
    baselines: tuple[Comparison, ...] = ()
    #: the one memorable line
    sentence: str = ""


class Comparison(NamedTuple):
    """A measured bus bandwidth and its reference."""

    collective: str
    size_bytes: int
    busbw_gbytes_per_s: float
    expected_gbytes_per_s: float
    #: measured / expected
    share: float
    #: ``shipped``, ``baseline`` (the caller's file) or ``bound`` (--min-busbw)
    kind: str
    source: str = ""
