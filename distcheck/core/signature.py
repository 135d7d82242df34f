"""What a signature is: a text of a dead job's log, in RE2 syntax, and what it testifies to."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    """What a line testifies to, the strongest first: a consequence is never told where its cause is seen."""

    #: says by itself what went wrong
    CAUSE = 1
    #: something failed here, and the line does not say why: an exception, a class of NCCL's results
    FAILURE = 2
    #: somebody waited for too long: for whom, others may say
    TIMEOUT = 3
    #: another process is gone: look there
    LOST = 4
    #: this process was told to stop
    SIGNAL = 5
    #: a launcher's summary of what its workers did
    TABLE = 6
    #: worth knowing, and no failure
    NOTICE = 7
    #: a fact about the job (its size, its versions, its settings), and neither good nor bad
    RECORD = 8


class Signature(NamedTuple):
    """A text to look for. Rows of these are data: what they mean in a log is for the probes to say.

    ``pattern`` is in the syntax that RE2 and Python's ``re`` share (https://github.com/google/re2/wiki/Syntax), for
    bytes taken as Latin-1: no look-around, no back-reference, no possessive repetition, no inline flag but a leading
    ``(?i)``. It matches inside one line: it holds no line break, and neither ``^`` nor ``$`` (what stands before a
    line's own text differs from launcher to launcher). It has one run of at least four literal characters outside of
    groups, by which a search that is not RE2's finds its candidates. Several spellings are several rows.

    :param name: what probes call it by; rows of one meaning share a name
    :param kind: what it testifies to
    :param pattern: the text; named groups become the values of the event
    :param examples: lines that it fits, in the true format and wording of our own where the program leaves room
    :param codes: the rules that it may lead to; probes may ask for more than the line
    """

    name: str
    kind: Kind
    pattern: str
    examples: tuple[str, ...]
    codes: tuple[str, ...] = ()
