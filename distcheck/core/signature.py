"""The type of signatures: a text in the log of a failed job, in RE2 syntax, and what it means."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    """What a line means, the strongest first: a consequence is never reported if its cause is known."""

    #: the line alone shows what went wrong
    CAUSE = 1
    #: something failed here, and the line does not show why: an exception, a class of NCCL's results
    FAILURE = 2
    #: a process waited too long; other lines may show for which one
    TIMEOUT = 3
    #: another process exited: the cause is there
    LOST = 4
    #: this process was signalled to stop
    SIGNAL = 5
    #: a launcher's summary of what its workers did
    TABLE = 6
    #: worth knowing, but no failure
    NOTICE = 7
    #: a fact about the job (its size, versions, settings), neither good nor bad
    RECORD = 8


class Signature(NamedTuple):
    """A text to search for. Rows of these are data; probes decide what they mean in a log.

    ``pattern`` is in the syntax that RE2 and Python's ``re`` share (https://github.com/google/re2/wiki/Syntax), for
    bytes decoded as Latin-1: no lookaround, no backreference, no possessive repetition, no inline flag but a leading
    ``(?i)``. It matches inside one line: it holds no line break, and neither ``^`` nor ``$``, because prefixes of
    lines differ between launchers. It has one run of at least four literal characters outside of groups, by which a
    search without RE2 finds candidates. Several spellings are several rows.

    :param name: the name that probes use; rows with one meaning share a name
    :param kind: what it means
    :param pattern: the text; named groups become the values of the event
    :param examples: lines that it matches, in the program's format
    :param codes: the rules that it may lead to; probes may need more than the line
    """

    name: str
    kind: Kind
    pattern: str
    examples: tuple[str, ...]
    codes: tuple[str, ...] = ()
