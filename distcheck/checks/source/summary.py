"""What is kept of one source file: its values as a table of terms, what it does as a list of events.

A summary holds plain tuples, lists, numbers and texts only, so that :mod:`marshal` can store it, and nothing that
depends on where the file lies or on any other file. It is made by :mod:`.extract` and read by :mod:`.program`.

Terms (``Summary.terms``; operands are indices into the same table unless noted otherwise):

================================  ==================================================================
``("k", type, value)``            a constant; type is ``int``, ``str``, ``bool``, ``float``, ``none`` or ``other``
``("p", scope, name)``            a parameter of a function
``("v", scope, name)``            a variable as seen from a scope, not narrowed to one assignment
``("i", dotted)``                 what an import statement binds; leading dots are those of a relative import
``("a", base, name)``             an attribute
``("c", callee, args, keywords, star, event)``  a call: tuple of terms, tuple of (name, term), ``*`` or ``**`` given,
its event
``("s", base, index)``            a subscript
``("o", operator, left, right)``  arithmetic; operators as in source
``("u", operator, operand)``      ``not``, ``-``, ``+``, ``~``, ``await``, ``reduced`` (after an in-place collective)
``("=", operator, left, right)``  a comparison
``("and", terms)``, ``("or", terms)``
``("?", test, yes, no)``          a value that depends on a test: a conditional expression, or an ``if`` that assigned
it
``("|", first, second)``          either value (after a loop, a ``try``)
``("t", terms)``, ``("l", terms)``, ``("d", keys, values)``  tuple, list or set, dict; a set has ``"set"`` behind its
terms
``("{}", keys, values)``          the items of a dict at one point, which nothing uses until a call gets them
``("*", element, iterable, kind, tests…)``  a comprehension; kind is -1 for a generator expression,
-2 for a set, else 0; tests are its conditions
``("e", iterable)``               an element of an iterable: a loop variable
``("x", value, position)``        one item of an unpacked value
``("w", context)``                what a ``with`` statement binds
``(":", terms)``                  a slice: first, last, step; -1 for what is skipped
``("f", terms)``                  an f-string: its texts and values
``("fn", scope, name)``, ``("cls", class, name)``  a function, a class of this file
``("-",)``                        not known
================================  ==================================================================

Events are tuples ``(kind, scope, place, line, column, end_line, end_column, *payload)`` in order of evaluation; columns
are byte offsets from 0, as :mod:`ast` counts them:

=============  ====================================================================================
``call``       term, use (``drop``, ``return``, ``assign:NAME``, ``arithmetic``, ``attribute``, ``compare``,
``argument``, ``value`` …)
``return``     term (or -1); ``yield``: term
``assert``     term: what is true from here on
``exit``       ``return``, ``raise``, ``break``, ``continue`` or ``call`` (``sys.exit``)
``attribute``  base, name, value: an attribute is assigned
``store``      base, index, value, operator: a subscript is assigned (operator ``=``, ``+=`` …)
``bind``       name, value: a name is assigned
``compare``    term: a comparison with a literal number
``or``         term, use as of a call; ``choice``: term of a conditional expression
``import``     dotted name of what one import statement binds, as written
``read``       term: a subscript of something called ``environ``
``text``       a literal text that may matter (an address, a launcher)
=============  ====================================================================================

Blocks form a tree, ``(parent, kind, term, polarity, line, end_line)`` with kinds ``if``,
``exit:KIND`` (the rest of a block
after others have left it), ``for``, ``while``, ``try``, ``except``, ``finally``, ``else``, ``with``, ``lambda``.
"""

from __future__ import annotations

import marshal
from typing import Any, NamedTuple

#: Grows with every change of what extract makes, so that cached summaries of older engines are not taken.
ENGINE_VERSION = 15


#: A node of the tree of blocks: (parent, kind, term, polarity, line, end line)
Block = tuple[int, str, int, bool, int, int]


class Scope(NamedTuple):
    """A function, method, lambda, class body or the module itself (index 0)."""

    name: str
    qualified: str
    #: ``module``, ``function``, ``lambda`` or ``class``
    kind: str
    #: the enclosing scope, -1 for the module
    parent: int
    #: the class whose body this is or stands in, -1 elsewhere
    owner: int
    #: (name, default term or -1, ``*``, ``**`` or empty)
    parameters: tuple[tuple[str, int, str], ...]
    decorators: tuple[int, ...]
    #: where it is defined
    block: int
    line: int
    end_line: int
    #: name to terms of everything that is assigned to it here
    bindings: dict[str, list[int]]
    #: modules of ``from … import *``
    stars: list[str]


class Class(NamedTuple):
    """A class of the file."""

    name: str
    scope: int
    bases: tuple[int, ...]
    line: int


class Header(NamedTuple):
    """What is decided by every file, also where its events are not."""

    #: (line, text) of comments that may suppress findings
    comments: list[tuple[int, str]]
    #: why the file can't be analysed: text, line, column (from 1); None where it can
    problem: tuple[str, int, int] | None
    #: ``if __name__ == "__main__"`` stands in it
    has_main_guard: bool
    #: dotted names of all imports, as written
    imports: list[str]
    #: what each outermost function or class calls, and the module itself, whose name is empty: (name, last names, and
    #: dotted names of what is imported)
    calls: list[tuple[str, list[str]]]


class FileSummary(NamedTuple):
    """One file. See the module's text for terms, events and blocks."""

    header: Header
    terms: list[tuple[Any, ...]]
    events: list[tuple[Any, ...]]
    blocks: list[Block]
    scopes: list[tuple[Any, ...]]
    classes: list[tuple[Any, ...]]


def pack(summary: FileSummary) -> bytes:
    """A summary as :mod:`marshal` stores it, its header alone before the rest."""
    header = marshal.dumps(tuple(summary.header))
    return len(header).to_bytes(4, "little") + header + marshal.dumps(tuple(summary[1:]))


def unpack_header(stored: bytes) -> Header:
    """Return the header of a stored summary; raises ValueError where it is damaged."""
    try:
        plain: Any = marshal.loads(stored[4 : 4 + int.from_bytes(stored[:4], "little")])  # noqa: S302 - plain values
        return Header(*plain)
    except (ValueError, TypeError, EOFError) as error:
        raise ValueError(str(error)) from error


def unpack(stored: bytes) -> FileSummary:
    """A stored summary; raises ValueError where it is damaged."""
    header = unpack_header(stored)
    try:
        plain: Any = marshal.loads(stored[4 + int.from_bytes(stored[:4], "little") :])  # noqa: S302 - plain values
        return FileSummary(header, *plain)
    except (ValueError, TypeError, EOFError) as error:
        raise ValueError(str(error)) from error
