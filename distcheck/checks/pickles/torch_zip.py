"""Read torch's zip files by the rules of torch's own reader, which differ from those of zip tools.

Torch takes the folder of the first entry as the archive. It finds names without case, by a search that ends on
either of two equal ones. It checks no checksum and no header before a member's bytes. If another reader would see
other content, that is reported and checked too. Tensors are not read.

Source: ``PyTorchStreamReader`` in caffe2/serialize/inline_container.cc and ``torch.load`` of torch 2.13, measured.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from .formats import HEAD, sniff
from .raw_pickles import add_stream, begins_pickle, follow_appended
from .source_bytes import ByteSource
from .stream_collector import Collector, ScanItem, shown
from .trace import Trace
from .unpacking import UnpackedSource
from .zip_directory import (
    DEFLATED,
    STORED,
    BadDirectoryError,
    Directory,
    Member,
    found_by_torch,
    members,
    refused_by_torch,
)
from .zip_members import compare, open_member, read_member

#: Members of an archive of torch that are no pickles and not read: a few bytes each.
PLAIN = frozenset({b"version", b"byteorder", b".format_version", b".storage_alignment", b".data/serialization_id"})
#: Folders of the bytes of tensors: of ``data.pkl``, and of ``constants.pkl`` in a TorchScript archive.
TENSOR_FOLDERS = (b"data/", b"constants/", b"tensors/")
#: Pickles of a TorchScript archive, which torch reads in C++.
SCRIPT_PICKLES = frozenset({b"data.pkl", b"constants.pkl", b"attributes.pkl"})
#: Format versions that torch 2.13 reads (kMin- and kMaxSupportedFileFormatVersion in caffe2/serialize/versions.h).
VERSIONS = range(1, 11)
#: Members other than tensors that an archive of torch may have; TorchScript has two for each source file.
_MOST_OTHERS = 20_000
#: Keys that a trace remembers; beyond them it is unknown which tensors no pickle requests.
_MOST_KEYS = 100_000
_LOCAL_HEADER = 30
#: Bytes of a small member that are checked.
_SMALL = 64
#: Tensors whose own headers are checked: damage there is worth a report, and a seek for each of many is not.
_HEADERS = 256
_AGAIN = "don't repair it; download it again, or have it saved again with torch.save"


class Survey:
    """The result of one pass over a directory: members one by one, tensors only by their number."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        #: name of the folder that all should be in, from the first entry; None where it has none
        self.top: bytes | None = None
        #: all but what stands in the folders of tensors
        self.others: list[Member] = []
        #: entries of all kinds
        self.count = 0
        #: how many entries repeat the name of a tensor
        self.repeated = 0
        #: name of the first entry that is not in the folder
        self.outside: bytes | None = None
        #: why torch's reader refuses it because of an entry; None where it doesn't
        self.refusal: str | None = None
        #: why the directory could not be read to its end
        self.problem: str | None = None
        #: smallest offset of a member
        self.first = 0
        #: offset of a member that begins before another one ends
        self.overlapping: int | None = None

    def is_tensor(self, lower: bytes) -> bool:
        """Whether a name, in small letters, stands in a folder of tensors."""
        if self.top is None or lower.endswith(b".pkl"):
            return False
        start = len(self.top) + 1
        return lower.startswith(TENSOR_FOLDERS, start) and lower[:start] == self.top.lower() + b"/"


def survey(source: ByteSource, directory: Directory, notes: Collector) -> Survey:
    """Go through a directory once; nothing but it is read."""
    found = Survey(directory)
    tensors: set[int] = set()
    begins, ends = array("Q"), array("Q")
    try:
        for member in members(source, directory):
            name = member.raw_name
            if not found.count and b"/" in name:
                found.top = name.split(b"/", 1)[0]
            found.count += 1
            if found.outside is None and (found.top is None or not name.startswith(found.top + b"/")):
                found.outside = name
            if found.refusal is None and found.count <= directory.promised:
                found.refusal = refused_by_torch(member, source) or _odd_name(name)
            begins.append(min(member.header, 1 << 63))
            ends.append(min(member.header + _LOCAL_HEADER + len(name) + member.packed, 1 << 63))
            lower = name.lower()
            if found.is_tensor(lower):
                tensors.add(hash(lower))
                found.repeated += 1
            elif len(found.others) < _MOST_OTHERS:
                found.others.append(member)
            if not found.count % 10_000 and notes.out_of_time():
                break
    except BadDirectoryError as error:
        found.problem = str(error)
    found.repeated -= len(tensors)
    found.first = min(begins, default=0)
    found.overlapping = _overlap(begins, ends)
    return found


def _odd_name(name: bytes) -> str | None:
    """torch makes text of all names, up to a zero byte and of 511 bytes at most."""
    try:
        name.split(b"\0", 1)[0][:511].decode("utf-8")
    except UnicodeDecodeError:
        return f"the name {shown(name)!r} is no UTF-8"
    return None


def _overlap(begins: array[int], ends: array[int]) -> int | None:
    """Offset of a member that begins before the one in front of it ends."""
    ordered = all(begins[place] <= begins[place + 1] for place in range(len(begins) - 1))
    order: Sequence[int] = range(len(begins)) if ordered else sorted(range(len(begins)), key=begins.__getitem__)
    last = 0
    for place in order:
        if begins[place] < last:
            return begins[place]
        last = max(last, ends[place])
    return None


def is_torch_zip(found: Survey) -> bool:
    """Whether a directory is that of an archive which torch.load, torch.jit.load or torch.package reads, or nearly."""
    names = {member.raw_name.lower().replace(b"\\", b"/") for member in found.others}
    last = {name.rsplit(b"/", 1)[-1] for name in names}
    if b"data.pkl" in last or b"constants.pkl" in last:
        return True
    if any(name.endswith(b".data/extern_modules") for name in names):
        return True
    top = (found.top or b"").lower()
    return top + b"/version" in names and (top + b"/byteorder" in names or found.count > len(found.others))


class _Archive(NamedTuple):
    """One archive while it is read."""

    item: ScanItem
    found: Survey

    def path(self, member: Member) -> str:
        return self.item.path(member.name)


def read_torch_zip(item: ScanItem, found: Survey, refusal: str | None) -> str:
    """Read an archive of torch (see :func:`is_torch_zip`). Return the format in users' words.

    :param found: as torch sees it, or, where torch finds no directory, as others do
    :param refusal: why torch finds no directory
    """
    notes = item.notes
    reading = _Archive(item, found)
    script = _find(reading, b"constants.pkl", exact=True) is not None
    package = _find(reading, b"data.pkl") is None and any(
        member.raw_name.endswith((b"/.data/extern_modules", b"/.data/python_version")) for member in found.others
    )
    chosen = None if package else _chosen(reading)
    if package:
        item.report("refused", *_PACKAGE[:1], fix=_PACKAGE[1])
        notes.not_opened("the Python source in it, which torch.package runs when it imports from the archive")
    elif (why := refusal or _refusal(reading, chosen, script)) is not None:
        item.report("malformed", f"torch.load refuses it: {why}", fix=_AGAIN)
    elif script:
        item.report("refused", *_SCRIPT[:1], fix=_SCRIPT[1])
    if found.repeated:
        item.report("disagree", f"{found.repeated:,} of its tensors are there twice: readers take different ones")
    if found.count > len(found.others) >= _MOST_OTHERS:
        notes.not_opened(f"more than {_MOST_OTHERS:,} members in addition to the tensors")
    _note_equal_names(reading)
    for member in found.others:
        if not notes.take_member():
            break
        _read_member(reading, member, member is chosen, script)
    if chosen is None and not package:
        _read_tensors(reading, None)
    return "TorchScript archive" if script else "torch package" if package else "torch zip"


_PACKAGE = (
    "it is an archive of torch.package, which torch.load does not read",
    "open it with torch.package.PackageImporter if you trust the code in it",
)
_SCRIPT = (
    "torch.load refuses a TorchScript archive with weights_only=True",
    "open it with torch.jit.load, or save the state_dict() of the module",
)


def _note_equal_names(reading: _Archive) -> None:
    """Two members of one name, but for case."""
    seen: set[bytes] = set()
    for member in reading.found.others:
        lower = member.raw_name.lower()
        if lower in seen and not member.is_folder:
            reading.item.report(
                "disagree",
                f"two members are called {shown(member.raw_name)!r}, but for upper and lower case: torch takes one of"
                " them, other readers another",
                offset=member.header,
            )
        seen.add(lower)


def _find(reading: _Archive, name: bytes, *, exact: bool = False) -> Member | None:
    """The member that torch's reader gives for a name below the folder."""
    found = reading.found
    if found.top is None:
        return None
    wanted = found.top + b"/" + name
    if exact:
        return next((member for member in found.others if member.raw_name.split(b"\0", 1)[0] == wanted), None)
    alike = [member for member in found.others if member.raw_name.lower() == wanted.lower()]
    if len(alike) < 2 or found.problem is not None:
        return alike[0] if alike else None
    # the search runs over all entries, so that where it ends depends on the tensors too
    names = [member.raw_name for member in members(reading.item.source, found.directory)]
    place = found_by_torch(names[: found.directory.promised], wanted)
    return next((member for member in alike if member.place == place), alike[0])


def _chosen(reading: _Archive) -> Member | None:
    """The pickle that torch unpickles; where torch would refuse the archive, the one that is meant."""
    named = _find(reading, b"data.pkl")
    if named is not None:
        return named
    for member in reading.found.others:
        if member.raw_name.lower().replace(b"\\", b"/").rsplit(b"/", 1)[-1] == b"data.pkl":
            return member
    return None


def _refusal(reading: _Archive, chosen: Member | None, script: bool) -> str | None:
    """Why torch.load refuses the archive whatever is in its pickle."""
    found = reading.found
    if found.refusal is not None:
        return found.refusal
    if found.top is None:
        return "its members are not in a folder"
    if found.outside is not None:
        return f"{shown(found.outside)!r} is not in the folder {shown(found.top)!r} of the first member"
    version = _find(reading, b".data/version") or _find(reading, b"version")
    if version is None:
        return "it has no member 'version'"
    wrong = _unreadable(reading, version, "version") or _wrong_version(reading, version)
    serial = _find(reading, b".data/serialization_id")
    if wrong is None and serial is not None:
        wrong = _unreadable(reading, serial, ".data/serialization_id")
    if wrong is not None or script:
        return wrong
    if chosen is None or _find(reading, b"data.pkl") is None:
        return "it has no member 'data.pkl'"
    if serial is not None and not _is_utf8(_content(reading, serial)):
        return "its member '.data/serialization_id' is no text"
    return _unreadable(reading, chosen, "data.pkl") or _wrong_settings(reading)


def _unreadable(reading: _Archive, member: Member, name: str) -> str | None:
    """Why torch's reader can't extract a member; None where it can."""
    if member.is_folder:
        return f"its member {name!r} is marked as a folder"
    if not member.packed:
        return None if not member.size else f"its member {name!r} has no bytes"
    opened = open_member(reading.item.source, member, reading.item.notes, torch=True)
    if isinstance(opened, str):
        return f"its member {name!r} can't be read: {opened}"
    if opened.flagged is not None:
        return f"its member {name!r} can't be read: {opened.flagged}"
    if member.method not in (STORED, DEFLATED):
        return f"its member {name!r} is compressed by method {member.method}"
    if isinstance(opened.content, UnpackedSource):
        _, size = opened.content.check()
        # of broken data, or of more than is stated, torch takes what it got
        if size < member.size and opened.content.problem is None and not opened.content.exhausted:
            return f"its member {name!r} unpacks to {size:,} bytes, the directory states {member.size:,}"
    elif opened.content.size < member.size:
        return f"its member {name!r} is cut off"
    return None


def _wrong_version(reading: _Archive, version: Member) -> str | None:
    """torch parses the number as C++ does: leading blanks, a sign, digits, whatever follows."""
    content = _content(reading, version).lstrip(b" \t\n\v\f\r")
    digits = content[1:] if content[:1] == b"+" else content
    number = digits[: len(digits) - len(digits.lstrip(b"0123456789"))]
    if not number:
        return f"its member 'version' is no number: {shown(content[:20])!r}"
    if int(number) not in VERSIONS:
        return f"its format version is {int(number)}; torch reads {VERSIONS[0]} to {VERSIONS[-1]}"
    return None


def _wrong_settings(reading: _Archive) -> str | None:
    """Small members that ``torch.load`` reads before the pickle: each may be missing, none may be odd."""
    for name in (b".format_version", b"byteorder", b".storage_alignment"):
        member = _find(reading, name)
        if member is None:
            continue
        wrong = _unreadable(reading, member, name.decode())
        if wrong is not None:
            return wrong
        content = _content(reading, member)
        if name == b"byteorder" and content not in (b"little", b"big"):
            return f"its member 'byteorder' is neither 'little' nor 'big': {shown(content[:20])!r}"
        if name == b".storage_alignment":
            try:
                int(content)
            except ValueError:
                return f"its member '.storage_alignment' is no number: {shown(content[:20])!r}"
    return None


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= _SMALL - 4 and len(content) == _SMALL
    return True


def _content(reading: _Archive, member: Member) -> bytes:
    """The first bytes of a small member that can be read."""
    opened = open_member(reading.item.source, member, reading.item.notes, torch=True)
    return b"" if isinstance(opened, str) else opened.content.read(0, _SMALL)


def _read_member(reading: _Archive, member: Member, chosen: bool, script: bool) -> None:
    """Read one member that is no tensor."""
    notes = reading.item.notes
    path = reading.path(member)
    top = reading.found.top
    below = (
        member.raw_name[len(top) + 1 :]
        if top is not None and member.raw_name.startswith(top + b"/")
        else member.raw_name
    )
    report_odd_name(member, notes, path)
    if not chosen and ((member.is_folder and not member.size) or (below in PLAIN and member.size <= 128)):
        return
    if script and below.endswith((b".debug_pkl", b".pkl")) and not chosen:
        opened = open_member(reading.item.source, member, notes, torch=True)
        if not isinstance(opened, str) and (below in SCRIPT_PICKLES or below.endswith(b".debug_pkl")):
            trace = notes.trace(opened.content)
            inner = reading.item._replace(source=opened.content, label=path)
            add_stream(inner, "torchscript", trace, reading.item.role or "object")
            return
    if not chosen:
        read_member(reading.item, member, path, reading.item.role or "hidden", torch=True)
        return
    opened = open_member(reading.item.source, member, notes, torch=True)
    if isinstance(opened, str):
        notes.not_opened(f"{shown(path)}: {opened}")
        return
    trace = notes.trace(opened.content)
    if opened.flagged and trace.ended != "stop" and not trace.globals:
        notes.not_opened(f"{shown(path)}: {opened.flagged}")
        return
    inner = reading.item._replace(source=opened.content, label=path)
    role = "hidden" if opened.flagged else reading.item.role or "object"
    add_stream(inner, "torchscript" if script else "torch", trace, role)
    if not script:
        follow_appended(inner, trace)
        _read_tensors(reading, trace)
    compare(member, opened, notes, path)
    if member.is_folder:
        notes.report("disagree", "its data.pkl is marked as a folder, whose bytes torch leaves unread", member=path)
    if member.packed != member.size and member.method == STORED:
        # torch takes more or fewer bytes of it than other readers
        other = open_member(reading.item.source, member, notes)
        if not isinstance(other, str):
            add_stream(inner._replace(source=other.content), "pickle", notes.trace(other.content), "hidden")


def report_odd_name(member: Member, notes: Collector, path: str) -> None:
    """Names that one reader takes for another one, or that leave the folder where they are unpacked."""
    name = member.raw_name
    if b"\0" in name:
        notes.report(
            "disagree", "its name holds a zero byte, at which some readers cut it", member=path, offset=member.header
        )
    elif b"\\" in name:
        notes.report(
            "disagree",
            "its name holds a backslash, which some readers take for a slash",
            member=path,
            offset=member.header,
        )
    elif name.startswith(b"/") or b".." in name.split(b"/"):
        notes.report("disagree", "its path leads out of the archive", member=path, offset=member.header)


def _read_tensors(reading: _Archive, trace: Trace | None) -> None:
    """Storages that the pickle requests: are they there, and large enough? Others: is something hidden there?"""
    notes, found = reading.item.notes, reading.found
    keys = frozenset() if trace is None else trace.storage_keys
    requested = {} if trace is None else trace.storage_bytes
    missing = {key.encode("utf-8", "surrogatepass").lower(): key for key in keys}
    complete = len(missing) < _MOST_KEYS and (trace is None or trace.ended == "stop")
    start = len(found.top or b"") + 1 + len(b"data/")
    checked = 0
    if found.count > len(found.others):
        for member in _entries(reading):
            lower = member.raw_name.lower()
            if not found.is_tensor(lower):
                continue
            key = missing.pop(lower[start:], None) if lower.startswith(b"data/", start - 5) else None
            if key is None:
                if complete and member.size and notes.take_member():
                    _read_unasked(reading, member)
                continue
            checked += 1
            if member.is_folder:
                notes.report(
                    "disagree",
                    "a tensor is marked as a folder, whose bytes torch leaves unread",
                    member=reading.path(member),
                    fix=_AGAIN,
                )
            elif checked <= _HEADERS and (wrong := _unreadable(reading, member, f"data/{shown(key)}")):
                reading.item.report("malformed", f"torch.load refuses it: {wrong}", fix=_AGAIN)
            if key in requested and member.size != requested[key]:
                notes.report(
                    "malformed",
                    f"storage {shown(key)!r} holds {member.size:,} bytes, the pickle requests {requested[key]:,}",
                    member=reading.path(member),
                    fix="download or save the file again",
                )
    for key in sorted(missing.values()):
        notes.lacks(key)


def _entries(reading: _Archive) -> Iterator[Member]:
    """All entries once more, as far as the directory is sound."""
    with suppress(BadDirectoryError):  # reported when it was surveyed
        yield from members(reading.item.source, reading.found.directory)


def _read_unasked(reading: _Archive, member: Member) -> None:
    """What stands among the tensors and is none that the pickle requests."""
    notes = reading.item.notes
    opened = open_member(reading.item.source, member, notes, torch=True)
    if isinstance(opened, str):
        notes.not_opened(f"{shown(reading.path(member))}: {opened}")
        return
    head = opened.content.read(0, HEAD)
    kind = sniff(head, opened.content.size)
    if kind in _WORTH_A_LOOK or begins_pickle(opened.content):
        read_member(reading.item, member, reading.path(member), "hidden", torch=True)


#: Kinds that raw numbers are hardly ever taken for.
_WORTH_A_LOOK = frozenset({"zip", "tar", "npy", "legacy", "pickle", "gzip", "bz2", "xz", "safetensors", "text"})
