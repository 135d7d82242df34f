"""Read zip archives, tar archives and compressed files. Each member is read by its content, bounded, never on disk."""

from __future__ import annotations

from .archives_tar import TarError, TarMember, tar_members
from .source_bytes import ByteSource, PartSource
from .stream_collector import ScanItem, counted, shown
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


def read_zip(item: ScanItem) -> str:
    """Read what begins like a zip archive: torch's, several in a row, any other. The format in users' words."""
    source = item.source
    row = archives_in_a_row(source, _IN_A_ROW)
    if row is not None:
        return read_row(row, item)
    records = ends(source)
    if not records:
        return _without_directory(item)
    torch, refusal = _torch_view(source, records[0])
    views = _usual_views(source, records)
    if torch is None and not views:
        item.report("malformed", f"it can't be read as a zip archive: {refusal}", offset=records[0], fix=_FIX)
        _hidden_in_front(item, source.size)
        return "zip archive"
    main = torch or views[0]
    found = survey(source, main, item.notes)
    if found.problem is not None:
        item.report("malformed", f"its directory can't be read: {found.problem}", offset=main.start, fix=_FIX)
    elif not found.count:
        item.report("malformed", "it is an empty zip archive", fix=_FIX)
    form = read_torch_zip(item, found, refusal) if is_torch_zip(found) else _read_any_zip(item, main, item.role)
    _report_differences(item, torch, refusal, views, found, form)
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


def _read_any_zip(item: ScanItem, directory: Directory, role: str | None, *, kind: str = "malformed") -> str:
    """Read the members of an archive that is none of torch's own, one by one.

    :param kind: of the anomaly where the directory is damaged
    """
    notes = item.notes
    seen: set[int] = set()
    kinds: set[str] = set()
    arrays = count = 0
    try:
        for member in members(item.source, directory):
            name = member.name
            kinds.update(form for ending, form in _KINDS if name.endswith(ending))
            count += 1
            arrays += name.endswith(".npy")
            path = item.path(name)
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
            read_member(item, member, path, role)
            if name.endswith((".so", ".dll", ".dylib")) and "torch.export archive" in kinds:
                notes.not_opened(f"{shown(path)}: compiled code, which is loaded with the archive")
            if name.endswith(".py") and "torch model archive" in kinds:
                notes.not_opened(f"{shown(path)}: Python source, which runs where the archive is served")
    except BadDirectoryError as error:
        item.report(kind, f"a directory in it can't be read: {error}", fix=_FIX)
    if kinds:
        return min(kinds)
    return "numpy archive" if count and arrays == count else "zip archive"


def _report_differences(
    item: ScanItem, torch: Directory | None, refusal: str | None, views: list[Directory], found: Survey, form: str
) -> None:
    """Report where other readers find another directory or other bytes, and read these too."""
    main = found.directory
    places = {(main.start, main.shift)}
    if torch is None and views and form.startswith("torch zip"):
        item.report("disagree", f"torch finds no directory in it ({refusal}), other readers do")
    if torch is not None and not views:
        item.report("disagree", "torch finds its directory, other readers find none", offset=main.start)
    for view in views:
        if (view.start, view.shift) in places:
            continue
        places.add((view.start, view.shift))
        item.report(
            "disagree",
            f"it has two directories: torch reads that at offset {main.start:,}, others that at {view.start:,}",
            offset=view.start,
        )
        _read_any_zip(item, view, "hidden", kind="disagree")
    if found.problem is None and main.promised != found.count:
        item.report(
            "disagree",
            f"the record at its end promises {counted(main.promised, 'member')}, its directory holds more or fewer",
            offset=main.end,
        )
    if main.comment:
        item.report("note", f"after the end of the archive: {counted(main.comment, 'byte')}", offset=main.end + 22)
    if found.overlapping is not None:
        item.report("disagree", "two of its members share bytes", offset=found.overlapping)
    if found.first > 0:
        item.report(
            "disagree",
            f"before the first member: {counted(found.first, 'byte')}, in which some readers see others",
            offset=0,
        )
        _hidden_in_front(item, found.first)


def _without_directory(item: ScanItem) -> str:
    """A zip archive that was cut off, or has too much behind its end: check what stands in front."""
    item.report(
        "malformed",
        "it begins like a zip archive, but has no directory at its end: it was cut off, or something was added to it",
        offset=item.source.size,
        fix=_FIX,
    )
    form = _hidden_in_front(item, item.source.size)
    if not form:
        item.notes.not_opened("what can't be found without a directory was not checked")
    return form or "zip archive"


def _hidden_in_front(item: ScanItem, stop: int) -> str:
    """Follow the headers from the first byte on, and read their members. Return ``torch zip`` or an empty text."""
    notes = item.notes
    form = ""
    at = 0
    while at < stop:
        part = PartSource(item.source, at, stop - at)
        goes_on = None
        for member in from_the_front(part, stop - at, notes):
            name = member.local.raw_name
            path = item.path(shown(name, 300))
            if name.lower().endswith(b"data.pkl"):
                form = "torch zip"
            before = len(notes.streams)
            if name.lower().rsplit(b"/", 2)[-2:-1] != [b"data"]:
                # where the directory is lost, a member of unknown size ends nowhere, and nothing is behind its end
                notes.ends_known = member.size_known
                item.read_inner(member.content, path, "hidden")
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


def read_zip_behind(item: ScanItem, view: Directory) -> None:
    """Check an archive that only those see who start at the end."""
    _read_any_zip(item, view, "hidden")


def read_compressed(item: ScanItem, kind: str) -> str:
    """Read what compressed bytes unpack to. The format of what is in them, ``""`` for none of ours."""
    try:
        content = UnpackedSource(item.source, kind, item.notes)
    except BrokenError as error:
        item.notes.not_opened(f"{item.name}: {error}")
        return f"{kind} file"
    form = item.read_inner(content, item.label, item.role) if content.size else ""
    if content.problem is not None:
        item.report("malformed", content.problem, fix=_FIX)
    elif content.rest:
        item.report("note", f"after the compressed data: {counted(content.rest, 'byte')}")
    if not form:
        if not item.depth and not content.exhausted:
            item.notes.report(
                "malformed", f"it is {kind} data, and what it unpacks to is of no format that is known here", fix=_FIX
            )
        return ""
    return "compressed pickle" if form == "pickle" else f"{form} in {kind}"


def read_row(row: list[PartSource], item: ScanItem) -> str:
    """Read archives that stand in a row, each as a file of its own. The format in users' words."""
    at = 0
    forms: set[str] = set()
    for part in row:
        if not item.notes.take_member():
            break
        forms.add(read_zip(item._replace(source=part, label=item.path(f"@{at}"))))
        at += part.size
    if forms <= {"torch zip"}:
        return "distributed checkpoint"
    item.report(
        "disagree", f"it is {counted(len(row), 'zip archive')} in a row: some readers see the first, others the last"
    )
    return "torch zip" if "torch zip" in forms else "zip archive"


def read_tar(item: ScanItem) -> str:
    """Read a tar archive: torch's legacy one, or any other."""
    from .legacy import TAR_MEMBERS, read_legacy_tar

    notes = item.notes
    legacy: dict[str, TarMember] = {}
    for member in tar_members(item.source, notes):
        if isinstance(member, TarError):
            if member.ours:
                notes.not_opened(f"the tar archive from offset {member.offset:,} on: {member.why}")
            else:
                item.report("malformed", f"as a tar archive: {member.why}", offset=member.offset, fix=_FIX)
            continue
        if not item.depth:
            notes.content_end = member.data + member.size
        plain = member.name.removeprefix("./")
        if plain in TAR_MEMBERS and plain not in legacy:
            legacy[plain] = member
            continue
        item.read_inner(PartSource(item.source, member.data, member.size), item.path(member.name), item.role)
    if "pickle" in legacy and ("storages" in legacy or "tensors" in legacy):
        return read_legacy_tar(legacy, item)
    for name, member in legacy.items():
        item.read_inner(PartSource(item.source, member.data, member.size), item.path(name), item.role)
    return "tar archive"
