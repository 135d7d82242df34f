"""What stands around a launch line: on how many nodes and how often it is started, and what its words are made of.

It counts and looks up; it judges nothing. What is unknown is None, and compared with nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from distcheck.core.model import Edit, Finding, Where
from distcheck.core.redaction import mask
from distcheck.launch.model import NODE_LAUNCHERS, LaunchCommand
from distcheck.launch.schedulers import task_starter

from .fragments import Span
from .model import TORCHRUN_LAUNCHERS, Allocation, FileSetting, LaunchFile, LaunchFiles, LaunchSite, Word, known

#: Programs that start a command on hosts that they name, through a shell there.
REMOTE_SHELLS = frozenset({"ssh", "pdsh", "clush"})
#: Programs that start a command in a container.
CONTAINER_PROGRAMS = frozenset({"docker", "podman", "nvidia-docker"})
#: Programs behind which a command runs in an environment that is not this shell's.
_APART = CONTAINER_PROGRAMS | REMOTE_SHELLS | {"kubectl", "oc"}
#: How each launcher spells what all of them have.
NODES_OPTIONS = ("--nnodes", "--num-machines", "--num-nodes")
NODE_RANK_OPTIONS = ("--node-rank", "--machine-rank")
ADDRESS_OPTIONS = ("--master-addr", "--main-process-ip")
PORT_OPTIONS = ("--master-port", "--main-process-port")
#: Variables of Slurm that say how many nodes the job has; in a job script's body and in its steps.
SLURM_NODES = frozenset({"SLURM_NNODES", "SLURM_JOB_NUM_NODES"})

#: Suffixes of scripts whose ranks are started elsewhere.
_SHELL_SCRIPT = (".sh", ".bash", ".zsh", ".slurm", ".sbatch")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
#: Variables put into each other so often, and to so many characters, before it is given up.
_MAX_DEPTH = 5
_MAX_LENGTH = 2000
#: Characters of a value that a message repeats.
_MAX_SHOWN_LENGTH = 60
#: Options of srun that choose some of the job's nodes.
_CHOOSES_NODES = ("-w", "--nodelist", "-r", "--relative", "-x", "--exclude", "--het-group", "-F", "--nodefile")
#: A test that bears on how many nodes or processes there are, or on what the caller chose.
_BEARS_ON_NODES = re.compile(r"(?i)node|nproc|world|host|rank|multi|single|\bmode\b|gpus?\b|\$\{?[0-9#@*]")


class SchedulerStep(NamedTuple):
    """How often a command is started, and on how many nodes, by what stands in front of it. None: not known."""

    #: ``srun``, ``mpirun`` …; None: the shell of the file starts it, or one that it reaches through ssh
    starter: str | None = None
    nodes: int | None = None
    tasks: int | None = None
    tasks_on_node: int | None = None
    #: it takes some of the job's nodes, so that other lines may start the rest
    partial: bool = False


class ExpectedNodes(NamedTuple):
    """The nodes that a launcher is told to expect."""

    low: int
    high: int
    #: written as a number, not taken from the scheduler
    literal: bool = True

    @property
    def text(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


class Rendezvous(NamedTuple):
    """Where the ranks of a launch line are to meet, as far as the file says."""

    #: the option or variable that says it
    name: str
    #: the host, without its port; what is unknown stands as it is written
    host: str
    span: Span
    known: bool = True
    variable: str | None = None
    #: what the host is made of, with variables of the file put in
    with_variables: str = ""
    #: its variables are expanded by each task anew
    by_each_task: bool | None = None


# counts


def job_nodes(site: LaunchSite) -> int | None:
    """Nodes of the whole job, where exactly one number is asked for."""
    return _nodes_of(site.of_job)


def _nodes_of(allocation: Allocation | None) -> int | None:
    if allocation is None or allocation.heterogeneous:
        return None
    low, high = known(allocation.nodes), known(allocation.nodes_max)
    return low if allocation.nodes_max is None or high == low else None


def step_of(site: LaunchSite) -> SchedulerStep:
    """Who starts the command how often."""
    command = site.command
    starter = task_starter(command)
    if starter is None:
        return SchedulerStep()
    if starter != "srun":
        on_node = None if "tasks_per_node" in command.unknown else command.tasks_per_node
        return _counted(SchedulerStep(starter, command.nodes, command.tasks, on_node))
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
    # the rounds of a plain loop follow each other, and each of them has all nodes of the job
    shares = site.background or any(repeat.what != "loop" for repeat in site.repeats)
    return _counted(SchedulerStep(starter, nodes, tasks, on_node, chooses or shares))


def _honoured(site: LaunchSite, nodes: int | None, tasks: int | None, on_node: int | None) -> int | None:
    """Tasks on each node, where srun keeps to the number that is said: a number of all tasks wins (srun(1))."""
    command = site.command
    if command.tasks is not None or "tasks" in command.unknown:
        return 1 if on_node == 1 and tasks is None else None
    if on_node is None:
        return None
    if command.tasks_per_node is None:
        # with --ntasks it is the most
        return None if tasks is not None and nodes is not None else on_node
    # SLURM_NTASKS of the job wins over srun's --ntasks-per-node in some versions, and not in others
    total = None if site.job is None else known(site.job.tasks)
    each = None if site.job is None else known(site.job.tasks_per_node)
    return None if (total is not None and total != on_node * (nodes or 0)) or (each or 0) > on_node else on_node


def _counted(step: SchedulerStep) -> SchedulerStep:
    if step.tasks == 1:
        return step._replace(nodes=1, tasks_on_node=1)
    if step.tasks is None and step.tasks_on_node and step.nodes:
        return step._replace(tasks=step.tasks_on_node * step.nodes)
    if step.tasks_on_node is None and step.tasks and step.nodes:
        return step._replace(tasks_on_node=-(-step.tasks // step.nodes))
    return step


def _launcher_at(site: LaunchSite) -> int:
    """Where the launcher stands among the words; its own options and the script come behind."""
    for index, word in enumerate(site.words):
        if word.text.rpartition("/")[2] in ("torchrun", "accelerate", "deepspeed", "python", "python3"):
            return index
    return len(site.words)


def _is_option(word: str, names: Collection[str]) -> bool:
    name = word.partition("=")[0]
    return name in names or (len(word) > 2 and word[0] == "-" and word[1] != "-" and word[:2] in names)


def expected_nodes(site: LaunchSite) -> ExpectedNodes | None:
    """The nodes that the launcher is told of, also where it is told by Slurm's own count; None: nothing, or unknown."""
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
    """Whether the job that the line belongs to has more than one node; None: not known."""
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
    """Whether the line is carried out under a test that may have looked at the number of nodes or processes."""
    return any(_BEARS_ON_NODES.search(condition) for condition in site.conditions)


def is_remote(site: LaunchSite) -> bool:
    """It is started on hosts that the line names."""
    return bool(REMOTE_SHELLS.intersection(site.command.wrappers))


def counted(count: int, noun: str) -> str:
    """Return ``1 node`` or ``2 nodes``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def shown(value: str) -> str:
    """A value as a message can show it: not too long, and without what looks like a credential."""
    value = mask(value)
    return value if len(value) <= _MAX_SHOWN_LENGTH else value[: _MAX_SHOWN_LENGTH - 1] + "…"


def stays_outside(site: LaunchSite, given: FileSetting) -> bool:
    """A variable of this shell that a container or another host, which the line goes to, does not get."""
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
    """The variable as the line's shell has it."""
    return site.settings.get(name) or site.unexported.get(name)


def with_variables(site: LaunchSite, text: str) -> str:
    """A text with the file's own variables put in, also those whose value is unknown: ``$(hostname):29500``."""
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
    # a variable that adds to itself would grow
    return match[0] if not content or re.search(rf"\$\{{?{re.escape(found.name)}\b", content) else content


def unquoted(text: str) -> str:
    """A value without the quotes around it."""
    plain = text.strip()
    return plain[1:-1] if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "'\"" else plain


def only_variable(text: str) -> str | None:
    """The name where a text is one variable and nothing else, else None."""
    match = _VARIABLE.fullmatch(unquoted(text))
    return None if match is None else match[1] or match[2]


def source_of(site: LaunchSite, text: str) -> FileSetting | None:
    """The assignment in which a value stands that came in by ``$NAME`` alone, through further such ones."""
    found = None
    for _ in range(_MAX_DEPTH):
        name = only_variable(text)
        following = None if name is None else setting(site, name)
        if following is None:
            break
        found, text = following, following.written
    return found


def assigned_in(site: LaunchSite, word: Word, written: str, value: str) -> FileSetting | None:
    """The assignment in which the whole value of an option stands, None where it stands in the line itself."""
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


def by_each_task(site: LaunchSite, word: Word) -> bool | None:
    """Whether the variables of a word are expanded by each task anew; None: not known."""
    if word.by_each_task is not True:
        return word.by_each_task
    given = source_of(site, word.written or word.text)
    return True if given is None or given.by_each_task is None else given.by_each_task


def rendezvous_of(site: LaunchSite) -> Rendezvous | None:
    """The host at which the ranks of a line meet, None where the file does not say."""
    command = site.command
    if command.standalone:
        return None
    if command.launcher not in NODE_LAUNCHERS:
        given = site.settings.get("MASTER_ADDR")
        return None if given is None else _of_setting(site, given)
    endpoint = site.value("--rdzv-endpoint")
    # a c10d store of type "file" takes a path there
    if endpoint is not None and command.rdzv_conf.get("store_type", "tcp") == "tcp":
        return _of_word(site, "--rdzv-endpoint", endpoint)
    # accelerate makes an endpoint of them where the backend wants one
    own = command.launcher == "accelerate" or command.rdzv_backend in (None, "static")
    if not own or "rdzv_backend" in command.unknown:
        return None
    word = site.value(*ADDRESS_OPTIONS)
    return None if word is None else _of_word(site, option_name(site, ADDRESS_OPTIONS), word)


def option_name(site: LaunchSite, names: Sequence[str]) -> str:
    """An option as the line spells it, the first of its names where it does not stand there."""
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
    return Rendezvous(name, given.value, given.span, True, given.name, given.value, expanded)


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
    """The host of ``HOST:PORT``, where the host may hold a substitution with colons in it."""
    from distcheck.launch.endpoint import split_endpoint

    if "$(" not in endpoint and "${" not in endpoint and "`" not in endpoint:
        return split_endpoint(endpoint)[0]
    match = re.fullmatch(r"(?s)(.*[)}`\w])(?::(?:\d+|\$\{?\w+\}?|\$\(.*\)|`[^`]*`))", endpoint)
    return endpoint if match is None else match[1]


# findings


def edit_value(site: LaunchSite, names: Sequence[str], text: str) -> tuple[Edit, ...]:
    """The edit that writes another value behind an option, in the line or in the assignment that it comes from.

    None where it does not stand there as it is, by itself and without quotes.
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
    if span.line != span.end_line or span.end_column - span.column != len(word.text):
        return ()
    return (span.replaced_by(text),)


def edit_word(site: LaunchSite, word: Word | None, text: str) -> tuple[Edit, ...]:
    """The edit that writes another word; none where it does not stand as it is."""
    if word is None or word.origins or word.written != word.text:
        return ()
    span = word.span
    if span.line != span.end_line or span.end_column - span.column != len(word.written):
        return ()
    return (word.span.replaced_by(text),)


def _shares(site: LaunchSite, word: Word) -> bool:
    """Other words come out of the same variable: an array, or a text with several options."""
    return bool(word.origins) and sum(other.span == word.span for other in site.words) > 1


def value_span(site: LaunchSite, word: Word) -> Span:
    """Where the value of an option stands: its part of an array or text, where several words come out of one."""
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
    """The place of an option of a launch line: the word where it can be told, else the line."""
    return (site.span if word is None else value_span(site, word)).where(object=option)


def worst_per_location(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Of the findings at one place the worst: a function that is called twice, a file that two others source."""
    best: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        where = finding.where
        key = (finding.code, where.path, where.line, where.column, where.object, where.variable)
        if key not in best or finding.severity > best[key].severity:
            best[key] = finding
    yield from best.values()


def launch_lines(launch_files: LaunchFiles, *, complete: bool = True) -> Iterator[tuple[LaunchFile, LaunchSite]]:
    """Lines of a launcher that starts all ranks of a node.

    :param complete: only those that name a script; the others end before anything starts, or are the beginning of a
        command that a document explains
    """
    for file, site in launch_files.sites():
        if site.command.launcher in NODE_LAUNCHERS and (is_complete(site) or not complete):
            yield file, site


def is_complete(site: LaunchSite) -> bool:
    """A launcher is given something to start."""
    command = site.command
    return command.launcher not in NODE_LAUNCHERS or command.script is not None or "script" in command.unknown


def rendezvous_lines(launch_files: LaunchFiles) -> Iterator[tuple[LaunchFile, LaunchSite]]:
    """Lines that start what meets at torch's store: of launchers and Python; in a file without any, of its scripts.

    A file that only sets MASTER_ADDR and MASTER_PORT for others is one such line, in place of what will read them.
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
