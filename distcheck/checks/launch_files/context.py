"""The context of a launch line: on how many nodes and how often it is started, and the sources of its words.

The functions count and search. They report nothing. An unknown value is None and is not compared.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple, ParamSpec

from distcheck.core.model import Edit, Finding, Where
from distcheck.core.patterns import lazy
from distcheck.core.redaction import mask
from distcheck.core.spans import Span
from distcheck.launch.model import NODE_LAUNCHERS, LaunchCommand
from distcheck.launch.schedulers import SchedulerStep, task_starter

from .model import TORCHRUN_LAUNCHERS, Allocation, FileSetting, LaunchFile, LaunchFiles, LaunchSite, Word, known

#: Programs that start a command on named hosts, through a shell there.
REMOTE_SHELLS = frozenset({"ssh", "pdsh", "clush"})
#: Programs that start a command in a container.
CONTAINER_PROGRAMS = frozenset({"docker", "podman", "nvidia-docker"})
#: Programs that start a command without this shell's environment.
_APART = CONTAINER_PROGRAMS | REMOTE_SHELLS | {"kubectl", "oc"}
#: The spellings of the common options of all launchers.
NODES_OPTIONS = ("--nnodes", "--num-machines", "--num-nodes")
NODE_RANK_OPTIONS = ("--node-rank", "--machine-rank")
ADDRESS_OPTIONS = ("--master-addr", "--main-process-ip")
PORT_OPTIONS = ("--master-port", "--main-process-port")
#: Variables of Slurm with the number of nodes of the job, in a job script's body and in its steps.
SLURM_NODES = frozenset({"SLURM_NNODES", "SLURM_JOB_NUM_NODES"})

#: Suffixes of scripts that start their ranks themselves.
_SHELL_SCRIPT = (".sh", ".bash", ".zsh", ".slurm", ".sbatch")
Facts = ParamSpec("Facts")
_VARIABLE = lazy(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
#: Limits of nested variables, and of the length of the resulting text.
_MAX_DEPTH = 5
_MAX_LENGTH = 2000
#: Longest value in a message, in characters.
_MAX_SHOWN_LENGTH = 60
#: Options of srun that select some of the job's nodes.
_CHOOSES_NODES = ("-w", "--nodelist", "-r", "--relative", "-x", "--exclude", "--het-group", "-F", "--nodefile")
#: A test on the number of nodes or processes, or on a choice of the caller.
_BEARS_ON_NODES = lazy(r"(?i)node|nproc|world|host|rank|multi|single|\bmode\b|gpus?\b|\$\{?[0-9#@*]")


class ExpectedNodes(NamedTuple):
    """The number of nodes that a launcher is given."""

    low: int
    high: int
    #: a literal number, not the scheduler's
    literal: bool = True

    @property
    def text(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


class Rendezvous(NamedTuple):
    """The rendezvous address of a launch line, as far as the file gives it."""

    #: the option or variable that gives it
    name: str
    #: the host, without its port; an unknown part stays as it is written
    host: str
    span: Span
    known: bool = True
    variable: str | None = None
    #: the host with the variables of the file replaced
    with_variables: str = ""
    #: each task expands its variables
    by_each_task: bool | None = None

    @property
    def source(self) -> str:
        """Return the variable or option that a user has to change."""
        return self.variable or self.name

    @property
    def where(self) -> Where:
        """Return the location of the address for a finding."""
        return self.span.where(variable=self.variable, object=None if self.variable else self.name)


# counts


def job_nodes(site: LaunchSite) -> int | None:
    """Return the nodes of the whole job if it requests exactly one number."""
    return _nodes_of(site.of_job)


def _nodes_of(allocation: Allocation | None) -> int | None:
    if allocation is None or allocation.heterogeneous:
        return None
    low, high = known(allocation.nodes), known(allocation.nodes_max)
    return low if allocation.nodes_max is None or high == low else None


def step_of(site: LaunchSite) -> SchedulerStep:
    """Return which program starts the command, how often and where."""
    command = site.command
    starter = task_starter(command)
    if starter is None:
        return SchedulerStep()
    if starter != "srun":
        on_node = None if "tasks_per_node" in command.unknown else command.tasks_per_node
        return SchedulerStep(starter, command.nodes, command.tasks, on_node).counted()
    around = site.allocation
    if around is not None and around.heterogeneous:
        return SchedulerStep(starter, partial=True)
    if around is None:
        nodes, tasks, on_node = command.nodes, command.tasks, command.tasks_per_node
        if "tasks" in command.unknown:
            on_node = None
    else:
        nodes, tasks, on_node = _nodes_of(around), known(around.tasks), known(around.tasks_per_node)
        on_node = _honoured(site, nodes, tasks, on_node)
    chooses = any(_is_option(word.text, _CHOOSES_NODES) for word in site.words[: _launcher_at(site)])
    # the iterations of a plain loop run one after another, each with all nodes of the job
    shares = site.background or any(repeat.what != "loop" for repeat in site.repeats)
    return SchedulerStep(starter, nodes, tasks, on_node, chooses or shares).counted()


def _honoured(site: LaunchSite, nodes: int | None, tasks: int | None, on_node: int | None) -> int | None:
    """Return the tasks on each node if srun keeps the given number. A total number of tasks overrides it (srun(1))."""
    command = site.command
    if command.tasks is not None or "tasks" in command.unknown:
        return 1 if on_node == 1 and tasks is None else None
    if on_node is None:
        return None
    if command.tasks_per_node is None:
        # with --ntasks it is a maximum
        return None if tasks is not None and nodes is not None else on_node
    # in some versions the job's SLURM_NTASKS overrides srun's --ntasks-per-node
    total = None if site.job is None else known(site.job.tasks)
    each = None if site.job is None else known(site.job.tasks_per_node)
    return None if (total is not None and total != on_node * (nodes or 0)) or (each or 0) > on_node else on_node


def _launcher_at(site: LaunchSite) -> int:
    """Return the index of the launcher. Its own options and the script follow."""
    for index, word in enumerate(site.words):
        if word.text.rpartition("/")[2] in (
            "torchrun",
            "accelerate",
            "deepspeed",
            "axolotl",
            "torchx",
            "python",
            "python3",
        ):
            return index
    return len(site.words)


def _is_option(word: str, names: Collection[str]) -> bool:
    name = word.partition("=")[0]
    return name in names or (len(word) > 2 and word[0] == "-" and word[1] != "-" and word[:2] in names)


def expected_nodes(site: LaunchSite) -> ExpectedNodes | None:
    """Return the nodes that the launcher expects, also through Slurm's own count. None: not given, or unknown."""
    command = site.command
    if command.nnodes_min is not None and command.nnodes_max is not None:
        return ExpectedNodes(command.nnodes_min, command.nnodes_max)
    if command.unknown & {"nnodes_min", "nnodes_max"}:
        word = site.value(*NODES_OPTIONS)
        name = None if word is None else only_variable(with_variables(site, word.text))
        whole = job_nodes(site)
        if name in SLURM_NODES and whole is not None:
            return ExpectedNodes(whole, whole, literal=False)
    return None


def several_nodes(site: LaunchSite) -> bool | None:
    """Return whether the job of the line has more than one node; None if unknown."""
    command = site.command
    if command.standalone:
        return False
    expected = expected_nodes(site)
    step = step_of(site)
    if expected is not None:
        return expected.high > 1
    if command.unknown & {"nnodes_min", "nnodes_max"}:
        return True if (step.nodes or 1) > 1 and not step.partial else None
    if command.launcher in TORCHRUN_LAUNCHERS:
        return False
    if command.launcher in NODE_LAUNCHERS:
        return None
    if step.starter is None:
        return None
    return None if step.nodes is None else step.nodes > 1


def bears_on_nodes(site: LaunchSite) -> bool:
    """Return whether the line runs under a test that may depend on the number of nodes or processes."""
    return any(_BEARS_ON_NODES.search(condition) for condition in site.conditions)


def is_remote(site: LaunchSite) -> bool:
    """Return whether the line starts its command on hosts that it names."""
    return bool(REMOTE_SHELLS.intersection(site.command.wrappers))


def shown(value: str) -> str:
    """Return a value for a message: shortened, and without credentials."""
    value = mask(value)
    return value if len(value) <= _MAX_SHOWN_LENGTH else value[: _MAX_SHOWN_LENGTH - 1] + "…"


def stays_outside(site: LaunchSite, given: FileSetting) -> bool:
    """Return whether a variable of this shell does not reach the container or host on which the line runs."""
    if given.reach != "exported" or not _APART.intersection(site.command.wrappers):
        return False
    own = site.words[: len(site.words) - len(site.command.script_args)]
    at = next((index for index, word in enumerate(own) if word.text.rpartition("/")[2] in _APART), None)
    if at is None:
        return False
    here, there = given.span, own[at].span
    if here.path == there.path and (here.line, here.column) > (there.line, there.column):
        return False
    return not any(re.search(rf"(?<!\w){re.escape(given.name)}(?!\w)", word.text) for word in own[at:])


# what words are made of


def setting(site: LaunchSite, name: str) -> FileSetting | None:
    """Return the variable as the line's shell has it."""
    return site.settings.get(name) or site.unexported.get(name)


def with_variables(site: LaunchSite, text: str) -> str:
    """Return a text with the file's own variables replaced, also by unknown values: ``$(hostname):29500``."""
    for _ in range(_MAX_DEPTH):
        longer = _VARIABLE.sub(lambda match: _content(site, match), text)
        if longer == text or len(longer) > _MAX_LENGTH:
            break
        text = longer
    return text


def _content(site: LaunchSite, match: re.Match[str]) -> str:
    found = setting(site, match[1] or match[2])
    if found is None:
        return match[0]
    content = found.value if found.value is not None else unquoted(found.written)
    # a variable that is appended to itself would grow
    return match[0] if not content or re.search(rf"\$\{{?{re.escape(found.name)}\b", content) else content


def unquoted(text: str) -> str:
    """Return a value without its quotes."""
    plain = text.strip()
    return plain[1:-1] if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "'\"" else plain


def only_variable(text: str) -> str | None:
    """Return the name if a text is exactly one variable, otherwise None."""
    match = _VARIABLE.fullmatch(unquoted(text))
    return None if match is None else match[1] or match[2]


def source_of(site: LaunchSite, text: str) -> FileSetting | None:
    """Return the assignment of a value that comes from ``$NAME`` alone, through further such variables."""
    found = None
    for _ in range(_MAX_DEPTH):
        name = only_variable(text)
        following = None if name is None else setting(site, name)
        if following is None:
            break
        found, text = following, following.written
    return found


def assigned_in(site: LaunchSite, word: Word, written: str, value: str) -> FileSetting | None:
    """Return the assignment that holds the whole value of an option, or None if the line itself holds it."""
    found = None if _shares(site, word) else source_of(site, written)
    if found is not None:
        return found
    for given in (*site.settings.values(), *site.unexported.values()):
        span = given.value_span
        if given.value == value and span is not None and any(_holds(span, origin) for origin in word.origins):
            return given
    return None


def _holds(outer: Span, inner: Span) -> bool:
    starts = (outer.line, outer.column) <= (inner.line, inner.column)
    ends = (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
    return outer.path == inner.path and starts and ends


def may_be_started_by_variable(site: LaunchSite) -> bool:
    """Return whether an unknown variable stands before a launcher: ``$LAUNCHER torchrun`` may start it by srun."""
    words = [word.text for word in site.words[:2]]
    return len(words) == 2 and only_variable(words[0]) is not None and not words[1].startswith("-")


def by_each_task(site: LaunchSite, word: Word) -> bool | None:
    """Return whether each task expands the variables of a word; None if unknown."""
    if word.by_each_task is not True:
        return word.by_each_task
    given = source_of(site, word.written or word.text)
    return True if given is None or given.by_each_task is None else given.by_each_task


def rendezvous_of(site: LaunchSite) -> Rendezvous | None:
    """Return the rendezvous of a line, or None if the file does not give it."""
    command = site.command
    if command.standalone:
        return None
    if command.launcher not in NODE_LAUNCHERS:
        given = site.settings.get("MASTER_ADDR")
        return None if given is None else _of_setting(site, given)
    endpoint = site.value("--rdzv-endpoint")
    # a c10d store of type "file" uses a path
    if endpoint is not None and command.rdzv_conf.get("store_type", "tcp") == "tcp":
        return _of_word(site, "--rdzv-endpoint", endpoint)
    # accelerate makes an endpoint of them if the backend needs one
    own = command.launcher == "accelerate" or command.rdzv_backend in (None, "static")
    if not own or "rdzv_backend" in command.unknown:
        return None
    word = site.value(*ADDRESS_OPTIONS)
    return None if word is None else _of_word(site, option_name(site, ADDRESS_OPTIONS), word)


def option_name(site: LaunchSite, names: Sequence[str]) -> str:
    """Return an option as the line spells it, or the first of its names if it is not given."""
    word = site.option(*names)
    return names[0] if word is None else word.text.partition("=")[0]


def _of_word(site: LaunchSite, name: str, word: Word) -> Rendezvous:
    host = host_of(word.text) if "endpoint" in name else word.text
    written = host_of(unquoted(word.written)) if "endpoint" in name else unquoted(word.written)
    given = assigned_in(site, word, written or host, host)
    expanded = by_each_task(site, word)
    if given is None:
        known_host = "$" not in host and "`" not in host
        return Rendezvous(name, host, value_span(site, word), known_host, None, with_variables(site, host), expanded)
    if given.value is None:
        return Rendezvous(
            name, host, given.span, False, given.name, with_variables(site, unquoted(given.written)), expanded
        )
    # a variable that is the whole endpoint holds the port as well, whatever its name
    whole = "endpoint" in name and re.fullmatch(r"\$\{?\w+\}?", unquoted(word.written)) is not None
    value = host_of(given.value) if whole else given.value
    return Rendezvous(name, value, given.span, True, given.name, value, expanded)


def _of_setting(site: LaunchSite, given: FileSetting) -> Rendezvous:
    first = source_of(site, given.written) or given
    value = given.value if given.value is not None else unquoted(given.written)
    return Rendezvous(
        given.name,
        value,
        first.span,
        given.value is not None,
        first.name,
        value if given.value is not None else with_variables(site, value),
        given.by_each_task,
    )


def host_of(endpoint: str) -> str:
    """Return the host of ``HOST:PORT``; the host may contain a substitution with colons."""
    from distcheck.launch.endpoint import split_endpoint

    if "$(" not in endpoint and "${" not in endpoint and "`" not in endpoint:
        return split_endpoint(endpoint)[0]
    match = re.fullmatch(r"(?s)(.*[)}`\w])(?::(?:\d+|\$\{?\w+\}?|\$\(.*\)|`[^`]*`))", endpoint)
    return endpoint if match is None else match[1]


# findings


def edit_value(site: LaunchSite, names: Sequence[str], text: str) -> tuple[Edit, ...]:
    """Return the edit that changes the value of an option, in the line or in its assignment.

    The result is empty if the value is quoted, or is only a part of a word.
    """
    word = site.value(*names)
    if word is None:
        return ()
    span = word.span
    if word.written != word.text:
        span = value_span(site, word)
        if len(word.origins) != 1:
            return ()
        span = word.origins[0] if span == word.span else span
    return span.literal_edit(word.text, text)


def edit_word(word: Word | None, text: str) -> tuple[Edit, ...]:
    """Return the edit that replaces a word, or nothing if the word is written in another form."""
    if word is None or word.origins or word.written != word.text:
        return ()
    return word.span.literal_edit(word.written, text)


def _shares(site: LaunchSite, word: Word) -> bool:
    """Return whether other words come from the same variable: an array, or a text with several options."""
    return bool(word.origins) and sum(other.span == word.span for other in site.words) > 1


def value_span(site: LaunchSite, word: Word) -> Span:
    """Return the span of an option's value; in an array or text with several words, only its part."""
    whole = next((other for other in site.words if other.span == word.span and other.origins == word.origins), None)
    if whole is None or not _shares(site, word):
        return word.span
    first, last = word.origins[0], word.origins[-1]
    if len(word.origins) > 1:
        return first._replace(end_line=last.end_line, end_column=last.end_column) if first.path == last.path else first
    width = first.end_column - first.column
    if first.line == first.end_line and width > len(word.text) and whole.text.endswith(word.text):
        return first._replace(column=first.end_column - len(word.text)) if width == len(whole.text) else first
    return first


def location_of(site: LaunchSite, word: Word | None, option: str | None = None) -> Where:
    """Return the location of an option: its word if known, otherwise the line."""
    return (site.span if word is None else value_span(site, word)).where(object=option)


def worst_per_location(judge: Callable[Facts, Iterator[Finding]]) -> Callable[Facts, Iterator[Finding]]:
    """Make a probe yield the worst finding at each location. A function that is called twice gives the same twice."""

    @functools.wraps(judge)
    def findings(*facts: Facts.args, **named: Facts.kwargs) -> Iterator[Finding]:
        best: dict[tuple[object, ...], Finding] = {}
        for finding in judge(*facts, **named):
            where = finding.where
            key = (finding.code, where.path, where.line, where.column, where.object, where.variable)
            if key not in best or finding.severity > best[key].severity:
                best[key] = finding
        yield from best.values()

    return findings


def launch_lines(launch_files: LaunchFiles, *, complete: bool = True) -> Iterator[tuple[LaunchFile, LaunchSite]]:
    """Yield the lines with a launcher that starts all ranks of a node.

    :param complete: only lines that name a script; others end before anything starts, or are fragments in a document
    """
    for file, site in launch_files.sites():
        if site.command.launcher in NODE_LAUNCHERS and (is_complete(site) or not complete):
            yield file, site


def is_complete(site: LaunchSite) -> bool:
    """Return whether a launcher is given something to start."""
    command = site.command
    return command.launcher not in NODE_LAUNCHERS or command.script is not None or "script" in command.unknown


def rendezvous_lines(launch_files: LaunchFiles) -> Iterator[tuple[LaunchFile, LaunchSite]]:
    """Yield the lines that start users of torch's store: launchers and Python, or else shell scripts.

    A file that only sets MASTER_ADDR and MASTER_PORT for other files counts as one such line.
    """
    for file in launch_files.files:
        starts = [site for site in file.sites if site.command.launcher != "other"]
        starts = starts or [site for site in file.sites if (site.command.script or "").endswith(_SHELL_SCRIPT)]
        if not starts:
            given = {one.name: one for one in file.settings if one.name.startswith("MASTER_") and one.reaches_processes}
            known_here = {one.name: one for one in file.settings if one.name not in given}
            if given:
                command = LaunchCommand("python", ("srun",) if file.allocation is not None else ())
                span = next(iter(given.values())).span
                place = "shell" if file.allocation is None else "slurm"
                starts = [
                    LaunchSite(command, (), span, place, given, known_here, file.allocation, file.allocation),
                ]
        for site in starts:
            if is_complete(site):
                yield file, site
