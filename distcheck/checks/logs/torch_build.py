"""The torch that the job found: built without what it needs, hidden by a file, without libuv, behind a proxy.

:mod:`distcheck.rules.signatures.launch` holds the texts. This module separates causes that share a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from distcheck import rules
from distcheck.core.model import Fix, grouped
from distcheck.rules import shared_fixes
from distcheck.rules.signatures import Kind

from .context import came_through
from .launcher import AGENT, first_of_each
from .log_probe import LogFinding, log_probe, signature_probe
from .model import Event, Timeline

# DC120, DC121


_BUILD_WITH_DISTRIBUTED = Fix(
    "install a build that has it: those of pytorch.org for Linux do, and those for Windows from torch 1.7 on. The "
    "command prints True if it is there",
    command="python -c 'import torch.distributed as dist; print(dist.is_available())'",
    where="this-shell",
)


@log_probe(rules.DC120, rules.DC714)
def backend_was_built_in(timeline: Timeline) -> Iterator[LogFinding]:
    """torch has no such backend, or the backend has nothing for these tensors or this operation."""
    if events := timeline.of("distributed-absent"):
        yield LogFinding(
            events,
            f"the torch of this Python is built without torch.distributed: it has no {events[0].values['attribute']}",
            _BUILD_WITH_DISTRIBUTED,
        )
    yield from _absent_backends(timeline)
    yield from _absent_operations(timeline)


def _absent_backends(timeline: Timeline) -> Iterator[LogFinding]:
    groups = grouped(timeline.of("backend-absent"), lambda event: event.values.get("backend") or "CUDA")
    if not groups and (warned := _died_without_nccl(timeline)):
        groups["nccl"] = warned
    for backend, events in groups.items():
        known = backend.upper() in ("NCCL", "CUDA")
        if known and any(_is_on_windows(event) for event in events):
            fix = shared_fixes.GLOO_ON_WINDOWS
        elif known:
            fix = shared_fixes.BUILD_FOR_GPUS
        else:
            fix = Fix(f'use backend="nccl" or "gloo"; {backend} needs a torch that was built with it', where="code")
        built = "CUDA" if backend == "CUDA" else f"the backend {backend.lower()}"
        yield LogFinding(events, f"the torch of this Python is built without {built}", fix)


def _died_without_nccl(timeline: Timeline) -> list[Event]:
    """A warning that NCCL is not built in, and an exception of torch.distributed (or one that is cut off) after it."""
    warned = timeline.of("nccl-not-compiled")
    if not warned or timeline.went_on or any(event.kind is Kind.CAUSE for event in timeline.events):
        return []
    first = warned[0]
    raised = [
        event
        for event in timeline.of("exception")
        if event.source == first.source
        and event.line > first.line
        and event.traceback is not None
        and (not event.traceback.exception or came_through(event, "torch/distributed"))
    ]
    return [*warned[:1], *raised[:1]] if raised else []


def _is_on_windows(event: Event) -> bool:
    if event.signature == "nccl-not-compiled" and "\\" in event.text:
        return True
    return event.traceback is not None and any("\\" in frame.path for frame in event.traceback.frames)


def _absent_operations(timeline: Timeline) -> Iterator[LogFinding]:
    if devices := timeline.of("backend-for-other-device"):
        device = devices[0].values.get("device") or "cpu"
        other = "nccl" if device == "cpu" else "gloo"
        text = "move the tensor to this rank's GPU first" if device == "cpu" else "the group is for the CPU only"
        yield LogFinding(
            devices,
            f"the process group has no backend for tensors on the device {device}"
            + (f": it was made for {other} alone" if device in ("cpu", "cuda") else ""),
            Fix(f'{text}; or make the group for both: backend="cpu:gloo,cuda:nccl"', where="code"),
            rule=rules.DC714 if device == "cpu" else None,
        )
    for event in first_of_each(timeline.of("operation-absent"), "operation"):
        operation, backend = event.values.get("operation"), (event.values.get("backend") or "").strip().lower()
        if operation == "monitored_barrier":
            message = "monitored_barrier works with gloo alone, and the group has another backend"
            fix = Fix('give it a group of its own: dist.new_group(backend="gloo")', where="code")
        elif "AVG" in (operation or ""):
            message, fix = f"{backend} has no {operation}", Fix("sum, then divide by the world size", where="code")
        else:
            message = f"the backend {backend} has no {operation}"
            fix = Fix("use another operation, or a group with a backend that has it", where="code")
        yield LogFinding([event], message, fix)


@log_probe(rules.DC121)
def gpus_could_be_counted(timeline: Timeline) -> Iterator[LogFinding]:
    """torchrun was to count the GPUs, and there was none that it could use."""
    events = timeline.of("no-gpu-to-count")
    if events:
        device = (events[0].values.get("device") or "Cuda").lower()
        option = "xpu" if device == "xpu" else "gpu"
        yield LogFinding(
            events,
            f"--nproc-per-node={option} counts GPUs, and this process can use none",
            shared_fixes.NUMBER_OF_PROCESSES,
        )


# DC122, DC123, DC124


@log_probe(rules.DC122)
def torch_was_the_installed_one(timeline: Timeline) -> Iterator[LogFinding]:
    """``import torch`` took a file or a source tree that lies in the way."""
    shadowed, trees = timeline.of("module-shadowed"), timeline.of("source-tree-shadows")
    if shadowed:
        path = next((path for event in shadowed if (path := _shadow(event))), None)
        seen = f"{path} is taken for torch" if path else "something else is taken for torch, or for a part of it"
        remedy = f"rename {path}" if path else "rename the file or folder torch*, distributed* of the script's folder"
        yield LogFinding(
            shadowed,
            seen,
            Fix(f"{remedy}, and remove the compiled copy in __pycache__ next to it", where="code"),
        )
    if trees:
        yield LogFinding(
            trees,
            "import torch takes a source tree of torch whose extension is not built",
            shared_fixes.BUILD_THE_TREE,
        )


def _shadow(event: Event) -> str | None:
    """The file named torch that a traceback went through, or that its message names."""
    if "'torch' is not a package" in event.text:
        return "torch.py"
    frames = event.traceback.frames if event.traceback is not None else ()
    for frame in frames:
        path = frame.path.replace("\\", "/")
        if path.rpartition("/")[2] in ("torch.py", "distributed.py") and "site-packages" not in path:
            return path.rpartition("/")[2]
    named = re.search(r"\((?:consider renaming )?'?([^'()]*torch\.py)'?", event.text)
    return named[1].replace("\\", "/").rpartition("/")[2] if named else None


@signature_probe(rules.DC123, "no-libuv")
def store_needed_no_libuv(timeline: Timeline, events: Sequence[Event]) -> LogFinding:
    """The store was to be served with libuv, which torch for Windows lacks."""
    agent = any(came_through(event, *AGENT) for event in events)
    fix = (
        Fix(
            "torchrun takes no notice of USE_LIBUV: use WSL2, or start the ranks yourself with RANK, LOCAL_RANK, "
            "WORLD_SIZE, MASTER_ADDR and MASTER_PORT set for each, and USE_LIBUV=0",
            where="launch-line",
        )
        if agent
        else Fix("switch it off where all ranks get it", command="set USE_LIBUV=0", where="job-script", safe=True)
    )
    requested = "torchrun requests a store with libuv" if agent else "the store is requested with libuv"
    return LogFinding(events, f"{requested}, and this torch is built without it", fix)


@log_probe(rules.DC124)
def no_proxy_stood_before_etcd(timeline: Timeline) -> Iterator[LogFinding]:
    """A proxy refused a request of an etcd rendezvous; a download that a proxy refused is none of ours."""
    events = [
        event
        for event in timeline.events
        if (event.signature == "proxy-refused" or re.search(r"ProxyError|Tunnel connection failed", event.text))
        and ("etcd" in event.text.lower() or came_through(event, "etcd") or timeline.has("etcd"))
    ]
    if events:
        yield LogFinding(
            events,
            "a proxy refused a request to the etcd server of the rendezvous",
            Fix(
                "add the etcd host, or its domain with a leading dot, to no_proxy in the job script",
                where="job-script",
            ),
        )
