"""What could not be pickled, spawned, saved or loaded, as the log of a dead job shows it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from distcheck import rules
from distcheck.core.model import Fix
from distcheck.rules import shared_fixes

from .context import came_through, each_line_once, grouped, ranks_text, same_writer, value_of
from .log_probe import LogFinding, log_probe, signature_probe
from .model import Event, Timeline

#: Python's and torch's code that starts a process by pickling what it is to do.
_SPAWNING = (
    "multiprocessing/spawn.py",
    "multiprocessing/popen_spawn_posix.py",
    "multiprocessing/popen_spawn_win32.py",
    "multiprocessing/popen_forkserver.py",
)
#: Code that unpickles what another rank sent: what is broken there is no file.
_RECEIVING = ("distributed_c10d.py", "_tensor_to_object", "multiprocessing/queues.py", "multiprocessing/connection.py")
#: A helper of many projects, which gathers objects as bytes.
LIST_OF_ALL = "all_gather_list"
#: So many lines lie between a start of a process and what it could not pickle, at most.
_FRAMES = 16
_LOADING = ("torch/serialization.py", "torch.load(")
_READERS = ("torch/serialization.py", "torch/_weights_only_unpickler.py")
_SAVING = ("torch.save(", "os.replace(", "os.rename(", "shutil.move(", "save_checkpoint", "save_pretrained")
#: Groups, stores and work of torch.distributed, which are handles of this process.
_HANDLES = "torch._C._distributed_c10d"
#: What wrappers put before the names of parameters.
_PREFIXES = {
    "module.": "DistributedDataParallel",
    "_orig_mod.": "torch.compile",
    "_fsdp_wrapped_module.": "FSDP",
    "_forward_module.": "Lightning's strategy",
}
#: First bytes that are no pickle, as the operand that torch's unpickler stumbles over.
_NO_PICKLES = {"60": "a web page", "118": "a pointer of Git LFS", "123": "JSON", "80": "a zip archive"}


# writing


@log_probe(rules.DC601, rules.DC602, rules.DC605, at_first_failed=True)
def objects_pickle(timeline: Timeline) -> Iterator[LogFinding]:
    """Something could not be pickled: a handle of torch.distributed (DC602), what a process that is spawned was to get
    (DC605), or a member of what is saved or copied (DC601)."""
    events = list(timeline.of("unpicklable", "unpicklable-group"))
    if not events:
        yield from _lost_by_children(timeline)
        return
    for (kind, named), group in grouped(events, "type", "object"):
        first = group[0]
        what = kind or named or first.values.get("function") or "an object"
        if kind.startswith(_HANDLES) or "ProcessGroup" in what or first.signature == "unpicklable-group":
            yield _handle(timeline, group, what)
        elif _is_spawned(first) or _follows_a_spawn(timeline, first):
            yield _spawned(timeline, group, what)
        else:
            yield _member(timeline, group, what)


def _is_spawned(event: Event) -> bool:
    inherited = "through inheritance" in event.text or "context is being shared" in event.text
    return inherited or came_through(event, *_SPAWNING)


def _follows_a_spawn(timeline: Timeline, event: Event) -> bool:
    """Whether frames of a start of a process stand right before a line whose traceback is not whole."""
    return event.traceback is None and any(
        frame.source == event.source and 0 < event.line - frame.line <= _FRAMES for frame in timeline.of("spawn-frame")
    )


def _place(events: Sequence[Event]) -> str:
    """The line of the user's code, for a message."""
    for event in events:
        frame = event.traceback.users if event.traceback is not None else None
        if frame is not None:
            return f" ({frame.path}:{frame.line})"
    return ""


def _handle(timeline: Timeline, events: list[Event], what: str) -> LogFinding:
    shown = what.rpartition(".")[2] if what.startswith(_HANDLES) else "DistributedDataParallel on a group of its own"
    return LogFinding(
        events,
        f"an object holds a {shown}, which is a handle of this process and can't be pickled{_place(events)}",
        Fix(
            "remove it (__getstate__) and make it again with dist.new_group(ranks) after loading; deepcopy and save "
            "the model inside (model.module, its state_dict) before it is wrapped",
            where="code",
        ),
        evidence={"type": what},
        rule=rules.DC602,
    )


def _spawned(timeline: Timeline, events: list[Event], what: str) -> LogFinding:
    return LogFinding(
        events,
        f"a process could not be spawned: what it was to get holds {what}, which can't be pickled{_place(events)}",
        Fix(
            "define functions and classes at the top level of a module, without lambdas and local functions. "
            "Create locks, open files and generators inside the new process. A data loader on Linux may use "
            'multiprocessing_context="fork"',
            where="code",
        ),
        evidence={"type": what},
        rule=rules.DC605,
    )


def _member(timeline: Timeline, events: list[Event], what: str) -> LogFinding:
    return LogFinding(
        events,
        f"{what} can't be pickled{_place(events)}",
        Fix(
            "remove it (__getstate__) and make it again after loading; functions and classes must stand at the top "
            "of a module; save a state_dict rather than the object",
            where="code",
        ),
        evidence={"type": what},
        rule=rules.DC601,
    )


def _lost_by_children(timeline: Timeline) -> Iterator[LogFinding]:
    events = [event for event in timeline.of("spawned-child-lost-it") if event.traceback is None or _is_spawned(event)]
    if events:
        yield _spawned(timeline, events, value_of(events, "object") or "an object of the main script")


# reading


@log_probe(rules.DC611, rules.DC612, at_first_failed=True)
def weights_load_alone(timeline: Timeline) -> Iterator[LogFinding]:
    """torch.load refused a file that holds more than tensors (torch 2.6 and newer load only tensors by default).

    Where the operand that it stumbled over is the first byte of a web page or of a pointer, the file is broken (DC612).
    """
    events = list(timeline.of("weights-only"))
    named = timeline.of("weights-only-global")
    operands = timeline.of("weights-only-operand")
    first = events or [*named, *operands]
    if not first:
        return
    operand = value_of(operands, "operand")
    if not named and operand in _NO_PICKLES:
        yield LogFinding(
            first,
            f"the file is no checkpoint: it begins as {_NO_PICKLES[operand]} does",
            shared_fixes.FETCH_FROM_LFS if operand == "118" else shared_fixes.COPY_AGAIN,
            rule=rules.DC612,
        )
        return
    refused = list(dict.fromkeys(event.values["global"] for event in named if event.values.get("global")))
    shown = ", ".join(refused[:4])
    safe = all(part.isidentifier() for name in refused for part in name.split("."))
    yield LogFinding(
        first,
        "torch.load with weights_only=True refused the file: "
        + (f"it needs {shown}" if shown else "it holds more than tensors and plain values"),
        Fix(
            "read what these are. If you trust them, allow them before torch.load, or save the checkpoint again with "
            "plain values only. weights_only=False runs any code in the file: use it only for files that you wrote"
            if refused
            else "save it again as a plain dict of tensors and numbers. weights_only=False runs any code in the file: "
            "use it only for files that you wrote",
            command=_allow(refused[0]) if refused and safe and "." in refused[0] else None,
            where="code",
        ),
        evidence={"globals": refused[:16]},
    )


def _allow(name: str) -> str:
    module, _, member = name.rpartition(".")
    return f"from {module} import {member}\ntorch.serialization.add_safe_globals([{member}])"


@log_probe(rules.DC612, rules.DC720, at_first_failed=True)
def files_are_whole(timeline: Timeline) -> Iterator[LogFinding]:
    """A checkpoint is cut off, or is none; where several ranks were writing it, that is why (DC720).

    Left alone: what a child process or a collective could not unpickle, which is no file.
    """
    lost = [event for event in timeline.of("rename-lost") if came_through(event, *_SAVING) or event.traceback is None]
    if len({event.who.rank for event in lost if event.who.rank is not None}) > 1 or _others_renamed(timeline, lost):
        yield _torn(timeline, lost, value_of(lost, "to"))
        return
    events = [
        event
        for event in each_line_once(timeline.of("broken-file", "broken-pickle", "git-lfs-pointer"))
        if _is_a_file(timeline, event)
    ]
    events = events or [event for event in timeline.of("exception") if _is_of_a_loader(event)]
    if not events:
        return
    writers = _writers(timeline, events[0])
    if writers is not None:
        yield _torn(timeline, [*events, *writers], value_of(writers, "file"))
        return
    file = value_of(events, "file")
    why = value_of(events, "why") or ""
    pointer = any(event.signature == "git-lfs-pointer" for event in events) or value_of(events, "key") == "'v'"
    who = ranks_text(events)
    problem = "it is a pointer of Git LFS in place of the file" if pointer else why or "it ends too early"
    yield LogFinding(
        events,
        f"{f'the file {file}' if file else 'a file'} is broken{f', as {who} found' if who else ''}: "
        f"{problem}{_place(events)}",
        shared_fixes.FETCH_FROM_LFS if pointer else shared_fixes.COPY_AGAIN,
    )


def _is_a_file(timeline: Timeline, event: Event) -> bool:
    if event.signature != "broken-pickle":
        return True
    # the traceback of a process that was spawned may stand at another event of the line
    here = [other for other in timeline.events if (other.source, other.line) == (event.source, event.line)]
    return not any(came_through(other, *_SPAWNING, *_RECEIVING) or _is_of_a_list(other) for other in here)


def _is_of_a_list(event: Event) -> bool:
    frames = () if event.traceback is None else event.traceback.frames
    return any(frame.function == LIST_OF_ALL for frame in frames)


def _is_of_a_loader(event: Event) -> bool:
    """Whether torch.load raised an exception that names no file: of an empty or truncated one."""
    if event.traceback is None or not event.traceback.frames:
        return False
    last = event.traceback.frames[-1]
    if event.text.strip() == "EOFError":
        return last.path.replace("\\", "/").endswith(_READERS)
    return event.text.startswith("OSError: [Errno 22]") and "PyTorchFileReader(" in last.code


def _others_renamed(timeline: Timeline, lost: Sequence[Event]) -> bool:
    """Whether one rank could not rename a file that others saved under the same path."""
    names = {event.values.get("to") for event in lost}
    return bool(lost) and len({rank for rank, file in _saved(timeline) if file in names}) > 1


def _saved(timeline: Timeline) -> set[tuple[int, str]]:
    return {
        (event.who.rank, event.values["file"])
        for event in timeline.of("saving")
        if event.who.rank is not None and event.values.get("file")
    }


def _writers(timeline: Timeline, broken: Event) -> list[Event] | None:
    """Return the lines of several ranks that write one file before another rank finds it broken, or None."""
    by_file: dict[str, list[Event]] = {}
    for event in timeline.of("saving"):
        if event.attempt <= broken.attempt and event.who.rank is not None:
            by_file.setdefault(event.values.get("file") or "", []).append(event)
    for file, events in by_file.items():
        if (
            file
            and len({event.who.rank for event in events}) > 1
            and not any(_has_rank(file, event) for event in events)
        ):
            return events
    return None


def _has_rank(file: str, event: Event) -> bool:
    """Whether the name of a file may be this rank's own."""
    return f"rank{event.who.rank}" in file or f"rank_{event.who.rank}" in file or f"_{event.who.rank}." in file


def _torn(timeline: Timeline, events: list[Event], file: str | None) -> LogFinding:
    return LogFinding(
        events,
        f"several ranks write {file or 'one checkpoint'} at the same time, and it was torn{_place(events)}",
        Fix(
            "save on rank 0 only (if dist.get_rank() == 0), to another name and then os.replace, with a "
            "dist.barrier() on all ranks before anybody reads it",
            where="code",
        ),
        evidence={"file": file} if file else None,
        rule=rules.DC720,
    )


# what one rank creates and others use


@signature_probe(rules.DC722, "folder-exists")
def folders_are_created_once(timeline: Timeline, events: Sequence[Event]) -> LogFinding | None:
    """No rank could not create a folder because another rank had just done so.

    Where all ranks fail, the folder is of an earlier run.
    """
    events = [event for event in events if came_through(event, "mkdir(", "makedirs(") and event.who.rank is not None]
    failed_ranks = {event.who.rank for event in events}
    if not events or not _others_got_on(timeline, failed_ranks):
        return None
    folder = events[0].values["file"]
    once = "create it on rank 0, then call dist.barrier()"
    safe = any("exist_ok=True" in frame.code for event in events if event.traceback for frame in event.traceback.frames)
    return LogFinding(
        events,
        f"{ranks_text(events)} could not create the folder {folder}: another rank created it at the same time",
        Fix(once if safe else f"os.makedirs(folder, exist_ok=True); or {once}", where="code"),
        evidence={"folder": folder},
    )


@signature_probe(rules.DC724, "file-missing")
def files_are_there_when_read(timeline: Timeline, events: Sequence[Event]) -> LogFinding | None:
    """No rank used a file or a folder before the rank that creates it had done so.

    A missing parent folder of a checkpoint is enough where only ranks after the first miss it. Another file counts only
    if a different rank reports that it wrote it.
    """
    failed_ranks = {event.who.rank for event in events}
    events = [event for event in events if event.traceback is not None and event.who.rank is not None]
    events = [event for event in events if event.values.get("folder") or _is_written_elsewhere(timeline, event)]
    if not events or not _others_got_on(timeline, failed_ranks):
        return None
    name = events[0].values.get("folder") or events[0].values["file"]
    return LogFinding(
        events,
        f"{name} was not there when {ranks_text(events)} used it: the rank that creates it had not done so yet",
        Fix(
            "call dist.barrier() between the creation on one rank and the use on all; a folder can be created on every "
            "rank: os.makedirs(folder, exist_ok=True)",
            where="code",
        ),
        evidence={"file": name},
    )


def _others_got_on(timeline: Timeline, failed_ranks: Collection[int | None]) -> bool:
    """Whether the job has a rank that did not fail so."""
    size = timeline.world_size if timeline.world_size_known else None
    return 0 not in failed_ranks if size is None else size > len(failed_ranks)


def _is_written_elsewhere(timeline: Timeline, event: Event) -> bool:
    path = event.values.get("file") or ""
    return any(
        other.values.get("file") == path and same_writer(other.who, event.who) is False
        for other in timeline.of("saving")
    )


# states and devices


def _wrapper_moved(timeline: Timeline, prefix: str, missing: str, surplus: str) -> LogFinding:
    """A part of the model was wrapped when it was saved, and the whole is wrapped now."""
    return LogFinding(
        each_line_once([*timeline.of("state-keys"), *timeline.of("state-mismatch")]),
        f"the keys of the checkpoint have {prefix} inside ({surplus}), those of the model begin with it ({missing})",
        Fix(
            f"move it to the front: state = {{'{prefix}' + key.replace('.{prefix}', '.', 1): value for key, value in "
            "state.items()}",
            where="code",
        ),
        evidence={"prefix": prefix, "missing": missing, "unexpected": surplus},
    )


def _has_part(key: str | None, prefix: str) -> bool:
    """Whether a key has a wrapper's name at its beginning or inside."""
    return key is not None and (key.startswith(prefix) or f".{prefix}" in key)


@log_probe(rules.DC614, at_first_failed=True)
def keys_fit(timeline: Timeline) -> Iterator[LogFinding]:
    """load_state_dict misses every key because they carry a wrapper's prefix, or lack it.

    Other keys that don't fit are another model: no rule's matter.
    """
    missing = value_of([event for event in timeline.of("state-keys") if event.values.get("which") == "Missing"], "key")
    surplus = value_of(
        [event for event in timeline.of("state-keys") if event.values.get("which") == "Unexpected"], "key"
    )
    refused = timeline.of("state-key-refused")
    for prefix, wrapper in _PREFIXES.items():
        if refused and (key := refused[0].values["key"]).startswith(prefix):
            yield LogFinding(
                refused,
                f"a key of the checkpoint begins with {prefix} ({key}): it was saved from {wrapper}, and the model has "
                "no such key",
                shared_fixes.strip_prefix(prefix),
                evidence={"prefix": prefix, "unexpected": key},
            )
            return
        in_file = _has_part(surplus, prefix) and not _has_part(missing, prefix)
        in_model = _has_part(missing, prefix) and not _has_part(surplus, prefix)
        moved = bool(missing and surplus and surplus.replace(f".{prefix}", ".", 1) == missing.removeprefix(prefix))
        if moved and in_file is in_model:
            yield _wrapper_moved(timeline, prefix, missing or "", surplus or "")
            return
        if not (missing and surplus) or not (in_file or in_model):
            continue
        # the keys are what shows it
        events = each_line_once([*timeline.of("state-keys"), *timeline.of("state-mismatch")])
        inside = bool(surplus and in_file and not surplus.startswith(prefix))
        yield LogFinding(
            events,
            f"the keys of the checkpoint have {prefix} inside ({surplus}): a part of the model was in {wrapper} when "
            "it was saved"
            if inside
            else f"the keys of the checkpoint begin with {prefix} ({surplus}): it was saved from {wrapper}, and the "
            "bare model misses every one"
            if in_file
            else f"the model is wrapped in {wrapper}, so its keys begin with {prefix} ({missing}), and those of the "
            "checkpoint do not",
            Fix(
                f"take it out of each key: state = {{key.replace('.{prefix}', '.', 1): value for key, value in "
                "state.items()}",
                where="code",
            )
            if inside
            else shared_fixes.strip_prefix(prefix)
            if in_file
            else Fix("load into the model before it is wrapped, or into model.module", where="code"),
            evidence={"prefix": prefix, "missing": missing, "unexpected": surplus},
        )
        return


@log_probe(rules.DC723, at_first_failed=True)
def checkpoints_load_on_their_rank(timeline: Timeline) -> Iterator[LogFinding]:
    """torch.load put a checkpoint where it was saved from: a GPU that is not there, or GPU 0 for every rank.

    A GPU that is full counts only where torch.load filled it, and where a rank other than 0 used GPU 0.
    """
    events = list(timeline.of("checkpoint-device"))
    device = value_of(events, "device")
    if events:
        message = (
            f"the checkpoint was saved from GPU {device}, and this rank sees {value_of(events, 'count')}"
            if device
            else "the checkpoint was saved from a GPU, and this process sees none"
        )
    else:
        events = [event for event in timeline.events if _fills_gpu_0(event)]
        if not events:
            return
        message = f"{ranks_text(events)} ran out of memory on GPU 0 in torch.load, where every rank loads to"
    yield LogFinding(each_line_once(events), message, shared_fixes.load_to_the_cpu("path"))


def _fills_gpu_0(event: Event) -> bool:
    return (
        event.traceback is not None
        and "out of memory" in event.text
        and "GPU 0" in event.text
        and bool(event.who.rank)
        and came_through(event, *_LOADING)
    )
