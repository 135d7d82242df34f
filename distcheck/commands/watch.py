"""``torchrun … -m distcheck.watch train.py``: rides along in a real job, and says who is stuck where."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from ..rehearsal.patrol import PATIENCE_S
from . import options as shared

ROOMS = ("distcheck.rehearsal.standing",)

EPILOG = """\b
Examples:
  torchrun --nproc-per-node=8 -m distcheck.watch train.py --lr 0.1
  torchrun --nnodes=2 --nproc-per-node=8 -m distcheck.watch --patience 60 -m package.train
  srun python -m distcheck.watch --on-hang abort -o hang.json train.py

Options of distcheck come before the script; what follows it is the script's. Each option can be given as a variable:
DISTCHECK_WATCH_PATIENCE=60.
"""


class Asked(NamedTuple):
    """What is to be run, and how it is watched."""

    target: str
    arguments: tuple[str, ...]
    module: bool
    patience_s: float
    abort: bool
    output_format: str
    output_file: str | None
    selection: Any


@click.command(
    epilog=EPILOG,
    context_settings={"auto_envvar_prefix": "DISTCHECK_WATCH", "allow_interspersed_args": False},
)
@click.option(
    "--patience", type=click.FloatRange(0.5, 86400.0), default=PATIENCE_S, show_default=True, metavar="S",
    help="Seconds without any movement, while ranks wait, before it is called a hang.",
)  # fmt: skip
@click.option(
    "--on-hang", type=click.Choice(["report", "abort"]), default="report", show_default=True,
    help="Only say it, or end the job with status 1 as well.",
)  # fmt: skip
@click.option("-o", "--output-file", metavar="FILE", help="Write the report there as JSON, too.")
@click.option("-m", "--module", is_flag=True, help="The script is the name of a module, as behind python -m.")
@shared.selection_options
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(context: click.Context, /, **given: Any) -> Asked:
    """Run a training script unmodified, and say within seconds which rank is stuck where.

    Started by torchrun or srun in place of the script. A side thread in each rank tells the others where it is; when
    ranks wait for what can't come, one report names who waits in which call at which line, and for whom.
    """
    asked = Asked(
        given["script"], given["arguments"], given["module"], given["patience"], given["on_hang"] == "abort", "full",
        given["output_file"], shared.selection_of(given["select"], given["extend_select"], given["ignore"]),
    )  # fmt: skip
    if not (context.obj and context.obj.get("as_rank")):
        # called as 'distcheck watch': the same in a process that has nothing else in it
        os.execv(sys.executable, [sys.executable, "-m", "distcheck.watch", *sys.argv[2:]])  # noqa: S606
    return asked


def read(arguments: Sequence[str]) -> Asked | int:
    """The options of ``python -m distcheck.watch``, or the status to end with."""
    try:
        found = command.main(
            list(arguments), prog_name="python -m distcheck.watch", standalone_mode=False, obj={"as_rank": True},
            help_option_names=["-h", "--help"], **command.context_settings,
        )  # fmt: skip
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return found if isinstance(found, (Asked, int)) else 0


def watch(asked: Asked) -> None:
    """Become the script, with a side thread where a launcher has made this a rank."""
    from ..rehearsal.running import CannotRun, run

    ended = _begin(asked)
    try:
        run(asked.target, asked.arguments, module=asked.module, ended=ended)
    except CannotRun as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2 if not asked.module else 1) from None


def _begin(asked: Asked) -> Callable[[Any], None]:
    import atexit

    from ..rehearsal.importing import when_imported
    from ..rehearsal.patrol import Patrol, connection, seat_of
    from ..rehearsal.posts import Posts

    environ = dict(os.environ)
    seat = seat_of(environ, socket.gethostname())
    if seat is None:
        say("distcheck watch: no launcher has made this process a rank (RANK, WORLD_SIZE); the script runs unwatched")
        return lambda _: None
    posts = Posts()
    when_imported("torch.distributed.distributed_c10d", posts.attach)
    patrol = Patrol(
        posts, seat, connect=connection(posts, environ), report=lambda positions: _report(asked, positions), say=say,
        patience_s=asked.patience_s, abort=asked.abort,
    )  # fmt: skip
    # registered before anything of the script: it runs behind all of that
    atexit.register(patrol.leave)
    patrol.start()
    return lambda end: patrol.ended(end.state, end.status, end.detail, end.stack)


def say(text: str) -> None:
    """One write, so that lines of several ranks do not mix."""
    try:
        sys.__stderr__.write(f"{text}\n")  # type: ignore[union-attr]
        sys.__stderr__.flush()  # type: ignore[union-attr]
    except (OSError, ValueError, AttributeError):
        return  # nobody reads it any more


def report_of(positions: Any, selection: Any) -> Any:
    """The verdict on where the ranks stand."""
    from ..checker import Checker
    from ..model import rank_ranges
    from ..rehearsal.model import Positions
    from ..rehearsal.standing import grouped_stacks

    report = Checker(selection, rooms=ROOMS).plan(Positions, command="watch", closed=True).run(positions)
    stacks = [
        {"ranks": rank_ranges(ranks), "stack": [frame._asdict() for frame in stack]}
        for ranks, stack in grouped_stacks(positions)
    ]
    return report._replace(
        stage="rank",
        subject={"ranks": positions.world_size, "patience_s": positions.patience_s, "stacks": stacks},
        facts={"Positions": positions},
    )


def _report(asked: Asked, positions: Any) -> None:
    from ..reporters import Style, render
    from . import output

    report = report_of(positions, asked.selection)
    text = render(report, asked.output_format, Style(color=False, width=100, unicode=False))
    say(f"{text.rstrip()}\n\n{stacks_text(report.subject['stacks'])}")
    if asked.output_file is not None:
        try:
            output.write_file(asked.output_file, render(report, "json", Style()))
        except OSError as error:
            say(f"distcheck watch: {asked.output_file} can't be written: {error.strerror}")


#: Frames of one stack that are shown.
_MOST_FRAMES = 12


def stacks_text(stacks: Sequence[Mapping[str, Any]]) -> str:
    """Stacks of all ranks, equal ones once, innermost frame first; the user's own frames are marked."""
    lines = []
    for item in stacks:
        several = not str(item["ranks"]).isdigit()
        lines.append(f"{'ranks' if several else 'rank'} {item['ranks']}:")
        frames = item["stack"]
        lines += [
            f"  {'>' if frame['own'] else ' '} {frame['path']}:{frame['line']} in {frame['function']}"
            for frame in frames[:_MOST_FRAMES]
        ]
        if len(frames) > _MOST_FRAMES:
            lines.append(f"    and {len(frames) - _MOST_FRAMES} more")
    return "\n".join(lines)
