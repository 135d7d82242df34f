"""The control flow of a shell text: lists, tests, cases, loops, functions and subshells.

If a test is undecided, all its branches are read. A loop's body is read once, a function at each call. ``shell.py``
handles single commands.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy

from .model import Allocation, FileSetting, Repeat
from .shell_commands import Chunk, WrapperCommand
from .shell_expressions import MAX_NUMBERS
from .shell_state import ABSENT, ARGUMENTS, ShellSource, ShellVariable, State, Value, WordPart
from .shell_tests import HOSTS, RANKS, is_test, names_a_host, verdict_of, what_is_repeated
from .shell_words import Field, Words, groups

#: The result of a statement: the next one follows, or a loop, a function or the shell ends.
GOES_ON, LEAVES_LOOP, RETURNS, FAILS, EXITS = range(5)

#: Limits of nested statements, well below Python's own limit, and of all statements.
MAX_DEPTH = 60
MAX_STATEMENTS = 400_000
#: Limits of nested calls of functions, and of all calls.
MAX_CALL_DEPTH = 12
MAX_CALLS = 2_000
_MAX_CONDITION_LENGTH = 200
_MAX_BODY_LENGTH = 20_000

_ASSIGNED = lazy(
    r"(?<![\w$-])([A-Za-z_]\w*)(?:\[[^\]\n]*\])?(\+=|=(?!=)|\+\+|--|-=|\*=)(?:\(?\"?\$\{?(\w+)(?:\[@\])?\}?)?"
)
_READ = lazy(r"\b(?:read|mapfile|readarray|getopts\s+\S+)\s+((?:-\w+\s+)*)([A-Za-z_]\w*(?:[ \t]+[A-Za-z_]\w*)*)")
_DISTINGUISHES_NODES = lazy(
    r"(?i)rank|procid|localid|node|host|machine|worker|index|uname|(?:\b|_)(?:ip|id)(?:\b|_)|addr"
)
_GAPS = lazy(r"\s+")


class Context(NamedTuple):
    """The context of a statement."""

    source: ShellSource
    #: it always runs
    certain: bool = True
    conditions: tuple[str, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    background: bool = False
    routine: str | None = None
    #: words of the shells around this one, before what is started here
    chunks: tuple[Chunk, ...] = ()
    steps: tuple[WrapperCommand, ...] = ()
    #: programs around this text that are not among its words: ``sbatch``
    around: tuple[str, ...] = ()
    job: Allocation | None = None
    step: Allocation | None = None
    kind: str = "shell"
    #: the depth of nested shells and files
    depth: int = 0
    #: an inner shell reads it
    inner: bool = False
    #: variables of the outer shells: unexported ones, and exported ones that a program in between drops
    withheld: Mapping[str, FileSetting] = {}
    kept: Mapping[str, FileSetting] = {}


class Flow(ABC):
    """Follows the statements of a text."""

    def __init__(self, source: ShellSource, kind: str) -> None:
        self.state = State()
        self.context = Context(source, kind=kind)
        self.problems: list[tuple[str, int, int]] = []
        self._nesting = 0
        self._statements = 0
        #: a limit was reached: the rest is skipped
        self.is_full = False
        self._calls = 0
        self._call_depth = 0
        self._called: set[str] = set()
        #: variables of the running functions, as they were before
        self._locals: list[dict[str, Any]] = []

    @abstractmethod
    def command(self, node: Any, stdin: Any = None, more: Sequence[Any] = ()) -> int:
        """Run a simple command with a heredoc or here-string; ``more`` are its words after a redirection."""

    @abstractmethod
    def declaration(self, node: Any) -> int:
        """Run ``export``, ``declare``, ``local`` and similar."""

    @abstractmethod
    def unset(self, node: Any) -> int:
        """Run ``unset``."""

    @abstractmethod
    def assignment(self, node: Any) -> int:
        """Run ``X=1`` on its own line."""

    @abstractmethod
    def words(self) -> Words:
        """Return the words of the current text."""

    # statements

    def block(self, nodes: Sequence[Any]) -> int:
        """Run statements one after another."""
        handlers = _HANDLERS
        for index, node in enumerate(nodes):
            handler = handlers.get(node.type)
            if handler is None:
                continue
            after = nodes[index + 1] if index + 1 < len(nodes) else None
            if after is not None and after.type == "&":
                outside = self.context
                self.context = outside._replace(background=True)
                self._apart(handler, node)
                self.context = outside
                continue
            result = self._go(handler, node)
            if result != GOES_ON:
                return result
        return GOES_ON

    def statement(self, node: Any) -> int:
        """Run one statement; tokens and comments are skipped."""
        handler = _HANDLERS.get(node.type)
        return GOES_ON if handler is None else self._go(handler, node)

    def _go(self, handler: Callable[..., int], node: Any) -> int:
        self._statements += 1
        if self.is_full:
            return GOES_ON
        if self._nesting >= MAX_DEPTH or self._statements > MAX_STATEMENTS:
            self._give_up(node)
            return GOES_ON
        self._nesting += 1
        try:
            return handler(self, node)
        finally:
            self._nesting -= 1

    def _give_up(self, node: Any) -> None:
        deep = self._nesting >= MAX_DEPTH
        text = (
            f"statements are nested more than {MAX_DEPTH} deep; what stands deeper was not read"
            if deep
            else f"the script has more than {MAX_STATEMENTS} statements to go through; the rest was not read"
        )
        self.is_full = not deep
        if not any(problem[0] == text for problem in self.problems):
            self.problems.append((text, *self.context.source.location(node.start_byte)))

    def _children(self, node: Any) -> int:
        return self.block(node.children)

    def _compound(self, node: Any) -> int:
        children = node.children
        if children and children[0].type == "((":
            self._forget_assigned(node)
            return GOES_ON
        return self.block(children)

    def _apart(self, handler: Callable[..., int], node: Any) -> None:
        """Run it in a subshell: its variables are dropped afterwards."""
        outside = self.context
        self.state.attempt(lambda: self._go(handler, node))
        self.context = outside

    def _subshell(self, node: Any) -> int:
        outside = self.context
        self.state.attempt(lambda: self.block(node.children))
        self.context = outside
        return GOES_ON

    def _error(self, node: Any) -> int:
        """Run the statements in a syntax error; they decide nothing."""
        outside = self.context
        self.block(node.children)
        self.context = outside
        return GOES_ON

    def _redirected(self, node: Any) -> int:
        body = node.child_by_field_name("body")
        stdin = None
        more: list[Any] = []
        for child in node.children:
            if child.type in ("heredoc_redirect", "herestring_redirect"):
                stdin = child
            if child.type == "file_redirect":
                # the grammar treats words after a redirection as further targets
                more.extend(
                    [inner for inner in child.children if inner.is_named and inner.type != "file_descriptor"][1:]
                )
            elif child.type == "heredoc_redirect":
                more.extend(inner for inner in child.children if inner.type in _WORDS)
        pipe = _piped_from(stdin) if stdin is not None else None
        if pipe is not None:
            # cat <<EOF | sbatch: the grammar puts the pipe's target into the heredoc
            target = pipe
            text = "cat" if body is None else self.context.source.text[body.start_byte : body.end_byte]
            if text.split()[:1] == ["cat"]:
                if target.type == "redirected_statement":
                    target = target.child_by_field_name("body") or target
                if target.type == "pipeline":
                    target = next((child for child in target.children if child.is_named), target)
                return self._with_stdin(target, stdin)
            self.statement(target)
        if body is None:
            return GOES_ON
        if more and body.type == "command":
            return self._go(lambda flow, command: flow.command(command, stdin, more), body)
        return self._with_stdin(body, stdin) if stdin is not None else self.statement(body)

    def _with_stdin(self, node: Any, stdin: Any) -> int:
        if node.type == "command":
            return self._go(lambda flow, body: flow.command(body, stdin), node)
        children = [child for child in node.children if child.type in _HANDLERS]
        if node.type in ("list", "pipeline", "negated_command") and children:
            # the redirection belongs to the last command of the list
            for child in children[:-1]:
                if self.statement(child) in (FAILS, EXITS):
                    return GOES_ON
            return self._with_stdin(children[-1], stdin)
        return self.statement(node)

    def _pipeline(self, node: Any) -> int:
        parts = [child for child in node.children if child.is_named and child.type != "comment"]
        result = GOES_ON
        for index, part in enumerate(parts):
            if index == 0:
                result = self.statement(part)
                if len(parts) > 1 and part.type == "command":
                    result = GOES_ON
                continue
            handler = _HANDLERS.get(part.type)
            if handler is not None:
                self._apart(handler, part)
        return result

    def _negated(self, node: Any) -> int:
        for child in node.children:
            self.statement(child)
        return GOES_ON

    def _list(self, node: Any) -> int:
        """``a && b || c``."""
        after: list[tuple[str, Any]] = []
        while node.type == "list":
            children = [child for child in node.children if child.type != "comment"]
            if len(children) < 3:
                return self.block(node.children)
            after.append((children[1].type, children[2]))
            node = children[0]
        after.reverse()
        first = last = node
        result = self.statement(first)
        verdict = verdict_of(self.words(), first)
        text = self.context.source.text
        is_a_test = is_test(first, text)
        index = 0
        while index < len(after):
            operator, right = after[index]
            index += 1
            if result != GOES_ON:
                return result
            tested_to, last = last, right
            if (verdict is not None and verdict != (operator == "&&")) or right.type not in _HANDLERS:
                continue
            if verdict is not None or (operator == "&&" and not is_a_test):
                # cd there && torchrun: continues if all succeeds
                result = self.statement(right)
                verdict = True if verdict and right.type in ("variable_assignment", "declaration_command") else None
                is_a_test = is_a_test or is_test(right, text)
                continue
            branch = [right]
            while operator == "&&" and index < len(after) and after[index][0] == "&&":
                last = after[index][1]
                branch.append(last)
                index += 1
            tested = self._text(first, tested_to)
            condition = tested if operator == "&&" else f"! {tested}"
            changes, ended = self._branch(branch, condition)
            self._merge([changes] if ended == GOES_ON else [], otherwise=True)
            if ended in (EXITS, RETURNS) and is_a_test:
                self._add_condition(f"! {tested}" if operator == "&&" else tested)
        return result

    def _branch(self, nodes: Sequence[Any], *conditions: str) -> tuple[Mapping[Any, Any], int]:
        """Run a branch that is not always taken; return its changes, with the state as before."""
        outside = self.context
        self.context = outside._replace(certain=False, conditions=(*outside.conditions, *filter(None, conditions)))
        changes, result = self.state.attempt(lambda: self.block(nodes))
        self.context = outside
        return changes, result

    def _merge(self, branches: list[Mapping[Any, Any]], *, otherwise: bool) -> None:
        if otherwise:
            branches = [{}, *branches]
        if branches:
            self.state.merge([dict(branch) for branch in branches])

    def _add_condition(self, condition: str) -> None:
        """Add a condition to the rest of the function, branch or shell, if it distinguishes ranks or hosts."""
        if _DISTINGUISHES_NODES.search(condition) and condition not in self.context.conditions:
            self.context = self.context._replace(conditions=(*self.context.conditions, condition))

    def _text(self, *nodes: Any) -> str:
        start, end = nodes[0].start_byte, nodes[-1].end_byte
        text = self.context.source.text[start : min(end, start + 4 * _MAX_CONDITION_LENGTH)]
        return _GAPS.sub(" ", text).strip()[:_MAX_CONDITION_LENGTH]

    def _body(self, nodes: Sequence[Any]) -> str:
        """Return the text of a loop's body, or its beginning."""
        if not nodes:
            return ""
        start, end = nodes[0].start_byte, nodes[-1].end_byte
        return self.context.source.text[start : min(end, start + _MAX_BODY_LENGTH)].replace("\\\n", " ")

    # tests

    def _if(self, node: Any) -> int:
        branches: list[Mapping[Any, Any]] = []
        results: list[int] = []
        refused: list[str] = []
        outside = self.context
        clauses: list[tuple[list[Any], list[Any]]] = []
        tests: list[Any] = []
        body: list[Any] = []
        otherwise: list[Any] | None = None
        in_tests = True
        for child in node.children:
            kind = child.type
            if kind == "then":
                in_tests = False
            elif kind == "elif_clause":
                at = next((i for i, inner in enumerate(child.children) if inner.type == "then"), len(child.children))
                clauses.append((child.children[1:at], child.children[at + 1 :]))
            elif kind == "else_clause":
                otherwise = child.children[1:]
            elif kind not in ("if", "fi", "comment"):
                (tests if in_tests else body).append(child)
        clauses.insert(0, (tests, body))
        for tests, body in clauses:
            named = [test for test in tests if test.is_named]
            self.block(tests)
            verdict = verdict_of(self.words(), named[0]) if len(named) == 1 else None
            if verdict is False:
                continue
            if verdict is True:
                otherwise = body
                break
            text = self._text(*named) if named else ""
            changes, result = self._branch(body, *refused, text)
            results.append(result)
            if result == GOES_ON:
                branches.append(changes)
            elif result in (EXITS, RETURNS) and text:
                self._add_condition("! " + text)
            if text:
                refused.append("! " + text)
        else:
            if otherwise is None:
                self._merge(branches, otherwise=True)
                return GOES_ON
        if not results:
            # decided by known values
            return self.block(otherwise)
        kept = self.context
        self.context = outside
        changes, result = self._branch(otherwise, *refused)
        self.context = kept
        results.append(result)
        if result == GOES_ON:
            branches.append(changes)
        elif result in (EXITS, RETURNS) and len(refused) == 1:
            self._add_condition(refused[0].removeprefix("! "))
        if not branches:
            return min(results)
        self._merge(branches, otherwise=False)
        return GOES_ON

    def _case(self, node: Any) -> int:
        subject = node.child_by_field_name("value")
        known = self.words().known(subject) if subject is not None else None
        text = self._text(subject) if subject is not None else ""
        branches: list[Mapping[Any, Any]] = []
        results: list[int] = []
        everything = False
        for item in node.children:
            if item.type != "case_item":
                continue
            children = item.children
            at = next((i for i, child in enumerate(children) if child.type == ")"), len(children))
            patterns = [child for child in children[:at] if child.is_named]
            shown = "|".join(self._text(pattern) for pattern in patterns)
            if known is not None and all(pattern.type in ("word", "number", "extglob_pattern") for pattern in patterns):
                if not any(fnmatchcase(known, self._text(pattern)) for pattern in patterns):
                    continue
                if not branches and not results:
                    return self.block(children[at + 1 :])
            changes, result = self._branch(children[at + 1 :], f"case {text} in {shown}")
            results.append(result)
            if result == GOES_ON:
                branches.append(changes)
            if shown == "*":
                everything = True
        if everything and not branches and results:
            return min(results)
        self._merge(branches, otherwise=not everything)
        return GOES_ON

    # loops

    def _for(self, node: Any) -> int:
        text = self.context.source.text
        children = node.children
        name = node.child_by_field_name("variable")
        at = next((i for i, child in enumerate(children) if child.type == "in"), None)
        values: list[Field] | None = None
        written = ""
        if at is not None:
            listed = [
                c
                for c in children[at + 1 :]
                if c.is_named and c.type not in ("do_group", "comment", "compound_statement")
            ]
            written = text[listed[0].start_byte : listed[-1].end_byte] if listed else ""
            values = [field for group in groups(listed, text) for field in self._numbers(group)]
        if children[0].type == "select":
            values = None
        if values is not None and not (all(field.known for field in values) and not re.search(r"[*?\[]", written)):
            values = None
        variable = text[name.start_byte : name.end_byte] if name is not None else None
        if values is not None and not values:
            return GOES_ON
        body = [child for child in children if child.type in ("do_group", "compound_statement")]
        what = what_is_repeated(variable or "", [field.text for field in values or ()], written, self._body(body))
        repeat = Repeat(what, None if values is None else len(values), self._span(node), variable)
        value: Value | None = values[0].parts if values and len(values) == 1 else None
        return self._loop(node, body, repeat, variable, value)

    def _numbers(self, group: Sequence[Any]) -> list[Field]:
        """Return the fields of a word, with ``{0..3}`` expanded."""
        start, end = group[0].start_byte, group[-1].end_byte
        match = re.fullmatch(r"\{(-?\d{1,6})\.\.(-?\d{1,6})(?:\.\.(\d{1,6}))?\}", self.context.source.text[start:end])
        if match is None:
            return self.words().fields(group)
        first, last, step = int(match[1]), int(match[2]), max(int(match[3] or 1), 1)
        if abs(last - first) // step >= MAX_NUMBERS:
            return [Field((WordPart(match[0], False),), start, end)]
        numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
        return [Field((WordPart(str(number)),), start, end) for number in numbers]

    def _counted(self, node: Any) -> int:
        """``for ((i = 0; i < 4; i++))``."""
        text = self.context.source.text
        body = [child for child in node.children if child.type in ("do_group", "compound_statement")]
        head = text[node.start_byte : body[0].start_byte if body else node.end_byte]
        match = re.search(
            r"\(\(\s*(\w+)\s*=\s*(\S+?)\s*;\s*\1\s*(<=?)\s*([^;]+?)\s*;\s*(?:\1\+\+|\+\+\1|\1\s*\+=\s*1)\s*\)\)", head
        )
        times = variable = None
        if match:
            variable = match[1]
            first, last = self.words().arithmetic(match[2]), self.words().arithmetic(match[4])
            if first is not None and last is not None:
                times = max(last - first + (match[3] == "<="), 0)
        if times == 0:
            return GOES_ON
        what = "ranks" if variable and RANKS.search(variable) else "loop"
        if variable and names_a_host(variable, self._body(body)):
            what = "hosts"
        return self._loop(node, body, Repeat(what, times, self._span(node), variable), variable, None)

    def _while(self, node: Any) -> int:
        children = node.children
        at = next((i for i, child in enumerate(children) if child.type == "do_group"), len(children))
        tests = [child for child in children[1:at] if child.is_named]
        if len(tests) == 1 and children[0].type == "while" and verdict_of(self.words(), tests[0]) is False:
            return GOES_ON
        what, variable = "loop", None
        test = self._text(*tests) if tests else ""
        match = re.match(r"(?:IFS=\S*\s+)?read\s+(?:-\w+\s+)*(\w+)", test)
        if match and (HOSTS.search(match[1]) or names_a_host(match[1], self._body(children[at:]))):
            what, variable = "hosts", match[1]
        return self._loop(
            node, [*children[1:at], *children[at:]], Repeat(what, None, self._span(node), variable), None, None
        )

    def _loop(self, node: Any, body: Sequence[Any], repeat: Repeat, variable: str | None, value: Value | None) -> int:
        outside = self.context
        self._forget_assigned(node)
        if variable is not None:
            old = self.state.variable(variable)
            self.state.set(
                variable, ShellVariable(value, exported=bool(old and old.exported), setting=old.setting if old else -1)
            )
        self.context = outside._replace(
            certain=False,
            repeats=outside.repeats if repeat.times == 1 else (*outside.repeats, repeat),
        )
        changes, result = self.state.attempt(lambda: self.block(body))
        self.context = outside
        self._merge([changes] if result in (GOES_ON, LEAVES_LOOP) else [], otherwise=True)
        return GOES_ON

    def _forget_assigned(self, node: Any) -> None:
        """Make what a loop's body assigns unknown at its beginning: it may be a later iteration."""
        text = self.context.source.text[node.start_byte : node.end_byte]
        added: dict[str, bool] = {}
        for match in _ASSIGNED.finditer(text):
            adds = match[2] == "+=" or match[3] == match[1]
            added[match[1]] = added.get(match[1], True) and adds
        for match in _READ.finditer(text):
            added.update(dict.fromkeys(match[2].split(), False))
        for name, only_added in added.items():
            old = self.state.variable(name)
            if old is None:
                continue
            value = elements = None
            if only_added and old.elements is not None:
                elements = (*old.elements, (WordPart(f"${{{name}[@]}}", known=False, splits=True),))
            elif only_added and old.value:
                value = (*old.value, WordPart(f"${name}", known=False, splits=True))
            self.state.set(
                name, old._replace(value=value, elements=elements, present=True, perhaps=old.perhaps or not old.present)
            )

    def _span(self, node: Any) -> Any:
        source = self.context.source
        end = source.text.find("\n", node.start_byte, node.end_byte)
        return source.span(node.start_byte, end if end > 0 else node.end_byte)

    # functions

    def _function(self, node: Any) -> int:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name is not None and body is not None:
            text = self.context.source.text[name.start_byte : name.end_byte]
            self.state.set(("function", text), (body, self.context.source))
        return GOES_ON

    def call(self, name: str, arguments: tuple[Value, ...] | None) -> int:
        """Run a function at its call."""
        self._called.add(name)
        self._calls += 1
        if self._call_depth >= MAX_CALL_DEPTH or self._calls > MAX_CALLS:
            return GOES_ON
        body, source = self.state.get(("function", name))
        outside = self.context
        before = self.state.get(ARGUMENTS)
        self.context = outside._replace(source=source, routine=name)
        self.state.set(ARGUMENTS, arguments)
        self._locals.append({})
        self._call_depth += 1
        try:
            result = self.statement(body)
        finally:
            self._call_depth -= 1
            for local, old in self._locals.pop().items():
                self.state.set(local, old)
            self.state.set(ARGUMENTS, before)
            self.context = outside
        return result if result in (FAILS, EXITS) else GOES_ON

    def make_local(self, name: str) -> None:
        """Save a variable's value from outside the function."""
        if self._locals and name not in self._locals[-1]:
            old = self.state.variable(name)
            self._locals[-1][name] = ABSENT if old is None else old

    def call_the_rest(self) -> None:
        """Run the functions that nothing here calls: another file may call them."""
        outside = self.context
        for key in self.state.functions():
            if key[1] not in self._called:
                self.context = outside._replace(certain=False)
                self.state.attempt(lambda key=key: self.call(key[1], None))  # type: ignore[misc]
        self.context = outside


#: Words among the children of a redirection.
_WORDS = frozenset({"word", "number", "string", "raw_string", "concatenation", "simple_expansion", "expansion"})


def _piped_from(node: Any) -> Any:
    """Return the command that the grammar attaches to a heredoc's delimiter, or None."""
    for child in node.children:
        if child.type == "pipeline":
            named = [inner for inner in child.children if inner.is_named]
            return named[0] if named else None
    return None


_HANDLERS: Mapping[str, Callable[[Any, Any], int]] = {
    "program": Flow._children,
    "command": lambda flow, node: flow.command(node),
    "redirected_statement": Flow._redirected,
    "variable_assignment": lambda flow, node: flow.assignment(node),
    "variable_assignments": Flow._children,
    "declaration_command": lambda flow, node: flow.declaration(node),
    "unset_command": lambda flow, node: flow.unset(node),
    "pipeline": Flow._pipeline,
    "list": Flow._list,
    "negated_command": Flow._negated,
    "subshell": Flow._subshell,
    "compound_statement": Flow._compound,
    "do_group": Flow._children,
    "if_statement": Flow._if,
    "case_statement": Flow._case,
    "for_statement": Flow._for,
    "c_style_for_statement": Flow._counted,
    "while_statement": Flow._while,
    "function_definition": Flow._function,
    # outside their statement: in a part with a syntax error
    "elif_clause": Flow._children,
    "else_clause": Flow._children,
    "case_item": Flow._children,
    "ERROR": Flow._error,
}
