"""What a container of a pod gets: command, variables, GPUs, CPUs, memory, shared memory and network.

Each function reads one part of a container or pod as Kubernetes does. Values from a template, a patch or another
object are unknown. ``workloads.py`` finds the pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from distcheck.core.patterns import lazy
from distcheck.core.spans import Span

from .fragments import Fragment, FragmentBuilder
from .model import FileSetting, Scalar, Word
from .yaml_text import Node

#: Resources for whole GPUs; parts of GPUs (MIG, shared) have other names.
_GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "gpu.intel.com/i915", "gpu.intel.com/xe")
#: Names of resources that may be GPUs, or parts of some.
_PERHAPS_GPU = lazy(r"gpu|mig-|gaudi|accelerator|neuron|npu|mlu|ascend|cuda|tpu", re.IGNORECASE)
#: Suffixes of a quantity (Kubernetes API reference, "Quantity").
_SUFFIXES: Mapping[str, float] = {
    "": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
}  # fmt: skip
_QUANTITY = lazy(r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))(?:([numkMGTPE]i?|Ki)?|[eE]([+-]?[0-9]{1,2}))")
#: A reference to a variable of the container in its command, arguments or variables; ``$$`` is one dollar sign.
_REFERENCE = lazy(r"\$\$|\$\(([^()\n]*)\)")
#: Longest value that replaces a reference, so that a text can't grow without bound.
_MAX_VALUE_LENGTH = 4096
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ash", "ksh"})
_COMMAND_OPTION = lazy(r"[-+][A-Za-z]*c[A-Za-z]*")


class Resources(NamedTuple):
    """The limits of a container. None means that none is set; an unknown value means that something else sets it."""

    gpus: Scalar | None = None
    #: CPU time in CPUs, whole or not
    cpus: Scalar | None = None
    memory_bytes: Scalar | None = None


def quantity(text: str) -> int | float | None:
    """Return the number of a Kubernetes quantity (``64Gi``, ``500m``, ``1e3``), or None if it is none.

    The unit is that of the resource: CPUs, bytes, or pieces.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    factor = 10.0 ** int(match[3]) if match[3] else _SUFFIXES.get(match[2] or "")
    if factor is None:
        return None
    number = float(match[1]) if "." in match[1] else int(match[1])
    result = number * factor
    return int(result) if result == int(result) else result


def settings_of(container: Node) -> tuple[FileSetting, ...]:
    """Return the variables of a container in their order. The last one of each name counts."""
    found: dict[str, FileSetting] = {}
    for item in entries(container.get("env")):
        key = item.get("name")
        name = known_text(item, "name")
        if key is None or not name or key.kind != "value" or key.open_ended:
            continue
        node = item.get("value")
        value: str | None = None
        value_span = None
        written = ""
        if node is not None and node.kind == "value":
            value_span = node.span
            written = node.written
            if not node.open_ended:
                known = {other.name: other for other in found.values()}
                value = expanded(node.fragment(), known).text
                if _REFERENCE.search(value):
                    value = None
        elif node is None and item.get("valueFrom") is None:
            value = ""
        found.pop(name, None)
        found[name] = FileSetting(
            name, value, item.span, key.fragment().span(0, len(key.decoded)), value_span, "container", written=written
        )
    return tuple(found.values())


def environ_of(
    settings: Iterable[FileSetting], injected: Iterable[str], variables: Mapping[str, str | None], span: Span
) -> dict[str, FileSetting]:
    """Return the variables that the command of a container gets. A value that an operator overrides is unknown.

    :param injected: names that the operator sets, over those of the container
    :param variables: further names that it may set; None is an unknown value
    :param span: their location
    """
    environ = {setting.name: setting for setting in settings}
    for name in injected:
        if name in environ:
            environ[name] = environ[name]._replace(value=None)
    for name, value in variables.items():
        environ[name] = FileSetting(name, value, span, span, None, "container")
    return environ


def expanded(fragment: Fragment, environ: Mapping[str, FileSetting]) -> Fragment:
    """Return a text with ``$(NAME)`` replaced by the container's variables, as the kubelet does it.

    Other references stay: ``$(hostname)`` is for the shell.
    """
    text = fragment.text
    if "$$" not in text and "$(" not in text:
        return fragment
    made = FragmentBuilder()
    position = 0
    for match in _REFERENCE.finditer(text):
        if match[1] is None:
            value: str | None = "$"
        else:
            setting = environ.get(match[1])
            value = None if setting is None else setting.value
        if value is None or len(value) > _MAX_VALUE_LENGTH:
            continue
        if position < match.start():
            made.add(fragment.part(position, match.start()))
        if value:
            made.add_text(value, fragment.location(match.start()))
        position = match.end()
    if position < len(text):
        made.add(fragment.part(position, len(text)))
    return made.fragment(fragment.path, fragment.location(0))


def word_of(node: Node, environ: Mapping[str, FileSetting]) -> Word:
    fragment = node.fragment()
    origins = [
        span
        for match in _REFERENCE.finditer(fragment.text)
        if match[1] is not None and match[1] in environ and (span := environ[match[1]].value_span) is not None
    ]
    span = fragment.span(0, len(fragment.text))
    return Word(expanded(fragment, environ).text, span, node.decoded, tuple(origins))


def shell_text_of(words: list[str], *, entry_point_known: bool) -> int | None:
    """Return the index of the word that a shell reads as its text (``bash -c TEXT``), or None."""
    start = 0 if not entry_point_known else None
    for index, word in enumerate(words):
        if word.rpartition("/")[2] in _SHELLS:
            start = index + 1
            break
    if start is None:
        return None
    for index in range(start, len(words) - 1):
        word = words[index]
        if _COMMAND_OPTION.fullmatch(word):
            # the text follows, perhaps after further options and their values (-c -e TEXT is parsed the same way)
            following = index + 1
            while following < len(words) - 1 and words[following][:1] in ("-", "+"):
                following += 2 if words[following][1:] in ("o", "O", "eo", "euo", "exo", "euxo") else 1
            return following
        if word[:1] not in ("-", "+") and not (index and words[index - 1].endswith("o")):
            return None
    return None


def command_of(container: Node) -> tuple[str, ...]:
    """Return the words of the command, each cut to a maximum length. They are searched, never run."""
    parts = (container.get("command"), container.get("args"))
    nodes = [node for part in parts if part is not None for node in (part.items or (part,))]
    return tuple(node.text[:_MAX_VALUE_LENGTH] for node in nodes if node.kind == "value")


def resources_of(resources: Node | None) -> Resources:
    """Return GPUs, CPUs and memory of a container by its limits. GPUs are None if it requests none."""
    if resources is None:
        return Resources()
    if resources.kind != "table":
        return Resources(gpus=Scalar(None, resources.span, known=False) if resources.open_ended else None)
    limits = resources.get("limits")
    gpus: Scalar | None = None
    # Kubernetes uses a limit of GPUs for the request as well and refuses a request alone; templates drop one of them
    for part in (limits, resources.get("requests")):
        if gpus is not None or part is None:
            continue
        name = next((name for name in _GPU_RESOURCES if name in part.table), None)
        if name is not None:
            gpus = _amount(part, name)
        elif part.open_ended or any(_PERHAPS_GPU.search(name) for name in part.table):
            gpus = Scalar(None, part.span, known=False)
    if gpus is None and (resources.open_ended or resources.get("claims") is not None):
        gpus = Scalar(None, resources.span, known=False)
    return Resources(gpus, _amount(limits, "cpu"), _amount(limits, "memory"))


def gets_limited_gpus(pod: Node, container: Node) -> bool:
    """Return whether a container gets exactly the GPUs of its limits: it is no patch and uses the device plug-in."""
    if container.get("image") is None or container.open_ended or pod.get("runtimeClassName") is not None:
        return False
    return not any(known_text(item, "name") == "NVIDIA_VISIBLE_DEVICES" for item in entries(container.get("env")))


def _amount(table: Node | None, name: str) -> Scalar | None:
    """Return a quantity as a number, unknown if it is none."""
    node = None if table is None else table.get(name)
    if node is None or node.is_null:
        return None
    scalar = node.scalar
    number = quantity(node.decoded) if scalar.known else None
    return scalar._replace(value=number, known=number is not None)


def shared_memory_of(template: Node, pod: Node, container: Node) -> tuple[str, Scalar | None]:
    """Return what is mounted at /dev/shm of a container and its size, in the terms of ``Pods``."""
    host = pod.value("hostIPC")
    if host is not None and (host.value is True or not host.known):
        return "host" if host.known else "unknown", None
    mounts = container.get("volumeMounts")
    for mount in entries(mounts):
        path = mount.value("mountPath")
        if path is None or path.known is False:
            return "unknown", None
        if str(path.value).rstrip("/") in ("/dev/shm", "/dev"):
            return _volume(pod, known_text(mount, "name"))
    unsure = (mounts, pod.get("volumes"), container, pod)
    if any(node is not None and node.open_ended for node in unsure):
        return "unknown", None
    # a container without an image patches one in another file
    if container.get("image") is None or any("shm" in name.lower() for name in _annotations(template)):
        return "unknown", None
    return "default", None


def _volume(pod: Node, name: str | None) -> tuple[str, Scalar | None]:
    volume = next((item for item in entries(pod.get("volumes")) if known_text(item, "name") == name), None)
    if volume is None or name is None:
        return "unknown", None
    if "hostPath" in volume.table:
        return "host", None
    empty = volume.get("emptyDir")
    if empty is None:
        return "unknown", None
    if empty.kind == "table" and empty.get("sizeLimit") is not None:
        return "mounted", _amount(empty, "sizeLimit")
    return "mounted", None


def host_network_of(template: Node, pod: Node) -> bool | None:
    """Return whether the pod uses the network of its node; None if it may get a further network."""
    value = pod.value("hostNetwork")
    if value is not None:
        return value.value if value.known and isinstance(value.value, bool) else None
    # Multus: k8s.v1.cni.cncf.io/networks; clouds have other annotations for further interfaces
    if pod.open_ended or any("network" in name or "interface" in name for name in _annotations(template)):
        return None
    return False


def _annotations(template: Node) -> Iterable[str]:
    node = template.get("metadata", "annotations")
    if node is None:
        return ()
    return ("network shm",) if node.open_ended else node.table


# nodes


def entries(node: Node | None) -> tuple[Node, ...]:
    return node.items if node is not None and node.kind == "list" else ()


def known_text(node: Node, *path: str) -> str | None:
    """Return the known text at the end of a path, or None."""
    found = node.get(*path)
    if found is None or found.kind != "value" or found.open_ended or found.is_null:
        return None
    return found.decoded
