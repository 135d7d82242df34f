"""The shared memory of containers that a launch line starts itself (``docker run``).

The contents of an image and the setup of a daemon are unknown. Pods are checked in ``pods.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from distcheck import rules
from distcheck.core.model import Finding, Fix
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .context import CONTAINER_PROGRAMS, worst_per_location
from .counts import ranks_on_node
from .model import LaunchFiles, LaunchSite, Word
from .pods import CONTAINER_DEFAULT_BYTES, NEEDED_PER_RANK_BYTES, SMALL_BYTES

_LAUNCHER = lazy(r"(?:.*/)?(?:torchrun|accelerate|deepspeed|ds|python[0-9.]*|bash|sh)")
#: What gives GPUs to a container (docker-run(1), CDI device names).
_GIVES_GPUS = lazy(r"--gpus(?:=.*)?|--runtime=nvidia|nvidia\.com/gpu=.*|--device=nvidia\.com/gpu=.*|nvidia")
#: Options of docker run without a value (docker-run(1)). After any other option a variable is its value.
_FLAGS = frozenset(
    {"--rm", "-d", "-i", "-t", "-it", "-ti", "-dit", "-itd", "--detach", "--init", "--privileged", "run"}
)
_SIZE = lazy(r"([0-9]{1,12})([bkmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@probe(rules.DC320)
@worst_per_location
def container_has_shared_memory(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A container with GPUs and several ranks has more shared memory than Docker's default of 64 MiB."""
    for _, site in launch_files.sites():
        yield from _judge(site)


def _judge(site: LaunchSite) -> Iterator[Finding]:
    ranks = ranks_on_node(site)
    if ranks is None or ranks < 2 or not CONTAINER_PROGRAMS.intersection(site.command.wrappers):
        return
    words = _own_words(site)
    texts = [word.text for word in words]
    if "run" not in texts or _is_open(words):
        return
    if not texts[0].endswith("nvidia-docker") and not any(map(_GIVES_GPUS.fullmatch, texts)):
        return
    if any("/dev/shm" in text for text in texts) or site.value("--ipc") is not None:
        return
    needed = max(ranks * NEEDED_PER_RANK_BYTES, SMALL_BYTES)
    given = site.value("--shm-size")
    size = CONTAINER_DEFAULT_BYTES if given is None else _bytes(given.text)
    if size is None or size >= needed:
        return
    program = texts[0].rpartition("/")[2]
    run = words[texts.index("run")]
    stated = f"--shm-size={given.text}" if given is not None else f"no --shm-size, so 64 MiB (the default of {program})"
    yield rules.DC320.found(
        f"the container is started with {stated}; NCCL of {ranks} ranks can need {needed >> 20} MiB at /dev/shm",
        where=site.where(words[0], object="/dev/shm"),
        evidence={"total_bytes": size, "ranks": ranks, "needed_bytes": needed},
        fix=Fix(
            f"write {program} run --shm-size=16g …, or --ipc=host",
            edits=(run.span.followed_by(" --shm-size=16g"),) if given is None else (),
            where="launch-line",
            risk="what the ranks put there takes the host's memory, up to 16 GiB",
        ),
    )


def _own_words(site: LaunchSite) -> list[Word]:
    """Return the words from ``docker`` up to the command in the container. The last one is the image."""
    words: list[Word] = []
    for word in site.words:
        name = word.text.rpartition("/")[2]
        if words and _LAUNCHER.fullmatch(word.text):
            return words
        if words or name in CONTAINER_PROGRAMS:
            words.append(word)
    return words


def _is_open(words: list[Word]) -> bool:
    """Return whether a variable may hold further options."""
    for before, word in pairwise(words[:-1]):
        if word.text.startswith(("$", "`")) and (not before.text.startswith("-") or before.text in _FLAGS):
            return True
    return False


def _bytes(size: str) -> int | None:
    """Return a size as Docker parses it (``16g``, ``512mb``) in bytes, or None if unknown."""
    match = _SIZE.fullmatch(size.strip())
    return None if match is None else int(match[1]) * _UNITS[match[2].lower()]
