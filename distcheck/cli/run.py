"""``distcheck run -- torchrun … train.py``: check the launch, run it, and explain a failure."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from distcheck.checks.host.examine import examine
from distcheck.core.configuration import Configuration
from distcheck.core.model import Report, Severity
from distcheck.core.world import World
from distcheck.launch.reader import LaunchOptions
from distcheck.reporters import Style, render
from distcheck.rules import Selection

from . import options as shared
from . import output, tee
from .env import launch_of, with_job_script

if TYPE_CHECKING:
    from distcheck.checks.logs.model import LogReading
    from distcheck.checks.logs.reading import SourceReader

_SECTIONS = {
    "Before it starts": ("preflight_only", "preflight", "fail_on", "timeout"),
    "When it has failed": ("log_file", "output_format", "output_file", "color", "verbose", "quiet"),
    **shared.RULES,
    "How it runs": (),
}
#: The name of the output without ``--log``.
_UNNAMED = "output"
#: Bytes of the output that a temporary file keeps until the command exits (its file system may be in memory), and bytes
#: of the end that are kept in memory if that is not enough, or if the disk is full.
_MOST_SPOOLED = 1 << 30
_END_BYTES = 16 << 20
_PIECE = 1 << 20
#: torchrun's options for the folder of the ranks' output, and its variable.
_LOG_DIR, _LOG_DIR_VARIABLE = ("--log-dir", "--log_dir"), "PET_LOG_DIR"

EPILOG = """\b
Examples:
  distcheck run -- torchrun --nproc-per-node=8 train.py
  distcheck run --log train.log -- srun python train.py
  distcheck run --preflight-only -- torchrun --nnodes=2 … train.py     the same as 'distcheck env -- torchrun …'
  distcheck run --no-preflight -o verdict.json --output-format json -- torchrun … train.py

\b
Output and exit status are those of the command; reports go to standard error. The status is 128 and the number of the
signal that ended the command, 127 if there is no such command, and 1 if the pre-flight found an error.
"""


@click.command(
    "run",
    cls=shared.grouped(_SECTIONS),
    epilog=EPILOG,
    context_settings={"allow_interspersed_args": False, "auto_envvar_prefix": "DISTCHECK_RUN"},
)
@click.option("--preflight/--no-preflight", default=True, help="Check this host and the launch first.  [default: yes]")
@click.option("--preflight-only", is_flag=True, help="Check, report, and start nothing.")
@click.option(
    "--fail-on",
    type=click.Choice(shared.SEVERITIES),
    help="Do not start at findings of this severity or worse.  [default: error]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.05),
    default=20.0,
    show_default=True,
    metavar="S",
    help="Seconds for the check.",
)
@click.option("--log", "log_file", metavar="FILE", help="Also write the command's output to this file.")
@shared.selection_options
@shared.output_options
@shared.configuration_options
@click.argument("command_line", metavar="-- COMMAND …", nargs=-1, required=True, type=click.UNPROCESSED)
def command(**given: Any) -> int:
    """Check this host and the launch, run the command, and find the cause of a failure in its output.

    The command runs as without distcheck: its output is passed through unchanged, it has a terminal if there is one,
    signals reach it, and its exit status is returned.
    """
    if given["preflight_only"] and not given["preflight"]:
        raise click.UsageError("--preflight-only and --no-preflight exclude each other; give one of them")
    shared.check_output_file(given["output_file"])
    shared.check_output_file(given["log_file"], "--log")
    world = World()
    selection, configuration = shared.selection_and_configuration(world, given)
    fail_on = given["fail_on"] or shared.fail_on_of(configuration)
    style = _style(given)
    if given["preflight"]:
        report = look(given, world, configuration, selection)
        bad = fail_on != "never" and bool(report.at_least(Severity.parse(fail_on)))
        if given["preflight_only"]:
            _write(report, given, style)
            return output.FOUND if bad else output.CLEAN
        if bad:
            _write(report, given, style)
            output.say(
                "distcheck run: nothing was started; fix it, --ignore the rule, or start it anyway with --no-preflight"
            )
            return output.FOUND
        _mention(report, given)
    return _run(given, selection, style)


def look(given: Mapping[str, Any], world: World, configuration: Configuration, selection: Selection) -> Report:
    """Return the report of ``distcheck env -- COMMAND``."""
    options = dict.fromkeys(LaunchOptions._fields)
    launch = launch_of(
        world.environ, {**options, "command_line": given["command_line"], "launched": False}, world.host_name()
    )
    report = examine(
        launch, world, facts={Configuration: configuration}, selection=selection, budget_s=given["timeout"]
    )
    report = with_job_script(report, launch, world, selection, configuration, None, None)
    return output.with_settings_line(report, given, configuration)


def _run(given: Mapping[str, Any], selection: Selection, style: Style) -> int:
    """Run the command, and explain a failure."""
    words: Sequence[str] = given["command_line"]
    listener = _Listener(given["log_file"])
    began = time.time()
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.closing(listener):
        try:
            ended = tee.run(words, listener.take, _stream_is_full)
        except tee.CannotStart as error:
            output.say(f"distcheck run: {words[0]} can't be started: {error}")
            return error.status
        if ended.status == 0:
            return 0
        # the terminal may be closed by now; the status is still the command's
        with contextlib.suppress(OSError):
            _report_failure(given, ended, listener.diagnose(selection, log_folder(words, os.environ), began), style)
    return ended.status


def _report_failure(given: Mapping[str, Any], ended: tee.CommandExit, report: Report | None, style: Style) -> None:
    """Write the root cause, or one sentence if the output holds no failure."""
    if report is not None:
        if report.story["outcome"] == "clean" and given["output_format"] == "full":
            if ended.signal != signal.SIGINT:
                output.say(f"distcheck run: {_how(ended)}, and its output does not show why")
            if given["output_file"] in (None, "-"):
                return
        _write(report, given, style)


def _stream_is_full(descriptor: int, why: str) -> None:
    """Report that standard output or standard error is full; the command continues."""
    name = "standard output" if descriptor == 1 else "standard error"
    # it may be on the same disk
    with contextlib.suppress(OSError):
        output.say(
            f"distcheck run: {name} can't be written ({why}): the command continues, and its output there is lost"
        )


def _how(ended: tee.CommandExit) -> str:
    """Return how the command ended."""
    if ended.signal is not None:
        return f"the command was ended by {_signal_name(ended.signal)}"
    return f"the command ended with status {ended.status}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Listener:
    """Keep the command's output, to be read if it fails. An error here must not affect the command."""

    def __init__(self, log_file: str | None) -> None:
        self._file: IO[bytes] | None = open(log_file, "wb", buffering=0) if log_file else None  # noqa: SIM115 - for the run
        self._path = log_file or _UNNAMED
        #: the same file opened for reading, if it is a regular file
        self._again = _to_read_again(log_file, self._file) if log_file and self._file else None
        self._logged = 0
        self._spool: IO[bytes] | None = None
        self._spooled = 0
        self._end: deque[bytes] = deque()
        self._end_bytes = 0
        #: why some of the output is lost
        self._problem = ""
        self._lost = 0

    def take(self, data: bytes) -> None:
        if self._file is not None:
            data = self._log(self._file, data)
        if data and not self._problem:
            data = self._keep(data)
        if data:
            self._keep_the_end(data)

    def _log(self, file: IO[bytes], data: bytes) -> bytes:
        """Write to the requested file, and return the bytes that must be kept elsewhere."""
        written, error = _write_all(file, data)
        if error is not None:
            self._file = None
            # standard error may be on the same disk
            with contextlib.suppress(OSError):
                output.say(f"distcheck run: {self._path} can't be written any more: {error.strerror}")
            file.close()
        if self._again is None:
            return data
        self._logged += written
        return data[written:]

    def _keep(self, data: bytes) -> bytes:
        """Write to an unnamed temporary file, and return the bytes that do not fit."""
        try:
            if self._spool is None:
                import tempfile

                self._spool = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - for the run
        except OSError as error:
            self._problem = error.strerror or str(error)
            return data
        written, error_of_write = _write_all(self._spool, data[: _MOST_SPOOLED - self._spooled])
        self._spooled += written
        if error_of_write is not None:
            self._problem = error_of_write.strerror or str(error_of_write)
        elif self._spooled >= _MOST_SPOOLED:
            self._problem = f"it is longer than {_MOST_SPOOLED >> 30} GiB"
        return data[written:]

    def _keep_the_end(self, data: bytes) -> None:
        self._end.append(data)
        self._end_bytes += len(data)
        while self._end_bytes > _END_BYTES:
            first = self._end.popleft()
            self._end_bytes -= len(first)
            self._lost += len(first)

    def close(self) -> None:
        """Close all files."""
        for file in (self._file, self._again, self._spool):
            if file is not None:
                file.close()

    def _pieces(self) -> Iterator[bytes]:
        for file, size in ((self._again, self._logged), (self._spool, self._spooled)):
            if file is None:
                continue
            file.seek(0)
            while size > 0 and (data := file.read(min(size, _PIECE))):
                yield data
                size -= len(data)
        yield from self._end

    def _read(self) -> LogReading | None:
        """Return the reading of the kept output; None if nothing was written."""
        if self._lost:
            output.say(
                f"distcheck run: {self._lost / 1e6:.0f} MB in the middle of the output could not be kept "
                f"({self._problem}): keep all of it with --log FILE"
            )
        reader: SourceReader | None = None
        for data in self._pieces():
            reader = reader or _new_reader(self._path)
            reader.feed(data)
        return None if reader is None else reader.reading()

    def diagnose(self, selection: Selection, folder: str | None, began: float) -> Report | None:
        from distcheck.checks.logs.diagnose import diagnose, timeline_of
        from distcheck.checks.logs.reading import read

        from .log_output import with_subject

        try:
            own = self._read()
            readings: list[LogReading] = [] if own is None else [own]
            fresh = list(_written_since(folder, began)) if folder else []
            if fresh:
                readings.extend(read(fresh))
            # output after the failure was buffered until the command exited: the job did not continue
            timeline = timeline_of(readings)._replace(went_on=False)
            return with_subject(diagnose(timeline, selection=selection))
        except Exception as error:  # noqa: BLE001 - the command's status is worth more than its diagnosis
            why = f"{type(error).__name__}: {error}"
            output.say(f"distcheck run: the output could not be read ({why}): keep it with --log FILE")
            return None


def _write_all(file: IO[bytes], data: bytes) -> tuple[int, OSError | None]:
    """Write to an unbuffered file. Return the number of bytes written, and the error if not all were."""
    done = 0
    while done < len(data):
        try:
            done += file.write(data[done:])
        except OSError as error:
            return done, error
    return done, None


def _to_read_again(path: str, file: IO[bytes]) -> IO[bytes] | None:
    """Open the file again for reading; return None for a pipe, a device, or an unreadable file."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return None
    try:
        return open(path, "rb", buffering=0)
    except OSError:
        return None


def _new_reader(path: str) -> SourceReader:
    from distcheck.checks.logs.model import LogSource
    from distcheck.checks.logs.reading import SourceReader, matcher_of, signatures
    from distcheck.core.checker import load_plug_ins

    load_plug_ins()
    return SourceReader(LogSource(path), matcher_of(signatures()))


def log_folder(words: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return torchrun's folder for the ranks' output, or None."""
    for position, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in _LOG_DIR:
            return value if equals else words[position + 1] if position + 1 < len(words) else None
        if word.endswith(".py"):
            # the options after the script are its own, and may have the same names
            break
    return environ.get(_LOG_DIR_VARIABLE) or None


def _written_since(folder: str, began: float) -> Iterable[str]:
    """Yield the files below a folder that this run wrote, not those of earlier runs."""
    for root, _, names in os.walk(folder):
        for name in sorted(names):
            if not name.endswith((".log", ".json")):
                continue
            path = os.path.join(root, name)
            try:
                if os.path.getsize(path) and os.path.getmtime(path) >= began - 1:
                    yield path
            except OSError:
                continue


def _style(given: Mapping[str, Any]) -> Style:
    """Return the style for standard error or a file."""
    style = output.style_of(given)
    if given["color"] == "auto" and given["output_file"] in (None, "-"):
        style = style._replace(color=style.color and sys.stderr.isatty())
    return style


def _write(report: Report, given: Mapping[str, Any], style: Style) -> None:
    """Write to the file or to standard error: standard output is the command's."""
    text = render(report, given["output_format"], style)
    path = given["output_file"]
    if path not in (None, "-"):
        try:
            output.write_file(path, text)
        except OSError as error:
            output.say(f"distcheck run: {path} can't be written ({error.strerror}); the report follows")
        else:
            output.say(f"distcheck run: {sentence(report)} ({path})")
            return
    sys.stderr.write("\n" + text)
    sys.stderr.flush()


def sentence(report: Report) -> str:
    """Return a report in one line."""
    if report.story:
        return str(report.story.get("why") or "no failure is in the text")
    return f"{report.count(Severity.ERROR)} errors, {report.count(Severity.WARNING)} warnings"


def _mention(report: Report, given: Mapping[str, Any]) -> None:
    """Print one line for each finding that does not stop the launch."""
    if given["quiet"]:
        return
    for finding in report.at_least(Severity.WARNING):
        output.say(f"distcheck run: {finding.severity.word} {finding.code} {finding.message}")
