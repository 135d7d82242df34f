"""Shell text: the variables it sets, its scheduler directives, and its launch lines. It is read, never run.

tree-sitter's grammar parses the text. The reader follows the statements as a shell does, with the known variables. Text
for another shell (``bash -c``, ``ssh``, a heredoc) is read with its own locations.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy
from distcheck.launch._wrapper_table import SUBMITTERS
from distcheck.launch.command import parse_command, program_name
from distcheck.launch.schedulers import TASK_STARTERS

from . import slurm
from .fragments import Fragment, FragmentBuilder
from .model import WITHOUT_GRAMMAR, Allocation, FileSetting, LaunchSite, LookUp, Pods, Repeat, Word
from .shell_builtins import BUILTINS, MAX_TEXT_DEPTH, Builtins
from .shell_commands import (
    LAUNCHERS,
    Chain,
    Chunk,
    WrapperCommand,
    folder_of,
    get_through,
    may_start_ranks,
    read_chain,
    read_command,
    settings_on_line,
    starts_ranks,
)
from .shell_flow import EXITS, GOES_ON, Flow
from .shell_grammar import PARSE_LIMIT_S, comments_of, parse, problem_of, unread_of, why_missing, with_plain_line_ends
from .shell_state import (
    ABSENT,
    ARGUMENTS,
    FOLDER,
    Alternative,
    Origin,
    ShellSource,
    ShellVariable,
    SubstitutedText,
    Value,
    WordPart,
    name_of_variable,
    text_of,
)
from .shell_words import MAX_FIELDS, Field, Words, groups, with_origins

__all__ = ["LookUp", "ShellText", "read_shell"]

_MAX_SITES = 2_000
_MAY_START = lazy(
    r"torch|accelerate|deepspeed|python|srun|mpirun|mpiexec|sbatch|salloc|\.py\b|horovod|colossal|ray\b", re.IGNORECASE
)
_FAR = frozenset({"ssh", "pdsh", "clush", "gcloud"})
#: A launcher is among the first words of a command: ``exec env A=1 srun $LAUNCHER``.
_MAX_LAUNCHER_AT = 8
#: A list of hosts without groups (``@x``, ``all``), files (``^x``) or exclusions (``-x``).
_HOSTS = lazy(r"\w[\w.-]*(?:\[[0-9,-]+\][\w.-]*)*(?:,\w[\w.-]*(?:\[[0-9,-]+\][\w.-]*)*)*")


class ShellText(NamedTuple):
    """The contents of a shell text."""

    sites: tuple[LaunchSite, ...] = ()
    #: all variables that it sets, in order, also in sourced files (their span names the file)
    settings: tuple[FileSetting, ...] = ()
    #: the scheduler directives
    allocation: Allocation | None = None
    #: line in the file and text of each comment
    comments: tuple[tuple[int, str], ...] = ()
    #: unreadable parts, with line and column
    problems: tuple[tuple[str, int, int], ...] = ()


def read_shell(
    fragment: Fragment,
    look_up: LookUp,
    *,
    kind: str = "shell",
    environ: Mapping[str, FileSetting] = {},
    pods: Pods | None = None,
) -> ShellText:
    """Return the contents of a shell text. Never raises.

    :param fragment: the text: a whole script, or a part of another file
    :param kind: see ``LaunchSite.kind``; a script with directives of Slurm becomes ``slurm``
    :param environ: variables that the text gets: ENV of an image, env of a pod or workflow. Those with the reach
        ``shell``
        are not exported. They are not among the resulting settings
    :param pods: the pods that run it, for ``LaunchSite.pods``
    """
    missing = why_missing()
    if missing is not None:
        return ShellText(problems=((WITHOUT_GRAMMAR + missing, *fragment.location(0)),))
    source = ShellSource(with_plain_line_ends(fragment))
    allocation = slurm.read_directives(source) if kind in ("shell", "markdown") else None
    if kind == "shell" and allocation is not None and allocation.scheduler == "slurm":
        kind = "slurm"
    reader = _CommandReader(source, look_up, kind, allocation, environ, pods)
    reader.read()
    settings = dict.fromkeys(reader.settings[reader.given :])
    return ShellText(
        tuple(reader.sites),
        tuple(settings),
        allocation,
        tuple(sorted(dict.fromkeys(reader.comments))),
        tuple(dict.fromkeys(reader.problems)),
    )


class _CommandReader(Builtins):
    """Applies single commands to the state, and finds the launch lines."""

    def __init__(
        self,
        source: ShellSource,
        look_up: LookUp,
        kind: str,
        allocation: Allocation | None,
        environ: Mapping[str, FileSetting],
        pods: Pods | None,
    ) -> None:
        super().__init__(source, kind, look_up)
        self.context = self.context._replace(job=allocation)
        self.sites: list[LaunchSite] = []
        self.comments: list[tuple[int, str]] = []
        self._pods = pods
        self._path = source.path
        self._own_name = source.path if kind == "shell" and source.path else None
        self._words: Words | None = None
        #: the exported and the unexported variables at the last launch line
        self._reaching: dict[str, FileSetting] = {}
        self._staying: dict[str, FileSetting] = {}
        #: the tree of the file, if the grammar did not parse all of it
        self._misread: Any = None
        #: the standard input of this text's shell: ssh host 'bash -s' <<EOF
        self._given: ShellSource | None = None
        self.state.set(FOLDER, "")
        for name, setting in environ.items():
            value = None if setting.value is None else (WordPart(setting.value, origins=(_of_setting(setting),)),)
            self.settings.append(setting)
            exported = setting.reach != "shell"
            self.state.set(name, ShellVariable(value, exported=exported, setting=len(self.settings) - 1))
        #: the number of settings that the text got from outside
        self.given = len(self.settings)

    def read(self) -> None:
        source = self.context.source
        self._text_of_shell(source)
        self.call_the_rest()
        if self._misread is not None and not self.problems:
            found = {line for site in self.sites for word in site.words for line in (word.span.line, site.span.line)}
            self.problems.extend(unread_of(self._misread, source, found))

    def words(self) -> Words:
        source = self.context.source
        if self._words is None or self._words.source is not source:
            own_name = None if self.context.inner else self._own_name
            self._words = Words(source, self.state, own_name=own_name, run=self._substituted)
        return self._words

    def _text_of_shell(self, source: ShellSource) -> int:
        root = parse(source.text)
        if root is None:
            text = f"the grammar of the shell took more than {PARSE_LIMIT_S} seconds over it; nothing of it was read"
            self.problems.append((text, *source.location(0)))
            return GOES_ON
        if source.path == self._path and "#" in source.text:
            self.comments.extend(comments_of(root, source))
        if root.has_error and self.context.depth == 0 and (problem := problem_of(root, source)) is not None:
            self.problems.append(problem)
        if root.has_error and self.context.depth == 0:
            self._misread = root
        return self.block(root.children) if root.type == "program" else self.statement(root)

    def _substituted(self, node: Any, words: Words) -> None:
        """Run ``$(…)`` in its own shell."""
        if self.context.depth >= MAX_TEXT_DEPTH or not _MAY_START.search(words.text, node.start_byte, node.end_byte):
            return
        self._apart(Flow._children, node)

    # commands

    def command(self, node: Any, stdin: Any = None, more: Sequence[Any] = ()) -> int:
        assignments: list[Any] = []
        rest: list[Any] = []
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment" and not rest:
                assignments.append(child)
            elif kind == "herestring_redirect":
                stdin = child
            elif not kind.endswith("_redirect"):
                rest.append(child)
        rest.extend(more)
        if not rest:
            for child in assignments:
                self.assign(child)
            return GOES_ON
        text = self.context.source.text
        name_node = rest[0]
        name = text[name_node.start_byte : name_node.end_byte]
        if name.isidentifier() or name.isalnum():
            # most commands do not concern training, and their words are not expanded
            known_name = name in BUILTINS or name in ("exec", "eval") or self._is_function(name)
            if not known_name and not may_start_ranks(name):
                for child in assignments:
                    self._set_for_line(child)
                self._substitutions_of(rest, text)
                return GOES_ON
        if (name in ("eval", "exec") or may_start_ranks(name)) and self._by_branch(rest, node, stdin, more):
            return GOES_ON
        if len(rest) > MAX_FIELDS:
            self.problems.append(
                (f"a command has more than {MAX_FIELDS} words; the rest was not read", *self._place(rest[MAX_FIELDS]))
            )
        fields = [field for group in groups(rest[:MAX_FIELDS], text) for field in self.words().fields(group)][
            :MAX_FIELDS
        ]
        if not fields:
            return GOES_ON
        return self._run(fields, assignments, stdin, node)

    def _by_branch(self, words: Sequence[Any], node: Any, stdin: Any, more: Sequence[Any]) -> bool:
        """Read a command once for each launcher that its variable holds by the branch; return whether there is one."""
        text = self.context.source.text
        for word in words[:_MAX_LAUNCHER_AT]:
            name = name_of_variable(text[word.start_byte : word.end_byte])
            found = None if name is None else self.state.variable(name)
            if name is None or found is None or not found.alternatives:
                continue
            outside = self.context
            launchers = [one for one in found.alternatives if _names_a_launcher(one)]
            for one in launchers:
                tests = tuple(test for test in one.conditions if test not in outside.conditions)
                self.context = outside._replace(certain=False, conditions=(*outside.conditions, *tests))
                chosen = found._replace(value=one.value, elements=one.elements, alternatives=())
                self.state.attempt(functools.partial(self._with, name, chosen, node, stdin, more))
                self.context = outside
            return bool(launchers)
        return False

    def _with(self, name: str, variable: ShellVariable, node: Any, stdin: Any, more: Sequence[Any]) -> int:
        self.state.set(name, variable)
        return self.command(node, stdin, more)

    def _place(self, node: Any) -> tuple[int, int]:
        return self.context.source.location(node.start_byte)

    def _substitutions_of(self, nodes: Sequence[Any], text: str) -> None:
        start, end = nodes[0].start_byte, nodes[-1].end_byte
        if ("$(" in (words := text[start:end]) or "`" in words) and _MAY_START.search(text, start, end):
            for group in groups(nodes, text):
                self.words().fields(group)

    def _is_function(self, name: str) -> bool:
        found = self.state.get(("function", name))
        return found is not None and found is not ABSENT

    def _set_for_line(self, node: Any) -> FileSetting:
        """Set ``X=1`` before a command, for that command only."""
        before = self.state.variable(self.name_of(node))
        self.assign(node, exported=True)
        self.state.set(self.name_of(node), ABSENT if before is None else before)
        self.settings[-1] = self.settings[-1]._replace(reach="line")
        return self.settings[-1]

    def _run(self, fields: list[Field], assignments: Sequence[Any], stdin: Any, node: Any) -> int:
        name = fields[0].text
        if fields[0].known:
            if self._is_function(name):
                return self._call(name, fields[1:], assignments)
            if name in BUILTINS:
                return BUILTINS[name](self, fields[1:])
            if name == "eval":
                self._evaluate(fields[1:])
                return GOES_ON
            if name == "exec" and len(fields) == 1:
                return GOES_ON
        if may_start_ranks(name):
            self._launch(fields, assignments, stdin, node)
            return EXITS if name == "exec" and not self.context.background else GOES_ON
        for child in assignments:
            self._set_for_line(child)
        return GOES_ON

    def _call(self, name: str, arguments: Sequence[Field], assignments: Sequence[Any]) -> int:
        before: dict[str, ShellVariable | None] = {}
        for child in assignments:
            variable = self.name_of(child)
            before.setdefault(variable, self.state.variable(variable))
            self.assign(child, exported=True)
            self.settings[-1] = self.settings[-1]._replace(reach="line")
        source = self.context.source
        open_ended = any(not part.known and part.splits for field in arguments for part in field.parts)
        values = tuple(with_origins(field.parts, source, field.start, field.end) for field in arguments)
        result = self.call(name, None if open_ended and len(arguments) > 1 else values)
        for variable, old in before.items():
            self.state.set(variable, ABSENT if old is None else old)
        return result

    def _evaluate(self, fields: Sequence[Field]) -> None:
        """Run ``eval``: this shell reads its words once more."""
        parts = _joined(fields)
        if parts and self.context.depth < MAX_TEXT_DEPTH and any(part.known for part in parts):
            self.in_text(self._spliced(parts))

    def in_text(self, source: ShellSource) -> int:
        outside = self.context
        self.context = outside._replace(source=source, depth=outside.depth + 1)
        result = self._text_of_shell(source)
        self.context = outside
        return result

    # shells within

    def _spliced(self, parts: Value) -> ShellSource:
        """Return the text that an inner shell reads, with its locations."""
        outer = self.context.source
        made = FragmentBuilder()
        opaque: list[SubstitutedText] = []
        for part in parts:
            if not part.text:
                continue
            inserted = outer.put_in(part.start, part.end)
            if part.exact and part.known and not inserted:
                made.add(outer.fragment.part(part.start, part.end), part.text)
            else:
                origins = part.origins or next((item.origins for item in inserted), ())
                span = outer.span(part.start, part.end)
                opaque.append(SubstitutedText(made.length, made.length + len(part.text), span, origins, part.known))
                made.add_text(part.text, outer.location(part.start))
        return ShellSource(made.fragment(outer.path), opaque)

    def _given_on_stdin(self, node: Any) -> ShellSource | None:
        """Return the text of a heredoc or here-string as the inner shell gets it."""
        if node.type == "herestring_redirect":
            words = [child for child in node.children if child.is_named]
            return self._spliced(self.words().value(words)) if words else None
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        if body is None or start is None:
            return None
        outer = self.context.source
        if any(character in outer.text[start.start_byte : start.end_byte] for character in "'\"\\"):
            return self._spliced(
                (
                    WordPart(
                        outer.text[body.start_byte : body.end_byte], True, False, body.start_byte, body.end_byte, True
                    ),
                )
            )
        return self._spliced(self.words().body(body))

    @property
    def for_each_task(self) -> bool:
        return any(step.program in TASK_STARTERS or step.program in _FAR for step in self.context.steps)

    def _launch(self, fields: list[Field], assignments: Sequence[Any], stdin: Any, node: Any) -> None:
        """Handle a command that may be, or contain, a launch line."""
        source = self.context.source
        chain = read_chain([field.text for field in fields])
        inside = self.for_each_task
        words = [self._assignment_word(child) for child in assignments]
        shift = len(words)
        words.extend(field.word(source, inside) for field in fields)
        inner: ShellSource | None = None
        given = None if stdin is None else self._given_on_stdin(stdin)
        if chain.kind == "text":
            text = fields[chain.position :] if chain.to_end else fields[chain.position : chain.position + 1]
            inner = self._spliced(_without_option(_joined(text)))
        elif chain.kind == "stdin":
            inner = self._given if given is None else given
        if inner is not None and self.context.depth < MAX_TEXT_DEPTH:
            count = len(self.sites)
            arguments = fields[chain.position + 2 :] if chain.kind == "text" and not chain.to_end else []
            outer_given = self._given
            self._given = given if chain.kind == "text" else None
            self._within(inner, chain, words, shift, arguments)
            self._given = outer_given
            if len(self.sites) > count:
                return
        if _only_submits(chain):
            return
        self._site(words, shift, chain, node)

    def _assignment_word(self, node: Any) -> Word:
        source = self.context.source
        self._set_for_line(node)
        self.settings.pop()
        name = self.name_of(node)
        value = self.words().value(node.children[2:]) if node.children[2:] and node.children[2].type != "array" else ()
        start = node.start_byte
        return Field((WordPart(f"{name}=", start=start), *value), start, node.end_byte).word(source, self.for_each_task)

    def _within(
        self, inner: ShellSource, chain: Chain, words: list[Word], shift: int, arguments: Sequence[Field]
    ) -> None:
        """Read the text of an inner shell."""
        outside = self.context
        before = words[: shift + chain.before]
        last = chain.steps[-1] if chain.steps else None
        submitter = last.program if last is not None and last.program in SUBMITTERS else None
        elsewhere = bool(chain.steps) and chain.steps[-1].program in ("su", "gcloud", "tmux") and not chain.joined
        job, step, repeats = self._allocations(chain.steps, words, shift)
        if last is not None and submitter is not None:
            job = step = slurm.read_directives(inner, submitter, words[shift + last.start :])
        line = settings_on_line(
            before, parse_command([*(word.text for word in before), "true"]).assignments, certain=outside.certain
        )

        def run() -> int:
            self._enter(chain.steps, line)
            self.state.set(ARGUMENTS, tuple(field.parts for field in arguments) if arguments else None)
            return self.in_text(inner)

        self.context = outside._replace(
            chunks=outside.chunks
            if submitter or elsewhere or not before
            else (*outside.chunks, Chunk(tuple(before), chain.joined)),
            steps=(*outside.steps, *chain.steps),
            around=(*outside.around, submitter) if submitter else outside.around,
            job=job,
            step=step,
            # each round of a loop submits another job
            repeats=() if submitter else repeats,
            background=outside.background or (bool(chain.steps) and chain.steps[-1].program == "tmux"),
            kind="slurm" if submitter == "sbatch" else outside.kind,
            inner=True,
        )
        self.state.attempt(run)
        self.context = outside

    def _enter(self, steps: Sequence[WrapperCommand], line: Sequence[FileSetting]) -> None:
        """Start a new shell: it has the exported variables, and those of its command line."""
        reaching: dict[str, FileSetting] = {}
        withheld = dict(self.context.withheld)
        for name, variable in self.state.variables():
            if variable.exported:
                if variable.setting >= 0:
                    reaching[name] = self._in_force(variable)
            else:
                if variable.setting >= 0 and variable.present:
                    withheld[name] = self._in_force(variable)
                self.state.set(name, ABSENT)
        kept = dict(self.context.kept)
        for step in steps:
            reaching, cut = get_through(step, reaching)
            for name, setting in cut.items():
                kept[name] = setting
                self.state.set(name, ABSENT)
            self.state.set(FOLDER, folder_of(step, self.state.get(FOLDER)))
        for setting in line:
            value = None if setting.value is None else (WordPart(setting.value, origins=(_of_setting(setting),)),)
            self.settings.append(setting)
            withheld.pop(setting.name, None)
            self.state.set(setting.name, ShellVariable(value, exported=True, setting=len(self.settings) - 1))
        self.context = self.context._replace(withheld=withheld, kept=kept)

    def _allocations(
        self, steps: Sequence[WrapperCommand], words: Sequence[Word], shift: int
    ) -> tuple[Allocation | None, Allocation | None, tuple[Repeat, ...]]:
        """Return the allocations of job and step from the programs in front, and the repeats for a list of hosts."""
        job, current, repeats = self.context.job, self.context.step, self.context.repeats
        for step in steps:
            own = words[shift + step.start : shift + step.end]
            if step.program == "srun":
                current = slurm.step_of(job, own)
            elif step.program in ("salloc", "sbatch"):
                job = current = slurm.requested_allocation(own, step.program)
            elif step.program in ("pdsh", "clush"):
                repeats = (*repeats, Repeat("hosts", _hosts_named(step), own[0].span))
        return job, current, repeats

    # launch lines

    def _in_force(self, variable: ShellVariable) -> FileSetting:
        setting = self.settings[variable.setting]
        if setting.value is not None and text_of(variable.value) != setting.value and not variable.perhaps:
            return setting._replace(value=None)
        return setting

    def _variables_here(self) -> tuple[dict[str, FileSetting], dict[str, FileSetting]]:
        """Return the variables that a command here gets, and those that only the shells around it have."""
        for name, variable in self.state.changed():
            self._reaching.pop(name, None)
            self._staying.pop(name, None)
            if variable is not None and variable.present and variable.setting >= 0:
                (self._reaching if variable.exported else self._staying)[name] = self._in_force(variable)
        settings = {**self.context.kept, **self._reaching}
        withheld = {name: setting for name, setting in self.context.withheld.items() if name not in self._reaching}
        return settings, {**withheld, **self._staying}

    def _site(self, words: list[Word], shift: int, chain: Chain, node: Any) -> None:
        context = self.context
        command = read_command(context.chunks, words, self._defaults())
        if not starts_ranks(command, chain.steps):
            for setting in settings_on_line(words[:shift], command.assignments, certain=context.certain):
                self.settings.append(setting)
            return
        if context.around:
            command = command._replace(wrappers=(*context.around, *command.wrappers))
        settings, unexported = self._variables_here()
        count = len(words) - len(command.script_args)
        for setting in settings_on_line(words[: max(count, 0)], command.assignments, certain=context.certain):
            self.settings.append(setting)
            settings[setting.name] = setting
            unexported.pop(setting.name, None)
        job, step, repeats = self._allocations(chain.steps, words, shift)
        folder = self.state.get(FOLDER)
        for outer in chain.steps:
            folder = folder_of(outer, folder)
        all_words = (*(word for chunk in context.chunks for word in chunk.words), *words)
        site = LaunchSite(
            command=command,
            words=all_words,
            span=context.source.span(node.start_byte, node.end_byte),
            kind=context.kind,
            settings=settings,
            unexported=unexported,
            allocation=step or job,
            job=job,
            pods=self._pods,
            repeats=repeats,
            conditions=context.conditions,
            background=context.background,
            folder=folder,
            routine=context.routine,
        )
        if len(self.sites) >= _MAX_SITES:
            text = f"more than {_MAX_SITES} launch lines: the rest was not read"
            self.problems.append((text, site.span.line, site.span.column))
            self.is_full = True
            return
        if site not in self.sites[-16:]:
            self.sites.append(site)

    def _defaults(self) -> dict[str, str]:
        """Return the variables that are defaults of torchrun's options."""
        found = {}
        for name, variable in self.state.variables():
            if name.startswith("PET_") and variable.exported and variable.present:
                found[name] = text_of(variable.value)
        return {name: f"${name}" if value is None else value for name, value in found.items()}


def _only_submits(chain: Chain) -> bool:
    """Return whether a command hands a script, or its input, to a scheduler."""
    return chain.kind in ("stdin", "nothing") and any(step.program in SUBMITTERS for step in chain.steps)


def _names_a_launcher(one: Alternative) -> bool:
    """Return whether a value names a launcher, or a program that starts one."""
    values = one.elements if one.elements is not None else (one.value or (),)
    names = [program_name(word) for value in values for word in "".join(part.text for part in value).split()]
    # python -m torch.distributed.run
    return any(name in LAUNCHERS or name in TASK_STARTERS or name.startswith("torch.distributed.") for name in names)


def _of_setting(setting: FileSetting) -> Origin:
    return Origin(None, fixed=setting.value_span or setting.span)


def _joined(fields: Sequence[Field]) -> Value:
    """Return the words as one text."""
    parts: list[WordPart] = []
    for index, field in enumerate(fields):
        if index:
            parts.append(WordPart(" ", start=field.start, end=field.start))
        parts.extend(field.parts)
    return tuple(parts)


def _without_option(parts: Value) -> Value:
    """Return the text after ``--wrap=`` or ``--command=``."""
    if parts and (match := re.match(r"--(?:wrap|command)=", parts[0].text)):
        first = parts[0]
        cut = first._replace(text=first.text[match.end() :], start=first.start + match.end() * first.exact)
        return (cut, *parts[1:])
    return parts


def _hosts_named(step: WrapperCommand) -> int | None:
    """Return the number of hosts for pdsh or clush, or None for a group, a file or an exclusion."""
    from distcheck.launch.schedulers import expand_hostlist

    given = [value for option, value in step.options if option == "-w"]
    others = any(option in ("-x", "-g", "-X") for option, _ in step.options)
    if len(given) != 1 or others or not _HOSTS.fullmatch(given[0]):
        return None
    try:
        count = len(set(expand_hostlist(given[0])))
    except ValueError:
        return None
    # a single name may be that of a group
    return count if count > 1 else None
