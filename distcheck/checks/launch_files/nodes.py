"""The nodes that jobs will run on, from facts that were saved on such a node.

A login node does not know the GPUs, CPUs and memory of the job's nodes. A file from ``distcheck env --save-facts`` on
such a node does.
"""

from __future__ import annotations

from collections.abc import Mapping

from distcheck.core.facts_file import FactsFileError, load_facts
from distcheck.core.files import read_record

from .model import Nodes

#: Limit of bytes in a facts file; real ones have some hundred thousand.
_MAX_BYTES = 50_000_000


class NodesError(ValueError):
    """The file has no facts about nodes; the message is a clause with the cause and what is expected."""


def read_nodes(path: str, *, of_a_checkout: bool = False) -> Nodes:
    """Return the nodes that a facts file describes; raises NodesError.

    :param of_a_checkout: a project names the file, so a pipe is not awaited
    """
    try:
        if of_a_checkout:
            return parse_nodes(read_record(path), path)
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_BYTES + 1)
    except IsADirectoryError:
        raise NodesError("it is a folder; name a file that 'distcheck env --save-facts' wrote on such a node") from None
    except OSError as error:
        raise NodesError(f"it can't be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise NodesError("it is not text; name a file that 'distcheck env --save-facts' wrote on such a node") from None
    if len(text) > _MAX_BYTES:
        raise NodesError(
            f"it has more than {_MAX_BYTES} characters; name a file that 'distcheck env --save-facts' wrote"
        )
    return parse_nodes(text, path)


def parse_nodes(text: str, origin: str) -> Nodes:
    """Return the nodes that the text of a facts file describes; raises NodesError."""
    from distcheck.checks.host.gpus import Gpus
    from distcheck.checks.host.interfaces import Interfaces
    from distcheck.checks.host.limits import Limits
    from distcheck.checks.host.platform import Platform

    known: dict[str, type] = {made.__name__: made for made in (Gpus, Platform, Limits, Interfaces)}
    try:
        facts = load_facts(text, known)
    except FactsFileError as error:
        raise NodesError(str(error)) from None
    nodes = nodes_of_facts(facts, origin)
    if nodes == Nodes(origin):
        raise NodesError("it has neither GPUs nor CPUs nor memory; save the facts on a node that jobs run on")
    return nodes


def nodes_of_facts(facts: Mapping[type, object], origin: str) -> Nodes:
    """Return the nodes of the given facts; missing and unavailable facts are unknown."""
    from distcheck.checks.host.gpus import Gpus
    from distcheck.checks.host.interfaces import Interfaces
    from distcheck.checks.host.limits import Limits
    from distcheck.checks.host.platform import Platform

    gpus, platform = facts.get(Gpus), facts.get(Platform)
    limits, interfaces = facts.get(Limits), facts.get(Interfaces)
    cards = [gpu for gpu in gpus.gpus if not gpu.lost] if isinstance(gpus, Gpus) else None
    names = sorted({gpu.name for gpu in cards or ()})
    return Nodes(
        origin,
        # if the GPUs could not be read, their number is unknown
        gpus=None if cards is None else len(cards),
        cpus=platform.cpus if isinstance(platform, Platform) else None,
        memory_bytes=limits.memory_total_bytes if isinstance(limits, Limits) else None,
        interfaces=(
            tuple(item.name for item in interfaces.interfaces if item.addresses and item.running is not False)
            if isinstance(interfaces, Interfaces)
            else None
        ),
        gpu_name=", ".join(names) or None,
    )
