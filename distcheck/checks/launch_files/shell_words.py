"""Words of the shell: quotes are removed, known variables replaced, unknown ones stay as written.

A word is a node of the syntax tree and becomes parts with locations. The output of a substitution is known for a few
commands (``dirname``, ``echo``, ``seq``). Nothing is run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy
from distcheck.launch.command import DEFAULT_LAUNCHER, WHICH

from .model import Word
from .shell_expressions import COMPUTED, calculated, changed, computed, unescaped
from .shell_state import (
    ARGUMENTS,
    MAX_VALUE_LENGTH,
    Origin,
    ShellSource,
    ShellVariable,
    State,
    Value,
    WordPart,
    single_origin,
    text_of,
)

_EXPANSION = lazy(
    r"\$\{(?P<sign>[!#]?)(?P<name>[A-Za-z_]\w*|[0-9]+|[@*#?$!-])(?:\[(?P<index>[^\]]*)\])?(?P<rest>.*)\}", re.DOTALL
)
_IN_DOUBLE_QUOTES = frozenset('$`"\\')
#: Limit of fields from one variable.
MAX_FIELDS = 20_000
#: Limit of nested expansions.
_MAX_DEPTH = 20
_MAX_SUBSTITUTION_DEPTH = 5
#: Limit of variables in the chain of origins of a value.
_MAX_ORIGINS = 6
_MAX_PARTS = 300
_ALL_ELEMENTS = lazy(r"\$@|\$\{@\}|\$\{\w+\[@\]\}")
_PLACEHOLDER = lazy(r"<([A-Za-z][\w.-]*)>")
#: The text in place of a template: unknown, also in quotes.
TEMPLATE = lazy(r"\$\{_+\}|\{\{.*?\}\}")
#: The value of a variable that names a program, though the shell knows only which one it is.
_NAMED = rf"{WHICH}|{DEFAULT_LAUNCHER}"


class Field(NamedTuple):
    """A word as a program gets it, in parts, and its range in the text."""

    parts: Value
    start: int
    end: int
    #: other words come from the same range
    shares: bool = False

    @property
    def text(self) -> str:
        return self.parts[0].text if len(self.parts) == 1 else "".join(part.text for part in self.parts)

    @property
    def known(self) -> bool:
        return all(part.known for part in self.parts)

    def by_each_task(self, source: ShellSource, inside: bool) -> bool | None:
        """See ``Word.by_each_task``; ``inside``: the text is read by the shells of several tasks or hosts."""
        unknown = [part for part in self.parts if not part.known]
        if not unknown:
            return None
        if not inside:
            return False
        outer = [source.opaque_at(part.start) for part in unknown] if source.opaque else [None]
        return any(item is None or item.known for item in outer)

    def word(self, source: ShellSource, inside: bool = False) -> Word:
        """Return the word with its location in the file."""
        if not source.opaque and not self.shares:
            used = [part.origins[0] for part in self.parts if part.origins]
            origins = tuple(dict.fromkeys(span for span in (origin.span() for origin in used) if span is not None))
            written = source.text[self.start : self.end]
            return Word(
                self.text, source.span(self.start, self.end), written, origins, self.by_each_task(source, inside)
            )
        used = []
        part_origins: list[tuple[Origin, ...]] = []
        shares = self.shares
        for part in self.parts:
            own = list(part.origins)
            used.extend(part.origins[:1])
            put_in = source.put_in(part.start, part.end) if source.opaque and not own else []
            used.extend(item.origins[0] for item in put_in if item.origins)
            shares = shares or any(source.opaque_at(item.start) not in put_in for item in put_in)
            if put_in and len(put_in) == 1 and (put_in[0].start, put_in[0].end) == (part.start, part.end):
                own.extend(put_in[0].origins)
            elif not own and part.exact:
                own.append(Origin(source, part.start, part.end))
            part_origins.append(tuple(own))
        spans = [origin.span() for origin in used]
        origins = tuple(dict.fromkeys(span for span in spans if span is not None))
        span, written = source.span(self.start, self.end), source.text[self.start : self.end]
        origin = single_origin(part_origins) if shares else None
        if origin is not None and origin.source is not None:
            span, written = origin.source.span(origin.start, origin.end), origin.source.text[origin.start : origin.end]
        return Word(self.text, span, written, origins, self.by_each_task(source, inside))


class _Fields:
    """Fields while they grow."""

    def __init__(self) -> None:
        self.done: list[list[WordPart]] = []
        self.parts: list[WordPart] = []
        #: a field exists, even an empty one: something was quoted
        self.open = False

    def add(self, part: WordPart) -> None:
        if part.text:
            self.parts.append(part)
            self.open = True

    def end(self) -> None:
        if self.open:
            self.done.append(self.parts)
            self.parts = []
            self.open = False


class Words:
    """The words of one text, expanded with the shell's state.

    :param run: called with each command substitution
    """

    def __init__(
        self, source: ShellSource, state: State, *, own_name: str | None, run: Callable[[Any, Words], None]
    ) -> None:
        self.source = source
        self.text = source.text
        self.state = state
        self._own_name = own_name
        self._run = run
        self._deep = 0
        self._substitutions = 0

    # whole words

    def fields(self, nodes: Sequence[Any]) -> list[Field]:
        """Return the fields of one word: usually one, none or several if it is split."""
        if len(nodes) == 1:
            node = nodes[0]
            kind = node.type
            if kind == "command_name" and node.child_count == 1:
                node = node.children[0]
                kind = node.type
            if kind in ("word", "number"):
                start, end = node.start_byte, node.end_byte
                text = self.text[start:end]
                if "\\" not in text and "<" not in text:
                    return [Field((WordPart(text, True, False, start, end, True),), start, end)]
        start, end = nodes[0].start_byte, nodes[-1].end_byte
        if any(node.has_error for node in nodes):
            # a syntax error
            return [Field((WordPart(self.text[start:end], False, False, start, end, True),), start, end)]
        fields = _Fields()
        for node in nodes:
            if node.type != "$":
                self._expand(node, fields, False)
            elif node.end_byte == end:  # else that of $"…"
                self._literal(node.start_byte, end, fields)
        fields.end()
        found = _split(fields.done)
        return [Field(tuple(parts), start, end, len(found) > 1) for parts in found]

    def value(self, nodes: Sequence[Any]) -> Value:
        """Return the right side of an assignment; it is not split."""
        fields = _Fields()
        for node in nodes:
            self._expand(node, fields, True)
        fields.end()
        parts: list[WordPart] = []
        for index, done in enumerate(fields.done):
            if index:
                parts.append(WordPart(" ", True, False))
            parts.extend(done)
        return tuple(parts)

    def body(self, node: Any) -> Value:
        """Return the text of a heredoc with an unquoted delimiter."""
        fields = _Fields()
        self._double_quoted(node, node.start_byte, node.end_byte, fields)
        fields.end()
        return tuple(fields.done[0]) if fields.done else ()

    def known(self, node: Any) -> str | None:
        """Return the text of a word, or None if unknown."""
        return text_of(self.value([node]))

    # nodes

    def _expand(self, node: Any, fields: _Fields, quoted: bool) -> None:
        if self._deep >= _MAX_DEPTH:
            self._unknown_or(None, node, fields, quoted)
            return
        self._deep += 1
        try:
            self._expanded(node, fields, quoted)
        finally:
            self._deep -= 1

    def _expanded(self, node: Any, fields: _Fields, quoted: bool) -> None:
        kind = node.type
        start, end = self._start(node), node.end_byte
        if kind in ("word", "number", "string_content", "heredoc_content", "variable_name", "test_operator"):
            self._literal(start, end, fields)
        elif kind == "raw_string":
            fields.open = True
            known = ("{_" not in (inner := self.text[start:end]) and "{{" not in inner) or TEMPLATE.search(
                self.text, start, end
            ) is None
            fields.add(WordPart(self.text[start + 1 : end - 1], known, False, start + 1, end - 1, known))
        elif kind == "string":
            closed = self.text[end - 1] == '"' and end - start > 1
            # an empty array is no word, even in quotes
            if _ALL_ELEMENTS.fullmatch(self.text, start + 1, end - closed) is None:
                fields.open = True
            self._double_quoted(node, start + 1, end - closed, fields)
        elif kind in ("concatenation", "command_name", "translated_string"):
            position = start
            for child in node.children:
                if child.start_byte > position and kind == "concatenation":
                    self._literal(position, child.start_byte, fields)
                position = child.end_byte
                if child.is_named:
                    self._expand(child, fields, quoted)
                elif child.type != "$":
                    self._literal(child.start_byte, child.end_byte, fields)
        elif kind == "simple_expansion":
            self._put(self.text[start + 1 : end], node, fields, quoted)
        elif kind == "expansion":
            self._expansion(node, fields, quoted)
        elif kind == "command_substitution":
            self._substitution(node, fields, quoted)
        elif kind == "arithmetic_expansion":
            number = None if self._frozen(start) else self.arithmetic(self.text[start:end])
            self._unknown_or(None if number is None else str(number), node, fields, quoted)
        elif kind == "ansi_c_string":
            fields.open = True
            fields.add(WordPart(unescaped(self.text[start + 2 : end - 1]), True, False, start, end))
        elif kind in ("process_substitution", "brace_expression"):
            fields.add(WordPart(self.text[start:end], kind == "brace_expression", False, start, end, True))
        else:
            self._literal(start, end, fields)

    def _literal(self, start: int, end: int, fields: _Fields) -> None:
        """Add unquoted text: a backslash makes the next character literal."""
        text = self.text[start:end]
        if "<" in text and (placeholder := _PLACEHOLDER.fullmatch(text)):
            fields.add(WordPart(f"${{{placeholder[1]}}}", False, False, start, end))
            return
        while "\\" in text:
            at = text.index("\\")
            fields.add(WordPart(text[:at], True, False, start, start + at, True))
            if text[at + 1 : at + 2] not in ("\n", ""):
                fields.open = True
                fields.add(WordPart(text[at + 1], True, False, start + at + 1, start + at + 2, True))
            start += at + 2
            text = text[at + 2 :]
        fields.add(WordPart(text, True, False, start, end, True))

    def _double_quoted(self, node: Any, start: int, end: int, fields: _Fields) -> None:
        position = start
        for child in node.children:
            if child.type in ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"):
                self._in_quotes(position, self._start(child), fields)
                self._expand(child, fields, True)
                position = child.end_byte
        self._in_quotes(position, end, fields)

    def _in_quotes(self, start: int, end: int, fields: _Fields) -> None:
        """Add quoted text: a backslash counts only before some characters."""
        text = self.text[start:end]
        position = 0
        done = 0
        while (position := text.find("\\", position)) >= 0:
            behind = text[position + 1 : position + 2]
            if behind in _IN_DOUBLE_QUOTES or behind == "\n":
                fields.add(WordPart(text[done:position], True, False, start + done, start + position, True))
                done = position + 1 + (behind == "\n")
            position += 2
        fields.add(WordPart(text[done:], True, False, start + done, end, True))

    def _start(self, node: Any) -> int:
        """Return where a node begins: the grammar counts blanks between two expansions in quotes to the second one."""
        if not node.type.endswith(("expansion", "substitution")):
            return int(node.start_byte)
        start, end = node.start_byte, node.end_byte
        while start < end and self.text[start].isspace():
            start += 1
        return int(start)

    # variables

    def _put(self, name: str, node: Any, fields: _Fields, quoted: bool) -> None:
        """Insert the value of ``$NAME``."""
        start, end = self._start(node), node.end_byte
        written = self._written(start, end, quoted)
        if self._frozen(start) or self.text[start] == "<":
            fields.add(written)
        elif name in ("@", "*"):
            self._several(self.state.get(ARGUMENTS), written, fields, quoted, apart=name == "@" or not quoted)
        else:
            value = self.lookup(name)
            if value is None or (len(value) == 1 and not value[0].known and not re.fullmatch(_NAMED, value[0].text)):
                fields.add(written)
            else:
                self._insert(value, written, fields, quoted)

    def _written(self, start: int, end: int, quoted: bool) -> WordPart:
        """Return the part for an unknown value; ``<name>`` of a manual becomes a variable."""
        text = self.text[start:end]
        if text.startswith("<"):
            return WordPart(f"${{{text[1:-1]}}}", False, not quoted, start, end)
        return WordPart(text, False, not quoted, start, end, True)

    def _insert(self, value: Value, origin: WordPart, fields: _Fields, quoted: bool) -> None:
        fields.open = fields.open or quoted
        for part in value:
            fields.add(WordPart(part.text, part.known, not quoted, origin.start, origin.end, False, part.origins))

    def _several(
        self, values: Sequence[Value] | None, origin: WordPart, fields: _Fields, quoted: bool, *, apart: bool
    ) -> None:
        """Insert ``"$@"`` or ``"${X[@]}"`` as one field per element; IFS joins ``"${X[*]}"``."""
        between = " " if apart else self._separator()
        if values is None or between is None or len(values) > MAX_FIELDS:
            fields.add(origin)
            return
        for index, value in enumerate(values):
            if index and apart:
                fields.end()
            elif index:
                fields.add(WordPart(between, True, False, origin.start, origin.end))
            self._insert(value, origin, fields, quoted)
        if not values and quoted and not apart:
            fields.open = True

    def _separator(self) -> str | None:
        """Return the first character of IFS, or None if unknown."""
        given = self.state.variable("IFS")
        if given is None or not given.present:
            return None if given is not None and given.perhaps else " "
        text = None if given.perhaps else text_of(given.value)
        return None if text is None else text[:1]

    def lookup(self, name: str) -> Value | None:
        """Return the value of a variable or argument, or None if unknown."""
        if name.isdigit():
            if name == "0":
                return None if self._own_name is None else (WordPart(self._own_name),)
            arguments = self.state.get(ARGUMENTS)
            if arguments is None:
                return None
            return arguments[int(name) - 1] if int(name) <= len(arguments) else ()
        if name == "#":
            arguments = self.state.get(ARGUMENTS)
            return None if arguments is None else (WordPart(str(len(arguments))),)
        if name == "BASH_SOURCE":
            return (WordPart(self.source.path),) if self.source.path else None
        found = self.state.variable(name)
        if found is None or found.perhaps:
            return None
        if not found.present:
            return ()
        if found.elements is not None:
            return found.elements[0] if found.elements else ()
        return found.value

    def _is_set(self, name: str) -> bool | None:
        if not (name[0].isalpha() or name[0] == "_"):
            value = self.lookup(name)
            return None if value is None else bool(value)
        found: ShellVariable | None = self.state.variable(name)
        if found is None or found.perhaps:
            return None
        return found.present

    def _expansion(self, node: Any, fields: _Fields, quoted: bool) -> None:
        """Insert ``${…}`` if it is known, otherwise as written."""
        start, end = self._start(node), node.end_byte
        written = self._written(start, end, quoted)
        match = _EXPANSION.fullmatch(self.text, start, end)
        if match is None or self._frozen(start) or match["sign"] == "!":
            fields.add(written)
            return
        name, index, rest = match["name"], match["index"], match["rest"]
        if match["sign"] == "#":
            self._unknown_or(self._length(name, index), node, fields, quoted)
            return
        if index in ("@", "*") or name in ("@", "*"):
            if rest:
                fields.add(written)
                return
            values = self.state.get(ARGUMENTS) if name in ("@", "*") else self.elements(name)
            self._several(values, written, fields, quoted, apart="@" in (index, name) or not quoted)
            return
        value = self._element(name, index) if index is not None else self.lookup(name)
        if not rest:
            if index is None:
                self._put(name, node, fields, quoted)
            elif value is None:
                fields.add(written)
            else:
                self._insert(value, written, fields, quoted)
            return
        default = re.match(r":?[-=+?]", rest)
        if default:
            is_set = self._is_set(name) if index is None else (None if value is None else True)
            self._default(node, default[0], value, is_set, written, fields, quoted)
            return
        text = text_of(value)
        if text is not None and not self._holds_expansion(node):
            self._unknown_or(changed(text, rest), node, fields, quoted)
        elif text is None or not self._replaced(text, rest, written, fields, quoted):
            fields.add(written)

    def _default(
        self,
        node: Any,
        operator: str,
        value: Value | None,
        is_set: bool | None,
        written: WordPart,
        fields: _Fields,
        quoted: bool,
    ) -> None:
        text = text_of(value)
        if is_set is None:
            fields.add(written)
            return
        if operator[0] == ":" and is_set:
            # an empty value counts as unset
            if text is None and not (value and any(part.known and part.text.strip() for part in value)):
                fields.add(written)
                return
            is_set = text is None or bool(text)
        if is_set == (operator[-1] == "+"):
            children = node.children
            first = next((index for index, child in enumerate(children) if child.type == operator), None)
            if first is None:
                fields.add(written)
                return
            if operator[-1] == "=":
                assigned = with_origins(
                    self.value(children[first + 1 : -1]), self.source, node.start_byte, node.end_byte
                )
                name = self.text[children[1].start_byte : children[1].end_byte]
                old = self.state.variable(name)
                self.state.set(name, ShellVariable(assigned, exported=bool(old and old.exported)))
            for child in children[first + 1 : -1]:
                self._expand(child, fields, quoted)
        elif is_set:
            if value is None:
                fields.add(written)
            else:
                self._insert(value, written, fields, quoted)

    def _holds_expansion(self, node: Any) -> bool:
        """Return whether the operand of ``${X%…}`` is more than plain text."""
        kinds = ("simple_expansion", "expansion", "command_substitution", "string", "raw_string")
        return any(child.type in kinds for child in node.children[1:])

    def _replaced(self, text: str, rest: str, origin: WordPart, fields: _Fields, quoted: bool) -> bool:
        """Insert ``${X/NODE/$i}`` with an unknown replacement in known text."""
        match = re.fullmatch(r"(//|/)([\w.,:@-]+)/\"?(\$\w+|\$\{\w+\})\"?", rest)
        if match is None or match[2] not in text:
            return False
        for index, piece in enumerate(text.split(match[2], -1 if match[1] == "//" else 1)):
            if index:
                fields.add(WordPart(match[3], False, not quoted, origin.start, origin.end))
            fields.add(WordPart(piece, True, not quoted, origin.start, origin.end))
        return True

    def _length(self, name: str, index: str | None) -> str | None:
        if name in ("@", "*"):
            arguments = self.state.get(ARGUMENTS)
            return None if arguments is None else str(len(arguments))
        if index in ("@", "*"):
            elements = self.elements(name)
            if elements is None or any(not part.known and part.splits for value in elements for part in value):
                return None
            return str(len(elements))
        text = text_of(self.lookup(name)) if index is None else None
        return None if text is None else str(len(text))

    def elements(self, name: str) -> tuple[Value, ...] | None:
        found = self.state.variable(name)
        if found is None or found.perhaps:
            return None
        if not found.present:
            return ()
        if found.elements is None and found.value is not None:
            return (found.value,)
        return found.elements

    def _element(self, name: str, index: str) -> Value | None:
        if name == "BASH_SOURCE":
            return (WordPart(self.source.path),) if index == "0" and self._own_name is not None else None
        elements = self.elements(name)
        number = self.arithmetic(index)
        if elements is None or number is None or any(not p.known and p.splits for value in elements for p in value):
            return None
        return elements[number] if -len(elements) <= number < len(elements) else ()

    def _unknown_or(self, text: str | None, node: Any, fields: _Fields, quoted: bool) -> None:
        start, end = self._start(node), node.end_byte
        if text is None:
            fields.add(WordPart(self.text[start:end], False, not quoted, start, end, True))
        else:
            fields.open = fields.open or quoted
            fields.add(WordPart(text, True, not quoted, start, end))

    def _frozen(self, offset: int) -> bool:
        """Return whether an outer shell inserted unknown text here."""
        if not self.source.opaque:
            return False
        found = self.source.opaque_at(offset)
        return found is not None and not found.known

    # substitutions

    def _substitution(self, node: Any, fields: _Fields, quoted: bool) -> None:
        start = self._start(node)
        if self._frozen(start) or self._substitutions >= _MAX_SUBSTITUTION_DEPTH:
            self._unknown_or(None, node, fields, quoted)
            return
        self._substitutions += 1
        text = self._printed(node)
        if text is None:
            self._run(node, self)
        self._substitutions -= 1
        self._unknown_or(None if text is None else text.rstrip("\n"), node, fields, quoted)

    def _printed(self, node: Any) -> str | None:
        """Return the output of a substitution with a computable command, otherwise None."""
        inner = [child for child in node.children if child.is_named]
        if len(inner) == 1 and inner[0].type == "list":
            inner = [child for child in inner[0].children if child.is_named]
            # cd somewhere && pwd
            if len(inner) == 2 and self._called(inner[0])[:1] == ["cd"] and self._called(inner[1])[:1] == ["pwd"]:
                words = [word for word in self._called(inner[0])[1:] if word != "--"]
                return words[0] if len(words) == 1 else None
            return None
        if len(inner) != 1:
            return None
        words = self._called(inner[0])
        return computed(words) if words else None

    def _called(self, node: Any) -> list[str]:
        """Return the words of a plain command, empty if one is unknown."""
        if node.type == "redirected_statement":
            body = node.child_by_field_name("body")
            kinds = {child.type for child in node.children[1:]}
            if body is None or kinds - {"file_redirect"}:
                return []
            node = body
        if node.type != "command":
            return []
        name = node.child_by_field_name("name")
        if name is None or self.text[name.start_byte : name.end_byte] not in COMPUTED:
            return []
        found = []
        for group in groups(node.children, self.text):
            if group[0].type.endswith("_redirect"):
                continue
            for field in self.fields(group):
                if not field.known:
                    return []
                found.append(field.text)
        return found

    def arithmetic(self, text: str) -> int | None:
        """Return the result of ``$((…))``, or None if unknown."""
        text = text.strip()
        if text.startswith("$((") and text.endswith("))"):
            text = text[3:-2]

        def known(match: re.Match[str]) -> str:
            value = self._length(match[4], "@") if match[4] else text_of(self.lookup(match[1] or match[2] or match[3]))
            if value is None or not re.fullmatch(r"\s*-?[0-9]{1,12}\s*", value):
                return "?"
            return f"({value})"

        text = re.sub(r"\$(\w+|#)|\$\{(\w+|#)\}|\b([A-Za-z_]\w*)\b|\$\{#(\w+)\[[@*]\]\}", known, text)
        if len(text) > 500 or not re.fullmatch(r"[-+*/%()0-9\s<>=!&|]+", text) or re.search(r"(?<![0-9])0[0-9]", text):
            return None
        return calculated(text)


def groups(nodes: Sequence[Any], text: str) -> list[list[Any]]:
    """Return the words among nodes of a text: adjacent nodes are one word."""
    found: list[list[Any]] = []
    last = -1
    for node in nodes:
        start = node.start_byte
        if 0 <= last < start == last + 2 and text.startswith("\\\n", last):
            # a line continuation inside a word
            start = last
        if start == last and found and not node.type.endswith("_redirect"):
            found[-1].append(node)
        else:
            found.append([node])
        last = -1 if node.type.endswith("_redirect") or node.type == "variable_assignment" else node.end_byte
    return found


def _split(fields: list[list[WordPart]]) -> list[list[WordPart]]:
    """Return the fields with unquoted variables split at blanks."""
    found: list[list[WordPart]] = []
    for parts in fields:
        if not any(part.splits and part.known for part in parts):
            found.append(parts)
            continue
        current: list[WordPart] = []
        is_open = False
        for part in parts:
            if not (part.splits and part.known):
                current.append(part)
                is_open = True
                continue
            for match in re.finditer(r"\s+|\S+", part.text):
                if match[0].isspace():
                    if is_open:
                        found.append(current)
                    current, is_open = [], False
                else:
                    current.append(part.piece(match.start(), match.end()))
                    is_open = True
            if len(found) > MAX_FIELDS:
                break
        if is_open:
            found.append(current)
    return found


def with_origins(value: Value, source: ShellSource, start: int, end: int) -> Value:
    """Return a value for a variable: its own text comes from the assignment, the rest from its origins."""
    if sum(len(part.text) for part in value) > MAX_VALUE_LENGTH or len(value) > _MAX_PARTS:
        return (WordPart(source.text[start:end][:80], False),)
    kept = []
    together = Counter(part.start for part in value)
    for part in value:
        # text that was inserted together with other text has no location of its own
        alone = together[part.start] == 1
        exact = part.exact or (bool(part.origins) and alone)
        here = Origin(source, part.start, part.end) if exact else Origin(source, start, end, False)
        kept.append(part._replace(origins=(*part.origins, here)[:_MAX_ORIGINS]))
    return tuple(kept)
