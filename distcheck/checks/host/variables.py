"""The variables that libraries read: unknown, renamed, unreadable, left over from a search for errors.

Names are in ``core/variables.jsonl``, parsers in ``launch/values.py``; here they are judged for this launch. Modules of
interfaces, devices and ranks judge what a variable means for those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where
from distcheck.core.rank_evidence import SINCE
from distcheck.core.redaction import MASK
from distcheck.core.registry import probe
from distcheck.core.variable_table import NEWEST_NCCL, NEWEST_TORCH, Variable, VariableTable
from distcheck.launch.model import ELASTIC_LAUNCHERS, Launch
from distcheck.launch.settings import COMMAND, ENVIRONMENT, LAUNCHER, Setting, Settings
from distcheck.launch.values import ValueReading, read_value, unknown_log_names
from distcheck.rules import shared_fixes

from .fabric import Fabric, gpu_traffic_ports
from .gpus import Gpus
from .limits import Limits
from .platform import Platform
from .software import Software, Version, version_numbers

#: Who comes with torch, and so has torch's version.
TORCH_OWNERS = ("torch", "torchrun", "gloo")

#: Longest value that is shown in a message; the whole one stands in the evidence.
LONGEST_SHOWN = 80
#: The oldest NCCL that a CUDA build of torch 2 brings: 2.14.3 with torch 2.0 (the pin in its metadata).
NCCL_OF_TORCH_2 = (2, 14)
#: What a file that will run elsewhere is judged for, where the installed release is unknown: torch 2.4 (July 2024)
#: and the NCCL that it brings (nvidia-nccl-cu12 2.20.5, its metadata), or newer.
TORCH_IN_USE = (2, 4)
NCCL_IN_USE = (2, 20, 5)
#: From here on an unknown algorithm or protocol ends NCCL's start (facts of the variables NCCL_ALGO and NCCL_PROTO).
NCCL_STRICT_SELECTION = (2, 24)
#: From here on NCCL takes blanks off its log levels.
NCCL_TRIMS_LEVELS = (2, 30)
#: Old allocator names: on torch 2.9.1 the new name was reported to be ignored for expandable_segments while the old one
#: worked (pytorch/pytorch#183387), so that no user is advised to change.
KEPT_OLD_NAMES = frozenset({"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"})
#: Who reads variables that a user never sets: their names come from the scheduler or the plug-in itself.
NOT_SET_BY_USERS = frozenset({"slurm", "openmpi", "pmi", "pmix", "mvapich", "mpi"})
#: What torchrun takes from its options only, and the option's field in a parsed command.
TORCHRUN_OPTIONS = {"NNODES": "nnodes_min", "NODE_RANK": "node_rank", "NPROC_PER_NODE": "nproc"}
#: A module that knows the interfaces: it judges names that would break the start (DC406, DC407).
JUDGED_WITH_INTERFACES = frozenset({"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"})
#: Variables of torch's NCCL backend that its flight recorder reads for gloo as well (run with torch 2.13).
RECORDER_VARIABLES = frozenset({"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_TRACE_CPP_STACK"})


class Debugging(NamedTuple):
    """A setting that belongs to a search for errors."""

    name: str
    #: effective values that switch it on, in upper case; empty: all but 0 and its like
    values: frozenset[str]
    #: what it does, a clause after "which"
    effect: str
    #: kernels wait for each other, so that training slows down by tens of percent
    serialises: bool = False


DEBUGGING = (
    Debugging(
        "CUDA_LAUNCH_BLOCKING", frozenset(), "makes every kernel launch wait for the kernel's end", serialises=True
    ),
    Debugging(
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        frozenset(),
        "makes every allocation and release of GPU memory wait for the device",
        serialises=True,
    ),
    Debugging("NCCL_DEBUG", frozenset({"INFO", "TRACE"}), "makes every rank write NCCL's log"),
    Debugging(
        "TORCH_DISTRIBUTED_DEBUG", frozenset({"DETAIL"}), "compares every collective across the ranks before it runs"
    ),
    Debugging("TORCH_NCCL_BLOCKING_WAIT", frozenset({"1"}), "makes the CPU wait for every collective"),
    Debugging("TORCH_NCCL_NAN_CHECK", frozenset({"1"}), "searches the input of every collective for NaN"),
    Debugging("TORCH_NCCL_ENABLE_TIMING", frozenset({"1"}), "times every collective"),
    Debugging("TORCH_NCCL_DESYNC_DEBUG", frozenset({"1"}), "follows the order of collectives on all ranks"),
    Debugging("TORCH_NCCL_TRACE_CPP_STACK", frozenset({"1"}), "takes a C++ stack for every collective"),
    Debugging("TORCH_FR_CPP_STACK", frozenset({"1"}), "takes a C++ stack for every collective"),
    Debugging("TORCH_SHOW_CPP_STACKTRACES", frozenset({"1"}), "adds C++ frames to errors"),
    Debugging("TORCH_CPP_LOG_LEVEL", frozenset({"INFO", "0"}), "makes every rank write torch's C++ log"),
    Debugging("TORCH_LOGS", frozenset(), "makes every rank write torch's logs"),
    Debugging("GLOO_LOG_LEVEL", frozenset({"DEBUG", "INFO"}), "makes every rank write gloo's log"),
    Debugging("FI_LOG_LEVEL", frozenset({"TRACE", "INFO", "DEBUG"}), "makes every rank write libfabric's log"),
    Debugging(
        "UCX_LOG_LEVEL",
        frozenset({"INFO", "DEBUG", "TRACE", "REQ", "DATA", "ASYNC", "FUNC", "POLL"}),
        "makes every rank write UCX's log",
    ),
    Debugging("NCCL_CHECK_POINTERS", frozenset(), "checks the pointers of every collective"),
    Debugging(
        "NCCL_CHECK_MODE", frozenset({"DEBUG_LOCAL", "DEBUG_GLOBAL"}), "checks the arguments of every collective"
    ),
    Debugging("ACCELERATE_DEBUG_MODE", frozenset(), "compares tensor shapes on all ranks before each collective"),
    Debugging("NCCL_ALGO", frozenset(), "takes the choice of the algorithm from NCCL"),
    Debugging("NCCL_PROTO", frozenset(), "takes the choice of the protocol from NCCL"),
    Debugging("NCCL_NTHREADS", frozenset(), "takes the choice of threads from NCCL"),
    Debugging("NCCL_MAX_NCHANNELS", frozenset({"1", "2"}), "leaves NCCL hardly any channels"),
)


class DisabledTransport(NamedTuple):
    """A setting that takes a way from NCCL."""

    name: str
    #: effective values that do so; ``!0``: any number but 0
    values: frozenset[str]
    #: what can't be used any more
    way: str
    #: what it matters to: ``gpus`` (two or more on this host), ``rdma`` (an active port and several nodes), ``minor``
    kind: str


_ANY_NUMBER = frozenset({"!0"})
TRANSPORTS = (
    DisabledTransport("NCCL_P2P_DISABLE", frozenset({"1"}), "direct access between GPUs (NVLink, PCIe)", "gpus"),
    DisabledTransport("NCCL_P2P_LEVEL", frozenset({"LOC"}), "direct access between GPUs (NVLink, PCIe)", "gpus"),
    DisabledTransport("NCCL_SHM_DISABLE", _ANY_NUMBER, "shared memory between the ranks of a host", "gpus"),
    DisabledTransport("NCCL_IB_DISABLE", _ANY_NUMBER, "InfiniBand and RoCE", "rdma"),
    DisabledTransport("NCCL_NET", frozenset({"SOCKET"}), "every network but TCP", "rdma"),
    DisabledTransport("NCCL_NET_GDR_LEVEL", frozenset({"LOC"}), "GPUDirect RDMA", "rdma"),
    DisabledTransport(
        "NCCL_P2P_DIRECT_DISABLE", _ANY_NUMBER, "direct access to buffers of GPUs of one process", "minor"
    ),
    DisabledTransport("NCCL_NVLS_ENABLE", frozenset({"0"}), "NVLink SHARP", "minor"),
    DisabledTransport("NCCL_NVB_DISABLE", _ANY_NUMBER, "the way through another GPU's NVLink", "minor"),
    DisabledTransport("NCCL_PXN_DISABLE", _ANY_NUMBER, "the way through another GPU's network card", "minor"),
    DisabledTransport("NCCL_MNNVL_ENABLE", frozenset({"0"}), "NVLink between nodes", "minor"),
    DisabledTransport("FI_EFA_USE_DEVICE_RDMA", frozenset({"0"}), "RDMA read of EFA", "minor"),
)


#: Names that a fix must not recommend.
FLAGGED = frozenset({entry.name for entry in TRANSPORTS} | {entry.name for entry in DEBUGGING})


class Installed(NamedTuple):
    """The versions that names and values are judged for; None: not known."""

    torch: Version | None = None
    nccl: Version | None = None
    #: the installed NCCL is this or newer
    nccl_at_least: Version | None = None
    #: torch is there, built without CUDA and ROCm, and so without NCCL
    cpu_only: bool = False
    #: the installed torch is this or newer
    torch_at_least: Version | None = None

    def of(self, owner: str | None) -> Version | None:
        """The version of a variable's owner."""
        if owner == "nccl":
            return self.nccl
        return self.torch if owner in TORCH_OWNERS else None

    def at_least(self, owner: str | None) -> Version | None:
        """The same, or what it is not older than."""
        if owner == "nccl":
            return self.nccl or self.nccl_at_least
        return (self.torch or self.torch_at_least) if owner in TORCH_OWNERS else None


#: Assumed releases of a job on machines without a description.
IN_USE = Installed(nccl_at_least=NCCL_IN_USE, torch_at_least=TORCH_IN_USE)


@probe(rules.DC110)
def names_are_known(launch: Launch, settings: Settings, software: Software | Unavailable) -> Iterator[Finding]:
    """Every variable below a library's prefix is one that the library reads."""
    yield from judge_names(launch, settings, _installed(software))


@probe(rules.DC111)
def names_are_current(settings: Settings, software: Software | Unavailable) -> Iterator[Finding]:
    """No variable is set that the installed release has dropped, or reads only under a name of its own past."""
    yield from judge_age(settings, _installed(software))


@probe(rules.DC112)
def values_are_understood(launch: Launch, settings: Settings, software: Software | Unavailable) -> Iterator[Finding]:
    """Every value is one that the library which reads it takes as it is meant."""
    yield from judge_values(launch, settings, _installed(software))


@probe(rules.DC113)
def debugging_is_off(launch: Launch, settings: Settings, software: Software | Unavailable) -> Iterator[Finding]:
    """No setting of an earlier search for errors is left on."""
    yield from judge_debugging(launch, settings, _installed(software))


@probe(rules.DC114)
def transports_are_on(
    launch: Launch,
    settings: Settings,
    software: Software | Unavailable,
    gpus: Gpus | Unavailable,
    fabric: Fabric | Unavailable,
    platform: Platform | Unavailable,
) -> Iterator[Finding]:
    """No variable takes from NCCL a way that this launch could use."""

    def loss(entry: DisabledTransport) -> str | None:
        return _loss(entry, launch, gpus, fabric, platform)

    without_channel = isinstance(fabric, Fabric) and not fabric.imex_channels
    for finding in judge_transports(launch, settings, _installed(software), loss):
        # without a channel it is what lets the job run at all: DC420
        if not (without_channel and finding.where.variable == "NCCL_MNNVL_ENABLE"):
            yield finding


@probe(rules.DC115)
def threads_fit_the_cores(
    launch: Launch, settings: Settings, limits: Limits | Unavailable, platform: Platform | Unavailable
) -> Iterator[Finding]:
    """Each rank's CPU threads are neither left at torchrun's 1 nor at all cores for every rank."""
    ranks = launch.ranks_here
    if not launch.launched or ranks is None or ranks < 2 or isinstance(limits, Unavailable):
        return
    cores = len(limits.affinity)
    share = cores // ranks
    setting = settings.of("OMP_NUM_THREADS")
    agent = launch.launcher in ELASTIC_LAUNCHERS or launch.agent_store
    if setting is not None and setting.origin == LAUNCHER:
        seen = "torchrun set OMP_NUM_THREADS=1 for this rank"
    elif setting is None and agent and launch.stage == "planned":
        seen = "OMP_NUM_THREADS is not set, and torchrun will give each of its workers 1"
    elif setting is None and not agent and launch.stage == "rank":
        # a task that the scheduler has bound has its cores for itself
        if isinstance(platform, Unavailable) or cores < platform.cpus:
            return
        seen = f"OMP_NUM_THREADS is not set: each of {ranks} ranks starts a thread for each of {cores} cores"
    else:
        return
    if share < 2 and agent:
        return
    yield rules.DC115.found(
        seen + (f"; {ranks} ranks on {cores} cores have room for {share} each" if agent else ""),
        where=Where(variable="OMP_NUM_THREADS"),
        evidence={"value": None if setting is None else setting.value, "ranks": ranks, "cores": cores},
        fix=shared_fixes.THREADS_OF_A_RANK._replace(command=f"export OMP_NUM_THREADS={max(share, 1)}"),
    )


@probe(rules.DC116)
def settings_come_from_files(settings: Settings) -> Iterator[Finding]:
    """Report settings of NCCL from a file, which the environment does not show."""
    if not settings.files_apply:
        raise Unavailable("the configuration files of this host are not those that the job reads")
    by_file: dict[str, list[Setting]] = {}
    for setting in settings.items:
        if setting.origin not in (ENVIRONMENT, LAUNCHER, COMMAND) and " " not in setting.name:
            by_file.setdefault(setting.origin.rpartition(":")[0], []).append(setting)
    for path, found in by_file.items():
        yield rules.DC116.found(
            f"{path} sets {', '.join(_plain(setting.name) for setting in found)} for NCCL",
            where=Where(path=path, line=int(found[0].origin.rpartition(":")[2])),
            evidence={"settings": {setting.name: setting.value for setting in found}},
            fix=Fix(
                "nothing, where that is meant; a variable of the same name in the job script wins over the file, and "
                "an empty one hides it",
                where="job-script",
            ),
        )
    plugin = settings.of("NCCL_ENV_PLUGIN")
    if plugin is not None and plugin.value not in ("", "none"):
        yield rules.DC116.found(
            f"{shown(plugin)} lets a plug-in give NCCL's settings, which then need not be those of the environment",
            where=Where(variable=plugin.name),
            evidence={"value": plugin.value, "origin": plugin.origin},
            fix=_fix(
                plugin, "nothing, where that is meant; NCCL_DEBUG=INFO shows the values that NCCL works with", None
            ),
        )


@probe(rules.DC119)
def failures_end_the_job(launch: Launch, settings: Settings, software: Software | Unavailable) -> Iterator[Finding]:
    """Report settings that keep a process alive after a failed or hung collective: the job would wait forever."""
    if _talks_without_nccl(launch, _installed(software)):
        return
    table = VariableTable()
    # torch takes the new name where both are set
    setting = settings.of("TORCH_NCCL_ASYNC_ERROR_HANDLING") or settings.of("NCCL_ASYNC_ERROR_HANDLING")
    variable = None if setting is None else table.lookup(setting.name)
    if setting is None or variable is None or read_value(variable, setting.value).effective != "0":
        return
    waits = settings.of("TORCH_NCCL_BLOCKING_WAIT") or settings.of("NCCL_BLOCKING_WAIT")
    waiting = None if waits is None else table.lookup(waits.name)
    if waits is not None and waiting is not None and read_value(waiting, waits.value).effective == "1":
        return
    yield rules.DC119.found(
        f"{shown(setting)} disables what ends a rank whose collective fails or hangs: the job then waits forever",
        where=Where(variable=setting.name),
        evidence={"value": setting.value, "origin": setting.origin},
        fix=_fix(
            setting,
            "remove it: torch then ends the process when a collective fails or its time limit is over",
            f"unset {setting.name}",
        ),
    )


@probe(rules.DC126)
def connections_fit_the_parallelism(
    launch: Launch, settings: Settings, software: Software | Unavailable
) -> Iterator[Finding]:
    """CUDA_DEVICE_MAX_CONNECTIONS is 1 where Megatron-LM wants it, and not elsewhere."""
    packages = () if isinstance(software, Unavailable) else software.packages
    megatron = any(name.replace("_", "-").startswith("megatron") for name, _ in packages) or bool(
        launch.script and "megatron" in launch.script.lower()
    )
    setting = settings.of("CUDA_DEVICE_MAX_CONNECTIONS")
    where = Where(variable="CUDA_DEVICE_MAX_CONNECTIONS")
    if setting is not None and setting.value.strip() == "1" and not megatron:
        yield rules.DC126.found(
            f"{shown(setting)} gives a GPU one queue of work, as Megatron-LM wants it; FSDP overlaps less with it",
            where=where,
            evidence={"value": setting.value, "origin": setting.origin},
            fix=_fix(setting, "remove it unless this job needs it", f"unset {setting.name}"),
        )
    elif setting is None and megatron and launch.launched and not _installed(software).cpu_only:
        yield rules.DC126.found(
            "CUDA_DEVICE_MAX_CONNECTIONS is not set: with tensor or context parallelism Megatron-LM insists on 1 on "
            "GPUs before Blackwell, and refuses 1 with FSDP",
            where=where,
            evidence={"value": None},
            fix=Fix(
                "for tensor or context parallelism set it before Python starts",
                command="export CUDA_DEVICE_MAX_CONNECTIONS=1",
                where="job-script",
            ),
        )


@probe(rules.DC128)
def detail_debugging_does_not_crash(
    launch: Launch, settings: Settings, software: Software | Unavailable
) -> Iterator[Finding]:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL is not combined with gloo and a torch whose DDP crashes with it."""
    setting = settings.of("TORCH_DISTRIBUTED_DEBUG")
    installed = _installed(software)
    gloo = launch.backend == "gloo" or (launch.backend is None and installed.cpu_only)
    if setting is None or setting.value.upper() != "DETAIL" or not gloo or (installed.torch or ())[:2] != (2, 13):
        return
    yield rules.DC128.found(
        f"{shown(setting)} crashes DDP on gloo: with torch 2.13 each rank ends with SIGSEGV in DDP(…)",
        where=Where(variable=setting.name),
        severity=Severity.INFO if launch.stage == "shell" else None,
        evidence={"value": setting.value, "origin": setting.origin},
        fix=_fix(setting, "set it to INFO", "export TORCH_DISTRIBUTED_DEBUG=INFO"),
    )


# what is judged, of this host's settings and of those that a file makes


def judge_names(launch: Launch, settings: Settings, installed: Installed) -> Iterator[Finding]:
    """DC110: settings that no library reads."""
    table = VariableTable()
    for setting in settings.items:
        if setting.origin == LAUNCHER or setting.name in settings.known:
            continue
        if setting.name != setting.name.strip() or " " in setting.name:
            yield _name_with_blank(setting)
            continue
        variable = table.lookup(setting.name)
        if variable is None:
            yield from _near_miss(setting, settings, table, installed)
        elif variable.own_use:
            yield from _own_use(setting, variable, launch, settings, table)
        elif not variable.exists and not _set_in_addition(setting, variable.suggest, settings, table):
            yield _unknown(setting, variable.suggest, table)


def judge_age(settings: Settings, installed: Installed) -> Iterator[Finding]:
    """DC111: which of the names are of the past."""
    table = VariableTable()
    for setting in settings.items:
        variable = None if setting.origin == LAUNCHER else table.lookup(setting.name)
        if variable is None or not variable.exists or setting.name in KEPT_OLD_NAMES | settings.known:
            continue
        if variable.owner in NOT_SET_BY_USERS:
            continue
        if _is_gone(variable, installed):
            yield _gone(setting, variable, installed)
        elif not variable.removed and (variable.deprecated_by or variable.deprecated_since):
            yield from _outdated(setting, variable, settings, table, installed)


def judge_values(launch: Launch, settings: Settings, installed: Installed) -> Iterator[Finding]:
    """DC112: which of the values are not taken as they are meant."""
    table = VariableTable()
    for setting in settings.items:
        variable = None if setting.origin == LAUNCHER else table.lookup(setting.name)
        if variable is None or not variable.exists or MASK in setting.value or setting.name in settings.known:
            continue
        if _is_gone(variable, installed) or _not_there_yet(variable, installed):
            continue
        reading = _reading(setting, variable, settings, installed)
        if setting.name == "NCCL_CONF_FILE" and settings.unread is not None and reading.problem is None:
            problem = f"can't be read ({settings.unread}): NCCL reads neither it nor ~/.nccl.conf, and prints nothing"
            reading = ValueReading(None, problem, "ignored")
        if reading.problem is None:
            continue
        if reading.consequence == "crash" and setting.name in JUDGED_WITH_INTERFACES and launch.on_this_host:
            continue
        yield rules.DC112.found(
            f"{shown(setting)} {reading.problem}" + (f", unless {reading.unless}" if reading.unless else ""),
            severity=_how_bad(setting, variable, reading, launch, installed),
            where=Where(variable=setting.name),
            evidence={
                "value": setting.value,
                "origin": setting.origin,
                "effective": reading.effective,
                "consequence": reading.consequence,
            },
            fix=_better_value(setting, variable, reading),
        )


def judge_debugging(launch: Launch, settings: Settings, installed: Installed) -> Iterator[Finding]:
    """DC113: what belongs to a search for errors."""
    for entry in DEBUGGING:
        setting, effective = _accepted(settings, entry.name)
        if setting is None or not _is_on(effective, entry.values):
            continue
        hurts = entry.serialises and launch.launched and not installed.cpu_only
        yield rules.DC113.found(
            f"{shown(setting)} is set, which {entry.effect}",
            severity=Severity.WARNING if hurts else Severity.INFO,
            where=Where(variable=setting.name),
            evidence={"value": setting.value, "origin": setting.origin},
            fix=_fix(setting, "remove it after debugging", f"unset {setting.name}"),
        )


def judge_transports(
    launch: Launch, settings: Settings, installed: Installed, loss: Callable[[DisabledTransport], str | None]
) -> Iterator[Finding]:
    """DC114: what takes a way from NCCL.

    :param loss: what the launch loses by that, as a clause; None where nothing is known to be lost
    """
    for entry in TRANSPORTS:
        setting, effective = _accepted(settings, entry.name)
        if setting is None or not effective or not _takes_away(effective.upper(), entry.values):
            continue
        lost = None if _talks_without_nccl(launch, installed) else loss(entry)
        slower = lost is not None and launch.launched and not setting.by_site
        yield rules.DC114.found(
            f"{shown(setting)} keeps NCCL from {entry.way}" + (f", though {lost}" if lost else ""),
            severity=Severity.WARNING if slower else Severity.INFO,
            where=Where(variable=setting.name),
            evidence={"value": setting.value, "origin": setting.origin, "effective": effective},
            fix=_give_back(setting),
        )


def _accepted(settings: Settings, name: str) -> tuple[Setting, str | None] | tuple[None, None]:
    """Return a setting that no launcher made, and the value that the library uses; DC112 reports other values."""
    setting = settings.of(name)
    variable = None if setting is None else VariableTable().lookup(name)
    if setting is None or variable is None or setting.origin == LAUNCHER:
        return None, None
    reading = read_value(variable, setting.value)
    return (setting, reading.effective) if reading.problem is None else (None, None)


# names


def _name_with_blank(setting: Setting) -> Finding:
    """A line such as ``export NCCL_DEBUG=INFO`` in a file that is no shell script."""
    meant = setting.name.split()[-1]
    return rules.DC110.found(
        f"{setting.origin} sets a variable called {setting.name!r}, blanks included, which nothing reads",
        where=Where(variable=setting.name),
        evidence={"value": setting.value, "origin": setting.origin, "meant": meant},
        fix=_fix(setting, f"write {meant}=VALUE: no 'export', no blank before the = and none behind it", None),
    )


def _near_miss(setting: Setting, settings: Settings, table: VariableTable, installed: Installed) -> Iterator[Finding]:
    """A name that the table does not know, close to one that it knows."""
    meant = table.nearest(setting.name)
    if meant is None or _set_in_addition(setting, meant, settings, table):
        return
    # a newer release may read names that the table can't know
    newer = installed.nccl if setting.name.startswith("NCCL_") else installed.torch
    newest = NEWEST_NCCL if setting.name.startswith("NCCL_") else NEWEST_TORCH
    if newer is not None and newer > newest:
        return
    yield _unknown(setting, meant, table)


def _set_in_addition(setting: Setting, meant: str | None, settings: Settings, table: VariableTable) -> bool:
    """The right name is set as well: this one belongs to the script."""
    if meant is None or settings.get(meant) is None:
        return False
    return table.owned_prefix(setting.name) is None or settings.get(meant) == setting.value


def _unknown(setting: Setting, meant: str | None, table: VariableTable) -> Finding:
    """A name that nothing reads; ``meant`` is the one that probably was."""
    slip = table.lookup(setting.name)
    right = None if meant is None else table.lookup(meant)
    # a name that is itself outdated would only lead to the next finding
    name = meant if right is None or right.deprecated_by is None else right.deprecated_by
    seen, text = "", "remove it"
    if name is not None and (slip is None or not slip.other_thing):
        seen, text = f": {name} is read", f"call it {name} where that is meant, or remove it"
    elif slip is not None and not slip.meaning.startswith("Nothing reads"):
        hint = f" ({name})" if name is not None and name not in slip.meaning else ""
        text = f"remove it: {_clause(slip.meaning)}{hint}"
    return rules.DC110.found(
        f"nothing reads {shown(setting)}{seen}",
        where=Where(variable=setting.name),
        evidence={"value": setting.value, "origin": setting.origin, "meant": name},
        fix=_fix(setting, f"{text}; a name of your own belongs in 'known-variables' of the configuration", None),
    )


def _own_use(
    setting: Setting, variable: Variable, launch: Launch, settings: Settings, table: VariableTable
) -> Iterator[Finding]:
    """A name that nothing reads, but that scripts use for themselves: it speaks where it seems to be believed in."""
    if setting.name in TORCHRUN_OPTIONS:
        yield from _torchrun_option(setting, variable, launch, settings)
    elif variable.suggest is not None:
        if launch.stage == "rank" and settings.get(variable.suggest) is None:
            yield _unknown(setting, variable.suggest, table)
    else:
        yield rules.DC110.found(
            f"{shown(setting)} is read by no library; collectives keep the time limit given to init_process_group",
            severity=Severity.INFO,
            where=Where(variable=setting.name),
            evidence={"value": setting.value, "origin": setting.origin, "meant": None},
            fix=Fix(
                "nothing, where your own script reads it; else give init_process_group(timeout=timedelta(seconds=…)), "
                "without which it is 10 minutes for nccl and 30 for gloo",
                where="code",
            ),
        )


def _torchrun_option(setting: Setting, variable: Variable, launch: Launch, settings: Settings) -> Iterator[Finding]:
    """Report NNODES and the like next to a torchrun without that option."""
    command = launch.command
    field = TORCHRUN_OPTIONS[setting.name]
    if command is None or command.launcher not in ("torchrun", "torch.distributed.launch"):
        return
    if getattr(command, field) is not None or {field, field.partition("_")[0]} & command.unknown:
        return
    if variable.suggest is None or settings.get(variable.suggest) is not None:
        return
    if command.standalone and field != "nproc":
        return
    # without several nodes there is one node rank only
    nodes = settings.get("NNODES") or "1"
    if setting.value in ("", "0", "1") and not (setting.name == "NODE_RANK" and nodes not in ("", "1")):
        return
    option = "--" + setting.name.lower().replace("_", "-")
    yield rules.DC110.found(
        f"{shown(setting)} is set, but torchrun does not read it, and the command has no {option}",
        where=Where(variable=setting.name),
        evidence={"value": setting.value, "origin": setting.origin, "meant": variable.suggest},
        fix=Fix(f'give torchrun {option}="${setting.name}"', where="launch-line"),
    )


def _is_gone(variable: Variable, installed: Installed) -> bool:
    """The installed release does not read it any more."""
    gone = version_numbers(variable.removed)
    if not gone:
        return False
    version = installed.at_least(variable.owner)
    return version is not None and version >= gone


def _not_there_yet(variable: Variable, installed: Installed) -> bool:
    """The installed release is older than the first that reads it."""
    version = installed.of(variable.owner)
    since = version_numbers(variable.since)
    return version is not None and bool(since) and not str(variable.since).startswith("<") and version < since


def _gone(setting: Setting, variable: Variable, installed: Installed) -> Finding:
    owner = "NCCL" if variable.owner == "nccl" else "torch"
    version = installed.at_least(variable.owner) or ()
    successor = f"; its new name is {variable.deprecated_by}" if variable.deprecated_by else ""
    removed = (variable.removed or "").removeprefix("<=")
    return rules.DC111.found(
        f"{shown(setting)} has no effect: {owner} does not read it since {removed}{successor}",
        where=Where(variable=setting.name),
        evidence={
            "value": setting.value,
            "origin": setting.origin,
            "removed": removed,
            "installed": ".".join(map(str, version)),
            "successor": variable.deprecated_by,
        },
        fix=_fix(setting, f"remove it{_what_now(variable)}", f"unset {setting.name}"),
    )


def _outdated(
    setting: Setting, variable: Variable, settings: Settings, table: VariableTable, installed: Installed
) -> Iterator[Finding]:
    """A name that is still read, but has a successor."""
    new = None if variable.deprecated_by is None else table.lookup(variable.deprecated_by)
    since = variable.deprecated_since or (None if new is None else new.since)
    version = installed.of(variable.owner)
    if version is not None and version_numbers(since) and version < version_numbers(since):
        return
    # NCCL takes the smaller or the larger of both, so that both may be meant
    both = None if new is None or variable.owner == "nccl" else settings.of(new.name)
    if both is not None and both.value == setting.value:
        return
    # torch warns at every start and may drop the name; NCCL keeps its old ones as they are
    supposed = installed.torch_at_least
    known = version is not None or (supposed is not None and () < version_numbers(since) <= supposed)
    warns = known and variable.owner in TORCH_OWNERS
    if both is not None and new is not None:
        seen = f"{shown(setting)} and {shown(both)} differ; the new name {new.name} counts"
    else:
        owner = {"nccl": "NCCL ", "torch": "torch ", "torchrun": "torch ", "gloo": "torch "}.get(
            variable.owner or "", ""
        )
        seen = f"{shown(setting)} is an old name" + (f" since {owner}{since}" if since else "")
        seen += f": its new name is {new.name}" if new is not None else ", kept for old scripts"
    yield rules.DC111.found(
        seen,
        severity=Severity.WARNING if warns else Severity.INFO,
        where=Where(variable=setting.name),
        evidence={
            "value": setting.value,
            "origin": setting.origin,
            "successor": None if new is None else new.name,
            "since": since,
            "installed": None if version is None else ".".join(map(str, version)),
            **({SINCE: since} if since and variable.owner in TORCH_OWNERS else {}),
        },
        fix=_fix(setting, f"remove it{_what_now(variable)}", None),
    )


def _what_now(variable: Variable) -> str:
    """What to set instead; nothing where that would lead to the next finding."""
    successor = variable.deprecated_by
    return "" if successor is None or successor in FLAGGED else f", and set {successor} where it is still wanted"


# values


def _reading(setting: Setting, variable: Variable, settings: Settings, installed: Installed) -> ValueReading:
    """How the value is taken, with what is known about this host and its releases."""
    text = setting.value
    if variable.parse == "torch-logs":
        # the modules that Python finds here are names that torch takes
        parts = [part for part in text.split(",") if part.strip().lstrip("+-") not in settings.importable]
        if text and not parts:
            return ValueReading(text)
        reading = read_value(variable, ",".join(parts).strip() if len(parts) < len(text.split(",")) else text)
        checked = settings.files_apply and bool(unknown_log_names(text))
        newer = installed.torch is not None and installed.torch[:2] > NEWEST_TORCH[:2]
        return reading._replace(unless=None) if checked and not newer else reading
    reading = read_value(variable, text)
    nccl = installed.nccl
    if variable.parse == "nccl-selection" and nccl is not None and reading.problem is not None:
        if nccl < NCCL_STRICT_SELECTION:
            return ValueReading(text)
        return reading._replace(unless=None) if nccl <= NEWEST_NCCL else reading
    if variable.parse in ("nccl-word", "nccl-words") and nccl is not None and reading.unless is not None:
        return ValueReading(text) if nccl >= NCCL_TRIMS_LEVELS else reading._replace(unless=None)
    return reading


def _how_bad(
    setting: Setting, variable: Variable, reading: ValueReading, launch: Launch, installed: Installed
) -> Severity:
    """Whether the job will fail, may suffer, or does not care."""
    if _not_read(variable, launch, installed):
        return Severity.INFO
    if reading.consequence == "crash":
        if variable.owner == "torchrun":
            return _how_bad_for_torchrun(setting, launch, certain=reading.unless is None)
        return Severity.ERROR if reading.unless is None else Severity.WARNING
    if reading.consequence == "misread":
        # a setting that was meant as off stays on, and was set for a reason; a size without its unit means bytes
        inverted = setting.name.endswith("_DISABLE") and variable.parse in ("c-int", "c-one")
        tiny = variable.parse == "c-int" and variable.type == "size" and "BUFFSIZE" in setting.name
        return Severity.ERROR if inverted or tiny else Severity.WARNING
    # an unknown log level only costs the log
    log = "debug-only" in variable.flags and variable.words and ("LOG" in setting.name or "DEBUG" in setting.name)
    return Severity.INFO if log else Severity.WARNING


def _how_bad_for_torchrun(setting: Setting, launch: Launch, *, certain: bool) -> Severity:
    """What ends torchrun matters where torchrun is yet to start."""
    if launch.stage == "planned":
        if launch.launcher in ELASTIC_LAUNCHERS:
            return Severity.ERROR if certain else Severity.WARNING
        return Severity.INFO
    # PET_ names are for torchrun alone; LOGLEVEL belongs to many programs
    return Severity.WARNING if launch.stage == "shell" and setting.name.startswith("PET_") else Severity.INFO


def _not_read(variable: Variable, launch: Launch, installed: Installed) -> bool:
    """The library that reads it takes no part in this launch."""
    if variable.name.startswith("GLOO_") or variable.owner == "gloo":
        return launch.backend == "nccl"
    if variable.parse == "allocator" or variable.owner == "cuda":
        return installed.cpu_only
    if variable.name.startswith(("NCCL_", "TORCH_NCCL_", "RCCL_")) and variable.name not in RECORDER_VARIABLES:
        return _talks_without_nccl(launch, installed)
    return False


def _talks_without_nccl(launch: Launch, installed: Installed) -> bool:
    """It is known that this launch does not use NCCL."""
    if launch.backend is not None:
        return "nccl" not in launch.backend
    return installed.cpu_only


def _better_value(setting: Setting, variable: Variable, reading: ValueReading) -> Fix:
    """The value that was meant, where it is plain, else the way out."""
    name = setting.name
    word = setting.value.strip().lower()
    if reading.consequence == "misread":
        if variable.type == "size" and (meant := re.search(r"(\d+) is meant", reading.problem or "")):
            return _fix(setting, f"write the number of bytes: {name}={meant[1]}", f"export {name}={meant[1]}")
        if variable.parse in ("presence", "non-empty"):
            return _fix(setting, f"unset {name} to switch it off", f"unset {name}")
        if variable.type == "bool" and word in ("true", "yes", "on", "y", "t", "enable", "enabled"):
            # a fix must not lead straight to the next finding
            if name in FLAGGED:
                return _fix(setting, f"remove it, or write {name}=1 if that is really wanted", None)
            one = "True" if variable.parse == "only-true" else "1"
            return _fix(setting, f"write {name}={one}", f"export {name}={one}")
    if name == "LOGLEVEL" and word.upper() in variable.words:
        return _fix(setting, f"write it in upper case: {name}={word.upper()}", f"export {name}={word.upper()}")
    if name == "NCCL_CONF_FILE":
        return _fix(setting, "give the whole path of a file that this user can read on every node", None)
    hint = f", or write what it takes: {variable.values}" if variable.values else ""
    # leaving it out may change what a launch is, or which network it takes
    leaves = variable.owner in ("nccl", "torch", "gloo", "torchrun") and not name.startswith("PET_")
    harmless = leaves and variable.parse not in ("nccl-interfaces", "gloo-interfaces", "host-port")
    return _fix(setting, f"remove it{hint}", f"unset {name}" if harmless else None)


# transports and threads


def _is_on(effective: str | None, values: frozenset[str]) -> bool:
    upper = (effective or "").strip().upper()
    return upper in values if values else upper not in ("", "0", "FALSE", "NO", "OFF")


def _takes_away(effective: str, values: frozenset[str]) -> bool:
    return effective in values or ("!0" in values and effective not in ("0", "-1", "-2"))


def _loss(
    entry: DisabledTransport,
    launch: Launch,
    gpus: Gpus | Unavailable,
    fabric: Fabric | Unavailable,
    platform: Platform | Unavailable,
) -> str | None:
    """Return what this host and launch lose, as a clause; None if there is nothing faster, or it is unknown."""
    if entry.kind == "gpus":
        if isinstance(gpus, Unavailable) or len(gpus.gpus) < 2 or launch.ranks_here == 1:
            return None
        # GeForce cards have no P2P, and under WSL2 it is advised to switch it off: there it is the cure
        if "P2P" in entry.name and (
            all("GeForce" in gpu.name for gpu in gpus.gpus)
            or (not isinstance(platform, Unavailable) and platform.wsl is not None)
        ):
            return None
        return f"this host has {len(gpus.gpus)} GPUs"
    if entry.kind == "rdma":
        if isinstance(fabric, Unavailable) or not launch.several_nodes:
            return None
        active = [f"{port.device} port {port.port}" for port in gpu_traffic_ports(fabric, gpus)]
        if not active:
            return None
        more = f" and {len(active) - 1} more" if len(active) > 1 else ""
        return f"{active[0]}{more} {'are' if more else 'is'} ACTIVE"
    return None


def _give_back(setting: Setting) -> Fix:
    if setting.by_site:
        return Fix(
            f"ask the administrators of this cluster why {setting.origin} sets it, and measure with and without "
            "it before a change",
            by="site",
            where="host",
        )
    return _fix(
        setting,
        "unset it once its reason no longer holds, and compare the bandwidth with and without it",
        f"unset {setting.name}",
    )


# shared


def shown(setting: Setting) -> str:
    """A setting for a message: name, value, and the file that it comes from."""
    value = setting.value if len(setting.value) <= LONGEST_SHOWN else setting.value[:LONGEST_SHOWN] + "…"
    text = f"{_plain(setting.name)}={_plain(value)}"
    return text if setting.origin in (ENVIRONMENT, LAUNCHER, COMMAND) else f"{text} (from {setting.origin})"


def _plain(text: str) -> str:
    """A text as it is where it is one printable word, else in quotes and escaped."""
    return text if re.fullmatch("[!-~]+…?", text) else repr(text)


def _fix(setting: Setting, text: str, command: str | None) -> Fix:
    """Return a fix at the location of the setting; the job script is where all ranks get theirs from."""
    if setting.by_site:
        return Fix(
            f"ask the administrators of this cluster to change {setting.origin}: {text}", by="site", where="host"
        )
    if setting.origin == COMMAND:
        return Fix(text, where="launch-line")
    if not setting.by_user:
        return Fix(f"in {setting.origin}: {text}", where="host")
    return Fix(text, command=command, where="job-script")


def _clause(sentence: str) -> str:
    """A sentence of the table as a clause: no capital at its beginning, no stop at its end."""
    text = sentence.strip().rstrip(".")
    first = text.split(" ")[0]
    keeps = first.isupper() or first in ("Gloo", "InfiniBand")
    return text if keeps else text[:1].lower() + text[1:]


def _installed(software: Software | Unavailable) -> Installed:
    if isinstance(software, Unavailable):
        return Installed()
    torch = version_numbers(software.torch) or None
    # RCCL counts its releases as NCCL does, and reads names of its own
    nccl = None if software.hip else _nccl(software)
    if nccl is None and torch is not None and torch >= (2,) and software.cuda:
        return Installed(torch, None, NCCL_OF_TORCH_2)
    return Installed(torch, nccl, nccl, torch is not None and "nccl" not in software.backends)


def _nccl(software: Software) -> Version | None:
    """The NCCL that torch will load; None where that is not known, or where two versions are there."""
    versions = {version_numbers(version) for _, version in software.nccl_packages}
    versions |= {version_numbers(library.version) for library in software.nccl_libraries if library.version}
    versions.discard(())
    return versions.pop() if len(versions) == 1 else None
