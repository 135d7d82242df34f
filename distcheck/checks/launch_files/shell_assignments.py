"""How shell text changes variables: assignments, ``export``, ``declare``, ``local``, ``unset``."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from .model import FileSetting
from .shell_flow import GOES_ON, Flow
from .shell_state import EXPORT_ALL, Origin, ShellSource, ShellVariable, Value, WordPart, text_of, with_alternatives
from .shell_words import MAX_FIELDS, Field, groups, with_origins

#: Variables that every shell has exported: an assignment changes what its commands get.
_EXPORTED = frozenset({"PATH", "HOME", "USER", "SHELL", "PWD", "LANG", "TERM", "TMPDIR"})


class Assigning(Flow):
    """Applies the statements that set variables."""

    def __init__(self, source: ShellSource, kind: str) -> None:
        super().__init__(source, kind)
        self.settings: list[FileSetting] = []
        #: so many of the settings are not the text's own
        self.given = 0

    @property
    @abstractmethod
    def for_each_task(self) -> bool:
        """Return whether shells of several tasks or hosts read this text."""

    def assignment(self, node: Any) -> int:
        self.assign(node)
        return GOES_ON

    def assign(self, node: Any, *, exported: bool = False, whole: Any = None) -> None:
        """Apply ``NAME=value``; ``whole`` is the declaration around it."""
        children = node.children
        if len(children) < 2:
            return
        source = self.context.source
        target, operator = children[0], children[1]
        values = children[2:]
        element = target.type == "subscript"
        if element:
            target = target.children[0]
        name = source.text[target.start_byte : target.end_byte]
        old = self.state.variable(name)
        value, elements = self._value_of(values, source, node)
        if operator.type == "+=":
            value, elements = self._added(name, old, value, elements)
        elif element:
            value, elements = None, None
        exported = (
            exported or (old is not None and old.exported) or name in _EXPORTED or bool(self.state.get(EXPORT_ALL))
        )
        begin = values[0].start_byte if values else node.end_byte
        end = values[-1].end_byte if values else node.end_byte
        setting = FileSetting(
            name,
            None if elements is not None else text_of(value),
            source.span(node.start_byte if whole is None else whole.start_byte, node.end_byte),
            source.span(target.start_byte, target.end_byte),
            source.span(begin, end),
            "exported" if exported else "shell",
            self.context.certain,
            source.text[begin:end],
            None if value is None else Field(value, begin, end).by_each_task(source, self.for_each_task),
        )
        self.settings.append(setting)
        conditions = self.context.conditions
        by_branch = () if value is None else with_alternatives(value, self.state, conditions)
        index = len(self.settings) - 1
        found = ShellVariable(value, elements, exported, index, conditions=conditions, alternatives=by_branch)
        self.state.set(name, found)

    def _value_of(
        self, nodes: Sequence[Any], source: ShellSource, whole: Any
    ) -> tuple[Value | None, tuple[Value, ...] | None]:
        words = self.words()
        if nodes and nodes[0].type == "array":
            named = [child for child in nodes[0].children if child.is_named and child.type != "comment"]
            fields = [field for group in groups(named, source.text) for field in words.fields(group)]
            if len(fields) > MAX_FIELDS:
                return None, None
            return None, tuple(with_origins(field.parts, source, field.start, field.end) for field in fields)
        if not nodes:
            return (), None
        value = words.value(nodes)
        return with_origins(value, source, nodes[0].start_byte, nodes[-1].end_byte), None

    def _added(
        self, name: str, old: ShellVariable | None, value: Value | None, elements: tuple[Value, ...] | None
    ) -> tuple[Value | None, tuple[Value, ...] | None]:
        """``NAME+=value``."""
        if elements is not None:
            before = self.words().elements(name)
            if before is None:
                before = ((WordPart(f"${{{name}[@]}}", known=False, splits=True),),)
            together = (*before, *elements)
            return None, together if len(together) <= MAX_FIELDS else None
        if old is None or old.perhaps or value is None:
            return None, None
        if old.elements is not None:
            return None, None
        before_value = old.value if old.present else ()
        return (None if before_value is None else (*before_value, *value)), None

    def declaration(self, node: Any) -> int:
        children = node.children
        keyword = children[0].type
        flags: set[str] = set()
        for child in children[1:]:
            if child.type == "word":
                text = self.context.source.text[child.start_byte : child.end_byte]
                if text.startswith("-"):
                    flags.update(text[1:])
        local = bool(self._locals) and (keyword == "local" or (keyword in ("declare", "typeset") and "g" not in flags))
        withdraws = keyword == "export" and "n" in flags
        exports = (keyword == "export" and not withdraws) or "x" in flags
        first = True
        for child in children[1:]:
            kind = child.type
            if kind == "variable_assignment":
                name = self.name_of(child)
                if local:
                    self._make_local(name)
                self.assign(child, exported=exports, whole=node if first else None)
                first = False
                if withdraws:
                    self._export(name, False)
                if "A" in flags and (found := self.state.variable(name)) is not None:
                    # its elements have names
                    self.state.set(name, found._replace(elements=None))
            elif kind == "variable_name":
                name = self.context.source.text[child.start_byte : child.end_byte]
                if local:
                    self._make_local(name)
                    if not exports:
                        self.state.set(name, ShellVariable((), present=False))
                if exports or withdraws:
                    self._export(name, exports)
            elif kind in ("string", "raw_string", "concatenation", "simple_expansion", "expansion") and exports:
                self._declared_by_text(child)
            elif kind == "command_substitution":
                self.words().value([child])
        return GOES_ON

    def _declared_by_text(self, node: Any) -> None:
        """``export "NAME=$value"``."""
        source = self.context.source
        value = self.words().value([node])
        text = text_of(value)
        shown = text if text is not None else "".join(part.text for part in value)
        match = re.match(r"([A-Za-z_]\w*)=", shown)
        if match is None:
            return
        span = source.span(node.start_byte, node.end_byte)
        known = None if text is None else text[match.end() :]
        self.settings.append(
            FileSetting(match[1], known, span, span, span, "exported", self.context.certain, shown[match.end() :])
        )
        self.state.set(
            match[1],
            ShellVariable(
                None
                if known is None
                else (WordPart(known, origins=(Origin(source, node.start_byte, node.end_byte, False),)),),
                exported=True,
                setting=len(self.settings) - 1,
            ),
        )

    def name_of(self, assignment: Any) -> str:
        target = assignment.children[0]
        if target.type == "subscript":
            target = target.children[0]
        return self.context.source.text[target.start_byte : target.end_byte]

    def _make_local(self, name: str) -> None:
        self.make_local(name)
        self.state.set(name, ShellVariable((), present=False))

    def _export(self, name: str, wanted: bool) -> None:
        old = self.state.variable(name)
        if old is None:
            self.state.set(name, ShellVariable(None, exported=wanted, perhaps=True))
            return
        self.state.set(name, old._replace(exported=wanted))
        if old.setting >= 0 and old.setting >= self.given:
            setting = self.settings[old.setting]
            if setting.reach in ("exported", "shell"):
                self.settings[old.setting] = setting._replace(reach="exported" if wanted else "shell")

    def unset(self, node: Any) -> int:
        for child in node.children[1:]:
            text = self.context.source.text[child.start_byte : child.end_byte]
            if child.type in ("variable_name", "word") and text.isidentifier():
                self.state.set(text, ShellVariable((), present=False))
        return GOES_ON
