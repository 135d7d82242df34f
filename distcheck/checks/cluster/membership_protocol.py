"""The protocol of the membership check: its lines, what they hold, and its limits.

The caller sends one line. The server answers with one line a beat, and the last one contains ``done``. Each line ends
with a tag that only who knows the key of the job can make (HMAC-SHA256, RFC 2104). That of an answer is bound to the
``instance`` of the call. So no side sends the key, and no answer to another call counts. Refusals have no tag.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from distcheck._version import __version__
from distcheck.core.model import expand_ranges, rank_ranges

from .records import Caller, Roll
from .sockets import ROLL_MARK

#: Version of the protocol; another one is refused, and named.
PROTOCOL = 2
#: Longest payload of a host, in bytes as JSON: codes and a few sentences.
MOST_PAYLOAD_BYTES = 8 << 10
#: Longest line of a caller: a payload and its envelope.
MOST_LINE_BYTES = 2 * MOST_PAYLOAD_BYTES
#: The last line holds as many callers as fit, for each host ...
MOST_ANSWER_BYTES = 256 << 10
LOST_S = 10.0
#: Seconds to make one connection; a running host answers in a fraction of one.
CONNECT_S = 3.0
#: Seconds for the server's first line, and for a caller's.
SILENCE_S = 4.0
#: Seconds after the limit in which the last line is sent.
GRACE_S = 0.8
RETRY_FIRST_S, RETRY_MOST_S = 0.1, 1.0


class HostCheckIn(NamedTuple):
    """One host that joined, as it described itself."""

    host: str
    #: None: the launcher gives none, and the check counts hosts only
    node_rank: int | None = None
    #: ranks that it will start
    nproc: int | None = None
    #: number of hosts that it expects
    host_count: int | None = None
    #: what it sends, such as codes of its own findings
    payload: str = ""
    #: its address; empty for the host that serves
    address: str = ""


class MembershipProblem(NamedTuple):
    """Why the membership could not be checked here."""

    #: at a caller: ``refused``, ``timeout``, ``no-route``, ``unresolvable``, ``silent``, ``closed``, ``foreign``,
    #: ``other-run``, ``other-version``, ``lost``; at the server: ``port-taken``, ``port-privileged``,
    #: ``cannot-listen``, ``open-files``, ``other-run``, ``other-version``, ``not-own-address``
    kind: str
    address: str
    port: int
    #: the system's message, what answered, or the caller
    detail: str = ""
    #: the address belongs to this host itself
    own: bool = False


class MembershipAnswer(NamedTuple):
    """The result of the membership check, as this host knows it."""

    #: None if no server was reached; numbers are node ranks
    roll: Roll | None
    #: hosts by node rank; with very many hosts each caller learns only some
    callers: tuple[HostCheckIn, ...] = ()
    #: ``callers`` are all hosts that joined
    all_callers: bool = True
    #: ranks that the hosts will start together; None if one host did not state it
    ranks: int | None = None
    #: hosts that expect another number of hosts than the server
    disagreeing: tuple[HostCheckIn, ...] = ()
    #: hosts that joined and disconnected before the end
    left: tuple[HostCheckIn, ...] = ()
    problems: tuple[MembershipProblem, ...] = ()
    #: this host served
    served: bool = False
    #: a host had no node rank, so ``roll.missing`` counts hosts and does not name them
    anonymous: bool = False
    #: name of this host, and its node rank
    host: str = ""
    node_rank: int | None = None

    @property
    def complete(self) -> bool:
        """Return whether every host joined once, and all belong to one job."""
        roll = self.roll
        return roll is not None and roll.present >= roll.world_size and not (roll.surplus or self.disagreeing)


class MembershipError(OSError):
    """This host should serve the check and cannot listen; ``problem`` states why."""

    def __init__(self, problem: MembershipProblem) -> None:
        super().__init__(f"port {problem.port}: {problem.detail}")
        self.problem = problem


#: Called while the host waits: hosts that joined, hosts expected, missing ones in short.
Progress = Callable[[int, int, str], None]


class Rendezvous(NamedTuple):
    """The task of this host, and its deadline."""

    own: HostCheckIn
    host_count: int
    address: str
    port: int
    start: float
    timeout_s: float
    key: bytes
    #: identifies this call among all others, of the same host too
    instance: str
    progress: Progress | None

    @property
    def end(self) -> float:
        return self.start + self.timeout_s

    def report(self, present: int, of: int, missing: str) -> None:
        if self.progress is not None:
            self.progress(present, of, missing)

    def call(self, **more: Any) -> bytes:
        """Return the line of a caller."""
        return with_tag(make_line(instance=self.instance, **more), self.key, CALL)

    def answer(self, **more: Any) -> bytes:
        """Return a line of the server, without the tag for one caller."""
        return make_line(instance=self.instance, **more)


def digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def make_line(**fields: Any) -> bytes:
    message = {"distcheck": "roll", "v": PROTOCOL, "version": __version__, **fields}
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


#: What the tag of a caller's line is bound to; that of a server's line is bound to the instance of the call.
CALL = "call"
_TAG = re.compile(rb',"tag":"([0-9a-f]{64})"\}\Z')


def with_tag(line: bytes, key: bytes, to: str) -> bytes:
    """Return a line with the tag of who knows the key.

    :param to: ``call``, or the instance of the call that the line answers
    """
    body = line.rstrip(b"\n")
    return body[:-1] + b',"tag":"' + _tag(body, key, to) + b'"}\n'


def has_tag(line: bytes, key: bytes, to: str) -> bool:
    """Return whether a line, without its end, has the tag of who knows the key."""
    found = _TAG.search(line)
    return found is not None and hmac.compare_digest(found[1], _tag(line[: found.start()] + b"}", key, to))


def _tag(body: bytes, key: bytes, to: str) -> bytes:
    return hmac.new(key, to.encode() + b"\0" + body, hashlib.sha256).hexdigest().encode()


def read_line(line: bytes) -> dict[str, Any] | None:
    """Return a line of our protocol; None for any other."""
    if not line.startswith(ROLL_MARK):
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def text_of(value: object, most: int = 256) -> str:
    """Return a text from the network: bounded, without control characters for a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in value[:most]) if isinstance(value, str) else ""


def count_of(value: object, most: int = 1 << 20) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None


def host_call(message: Mapping[str, Any], address: str = "") -> HostCheckIn:
    return HostCheckIn(
        text_of(message.get("host")),
        count_of(message.get("node_rank")),
        count_of(message.get("nproc")),
        count_of(message.get("host_count")),
        payload if isinstance(payload := message.get("payload"), str) and len(payload) <= MOST_PAYLOAD_BYTES else "",
        address or text_of(message.get("address")),
    )


def fields_of(call: HostCheckIn) -> dict[str, Any]:
    return {name: value for name, value in call._asdict().items() if value not in (None, "")}


def write_answer(rendezvous: Rendezvous, answer: MembershipAnswer, most: int) -> bytes:
    """Return the last line, with as many callers as fit: those with a payload first."""
    calls = sorted(answer.callers, key=lambda call: not call.payload)
    room = most - 4096
    chosen = []
    for call in calls:
        room -= len(json.dumps(fields_of(call))) + 1
        if room < 0:
            break
        chosen.append(call)
    roll = {
        "world_size": rendezvous.host_count,
        "present": 0 if answer.roll is None else answer.roll.present,
        "missing": "" if answer.roll is None else rank_ranges(answer.roll.missing),
        "surplus": [] if answer.roll is None else [list(item) for item in answer.roll.surplus],
    }
    return rendezvous.answer(
        done=True,
        of=rendezvous.host_count,
        roll=roll,
        callers=[fields_of(call) for call in chosen],
        all_callers=len(chosen) == len(calls),
        ranks=answer.ranks,
        disagreeing=[fields_of(call._replace(payload="")) for call in answer.disagreeing],
        left=[fields_of(call._replace(payload="")) for call in answer.left],
        anonymous=answer.anonymous,
    )


def own_answer(rendezvous: Rendezvous, status: Mapping[str, Any]) -> MembershipAnswer:
    """Return what is known if this host's time is over before the server's."""
    of = count_of(status.get("of")) or rendezvous.host_count
    roll = Roll(
        world_size=of,
        present=count_of(status.get("present")) or 0,
        missing=_read_ranges(status.get("missing"), of),
        waited_s=round(time.monotonic() - rendezvous.start, 3),
        timeout_s=rendezvous.timeout_s,
        of="hosts",
    )
    own = rendezvous.own
    return MembershipAnswer(roll, (own,), all_callers=False, disagreeing=(own,) if of != rendezvous.host_count else ())


def read_answer(rendezvous: Rendezvous, message: Mapping[str, Any]) -> MembershipAnswer:
    plain = message.get("roll")
    plain = plain if isinstance(plain, dict) else {}
    of = count_of(plain.get("world_size")) or rendezvous.host_count
    roll = Roll(
        world_size=of,
        present=count_of(plain.get("present")) or 0,
        missing=_read_ranges(plain.get("missing"), of),
        surplus=tuple(
            Caller(count_of(item[0]) or 0, text_of(item[1]), 0, count_of(item[3]))
            for item in _listed(plain.get("surplus"))
            if isinstance(item, list) and len(item) == 4
        ),
        waited_s=round(time.monotonic() - rendezvous.start, 3),
        timeout_s=rendezvous.timeout_s,
        of="hosts",
    )
    calls = [host_call(item) for item in _listed(message.get("callers")) if isinstance(item, dict)]
    calls.sort(key=lambda call: (call.node_rank is None, call.node_rank or 0, call.host))
    return MembershipAnswer(
        roll,
        tuple(calls),
        all_callers=bool(message.get("all_callers")),
        ranks=count_of(message.get("ranks")),
        disagreeing=tuple(host_call(item) for item in _listed(message.get("disagreeing")) if isinstance(item, dict)),
        left=tuple(host_call(item) for item in _listed(message.get("left")) if isinstance(item, dict)),
        anonymous=bool(message.get("anonymous")),
    )


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _read_ranges(value: object, of: int) -> tuple[int, ...]:
    return tuple(expand_ranges(value, of)) if isinstance(value, str) else ()
