"""One process of a host reads what is slow, and hands it to the processes that need it meanwhile.

The first process binds a name that the kernel keeps in memory (an abstract socket) and removes with the process, so no
file stays behind. Each side accepts only processes of its own user in its own namespaces. Linux only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import struct
import time
from collections.abc import Callable

from distcheck._version import __version__

#: Processes that wait for one reading: more than any host has GPUs.
_MOST_WAITING = 128
#: The end of an answer. A reader that is killed does not send it.
_END = b"\n"
_LONGEST_ANSWER = 4 << 20
#: A name that is bound has a listener within microseconds. After these tries the process reads for itself.
_TRIES, _RETRY_S = 20, 0.005


def read_together(name: str, read: Callable[[], bytes]) -> bytes:
    """Return what ``read`` returns, from this process or from one that reads the same now.

    :param name: what is read
    :param read: its value has no line break
    """
    digest = hashlib.sha256(f"{__version__}\0{os.geteuid()}\0{_namespaces('self')}\0{name}".encode()).hexdigest()
    address = f"\0distcheck-{digest[:32]}"
    for _ in range(_TRIES):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
            try:
                own.bind(address)
            except OSError:  # taken, or sockets are not allowed here
                pass
            else:
                own.listen(_MOST_WAITING)
                answer = read()
                _hand_on(own, answer)
                return answer
        try:
            handed_on = _handed_on(address)
        except ConnectionRefusedError:  # the name is bound a moment before it accepts, and released a moment later
            time.sleep(_RETRY_S)
            continue
        except OSError:  # the process that read has ended without an answer
            break
        if handed_on is not None:
            return handed_on
        break
    return read()


def _hand_on(own: socket.socket, answer: bytes) -> None:
    """Send the answer to all processes that wait for it."""
    own.setblocking(False)
    # another user may connect again and again
    for _ in range(4 * _MOST_WAITING):
        try:
            waiting, _ = own.accept()
        except OSError:  # none is left
            return
        with waiting, contextlib.suppress(OSError):  # one that does not wait any longer
            waiting.settimeout(1.0)
            if _is_equal(waiting):
                waiting.sendall(answer + _END)


def _handed_on(address: str) -> bytes | None:
    """Wait for the answer of the process that reads; None if it has none for this one. The caller limits the time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
        own.settimeout(1.0)
        own.connect(address)
        if not _is_equal(own):
            return None
        own.settimeout(None)
        answer = b""
        while (part := own.recv(1 << 16)) and len(answer) <= _LONGEST_ANSWER:
            answer += part
    return answer.removesuffix(_END) if answer.endswith(_END) else None


def _is_equal(connected: socket.socket) -> bool:
    """Return whether the other side is a process of this user in the same namespaces."""
    process, user, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return user == os.geteuid() and _namespaces(str(process)) == _namespaces("self") != ""


def _namespaces(process: str) -> str:
    try:
        return " ".join(os.readlink(f"/proc/{process}/ns/{kind}") for kind in ("mnt", "pid"))
    except OSError:  # it has ended
        return ""
