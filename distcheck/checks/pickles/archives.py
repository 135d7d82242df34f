"""Read zip archives, tar archives and compressed files. Each member is read by its content, bounded, never on disk."""

from __future__ import annotations

from .archives_tar import TarError, TarMember, tar_members
from .source_bytes import ByteSource, PartSource
from .stream_collector import Collector, counted, shown
from .torch_zip import Survey, is_torch_zip, read_torch_zip, report_odd_name, survey
from .unpacking import BrokenError, UnpackedSource
from .zip_directory import (
    CENTRAL,
    BadDirectoryError,
    Directory,
    archives_in_a_row,
    ends,
    members,
    torch_directory,
    usual_directory,
)
from .zip_members import after_descriptor, from_the_front, read_member

_FIX = "download or save the file again"
#: What makes a zip archive one of a kind that has a name, by what its members end with.
_KINDS = (
    ("/archive_format", "torch.export archive"),
    ("serialized_exported_program.json", "torch.export archive"),
    ("MAR-INF/MANIFEST.json", "torch model archive"),
)
#: Archives in one ``.distcp`` file that are checked.
_IN_A_ROW = 100_000


def read_zip(source: ByteSource, label: str | None, depth: int, notes: Collector, role: str | None) -> str:
    """Read what begins like a zip archive: torch's, several in a row, any other. The format in users' words."""
    row = archives_in_a_row(source, _IN_A_ROW)
    if row is not None:
        return read_row(row, label, depth, notes, role)
    records = ends(source)
    if not records:
        return _without_directory(source, label, depth, notes)
    torch, refusal = _torch_view(source, records[0])
    views = _usual_views(source, records)
    if torch is None and not views:
        notes.report(
            "malformed", f"it can't be read as a zip archive: {refusal}", offset=records[0], member=label, fix=_FIX
        )
        _hidden_in_front(source, source.size, label, depth, notes)
        return "zip archive"
    main = torch or views[0]
    found = survey(source, main, notes)
    if found.problem is not None:
        notes.report(
            "malformed", f"its directory can't be read: {found.problem}", member=label, offset=main.start, fix=_FIX
        )
    elif not found.count:
        notes.report("malformed", "it is an empty zip archive", member=label, fix=_FIX)
    if is_torch_zip(found):
        form = read_torch_zip(source, found, refusal, label, depth, notes, role)
    else:
        form = _read_any_zip(source, main, label, depth, notes, role)
    _note_differences(source, torch, refusal, views, found, label, depth, notes, form)
    return form


def _torch_view(source: ByteSource, record: int) -> tuple[Directory | None, str | None]:
    try:
        return torch_directory(source, record), None
    except BadDirectoryError as error:
        return None, str(error)


def _usual_views(source: ByteSource, records: list[int]) -> list[Directory]:
    """The directories that other readers may find: by the last record, or by one that ends where the file does."""
    found: list[Directory] = []
    for record in records:
        try:
            view = usual_directory(source, record)
        except BadDirectoryError:
            continue
        if record == records[0] or record + 22 + view.comment == source.size:
            found.append(view)
    return found


def _read_any_zip(
    source: ByteSource,
    directory: Directory,
    label: str | None,
    depth: int,
    notes: Collector,
    role: str | None,
    *,
    kind: str = "malformed",
) -> str:
    """Read the members of an archive that is none of torch's own, one by one.

    :param kind: of the anomaly where the directory is damaged
    """
    seen: set[int] = set()
    kinds: set[str] = set()
    arrays = count = 0
    try:
        for member in members(source, directory):
            name = member.name
            kinds.update(form for ending, form in _KINDS if name.endswith(ending))
            count += 1
            arrays += name.endswith(".npy")
            path = name if label is None else f"{label}/{name}"
            if hash(member.raw_name) in seen and not member.is_folder:
                notes.report(
                    "disagree",
                    f"two members are called {shown(member.raw_name)!r}: readers take different ones",
                    member=path,
                    offset=member.header,
                )
            seen.add(hash(member.raw_name))
            if member.is_folder and not member.size:
                continue
            if not notes.take_member():
                break
            report_odd_name(member, notes, path)
            read_member(source, member, path, depth, notes, role)
            if name.endswith((".so", ".dll", ".dylib")) and "torch.export archive" in kinds:
                notes.not_opened(f"{shown(path)}: compiled code, which is loaded with the archive")
            if name.endswith(".py") and "torch model archive" in kinds:
                notes.not_opened(f"{shown(path)}: Python source, which runs where the archive is served")
    except BadDirectoryError as error:
        notes.report(kind, f"a directory in it can't be read: {error}", member=label, fix=_FIX)
    if kinds:
        return min(kinds)
    return "numpy archive" if count and arrays == count else "zip archive"


def _note_differences(
    source: ByteSource,
    torch: Directory | None,
    refusal: str | None,
    views: list[Directory],
    found: Survey,
    label: str | None,
    depth: int,
    notes: Collector,
    form: str,
) -> None:
    """Say where readers would find another directory or other bytes than those that were read, and read these too."""
    main = found.directory
    places = {(main.start, main.shift)}
    if torch is None and views and form.startswith("torch zip"):
        notes.report("disagree", f"torch finds no directory in it ({refusal}), other readers do", member=label)
    if torch is not None and not views:
        notes.report("disagree", "torch finds its directory, other readers find none", member=label, offset=main.start)
    for view in views:
        if (view.start, view.shift) in places:
            continue
        places.add((view.start, view.shift))
        notes.report(
            "disagree",
            f"it has two directories: torch reads that at offset {main.start:,}, others that at {view.start:,}",
            member=label,
            offset=view.start,
        )
        _read_any_zip(source, view, label, depth, notes, "hidden", kind="disagree")
    if found.problem is None and main.promised != found.count:
        notes.report(
            "disagree",
            f"the record at its end promises {counted(main.promised, 'member')}, its directory holds more or fewer",
            member=label,
            offset=main.end,
        )
    if main.comment:
        notes.report(
            "note", f"after the end of the archive: {counted(main.comment, 'byte')}", offset=main.end + 22, member=label
        )
    if found.overlapping is not None:
        notes.report("disagree", "two of its members share bytes", offset=found.overlapping, member=label)
    if found.first > 0:
        notes.report(
            "disagree",
            f"before the first member: {counted(found.first, 'byte')}, in which some readers see others",
            offset=0,
            member=label,
        )
        _hidden_in_front(source, found.first, label, depth, notes)


def _without_directory(source: ByteSource, label: str | None, depth: int, notes: Collector) -> str:
    """A zip archive that was cut off, or has too much behind its end: check what stands in front."""
    notes.report(
        "malformed",
        "it begins like a zip archive, but has no directory at its end: it was cut off, or something was added to it",
        offset=source.size,
        member=label,
        fix=_FIX,
    )
    form = _hidden_in_front(source, source.size, label, depth, notes)
    if not form:
        notes.not_opened("what can't be found without a directory was not checked")
    return form or "zip archive"


def _hidden_in_front(source: ByteSource, stop: int, label: str | None, depth: int, notes: Collector) -> str:
    """Follow the headers from the first byte on, and check what stands behind; ``torch zip`` if it looks so."""
    form = ""
    at = 0
    while at < stop:
        part = PartSource(source, at, stop - at)
        goes_on = None
        for member in from_the_front(part, stop - at, notes):
            name = member.local.raw_name
            path = shown(name, 300) if label is None else f"{label}/{shown(name, 300)}"
            if name.lower().endswith(b"data.pkl"):
                form = "torch zip"
            before = len(notes.streams)
            if name.lower().rsplit(b"/", 2)[-2:-1] != [b"data"]:
                # where the directory is lost, a member of unknown size ends nowhere, and nothing is behind its end
                notes.ends_known = member.size_known
                notes.read_content(member.content, path, depth + 1, notes, "hidden")
                notes.ends_known = True
            if not member.size_known and len(notes.streams) > before and not member.local.method:
                # its pickle states where it ends, and the next header may follow
                goes_on = after_descriptor(part, member.local.data + notes.streams[-1].trace.end)
        if goes_on is None or notes.out_of_time():
            return form
        at += goes_on
    return form


def zip_behind(source: ByteSource, after: int) -> Directory | None:
    """The directory of a zip archive behind what this source begins with, which ends at ``after``; None without one."""
    if source.size - after < 22:
        return None
    for record in ends(source):
        if record < after:
            return None
        try:
            view = usual_directory(source, record)
        except BadDirectoryError:
            continue
        if view.promised and source.read(view.start, 4) == CENTRAL:
            return view
    return None


def read_zip_behind(source: ByteSource, view: Directory, label: str | None, depth: int, notes: Collector) -> None:
    """Check an archive that only those see who start at the end."""
    _read_any_zip(source, view, label, depth, notes, "hidden")


def read_compressed(
    source: ByteSource, kind: str, label: str | None, depth: int, notes: Collector, role: str | None
) -> str:
    """Read what compressed bytes unpack to. The format of what is in them, ``""`` for none of ours."""
    try:
        content = UnpackedSource(source, kind, notes)
    except BrokenError as error:
        notes.not_opened(f"{label or 'the file'}: {error}")
        return f"{kind} file"
    form = notes.read_content(content, label, depth + 1, notes, role) if content.size else ""
    if content.problem is not None:
        notes.report("malformed", content.problem, member=label, fix=_FIX)
    elif content.rest:
        notes.report("note", f"after the compressed data: {counted(content.rest, 'byte')}", member=label)
    if not form:
        if not depth and not content.exhausted:
            notes.report(
                "malformed", f"it is {kind} data, and what it unpacks to is of no format that is known here", fix=_FIX
            )
        return ""
    return "compressed pickle" if form == "pickle" else f"{form} in {kind}"


def read_row(row: list[PartSource], label: str | None, depth: int, notes: Collector, role: str | None) -> str:
    """Read archives that stand in a row, each as a file of its own. The format in users' words."""
    from .archives import read_zip

    at = 0
    forms: set[str] = set()
    for part in row:
        if not notes.take_member():
            break
        own = f"@{at}" if label is None else f"{label}/@{at}"
        forms.add(read_zip(part, own, depth, notes, role))
        at += part.size
    if forms <= {"torch zip"}:
        return "distributed checkpoint"
    notes.report(
        "disagree",
        f"it is {counted(len(row), 'zip archive')} in a row: some readers see the first, others the last",
        member=label,
    )
    return "torch zip" if "torch zip" in forms else "zip archive"


def read_tar(source: ByteSource, label: str | None, depth: int, notes: Collector, role: str | None) -> str:
    """Read a tar archive: torch's legacy one, or any other."""
    from .legacy import TAR_MEMBERS, read_legacy_tar

    prefix = "" if label is None else f"{label}/"
    legacy: dict[str, TarMember] = {}
    for member in tar_members(source, notes):
        if isinstance(member, TarError):
            if member.ours:
                notes.not_opened(f"the tar archive from offset {member.offset:,} on: {member.why}")
            else:
                notes.report(
                    "malformed", f"as a tar archive: {member.why}", offset=member.offset, member=label, fix=_FIX
                )
            continue
        if not depth:
            notes.content_end = member.data + member.size
        plain = member.name.removeprefix("./")
        if plain in TAR_MEMBERS and plain not in legacy:
            legacy[plain] = member
            continue
        notes.read_content(PartSource(source, member.data, member.size), prefix + member.name, depth + 1, notes, role)
    if "pickle" in legacy and ("storages" in legacy or "tensors" in legacy):
        return read_legacy_tar(legacy, source, label, depth, notes, role)
    for name, member in legacy.items():
        notes.read_content(PartSource(source, member.data, member.size), prefix + name, depth + 1, notes, role)
    return "tar archive"
