"""``distcheck pickle`` on files: select the files, scan them in one process or several, join the reports.

Nothing here reads options (see :mod:`.pickle`) or prints a report, and nothing imports click.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from distcheck.checks.pickles.api import FileReport, Scanner, failed, summarise, unreadable
from distcheck.core.model import NotChecked, Report
from distcheck.reporters import escape
from distcheck.rules import Selection

from . import output

if TYPE_CHECKING:
    from distcheck.checks.pickles.verdict import Policy
    from distcheck.checks.source.discovery import Globs
    from distcheck.core.configuration import Configuration

#: Folders of version control: what is loaded from there was checked out first.
SKIPPED = (".git", ".hg", ".svn")
#: Files from which on processes pay for their start, and bytes of a file that may hold a pickle worth one.
_WORTH_PROCESSES = 24
_LARGE = 1_000_000
#: Each takes two pipes, and ``select`` takes descriptors below 1024.
_MOST_PROCESSES = 128
#: Files that a worker gets at once: most files take less time than one exchange with the parent.
_FILES_AHEAD = 16
#: Bytes of standard input that are kept in memory; what is longer goes to a file without a name.
_IN_MEMORY = 16 << 20
#: How shells name a pipe (``<(command)``).
_DESCRIPTORS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
#: What is read at once of standard input, in bytes.
_PIECE = 1 << 20
#: Seconds after which a terminal shows progress.
_PROGRESS_AFTER_S = 1.0

ProgressCallback = Callable[[int, int], None]
#: The defaults of the options that a run reads.
DEFAULTS: Mapping[str, Any] = {
    "output_format": "full",
    "output_file": None,
    "color": "auto",
    "verbose": False,
    "quiet": False,
    "confirm": False,
    "list_skipped": False,
    "strict": False,
    "exit_zero": False,
    "select": (),
    "ignore": (),
}


class ScanOptions(NamedTuple):
    """What a call requests, from its options and the configuration."""

    paths: tuple[str, ...]
    given: Mapping[str, Any]
    selection: Selection
    policy: Policy
    fail_on: str = "error"
    must_check: Selection | None = None
    jobs: int = 1
    excludes: Globs | None = None
    #: None where there is no configuration file
    configuration: Configuration | None = None


class ScanFiles(NamedTuple):
    """The files that are meant."""

    files: tuple[str, ...] = ()
    #: (path, why) of what is named, or in a folder that is, and can't be read
    problems: tuple[tuple[str, str], ...] = ()
    #: folders that hold nothing to scan
    empty: tuple[str, ...] = ()
    #: files of folders that are no pickle by their content and promise none by their name, and what is excluded
    skipped: tuple[str, ...] = ()


def run(requested: ScanOptions) -> int:
    """Scan, write the report, and the exit status."""
    began = time.monotonic()
    found = discover(requested.paths, requested.excludes)
    scanner = Scanner(requested.policy, selection=requested.selection)
    if sys.stderr is not None and sys.stderr.isatty():
        from distcheck.reporters.progress import Progress

        with Progress(sys.stderr) as line:
            reports = scan(scanner, found.files, jobs=requested.jobs, progress=_delayed(line.show, began))
    else:
        reports = scan(scanner, found.files, jobs=requested.jobs)
    reports = [report for report in reports if report.path in requested.paths or is_of_ours(report)]
    if requested.given["confirm"]:
        from .pickle_confirm import confirm

        reports = confirm(reports, requested.policy)
    return _finish(requested, found, joined(found, reports, scanner, elapsed_s=time.monotonic() - began))


def is_of_ours(report: FileReport) -> bool:
    """Whether a file that a folder holds is worth a line: an archive or compressed data without a pickle is not."""
    from distcheck.checks.pickles.formats import PACKED, PROMISING, ending
    from distcheck.checks.pickles.verdict import NOTHING_TO_JUDGE

    path = report.path.lower()
    if ending(path) in PROMISING or ending(os.path.splitext(path)[0]) in PROMISING:
        return True
    other = report.complete and report.format in {f"{kind} file" for kind in PACKED}
    return not other and report.unopened != (NOTHING_TO_JUDGE,)


def _finish(requested: ScanOptions, found: ScanFiles, report: Report) -> int:
    given = requested.given
    subject = dict(report.subject)
    from distcheck.checks.pickles.torch_globals import rules_for

    table = rules_for(requested.policy.torch_version)
    subject["torch"] = requested.policy.torch_version or table.version
    subject["line"] = [*subject["line"], table.note or f"as torch {subject['torch']} has it"]
    if found.skipped:
        subject["skipped"] = len(found.skipped)
        subject["line"].append(f"{len(found.skipped)} skipped")
    if given["list_skipped"]:
        subject["skipped_paths"] = list(found.skipped)
    report = report._replace(subject=subject)
    if requested.configuration is not None:
        report = output.with_settings_line(report, given, requested.configuration)
    style = output.style_of(given)
    chosen = "full" if given["quiet"] and given["output_format"] == "concise" else given["output_format"]
    written = output.emit(report, chosen, given["output_file"], style)
    if not given["quiet"]:
        for path in found.empty:
            output.say(f"distcheck: {escape(path)}: nothing in it is a pickle or a checkpoint")
    if given["list_skipped"]:
        for path in found.skipped:
            output.say(f"skipped: {escape(path)}")
    verdicts = subject["verdicts"]
    if verdicts and all(file["format"] == "unreadable" for file in verdicts):
        output.say("distcheck: none of the input could be read")
        return output.MISUSED
    status = output.conclude(report, given, written=written, fail_on=requested.fail_on, must_check=requested.must_check)
    return output.or_not_checked(status, given, escape(incomplete(verdicts)))


def incomplete(verdicts: Iterable[Mapping[str, Any]]) -> str:
    """Return which files could not be checked completely, in a sentence; "" if all could."""
    unseen = [file["path"] for file in verdicts if not file["complete"]]
    more = f" and {len(unseen) - 1} more" if len(unseen) > 1 else ""
    return f"not all of {unseen[0]}{more} could be checked: not known to be safe" if unseen else ""


def missing(paths: Iterable[str]) -> str | None:
    """The first path that is not there; None where all are. ``-`` is standard input."""
    return next((path for path in paths if path != "-" and not os.path.lexists(path)), None)


def discover(paths: Sequence[str], excludes: Globs | None = None) -> ScanFiles:
    """The files to scan: what is named, and of a folder whatever holds or promises a pickle or a checkpoint.

    Folders are walked in the order of names; links to folders are not followed, a file that is reached in several ways
    is taken once. Hidden files count. A folder that is a distributed checkpoint stands for the files of it.
    """
    files: list[str] = []
    problems: list[tuple[str, str]] = []
    empty: list[str] = []
    skipped: list[str] = []
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            files.append(path)
            continue
        before = len(files), len(problems)
        for inside in _walk(path, excludes, problems, skipped):
            files.append(inside)
        if before == (len(files), len(problems)):
            empty.append(path)
    kept = tuple(_once(files))
    return ScanFiles(kept, tuple(problems), tuple(empty), tuple(skipped))


def _walk(top: str, excludes: Globs | None, problems: list[tuple[str, str]], skipped: list[str]) -> Iterator[str]:
    from distcheck.checks.pickles import files, formats

    here = os.getcwd()
    pending = [os.path.normpath(top)]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            problems.append((folder, error.strerror or str(error)))
            continue
        whole = formats.is_distributed_checkpoint(folder)
        if whole:
            yield folder
        below: list[str] = []
        for entry in found:
            path = entry.name if folder == "." else os.path.join(folder, entry.name)
            if excludes is not None and excludes.match_file(path, here):
                skipped.append(path)
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    (skipped if entry.name in SKIPPED else below).append(path)
                elif whole and (entry.name == ".metadata" or entry.name.endswith(".distcp")):
                    continue
                elif entry.is_file():
                    if files.looks_like_pickle(path):
                        yield path
                    else:
                        skipped.append(path)
            except OSError as error:
                problems.append((path, error.strerror or str(error)))
        pending.extend(reversed(below))


def _once(paths: Iterable[str]) -> Iterator[str]:
    """Each file once, by its clearest name: a model cache links ``model.bin`` to a file named by its hash."""
    best: dict[object, str] = {}
    for path in paths:
        try:
            state = os.stat(path)
            key: object = (state.st_dev, state.st_ino) if state.st_ino else path
        except OSError:
            key = path
        known = best.get(key)
        if known is None or ("." in os.path.basename(path)) > ("." in os.path.basename(known)):
            best[key] = path
    kept = set(best.values())
    yield from dict.fromkeys(path for path in paths if path in kept)


@contextmanager
def _spooled(stream: IO[bytes]) -> Iterator[Any]:
    """What can't be read twice: as bytes where it is short, else as a source over a file that has no name."""
    parts: list[bytes] = []
    size = 0
    while piece := stream.read(_PIECE):
        parts.append(piece)
        size += len(piece)
        if size > _IN_MEMORY:
            break
    else:
        yield b"".join(parts)
        return
    import tempfile

    from distcheck.checks.pickles.source_bytes import FileSource

    with tempfile.TemporaryFile() as file:
        for part in parts:
            file.write(part)
        parts.clear()
        while piece := stream.read(_PIECE):
            file.write(piece)
        file.flush()
        yield FileSource(file.fileno())


def scan_one(scanner: Scanner, path: str) -> FileReport:
    """One path, ``-`` for standard input; what can't be read is reported, not raised."""
    try:
        if path == "-":
            with _spooled(sys.stdin.buffer) as given:
                return scanner.scan(given, "-")
        if path.startswith(_DESCRIPTORS) and not os.path.isfile(path):
            with open(path, "rb") as stream, _spooled(stream) as given:
                return scanner.scan(given, path)
        return scanner.scan(path)
    except OSError as error:
        return unreadable(path, error.strerror or str(error), selection=scanner.selection)


def scan(
    scanner: Scanner, paths: Sequence[str], *, jobs: int = 1, progress: ProgressCallback | None = None
) -> list[FileReport]:
    """All files in the order given, in several processes where that pays."""
    if jobs > 1 and hasattr(os, "fork") and _worth_processes(paths):
        from distcheck.core.process_pool import in_processes

        scanner.plan()  # made once, before the processes are forked
        done = in_processes(
            lambda number, _: scan_one(scanner, paths[number]),
            range(len(paths)),
            jobs=min(jobs, len(paths), _MOST_PROCESSES),
            lost=lambda number, why: failed(paths[number], why, selection=scanner.selection),
            progress=progress and (lambda files, _: progress(files, len(paths))),
            most_ahead=_FILES_AHEAD,
        )
        return [done[number] for number in range(len(paths))]
    reports = []
    for number, path in enumerate(paths):
        if progress is not None:
            progress(number, len(paths))
        reports.append(scan_one(scanner, path))
    return reports


def _worth_processes(paths: Sequence[str]) -> bool:
    if "-" in paths or len(paths) < 2:
        return False
    if len(paths) >= _WORTH_PROCESSES:
        return True
    large = 0
    for path in paths:
        try:
            large += os.path.getsize(path) > _LARGE
        except OSError:
            continue
    return large > 1


def _delayed(show: Callable[[str, str, int, int], None], began: float) -> ProgressCallback:
    """Return the callback that shows progress on a terminal, once the run takes longer than a second."""

    def progress(done: int, total: int) -> None:
        if time.monotonic() >= began + _PROGRESS_AFTER_S:
            show("pickle", "reading files", done, total)

    return progress


def joined(found: ScanFiles, reports: Sequence[FileReport], scanner: Scanner, *, elapsed_s: float) -> Report:
    """One report of all files, and of what could not be read."""
    units = [*reports]
    units += [unreadable(path, why, selection=scanner.selection) for path, why in found.problems]
    report = summarise(units, elapsed_s=elapsed_s)
    if found.empty:
        nothing = tuple(
            NotChecked(path, "nothing in it is a pickle or a checkpoint, by its content or by its name")
            for path in found.empty
        )
        report = report._replace(not_checked=(*report.not_checked, *nothing))
    return report
