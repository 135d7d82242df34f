"""Probes about the local rank that a launcher passes as an option, or no longer does: DC207, and DC801."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix
from distcheck.core.rank_evidence import SINCE
from distcheck.core.registry import probe
from distcheck.launch.model import ELASTIC_LAUNCHERS, NODE_LAUNCHERS

from . import context
from .model import LaunchFiles, LaunchSite, Word
from .script_parsers import LOCAL_RANK_OPTIONS, ScriptParser, is_whole, parser_of, text_of_argument
from .scripts import ScriptStart, Started, script_word

_DEPRECATED = "torch.distributed.launch"


@probe(rules.DC207)
def local_rank_is_passed_as_it_is_taken(launch_files: LaunchFiles, started: Started) -> Iterator[Finding]:
    """A launcher passes the local rank as an option only to a script with that option, and a required one is passed."""
    program = started.program
    if program is None:
        return
    for start in started.starts:
        command = start.site.command
        if command.launcher not in NODE_LAUNCHERS or command.no_python or "script_args" in command.unknown:
            continue
        parser = parser_of(program, start.script)
        if parser is None:
            continue
        if command.local_rank_argument is not None:
            if (
                parser.strict
                and command.local_rank_argument not in parser.spellings
                and is_whole(program, start.script)
            ):
                yield _not_taken(start, command.local_rank_argument, parser)
        elif command.launcher in ELASTIC_LAUNCHERS and parser.option is not None and not parser.completed:
            passed = any(word.partition("=")[0] in parser.spellings for word in command.script_args)
            single = command.nproc in (None, "1") and "nproc" not in command.unknown
            if not passed and (parser.required or (parser.used and not single)) and command.launcher != "accelerate":
                yield _not_passed(start, parser)


def _not_taken(start: ScriptStart, given: str, parser: ScriptParser) -> Finding:
    site = start.site
    other = next(iter(sorted(parser.spellings)), None)
    does = f"knows {other} only" if other else "knows no such option"
    word = script_word(site)
    # older releases pass the other spelling
    old = site.command.launcher == _DEPRECATED and parser.spellings.intersection(LOCAL_RANK_OPTIONS)
    since_torch = {SINCE: "2.0"} if old else {}
    launcher = "python -m torch.distributed.launch" if site.command.launcher == _DEPRECATED else site.command.launcher
    since = " from torch 2.0 on" if site.command.launcher == _DEPRECATED else ""
    how = (
        f'start it with torchrun, which passes none, and read int(os.environ["LOCAL_RANK"]) in {start.path}'
        if site.command.launcher == _DEPRECATED
        else f'add parser.add_argument("--local_rank", type=int, default=-1) to {start.path}, or give deepspeed '
        "--no_local_rank and read LOCAL_RANK"
    )
    return rules.DC207.found(
        f"{launcher} adds {given}=N to the arguments of {start.path}{since}, whose parser {does} and ends with "
        f'"unrecognized arguments: {given}=0"',
        where=site.where(word, object=start.path),
        evidence={"script": start.path, "option": given, **since_torch, **_flow(parser)},
        fix=Fix(how, where="code"),
    )


def _not_passed(start: ScriptStart, parser: ScriptParser) -> Finding:
    site = start.site
    option = parser.option
    spelled = sorted(parser.spellings & set(LOCAL_RANK_OPTIONS))[0] if parser.spellings else "--local_rank"
    what = "ends at once, since that is required" if parser.required else "takes the default of it in every rank"
    word = script_word(site)
    return rules.DC207.found(
        f"{site.command.launcher} passes no {spelled}, and {start.path} {what}"
        + (f" ({option.path}:{option.line})" if option is not None else ""),
        where=site.where(word, object=start.path),
        evidence={"script": start.path, "option": spelled, **_flow(parser)},
        fix=Fix(f'read int(os.environ["LOCAL_RANK"]) in {start.path}, which torchrun sets for each rank', where="code"),
    )


def _flow(parser: ScriptParser) -> dict[str, list[str]]:
    option = parser.option
    return {} if option is None else {"flow": [f"{option.path}:{option.line}: {option.text()}"]}


# the old launcher


@probe(rules.DC801)
def launch_line_has_the_old_launcher(launch_files: LaunchFiles, started: Started) -> Iterator[Finding]:
    """No launch line uses torch.distributed.launch."""
    starts = {id(start.site): start for start in started.starts}
    for _, site in launch_files.sites():
        if site.command.launcher != _DEPRECATED or not context.is_complete(site):
            continue
        word = _module_word(site)
        start = starts.get(id(site))
        adds = site.command.local_rank_argument
        needs = _what_the_script_needs(started, start) if adds else _Needs("", (), safe=True)
        edits = () if needs.edits is None else _to_torchrun(site, word)
        edits += (needs.edits or ()) if edits else ()
        loses = bool(edits) and not needs.safe
        env_option = next((one.text for one in site.words if one.text in ("--use_env", "--use-env")), None)
        yield rules.DC801.found(
            "torch.distributed.launch is deprecated"
            # torch 2.0 changed the spelling
            + (
                f", and adds {adds} (before torch 2.0: --local_rank) to the script's arguments"
                if adds
                else "; torchrun does the same"
            ),
            where=site.where(word, object=_DEPRECATED),
            # torch 1.9 deprecated it, and 1.10 brought torchrun
            evidence={SINCE: "1.10"} if start is None else {"script": start.path, SINCE: "1.10"},
            fix=Fix(
                "replace it by torchrun, which has the same options"
                + (f" but {env_option}: leave that out" if env_option else "")
                + needs.text,
                edits=edits,
                safe=bool(edits) and needs.safe,
                where="launch-line",
                risk="a script that only knows --local-rank then gets no local rank" if loses else None,
            ),
        )


class _Needs(NamedTuple):
    """What a script needs before torchrun starts it, which passes no ``--local-rank``."""

    #: for the text of the fix
    text: str
    #: None if the script would lose its local rank, and no edit is known
    edits: tuple[Edit, ...] | None
    #: whether the script is known, and then has its local rank
    safe: bool


def _what_the_script_needs(started: Started, start: ScriptStart | None) -> _Needs:
    program = started.program
    if start is None or program is None:
        text = '; it passes no --local-rank: a script with that option reads int(os.environ["LOCAL_RANK"]) instead'
        return _Needs(text, (), safe=False)
    from distcheck.checks.source.device_uses import files_from
    from distcheck.checks.source.environment_variables import reads
    from distcheck.checks.source.local_rank_options import is_completed, takes_variable

    files = files_from(program, start.script)
    reader = any(read.name == "LOCAL_RANK" and read.row.file in files for read in reads(program))
    options = [
        call
        for call in program.calls_named("add_argument", "option", files=files)
        if any(text_of_argument(call, position) in LOCAL_RANK_OPTIONS for position in range(call.positional))
    ]
    needed = [call for call in options if not is_completed(program, call, set(files))]
    if reader and not needed:
        return _Needs(f"; {start.path} reads LOCAL_RANK", (), safe=True)
    made = [takes_variable(program, call) for call in needed]
    return _Needs(
        f"; it passes no --local-rank, so {start.path} must use LOCAL_RANK, which it reads, and no option"
        if reader
        else f'; first read int(os.environ["LOCAL_RANK"]) in {start.path}: torchrun passes no --local-rank',
        tuple(edit for edits in made for edit in edits) if all(made) else None,
        safe=False,
    )


def _module_word(site: LaunchSite) -> Word | None:
    for word in site.words:
        if word.text == _DEPRECATED or word.text.endswith("torch/distributed/launch.py"):
            return word
    return None


def _to_torchrun(site: LaunchSite, word: Word | None) -> tuple[Edit, ...]:
    """Return the edits that replace ``python -m`` and the module by torchrun, without ``--use-env``."""
    if word is None or word.origins or word.text != _DEPRECATED or _DEPRECATED not in word.written:
        return ()
    at = site.words.index(word)
    python, option = (site.words[at - 2], site.words[at - 1]) if at >= 2 else (None, None)
    plain = (
        python is not None
        and option is not None
        and re.fullmatch(r"python[\d.]*", python.written) is not None
        and option.written == "-m"
        and word.written == _DEPRECATED
        and python.span.line == word.span.end_line
        and option.span.column == python.span.end_column + 1
        and word.span.column == option.span.end_column + 1
    )
    if plain and python is not None:
        end = word.span
        edits = [python.span._replace(end_line=end.end_line, end_column=end.end_column).replaced_by("torchrun")]
    else:
        edits = [word.span.replaced_by(word.written.replace(_DEPRECATED, "torch.distributed.run"))]
    for index in range(at + 1, len(site.words) - len(site.command.script_args)):
        flag = site.words[index]
        if flag.text in ("--use_env", "--use-env"):
            before = site.words[index - 1].span
            if flag.origins or before.end_line != flag.span.line or flag.written != flag.text:
                return ()
            edits.append(flag.span._replace(line=before.end_line, column=before.end_column).replaced_by(""))
    return tuple(edits)
