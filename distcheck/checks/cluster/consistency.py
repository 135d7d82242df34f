"""Compares what must be equal on all hosts: versions, settings, the code, and the backends of torch.

Messages name the minority. ``hardware.py`` compares GPUs, ``network.py`` networks, ``rdma.py`` RDMA ports.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Where, grouped_pairs
from distcheck.core.registry import probe
from distcheck.launch.settings import SITE_FILE

from .hostlist import first_ranges, place_hosts, place_ranks, shorten_hosts
from .identity import uses_nccl
from .own_record import NODE_NUMBERS, OF_EACH_RANK
from .records import Cluster, HostRecord

#: Values, variables and components that a message names; others are counted.
MOST_NAMED = 4
MOST_SETTINGS = 6

#: What all ranks of one communicator must share, as messages write it. From 2.26 on NCCL compares its
#: versions as it connects; older ones hang or truncate messages (NVIDIA/nccl#286: versions must match).
_MUST_MATCH = {"torch": "torch", "cuda": "CUDA", "hip": "HIP", "nccl": "NCCL"}

#: Variables that NCCL needs equal on all ranks: each rank selects algorithm, protocol, channels, buffers and transport
#: by itself, and two different selections wait for each other, or truncate messages (NVIDIA/nccl#296,
#: NVIDIA/FasterTransformer#204).
NCCL_WANTS_EQUAL = frozenset(
    {
        "NCCL_ALGO", "NCCL_PROTO", "NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_COMM_ID",
        "NCCL_SOCKET_FAMILY", "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_P2P_DIRECT_DISABLE",
        "NCCL_P2P_NET_CHUNKSIZE", "NCCL_P2P_NVL_CHUNKSIZE", "NCCL_P2P_PCI_CHUNKSIZE", "NCCL_P2P_LL_THRESHOLD",
        "NCCL_SHM_DISABLE", "NCCL_BUFFSIZE", "NCCL_LL_BUFFSIZE", "NCCL_LL128_BUFFSIZE", "NCCL_NTHREADS",
        "NCCL_LL128_NTHREADS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS",
        "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS",
        "NCCL_NCHANNELS_PER_NET_PEER", "NCCL_CROSS_NIC", "NCCL_COLLNET_ENABLE", "NCCL_COLLNET_NODE_THRESHOLD",
        "NCCL_NVLS_ENABLE", "NCCL_NVLS_NCHANNELS", "NCCL_PXN_DISABLE", "NCCL_RUNTIME_CONNECT", "NCCL_CUMEM_ENABLE",
        "NCCL_CUMEM_HOST_ENABLE", "NCCL_MNNVL_ENABLE", "NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_THREAD_THRESHOLDS",
        "NCCL_LAUNCH_MODE", "NCCL_NET_SHARED_BUFFERS",
    }
)  # fmt: skip
#: The same for gloo, and for torch with any backend: with DETAIL another collective precedes each one. It compares the
#: next calls of the ranks, and ranks without DETAIL take no part in it.
GLOO_WANTS_EQUAL = frozenset({"GLOO_DEVICE_TRANSPORT", "TORCH_GLOO_LAZY_INIT"})
DEBUG = "TORCH_DISTRIBUTED_DEBUG"
#: Of these, variables about paths inside one host only, which a site may close on the hosts that need it.
_INSIDE_A_HOST = frozenset({"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_P2P_DIRECT_DISABLE", "NCCL_SHM_DISABLE"})
#: The defaults of these.
_DEFAULTS = {"NCCL_IB_DISABLE": "0", "NCCL_P2P_DISABLE": "0", "NCCL_SHM_DISABLE": "0"}

#: Settings that may differ from node to node: names of devices, files, folders and CPUs.
_OF_A_NODE = frozenset(
    {
        *NODE_NUMBERS, *OF_EACH_RANK, "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX",
        "NCCL_DEBUG_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_GRAPH_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_TOPO_FILE",
        "NCCL_OOB_NET_IFNAME", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR",
        "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TP_SOCKET_IFNAME", "TRITON_CACHE_DIR",
        "UCX_NET_DEVICES", "WSL_INTEROP", "XDG_CACHE_HOME", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_CACHE_PATH", "MELLANOX_VISIBLE_DEVICES", "FI_EFA_IFACE", "NVIDIA_VISIBLE_DEVICES",
    }
)  # fmt: skip


class Likeness(NamedTuple):
    """Hosts with one value, and those of its ranks that have it, if the ranks of a host differ."""

    value: str
    hosts: tuple[str, ...]
    ranks: tuple[int, ...] = ()

    @property
    def place(self) -> str:
        """Return ``gpu[01-30]``, with the ranks if they differ on one host."""
        ranks = f" (ranks {first_ranges(self.ranks, MOST_NAMED, dots=True)})" if self.ranks else ""
        return shorten_hosts(self.hosts) + ranks


# versions


@probe(rules.DC503)
def versions_agree(cluster: Cluster) -> Iterator[Finding]:
    """Report different versions of torch, CUDA and NCCL; one finding lists all other differences."""
    if len(cluster.hosts) < 2:
        return
    nccl = uses_nccl(cluster)
    values = {name: _by_value(cluster.hosts, name) for name in _components(cluster.hosts)}
    differing = {name: groups for name, groups in values.items() if len(groups) > 1}
    grave = [name for name in _MUST_MATCH if name in differing and (nccl or name == "torch")]
    if grave:
        yield _grave_versions(cluster, grave)
    rest = [(name, groups) for name, groups in differing.items() if name not in grave]
    if "torch" not in grave and (tags := _tags(cluster.hosts)):
        rest.insert(0, ("torch", tags))
    if rest:
        yield _other_versions(rest)


@probe(rules.DC120)
def backends_agree(cluster: Cluster) -> Iterator[Finding]:
    """Report hosts whose torch lacks the backend that the others will use."""
    known = [host for host in cluster.hosts if host.backends]
    has = [host for host in known if "nccl" in host.backends]
    lacks = [host for host in known if "nccl" not in host.backends]
    if not has or not lacks:
        return  # if no host has it, each host reports that itself
    stated = cluster.backend is not None and "nccl" in cluster.backend
    if cluster.backend is not None and not stated:
        return
    builds = Counter(host.versions.get("torch", "unknown") for host in lacks)
    usual, _ = builds.most_common(1)[0]
    yield rules.DC120.found(
        f"torch {usual} on {shorten_hosts(host.host for host in lacks)} has no NCCL, "
        f"which {'the ranks are to use and ' if stated else ''}that of the other {len(has):,} "
        f"host{'s' * (len(has) != 1)} has",
        severity=None if stated and cluster.launched else Severity.INFO,
        where=Where(host=place_hosts(host.host for host in lacks)),
        evidence={"backend": cluster.backend, "torch": dict(builds.most_common(MOST_NAMED)), "hosts": len(lacks)},
        fix=Fix(
            f"install the build of the others (torch {_usual(has, 'torch')}) there, or use one image for all",
            where="host",
        ),
    )


# settings


@probe(rules.DC504)
def settings_agree(cluster: Cluster) -> Iterator[Finding]:
    """Report variables that NCCL needs equal on all ranks and that are not; one finding lists all other differences."""
    if not cluster.launched and len(cluster.hosts) < 2:
        return
    needed = set(NCCL_WANTS_EQUAL) if uses_nccl(cluster) else set()
    if cluster.backend is not None and "gloo" in cluster.backend:
        needed |= GLOO_WANTS_EQUAL
    needed.add(DEBUG)
    by_split: dict[tuple[tuple[str, ...], ...], list[tuple[str, list[Likeness]]]] = {}
    rest: list[tuple[str, list[Likeness]]] = []
    for name in _names_that_differ(cluster.hosts):
        groups = _settings_by_value(cluster.hosts, name)
        if len(groups) < 2:
            continue
        if name in needed and not (name in _INSIDE_A_HOST and _by_site(cluster.hosts, name)):
            by_split.setdefault(tuple((*group.hosts, str(group.ranks)) for group in groups), []).append((name, groups))
        else:
            rest.append((name, groups))
    for variables in list(by_split.values())[:MOST_NAMED]:
        yield _grave_settings(cluster, variables)
    if rest:
        yield _other_settings(rest)


# code


@probe(rules.DC507)
def code_agrees(cluster: Cluster) -> Iterator[Finding]:
    """Report working directories at different commits."""
    known = [(host, host.code) for host in cluster.hosts if host.code is not None]
    groups = _grouped(((host.host, code.commit) for host, code in known if code.commit), str)
    without = [host.host for host, code in known if not code.commit]
    if len(groups) > 1:
        few, many = groups[-1], groups[0]
        odd = _odd_ones(groups)
        yield rules.DC507.found(
            "the code differs between hosts: "
            + _spoken([Likeness(f"commit {group.value[:12]}", group.hosts) for group in groups]),
            severity=None if cluster.launched else Severity.INFO,
            where=Where(host=place_hosts(odd), object=next(code.folder for _, code in known if code.commit)),
            evidence={
                "commits": {group.value: len(group.hosts) for group in groups[:MOST_NAMED]},
                "folders": sorted({code.folder for _, code in known})[:MOST_NAMED],
            },
            fix=Fix(
                f"bring all hosts to one commit: in {known[0][1].folder}, git checkout {many.value[:12]} on "
                f"{shorten_hosts(odd or few.hosts)}; or start all of them in one shared folder",
                where="host",
            ),
        )
    elif groups and without:
        yield rules.DC507.found(
            f"the working directory is a Git repository at commit {groups[0].value[:12]} on "
            f"{shorten_hosts(groups[0].hosts)}, and none on {shorten_hosts(without)}, where it can't be compared",
            severity=Severity.INFO,
            where=Where(host=place_hosts(without)),
            evidence={"with_commit": len(groups[0].hosts), "without": len(without)},
            fix=Fix(
                "give all hosts the same files: start them in one shared folder, or copy the code again",
                where="host",
            ),
        )


# shared by the probes


def _grouped(pairs: Iterable[tuple[str, str]], key: Callable[[str], Hashable]) -> list[Likeness]:
    """Return hosts by value, the most frequent one first.

    :param pairs: a host and its value
    :param key: what counts as one and the same
    """
    hosts: dict[Hashable, list[str]] = {}
    shown: dict[Hashable, str] = {}
    for host, value in pairs:
        name = key(value)
        hosts.setdefault(name, []).append(host)
        shown.setdefault(name, value)
    return sorted(
        (Likeness(shown[name], tuple(group)) for name, group in hosts.items()),
        key=lambda group: (-len(group.hosts), group.value),
    )


def _spoken(groups: Sequence[Likeness], name: str = "") -> str:
    """Return ``2.6.0 on gpu[01-30], 2.5.1 on gpu31``."""
    shown = [f"{group.value} on {group.place}" for group in groups[:MOST_NAMED]]
    more = f" and {len(groups) - MOST_NAMED} more values" if len(groups) > MOST_NAMED else ""
    return f"{name} {', '.join(shown)}{more}".strip()


def _odd_ones(groups: Sequence[Likeness]) -> list[str]:
    """Return the hosts that differ from most; empty if no value has a majority."""
    count = sum(len(group.hosts) for group in groups)
    if 2 * len(groups[0].hosts) <= count:
        return []
    return [host for group in groups[1:] for host in group.hosts]


def _usual(hosts: Iterable[HostRecord], name: str) -> str:
    found = Counter(host.versions[name] for host in hosts if name in host.versions).most_common(1)
    return found[0][0] if found else "unknown"


# versions


def _components(hosts: Iterable[HostRecord]) -> list[str]:
    """Return all components with versions, the most important one first."""
    first = (*_MUST_MATCH, "python", "driver")
    names = {name for host in hosts for name in host.versions}
    return [name for name in first if name in names] + sorted(names.difference(first))


def _by_value(hosts: Iterable[HostRecord], name: str) -> list[Likeness]:
    """Return hosts by their version of a component; hosts without one are dropped."""
    key = _release if name == "torch" else str
    return _grouped(((host.host, host.versions[name]) for host in hosts if name in host.versions), key)


def _release(version: str) -> str:
    """Return the version of torch without the build part; of a build between releases that is all there is."""
    public, _, _ = version.partition("+")
    return version if re.search(r"a\d|b\d|rc\d|dev", public) else public


def _tags(hosts: Iterable[HostRecord]) -> list[Likeness]:
    """Return builds of one release of torch that differ: ``2.6.0+cu124`` and ``2.6.0+cu126``."""
    groups = _grouped(((host.host, host.versions["torch"]) for host in hosts if "torch" in host.versions), str)
    return groups if len(groups) > 1 else []


def _grave_versions(cluster: Cluster, names: Sequence[str]) -> Finding:
    """Return components that differ between the same hosts, together: these hosts have another image."""
    hosts: dict[tuple[str | None, ...], list[HostRecord]] = {}
    for host in cluster.hosts:
        key = tuple(
            _release(host.versions[name]) if name == "torch" and name in host.versions else host.versions.get(name)
            for name in names
        )
        hosts.setdefault(key, []).append(host)
    # a host without one component joins the hosts with the same others
    for key in [key for key in hosts if None in key]:
        like = next((other for other in hosts if None not in other and _fits(key, other)), None)
        if like is not None or all(part is None for part in key):
            silent = hosts.pop(key)
            if like is not None:
                hosts[like].extend(silent)
    groups = sorted(
        (
            Likeness(
                ", ".join(f"{_MUST_MATCH[name]} {part}" for name, part in zip(names, key, strict=True) if part),
                tuple(host.host for host in group),
            )
            for key, group in hosts.items()
        ),
        key=lambda group: (-len(group.hosts), group.value),
    )
    odd = _odd_ones(groups)
    there = shorten_hosts(odd) if odd else "all hosts"
    return rules.DC503.found(
        f"versions differ between hosts: {_spoken(groups)}",
        severity=None if cluster.launched else Severity.INFO,
        where=Where(host=place_hosts(odd), object=", ".join(names)),
        evidence={
            name: {group.value: len(group.hosts) for group in _by_value(cluster.hosts, name)[:MOST_NAMED]}
            for name in names
        },
        fix=Fix(
            f"install the same on {there}{f' as on the others ({groups[0].value})' if odd else ''}, "
            "or use one image or one environment on a shared folder for all",
            where="host",
        ),
    )


def _fits(key: tuple[str | None, ...], other: tuple[str | None, ...]) -> bool:
    return any(key) and all(part in (None, wanted) for part, wanted in zip(key, other, strict=True))


def _other_versions(differing: Sequence[tuple[str, Sequence[Likeness]]]) -> Finding:
    parts = [
        _spoken(groups[:2] if len(groups) > 3 else groups, name) + _and_values(groups) for name, groups in differing
    ]
    more = f"; and {len(parts) - MOST_NAMED} more" if len(parts) > MOST_NAMED else ""
    odd = dict.fromkeys(host for _, groups in differing for host in _odd_ones(groups))
    return rules.DC503.found(
        f"versions differ that need not be equal: {'; '.join(parts[:MOST_NAMED])}{more}",
        severity=Severity.INFO,
        where=Where(host=place_hosts(odd), object=", ".join(name for name, _ in differing[:MOST_NAMED])),
        evidence={name: {group.value: len(group.hosts) for group in groups[:2]} for name, groups in differing[:8]},
        fix=Fix("nothing, unless these hosts behave differently: then bring them to one version", where="host"),
    )


def _and_values(groups: Sequence[Likeness]) -> str:
    return f" and {len(groups) - 2} more versions" if len(groups) > 3 else ""


# settings


def _names_that_differ(hosts: Sequence[HostRecord]) -> list[str]:
    """Return variables that differ between ranks; most hosts have equal values, which one comparison shows."""
    names: set[str] = set()
    usual = hosts[0].settings if hosts else {}
    for host in hosts:
        if host.settings != usual:
            names.update(name for name in {*host.settings, *usual} if host.settings.get(name) != usual.get(name))
        for rank in host.ranks:
            if rank.settings:
                names.update(name for name, value in rank.settings.items() if value != host.settings.get(name))
    return sorted(names.difference(_OF_A_NODE))


def _settings_by_value(hosts: Iterable[HostRecord], name: str) -> list[Likeness]:
    """Return hosts by their value of a variable, with the ranks if they differ on one host."""
    found: dict[str, tuple[list[str], list[int], str]] = {}
    for host in hosts:
        common = host.settings.get(name, "")
        own: Mapping[str, list[int]] = {}
        if any(name in rank.settings for rank in host.ranks):
            own = _ranks_by_value(host, name, common)
        if len(own) < 2:
            value = next(iter(own), common)
            found.setdefault(_meaning(name, value), ([], [], value))[0].append(host.host)
            continue
        for value, ranks in own.items():
            group = found.setdefault(_meaning(name, value), ([], [], value))
            group[0].append(host.host)
            group[1].extend(ranks)
    return sorted(
        (
            Likeness(_shown(name, value), tuple(dict.fromkeys(names)), tuple(ranks))
            for names, ranks, value in found.values()
        ),
        key=lambda group: (-len(group.hosts), group.value),
    )


def _ranks_by_value(host: HostRecord, name: str, common: str) -> dict[str, list[int]]:
    return grouped_pairs((rank.settings.get(name, common), rank.rank) for rank in host.ranks)


def _meaning(name: str, value: str) -> str:
    """Return a value without parts that its reader ignores."""
    text = value.strip().casefold()
    if name == DEBUG:
        return "detail" if text == "detail" else ""
    return text or _DEFAULTS.get(name, "")


def _shown(name: str, value: str) -> str:
    if not value:
        return f"{name} not set"
    return f"{name}={value if len(value) <= 40 else value[:39] + '…'}"


def _grave_settings(cluster: Cluster, variables: Sequence[tuple[str, Sequence[Likeness]]]) -> Finding:
    """Return variables that differ between the same hosts, together: their environment was not passed on."""
    name, groups = variables[0]
    names = [other for other, _ in variables]
    others = names[1:MOST_SETTINGS]
    more = f" and {len(names) - MOST_SETTINGS} more" if len(names) > MOST_SETTINGS else ""
    likewise = f"; likewise {', '.join(others)}{more}" if others else ""
    odd = _odd_ones(groups)
    ranks = sorted({rank for group in groups[1:] for rank in group.ranks})
    origin = _origin(cluster.hosts, names, odd)
    what = "torch" if names == [DEBUG] else "gloo" if name in GLOO_WANTS_EQUAL else "NCCL"
    return rules.DC504.found(
        f"{what} needs equal settings on all ranks: {_spoken(groups)}{likewise}{origin}",
        severity=None if cluster.launched else Severity.INFO,
        where=Where(
            variable=name,
            host=place_hosts(odd),
            ranks=place_ranks(ranks),
        ),
        evidence={
            "variables": names[: 2 * MOST_SETTINGS],
            "hosts_by_value": {group.value: len(group.hosts) for group in groups[:MOST_NAMED]},
        },
        fix=Fix(
            f"give all ranks the same {'values' if likewise else name}: in the job script, by "
            f"-x {name} to mpirun, or in a file that all hosts share"
            + (". The administrator of a host changes its own files" if origin else ""),
            where="job-script",
        ),
    )


def _origin(hosts: Sequence[HostRecord], names: Sequence[str], odd: Sequence[str]) -> str:
    """Return the file of the setting on the hosts that differ, or on any host."""
    wanted = set(odd)
    for host in hosts:
        for name in names:
            if name in host.origins and (not wanted or host.host in wanted or name not in _set_on(hosts, wanted)):
                return f" ({name} from {host.origins[name]} on {host.host})"
    return ""


def _by_site(hosts: Iterable[HostRecord], name: str) -> bool:
    """Return whether the machine's own file sets it wherever it is set, for all ranks of the host."""
    return all(
        host.origins.get(name, "").startswith(SITE_FILE) for host in hosts if host.settings.get(name)
    ) and not any(name in rank.settings for host in hosts for rank in host.ranks)


def _set_on(hosts: Sequence[HostRecord], wanted: set[str]) -> set[str]:
    return {name for host in hosts if host.host in wanted for name in host.settings}


def _other_settings(differing: Sequence[tuple[str, Sequence[Likeness]]]) -> Finding:
    parts = []
    for name, groups in differing[:MOST_SETTINGS]:
        odd = _odd_ones(groups)
        parts.append(f"{name} ({shorten_hosts(odd, 30)})" if odd else f"{name} ({len(groups)} values)")
    more = f" and {len(differing) - MOST_SETTINGS} more" if len(differing) > MOST_SETTINGS else ""
    everyone = dict.fromkeys(host for _, groups in differing for host in _odd_ones(groups))
    return rules.DC504.found(
        f"settings that need not be equal differ between hosts: {', '.join(parts)}{more}",
        severity=Severity.INFO,
        where=Where(host=place_hosts(everyone)),
        evidence={
            "variables": len(differing),
            "hosts_by_value": {
                name: {group.value: len(group.hosts) for group in groups[:2]} for name, groups in differing[:8]
            },
        },
        fix=Fix(
            "nothing, unless these hosts behave differently: then set them in the job script for all", where="host"
        ),
    )
