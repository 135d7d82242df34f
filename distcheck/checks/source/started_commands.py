"""Probes about commands that a script starts: how they end, and the old launcher in them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Edit, Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .environment_variables import version_is_tested
from .local_rank_options import DEPRECATED_SINCE, LOCAL_RANK_OPTIONS, USE_ENV, used_files
from .process_start import STARTERS
from .program import EventRow, Program

#: Launchers in a command that waits for its ranks.
_WAITED_FOR = lazy(
    r"(^|[\s/'\"])(torchrun|deepspeed|accelerate launch|horovodrun|mpirun|srun)\s|-m torch\.distributed\.(launch|run)\b"
)


@probe(rules.DC813)
def status_of_a_started_launch_is_read(program: Program) -> Iterator[Finding]:
    """A script that starts ranks by a command reads how that command ended."""
    for call in program.calls_to("os.system", "subprocess.call", "subprocess.run"):
        checks = call.argument(None, "check")
        if call.use != "drop" or call.has_star or (checks is not None and checks.constant is not False):
            continue
        command = call.argument_term(0, "args" if call.method != "system" else "command")
        if command < 0 or not _WAITED_FOR.search(_command_text(program, call.file, command)):
            continue
        if any(_EXITS.search(line) for line in program.lines(call.file)[call.line - 1 : call.line + 2]):
            continue
        shell = call.method == "system"
        yield call.found(
            rules.DC813,
            f"{call.targets[0]}() starts ranks, and nothing checks their exit status: this script succeeds if they "
            "fail",
            fix="sys.exit(os.waitstatus_to_exitcode(os.system(…))), or subprocess.run(…, shell=True, check=True)"
            if shell
            else "add check=True"
            if call.method == "run"
            else "use subprocess.run(…, check=True)",
            severity=Severity.INFO,
        )


_EXITS = lazy(r"exit|returncode|check_returncode")


def _command_text(program: Program, file: int, term: int) -> str:
    """Return the words of a command that are known, in order as far as it is one text or list."""
    terms = program.terms[file]
    part = terms[term]
    if part[:2] == ("k", "str"):
        return str(part[2])
    if part[0] in ("f", "t", "l"):
        between = "" if part[0] == "f" else " "
        return between.join(_command_text(program, file, inner) for inner in part[1])
    if part[0] == "o":
        return _command_text(program, file, part[2]) + _command_text(program, file, part[3])
    if part[0] == "c" and terms[part[1]][0] == "a" and terms[part[1]][2] in ("format", "strip", "join"):
        return _command_text(program, file, terms[part[1]][1])
    if part[0] == "v":
        return "\n".join(_command_text(program, file, inner) for inner in program.bound(file, part))
    return "…"


@probe(rules.DC801)
def starts_the_old_launcher(program: Program) -> Iterator[Finding]:
    """No code starts torch.distributed.launch."""
    importing = {
        file for file in range(len(program.index.files)) if program.imports_from(file, "torch.distributed.launch")
    }
    for row in program.rows("import", importing):
        if row.payload[0] == "torch.distributed.launch" or row.payload[0].startswith("torch.distributed.launch."):
            yield row.found(
                rules.DC801,
                "torch.distributed.launch is imported; it is deprecated and will be removed",
                fix="import torch.distributed.run: it has the same main(), and passes no --local-rank",
                severity=row.level_in_tests,
                **DEPRECATED_SINCE,
            )
    texts = [row for row in program.rows("text") if "torch.distributed.launch" in row.payload[0]]
    if not texts:
        return
    commands = {file: _commands(program, file) for file in {row.file for row in texts}}
    takes_option = {
        call.file
        for call in program.calls_named("add_argument", "option")
        if any(call.constant(position) in LOCAL_RANK_OPTIONS for position in range(call.positional))
    }
    for row in texts:
        text = row.payload[0]
        if text not in commands[row.file] or version_is_tested(program, row):
            continue
        edits = _to_torchrun(program, row)
        script = _script(program, row)
        # the other options of a list are texts of their own
        whole = program.index.files[row.file].text if text == "torch.distributed.launch" else text
        adds = not USE_ENV.search(whole)
        without = not adds or (script is not None and not takes_option.intersection(used_files(program, script)))
        yield row.found(
            rules.DC801,
            "torch.distributed.launch is started; it is deprecated"
            + (", and adds --local-rank (before torch 2.0: --local_rank) to the script's command line" if adds else ""),
            fix="start torchrun, or from this Python torch.distributed.run"
            + ("" if without else '; it passes no --local-rank: the script must read int(os.environ["LOCAL_RANK"])'),
            edits=edits,
            safe=bool(edits) and without,
            risk="a script that only knows --local-rank then gets no local rank" if edits and not without else None,
            severity=row.level_in_tests,
            **DEPRECATED_SINCE,
        )


def _commands(program: Program, file: int) -> set[str]:
    """The texts with the old launcher in commands: given to what starts processes, or behind ``-m`` in a list."""
    terms = program.terms[file]
    found = set()
    for term in terms:
        if term[0] in ("t", "l"):
            inner = [terms[number] for number in term[1]]
            words = [item[2] if item[:2] == ("k", "str") else "" for item in inner]
            if ("-m", "torch.distributed.launch") in itertools.pairwise(words):
                found.add("torch.distributed.launch")
    for call in program.calls_to(*STARTERS):
        if call.file != file:
            continue
        roots = call.argument_terms
        for number in program.subterms(file, *roots):
            term = terms[number]
            if term[0] == "k" and term[1] == "str" and "torch.distributed.launch" in term[2]:
                found.add(term[2])
        for root in roots:
            found.update(
                constant
                for constant in call.term_value(root).constants
                if isinstance(constant, str) and "torch.distributed.launch" in constant
            )
    return found


def _script(program: Program, row: EventRow) -> int | None:
    """The file that a command with the old launcher starts, where it is one of the program and surely the one."""
    text = row.payload[0]
    words = text.split()
    if len(words) == 1:
        terms = program.terms[row.file]
        lists = [
            [terms[number][2] for number in term[1] if terms[number][:2] == ("k", "str")]
            for term in terms
            if term[0] in ("t", "l") and any(terms[number][:3] == ("k", "str", text) for number in term[1])
        ]
        words = lists[0] if len(lists) == 1 else []
    names = [word for word in words if word.endswith(".py")]
    if len(names) != 1:
        return None
    found = [
        number
        for number, facts in enumerate(program.index.files)
        if f"/{facts.path}".endswith("/" + names[0].removeprefix("./"))
    ]
    return found[0] if len(found) == 1 else None


_OLD = lazy(r"(?P<python>(?:python[\d.]*\s+)?-m\s+)?torch\.distributed\.launch")


def _to_torchrun(program: Program, row: EventRow) -> tuple[Edit, ...]:
    """Return the edits that start torchrun instead, where the text stands on one line."""
    span = row.span
    if span.line != span.end_line:
        return ()
    line = program.lines(row.file)[span.line - 1]
    match = _OLD.search(line, span.column - 1, span.end_column - 1)
    if match is None:
        return ()
    python = match["python"]
    text = "torchrun" if python and python.startswith("python") else f"{python or ''}torch.distributed.run"
    # torchrun refuses this option of the old launcher
    options = list(USE_ENV.finditer(line, span.column - 1, span.end_column - 1))
    if not options and USE_ENV.search(program.index.files[row.file].text):
        return ()
    return tuple(
        Edit(row.path, span.line, found.start() + 1, span.line, found.end() + 1, new)
        for found, new in ((match, text), *((option, "") for option in options))
    )
