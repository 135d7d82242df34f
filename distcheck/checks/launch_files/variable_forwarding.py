"""Whether variables reach the ranks, and whether they are the launcher's to set: exports, forwarding, presets.

``variables.py`` checks the values. A variable does not reach the ranks if nothing exports it, or if a program before
the launcher starts with its own environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe
from distcheck.core.spans import Span
from distcheck.core.variable_table import VariableTable
from distcheck.launch.model import ELASTIC_LAUNCHERS, LOOPBACK_NAMES, NODE_LAUNCHERS
from distcheck.launch.schedulers import task_starter

from .context import CONTAINER_PROGRAMS
from .counts import nodes_of, ranks_on_node, tasks_of, tasks_on_node
from .model import TORCHRUN_LAUNCHERS, FileSetting, LaunchFile, LaunchFiles, LaunchSite, Word
from .variables import MASKS, at_assignment, corrected_line, is_certain

#: Libraries that read variables in the ranks.
_READERS = frozenset(
    {
        "nccl", "torch", "torchrun", "gloo", "cuda", "rccl", "rocm", "aws-ofi-nccl", "libfabric", "libfabric-efa",
        "ucx", "ucc", "openmp", "rdma-core", "accelerate", "deepspeed", "tensorpipe",
    }
)  # fmt: skip
#: Variables that a launcher sets for each rank.
_OF_RANKS = frozenset(
    {
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK",
        "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "LOCAL_SIZE",
    }
)  # fmt: skip
#: Names that many programs use, so that a shell variable with the name means nothing.
_COMMON = frozenset({"LOGLEVEL"})
#: Variables that Slurm exports to a job: an assignment changes the exported value.
_SET_BY_SLURM = frozenset({"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"})
_REMOTE = frozenset({"ssh", "pdsh", "clush", "kubectl", "oc"})
_IMAGES = frozenset({"singularity", "apptainer"})
#: Options of Open MPI's mpirun only; those of MPICH and Intel pass the environment on (``-genvall``).
_OPEN_MPI = lazy(
    r"-x|-{1,2}mca|--allow-run-as-root|-{1,2}map-by|-{1,2}bind-to|-{1,2}npernode|-{1,2}oversubscribe|-{1,2}tag-output"
)
#: Options of Hydra, the starter of MPICH and Intel MPI, which passes the whole environment by default.
_HYDRA = lazy(r"-ppn|-g?env(?:all|list|none)?|-bootstrap")
_HOSTS = lazy(r"-H|-{1,2}host|-{1,2}hostfile|-{1,2}machinefile")
#: Variables of each task; the batch script has those of its first task.
_OF_TASK = lazy(r"\$\{?(?:SLURM_PROCID|SLURM_LOCALID|OMPI_COMM_WORLD_(?:LOCAL_)?RANK|PMI_RANK|PMIX_RANK)\b")
#: A side effect of a fix.
_FIRST_TIME = "the ranks get a value that had no effect so far"
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


class Cut(NamedTuple):
    """A program before the launcher that does not pass its environment on."""

    #: as written
    program: str
    word: Word
    #: the reason, a clause with the program's name
    why: str
    #: how a variable gets through, with ``{}`` for its name
    fix: str
    #: the option for a variable, and the word before it; None without such an option
    option: str | None = None
    behind: Word | None = None


@probe(rules.DC808)
def variables_reach_the_ranks(launch_files: LaunchFiles) -> Iterator[Finding]:
    """Variables that a library reads in the ranks are exported, and pass the programs before the launcher."""
    seen: set[Span] = set()
    for file in launch_files.files:
        uses = Uses(file)
        launched = any(site.command.launcher in NODE_LAUNCHERS for site in file.sites) or _names_a_launcher(file)
        for site in file.sites:
            if site.command.launcher not in (*NODE_LAUNCHERS, "python"):
                continue
            if site.command.launcher == "python" and site.command.script is None:
                continue
            read = _names_read(site)
            if launched and task_starter(site.command) is None:
                read = _read_everywhere()  # those of ranks are for the line with a launcher
            cut = cut_before(file, site)
            for name in sorted(site.unexported.keys() & read):
                setting = site.unexported[name]
                if setting.span not in seen and _is_wanted(setting, uses, site):
                    seen.add(setting.span)
                    yield _never_exported(setting, file, site, cut)
            for setting in () if cut is None else _lost(cut, site, _names_read(site)):
                if cut is not None and setting.span not in seen:
                    seen.add(setting.span)
                    yield _not_handed_on(cut, setting, file)


@probe(rules.DC809)
def launchers_set_their_own_variables(launch_files: LaunchFiles) -> Iterator[Finding]:
    """No two ranks get the same number, and no variable is set that the launcher replaces."""
    seen: set[tuple[Span, Severity]] = set()
    for file in launch_files.files:
        uses = Uses(file)
        for site in file.sites:
            judge = _before_launcher if site.command.launcher in NODE_LAUNCHERS else _before_tasks
            for finding, setting in judge(uses, site):
                if (setting.span, finding.severity) not in seen:
                    seen.add((setting.span, finding.severity))
                    yield finding


# who gets a variable


#: A launcher in a text that a shell puts together, so that no launch line is known.
_LAUNCHERS = lazy(r"^[^#\n]*(?:\btorchrun\b|torch\.distributed\.(?:run|launch)\b|\baccelerate\s+launch\b)")


def _names_a_launcher(file: LaunchFile) -> bool:
    return any(_LAUNCHERS.match(line) for line in file.lines)


@cache
def _read_everywhere() -> frozenset[str]:
    """Return the names that libraries read in any rank."""
    table = VariableTable()
    found = (variable for name in table.names() if (variable := table.lookup(name)) is not None)
    names = frozenset(variable.name for variable in found if variable.exists and variable.owner in _READERS)
    return names - _OF_RANKS - _COMMON


def _names_read(site: LaunchSite) -> frozenset[str]:
    """Return the names that the ranks of a line read. Only plain Python reads what a launcher sets.

    One process alone forms no group: a port is of use only with an address, a rank or a number of ranks.
    """
    if site.command.launcher != "python":
        return _read_everywhere()
    numbered = {"RANK", "WORLD_SIZE", "MASTER_ADDR"} & {*site.settings, *site.unexported}
    several = task_starter(site.command) is not None or site.repeats or site.pods is not None
    return _read_everywhere() | _OF_RANKS if numbered or several else _read_everywhere()


class Uses:
    """The variables that a file uses itself."""

    def __init__(self, file: LaunchFile) -> None:
        self.file = file
        self._known: dict[str, bool] = {}

    def of(self, name: str) -> bool:
        """Return whether the file uses the variable; printing does not count."""
        if name not in self._known:
            self._known[name] = self._is_used(name)
        return self._known[name]

    def _is_used(self, name: str) -> bool:
        escaped = re.escape(name)
        use = re.compile(rf"\$\{{?[#!]?{escaped}\b|\$\({escaped}\)|\bexport\b[^=\n]*\b{escaped}\b(?!=)")
        shown = re.compile(r"\s*@?(?:echo|printf)\b")
        return any(
            use.search(line) and not shown.match(line) and not line.lstrip().startswith("#")
            for line in self.file.lines
            if name in line
        )


def _is_wanted(setting: FileSetting, uses: Uses, site: LaunchSite) -> bool:
    """Return whether the ranks would read this unexported variable, and the file does not use it itself."""
    name = setting.name
    if name in site.settings or (name in _SET_BY_SLURM and site.kind == "slurm"):
        return False
    if site.pods is not None and name in site.pods.injected:
        return False
    return not any(setting.span in word.origins for word in site.words) and not uses.of(name)


def _never_exported(setting: FileSetting, file: LaunchFile, site: LaunchSite, cut: Cut | None) -> Finding:
    program = site.command.launcher if site.command.launcher != "other" else "the program"
    elsewhere = setting.reach == "exported"
    seen = (
        f"{_shown(setting)} is exported in a shell of its own, and {program} is started in another one"
        if elsewhere
        else f"{_shown(setting)} is assigned, but not exported: {program} and its ranks don't get it"
    )
    return at_assignment(
        setting,
        rules.DC808.found(
            seen,
            evidence={"variable": setting.name, "launcher": site.command.launcher},
            fix=_set_for_all(setting, file) if elsewhere else _and_pass_on(_export(setting, file), setting, file, cut),
        ),
    )


def _export(setting: FileSetting, file: LaunchFile) -> Fix:
    at = setting.name_span
    text = f"write export {setting.name}=…, or put the assignment before the command on its line"
    if file.kind != "shell" or at.path != file.path or not 1 <= at.line <= len(file.lines):
        return Fix(text, where="job-script")
    before = file.lines[at.line - 1][: at.column - 1].rstrip()
    if before and not before.endswith((";", "&&", "{", "then", "do")):
        return Fix(text, where="job-script")
    edit = at.preceded_by("export ")
    line = corrected_line(file, (edit,))
    return Fix(f"export it: {line}" if line else text, edits=(edit,), where="job-script", risk=_FIRST_TIME)


def _and_pass_on(fix: Fix, setting: FileSetting, file: LaunchFile, cut: Cut | None) -> Fix:
    """Return the fix that exports a variable, and names it to the program that passes on only what is named."""
    if cut is None:
        return fix
    edits: tuple[Edit, ...] = ()
    if fix.edits and cut.option is not None and cut.behind is not None and cut.behind.span.path == file.path:
        edits = (*fix.edits, cut.behind.span.followed_by(f" {cut.option} {setting.name}"))
    return fix._replace(text=f"{fix.text}; and {cut.fix.format(setting.name)}", edits=edits)


def _set_for_all(setting: FileSetting, file: LaunchFile) -> Fix:
    """Return the fix for a file of several shells."""
    name = setting.name
    text = {
        "dockerfile": f"write ENV {name}=… instead: each RUN is a shell of its own",
        "makefile": (
            f"write export {name} := … outside of the recipe, or both commands in one line with &&: each line of a "
            "recipe is a shell of its own"
        ),
        "workflow": 'set it under env:, or write it to "$GITHUB_ENV": each step is a shell of its own',
    }.get(file.kind, "set it in the shell that starts the job")
    return Fix(text, where="job-script")


def _lost(cut: Cut, site: LaunchSite, read: frozenset[str]) -> Iterator[FileSetting]:
    """Yield the variables that are set before the cut and not named after it."""
    own = " ".join(word.text for word in site.words[: len(site.words) - len(site.command.script_args)])
    after_cut = own[own.find(cut.word.text) :]
    for name, setting in sorted(site.settings.items()):
        if setting.reach not in ("exported", "line") or not _is_outside(setting, cut.word):
            continue
        if not is_certain(setting, site):
            continue  # a debugging switch, for example: it is not certainly set
        if name not in read or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", after_cut):
            continue
        yield setting


def _is_outside(setting: FileSetting, word: Word) -> bool:
    """Return whether a setting comes before a word, so that the word's program can get it."""
    at, there = setting.span, word.span
    return at.path != there.path or (at.line, at.column) < (there.line, there.column)


def _not_handed_on(cut: Cut, setting: FileSetting, file: LaunchFile) -> Finding:
    edits: tuple[Edit, ...] = ()
    if cut.option is not None and cut.behind is not None and cut.behind.span.path == file.path:
        edits = (cut.behind.span.followed_by(f" {cut.option} {setting.name}"),)
    line = corrected_line(file, edits) if edits else None
    return at_assignment(
        setting,
        rules.DC808.found(
            f"{_shown(setting)} is set, but {cut.why} (line {cut.word.span.line})",
            # it may be about the devices of this host
            severity=Severity.INFO if setting.name in MASKS and cut.program in _REMOTE else None,
            evidence={"variable": setting.name, "program": cut.program, "line": cut.word.span.line},
            fix=Fix(
                cut.fix.format(setting.name) + (f": {line}" if line else ""),
                edits=edits,
                where="launch-line",
                risk=_FIRST_TIME if edits else None,
            ),
        ),
    )


def cut_before(file: LaunchFile, site: LaunchSite) -> Cut | None:
    """Return the outermost program before the launcher with its own environment, or None."""
    behind = len(site.command.script_args)
    words = site.words[: len(site.words) - behind] if behind else site.words
    for index, word in enumerate(words):
        program = word.text.rpartition("/")[2]
        if program not in site.command.wrappers:
            continue
        following = words[index + 1 :]
        found = (
            _container(program, word, following)
            or _remote(program, word)
            or _image(program, word, following)
            or _srun(program, word, following, file, site)
            or _mpi(program, word, following, site)
        )
        if found is not None:
            return found
    return None


def _container(program: str, word: Word, following: tuple[Word, ...]) -> Cut | None:
    if program not in CONTAINER_PROGRAMS:
        return None
    start = next((other for other in following if other.text in ("run", "exec")), None)
    if start is None or any(other.text.startswith(("--env-file", "--env-host")) for other in following):
        return None
    if any("$" in other.text for other in following if other.text.startswith("$")):
        return None  # a variable among its options may hold any of them
    return Cut(
        program, word, f"{program} {start.text} gives a container none of the shell's variables",
        f"pass it on: {program} {start.text} -e {{}} …", "-e", start,
    )  # fmt: skip


def _remote(program: str, word: Word) -> Cut | None:
    if program not in _REMOTE:
        return None
    return Cut(
        program,
        word,
        f"{program} starts a shell that has none of this one's variables",
        "set {} in the command that it runs, before the launcher",
    )


def _image(program: str, word: Word, following: tuple[Word, ...]) -> Cut | None:
    clean = {"--cleanenv", "-e", "--containall", "-C"}
    option = next((other for other in following if other.text in clean), None) if program in _IMAGES else None
    if option is None:
        return None
    return Cut(
        program, word, f"{program} {option.text} gives the container none of the shell's variables",
        f"drop {option.text}, or give it --env {{}}=VALUE",
    )  # fmt: skip


def _srun(program: str, word: Word, following: tuple[Word, ...], file: LaunchFile, site: LaunchSite) -> Cut | None:
    if program != "srun":
        return None
    exported_names: str | None = None
    for other, after in zip(following, (*following[1:], None), strict=False):
        if other.text.startswith("--export="):
            exported_names = other.text.partition("=")[2]
        elif other.text == "--export" and after is not None:
            exported_names = after.text
    if exported_names is not None:
        if "$" in exported_names or "ALL" in exported_names.split(","):
            return None
        what = "NONE" if exported_names == "NONE" else exported_names
        return Cut(
            program, word, f"srun --export={what[:60]} passes on only what it names",
            "write --export=ALL, or name {} there",
        )  # fmt: skip
    # a batch script submitted with --export=NONE has SLURM_EXPORT_ENV=NONE, which srun obeys (sbatch(1))
    job = site.job or site.allocation
    directive = None if job is None else job.directives.get("export")
    if directive is None or not directive.known or str(directive.value).strip() != "NONE":
        return None
    if any("SLURM_EXPORT_ENV" in line and not line.lstrip().startswith("#") for line in file.lines):
        return None
    return Cut(
        program, word, "#SBATCH --export=NONE makes srun pass nothing on (it sets SLURM_EXPORT_ENV=NONE)",
        "give srun --export=ALL, so that {} gets through, or write 'unset SLURM_EXPORT_ENV' before it",
    )  # fmt: skip


def _mpi(program: str, word: Word, following: tuple[Word, ...], site: LaunchSite) -> Cut | None:
    """Return the cut of Open MPI, which passes only what -x names; daemons on other hosts have a login environment."""
    if program not in ("mpirun", "mpiexec", "orterun", "mpirun.openmpi", "mpiexec.openmpi"):
        return None
    options = [other.text.partition("=")[0] for other in following]
    if site.allocation is not None or site.kind in ("pod", "slurm"):
        return None  # a scheduler's daemons start with the environment of the job
    if not any(_OPEN_MPI.fullmatch(option) for option in options) or any(map(_HYDRA.fullmatch, options)):
        return None
    if not any(_HOSTS.fullmatch(option) for option in options) or site.command.nodes == 1:
        return None
    return Cut(
        program, word, f"{program} passes only what -x names to other hosts",
        f"give {program} -x {{}}", "-x", word,
    )  # fmt: skip


# presets


def _before_launcher(uses: Uses, site: LaunchSite) -> Iterator[tuple[Finding, FileSetting]]:
    """Yield the variables that a launcher replaces."""
    command = site.command
    nodes, ranks = nodes_of(site), ranks_on_node(site)
    world = nodes * ranks if nodes and ranks else None
    for name in _RANK_VARIABLES:
        setting = site.settings.get(name)
        if setting is None or setting.reach not in ("exported", "line"):
            continue
        if name == "LOCAL_WORLD_SIZE" and command.launcher == "deepspeed":
            continue  # it sets LOCAL_SIZE (deepspeed 0.17, launcher/launch.py)
        if any(setting.span in word.origins for word in site.words) or uses.of(setting.name):
            continue  # the file uses it itself: the name is for a number of its own
        number = _number(setting)
        if number is None:
            continue
        severity, but = Severity.INFO, f"{command.launcher} sets it for each rank itself: the value has no effect"
        if name == "WORLD_SIZE" and world is not None and number > 1 and number not in (world, nodes, ranks):
            severity, but = Severity.ERROR, f"{command.launcher} starts {world} ranks, and sets it to that"
        elif name == "RANK" and number > 0 and (nodes or 1) > 1 and takes_first_node(site):
            severity = Severity.ERROR
            but = "torchrun does not use it as the node rank: without --node-rank that is 0"
        if severity is Severity.ERROR and not is_certain(setting, site):
            severity = Severity.INFO
        yield (
            at_assignment(
                setting,
                rules.DC809.found(
                    f"{_shown(setting)} is set, but {but}",
                    severity=severity,
                    evidence={"value": setting.value, "world_size": world, "nodes": nodes, "ranks_on_node": ranks},
                    fix=_launcher_option_fix(name, site),
                ),
            ),
            setting,
        )
    yield from _ignored_address(uses.file, site)


def takes_first_node(site: LaunchSite) -> bool:
    """Return whether torchrun, with a static rendezvous and no node rank, uses rank 0."""
    command = site.command
    if site.command.launcher not in TORCHRUN_LAUNCHERS or "PET_NODE_RANK" in site.settings:
        return False
    if command.unknown & {"node_rank", "rdzv_backend"} or command.node_rank is not None:
        return False
    return command.rdzv_backend in (None, "static")


def _ignored_address(file: LaunchFile, site: LaunchSite) -> Iterator[tuple[Finding, FileSetting]]:
    """Yield MASTER_ADDR before a torchrun of several nodes without an address: torchrun does not read it."""
    command = site.command
    setting = site.settings.get("MASTER_ADDR")
    if (
        setting is None
        or setting.reach not in ("exported", "line")
        or not is_certain(setting, site)
        or site.command.launcher not in TORCHRUN_LAUNCHERS
    ):
        return
    if command.standalone or (nodes_of(site) or 1) < 2 or "PET_MASTER_ADDR" in site.settings:
        return
    if command.unknown & {"master_addr", "rdzv_endpoint", "nnodes_max"} - {"nnodes_max"}:
        return
    if command.master_addr is not None or command.rdzv_endpoint is not None:
        return
    if {"PET_RDZV_ENDPOINT"} & set(site.settings) or setting.value in LOOPBACK_NAMES:
        return
    port = '--master-port="$MASTER_PORT"' if "MASTER_PORT" in site.settings else ""
    options = " ".join(filter(None, ('--master-addr="$MASTER_ADDR"', port)))
    launcher = next((word for word in site.words if word.text.rpartition("/")[2] == "torchrun"), None)
    edits: tuple[Edit, ...] = ()
    # c10d needs an endpoint instead of the address
    if launcher is not None and launcher.span.path == file.path and command.rdzv_backend in (None, "static"):
        edits = (launcher.span.followed_by(f" {options}"),)
    line = corrected_line(file, edits) if edits else None
    yield (
        at_assignment(
            setting,
            rules.DC809.found(
                f"{_shown(setting)} is set, but torchrun does not read it: on each of {nodes_of(site)} nodes it uses "
                "127.0.0.1",
                evidence={"value": setting.value, "nodes": nodes_of(site)},
                fix=Fix(
                    f"give torchrun {options}" + (f": {line}" if line else ""),
                    edits=edits,
                    where="launch-line",
                    risk="the nodes use an address that was not in use so far" if edits else None,
                ),
            ),
        ),
        setting,
    )


def _launcher_option_fix(name: str, site: LaunchSite) -> Fix:
    if name == "RANK" and site.command.launcher in TORCHRUN_LAUNCHERS:
        text = "drop it; the number of a node is torchrun's --node-rank"
    elif name == "WORLD_SIZE" and site.command.launcher in ELASTIC_LAUNCHERS:
        text = "drop it; the number of ranks follows from --nnodes and --nproc-per-node"
    else:
        text = f"drop it: {site.command.launcher} sets it for each rank"
    return Fix(text, where="job-script")


def _before_tasks(uses: Uses, site: LaunchSite) -> Iterator[tuple[Finding, FileSetting]]:
    """Yield the variables of plain python that is started several times: each rank needs its own."""
    if site.command.launcher != "python" or site.command.script is None:
        return
    world = site.settings.get("WORLD_SIZE")
    size = None if world is None else _number(world)
    if size == 1:
        return  # each process is a world of its own
    tasks, on_node = _processes(site)
    if tasks is None or tasks < 2:
        return
    starter = task_starter(site.command) or "the file"
    many = f"{tasks} tasks" if tasks < _UNCOUNTED else "several hosts"
    for name, among in (("RANK", tasks), ("LOCAL_RANK", on_node)):
        setting = site.settings.get(name)
        if setting is None or not is_certain(setting, site) or among is None or among < 2:
            continue
        if setting.reach not in ("exported", "line"):
            continue
        worst_per_location = (
            setting.value is None and _OF_TASK.search(setting.written) and _comes_before_tasks(setting, site)
        )
        if _number(setting) is None and not worst_per_location:
            continue
        value = (
            f"{_shown(setting)} is taken once, in the batch script, and" if worst_per_location else f"{_shown(setting)}"
        )
        yield (
            at_assignment(
                setting,
                rules.DC809.found(
                    f"{value} is the same in all of the {many} that {starter} starts: each uses that rank",
                    evidence={"value": setting.value, "written": setting.written[:80], "tasks": among},
                    fix=_own_number(name, site),
                ),
            ),
            setting,
        )


#: Stands for one process on each of an unknown number of hosts.
_UNCOUNTED = 1 << 30


def _processes(site: LaunchSite) -> tuple[int | None, int | None]:
    """Return how many processes of a plain program run at the same time: in all, and on a node. None: unknown."""
    for repeat in site.repeats:
        # sequential runs are one at a time
        if repeat.what != "hosts" and not site.background:
            continue
        if repeat.times is not None and repeat.times > 1:
            return repeat.times, None if repeat.what == "hosts" else repeat.times
        if repeat.what == "hosts" and repeat.times is None:
            return _UNCOUNTED, None
    if task_starter(site.command) is None:
        return 1, 1
    return tasks_of(site), tasks_on_node(site)


def _comes_before_tasks(setting: FileSetting, site: LaunchSite) -> bool:
    """Return whether the shell that starts the tasks sets it, not each task."""
    if setting.by_each_task is True:
        return False
    starter = task_starter(site.command)
    word = next((word for word in site.words if word.text.rpartition("/")[2] == starter), None)
    return word is not None and _is_outside(setting, word) and site.kind == "slurm"


def _own_number(name: str, site: LaunchSite) -> Fix:
    starter = task_starter(site.command)
    if starter == "srun":
        source = {"RANK": "SLURM_PROCID", "LOCAL_RANK": "SLURM_LOCALID"}[name]
        return Fix(
            f"set it in each task: srun bash -c 'export {name}=${source}; exec python …', or start torchrun with one "
            "task a node",
            where="launch-line",
        )
    if starter is not None:
        source = {"RANK": "OMPI_COMM_WORLD_RANK", "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK"}[name]
        return Fix(
            f"set it in each task: {starter} … bash -c 'export {name}=${source}; exec python …', or start torchrun "
            "once a node",
            where="launch-line",
        )
    return Fix(f"give each process a {name} of its own, or start torchrun once on each node", where="launch-line")


def _number(setting: FileSetting) -> int | None:
    value = (setting.value or "").strip()
    return int(value) if re.fullmatch(r"[0-9]{1,9}", value) else None


def _shown(setting: FileSetting) -> str:
    from distcheck.core.redaction import mask

    text = (setting.written if setting.value is None else setting.value) or ""
    return f"{setting.name}={mask(text, name=setting.name)[:80]}"
