"""The parser of a script that a launch line starts: its option for the local rank, and whether it refuses others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from distcheck.checks.source.program import Program, SourceCall

LOCAL_RANK_OPTIONS = ("--local-rank", "--local_rank")


class ScriptParser(NamedTuple):
    """How a script and its imports use options."""

    #: the spellings of the option for the local rank
    spellings: frozenset[str]
    #: the call that adds it
    option: SourceCall | None
    #: ``parse_args``, which refuses unknown options
    strict: bool
    #: LOCAL_RANK is read somewhere, so the option is not the only source
    completed: bool
    required: bool
    #: its value is used
    used: bool


def parser_of(program: Program, script: int) -> ScriptParser | None:
    known: dict[int, ScriptParser | None] = program.notes.setdefault("parsers of scripts", {})
    if script not in known:
        known[script] = _find_parser(program, script)
    return known[script]


def _find_parser(program: Program, script: int) -> ScriptParser | None:
    from distcheck.checks.source.device_uses import files_from
    from distcheck.checks.source.environment_variables import reads

    files = files_from(program, script)
    made = [call for call in program.calls_to("argparse.ArgumentParser") if call.file in files]
    if not made:
        return None
    spellings: set[str] = set()
    option = None
    swallows = False
    for call in program.calls_named("add_argument", files=files):
        own = [text_of_argument(call, position) for position in range(call.positional)]
        takes = call.argument(None, "nargs")
        swallows = swallows or (takes is not None and not isinstance(takes.constant, (str, int)))
        if any(one in LOCAL_RANK_OPTIONS for one in own):
            spellings.update(one for one in own if one is not None)
            option = call
    parsing = list(program.calls_named("parse_args", "parse_known_args", files=files))
    # a parser that first takes some options and then all of them refuses what it does not know
    parses = {call.method for call in parsing if not _is_only_first(call, parsing)}
    completed = any(read.name == "LOCAL_RANK" and read.row.file in files for read in reads(program))
    completed = completed or any(
        call.file in files for call in program.calls_to("torch.distributed.get_node_local_rank")
    )
    dest = (None if option is None else _keyword(option, "dest")) or "local_rank"
    used = option is not None and any(
        re.search(rf"\.{re.escape(str(dest))}\b", program.index.files[one].text) for one in files
    )
    return ScriptParser(
        frozenset(spellings),
        option,
        parses == {"parse_args"} and not swallows and any(_is_reached(program, script, call) for call in parsing),
        completed or program.framework(script) is not None,
        option is not None and _keyword(option, "required") is True,
        used,
    )


def _is_reached(program: Program, script: int, call: SourceCall) -> bool:
    """Return whether a script gets to a call, or imports a module that makes it."""
    from distcheck.checks.source.device_uses import roots_of

    return (script, 0) in roots_of(program, call) or (call.at_module_level and not call.inside("if"))


def _is_only_first(call: SourceCall, parsing: list[SourceCall]) -> bool:
    """Return whether ``parse_known_args`` is followed by ``parse_args`` of the same parser, for the same arguments."""
    return call.method == "parse_known_args" and any(
        other.method == "parse_args"
        and (other.file, other.scope, other.receiver_text) == (call.file, call.scope, call.receiver_text)
        and other.number > call.number
        and not other.inside("if", "else", "try", "except", "for", "while")
        and not other.positional
        and not other.keywords
        for other in parsing
    )


def text_of_argument(call: SourceCall, position: int) -> str | None:
    value = call.argument(position)
    constant = None if value is None else value.constant
    return constant if isinstance(constant, str) else None


def _keyword(call: SourceCall, name: str) -> object:
    value = call.argument(None, name)
    return None if value is None else value.constant


def is_whole(program: Program, script: int) -> bool:
    """Return whether the project adds all options of a parser: it has no parents, and no other code gets it."""
    known: dict[int, bool] = program.notes.setdefault("whole parsers of scripts", {})
    if script not in known:
        known[script] = all(not _adds_unseen(call) for call in _calls_of(program, script))
    return known[script]


def _calls_of(program: Program, script: int) -> Iterator[SourceCall]:
    """Yield the calls of a script and of its imports."""
    from distcheck.checks.source.device_uses import files_from
    from distcheck.checks.source.program import SourceCall

    for file in files_from(program, script):
        for number, event in enumerate(program.index.files[file].summary.events):
            if event[0] == "call":
                yield SourceCall(program, file, number)


def _adds_unseen(call: SourceCall) -> bool:
    """Return whether a call may add options outside the project."""
    if call.is_to("argparse.ArgumentParser"):
        return call.has_star or call.gives(None, "parents")
    roots = (*call.term[2], *(value for _, value in call.term[3]))
    if not roots or call.is_to("deepspeed.add_config_arguments") or call.program.functions(call):
        return False
    return any(
        atom.kind == "result" and atom.const == "argparse.ArgumentParser"
        for root in roots
        for atom in call.term_value(root)
    )
