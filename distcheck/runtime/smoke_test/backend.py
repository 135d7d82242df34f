"""Selects backend and device of the smoke test, and reports GPUs that stay untested.

gloo on the CPU does not replace NCCL on the GPUs. ``--backend auto`` selects gloo only if no torch has NCCL, if it is
known that there is no GPU, or if a mask hides all GPUs. The choice of a rank's GPU is a separate question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.checks.cluster.hostlist import place_hosts, shorten_hosts
from distcheck.checks.cluster.records import Cluster, HostRecord, RankRecord
from distcheck.checks.host.gpu_access import GpuAccess, GpuState, count_names
from distcheck.core.model import Finding, Fix, Severity, Where, grouped_pairs, rank_names, rank_ranges
from distcheck.core.registry import probe

from .model import Options


class Choice(NamedTuple):
    """Backend and device of all ranks."""

    #: ``nccl`` or ``gloo``; "" before it is chosen
    backend: str = ""
    #: ``cuda`` or ``cpu``; "" before it is chosen
    device: str = ""
    #: neither an option nor the job's own group decided it
    automatic: bool = False


def choose(options: Options, hosts: Iterable[HostRecord] = ()) -> Choice:
    """Return what the options fix; for the rest, what the records of all ranks show.

    Without records, a choice that depends on them is empty.
    """
    everyone = tuple(hosts)
    backend = options.backend
    if backend == "auto" and options.device == "cpu":
        backend = "gloo"
    elif backend == "auto" and not everyone:
        backend = ""
    elif backend == "auto":
        backend = "nccl" if _has_nccl(everyone) and (options.device == "cuda" or _may_have_gpus(everyone)) else "gloo"
    device = options.device
    if device == "auto":
        device = {"nccl": "cuda", "gloo": "cpu"}.get(backend, "")
    return Choice(backend, device, options.backend == "auto" and options.device == "auto")


def hardware_text(choice: Choice, names: Iterable[str], ranks: int) -> str:
    """Return backend and device for the last line of a report: ``on gloo, CPU``, ``on nccl, 8 × NVIDIA H100``.

    :param names: the ranks' GPUs, as far as they are known
    """
    if not choice.backend or not choice.device:
        return "no backend or device was chosen"
    if choice.device == "cpu":
        return f"on {choice.backend}, CPU"
    known = tuple(names)[:ranks]
    return f"on {choice.backend}, {count_names((*known, *[''] * (ranks - len(known))))}"


def _has_nccl(hosts: Iterable[HostRecord]) -> bool:
    """Whether a torch has NCCL, or it is not known."""
    return any("nccl" in host.backends or not host.backends for host in hosts)


def _may_have_gpus(hosts: Iterable[HostRecord]) -> bool:
    """Whether a rank can use a GPU, or should be able to."""
    none = (GpuState.ABSENT, GpuState.HIDDEN, GpuState.OTHER_BUILD)
    return any(rank.gpu_access.state not in none for host in hosts for rank in host.ranks)


@probe(rules.DC315)
def ranks_can_use_their_gpus(choice: Choice, cluster: Cluster) -> Iterator[Finding]:
    """Every rank can use a GPU where NCCL is taken; no mask hides the GPUs where gloo is taken."""
    if not choice.automatic:
        return
    nccl = choice.backend == "nccl"
    for access, who in _by_access(cluster):
        if nccl and access.state not in (GpuState.UNREAD, GpuState.USABLE):
            yield rules.DC315.found(
                f"{_named(who)} cannot use a GPU ({access.seen or 'there is none'}): NCCL cannot be tested",
                where=_where(who),
                evidence=_evidence(access, who),
                fix=_make_usable(access),
            )
        elif not nccl and access.state == GpuState.HIDDEN and _torch_has_nccl(who):
            yield rules.DC315.found(
                f"{access.seen} hides all GPUs from {_named(who)}: only gloo on the CPU was tested",
                severity=Severity.WARNING,
                where=_where(who),
                evidence=_evidence(access, who),
                fix=Fix(
                    "unset the variable to test the GPUs; to test the CPU on purpose: --backend gloo",
                    where="job-script",
                ),
            )


@probe(rules.DC120)
def torch_is_built_for_the_gpus(choice: Choice, cluster: Cluster) -> Iterator[Finding]:
    """Where gloo is taken, no host has GPUs that its torch can't use."""
    if not choice.automatic or choice.backend != "gloo":
        return
    for access, who in _by_access(cluster):
        if access.state not in (GpuState.OTHER_BUILD, GpuState.USABLE, GpuState.UNUSABLE):
            continue
        torch = who[0][0].versions.get("torch", "")
        yield rules.DC120.found(
            f"{' '.join(filter(None, ('torch', torch)))} cannot use the GPUs of {_hosts(who)} ({access.seen}): "
            "only gloo on the CPU was tested",
            severity=Severity.WARNING if access.training else Severity.INFO,
            where=_where(who),
            evidence={**_evidence(access, who), "torch": torch},
            fix=Fix(
                "install a build of torch for these GPUs in the Python that the job uses (the selector at "
                "pytorch.org/get-started gives the command); to test the CPU on purpose: --backend gloo",
                where="host",
            ),
        )


Members = list[tuple[HostRecord, RankRecord]]


def _by_access(cluster: Cluster) -> Iterator[tuple[GpuAccess, Members]]:
    """The ranks of the same access, as far as GPUs are concerned."""
    groups = grouped_pairs((rank.gpu_access, (host, rank)) for host in cluster.hosts for rank in host.ranks)
    yield from groups.items()


def _torch_has_nccl(who: Members) -> bool:
    return any("nccl" in host.backends for host, _ in who)


def _hosts(who: Members) -> str:
    return shorten_hosts(host.host for host, _ in who)


def _named(who: Members) -> str:
    return f"{rank_names(rank.rank for _, rank in who)} on {_hosts(who)}"


def _where(who: Members) -> Where:
    return Where(host=place_hosts(host.host for host, _ in who), ranks=rank_ranges(rank.rank for _, rank in who))


def _evidence(access: GpuAccess, who: Members) -> dict[str, object]:
    return {"gpus": access.state, "seen": access.seen, "ranks": len(who)}


def _make_usable(access: GpuAccess) -> Fix:
    gloo = "to test the CPU on purpose: --backend gloo"
    if access.state == GpuState.HIDDEN:
        return Fix(f"let the mask of these ranks name their GPUs; {gloo}", where="job-script")
    if access.state == GpuState.OTHER_BUILD:
        return Fix(f"install the build of torch for these GPUs on these hosts; {gloo}", where="host")
    if access.state == GpuState.ABSENT:
        return Fix(f"start ranks on hosts with GPUs only; {gloo}", where="launch-line")
    return Fix(
        "run nvidia-smi (rocm-smi for AMD) on this host and have an administrator fix what it reports, or request GPUs "
        f"from the scheduler; to try NCCL all the same: --backend nccl; {gloo}",
        where="host",
    )
