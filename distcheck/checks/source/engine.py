"""From paths to the linked program: prefilter, extract (cached, in processes where it pays), link.

None of this depends on the meaning of the code; a file that does not parse is part of the program, with its problem.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import marshal
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from . import prefilter
from .extract import extract
from .link import FileFacts, SummaryCache, module_parts
from .program import Program
from .project_texts import ProjectTexts
from .summary import ENGINE_VERSION, FileSummary, Header, pack
from .vocabulary import OUTSIDE

#: Bytes to parse above which a second process pays for its start.
_WORTH_A_PROCESS = 1_500_000
#: Bytes of files put aside that are kept for the second round; beyond, they are read again.
_KEPT = 20_000_000
_VERSION = f"{ENGINE_VERSION}:{sys.version_info[:3]}:".encode()
_FAILED = "the analysis of it failed"
#: Files larger than this are generated, not written: they are not analysed, and a note is printed.
LARGEST = 5_000_000


class SourceFile(NamedTuple):
    """A file to analyse: the path as displayed, relative to the working directory, and how to read it."""

    path: str
    #: raises OSError
    read: Callable[[], bytes]
    #: the folder of its repository; files of another one are imported by no file of this one
    repository: str = ""
    #: the digest of its bytes (:func:`content_digest`) if that is known without reading it
    digest: bytes = b""
    #: it is a module of a package that users install
    packaged: bool = False


class SummaryStore(Protocol):
    """Where summaries are kept between runs."""

    def get(self, digest: bytes) -> bytes | None: ...

    def put(self, digest: bytes, data: bytes) -> None: ...


class ReadFiles(NamedTuple):
    """Files with their summaries, not linked yet."""

    #: those that matter and those that can't be read, in the order of the input
    files: tuple[FileFacts, ...]
    #: files without distributed code
    put_aside: int
    #: keeps summaries of these files loaded
    shelf: SummaryCache


def analyse(
    files: Sequence[SourceFile],
    *,
    jobs: int = 1,
    cache: SummaryStore | None = None,
    whole: bool = False,
) -> Program:
    """Read, summarise and link files as one program. See :func:`read`.

    :param whole: the files are all that their repositories hold
    """
    found = read(files, jobs=jobs, cache=cache)
    texts = ProjectTexts((file.repository, file.path, file.read) for file in files) if whole else None
    with without_cycle_search():
        return Program(found.files, put_aside=found.put_aside, texts=texts)


@contextlib.contextmanager
def without_cycle_search() -> Iterator[None]:
    """Pause the garbage collector: millions of small tuples without one circle would be searched again and again."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def read(
    files: Sequence[SourceFile],
    *,
    jobs: int = 1,
    cache: SummaryStore | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ReadFiles:
    """Read and summarise files.

    :param files: in the order in which they are to be reported
    :param jobs: processes to parse in, at most
    :param cache: summaries by the hash of bytes, engine and version of Python
    :param progress: called now and then with the number of files that are done, and of all
    """
    with without_cycle_search():
        return _read(files, jobs, cache, progress)


def _read(
    files: Sequence[SourceFile], jobs: int, cache: SummaryStore | None, progress: Callable[[int, int], None] | None
) -> ReadFiles:
    chosen: list[tuple[SourceFile, bytes | None]] = []
    aside: list[_Aside] = []
    broken: list[FileFacts] = []
    kept = 0
    for number, file in enumerate(files):
        if progress is not None and number % 200 == 0:
            progress(number // 2, len(files))
        if file.digest and cache is not None and not file.path.endswith(".ipynb"):
            if cache.get(_aside_key(file.path, file.digest)) is not None:
                aside.append(_Aside(file, None, file.digest, cache))
                continue
            if cache.get(_summary_key(file.path, file.digest)) is not None:
                chosen.append((file, None))
                continue
        try:
            data = file.read()
        except OSError as error:
            broken.append(_unreadable(file.path, f"it can't be read: {error.strerror or error}"))
            continue
        if len(data) > LARGEST:
            broken.append(
                _unreadable(file.path, f"it has {len(data)} bytes, more than the {LARGEST} that are analysed")
            )
            continue
        digest = b"" if cache is None else content_digest(data)
        if _passes(file.path, data, digest, cache):
            chosen.append((file, data))
        else:
            kept += len(data)
            aside.append(_Aside(file, data if kept <= _KEPT else None, digest, cache))
    done: list[FileFacts] = []
    shelf = SummaryCache()
    while chosen:
        new = _summaries(chosen, jobs, cache, progress, len(done), len(files), shelf)
        if not done:
            # what had nothing but a literal waits until something requests it
            kept_back = {facts.path for facts in new if not prefilter.matters(facts.header)}
            digests = {facts.path: facts.digest for facts in new}
            aside.extend(
                _Aside(file, data, digests[file.path], None) for file, data in chosen if file.path in kept_back
            )
            new = [facts for facts in new if facts.path not in kept_back]
        done.extend(new)
        chosen, aside = _next_round(new, aside)
    order = {file.path: number for number, file in enumerate(files)}
    every = sorted([*done, *broken], key=lambda facts: order[facts.path])
    return ReadFiles(tuple(every), len(aside), shelf)


class _Aside:
    """A file that was put aside: its bytes, and what decides whether another one leads to it."""

    def __init__(self, file: SourceFile, data: bytes | None, digest: bytes, cache: SummaryStore | None) -> None:
        self.file = file
        #: None where they are not at hand
        self.data = data
        self._digest = digest
        self._cache = cache
        self._known: tuple[bool, list[prefilter.Import]] | None = None

    def read(self) -> bytes:
        """Return its bytes."""
        return self.data if self.data is not None else _again(self.file)

    @property
    def helps(self) -> bool:
        """Return whether it may decide something for a file that imports it."""
        return self._facts()[0]

    @property
    def imports(self) -> list[prefilter.Import]:
        """Return its import statements."""
        return self._facts()[1]

    def _facts(self) -> tuple[bool, list[prefilter.Import]]:
        if self._known is not None:
            return self._known
        cache = self._cache if self._digest else None
        key = _aside_key(self.file.path, self._digest)
        if cache is not None and (stored := cache.get(key)):
            try:
                helps, imports = marshal.loads(stored)  # noqa: S302 - plain values
                self._known = bool(helps), [(module, names, whole) for module, names, whole in imports]
            except (ValueError, TypeError, EOFError):  # damaged: it is made again
                self._known = None
        if self._known is None:
            data = self.read()
            self._known = prefilter.helps(data), prefilter.imports_of(data)
            if cache is not None:
                cache.put(key, marshal.dumps(self._known))
        return self._known


def _passes(path: str, data: bytes, digest: bytes, cache: SummaryStore | None) -> bool:
    """Whether a file is to be analysed at once. That it need not is kept as well: the digest is sooner had than the
    answer.
    """
    if cache is None:
        return prefilter.passes(data)
    key = _aside_key(path, digest)
    if cache.get(key) is not None:
        return False
    if prefilter.passes(data):
        return True
    cache.put(key, b"")
    return False


def _next_round(
    new: Iterable[FileFacts], aside: list[_Aside]
) -> tuple[list[tuple[SourceFile, bytes | None]], list[_Aside]]:
    """Of the files put aside, those that import what has turned out to matter, or are imported by what has."""
    # by repository: a file of another one neither calls nor guards anything here
    interests: dict[str, prefilter.Interest] = {}
    tops: set[tuple[str, str]] = set()
    imported: set[tuple[str, str]] = set()
    importing: set[tuple[str, str]] = set()
    for facts in new:
        repository = facts.repository
        calls = interests.setdefault(repository, prefilter.Interest()).add(facts.path, facts.header)
        if calls:
            tops.add((repository, _top(facts.path)))
        if calls or any("distributed" in name or name.endswith(".HfArgumentParser") for name in facts.imports):
            importing.add((repository, _top(facts.path)))
            imported.update((repository, name) for name in _modules_imported(facts))
    chosen: list[tuple[SourceFile, bytes | None]] = []
    rest: list[_Aside] = []
    for one in aside:
        path, repository = one.file.path, one.file.repository
        top = (repository, _top(path))
        interest = interests.get(repository)
        whole = (repository, ".".join(module_parts(path)))
        # what shares no folder with a file of interest can't import it, nor be imported by it: only from above, or by
        # its whole name
        near = top in importing or (repository, "") in importing or whole in imported
        if (
            near
            and not imported.isdisjoint((repository, name) for name in _modules_of(path))
            # a package passes on what its modules define
            and (path.endswith("__init__.py") or one.helps)
        ) or (interest and top in tops and interest.concerns(one.imports, one.read)):
            chosen.append((one.file, one.data))
        else:
            rest.append(one)
    return chosen, rest


def _modules_imported(facts: FileFacts) -> Iterable[str]:
    """The dotted names of all modules that a file may import from the project, and of the packages above a name."""
    package = list(module_parts(facts.path))
    if not facts.path.endswith("__init__.py"):
        package = package[:-1]
    for dotted in facts.imports:
        names = dotted.lstrip(".")
        level = len(dotted) - len(names)
        if not level and names.split(".", 1)[0] in OUTSIDE:
            continue
        parts = [*(package[: len(package) - level + 1] if level else ()), *filter(None, names.split("."))]
        yield ".".join(parts)
        yield ".".join(parts[:-1])


def _modules_of(path: str) -> Iterable[str]:
    """Return the dotted names by which a file may be imported, from whatever folder."""
    parts = module_parts(path)
    return (".".join(parts[first:]) for first in range(len(parts)))


def _top(path: str) -> str:
    parts = path.replace("\\", "/").split("/")
    return parts[0] if len(parts) > 1 else ""


def _again(file: SourceFile) -> bytes:
    try:
        return file.read()
    except OSError:
        return b""  # it was there a moment ago, and held nothing of interest then


def _summaries(
    chosen: list[tuple[SourceFile, bytes | None]],
    jobs: int,
    cache: SummaryStore | None,
    progress: Callable[[int, int], None] | None,
    before: int,
    total: int,
    shelf: SummaryCache,
) -> list[FileFacts]:
    """Return the summaries of files, from the cache where they are known."""
    digests: list[bytes] = []
    found: list[FileFacts | None] = []
    missing: list[tuple[int, bytes | str]] = []
    cells: dict[int, Cells] = {}
    for number, (file, known) in enumerate(chosen):
        stored = None
        if known is None and file.digest and cache is not None:
            stored = cache.get(_summary_key(file.path, file.digest))
            facts = _facts(file, b"", file.digest, stored, shelf) if stored else None
            if facts is not None:
                digests.append(file.digest)
                found.append(facts)
                continue
        data = _again(file) if known is None else known
        chosen[number] = (file, data)
        digests.append(content_digest(data))
        stored = cache.get(_summary_key(file.path, digests[number])) if cache is not None else None
        facts = _facts(file, data, digests[number], stored, shelf) if stored else None
        found.append(facts)
        if facts is None:
            source, cells[number], problem = _source_of(file.path, data)
            if problem is None:
                missing.append((number, source))
            else:
                found[number] = _unreadable(file.path, problem)
    size = sum(len(source) for _, source in missing)

    def show(count: int) -> None:
        if progress is not None and count % 20 == 0:
            progress(min(total, total // 2 + (before + count) * total // (2 * max(len(chosen), 1))), total)

    if jobs > 1 and size > _WORTH_A_PROCESS and hasattr(os, "fork"):
        made = _in_processes(missing, jobs, show)
    else:
        made = _one_by_one(missing, show)
    for number, stored in made:
        file, known = chosen[number]
        facts = found[number] = _facts(file, known or b"", digests[number], stored, shelf, cells[number])
        failed = facts is not None and facts.problem is not None and facts.problem[0].startswith(_FAILED)
        if cache is not None and not failed:
            cache.put(_summary_key(file.path, digests[number]), stored)
    return [facts for facts in found if facts is not None]


#: For each line of a notebook as a file: its cell, and its line there. Empty for other files.
Cells = tuple[tuple[int, int], ...]


def _facts(
    file: SourceFile, data: bytes, digest: bytes, stored: bytes, shelf: SummaryCache, cells: Cells | None = None
) -> FileFacts | None:
    """A file with its summary; None where the stored one is damaged, so that it is made again.

    :param cells: those of a notebook, if they are known
    """

    def read() -> str:
        # read again when a finding needs it: the texts of a large tree do not fit into memory together
        now = _again(file)
        if content_digest(now) != digest:
            return ""
        source, _, _ = _source_of(file.path, now)
        return source if isinstance(source, str) else _decode(source)

    if cells is None:
        cells = _source_of(file.path, data)[1]
    try:
        return FileFacts(file.path, stored, read, cells, shelf, file.repository, digest, packaged=file.packaged)
    except ValueError:
        return None


def _source_of(path: str, data: bytes) -> tuple[bytes | str, Cells, str | None]:
    """What to parse: the file itself, or the cells of a notebook one after another; and why that can't be had."""
    if not path.endswith(".ipynb"):
        return data, (), None
    from . import notebooks

    try:
        source, cells = notebooks.to_source(data)
    except ValueError as error:
        return b"", (), str(error)
    return source, tuple(cells), None


def _decode(data: bytes) -> str:
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        return data.decode("utf-8", "replace")


def content_digest(data: bytes) -> bytes:
    """Return the digest by which the bytes of a file are known."""
    return hashlib.blake2b(data, digest_size=20).digest()


def _summary_key(path: str, digest: bytes) -> bytes:
    kind = b"notebook" if path.endswith(".ipynb") else b""
    return hashlib.blake2b(_VERSION + kind + digest, digest_size=20).digest()


def _aside_key(path: str, digest: bytes) -> bytes:
    # a key of its own: a summary that another round requested is no evidence about the first
    return hashlib.blake2b(_summary_key(path, digest) + b"aside", digest_size=20).digest()


def _unreadable(path: str, why: str) -> FileFacts:
    summary = FileSummary(Header([], (why, 1, 1), False, [], []), [("-",)], [], [(-1, "", 0, True, 0, 0)], [], [])
    return FileFacts(path, pack(summary), str)


def _extract_one(item: tuple[int, bytes | str]) -> tuple[int, bytes]:
    number, source = item
    try:
        return number, pack(extract(source))
    except Exception as error:  # noqa: BLE001 - one odd file must not take the others with it: it is reported
        why = f"{_FAILED} ({type(error).__name__}: {error}); please report that to the authors of distcheck"
        return number, _unreadable("", why).stored


def _one_by_one(items: list[tuple[int, bytes | str]], progress: Callable[[int], None]) -> Iterator[tuple[int, bytes]]:
    for count, item in enumerate(items):
        yield _extract_one(item)
        progress(count)


def _in_processes(
    items: list[tuple[int, bytes | str]], jobs: int, progress: Callable[[int], None]
) -> Iterable[tuple[int, bytes]]:
    """Summaries made in forked processes; the largest files first, so that none is left over at the end."""
    from distcheck.core.process_pool import in_processes

    order = sorted(range(len(items)), key=lambda number: -len(items[number][1]))

    def lost(number: int, why: str) -> tuple[int, bytes]:
        return items[number][0], _unreadable("", f"{_FAILED}: {why}").stored

    return in_processes(
        lambda number, _: _extract_one(items[number]),
        order,
        jobs=jobs,
        lost=lost,
        progress=lambda done, _: progress(done),
        most_ahead=4,
    ).values()
