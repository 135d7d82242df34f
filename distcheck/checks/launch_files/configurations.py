"""Probes for configurations of accelerate and DeepSpeed, and for the launch lines that name them.

An option on the launch line overrides the configuration, so both are checked together. A value that is missing or
comes from a template is not compared.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe
from distcheck.core.spans import Span
from distcheck.core.wording import counted
from distcheck.launch.model import HIGHEST_PORT, LOOPBACK_NAMES

from .context import worst_per_location
from .launcher_configs import REPEATED
from .model import TORCHRUN_LAUNCHERS, Configured, HostSlots, LaunchFile, LaunchFiles, LaunchSite, Scalar
from .paths import normalized, the_one
from .variables import is_certain

#: Kinds of runs that accelerate starts without torchrun, or whose processes it counts in another way.
_COUNTED_OTHERWISE = frozenset({"NO", "TPU", "XLA", "MULTI_CPU", "DATA_PARALLEL", "MODEL_PARALLEL"})
#: For each key of a configuration: the field of a launch command, and the option that sets it.
_FIELDS: Mapping[str, tuple[str, str]] = {
    "num_machines": ("nnodes_min", "--num-machines"),
    "num_processes": ("processes", "--num-processes"),
    "machine_rank": ("node_rank", "--machine-rank"),
    "main_process_ip": ("master_addr", "--main-process-ip"),
    "main_process_port": ("master_port", "--main-process-port"),
    "gpu_ids": ("gpu_ids", "--gpu-ids"),
}
#: File names of one job contain a number, or the role of the machine.
_INDEX = lazy(r"[0-9]+|(?:^|(?<=[^a-z]))(?:main|master|head|leader|worker|slave|child|host)(?=$|[^a-z])")


# accelerate


class _Choice(NamedTuple):
    """The values of a run: a configuration and the line that starts it. ``site`` is None if no line is known."""

    config: Configured
    site: LaunchSite | None

    def get(self, name: str) -> Scalar | None:
        """Return a value as the launcher sees it: that of the line, otherwise that of the configuration."""
        if self.site is not None and name in _FIELDS:
            field, option = _FIELDS[name]
            word = self.site.value(option)
            if field in self.site.command.unknown:
                return Scalar(None, self.site.span if word is None else word.span, known=False)
            given = getattr(self.site.command, field)
            if given is not None:
                span = self.site.span if word is None else word.span
                return Scalar(given, span, str(given) if word is None else word.written)
        return self.config.get(name)

    def number(self, name: str) -> int | None:
        found = self.get(name)
        return None if found is None else found.number

    def text(self, name: str) -> str | None:
        found = self.get(name)
        return found.value if found is not None and found.known and isinstance(found.value, str) else None


class _Fault(NamedTuple):
    """Values that contradict each other. The finding is located at the last of ``names``."""

    names: tuple[str, ...]
    message: str
    fix: str
    severity: Severity | None = None


#: The files of one launcher by path, each with its configuration.
_Configurations = Mapping[str, tuple[LaunchFile, Configured]]


def _configurations(launch_files: LaunchFiles, kind: str) -> _Configurations:
    return {
        normalized(file.path): (file, file.configurations[0])
        for file in launch_files.files
        if file.kind == kind and file.configurations
    }


@probe(rules.DC811)
def accelerate_values_fit(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A configuration of accelerate and its launch line agree on machines, processes and addresses."""
    yield from _bare_lines(launch_files)
    every = _configurations(launch_files, "accelerate")
    if not every:
        return
    named: dict[str, list[LaunchSite]] = {path: [] for path in every}
    open_sites: list[LaunchSite] = []
    for _, site in launch_files.sites():
        if site.command.launcher != "accelerate":
            continue
        if site.command.config_file is None:
            if "config_file" in site.command.unknown:
                open_sites.append(site)
            continue
        path = the_one(site, (site.command.config_file,), every.__contains__)
        if path is not None:
            named[path].append(site)
    seen: set[tuple[Span, str]] = set()
    for path, (file, config) in every.items():
        sites: list[LaunchSite | None] = [site for site in named[path] if not _simulated(site, named[path])]
        if not named[path]:
            sites = [None]
        for one in sites:
            choice = _Choice(config, one)
            for fault in _accelerate_faults(choice):
                if one is None and _may_be_overridden(fault, open_sites):
                    continue
                finding = _accelerate_finding(file, choice, fault)
                key = (_span_of(choice, fault), finding.message)
                if key not in seen:
                    seen.add(key)
                    yield finding
    yield from _siblings(every, named, open_sites)


def _bare_lines(launch_files: LaunchFiles) -> Iterator[Finding]:
    """Yield X1 for lines that give both numbers and name no configuration."""
    seen = set()
    for _, site in launch_files.sites():
        command = site.command
        machines, processes = command.nnodes_min, command.processes
        reported = site.value("--num-processes")
        if (
            command.launcher != "accelerate"
            or reported is None
            or reported.span in seen
            or machines is None
            or not processes
        ):
            continue
        own = command.argv[: len(command.argv) - len(command.script_args)]
        elsewhere = command.config_file is not None or command.unknown & {"config_file", "processes", "nnodes_min"}
        # DeepSpeed counts by its hostfile, and other hardware is counted in other ways
        if elsewhere or any(word.replace("-", "_").startswith(("__use_deepspeed", "__tpu", "__cpu")) for word in own):
            continue
        fault = _not_shared(machines, processes, "--num_processes")
        if fault is not None:
            seen.add(reported.span)
            yield rules.DC811.found(
                fault.message,
                where=reported.span.where(object="num_processes"),
                evidence={"num_machines": machines, "num_processes": processes},
                fix=Fix(fault.fix, where="launch-line"),
            )


def _simulated(site: LaunchSite, sites: Iterable[LaunchSite]) -> bool:
    """Return whether one machine simulates several: agents in the background, each with its own rank."""
    ranks = {other.command.node_rank for other in sites if other.span.path == site.span.path}
    return len(ranks) > 1 and any(other.background for other in sites)


def _may_be_overridden(fault: _Fault, sites: Iterable[LaunchSite]) -> bool:
    """Return whether a line with an unknown configuration may set one of the values."""
    for site in sites:
        for name in fault.names:
            field, option = _FIELDS.get(name, ("", ""))
            if field and (
                field in site.command.unknown
                or getattr(site.command, field) is not None
                or site.value(option) is not None
            ):
                return True
    return False


def _span_of(choice: _Choice, fault: _Fault) -> Span:
    """Return where to fix a fault: in the line if it holds one of the values."""
    spans = [found.span for name in fault.names if (found := choice.get(name)) is not None]
    if choice.site is not None:
        here = [span for span in spans if span.path != choice.config.span.path or _within(span, choice.site.span)]
        if here:
            return here[-1]
    return spans[-1] if spans else choice.config.span


def _within(inner: Span, outer: Span) -> bool:
    first, last = (outer.line, outer.column), (outer.end_line, outer.end_column)
    return inner.path == outer.path and first <= (inner.line, inner.column) <= last


def _accelerate_finding(file: LaunchFile, choice: _Choice, fault: _Fault) -> Finding:
    span = _span_of(choice, fault)
    in_line = choice.site is not None and _within(span, choice.site.span)
    origin = f" ({file.path})" if in_line else ""
    return rules.DC811.found(
        f"{fault.message}{origin}",
        where=span.where(object=fault.names[-1]),
        evidence={name: found.value for name in fault.names if (found := choice.get(name)) is not None},
        severity=fault.severity,
        fix=Fix(fault.fix, where="launch-line" if in_line else "job-script"),
    )


def _accelerate_faults(choice: _Choice) -> Iterator[_Fault]:
    environment = choice.get("compute_environment")
    if environment is not None and environment.value != "LOCAL_MACHINE":
        return
    kind = choice.text("distributed_type")
    stated = choice.get("distributed_type")
    if stated is not None and stated.value is False:
        kind = "NO"  # without quotes YAML 1.1 takes it for a truth value, and accelerate for no kind at all
    machines = choice.number("num_machines")
    if choice.get("num_machines") is None:
        machines = 1
    processes = choice.number("num_processes")
    yield from _counts(choice, kind, machines, processes)
    if machines is not None and machines > 1:
        yield from _addresses(choice, kind, machines)
    yield from _gpu_ids(choice, kind, machines, processes)
    port = choice.number("main_process_port")
    if port is not None and not 0 <= port <= HIGHEST_PORT:
        yield _Fault(
            ("main_process_port",),
            f"main_process_port is {port}, and the highest port is {HIGHEST_PORT}",
            "give a free port from 1024 to 32767: main_process_port: 29500",
        )


def _counts(choice: _Choice, kind: str | None, machines: int | None, processes: int | None) -> Iterator[_Fault]:
    """Yield X1, and faults of a missing kind or number."""
    options = () if choice.site is None else choice.site.command.argv
    plain = not any(word.replace("-", "_").startswith(("__multi_gpu", "__use_", "__tpu", "__cpu")) for word in options)
    if kind == "NO" and processes is not None and processes > 1 and plain and machines == 1:
        yield _Fault(
            ("num_processes", "distributed_type"),
            f"distributed_type is NO, so accelerate starts one process, though num_processes is {processes}",
            "write distributed_type: MULTI_GPU (or num_processes: 1 where one is meant)",
            # a file for one GPU that was copied from one for several still starts, and trains as its name suggests
            Severity.INFO,
        )
    if kind in _COUNTED_OTHERWISE or kind is None or _on_cpu(choice):
        return
    missing = choice.get("num_processes") is None or processes == -1
    if missing and choice.site is not None and plain:
        yield _Fault(
            ("num_processes",),
            "num_processes is given neither here nor on the launch line, and accelerate does not start without it",
            f"add num_processes: with the GPUs of all {machines or ''} machines together, or --num_processes on the "
            "launch line".replace("  ", " "),
        )
    if machines is not None and processes is not None:
        fault = _not_shared(machines, processes, "num_processes:")
        if fault is not None:
            yield fault


def _not_shared(machines: int, processes: int, of_processes: str) -> _Fault | None:
    """Return the fault if the machines can't share the processes evenly.

    :param of_processes: how the file or line sets their number
    """
    if machines < 2 or processes < 1:
        return None
    names = ("num_machines", "num_processes")
    name = of_processes.rstrip(":")
    each = processes // machines
    if not each:
        return _Fault(
            names,
            f"{name} is {processes} for {machines} machines: it counts those of all machines together, so "
            "there is none for each",
            f"count all machines: {of_processes} {processes * machines} for {processes} on each",
        )
    if processes % machines:
        return _Fault(
            names,
            f"{name} is {processes}, which {machines} machines can't share evenly: accelerate starts {each} on each, "
            f"{each * machines} in all",
            f"give a multiple of {machines}: {of_processes} {each * machines} or {(each + 1) * machines}",
        )
    return None


def _on_cpu(choice: _Choice) -> bool:
    found = choice.get("use_cpu")
    return found is not None and found.value is not False


def _addresses(choice: _Choice, kind: str | None, machines: int) -> Iterator[_Fault]:
    """Yield X2, and a rank that no machine can have."""
    rank = choice.number("machine_rank")
    if rank is not None and not 0 <= rank < machines and kind != "NO":
        yield _Fault(
            ("num_machines", "machine_rank"),
            f"machine_rank is {rank}, but {machines} machines are numbered from 0 to {machines - 1}",
            f"give each machine its own number from 0 to {machines - 1}",
        )
    address = choice.get("main_process_ip")
    if address is not None and not address.known:
        return
    host = None if address is None else address.value
    if isinstance(host, str) and host.strip().lower() in LOOPBACK_NAMES:
        yield _Fault(
            ("num_machines", "main_process_ip"),
            f"main_process_ip is {host} for {machines} machines: each of them finds only itself",
            "give the address of the machine with rank 0, as the others reach it: main_process_ip: 10.0.0.1",
        )
    elif host in (None, "", "null", "None") and not _finds_its_address(choice, kind):
        stated = address is not None
        if choice.site is None and not stated:
            return
        yield _Fault(
            ("num_machines", "main_process_ip") if stated else ("main_process_ip", "num_machines"),
            f"there are {machines} machines, but no main_process_ip for the rendezvous",
            "add the address of the machine with rank 0: main_process_ip: 10.0.0.1, or give --main_process_ip on the "
            "launch line",
            # the address may be on a line outside the known files
            Severity.INFO if choice.site is None else None,
        )


def _finds_its_address(choice: _Choice, kind: str | None) -> bool:
    """Return whether accelerate finds the address: DeepSpeed's starters use the first host of the hostfile.

    Source: accelerate 1.15, utils/launch.py.
    """
    if kind is None:
        return True
    if kind != "DEEPSPEED":
        return kind in _COUNTED_OTHERWISE or _on_cpu(choice)
    return choice.text("deepspeed_config.deepspeed_multinode_launcher") not in ("standard", "nossh")


def _gpu_ids(choice: _Choice, kind: str | None, machines: int | None, processes: int | None) -> Iterator[_Fault]:
    """Yield X4: GPUs that do not match the processes."""
    found = choice.get("gpu_ids")
    if found is None or not found.known or found.value in (None, "all", ""):
        return
    if isinstance(found.value, int) and not isinstance(found.value, bool):
        yield _Fault(
            ("gpu_ids",),
            f"gpu_ids is the number {found.value}, but accelerate splits a text at its commas and raises "
            "AttributeError",
            f"put it in quotes: gpu_ids: '{found.value}'",
        )
        return
    if kind in _COUNTED_OTHERWISE or kind is None or _on_cpu(choice) or not isinstance(found.value, str):
        return
    ids = [part.strip() for part in found.value.split(",")]
    if not all(part.isdigit() for part in ids) or not machines or processes is None or processes < machines:
        return
    each = processes // machines
    location = "" if machines == 1 else " on each machine"
    if each > len(set(ids)):
        yield _Fault(
            ("num_processes", "gpu_ids"),
            f"gpu_ids names {counted(len(set(ids)), 'GPU')} ({_short(found.value)}) for {each} processes{location}; "
            "each process needs its own",
            f"name {each} GPUs, write gpu_ids: all, or set num_processes: {len(set(ids)) * machines}",
        )
    elif each < len(set(ids)) and machines == 1:
        yield _Fault(
            ("num_processes", "gpu_ids"),
            f"gpu_ids names {len(set(ids))} GPUs ({_short(found.value)}), and num_processes uses {each} of them",
            f"set num_processes: {len(set(ids))} to use them all",
            Severity.INFO,
        )


def _siblings(
    every: _Configurations,
    named: Mapping[str, list[LaunchSite]],
    open_sites: Iterable[LaunchSite],
) -> Iterator[Finding]:
    """Yield X3: configurations for the machines of one job with the same rank."""
    groups: dict[tuple[str, str], list[str]] = {}
    for path in every:
        folder, name = posixpath.split(path)
        if _INDEX.search(name.lower()):
            groups.setdefault((folder, _INDEX.sub("#", name.lower())), []).append(path)
    for paths in groups.values():
        jobs: dict[str, list[str]] = {}
        for path in paths:
            config = every[path][1]
            given = any(
                "node_rank" in site.command.unknown or site.command.node_rank is not None for site in named[path]
            )
            if not given and (_Choice(config, None).number("num_machines") or 1) > 1:
                jobs.setdefault(_all_but_rank(config), []).append(path)
        for members in jobs.values():
            yield from _same_rank(members, every, open_sites)


def _all_but_rank(config: Configured) -> str:
    """Return everything in a configuration except its rank as one text. Files with the same text belong to one job."""
    return repr(
        sorted(
            (name, scalar.known, repr(scalar.value), "" if scalar.known else scalar.written)
            for name, scalar in config.values.items()
            if name != "machine_rank"
        )
    )


def _same_rank(members: list[str], every: _Configurations, open_sites: Iterable[LaunchSite]) -> Iterator[Finding]:
    taken: dict[int, str] = {}
    for path in sorted(members):
        config = every[path][1]
        rank = config.get("machine_rank")
        machines = config.get("num_machines")
        # accelerate uses 0 by default
        number = 0 if rank is None else rank.number
        if number is None or machines is None or len(members) > (machines.number or 0):
            continue
        fault = _Fault(("machine_rank",), "", "")
        if number in taken and not _may_be_overridden(fault, open_sites):
            other = taken[number]
            free = next(one for one in range(len(members) + 1) if one not in taken)
            yield rules.DC811.found(
                f"machine_rank is {number} here and in {other}, which is for another machine of the same job",
                where=(config if rank is None else rank).span.where(object="machine_rank"),
                evidence={"machine_rank": number, "other": other},
                fix=Fix(f"give each machine its own number: machine_rank: {free} here", where="job-script"),
            )
            taken[free] = path
        else:
            taken.setdefault(number, path)


# DeepSpeed


@probe(rules.DC812)
def deepspeed_values_fit(launch_files: LaunchFiles) -> Iterator[Finding]:
    """The batch sizes and number formats of a DeepSpeed configuration are consistent, also with the ranks of a run."""
    every = _configurations(launch_files, "deepspeed")
    if not every:
        return
    runs: dict[str, list[LaunchSite]] = {path: [] for path in every}
    accelerate = _configurations(launch_files, "accelerate")
    for _, site in launch_files.sites():
        path = _config_of(site, every.__contains__, accelerate)
        if path is not None:
            runs[path].append(site)
    for path, (_, config) in every.items():
        yield from _alone(config)
        yield from _with_ranks(config, runs[path], launch_files)


_CONFIG_OPTIONS = ("--deepspeed", "--deepspeed_config", "--ds_config", "--deepspeed_config_file", "--ds_config_file")


def _config_of(site: LaunchSite, is_there: Callable[[str], bool], accelerate: _Configurations) -> str | None:
    """Return the path of the DeepSpeed configuration that a launch line names."""
    words = site.command.script_args
    names = []
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option.replace("-", "_").replace("__", "--", 1) not in _CONFIG_OPTIONS:
            continue
        if not equals and index + 1 < len(words):
            value = words[index + 1]
        if value and not value.startswith("-"):
            names.append(value)
    before = site.value("--deepspeed-config-file")
    if before is not None:
        names.append(before.text)
    elif site.command.config_file is not None:
        path = the_one(site, (site.command.config_file,), accelerate.__contains__)
        given = accelerate[path][1].get("deepspeed_config.deepspeed_config_file") if path is not None else None
        if given is not None and isinstance(given.value, str):
            names.append(given.value)
    return the_one(site, (names[-1],), is_there) if names else None


def _alone(config: Configured) -> Iterator[Finding]:
    """Yield contradictions within a configuration."""
    repeated = config.get(REPEATED)
    if repeated is not None:
        yield rules.DC812.found(
            f"{_short(str(repeated.value))} is given more than once; DeepSpeed refuses that",
            where=repeated.span.where(object=str(repeated.value)[:100]),
            evidence={"keys": repeated.value},
            fix=Fix("keep one of them", where="job-script"),
        )
    half, brain = config.get("fp16.enabled"), config.get("bf16.enabled") or config.get("bfloat16.enabled")
    if half is not None and brain is not None and half.value is True and brain.value is True:
        yield rules.DC812.found(
            "fp16 and bf16 are both enabled, which DeepSpeed refuses",
            where=brain.span.where(object="bf16.enabled"),
            fix=Fix(
                'enable one of them: "bf16" on Ampere GPUs and later, "fp16" with its loss scaling on older ones',
                where="job-script",
            ),
        )
    elastic = config.get("elasticity.enabled")
    if elastic is not None and elastic.value is not False:
        return  # DeepSpeed works the sizes out itself
    batch, micro, steps = _sizes(config)
    for name, scalar in (("train_micro_batch_size_per_gpu", micro), ("gradient_accumulation_steps", steps)):
        if scalar is not None and batch is not None and not _fits(batch, scalar):
            yield _batch_finding(
                batch,
                f"train_batch_size is {batch.number}, no multiple of {name} {scalar.number}: it must be the product "
                "of the other two and the number of ranks",
                _product(batch, micro, steps),
            )
            return
    if batch is not None and micro is not None and steps is not None and not _fits(batch, micro, steps):
        yield _batch_finding(
            batch,
            f"train_batch_size is {batch.number}, no multiple of train_micro_batch_size_per_gpu {micro.number} times "
            f"gradient_accumulation_steps {steps.number}, whatever the number of ranks",
            _product(batch, micro, steps),
        )


def _sizes(config: Configured) -> tuple[Scalar | None, Scalar | None, Scalar | None]:
    """Return the global batch size, the micro batch size and the accumulation steps.

    Each is None unless it is positive.
    """
    found = []
    for name in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"):
        scalar = config.get(name)
        usable = scalar is not None and isinstance(scalar.value, int) and (scalar.number or 0) > 0
        found.append(scalar if usable else None)
    return found[0], found[1], found[2]


def _fits(batch: Scalar, *parts: Scalar) -> bool:
    product = 1
    for part in parts:
        product *= part.number or 1
    return (batch.number or 0) % product == 0


def _product(batch: Scalar, micro: Scalar | None, steps: Scalar | None) -> str:
    one = (micro.number if micro and micro.number else 1) * (steps.number if steps and steps.number else 1)
    ranks = max((batch.number or 0) // one, 1)
    return (
        'drop "train_batch_size", and DeepSpeed computes it from the other two; or write a multiple of '
        f"{one}: {one * ranks} fits {counted(ranks, 'rank')}, {one * (ranks + 1)} fits {ranks + 1}"
    )


def _batch_finding(batch: Scalar, message: str, fix: str) -> Finding:
    return rules.DC812.found(
        message,
        where=batch.span.where(object="train_batch_size"),
        evidence={"train_batch_size": batch.number},
        fix=Fix(fix, where="job-script"),
    )


#: Options and keys for ranks that share one model, so that there are fewer batches than ranks.
_SHARED = lazy(
    r"(?i)(?:^|[-_.])(?:tensor|pipe|pipeline|model|sequence|context|expert|ulysses)[-_.]?(?:model[-_.]?)?(?:parallel|size|degree|stages?|tp|pp|sp)"
    r"|^-*(?:tp|pp|mp|sp|cp|ep|autotp)(?:[-_.]?(?:size|degree|world))?$|num[-_]stages"
)

#: Options by which a script may override the sizes of the configuration.
_OVERRIDES = lazy(r"(?i)^--.*(?:batch|accum)")


def _with_ranks(config: Configured, sites: Iterable[LaunchSite], launch_files: LaunchFiles) -> Iterator[Finding]:
    """Yield S1 for the ranks that a launch line starts."""
    batch, micro, steps = _sizes(config)
    elastic = config.get("elasticity.enabled")
    if batch is None or (elastic is not None and elastic.value is not False):
        return
    if any(_SHARED.search(name) for name in config.values):
        return
    if any(config.get(name) is not None and scalar is None for name, scalar in _named(micro, steps)):
        return  # "auto", or what no number is
    if not _fits(batch, *(part for part in (micro, steps) if part is not None)):
        return  # reported already
    reported: set[int] = set()
    for site in sites:
        options = [word.partition("=")[0] for word in site.command.script_args]
        if any(_SHARED.search(option) or _OVERRIDES.search(option) for option in options):
            continue
        ranks = ranks_of(site, launch_files)
        if ranks is None or ranks in reported:
            continue
        parts = [part.number or 1 for part in (micro, steps) if part is not None]
        product = ranks
        for part in parts:
            product *= part
        wrong = product != batch.number if len(parts) == 2 else (batch.number or 0) % product != 0
        if not wrong:
            continue
        reported.add(ranks)
        shown = " * ".join(f"{name} {scalar.number}" for name, scalar in _named(micro, steps) if scalar is not None)
        sign = "is not" if len(parts) == 2 else "is no multiple of"
        yield rules.DC812.found(
            f"train_batch_size {batch.number} {sign} {shown}{' * ' if shown else ''}{counted(ranks, 'rank')} "
            f"({product}), as {site.span.path}:{site.span.line} starts them",
            where=batch.span.where(object="train_batch_size"),
            evidence={"train_batch_size": batch.number, "ranks": ranks, "product": product},
            fix=Fix(
                f'write "train_batch_size": {product}, or drop it: DeepSpeed computes it from the other two'
                if len(parts) == 2
                else f'write "train_batch_size": {max((batch.number or 0) // product, 1) * product}',
                where="job-script",
            ),
        )


def _named(micro: Scalar | None, steps: Scalar | None) -> tuple[tuple[str, Scalar | None], ...]:
    return ("train_micro_batch_size_per_gpu", micro), ("gradient_accumulation_steps", steps)


def ranks_of(site: LaunchSite, launch_files: LaunchFiles) -> int | None:
    """Return the number of ranks that a launch line starts on all nodes, or None if unknown."""
    command = site.command
    if command.launcher in TORCHRUN_LAUNCHERS:
        if command.unknown & {"nnodes_min", "nnodes_max", "nproc", "standalone"}:
            return None
        nodes = 1 if command.standalone or command.nnodes_min is None else command.nnodes_min
        if not command.standalone and command.nnodes_max not in (None, nodes):
            return None
        processes = "1" if command.nproc is None else command.nproc
        return nodes * int(processes) if re.fullmatch(r"[0-9]{1,6}", processes) else None
    if command.launcher == "accelerate":
        return command.processes
    if command.launcher == "deepspeed":
        slots = _slots_used(site, launch_files)
        return sum(len(ids) for ids in slots.values()) if slots else None
    return command.tasks if command.launcher == "python" and "tasks" not in command.unknown else None


# the deepspeed command


@probe(rules.DC812)
@worst_per_location
def deepspeed_gets_what_it_requests(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A deepspeed command uses hosts and GPUs of its hostfile, and selects them in one way only."""
    for _, site in launch_files.sites():
        if site.command.launcher == "deepspeed":
            yield from _filters(site)
            yield from _masked(site)
            hosts = _hostfile_of(site, launch_files)
            if hosts is not None:
                yield from _against_hosts(site, *hosts)


_COUNTS = ("--num_nodes", "--num_gpus", "--num_accelerators")


def _literal(site: LaunchSite, *options: str) -> str | None:
    """Return the value of an option if it is literal."""
    word = site.value(*options)
    return None if word is None or re.search(r"[$`]", word.text) else word.text


def _filters(site: LaunchSite) -> Iterator[Finding]:
    include, exclude = _literal(site, "--include", "-i"), _literal(site, "--exclude", "-e")
    counts = [option for option in _COUNTS if _whole(_literal(site, option)) is not None]
    if include and exclude:
        yield _deepspeed_finding(
            site,
            "--exclude",
            "--include and --exclude are both given, and deepspeed takes only one of them",
            f"drop --exclude, and name the remaining GPUs in --include: --include {_short(include)}",
        )
    elif (include or exclude) and counts:
        option = "--include" if include else "--exclude"
        yield _deepspeed_finding(
            site,
            counts[0],
            f"{' and '.join(counts)} and {option} are both given, and deepspeed takes only one of the two",
            f"drop {' and '.join(counts)}: {option} {_short(include or exclude or '')} selects the GPUs",
        )


def _masked(site: LaunchSite) -> Iterator[Finding]:
    """Yield a mask that deepspeed drops: without a hostfile, if an option selects the GPUs (runner.py)."""
    mask = site.settings.get("CUDA_VISIBLE_DEVICES")
    if mask is not None and not is_certain(mask, site):
        return
    text = site.command.assignments.get("CUDA_VISIBLE_DEVICES", mask.value if mask is not None else None)
    if not text or not re.fullmatch(r"\s*\d+(\s*,\s*\d+)*\s*", text):
        return
    if site.command.hostfile is not None or "hostfile" in site.command.unknown:
        return
    visible = {int(part) for part in text.split(",")}
    count = _whole(_literal(site, "--num_gpus", "--num_accelerators"))
    include = _literal(site, "--include", "-i")
    option, taken = "--num_gpus", set(range(count)) if count and count > 0 else None
    if include is not None:
        slots = _node_specs(include)
        option = "--include"
        taken = set(next(iter(slots.values()))) if slots is not None and len(slots) == 1 else None
    if not taken or taken == visible:
        return
    numbers = ",".join(map(str, sorted(visible)))
    yield _deepspeed_finding(
        site,
        option,
        f"CUDA_VISIBLE_DEVICES={_short(text.strip())} has no effect together with {option}: deepspeed then uses the "
        f"GPUs {_short(','.join(map(str, sorted(taken))))} of this host",
        f"drop {option} to use the GPUs of CUDA_VISIBLE_DEVICES, or drop that: --include localhost:{_short(numbers)}",
    )


def _hostfile_of(site: LaunchSite, launch_files: LaunchFiles) -> tuple[str, tuple[HostSlots, ...]] | None:
    if site.command.hostfile is None:
        return None
    every = {normalized(file.path): file for file in launch_files.files if file.kind == "hostfile"}
    path = the_one(site, (site.command.hostfile,), every.__contains__)
    return None if path is None else (every[path].path, every[path].hosts)


def _against_hosts(site: LaunchSite, path: str, hosts: tuple[HostSlots, ...]) -> Iterator[Finding]:
    """Yield S2: the command contradicts the hostfile. The hosts are often an example, so most findings are warnings."""
    slots: dict[str, int | None] = {}
    for host in hosts:
        if host.slots is None or host.host in slots:
            why = "is in it twice" if host.host in slots else "has no slots=N"
            yield rules.DC812.found(
                f"deepspeed refuses this hostfile: {host.host[:60]} {why} ({site.span.path}:{site.span.line} names it)",
                where=host.span.where(object=host.host[:60]),
                fix=Fix(
                    f"keep one line for it: {host.host[:60]} slots={host.slots or 8}, with the number of its GPUs",
                    where="job-script",
                ),
            )
            return
        slots[host.host] = host.slots
    nodes = _whole(_literal(site, "--num_nodes"))
    if nodes is not None and nodes > len(slots):
        yield _deepspeed_finding(
            site,
            "--num_nodes",
            f"--num_nodes is {nodes}, but {path} has {counted(len(slots), 'host')}: deepspeed continues with these",
            f"add the hosts that are missing to {path}, or give --num_nodes {len(slots)}",
            Severity.WARNING,
        )
    count = _whole(_literal(site, "--num_gpus", "--num_accelerators"))
    used = list(slots.items())[: nodes if nodes and nodes > 0 else None]
    short = [(name, number) for name, number in used if number is not None and count is not None and number < count]
    if short and count is not None:
        first, number = short[0]
        yield _deepspeed_finding(
            site,
            "--num_gpus",
            f"--num_gpus is {count}, but {path} gives {first} slots={number}: deepspeed still starts {count} processes "
            "there",
            f"give --num_gpus {min(number for _, number in short)}, or correct the slots in {path}",
            Severity.WARNING,
        )
    for option in ("--include", "--exclude"):
        given = _literal(site, option, option[1:3])
        for name, ids in (_node_specs(given) or {}).items() if given else ():
            known = slots.get(name)
            if name not in slots:
                message = f"{option} names the host {name[:60]}, which is not in {path}"
            elif known is not None and any(number >= known for number in ids):
                message = f"{option} names GPU {max(ids)} of {name[:60]}, which has slots={known} in {path}"
            else:
                continue
            yield _deepspeed_finding(
                site,
                option,
                message,
                f"name hosts of {path} ({', '.join(list(slots)[:4])}{' …' * (len(slots) > 4)}), each with GPUs from 0 "
                "to slots - 1",
                Severity.WARNING,
            )


def _slots_used(site: LaunchSite, launch_files: LaunchFiles) -> dict[str, tuple[int, ...]] | None:
    """Return the GPUs that a deepspeed command uses on each host, or None if unknown."""
    command = site.command
    if command.unknown & {"nproc", "nnodes_min", "hostfile", "include", "exclude"} or command.exclude:
        return None
    count = _whole(_literal(site, "--num_gpus", "--num_accelerators"))
    if count is not None and count < 1:
        count = None
    if command.include:
        specs = _node_specs(command.include)
        if specs is None or count is not None or not all(specs.values()):
            return None
        return specs
    if command.hostfile is None:
        several = (command.nnodes_min or 1) > 1
        return {"localhost": tuple(range(count))} if count is not None and not several else None
    found = _hostfile_of(site, launch_files)
    if found is None or any(host.slots is None for host in found[1]):
        return None
    hosts = found[1][: command.nnodes_min or None]
    return {host.host: tuple(range(count if count is not None else host.slots or 0)) for host in hosts}


def _node_specs(text: str) -> dict[str, tuple[int, ...]] | None:
    """Return the GPUs by host of ``worker-0@worker-1:0,2``; () is all GPUs, None what deepspeed can't parse."""
    found: dict[str, tuple[int, ...]] = {}
    for part in text.split("@"):
        host, colon, numbers = part.partition(":")
        ids = numbers.split(",") if colon else []
        if not host or not all(re.fullmatch(r"[0-9]{1,4}", number) for number in ids):
            return None
        found[host] = (*found.get(host, ()), *map(int, ids))
    return found


def _deepspeed_finding(
    site: LaunchSite, option: str, message: str, fix: str, severity: Severity | None = None
) -> Finding:
    word = site.option(option, *(("--num_accelerators",) if option == "--num_gpus" else (option[1:3],)))
    return rules.DC812.found(
        message,
        where=site.where(word, object=option),
        evidence={"option": option},
        severity=severity,
        fix=Fix(fix, where="launch-line"),
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,9}", text) else None


def _short(text: str) -> str:
    """Return a value, shortened for a message."""
    return text if len(text) <= 60 else f"{text[:59]}…"
