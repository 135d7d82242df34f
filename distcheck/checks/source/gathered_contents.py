"""What ``all_gather`` of Lightning is given: it gathers tensors and numbers, and ignores texts.

A list of texts is no communication. Where the content of a list is not known, no step is certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from distcheck.core.patterns import lazy

from .program import EventRow, Program, SourceCall, cached
from .source_text import last_name
from .values import Kind
from .vocabulary import word_set

#: They convert numbers to tensors, and gather each tensor of a list, tuple or dict.
GATHERS = ("lightning.pytorch.LightningModule.all_gather", "lightning.fabric.Fabric.all_gather")
#: Methods of texts that tensors don't have, and that return texts.
_OF_TEXTS = word_set(
    "strip lstrip rstrip lower upper title capitalize casefold format join splitlines removeprefix removesuffix "
    "batch_decode DecodeIds id_to_piece convert_ids_to_tokens convert_tokens_to_string isoformat hexdigest as_posix"
)
#: What decodes texts, by the start of its module and by a part of its name.
_DECODES = lazy(
    r"(?:sentencepiece|transformers|tokenizers|tiktoken)\.(?:\w+\.)*\w*(?:[Tt]oken|SentencePiece|Processor)"
)
#: A name, and no attribute.
_WORD = lazy(r"(?<![\w.])[^\W\d]\w*")
_KEEPS = word_set("list tuple sorted set reversed copy deepcopy")
_KEEPS_TEXTS = frozenset({"replace", "split", "copy"})
_ADDS = word_set("append extend insert add update setdefault")
#: Methods and functions that return tensors, arrays or numbers.
_OF_TENSORS = word_set(
    "detach cpu cuda to float half double long mean sum item tolist numpy argmax argmin softmax log_softmax sigmoid "
    "exp log unsqueeze squeeze view reshape flatten clone contiguous cat stack tensor as_tensor size len cross_entropy "
    "loss_fn criterion"
)
_MOST_STEPS = 40


class Content(Enum):
    """What a value holds that may be gathered."""

    #: nothing so far: a list that something may be appended to
    EMPTY = "empty"
    TEXTS = "texts"
    TENSORS = "tensors"
    UNKNOWN = "unknown"


def _together(parts: Iterable[Content]) -> Content:
    """Return what several parts hold."""
    found = set(parts)
    order = (Content.TENSORS, Content.UNKNOWN, Content.TEXTS)
    return next((one for one in order if one in found), Content.EMPTY)


def gathers_only_texts(call: SourceCall) -> bool:
    """Return whether a call of Lightning's ``all_gather`` certainly communicates nothing."""
    return call.is_to(*GATHERS) and _given(call) == Content.TEXTS


def may_gather_texts(call: SourceCall) -> bool:
    """Return whether a list that such a call gets may hold texts only, as far as that is known."""
    return call.is_to(*GATHERS) and _given(call) in (Content.UNKNOWN, Content.EMPTY)


def _given(call: SourceCall) -> Content:
    term = call.argument_term(0, "data")
    return Content.TENSORS if term < 0 else _Search(call.program).content(call, term)


class _Search:
    """The search for the content of one value."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.seen: set[tuple[int, int, int]] = set()

    def content(self, row: EventRow, term: int) -> Content:
        """Return what a term in a row holds.

        A value that is no list, and that nothing shows to be a text, is taken for a tensor.
        """
        key = (row.file, row.scope, term)
        if key in self.seen:
            return Content.EMPTY
        if len(self.seen) > _MOST_STEPS:
            return Content.UNKNOWN
        self.seen.add(key)
        parts = self.program.terms[row.file][term]
        kind = parts[0]
        if kind == "f" or (kind == "k" and parts[1] in ("str", "none")):
            return Content.TEXTS
        if kind in ("l", "t"):
            items = [self.content(row, one) for one in parts[1]]
            return _together([*items, *self._added(row, term)])
        if kind == "*":
            return self._item(row, parts[1])
        if kind in ("d", "{}"):
            items = [Content.UNKNOWN if one < 0 else self.content(row, one) for one in parts[2]]
            return _together([*items, *self._added(row, term)])
        if kind == "?":
            return _together(self.content(row, one) for one in parts[2:4])
        if kind == "|":
            return _together(self.content(row, one) for one in parts[1:3])
        if kind in ("and", "or"):
            return _together(self.content(row, one) for one in parts[1])
        if kind == "o":
            return self._of_operation(row, parts)
        if kind == "a":
            return self._of_attribute(row, parts)
        if kind == "c":
            return self._of_call(row, parts)
        if kind in ("s", "e", "x") and self.content(row, parts[1]) == Content.TEXTS:
            return Content.TEXTS
        return self._plain(row, term)

    def _item(self, row: EventRow, term: int) -> Content:
        """Return what an item of a list holds: nothing known, unless it is a text, a number or a result of torch."""
        found = self.content(row, term)
        terms = self.program.terms[row.file]
        kind = terms[term][0]
        if found != Content.TENSORS or kind in ("k", "o"):
            return found
        if kind == "c" and last_name(terms, terms[term][1]) in _OF_TENSORS:
            return found
        value = self.program.evaluator.value(row.file, term)
        known = any(atom.kind == Kind.RESULT and str(atom.const).startswith("torch.") for atom in value)
        return found if known else Content.UNKNOWN

    def _of_operation(self, row: EventRow, parts: tuple[Any, ...]) -> Content:
        _, operator, left, right = parts
        first = self.content(row, left)
        if operator == "%" and first == Content.TEXTS:
            return first
        if operator == "*" and first in (Content.TEXTS, Content.EMPTY):
            return first
        return _together((first, self.content(row, right))) if operator == "+" else Content.TENSORS

    def _of_attribute(self, row: EventRow, parts: tuple[Any, ...]) -> Content:
        """Return what an attribute holds: all that the project assigns to it, or adds to it."""
        name = parts[2]
        stored = [one for one in self.program.rows("attribute") if one.payload[1] == name]
        added = _added_to(self.program, name)
        if not stored or not any(self.program.terms[one.file][one.payload[2]][0] in ("l", "t", "d") for one in stored):
            return Content.TENSORS if not added else Content.UNKNOWN
        values = [self._stored(one, one.payload[2], name) for one in stored]
        return _together([*values, *(self._item(one, term) for one, term in added)])

    def _stored(self, row: EventRow, term: int, name: str) -> Content:
        """Return what is assigned to an attribute: what was there before, and what is added to it."""
        terms = self.program.terms[row.file]
        parts = terms[term]
        if parts[0] == "a" and parts[2] == name:
            return Content.EMPTY
        if parts[0] == "c" and last_name(terms, parts[1]) == "all_gather":
            return Content.EMPTY
        if parts[0] == "o" and parts[1] == "+":
            return _together(
                Content.EMPTY if terms[one][0] == "a" and terms[one][2] == name else self._filled(row, one)
                for one in parts[2:4]
            )
        return self._item(row, term)

    def _filled(self, row: EventRow, term: int) -> Content:
        """Return what a list holds that was filled before: not nothing."""
        found = self._item(row, term)
        return Content.UNKNOWN if found == Content.EMPTY else found

    def _of_call(self, row: EventRow, parts: tuple[Any, ...]) -> Content:
        terms = self.program.terms[row.file]
        _, callee, arguments, _, _, event = parts
        call = self.program.event_row(row.file, event)
        if not isinstance(call, SourceCall):
            return Content.UNKNOWN
        name, method = last_name(terms, callee), terms[callee][0] == "a"
        functions = self.program.functions(call)
        if functions:
            return _together(self._returned(function) for function in functions)
        if name in ("str", "repr") and not method:
            return Content.TEXTS
        if name in _KEEPS and not method and arguments:
            return self.content(row, arguments[0])
        if method and (name in _OF_TEXTS or (name == "decode" and _decodes(call))):
            return Content.TEXTS
        if method and name == "decode" and "tokenizer" in call.receiver_text.rpartition(".")[2].lower():
            return Content.UNKNOWN
        if method and name in _KEEPS_TEXTS and self.content(row, terms[callee][1]) == Content.TEXTS:
            return Content.TEXTS
        return Content.TENSORS

    def _returned(self, function: tuple[int, int]) -> Content:
        rows = [row for row in self.program.rows_of(*function) if row.kind == "return" and row.payload[0] >= 0]
        return _together(self._filled(row, row.payload[0]) for row in rows) if rows else Content.UNKNOWN

    def _added(self, row: EventRow, term: int) -> Iterator[Content]:
        """Yield what the function of a row adds to a list that a variable in the row holds."""
        span = row.span
        names = {
            name for line in self.program.lines(row.file)[span.line - 1 : span.end_line] for name in _WORD.findall(line)
        }
        for other in self.program.rows_of(row.file, row.scope):
            if isinstance(other, SourceCall) and other.method in _ADDS and other.argument_terms:
                variable = _WORD.match(other.text())
                if variable is not None and variable[0] in names and other.receiver_term == term:
                    yield from (self._item(other, one) for one in _items_of(other))
            elif other.kind == "store" and other.payload[0] == term:
                yield self._item(other, other.payload[2])

    def _plain(self, row: EventRow, term: int) -> Content:
        value = self.program.evaluator.value(row.file, term)
        texts = [
            atom.kind in (Kind.TEXT, Kind.ENV_TEXT) or (atom.kind == Kind.CONST and isinstance(atom.const, str))
            for atom in value
        ]
        if texts and all(texts):
            return Content.TEXTS
        return Content.UNKNOWN if value.has(Kind.LIST, Kind.TUPLE, Kind.DICT) else Content.TENSORS


@cached
def _added_to(program: Program, name: str) -> list[tuple[EventRow, int]]:
    """Return what is added to attributes of this name, or stored in them: rows and terms."""
    found: list[tuple[EventRow, int]] = []
    for call in program.calls_named(*sorted(_ADDS)):
        if _is_attribute(call, call.receiver_term, name):
            found += [(call, one) for one in _items_of(call)]
    stores = (row for row in program.rows("store") if _is_attribute(row, row.payload[0], name))
    return [*found, *((row, row.payload[2]) for row in stores)]


def _is_attribute(row: EventRow, term: int, name: str) -> bool:
    parts = row.program.terms[row.file][term]
    return term >= 0 and parts[0] == "a" and parts[2] == name


def _items_of(call: SourceCall) -> tuple[int, ...]:
    """Return what a call adds to its list or dict."""
    return call.argument_terms[1:] if call.method in ("insert", "setdefault") else call.argument_terms


def _decodes(call: SourceCall) -> bool:
    """Return whether a call certainly decodes texts: a model, or a tokenizer of images, may have a method so named."""
    known = [str(atom.const) for atom in call.receiver if atom.kind == Kind.RESULT]
    return any(_DECODES.match(one) for one in known)
