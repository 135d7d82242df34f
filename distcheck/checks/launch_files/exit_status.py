"""Whether the status of a launch is the status of its script, so that a scheduler and dependent jobs see a failure.

Only what the text decides is reported: a pipe without ``pipefail``, a command behind the launch that always succeeds,
``|| true``, another launch after it, and a launch in the background without a ``wait`` for its process. A file that
reads ``$?``, or has a trap, handles the status itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe
from distcheck.core.spans import Span
from distcheck.launch._wrapper_table import MPI, SUBMITTERS, WRAPPERS
from distcheck.launch._wrappers import own_words
from distcheck.launch.model import NODE_LAUNCHERS
from distcheck.launch.schedulers import task_starter

from .context import is_complete
from .fragments import Fragment
from .model import LaunchFile, LaunchFiles, LaunchSite
from .paths import the_one
from .resources import uses_gpus
from .shell_commands import SCRIPTS, read_chain
from .shell_grammar import nodes_in, parse, why_missing

#: Commands that succeed, whatever the launch has done; nothing depends on its results.
_SUCCEEDS = frozenset(
    ["echo", "printf", "date", "true", ":", "sleep", "rm", "deactivate", "conda", "module", "unset", "ls", "touch",
     "hostname", "uptime", "popd", "pushd", "sync", "clear", "nvidia-smi", "dcgmi", "rocm-smi",
     "squeue", "sacct", "seff", "scontrol", "set", "cd", "ml", "pwd", "free", "df"]
)  # fmt: skip
#: Commands that copy what a folder holds, also if a launch has failed before it was done, with the options for that.
_COPIES = {
    "rsync": lazy(r"-[A-Za-z]*[ar]|--(?:archive|recursive)"),
    "cp": lazy(r"-[A-Za-z]*[arR]|--(?:archive|recursive)"),
    "scp": lazy(r"-[A-Za-z]*r"),
    "tar": lazy(r"-?[A-Za-z]*c[A-Za-z]*|--create"),
    "zip": lazy(r"-[A-Za-z]*r"),
}
#: The name of a file with a suffix, which a failed launch may not have written.
_FILE = lazy(r"\.\w{1,12}[\"']?$")
#: Programs that run until they are stopped: with these words they start no ranks, and their status is not waited for.
_SERVICES = (("ray", "start"), ("vllm", "serve"), ("trl", "vllm-serve"), ("tensorboard",), ("redis-server",))
#: An ``exit`` of a handler; its status follows.
_EXIT = lazy(r"\bexit\b[ \t]*([^\s;&|)}]*)")
_FENCE = lazy(r"(?:```|~~~)")
_PYTHON = lazy(r"^[^#]*\bpython[\d.]*[ \t]")
#: What differs in the name of a log: ``%j`` of a directive, ``$SLURM_JOB_ID`` of a command.
_VARYING = lazy(r"%\d*[A-Za-z]|\$\{?\w+\}?")
#: Options with which a script starts nothing.
_STARTS_NOTHING = frozenset(("--dry-run", "--dry_run", "--dryrun", "--help", "-h"))
#: Commands that keep a script alive while a launch runs in the background.
_STAYS = frozenset(("sleep", "tail", "fg", "wait"))
#: What starts a program that is meant to outlive the script.
_DETACHES = frozenset(("nohup", "setsid", "tmux", "screen"))
#: A command that is the name of a function.
_NAME = lazy(r"[A-Za-z]\w*_\w+")
_SOURCES = lazy(r"(?m)^[ \t]*(?:source|\.)[ \t]")
#: Where the commands of another shell begin, and what leaves a launch there: in a terminal, or in its background. The
#: sign of this shell itself is outside of the command.
_THERE = lazy(r"[\"'\n]")
_IN_A_TERMINAL = lazy(r"\b(?:tmux|screen)[ \t]+(?:new|-d)")
_WITHOUT_A_TERMINAL = lazy(r"\b(?:nohup|setsid)\b")
_BACKGROUND_SIGN = lazy(r"(?<![&>])&(?![&>\d])")
#: Remote shells for many hosts, which return 0 without -S (pdsh(1), clush(1)).
_SHELLS_OF_HOSTS = frozenset(("pdsh", "clush"))
#: What reads the status itself; a message with the status (``echo "ended with $?"``) does not keep it.
_HANDLES = lazy(r"\$\?|\$\{\?\}|PIPESTATUS|pipestatus")
#: The first command behind a pipe reads the status: a test, or ``status=$?``.
_READS_STATUS = lazy(r"(?:if\b|\[|test\b|case\b|\(\(|(?:local[ \t]+)?\w+=)[^\n]*?\$(?:\?|\{\?\})")
_MESSAGE = lazy(r"^[ \t]*(?:echo|printf)\b[^\n;&|]*$", re.MULTILINE)
#: What a script notes behind ``||``: a variable, or a file.
_NOTES = lazy(r"(?:^|[\s;{(])(?:(?P<name>[A-Za-z_]\w*)(?:\[[^]\n]*\])?\+?=|touch[ \t]+[\"']?(?P<file>[\w./-]+))")
#: A variable that keeps the status: ``status=$?``. If only messages use it, nothing handles the status.
_KEPT = lazy(
    r"^[ \t]*(?:local[ \t]+)?(?P<name>[A-Za-z_]\w*)=[\"']?(?:\$\?|\$\{(?:\?|PIPESTATUS\[\d+\])\})[\"']?[ \t]*$",
    re.MULTILINE,
)
#: What may end the script before its last command, or hand over the status.
_MAY_END = lazy(r"\b(?:exit|return|exec|kill|pkill|scancel|bkill|qdel|trap|errexit|err_exit)\b|\bset[ \t]+-\w*e|:\?")
_TRAP = lazy(r"^[ \t]*trap\b[^\n]*\bERR\b", re.MULTILINE)
_TRAPS = lazy(r"(?:^|[;&|({]|\b(?:then|do|else))[ \t]*trap\b", re.MULTILINE)
_DIRECTIVE = lazy(r"#(?:SBATCH|PBS|BSUB|FLUX|COBALT|\$)[ \t]")
_SHEBANG = lazy(r"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:-\S+[ \t]+)*)?(?:\S*/)?(?P<shell>\w+)(?P<options>[^\n]*)")
#: Shells with ``set -o pipefail`` (bash 3, ksh93, zsh 5.0.3).
_WITH_PIPEFAIL = frozenset(("bash", "zsh", "ksh"))
#: ``set -euo pipefail``, ``set +e``, ``setopt pipefail``, as commands of a line.
_SET = lazy(r"(?:^|[;&|({]|\bthen|\bdo)[ \t]*(?P<name>set|setopt|shopt)(?P<words>(?:[ \t]+[-+]?\w+)+)", re.MULTILINE)
#: Statements in which the last command decides the status.
_BODIES = frozenset(
    ("program", "compound_statement", "subshell", "else_clause", "if_statement", "elif_clause", "case_item")
)
_OUTSIDE = frozenset(("command_substitution", "process_substitution", "string", "heredoc_body"))
_LOOPS = frozenset(("do_group", "for_statement", "c_style_for_statement", "while_statement"))
_LEAVES = lazy(rb"\b(?:break|continue|return|exit|attempt|retry|retries)\b")
#: Steps from a function with a launch to those that call it.
_DEEPEST_CALL = 4
#: The calls of a function with a launch; with more of them, it is not checked.
_MOST_CALLS = 50
_CONDITIONS = frozenset(("if_statement", "elif_clause", "while_statement"))


class _Lost(NamedTuple):
    """How a status is lost."""

    #: ``remote``, ``pipe``, ``ignored``, ``behind``, ``next``, ``wait``, ``background``, ``trap``
    how: str
    #: the command that decides instead
    by: str
    #: its line
    line: int
    #: where the status is lost: the offsets of the first and past the last character
    at: tuple[int, int]


class _Options(NamedTuple):
    """What ``set`` has switched on before a line."""

    #: ``set -e``: a failed command ends the script
    errexit: bool
    pipefail: bool


@probe(rules.DC813)
def status_of_the_launch_is_kept(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A script that starts ranks fails if they fail."""
    if why_missing() is not None:
        return
    starting = {file.path.replace("\\", "/") for file in launch_files.files if any(map(_is_launcher, file.sites))}
    for file in launch_files.files:
        for script in [file] if file.kind == "shell" else _documented_scripts(file):
            yield from _in_script(script, starting)


def _in_script(file: LaunchFile, starting: Set[str]) -> Iterator[Finding]:
    sites = _launches(file, starting)
    if not sites or file.problems:
        return
    text = "\n".join(file.lines)
    root = parse(text)
    if root is None or not all(map(_is_background_sign, _errors_in(root))):
        return
    script = _Script(file, Fragment(text, file.path), root, sites)
    trapped = script.trapped()
    waited = next((site for site in sites if not _is_left_alone(script.command(site))), None)
    if trapped is not None and waited is not None:
        yield _found(script, waited, trapped, [trapped])
        return
    lost = [(site, how) for site in sites for how in script.lost(site)]
    if not lost or _TRAP.search(text) is not None:
        return
    reported: set[str] = set()
    for site, how in lost:
        if how.how not in reported:
            reported.add(how.how)
            yield _found(script, site, how, [one for _, one in lost])


def _documented_scripts(file: LaunchFile) -> Iterator[LaunchFile]:
    """Yield the batch scripts in the blocks of a document as files of their own; lines outside of them are empty."""
    if file.kind != "markdown":
        return
    ends = 0
    for site in sorted(file.sites, key=lambda site: site.span):
        if site.job is None or site.span.line <= ends:
            continue
        start = next((line for line in range(site.span.line, 0, -1) if _FENCE.match(file.lines[line - 1])), 0)
        lines = file.lines[start:]
        length = next((index for index, line in enumerate(lines) if _FENCE.match(line)), len(lines))
        ends = start + length
        if start and lines[0].startswith("#!"):
            own = tuple(one for one in file.sites if start < one.span.line <= ends)
            lines = (*[""] * start, *lines[:length])
            yield file._replace(kind="shell", sites=own, allocation=site.job, lines=lines)


def _is_launcher(site: LaunchSite) -> bool:
    return site.command.launcher in NODE_LAUNCHERS and is_complete(site)


def _launches(file: LaunchFile, starting: Set[str]) -> list[LaunchSite]:
    """Return the lines of a shell script that start ranks, in order.

    :param starting: the launch files with a launcher: a script that starts one of them starts ranks
    """
    with_python = any(_PYTHON.search(line) for line in file.lines)
    found: dict[Span, LaunchSite] = {}
    for site in file.sites:
        command, starter = site.command, task_starter(site.command)
        shell = command.launcher == "other" and (command.script or "").endswith(SCRIPTS)
        if (
            _is_launcher(site)
            or (command.launcher == "python" and starter is not None)
            # a script or program of a job with GPUs may start the ranks; outside of a job, srun requests it itself
            or (site.kind in ("slurm", "shell") and starter == "srun" and is_complete(site) and uses_gpus(site))
            or (shell and starter in MPI and with_python)
            or (shell and SUBMITTERS.keys().isdisjoint(command.wrappers) and _starts_one_of(site, starting))
        ) and (site.span.path == file.path and not _is_service(site)):
            found.setdefault(site.span, site)
    return [found[span] for span in sorted(found)]


def _is_service(site: LaunchSite) -> bool:
    """Return whether a line starts a program that runs until it is stopped: ``srun ray start --block``."""
    words = [word.text for word in site.words]
    chain = read_chain(words)
    if chain.kind != "command":
        return False
    program = (words[chain.position].rpartition("/")[2], *words[chain.position + 1 :])
    return any(program[: len(one)] == one for one in _SERVICES)


def _starts_one_of(site: LaunchSite, scripts: Set[str]) -> bool:
    if not _STARTS_NOTHING.isdisjoint(site.command.script_args):
        return False
    path = the_one(site, (site.command.script or "",), scripts.__contains__)
    return path is not None and path != site.span.path.replace("\\", "/")


def _errors_in(root: Any) -> Iterator[Any]:
    """Yield the nodes that the grammar could not read."""
    if not root.has_error:
        return
    if root.type == "ERROR" or root.is_missing:
        yield root
        return
    for child in root.children:
        yield from _errors_in(child)


def _is_background_sign(node: Any) -> bool:
    """Return whether an error of the grammar is the ``&`` behind the beginning of a here-document."""
    return node.parent is not None and node.parent.type == "heredoc_redirect" and node.text == b"&"


class _Script:
    """A shell script and its tree."""

    def __init__(self, file: LaunchFile, source: Fragment, root: Any, sites: Sequence[LaunchSite]) -> None:
        self.file = file
        self.source = source
        self.root = root
        self.sites = sites
        starts = [0]
        for line in file.lines:
            starts.append(starts[-1] + len(line) + 1)
        self._starts = starts
        #: functions that only print
        self.messages: frozenset[str] = frozenset()
        functions = [child for child in root.named_children if child.type == "function_definition"]
        bodies = {_name_of(one): one.child_by_field_name("body") for one in functions}
        self.messages = frozenset(name for name, body in bodies.items() if body is not None and self._only_prints(body))
        #: the commands that call functions of the script
        self._calls: dict[str, list[Any]] = {}
        for one in nodes_in(root, "command") if bodies else ():
            called = self._words(one)[:1]
            if called and called[0] in bodies:
                self._calls.setdefault(called[0], []).append(one)
        self._by_callers: dict[str, list[_Lost]] = {}
        #: the text without the tests that only print
        self.deciding = self._without_printing_tests()
        #: a script in a document begins behind empty lines
        self.shebang = _SHEBANG.match(source.text.lstrip("\n"))

    def _without_printing_tests(self) -> str:
        text = self.source.text
        parts = []
        end = 0
        for node in nodes_in(self.root, "if_statement") if _HANDLES.search(text) is not None else ():
            if node.start_byte >= end and self._succeeds(node):
                parts += [text[end : node.start_byte], " " * (node.end_byte - node.start_byte)]
                end = node.end_byte
        return "".join((*parts, text[end:]))

    @property
    def shell(self) -> str:
        """Return the shell of the first line; ``bash`` for a suffix that means it, else nothing."""
        if self.shebang is not None:
            return self.shebang["shell"]
        return "bash" if self.file.path.endswith(".bash") else ""

    @property
    def scheduled(self) -> bool:
        """Return whether a scheduler runs the file, and takes its status for that of the job."""
        return self.file.allocation is not None

    def options_before(self, offset: int) -> _Options:
        """Return what ``set`` has switched on before an offset, as far as the text shows it in order."""
        errexit = pipefail = False
        if self.shebang is not None:
            options = self.shebang["options"].split()
            errexit = any(re.fullmatch(r"-[a-z]*e[a-z]*", one) for one in options)
            pipefail = "pipefail" in options
        for match in _SET.finditer(self.source.text[:offset]):
            words = match["words"].split()
            flags = {letter for word in words if word[0] == "-" for letter in word}
            on = match["name"] == "setopt" or (match["name"] == "shopt" and flags >= {"s", "o"})
            for word in words:
                if word[0] in "-+":
                    on = word[0] == "-" if match["name"] == "set" else on
                    if match["name"] == "set" and "e" in word[1:]:
                        errexit = on
                elif word == "pipefail":
                    pipefail = on
                elif word in ("errexit", "err_exit"):
                    errexit = on
        return _Options(errexit, pipefail)

    def _options_at(self, node: Any) -> _Options:
        """Return what is on at a command: in a function, also what a script switches on before it calls that."""
        found = self.options_before(node.start_byte)
        function = _function_around(node)
        calls = [] if function is None else self._calls.get(_name_of(function), [])
        if not calls:
            return found
        inner = any(_function_around(one) is not None for one in calls)
        first = len(self.source.text) if inner else min(one.start_byte for one in calls)
        called = self.options_before(first)
        return _Options(found.errexit or called.errexit, found.pipefail or called.pipefail)

    def command(self, site: LaunchSite) -> Any:
        """Return the command of this shell that a launch line is, or is an argument of; None if there is none."""
        start = self.start_of(site)
        node = self.root.descendant_for_byte_range(start, start)
        submitted = not SUBMITTERS.keys().isdisjoint(site.command.wrappers)
        while node is not None and node.type != "command":
            if node.type == "heredoc_redirect" and node.parent is not None and not submitted:
                return node.parent.child_by_field_name("body")  # the shell that reads the here-document
            node = node.parent
        return node

    def ends_its_document_otherwise(self, site: LaunchSite) -> bool:
        """Return whether a launch line is in a here-document whose last command always succeeds."""
        start = self.start_of(site)
        node = self.root.descendant_for_byte_range(start, start)
        while node is not None and node.type != "heredoc_body":
            node = node.parent
        lines = [] if node is None else [line.split() for line in node.text.decode(errors="replace").splitlines()]
        last = next((words for words in reversed(lines) if words), [""])
        return last[0] in _SUCCEEDS and ["set", "-e"] not in [words[:2] for words in lines]

    def start_of(self, site: LaunchSite) -> int:
        """Return the offset of a launch line."""
        return self._starts[min(site.span.line, len(self.file.lines)) - 1] + site.span.column - 1

    def lost(self, site: LaunchSite) -> list[_Lost]:
        """Return how the status of a launch line is lost; nothing if it is kept, or handled."""
        node = self.command(site)
        if _is_left_alone(node):
            return []
        found = [self._lost("remote", node)] if _drops_remote_status(site) else []
        return self._lost_by(node, found)

    def _lost_by(self, node: Any, found: list[_Lost], depth: int = 0) -> list[_Lost]:
        """Return how the status of a command is lost by what stands around it, in addition to what was found before.

        :param depth: of the calls of functions
        """
        options = self._options_at(node)
        if _handles(self.source.text, node.end_byte):
            # in front of a pipe, $? is the status of its last command
            pipe = self._pipe_around(node)
            if pipe is not None and not options.pipefail and self._reads_last_status(pipe):
                return [self._lost("misread", pipe.named_children[-1])]
            if _handles(self.deciding, node.end_byte):
                return []
        replaces_shell = self._words(node)[:1] == ["exec"]
        while (parent := node.parent) is not None:
            if parent.type in _OUTSIDE or parent.type == "negated_command":
                return []
            # in a pipe, in parentheses and in the background, it replaces a shell of its own only
            replaces_shell = replaces_shell and parent.type not in ("pipeline", "subshell") and not _is_background(node)
            if parent.type == "function_definition":
                return found or self._lost_by_callers(_name_of(parent), depth + 1)
            if parent.type == "pipeline":
                last = [child for child in parent.named_children if child.type != "comment"][-1]
                if last != node and not options.pipefail:
                    found = found or [self._lost("pipe", last)]
            elif parent.type == "list":
                if parent.children[0] == node and parent.children[1].type == "||":
                    return found or self._ignored(parent.children[-1])
            elif parent.type == "redirected_statement" and (tail := _behind_document(parent)) is not None:
                operator, right = tail
                if operator != "|":
                    return found or (self._ignored(right) if operator == "||" else [])
                found = found if options.pipefail else found or [self._lost("pipe", right)]
            elif parent.type in _LOOPS or parent.type in _BODIES:
                if parent.type in _CONDITIONS and parent.child_by_field_name("condition") == node:
                    return found
                if _is_background(node):
                    waited = self._waited(node)
                    # a wait for the process of a pipe gets the status of its last command
                    return [] if waited is None else [*found, waited]
                if parent.type in _LOOPS and not _runs_all(parent):
                    return found
                behind = _statements_behind(node)
                if behind and replaces_shell:
                    return found
                if behind:
                    decided = self._decided(behind, options)
                    # what ends the loss in the pipe does not keep the next launch from starting
                    if decided is not None and (not found or decided.how == "next"):
                        found = [*found, decided]
                    return found
            node = parent
        return found

    def _lost_by_callers(self, name: str, depth: int) -> list[_Lost]:
        """Return how the status of a function is lost by all commands that call it; nothing if one keeps it."""
        if name not in self._by_callers:
            self._by_callers[name] = []  # a function that calls itself
            calls = self._calls.get(name, ()) if depth < _DEEPEST_CALL else ()
            calls = calls if len(calls) <= _MOST_CALLS else ()
            lost: list[list[_Lost]] = []
            for one in calls:
                lost.append(self._lost_by(one, [], depth))
                if not lost[-1]:
                    break
            self._by_callers[name] = lost[0] if lost and all(lost) else []
        return self._by_callers[name]

    def trapped(self) -> _Lost | None:
        """Return the ``exit 0`` of the trap that runs at the end of the script; None if a trap keeps the status."""
        traps = [words for one in self.root.named_children if (words := self._words(one))[:1] == ["trap"]]
        # a trap elsewhere, or a second one, may replace it
        if len(traps) != 1 or len(_TRAPS.findall(self.source.text)) != 1 or not {"EXIT", "0"}.intersection(traps[0]):
            return None
        functions = {_name_of(one): one for one in self.root.named_children if one.type == "function_definition"}
        handler = functions.get(traps[0][1].strip("\"'"))
        body = None if handler is None else handler.child_by_field_name("body")
        statements = [] if body is None else _statements(body)
        if body is None or not statements or self._words(statements[-1]) != ["exit", "0"]:
            return None
        text = body.text.decode(errors="replace")
        keeps = _HANDLES.search(text) is not None or _EXIT.findall(text) != ["0"] or re.search(r"\breturn\b", text)
        return None if keeps else self._lost("trap", statements[-1])

    def _ignored(self, right: Any) -> list[_Lost]:
        """Return that ``|| …`` drops the status, unless the script reads later what it notes: ``|| failed=1``."""
        text = right.text.decode(errors="replace")
        behind = _MESSAGE.sub("", self.source.text[right.end_byte :])
        for match in _NOTES.finditer(text):
            name = re.escape(match["name"] or match["file"])
            if re.search(rf"(?<![\w.-]){name}(?![\w-])(?!(?:\[[^]]*\])?\+?=(?!=))", behind):
                return []
        return [self._lost("ignored", right)] if self._succeeds(right) else []

    def _pipe_around(self, node: Any) -> Any:
        """Return the pipe of which a command is no last part, or None."""
        while node is not None and node.type in ("command", "redirected_statement", "pipeline"):
            if node.type == "pipeline" and not _is_background(node):
                return node
            parent = node.parent
            if parent is not None and parent.type == "pipeline" and parent.named_children[-1] == node:
                return None
            node = parent
        return None

    def _reads_last_status(self, pipe: Any) -> bool:
        """Return whether the statement behind a pipe reads ``$?``, and nothing reads ``PIPESTATUS``."""
        if pipe.parent is None or re.search(r"(?i)pipestatus", self.source.text) is not None:
            return False
        behind = _statements_behind(pipe) if pipe.parent.type in (*_BODIES, *_LOOPS) else []
        return bool(behind) and _READS_STATUS.match(behind[0].text.decode(errors="replace")) is not None

    def _decided(self, behind: list[Any], options: _Options) -> _Lost | None:
        """Return how statements behind a launch decide the status instead."""
        if options.errexit:
            return None
        following = next((one for one in behind if self._is_launch(one)), None)
        if following is not None:
            return self._lost("next", following)
        # the last command decides, whatever stands before it; a bare exit passes on what stands before it
        last = behind[-1]
        decides = (self._succeeds(last) or self._may_do_nothing(last)) and not any(map(self._may_end, behind[:-1]))
        return self._lost("behind", behind[-1]) if decides else None

    def _may_end(self, node: Any) -> bool:
        """Return whether a statement may end the script with another status, itself or in a function."""
        if self._succeeds(node):
            return False
        text = self.source.text[node.start_byte : node.end_byte]
        if text.startswith("...") or _MAY_END.search(text) is not None:
            return True  # a document writes an ellipsis for other commands
        if _NAME.fullmatch(text) is not None and _SOURCES.search(self.source.text[: node.start_byte]) is not None:
            return True  # a function of a sourced file
        names = {_name_of(child) for child in self.root.named_children if child.type == "function_definition"}
        return any(re.search(rf"\b{re.escape(name)}\b", text) for name in names)

    def _waited(self, node: Any) -> _Lost | None:
        """Return the ``wait`` without a process that decides for a launch in the background, or that there is none."""
        launch = node
        stays = False
        while node.parent is not None and (node.parent.type in _LOOPS or node.parent.type in _BODIES):
            behind = _statements_behind(node)
            stays = stays or any(not _STAYS.isdisjoint(one.text.decode(errors="replace").split()) for one in behind)
            if any(self._starts_ranks(one) and not _is_background(one) for one in behind if one.type not in _LOOPS):
                return None  # the one in the foreground decides
            for index, one in enumerate(behind):
                words = self._words(one)
                if words[:1] == ["wait"]:
                    kept = len(words) > 1 or not all(map(self._succeeds, behind[index + 1 :]))
                    return None if kept else self._lost("wait", one)
            if any(words[0] in _STAYS for one in behind if (words := self._words(one))) or not all(
                map(self._succeeds, behind)
            ):
                return None
            node = node.parent
        if stays or node.parent is not None or not _DETACHES.isdisjoint(launch.text.decode(errors="replace").split()):
            return None
        return self._lost("background", launch)

    def _is_launch(self, node: Any) -> bool:
        """Return whether a statement is one launch line in the foreground, alone or in a pipe."""
        kinds = ("command", "pipeline", "redirected_statement")
        return node.type in kinds and self._starts_ranks(node) and not _is_background(node)

    def _starts_ranks(self, node: Any) -> bool:
        return any(node.start_byte <= self.start_of(site) < node.end_byte for site in self.sites)

    def _words(self, node: Any) -> list[str]:
        if node.type == "redirected_statement" and node.named_children:
            node = node.named_children[0]
        return self.source.text[node.start_byte : node.end_byte].split() if node.type == "command" else []

    def _succeeds(self, node: Any) -> bool:
        """Return whether a statement always succeeds, and depends on nothing that a launch leaves behind."""
        if node.type in ("variable_assignment", "variable_assignments"):
            return True
        if node.type in ("declaration_command", "unset_command"):
            return True
        if node.type in ("compound_statement", "else_clause"):
            return all(map(self._succeeds, _statements(node)))
        if node.type in ("if_statement", "elif_clause"):  # 0 if no condition is true
            then = next((child.end_byte for child in node.children if child.type == "then"), node.end_byte)
            inner = [child for child in node.named_children if child.start_byte >= then and child.type != "comment"]
            return all(map(self._succeeds, inner))
        if node.type == "pipeline":  # echo done | tee -a log
            return all(self._succeeds(part) or self._words(part)[:1] == ["tee"] for part in node.named_children)
        words = self._words(node)
        if not words:
            return False
        if words[0] in self.messages:
            return True
        if words[0] == "exit":
            return words[1:] == ["0"]
        if words[:2] == ["scontrol", "requeue"]:
            return False  # the job does not end with the status of the script
        return words == ["wait"] or words[0] in _SUCCEEDS or _copies_folders(words) or self._copies_its_log(words)

    def _may_do_nothing(self, node: Any) -> bool:
        """Return whether a statement is a test without ``else``: its status is 0 if no condition is true."""
        arms = [child.type for child in node.children]
        return node.type == "if_statement" and "else_clause" not in arms and not self._may_end(node)

    def _only_prints(self, body: Any) -> bool:
        statements = _statements(body) if body.type == "compound_statement" else []
        return bool(statements) and all(map(self._succeeds, statements))

    def _copies_its_log(self, words: Sequence[str]) -> bool:
        """Return whether a command copies files that the scheduler has opened for the output of the job."""
        given = self.file.allocation
        names = [] if given is None else [given.directives.get(option) for option in ("output", "error")]
        logs = {_VARYING.sub("*", str(name.value)).rpartition("/")[2] for name in names if name is not None}
        sources = [word.strip("\"'").rpartition("/")[2] for word in words[1:-1] if not word.startswith("-")]
        return words[0] == "cp" and bool(sources) and logs.issuperset(_VARYING.sub("*", name) for name in sources)

    def _lost(self, how: str, node: Any) -> _Lost:
        text = self.source.text[node.start_byte : node.end_byte].split("\n", 1)[0].strip()
        by = text if len(text) <= 60 else f"{text[:57]}..."
        return _Lost(how, by, self.source.location(node.start_byte)[0], (node.start_byte, node.end_byte))

    def place_of(self, site: LaunchSite, lost: _Lost) -> tuple[int, int]:
        """Return the offsets of what a finding is about: the command that decides in the line, or the launch."""
        node = self.command(site)
        sign = self._background_sign(node) if lost.how in ("wait", "background") else None
        if sign is not None:
            return sign.start_byte, sign.end_byte
        start, end = lost.at
        if lost.how not in ("pipe", "misread", "ignored", "trap"):
            start, end = node.start_byte, node.end_byte
        return start, start + len(self.source.text[start:end].split(None, 1)[0])

    def _background_sign(self, node: Any) -> Any:
        """Return the ``&`` behind a command, or None if it stands in the line of a here-document."""
        while node.parent is not None and node.parent.type not in (*_BODIES, *_LOOPS):
            node = node.parent
        return node.next_sibling if node.next_sibling is not None and node.next_sibling.type == "&" else None

    def edit(self, options: str) -> tuple[Edit, ...]:
        """Return the edit that adds a line with ``set`` behind the first line and the directives; none if not bash."""
        lines = self.file.lines
        if self.shell not in _WITH_PIPEFAIL or not lines[0]:
            return ()
        line = 1 if self.shebang is not None else 0
        for number, text in enumerate(lines, 1):
            if text.strip() and not text.startswith("#"):
                break  # a scheduler reads no directive behind the first command
            if _DIRECTIVE.match(text):
                line = number
        if line >= len(lines):
            return ()
        return (Edit(self.file.path, line + 1, 1, line + 1, 1, f"set {options}\n"),)


def _copies_folders(words: Sequence[str]) -> bool:
    """Return whether a command copies what folders hold, whatever that is."""
    option = _COPIES.get(words[0])
    if option is None or not any(map(option.fullmatch, words[1:])):
        return False
    is_archive = words[0] in ("tar", "zip")
    names = [word for word in words[1:] if not word.startswith("-") and not (is_archive and option.fullmatch(word))]
    sources = names[1:] if is_archive else names[:-1]
    return bool(sources) and not any(map(_FILE.search, sources))


def _handles(script: str, end: int) -> bool:
    """Return whether commands behind an offset read the status of what stands before them, other than for a message."""
    others = _KEPT.sub("", _MESSAGE.sub("", script))
    behind = _MESSAGE.sub("", script[end:])
    if any(re.search(rf"\b{match['name']}\b", others) for match in _KEPT.finditer(behind)):
        return True
    return _HANDLES.search(_KEPT.sub("", behind)) is not None


def _function_around(node: Any) -> Any:
    """Return the innermost function that a command is in, or None."""
    while node is not None and node.type != "function_definition":
        node = node.parent
    return node


def _name_of(function: Any) -> str:
    name = function.child_by_field_name("name")
    return "" if name is None else name.text.decode(errors="replace")


def _statements(parent: Any) -> list[Any]:
    """Return the statements of a body, without comments and, of an ``if``, its condition and other arms."""
    skipped = {"comment", "else_clause", "elif_clause", "test_operator"}
    condition = parent.child_by_field_name("condition") if parent.type in _CONDITIONS else None
    return [child for child in parent.named_children if child.type not in skipped and child != condition]


def _statements_behind(node: Any) -> list[Any]:
    return [child for child in _statements(node.parent) if child.start_byte >= node.end_byte]


def _runs_all(loop: Any) -> bool:
    """Return whether a loop, or its body, runs for each of its values: it neither waits for nor repeats a launch."""
    if loop.type == "do_group":
        loop = loop.parent
    return loop.type in ("for_statement", "c_style_for_statement") and _LEAVES.search(loop.text) is None


def _behind_document(statement: Any) -> tuple[str, Any] | None:
    """Return what follows the beginning of a here-document in its line: ``<<'END' || exit``, ``<<'END' | tee log``."""
    document = next((child for child in statement.children if child.type == "heredoc_redirect"), None)
    for child in () if document is None else document.children:
        if child.type in ("||", "&&"):
            return child.type, child.next_sibling
        if child.type == "pipeline":
            return "|", child.named_children[-1]
    return None


def _is_left_alone(node: Any) -> bool:
    """Return whether this shell gets no status of a launch: it is no command of it, or runs on its own."""
    return node is None or _is_detached(node)


def _is_detached(node: Any) -> bool:
    """Return whether a command leaves the launch to a terminal, or to the background of another shell.

    Its status is then not that of the launch: ``tmux new -d``, ``ssh host "nohup torchrun … &"``.
    """
    words = node.text.decode(errors="replace").split()
    if words[0] in ("tmux", "screen"):
        return True
    whole = node.parent if node.parent.type == "redirected_statement" else node
    text = whole.text.decode(errors="replace")
    there = _THERE.search(text)
    if there is None:
        return False
    if _IN_A_TERMINAL.search(text, there.end()):
        return True
    return any(
        (start := _WITHOUT_A_TERMINAL.search(line)) is not None and _BACKGROUND_SIGN.search(line, start.end())
        for line in text[there.end() :].split("\n")
    )


def _is_background(node: Any) -> bool:
    following = node.next_sibling
    return (following is not None and following.type == "&") or any(map(_is_background_sign, _errors_in(node)))


def _is_background_pipe(node: Any) -> bool:
    """Return whether a command stands in a pipe that runs in the background as it is."""
    while node.parent is not None and node.type != "pipeline" and node.parent.type not in (*_BODIES, *_LOOPS):
        node = node.parent
    return node.type == "pipeline" and _is_background(node)


def _drops_remote_status(site: LaunchSite) -> bool:
    """Return whether pdsh or clush starts the launch: without -S, their status is 0 whatever the hosts return."""
    words = [word.text for word in site.words]
    names = [word.rpartition("/")[2] for word in words]
    shell = next((name for name in names if name in _SHELLS_OF_HOSTS and name in site.command.wrappers), None)
    own = None if shell is None else own_words(words[names.index(shell) :], WRAPPERS[shell])
    return own is not None and not any(option == "-S" for option, _ in own.options)


_WHY = {
    "remote": "`{by}` returns 0, whatever the launch returns on the hosts",
    "pipe": "the status of the launch is lost in the pipe: `{by}` decides it",
    "misread": "the `$?` after the launch is the status of `{by}` in its pipe, not that of the launch",
    "ignored": "the status of the launch is dropped by `|| {by}`",
    "behind": "the status of the launch is replaced by that of `{by}` in line {line}",
    "next": "if the launch fails, the script goes on with the launch in line {line}, whose status replaces its own",
    "wait": "the status of the launch is lost: `wait` in line {line} names no process, and succeeds",
    "background": "the launch runs in the background, and no `wait` follows: the script ends at once, with status 0",
    "trap": "the EXIT trap ends with `exit 0`, which replaces the status of the launch in line {launch}",
}
_REMEDY = {
    "misread": "write `set -o pipefail` before it, or read `${{PIPESTATUS[0]}}` of bash instead of `$?`",
    "remote": "give it the option -S: it then returns the largest status of the hosts",
    "ignored": "drop `|| {by}`, or keep the status: `|| status=$?`, and end the script with `exit $status`",
    "behind": "write `status=$?` after the launch, and end the script with `exit $status`",
    "next": "write `|| exit` after the launch, or `set -e` before it",
    "background": 'drop the `&`, or write `wait "$!"` after it',
    "trap": "write `status=$?` as the first command of the handler, and `exit $status` for `exit 0`",
    "wait": 'keep the process ids (`pids+=($!)`), and `for pid in "${{pids[@]}}"; do wait "$pid" || exit 1; done`',
}


def _found(script: _Script, site: LaunchSite, lost: _Lost, every: Sequence[_Lost]) -> Finding:
    node, place = script.command(site), script.place_of(site, lost)
    number = sum(one.how == lost.how for one in every)
    also = f", and that of {number - 1} more launch line{'s' * (number > 2)}" if number > 1 else ""
    result = "the job counts as completed if ranks fail" if script.scheduled else "the script succeeds if ranks fail"
    if lost.how == "background" and script.scheduled:
        result = "the job ends, and the scheduler ends its ranks"
    if lost.how == "next":
        result = "a failure may go unnoticed"
    by = lost.by.replace("`", "'")
    edits: tuple[Edit, ...] = ()
    risk = None
    if lost.how == "pipe" and _is_background_pipe(node):
        # `wait` gets the status of the last command if the pipe has ended before, also with `pipefail`
        remedy = f'write `{{ set -o pipefail; … | {by}; }} &`, and `wait "$!"` after it'
    elif lost.how == "pipe":
        start = script.options_before(len(script.source.text))
        behind = script.scheduled and not start.errexit and _is_replaced(script, site)
        options = "-eo pipefail" if behind else "-o pipefail"
        edits = script.edit(options)
        if script.shell in _WITH_PIPEFAIL:
            remedy = f"write `set {options}` before it"
        else:
            remedy = "run the script with bash, and write `set -o pipefail` before it"
        if edits and (start.errexit or behind):
            risk = "the script then ends at any command or pipe that fails"
    elif lost.how == "behind" and _HANDLES.search(lost.by) is not None:
        remedy = "write `status=$?` after the launch, test `$status` instead, and end the script with `exit $status`"
    else:
        remedy = _REMEDY[lost.how].format(by=by)
    if script.ends_its_document_otherwise(site):
        remedy += "; and begin the here-document with `set -e`"
    return rules.DC813.found(
        f"{_WHY[lost.how].format(by=by, line=lost.line, launch=site.span.line)}{also}; {result}",
        where=script.source.span(*place).where(),
        evidence={"how": lost.how, "by": lost.by, "lines": number},
        # runs that do not depend on each other may stand one after the other on purpose
        severity=Severity.WARNING if script.scheduled and lost.how != "next" else Severity.INFO,
        fix=Fix(remedy, edits=edits, safe=bool(edits) and risk is None, where="job-script", risk=risk),
    )


def _is_replaced(script: _Script, site: LaunchSite) -> bool:
    """Return whether a command behind the pipe of a launch replaces its status as well."""
    node = script.command(site)
    while node.parent is not None and node.parent.type not in (*_BODIES, *_LOOPS):
        node = node.parent
    parent = node.parent
    is_test = parent is not None and parent.type in _CONDITIONS and parent.child_by_field_name("condition") == node
    return parent is not None and not is_test and bool(_statements_behind(node))
