"""YAML with locations: documents as trees of nodes with ranges, for all readers of YAML files.

Templates (Helm, Jinja, ``${{ }}`` of a workflow) are unknown values. A malformed document gives a problem, and the part
before the error counts. No object is constructed and no alias is copied, so a small file can't become large. The module
does not know manifests, workflows or configurations.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy
from distcheck.core.spans import Span

from .fragments import Fragment, Piece, placeholder
from .model import Scalar

#: Limit of nesting; manifests have about fifteen levels.
MAX_DEPTH = 200
#: Limit of problems per file; each document can have one.
MAX_PROBLEMS = 20

# Private characters replace templates while YAML is parsed. They are legal in YAML, and as many as the template has, so
# that no column changes. Two of them alternate, to separate adjacent templates.
_MARKS = ("\ue000", "\ue001")
_MARKED = lazy("\ue000+|\ue001+")
_OPENING = lazy(r"\$?\{(\{)|(?<!\$)\{([%#])")
#: Limit of characters in a template; those of charts have tens, and comments some hundred.
_MAX_TEMPLATE_LENGTH = 5000
#: as in YAML 1.1 and 1.2, without the characters for templates
_UNPRINTABLE = lazy("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue002-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_SEPARATOR = lazy(r"^---(?=[ \t\r\n]|$)", re.MULTILINE)
_BLOCK_HEADER = lazy(r"(?:^|[:\-?]|[!&][^\s]+)[ \t]+([|>])[-+0-9]{0,2}[ \t]*(?:#.*)?$")
#: within one line
_TEMPLATE = lazy(r"\$?\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}")
_OPENS = lazy(
    r"\{\{-?\s*(?:if|range|with|define|block)\b"
    r"|\{%[-+]?\s*(?:if|for|macro|block|call|filter|raw|autoescape|trans|with)\b"
)
_CLOSES = lazy(r"\{\{-?\s*end\b|\{%[-+]?\s*end")
_SETS_NOTHING = lazy(
    r"\{\{-?\s*(?:if|else|end|range|with|define|block|/\*|\$[\w.]*\s*:?=)|\{%[-+]?\s*(?!include\b|import\b)|\{#"
)
_INDENTED_BY = lazy(r"\bn?indent\s+([0-9]{1,3})\b")
_ONE_VARIABLE = lazy(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[^{}]*\}|\([^()]*\))")
_WHOLE = lazy(r"[-+]?(?:0|[1-9][0-9_]*)")
_OCTAL = lazy(r"([-+]?)0o?([0-7_]+)")
_HEXADECIMAL = lazy(r"[-+]?0x[0-9a-fA-F_]+")
_BROKEN = lazy(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?")
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(text for word in ("true", "yes", "on") for text in (word, word.capitalize(), word.upper()))
_FALSE = frozenset(text for word in ("false", "no", "off") for text in (word, word.capitalize(), word.upper()))
_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
    " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
#: Blanks, and a line end with the folded blanks after it.
_FOLD = lazy(r"[ \t]*(\r?\n\s*)?")
_CODE_POINTS = {"x": 2, "u": 4, "U": 8}


class Node(NamedTuple):
    """A table (mapping), a list or a value with its range. Offsets count characters of the text."""

    #: ``table``, ``list`` or ``value``
    kind: str
    start: int
    end: int
    source: _Source
    #: of a table, in order; of duplicate keys the last one; merged keys (``<<``) come last
    table: Mapping[str, Node] = {}
    #: the keys of the table with their ranges
    keys: Mapping[str, Node] = {}
    items: tuple[Node, ...] = ()
    #: of a value: as YAML decodes it, with marks for templates
    decoded: str = ""
    #: of a value: how it is quoted: ``""``, ``"'"``, ``'"'``, ``"|"``, ``">"``
    style: str = ""
    #: a table or list that may hold more (a template, a syntax error), or an unknown value
    open_ended: bool = False
    #: the tag before it (``!!str``, ``!Ref``), or None
    tag: str | None = None

    @property
    def span(self) -> Span:
        return self.source.fragment.span(self.start, self.end)

    @property
    def written(self) -> str:
        """Return the text in the file, with quotes."""
        return self.source.fragment.text[self.start : self.end]

    @property
    def text(self) -> str:
        """Return a value as decoded text, with templates as written; ``""`` for a table or a list."""
        if not self.decoded or not _MARKED.search(self.decoded):
            return self.decoded
        templates = iter(self.source.templates_within(self.start, self.end))
        return _MARKED.sub(lambda marks: next(templates, marks[0]), self.decoded)

    @property
    def scalar(self) -> Scalar:
        """Return the typed value of a node; tables and lists are known only as such, with the value None.

        Plain words are typed as in YAML 1.1, like in Kubernetes and accelerate (``yes`` is true). Templates, a single
        variable (``${REPLICAS}``), and values in a conditional template are unknown.
        """
        if self.kind != "value" or self.open_ended:
            return Scalar(None, self.span, self.written, known=False)
        if self.style or self.tag == "tag:yaml.org,2002:str":
            return Scalar(self.decoded, self.span, self.written)
        return Scalar(_typed(self.decoded), self.span, self.written)

    @property
    def is_null(self) -> bool:
        """Return whether it is empty or null, and no template."""
        return self.kind == "value" and not self.open_ended and not self.style and self.decoded in _NULLS

    def get(self, *path: str | int) -> Node | None:
        """Return the node at the end of a path of keys and indices, or None if it is certainly absent.

        If a template or a syntax error may hide it, the result is an ``open_ended`` node with an unknown scalar.
        """
        node = self
        for step in path:
            if isinstance(step, str):
                found = node.table.get(step)
            else:
                found = node.items[step] if -len(node.items) <= step < len(node.items) else None
            if found is None:
                return node._replace(kind="value", table={}, keys={}, items=(), decoded="") if node.open_ended else None
            node = found
        return node

    def value(self, *path: str | int) -> Scalar | None:
        """Return the scalar at the end of a path, as ``get``; None also for a null, a table or a list."""
        node = self.get(*path)
        if node is None or node.kind != "value" or node.is_null:
            return None
        return node.scalar

    def fragment(self) -> Fragment:
        """Return the text of a value with locations; templates become placeholders."""
        text = _MARKED.sub(lambda marks: placeholder(len(marks[0])), self.decoded)
        return Fragment(text, self.source.fragment.path, self.source.pieces(self))

    def plain(self, most: int = 100_000) -> Any:
        """Return the node as plain values (dicts, lists, numbers, text), with None for unknown ones.

        :param most: limit of nodes; each use of an alias counts, and nodes beyond it are None
        """
        left = [most]

        def made(node: Node, depth: int) -> Any:
            left[0] -= 1
            if left[0] < 0 or depth > MAX_DEPTH:
                return None
            if node.kind == "table":
                return {key: made(inner, depth + 1) for key, inner in node.table.items()}
            if node.kind == "list":
                return [made(inner, depth + 1) for inner in node.items]
            return node.scalar.value

        return made(self, 0)


class YamlText(NamedTuple):
    """All non-empty documents of a text, comments by line, and problems."""

    documents: tuple[Node, ...] = ()
    #: line and text from the ``#`` on, as in ``LaunchFile.comments``
    comments: tuple[tuple[int, str], ...] = ()
    #: text, line and column, as in ``LaunchFile.problems``
    problems: tuple[tuple[str, int, int], ...] = ()


def read_yaml(fragment: Fragment) -> YamlText:
    """Return all documents of a text; ``{{ }}``, ``{% %}`` and ``${{ }}`` are templates. Never raises."""
    source = _Source(fragment)
    documents: list[Node] = []
    problems: list[tuple[str, int, int]] = []
    # a byte order mark is a character of the file, but not of YAML
    position = 1 if fragment.text.startswith("\ufeff") else 0
    while position < len(source.harmless) and len(problems) < MAX_PROBLEMS:
        reader = _YamlReader(source, position)
        fault = reader.read()
        documents.extend(reader.documents)
        problems.extend(reader.problems)
        if fault is None:
            break
        what, at = fault
        problems.append((what, *fragment.location(min(at, len(fragment.text)))))
        following = _SEPARATOR.search(source.harmless, max(reader.document_start + 1, at))
        position = following.start() if following else len(source.harmless)
    return YamlText(tuple(documents), tuple(source.comments()), tuple(problems[:MAX_PROBLEMS]))


class _Source:
    """A text, the same text without templates, and their locations."""

    def __init__(self, fragment: Fragment) -> None:
        self.fragment = fragment
        text = fragment.text
        if _UNPRINTABLE.search(text) or any(mark in text for mark in _MARKS):
            # the parser stops at a control character; the replacement keeps all columns
            text = _UNPRINTABLE.sub("\ufffd", text).replace(_MARKS[0], "\ufffd").replace(_MARKS[1], "\ufffd")
        #: ranges of the templates that stand for a value, and of all
        self.valued: list[tuple[int, int]] = []
        self.spans: list[tuple[int, int]] = []
        #: offsets of templates alone in a line that produce lines, and their indentation; None: unknown
        self.given: list[tuple[int, int | None]] = []
        #: ranges between an if and its end
        self.conditional: list[tuple[int, int]] = []
        self.harmless = text
        if "{{" in text or "{%" in text:
            self._make_harmless(text)

    def _make_harmless(self, text: str) -> None:
        templates = list(_templates(text))
        several_lines = [(start, end) for _, _, start, end in templates if "\n" in text[start:end]]
        blocks = _block_scalars(_without(text, several_lines))
        made: list[str] = []
        position = 0
        opened: list[int] = []
        for line_start, alone, start, end in templates:
            template = text[start:end]
            self.spans.append((start, end))
            if _OPENS.match(template):
                opened.append(end)
            elif _CLOSES.match(template) and opened:
                self.conditional.append((opened.pop(), start))
            block = _block_at(blocks, start) if alone and position <= line_start else None
            if block is not None:
                # with the blanks before it: it may have to begin further left
                made.append(text[position:line_start])
                made.append(self._in_block(block, text[line_start:start], template, (start, end), "".join(made[-2:])))
                position = end
                continue
            made.append(text[position:start])
            if not alone or _block_at(blocks, start) is not None:
                made.append(self._marks(template, start, end))
            elif _SETS_NOTHING.match(template):
                made.append(_blank(template))
            else:
                by = _INDENTED_BY.search(template)
                self.given.append((start, int(by[1]) if by else start - line_start))
                made.append(_blank(template))
            position = end
        self.conditional.extend((start, len(text)) for start in opened)
        self.harmless = "".join([*made, text[position:]])

    def _in_block(self, block: _BlockScalar, blanks: str, template: str, span: tuple[int, int], before: str) -> str:
        """Return the replacement for a template alone in a line of a block scalar, with the blanks before it.

        It begins at the block's indentation. Text further left ends the block, and a longer line of blanks is not empty
        for YAML.
        """
        first, sign, rest = (blanks + template).partition("\n")
        room = len(first) - block.indent
        if room < 1:
            return _blank(blanks + template)
        if _SETS_NOTHING.match(template) is None or block.folded:
            made = self._mark(room, span)
        elif room > 6 and not rest and _continued(before + blanks):
            # an if among the options of a command: unknown options, and the command continues
            made = self._mark(room - 2, span) + " \\"
        else:
            made = "#".ljust(room)
        others = [
            " " * block.indent + "#".ljust(len(line) - block.indent) if len(line) > block.indent else " " * len(line)
            for line in rest.split("\n")
        ]
        return " " * block.indent + made + sign + "\n".join(others)

    def _mark(self, length: int, span: tuple[int, int]) -> str:
        self.valued.append(span)
        return _MARKS[len(self.valued) % 2] * length

    def _marks(self, template: str, start: int, end: int) -> str:
        first, sign, rest = template.partition("\n")
        bare = first.rstrip("\r")
        return self._mark(max(len(bare), 1), (start, end)) + _blank(first[len(bare) :] + sign + rest)

    def templates_within(self, start: int, end: int) -> Iterator[str]:
        at = bisect_right(self.valued, (start, -1))
        for first, last in self.valued[at:]:
            if first >= end:
                return
            yield self.fragment.text[first:last]

    def comments(self) -> Iterator[tuple[int, str]]:
        """Yield the lines with a comment, for suppressions: a ``#`` after a blank or at the start of a line.

        A ``#`` in quotes is included. It is harmless, because a comment counts only by its text.
        """
        for match in re.finditer(r"(?:^|(?<=[ \t]))#[^\n]*", self.fragment.text, re.MULTILINE):
            yield self.fragment.location(match.start())[0], match[0].rstrip("\r")

    def pieces(self, node: Node) -> tuple[Piece, ...]:
        """Return the locations of a value's characters."""
        if node.style in ("|", ">"):
            offsets = _block_offsets(self.harmless, node)
        else:
            inside = 1 if node.style else 0
            raw = self.harmless[node.start + inside : node.end - inside]
            if raw == node.decoded and "\n" not in raw:
                return (Piece(0, *self.fragment.location(node.start + inside)),)
            offsets = _flow_offsets(raw, node.start + inside, node.decoded, node.style)
        if len(offsets) != len(node.decoded):
            return (Piece(0, *self.fragment.location(node.start)),)
        pieces: list[Piece] = []
        line = 0
        before = -1
        for index, offset in enumerate(offsets):
            line_end = index > 0 and node.decoded[index - 1] == "\n"
            # a folded line without leading blanks continues directly
            if line_end or offset != before + 1 or self.harmless[offset - 1 : offset] == "\n":
                location = self.fragment.location(offset)
                if not line_end or location != (line + 1, 1):
                    pieces.append(Piece(index, *location))
                line = location[0]
            before = offset
        return tuple(pieces) or (Piece(0, *self.fragment.location(node.start)),)


class _OpenNode:
    """A table or list that is not closed yet."""

    def __init__(self, kind: str, start: int, anchor: str | None, tag: str | None) -> None:
        self.kind = kind
        self.start = start
        self.anchor = anchor
        self.tag = tag
        self.nodes: list[Node] = []


class _YamlReader:
    """Builds documents from YAML events, from an offset up to the end or the first error."""

    def __init__(self, source: _Source, position: int) -> None:
        self.source = source
        self.base = position
        self.documents: list[Node] = []
        self.problems: list[tuple[str, int, int]] = []
        self.document_start = position
        self._content: int | None = None
        self._open: list[_OpenNode] = []
        self._anchors: dict[str, Node] = {}
        self._root: Node | None = None
        self._conditional: list[tuple[int, int]] = []
        #: the end of the last node: there a table or list without a closing bracket ends
        self._last_end = position

    def read(self) -> tuple[str, int] | None:
        """Parse the text; return the first error with its offset, or None. The result is in ``documents``."""
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        text = self.source.harmless[self.base :] if self.base else self.source.harmless
        fault: tuple[str, int] | None = None
        try:
            for event in yaml.parse(text, Loader=loader):
                self._take(event)
                if len(self._open) > MAX_DEPTH:
                    fault = f"tables and lists lie more than {MAX_DEPTH} deep in each other", self._last_end
                    break
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = self.base + mark.index if mark is not None else self._last_end
            fault = _parser_message(error, self.source.harmless, at), at
        except yaml.YAMLError as error:
            fault = f"YAML can't read it: {str(error).splitlines()[0][:120]}", self._last_end
        if fault is not None:
            self._end_early(fault[1])
        return fault

    def _take(self, event: Any) -> None:
        name = type(event).__name__
        if name in ("StreamStartEvent", "StreamEndEvent"):
            return
        start = self.base + event.start_mark.index
        end = self.base + event.end_mark.index
        if name == "DocumentStartEvent":
            self._begin(start)
            return
        if name == "DocumentEndEvent":
            self._finish()
            return
        if self._content is None:
            self._content = start
            self._conditional = _merged(
                (first, last) for first, last in self.source.conditional if first > start and last > start
            )
        if name == "ScalarEvent":
            self._last_end = end
            self._add(self._value(event, start, end), event.anchor)
        elif name == "AliasEvent":
            self._last_end = end
            node = self._anchors.get(event.anchor)
            if node is None:
                self._report(f"*{event.anchor} refers to an anchor that does not exist", start)
                node = Node("value", start, end, self.source, open_ended=True)
            self._add(node, None)
        elif name in ("MappingStartEvent", "SequenceStartEvent"):
            kind = "table" if name == "MappingStartEvent" else "list"
            self._last_end = max(self._last_end, start)
            self._open.append(_OpenNode(kind, start, event.anchor, event.tag))
        else:
            self._close(start, end)

    def _begin(self, start: int) -> None:
        self.document_start = start
        self._content = None
        self._anchors = {}
        self._root = None

    def _value(self, event: Any, start: int, end: int) -> Node:
        style = event.style or ""
        decoded: str = event.value
        unknown = bool(_MARKED.search(decoded)) or self._is_conditional(start)
        if not style and not unknown:
            # envsubst or kustomize replaces a single variable; in a word the reader decides
            unknown = _ONE_VARIABLE.fullmatch(decoded) is not None or (not decoded and self._given_behind(end))
        if style in ("|", ">"):
            end = start + len(self.source.harmless[start:end].rstrip())
        return Node("value", start, end, self.source, decoded=decoded, style=style, open_ended=unknown, tag=event.tag)

    def _is_conditional(self, start: int) -> bool:
        return _within(self._conditional, start)

    def _given_behind(self, end: int) -> bool:
        """Return whether a template that produces lines follows, after only blanks and comments."""
        at = bisect_right(self.source.given, (end, -1))
        if at == len(self.source.given):
            return False
        between = self.source.harmless[end : self.source.given[at][0]]
        return all(not line.strip() or line.strip().startswith("#") for line in between.split("\n"))

    def _close(self, start: int, end: int) -> None:
        opened = self._open.pop()
        # for YAML, a table or list in block style ends at the next token
        last = end if end > start else self._last_end
        self._last_end = max(last, self._last_end)
        self._add(self._collection(opened, last, start), opened.anchor)

    def _collection(self, opened: _OpenNode, last: int, border: int, *, cut: bool = False) -> Node:
        open_ended = cut or self._takes_given(opened, border)
        last = max(last, opened.start)
        if opened.kind == "list":
            return Node(
                "list", opened.start, last, self.source, items=tuple(opened.nodes), open_ended=open_ended,
                tag=opened.tag,
            )  # fmt: skip
        table, keys, merged_unknown = self._table(opened.nodes)
        return Node(
            "table", opened.start, last, self.source, table=table, keys=keys, open_ended=open_ended or merged_unknown,
            tag=opened.tag,
        )  # fmt: skip

    def _takes_given(self, opened: _OpenNode, border: int) -> bool:
        """Return whether a template produces lines with the indentation of this table or list."""
        column = self._column(opened.start)
        at = bisect_right(self.source.given, (opened.start, -1))
        for offset, indent in self.source.given[at:]:
            if offset >= border:
                return False
            if indent is None or indent == column:
                return True
            # no open table has this indentation: it may belong to any
            if indent not in {self._column(other.start) for other in self._open} and indent < column:
                return True
        return False

    def _column(self, offset: int) -> int:
        return offset - (self.source.harmless.rfind("\n", 0, offset) + 1)

    def _table(self, nodes: list[Node]) -> tuple[dict[str, Node], dict[str, Node], bool]:
        table: dict[str, Node] = {}
        keys: dict[str, Node] = {}
        merged: list[Node] = []
        unknown = False
        for key, node in zip(nodes[::2], nodes[1::2], strict=False):
            if key.kind != "value":
                continue
            name = key.text
            if name == "<<" and not key.style:
                merged.extend(node.items if node.kind == "list" else (node,))
                continue
            if name in table:
                if self.source.spans:
                    # two branches of an if; only the template knows which one applies
                    node = Node("value", node.start, node.end, self.source, open_ended=True)
                else:
                    first = self.source.fragment.location(keys[name].start)[0]
                    self._report(
                        f"the key {name[:60]} is repeated here, after line {first}; the last one counts", key.start
                    )
            table[name] = node
            keys[name] = key
        for node in merged:
            unknown = unknown or node.kind != "table" or node.open_ended
            for name, inner in node.table.items():
                table.setdefault(name, inner)
                keys.setdefault(name, node.keys[name])
        return table, keys, unknown

    def _report(self, what: str, at: int) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append((what, *self.source.fragment.location(at)))

    def _add(self, node: Node, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = node
        if self._open:
            self._open[-1].nodes.append(node)
        else:
            self._root = node

    def _finish(self) -> None:
        if self._root is not None and not (self._root.is_null and self._root.start == self._root.end):
            self.documents.append(self._root)
        self._root = None

    def _end_early(self, at: int) -> None:
        """Close what is open at an error: all of it may hold more."""
        while self._open:
            opened = self._open.pop()
            if opened.kind == "table" and len(opened.nodes) % 2:
                key = opened.nodes[-1]
                opened.nodes.append(Node("value", key.end, key.end, self.source, open_ended=True))
            self._add(self._collection(opened, self._last_end, at, cut=True), None)
        self._finish()


def _typed(text: str) -> Any:
    """Return a plain word of YAML 1.1 as a value; dates and numbers to the base of 60 stay text."""
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    # more digits than any count has; Python refuses thousands of them
    if text[0] in "-+.0123456789" and len(text) <= 40:
        if _WHOLE.fullmatch(text):
            return int(text.replace("_", ""))
        octal = _OCTAL.fullmatch(text)
        if octal and octal[2].strip("_"):
            return int(octal[1] + octal[2].replace("_", ""), 8)
        if _HEXADECIMAL.fullmatch(text) and text.rstrip("_")[-1] not in "xX":
            return int(text.replace("_", ""), 16)
        if _BROKEN.fullmatch(text):
            return float(text.replace("_", ""))
    return text


def _parser_message(error: Any, text: str, at: int) -> str:
    """Return a clear error message; libyaml's own text remains if none is known."""
    problem = (error.problem or error.context or "malformed").replace("\n", " ")
    line_start = text.rfind("\n", 0, at) + 1
    line = text[line_start : text.find("\n", at) if text.find("\n", at) >= 0 else len(text)]
    if "\t" in line[: len(line) - len(line.lstrip())] and ("token" in problem or "tab" in problem):
        return "a tab is in the indentation; YAML accepts spaces only"
    if problem.startswith("mapping values are not allowed"):
        problem = "a second colon, or a key that is indented differently from its siblings"
    return f"malformed YAML: {problem[:120]}"


def _templates(text: str) -> Iterator[tuple[int, bool, int, int]]:
    """Yield the templates outside comments.

    :returns: for each the start of its line, whether the line holds only templates, its start and its end
    """
    ends: dict[str, int] = {}
    in_line: list[tuple[int, int]] = []
    line_start = line_end = -1
    position = 0
    for opening in _OPENING.finditer(text):
        start = opening.start()
        if start < position:
            continue
        sign = opening[1] or opening[2]
        closing = "}}" if sign == "{" else sign + "}"
        # each search continues after the last one for this bracket
        if ends.get(closing, 0) < opening.end() <= len(text) and ends.get(closing) != -1:
            ends[closing] = text.find(closing, opening.end())
        end = ends[closing] + 2
        if end < 2 or end - start > _MAX_TEMPLATE_LENGTH:
            continue
        position = end
        if start >= line_end:
            yield from _of_line(text, line_start, line_end, in_line)
            in_line = []
            line_start = text.rfind("\n", 0, start) + 1
        if end > line_end:
            line_end = text.find("\n", end)
            line_end = len(text) if line_end < 0 else line_end
        in_line.append((start, end))
    yield from _of_line(text, line_start, line_end, in_line)


def _of_line(
    text: str, line_start: int, line_end: int, templates: list[tuple[int, int]]
) -> Iterator[tuple[int, bool, int, int]]:
    """Yield the templates of one line."""
    if not templates or text[line_start : templates[0][0]].lstrip().startswith("#"):
        return
    between = [line_start, *(offset for template in templates for offset in template), line_end]
    alone = all(not text[start:end].strip() for start, end in zip(between[::2], between[1::2], strict=True))
    for start, end in templates:
        yield line_start, alone, start, end


def _block_at(blocks: list[_BlockScalar], offset: int) -> _BlockScalar | None:
    at = bisect_right(blocks, offset, key=lambda block: block.start) - 1
    return blocks[at] if at >= 0 and offset < blocks[at].end else None


def _continued(text: str) -> bool:
    """Return whether the line before the last one of a text is continued."""
    before, sign, begun = text.rpartition("\n")
    return bool(sign) and not begun.strip() and before.rstrip("\r").endswith("\\")


def _without(text: str, stretches: list[tuple[int, int]]) -> str:
    """Return the text with these ranges blanked."""
    parts: list[str] = []
    position = 0
    for start, end in stretches:
        parts += text[position:start], _blank(text[start:end])
        position = end
    return "".join([*parts, text[position:]])


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


def _merged(spans: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order, with overlapping ones joined."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _within(spans: list[tuple[int, int]], offset: int) -> bool:
    """Return whether an offset is in one of these sorted, disjoint ranges."""
    at = bisect_right(spans, (offset, len(spans) and 1 << 62)) - 1
    return at >= 0 and spans[at][0] <= offset < spans[at][1]


class _BlockScalar(NamedTuple):
    """The approximate range of a block scalar by indentation: a template in it is text, elsewhere it is structure."""

    start: int
    end: int
    #: the column of its content, from 0
    indent: int
    folded: bool


def _block_scalars(text: str) -> list[_BlockScalar]:
    found: list[_BlockScalar] = []
    #: the start, the outer indentation, its own indentation, the sign
    begun: tuple[int, int, int | None, str] | None = None
    position = 0
    for line in text.split("\n"):
        bare = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        if begun is not None and bare and not (bare.startswith(("{{", "{%")) and not _TEMPLATE.sub("", bare).strip()):
            start, outer, inner, sign = begun
            if indent <= outer:
                found.append(_BlockScalar(start, position, outer + 1 if inner is None else inner, sign == ">"))
                begun = None
            elif inner is None:
                begun = start, outer, indent, sign
        header = _BLOCK_HEADER.search(line.rstrip("\r")) if begun is None and bare[:1] not in ("", "#") else None
        if header is not None:
            # "- key: |" and "- - |": the column of the last key or dash counts
            lead = re.match(r" *(?:- +)*", line)
            column = lead.end() if lead else indent
            if not re.search(r":[ \t]", line):
                column = max(column - 2, 0)
            begun = position + len(line), column, None, header[1]
        position += len(line) + 1
    if begun is not None:
        start, outer, inner, sign = begun
        found.append(_BlockScalar(start, len(text), outer + 1 if inner is None else inner, sign == ">"))
    return found


def _block_offsets(text: str, node: Node) -> list[int]:
    """Return the offset of each character of a block scalar; a shorter list if unknown.

    The lines are searched in order. Between two of them the value has only line ends, or the blank of a folded one.
    """
    decoded = node.decoded
    header_end = text.find("\n", node.start)
    offsets: list[int] = []
    if header_end < 0:
        return offsets
    position = header_end + 1
    indent: int | None = None
    given = re.search(r"[0-9]", text[node.start : header_end].split("#")[0])
    at = 0
    while at < len(decoded) and position <= len(text):
        line_end = text.find("\n", position)
        line_end = len(text) if line_end < 0 else line_end
        line = text[position:line_end].rstrip("\r")
        if indent is None and line.strip(" "):
            indent = len(line) - len(line.lstrip(" "))
            if given:
                found = decoded.lstrip("\n").split("\n", 1)[0]
                indent += -(len(found) - len(found.lstrip(" ")))
        content = line[indent:] if indent is not None else ""
        if content:
            # blanks and line ends of earlier lines
            while at < len(decoded) and not decoded.startswith(content, at):
                if decoded[at] not in " \n":
                    return offsets
                offsets.append(max(position - 1, 0))
                at += 1
            offsets.extend(range(line_end - len(text[position:line_end]) + (indent or 0), line_end))
            del offsets[at + len(content) :]
            at += len(content)
        elif at < len(decoded) and decoded[at] == "\n" and node.style == "|":
            offsets.append(line_end)
            at += 1
            position = line_end + 1
            continue
        if at < len(decoded) and decoded[at] in " \n":
            offsets.append(line_end)
            at += 1
        position = line_end + 1
    return offsets if at >= len(decoded) else offsets[: len(offsets) - 1]


def _flow_offsets(raw: str, base: int, decoded: str, style: str) -> list[int]:
    """Return the offset of each character of a plain or quoted value; the result is compared with YAML's decoding."""
    made: list[str] = []
    offsets: list[int] = []

    def put(character: str, offset: int) -> None:
        made.append(character)
        offsets.append(base + offset)

    index = 0
    while index < len(raw):
        character = raw[index]
        fold = _FOLD.match(raw, index) if character in " \t\r\n" else None
        if fold and fold[1] is None and fold.end() > index:
            for at in range(index, fold.end()):
                put(raw[at], at)
            index = fold.end()
        elif fold and fold[1] is not None:
            breaks = fold[0].count("\n")
            for _ in range(breaks - 1):
                put("\n", fold.end() - 1)
            if breaks == 1:
                put(" ", fold.end() - 1)
            index = fold.end()
        elif style == "'" and raw.startswith("''", index):
            put("'", index)
            index += 2
        elif style == '"' and character == "\\" and index + 1 < len(raw):
            sign = raw[index + 1]
            if sign in "\r\n":
                joined = re.compile(r"\r?\n[ \t]*").match(raw, index + 1)
                index = joined.end() if joined else index + 2
                continue
            digits = _CODE_POINTS.get(sign, 0)
            if digits:
                code = raw[index + 2 : index + 2 + digits]
                put(chr(int(code, 16)) if re.fullmatch(r"[0-9a-fA-F]+", code) else "\ufffd", index)
            else:
                put(_ESCAPES.get(sign, sign), index)
            index += 2 + digits
        else:
            put(character, index)
            index += 1
    return offsets if "".join(made) == decoded else []
