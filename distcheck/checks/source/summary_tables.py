"""The tables that a summary is made of, while a file is visited: terms, events, blocks, scopes, and what names hold."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

from .summary import Block


class Frame:
    """The state within one scope: what each name holds at this point."""

    __slots__ = ("dotted", "env", "globals", "leaving", "scope")

    def __init__(self, scope: int, env: dict[str, int]) -> None:
        self.scope = scope
        self.env = env
        #: whether ``env`` may hold attributes as well
        self.dotted = False
        self.globals: set[str] = set()
        #: what names hold where ``break`` or ``continue`` leaves a step, for each loop around this point
        self.leaving: list[list[dict[str, int]]] = []


class SummaryTables:
    """The tables of a summary while it is made, and what names hold at this point."""

    def __init__(self, comments: list[tuple[int, str]]) -> None:
        self.comments = comments
        self.terms: list[tuple[Any, ...]] = []
        self.index: dict[tuple[Any, ...], int] = {}
        self.unknown = self.term("-")
        self.events: list[tuple[Any, ...]] = []
        self.blocks: list[Block] = [(-1, "", 0, True, 0, 0)]
        self.scopes: list[list[Any]] = []
        self.classes: list[tuple[Any, ...]] = []
        self.imports: list[str] = []
        self.block = 0
        self.owner = -1
        self.use = "value"
        self.has_main_guard = False
        self.frame = Frame(0, {})

    def dotted(self, number: int) -> str:
        """Return the dotted name of a term that is an import or an attribute of one; empty for any other."""
        term = self.terms[number]
        if term[0] == "i":
            return str(term[1])
        if term[0] == "a" and (base := self.dotted(term[1])):
            return f"{base}.{term[2]}"
        return ""

    def calls_by_owner(self) -> list[tuple[str, list[str]]]:
        """What each outermost function or class calls, and the module itself (named by an empty text): last names, and
        dotted ones of what is imported."""
        outermost: list[str] = []
        for scope in self.scopes:
            outermost.append(scope[0] if scope[3] <= 0 else outermost[scope[3]])
        found: dict[str, set[str]] = {}
        terms = self.terms
        for event in self.events:
            kind = event[0]
            if kind == "call":
                number = terms[event[7]][1]
                callee = terms[number]
                name = (
                    callee[2] if callee[0] in ("a", "v") else callee[1].rsplit(".", 1)[-1] if callee[0] == "i" else ""
                )
                calls = found.setdefault(outermost[event[1]], set())
                calls.add(name)
                if callee[0] in ("i", "a"):
                    calls.add(self.dotted(number))
            elif kind == "read" or (kind == "store" and self.dotted(event[7]) == "os.environ"):
                found.setdefault(outermost[event[1]], set()).add("os.environ")
            elif kind == "text":
                found.setdefault(outermost[event[1]], set()).add("'…'")
        return [(name, sorted(calls)) for name, calls in found.items()]

    def term(self, *parts: Any) -> int:
        """Return the index of a term; equal terms are one."""
        found = self.index.get(parts)
        if found is None:
            found = self.index[parts] = len(self.terms)
            self.terms.append(parts)
        return found

    def node(self, kind: str, term: int, polarity: bool, line: int, end_line: int) -> int:
        self.blocks.append((self.block, kind, term, polarity, line, end_line))
        return len(self.blocks) - 1

    def event(self, kind: str, node: Any, *payload: Any) -> None:
        begin = (node.lineno, node.col_offset)
        end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        self.events.append((kind, self.frame.scope, self.block, *begin, *end, *payload))

    def new_scope(
        self, name: str, kind: str, parameters: tuple[tuple[str, int, str], ...], decorators: tuple[int, ...], node: Any
    ) -> int:
        parent = self.frame.scope
        outer = self.scopes[parent][1]
        qualified = f"{outer}.{name}" if outer else name
        place = (self.block, node.lineno, node.end_lineno or node.lineno)
        self.scopes.append([name, qualified, kind, parent, self.owner, parameters, decorators, *place, {}, []])
        return len(self.scopes) - 1

    def bind(self, name: str, term: int) -> None:
        frame = self.frame
        prefix = name + "."
        if frame.dotted:
            for key in [key for key in frame.env if key.startswith(prefix)]:
                del frame.env[key]
        frame.env[name] = term
        scope = 0 if name in frame.globals else frame.scope
        self.scopes[scope][10].setdefault(name, []).append(term)

    def merge(self, test: int, yes: dict[str, int], no: dict[str, int]) -> dict[str, int]:
        """Return what names hold after two ways; ``test`` -1 where nothing is known about which was taken."""
        if yes == no:
            return yes
        merged = {**yes, **no}
        # names that are the same on both ways are most of them
        different = dict(yes.items() ^ no.items())
        for name in [name for name in merged if name in different]:
            first, second = yes.get(name, -1), no.get(name, -1)
            if first < 0 or second < 0:
                # an attribute that only one way has assigned may hold anything on the other
                if "." in name:
                    del merged[name]
                continue
            merged[name] = self.term("?", test, first, second) if test >= 0 else self.term("|", first, second)
        return merged

    def join(self, ways: list[dict[str, int]]) -> None:
        """Go on with what names hold after one of several ways, it is not known which."""
        self.frame.env = reduce(partial(self.merge, -1), ways)

    def both(self, first: int, second: int) -> int:
        if first < 0:
            return second
        if second < 0:
            return first
        return self.term("and", (first, second))
