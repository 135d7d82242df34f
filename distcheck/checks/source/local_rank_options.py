"""Probes about options for the local rank: their spellings, and LOCAL_RANK as what scripts read instead."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from distcheck import rules
from distcheck.core.model import Edit, Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import OPTION_OF, SCRIPTS, SIGN, SINCE
from distcheck.core.registry import probe

from .device_uses import is_overwritten, is_read, roots_of
from .environment_variables import reads, writes
from .imports_of_os import import_edit, import_place
from .process_start import names_launcher
from .program import Program, SourceCall, cached
from .values import Atom, Kind
from .vocabulary import INIT

LOCAL_RANK_OPTIONS = ("--local_rank", "--local-rank")
#: The release that passes the second spelling, as evidence.
_SPELLED_SINCE: dict[str, Any] = {SINCE: "2.0"}
#: torch 1.9 deprecated the launcher, and 1.10 brought torchrun.
DEPRECATED_SINCE: dict[str, Any] = {SINCE: "1.10"}
#: With it the old launcher adds no argument.
USE_ENV = lazy(r"\s*--use[-_]env\b")


@probe(rules.DC207)
def one_spelling_of_local_rank(program: Program) -> Iterator[Finding]:
    """A script that takes the local rank as an option takes both spellings, or reads LOCAL_RANK."""
    options: dict[int, list[tuple[SourceCall, list[str]]]] = {}
    for call in program.calls_named("add_argument", "option"):
        spelled = [
            text for position in range(call.positional) if (text := call.constant(position)) in LOCAL_RANK_OPTIONS
        ]
        if spelled:
            options.setdefault(call.file, []).append((call, spelled))
    if not options:
        return
    readers = {read.row.file for read in program.table(reads) if read.name == "LOCAL_RANK"}
    # if "LOCAL_RANK" not in os.environ: os.environ["LOCAL_RANK"] = str(args.local_rank)
    readers |= {
        write.row.file for write in program.table(writes) if write.name == "LOCAL_RANK" and write.row.inside("if")
    }
    for file, found in options.items():
        every = {text for _, spelled in found for text in spelled}
        if len(every) == 2 or program.imports_from(file, *_PASSED_BY_OTHERS):
            continue
        if any(_is_of_deepspeed(program, other) for other in (file, *program.index.importers(file))):
            continue
        call = found[0][0]
        scripts = _scripts(program, call)
        files = used_files(program, file).union(*(used_files(program, script) for script in scripts))
        spelling, reader = every.pop(), bool(readers.intersection(files))
        if is_completed(program, call, files) or (reader and spelling == LOCAL_RANK_OPTIONS[1]):
            continue
        dest = _destination(call)
        together = frozenset(files).union(program.index.importers(file))
        strict = _refuses_others(program, call, together)
        known = bool(readers & together)
        alone = not strict or not any(start.file in together for start in program.calls_to(*INIT))
        # an option that no code reads decides nothing; a launcher that passes it starts scripts with a group
        passed = call.method == "option" or _is_taken_whole(program, together)  # click makes it a parameter
        if not is_read(program, together, dest) and (known or (alone and not passed)):
            continue
        if ((known or alone) and is_overwritten(program, together, dest)) or (reader and not strict):
            continue
        yield _one_spelling(
            program, call, spelling, reader, strict=strict, own_launcher=_launches_with(program, file, spelling)
        )


def _scripts(program: Program, call: SourceCall) -> list[int]:
    """Return the scripts that reach a call."""
    return sorted({file for file, scope in roots_of(program, call) if scope == 0})


def _refuses_others(program: Program, call: SourceCall, files: frozenset[int]) -> bool:
    """Return whether a parser may refuse unknown options: not where only ``parse_known_args`` is called."""
    parsing = {one.method for one in program.calls_named("parse_args", "parse_known_args") if one.file in files}
    return call.method == "option" or parsing != {"parse_known_args"}


@cached
def _launches_with(program: Program, file: int, spelling: str) -> bool:
    """Return whether a launcher of the project itself passes an option with this spelling: ``"--local_rank=3"``."""
    repository = program.index.files[file].repository
    return any(
        term[0] == "k" and term[1] == "str" and str(term[2]).startswith(f"{spelling}=")
        for starter in {call.file for call in program.calls_to(*_COMMANDS)} - {file}
        if program.index.files[starter].repository == repository
        for term in program.terms[starter]
    )


#: What starts the processes of a launcher.
_COMMANDS = tuple(f"subprocess.{name}" for name in ("Popen", "run", "call", "check_call"))


def _is_of_deepspeed(program: Program, file: int) -> bool:
    """Return whether deepspeed starts a file, as far as imports show: not where a switch decides whether it is used."""
    if not program.imports_from(file, "deepspeed"):
        return False
    used = [call for call in program.calls_in({file}) if any(one.startswith("deepspeed.") for one in call.targets)]
    own = any(start.is_to("torch.distributed.init_process_group") for start in _inits(program, file))
    return not used or not own or not all(call.inside("if") for call in used)


def _inits(program: Program, file: int) -> Iterator[SourceCall]:
    files = used_files(program, file)
    return (call for call in program.calls_to(*INIT) if call.file in files)


def _is_taken_whole(program: Program, files: frozenset[int]) -> bool:
    """Return whether all options are passed on at once: ``vars(args)``, ``args.__dict__``, a parser of dataclasses."""
    for call in program.calls_named("vars", "parse_args_into_dataclasses", "asdict", "from_argparse_args"):
        if call.file in files:
            return True
    return any(term[0] == "a" and term[2] == "__dict__" for file in files for term in program.terms[file])


#: Their launchers pass the option, or set LOCAL_RANK for code of their own that reads it.
_PASSED_BY_OTHERS = ("accelerate", "lightning", "pytorch_lightning", "ray.train", "transformers.Trainer")


def is_completed(program: Program, call: SourceCall, files: Set[int]) -> bool:
    """Whether an option gets its value from LOCAL_RANK: as its default, or assigned where it was parsed or is used."""
    default = call.argument(None, "default")
    if default is not None and any(_of_local_rank(atom) for atom in default):
        return True
    dest = _destination(call)
    for row in program.rows("attribute"):
        if row.file in files and row.payload[1] == dest:
            terms = program.subterms(row.file, row.payload[2], names=False)
            if any(_of_local_rank(atom) for number in terms for atom in row.term_value(number)):
                return True
    return False


def _of_local_rank(atom: Atom) -> bool:
    return atom.const == "LOCAL_RANK" and atom.kind in (Kind.ENV_TEXT, Kind.LOCAL_RANK)


def _destination(call: SourceCall) -> str:
    """Return the name of the attribute that an option of the local rank is stored under."""
    given = call.constant(None, "dest")
    return given if isinstance(given, str) and given else "local_rank"


def used_files(program: Program, file: int) -> set[int]:
    """A file, what it imports, and what that imports: where its options may be completed."""
    found, edge = {file}, {file}
    for _ in range(2):
        edge = {
            located[0]
            for own in edge
            for dotted in program.imports(own)
            if (located := program.index.locate(own, dotted)) is not None
        } - found
        found |= edge
    return found


#: Evidence of a script that reads the variable as well.
_READS_VARIABLE: dict[str, Any] = {"variable": "LOCAL_RANK"}


def _one_spelling(
    program: Program, call: SourceCall, spelling: str, reader: bool, *, strict: bool, own_launcher: bool
) -> Finding:
    other = LOCAL_RANK_OPTIONS[1 - LOCAL_RANK_OPTIONS.index(spelling)]
    if reader:
        why = "torch.distributed.launch passes --local-rank from torch 2.0 on, which this parser refuses"
    elif spelling == LOCAL_RANK_OPTIONS[0]:
        why = (
            "torch.distributed.launch passes --local-rank from torch 2.0 on and torchrun passes none, "
            f"so {'the script ends or ' if strict else ''}every rank uses the default"
        )
    else:
        why = "torchrun passes no such option, so every rank uses the default"
    edits = takes_variable(program, call)
    return call.found(
        rules.DC207,
        f"{spelling} is the only spelling of this option: {why}",
        fix=f'read int(os.environ["LOCAL_RANK"]); for old launchers accept {other} too, with the variable as default',
        edits=edits,
        safe=bool(edits),
        # a launcher of the project passes what this parser takes; torch's is only one that may be used as well
        severity=Severity.INFO if own_launcher else None,
        option=spelling,
        **_scripts_of(program, call, strict=strict),
        **(_READS_VARIABLE if reader else {}),
        # older launchers pass what this parser takes
        **(_SPELLED_SINCE if spelling == LOCAL_RANK_OPTIONS[0] else {}),
    )


def _scripts_of(program: Program, call: SourceCall, *, strict: bool) -> dict[str, Any]:
    """Return the scripts that reach a call, whose launch lines decide whether it matters, and a sign of a launcher."""
    scripts = _scripts(program, call)
    named = next((file for file in (call.file, *scripts) if names_launcher(program, file)), None)
    paths = [program.index.files[file].path for file in scripts]
    return {
        SCRIPTS: paths,
        OPTION_OF: {"scripts": paths, "strict": strict},
        **({} if named is None else {SIGN: f"{program.index.files[named].path} names a launcher"}),
    }


def _type_of(program: Program, call: SourceCall) -> str | None:
    span = call.argument_span(None, "type")
    return None if span is None else program.source(span)


def takes_variable(program: Program, call: SourceCall) -> tuple[Edit, ...]:
    """Return the edits that make an option take both spellings, and LOCAL_RANK for its default; none if not sure."""
    spelled = {call.constant(item) for item in range(call.positional)}
    position = next((item for item in range(call.positional) if call.constant(item) in LOCAL_RANK_OPTIONS), -1)
    span = call.argument_span(position)
    place = import_place(program, call.file)
    if position < 0 or span is None or call.has_star or place is None or program.index.files[call.file].cells:
        return ()
    quote = program.source(span)[:1]
    if quote not in ("'", '"'):
        return ()
    both = spelled.issuperset(LOCAL_RANK_OPTIONS)
    edits = [] if both else [span.replaced_by(f"{quote}--local-rank{quote}, {quote}--local_rank{quote}")]
    default, required = call.argument_span(None, "default"), call.argument_span(None, "required")
    variable = 'default=int(os.environ.get("LOCAL_RANK", 0))'
    if default is not None:
        old = program.source(default)
        if "\n" in old or (old == "None" and _type_of(program, call) != "int"):
            return ()
        # argparse converts a default that is text, and leaves None as it is
        new = 'os.environ.get("LOCAL_RANK")' if old == "None" else f'int(os.environ.get("LOCAL_RANK", {old}))'
        edits.append(default.replaced_by(new))
    elif required is None:
        added = program.argument_edit(call, variable)
        if added is None:
            return ()
        edits.append(added)
    if required is not None:
        edits.append(required.replaced_by("False" if default is not None else f"False, {variable}"))
    if place:
        edits.append(import_edit(call.path, place))
    return tuple(edits)
