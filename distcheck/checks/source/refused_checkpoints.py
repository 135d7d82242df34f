"""A probe of checkpoints that a program writes and can't read again: ``torch.load`` refuses what they hold.

It joins the two ends by the keys of the checkpoint: what is loaded is read by keys under which the program saves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import SINCE
from distcheck.core.registry import probe

from . import call_paths
from .pickled_arguments import is_module
from .program import Program, SourceCall
from .values import Atom, Kind, Value

#: Results of other libraries that the restricted unpickler refuses, and what to save instead.
_REFUSED = {
    "argparse.Namespace": "vars({})",
    "pathlib.Path": "str({})",
    "collections.defaultdict": "dict({})",
    "datetime.datetime.now": "{}.isoformat()",
    "easydict.EasyDict": "dict({})",
    "omegaconf.OmegaConf.load": "OmegaConf.to_container({})",
    "omegaconf.OmegaConf.create": "OmegaConf.to_container({})",
    "omegaconf.OmegaConf.merge": "OmegaConf.to_container({})",
    "omegaconf.OmegaConf.structured": "OmegaConf.to_container({})",
    "numpy.random.get_state": "",
}
#: What a program does that has dealt with it.
_DEALS_WITH_IT = lazy(
    r"add_safe_globals|safe_globals|TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD|torch\.load\s*=[^=]"
    # megatron/core/safe_globals.py allows Namespace, Path and NumPy's arrays when the package is imported
    r"|^[ \t]*(?:from|import)[ \t]+megatron\.core\b",
    re.MULTILINE,
)
#: What gives a file that is there another name.
_RENAMES = (
    "shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move", "os.rename", "os.renames",
    "os.replace", "os.symlink", "os.link",
)  # fmt: skip
#: Keys of a checkpoint that a load must share with a save if it does not read what is refused.
_FEWEST_KEYS = 2


class _Saved(NamedTuple):
    """A call that saves a dict with something that is refused."""

    call: SourceCall
    keys: frozenset[str]
    key: str
    what: str
    instead: str
    atom: Atom


@probe(rules.DC611)
def own_checkpoint_is_refused(program: Program) -> Iterator[Finding]:
    """What a program saves, it can load."""
    saved = [found for call, term in saves(program) for found in _refused(call, term)]
    if not saved:
        return
    read = keys_read(program)
    for call in program.calls_to("torch.load"):
        if call.has_star or call.gives(None, "weights_only") or call.gives(2, "pickle_module"):
            continue
        keys = read.get((call.file, call.number), set())
        files = set(call_paths.related(program, call.file))
        shared = [
            one
            for one in saved
            if one.call.file in files and _reads(keys, one) and not are_other_files(program, call, one.call, files)
        ]
        if not shared or any(_DEALS_WITH_IT.search(program.index.files[file].text) for file in files):
            continue
        one = max(shared, key=lambda item: (len(keys & item.keys), -item.atom.certainty))
        distributed = program.is_distributed(call.file) and not program.is_test(call.file)
        where = f"{one.call.place}"
        instead = f"save `{one.instead}` at {where}" if one.instead else f"don't save it at {where}"
        yield call.found(
            rules.DC611,
            f"torch.load refuses this checkpoint from torch 2.6 on: {where} saves {one.what} under {one.key!r}",
            fix=f"{instead}; files that exist already need `weights_only=False`, which runs any code in them",
            basis=(one.atom,),
            severity=Severity.WARNING if distributed else Severity.INFO,
            flow=program.flow(one.atom.flow),
            **_REFUSED_SINCE,
        )


#: The release of torch that changed the default of ``weights_only``.
_REFUSED_SINCE: dict[str, Any] = {SINCE: "2.6"}


def _reads(keys: set[str], saved: _Saved) -> bool:
    """Return whether what is read by these keys is what was saved: what is refused, or several other keys."""
    return saved.key in keys or len(keys & saved.keys) >= _FEWEST_KEYS


def are_other_files(program: Program, load: SourceCall, save: SourceCall, files: set[int]) -> bool:
    """Return whether the last names of what is loaded and of what is saved are known, and differ."""
    loaded, saved = _last_names(load, 0), _last_names(save, 1)
    if not loaded or not saved or any(True for call in program.calls_to(*_RENAMES) if call.file in files):
        return False
    return not any(fnmatchcase(one, other) or fnmatchcase(other, one) for one in loaded for other in saved)


def _last_names(call: SourceCall, position: int) -> list[str]:
    """Return the last components of the path of a call, with ``*`` for what is not known; none if one is unknown."""
    names = []
    for atom in call.argument(position, "f") or ():
        value: Any = atom.const if atom.kind in (Kind.CONST, Kind.TEXT) else None
        if atom.kind == Kind.RESULT and atom.const == "os.path.join":
            made = call.program.call_of(atom)
            last = made.argument(made.positional - 1) if made is not None and not made.has_star else None
            value = None if last is None or len(last.atoms) != 1 else last.constant
        name = value.replace("\\", "/").rsplit("/", 1)[-1] if isinstance(value, str) else ""
        if not name.strip("{}"):
            return []
        names.append(name.replace("[", "[[]").replace("{}", "*"))
    return names


def saves(program: Program) -> Iterator[tuple[SourceCall, int]]:
    """Yield what saves, directly or through a function that hands its arguments on, and what is saved."""
    for call in program.calls_to("torch.save"):
        term = call.argument_term(0, "obj")
        if term >= 0:
            yield call, term
        elif call.has_star and any(star == "*" for _, _, star in call.function.parameters):
            for caller in program.callers((call.file, call.scope)):
                if caller.positional and not caller.has_star:
                    yield caller, caller.argument_term(0)


def _refused(call: SourceCall, term: int) -> Iterator[_Saved]:
    for atom in call.term_value(term):
        if atom.kind != Kind.DICT:
            continue
        keys = [key for key in atom.const or () if isinstance(key, str)]
        for key, item in zip(atom.const or (), atom.items, strict=False):
            found = _why_refused(call.program, item)
            if isinstance(key, str) and found is not None:
                yield _Saved(call, frozenset(keys), key, *found)
                break


def _why_refused(program: Program, value: Value) -> tuple[str, str, Atom] | None:
    """Return what a value is, what to save instead, and the alternative; None where it may be accepted."""
    atoms = [atom for atom in value if atom != Atom(Kind.CONST, None)]
    found = None
    for atom in atoms:
        if atom.kind == Kind.NAMESPACE:
            found = "an argparse.Namespace", "vars(…)", atom
        elif atom.kind == Kind.RESULT and atom.const in _REFUSED:
            instead = _REFUSED[str(atom.const)]
            found = f"the result of {atom.const}()", instead.format("…") if instead else "", atom
        elif atom.kind == Kind.OBJECT and not is_module(program, atom):
            file, number = atom.const
            found = f"an object of {program.index.classes[file][number].name}", "", atom
        else:
            return None
    return found


def keys_read(program: Program) -> dict[tuple[int, int], set[str]]:
    """Return for each call of torch.load the keys by which what it returns is read."""
    found: dict[tuple[int, int], set[str]] = {}
    for file in range(len(program.index.files)):
        terms = program.terms[file]
        if not any(term[0] == "k" and term[1] == "str" for term in terms):
            continue
        for term in terms:
            if term[0] == "s":
                base, key = term[1], term[2]
            elif term[0] == "c" and terms[term[1]][0] == "a" and terms[term[1]][2] in ("get", "pop") and term[2]:
                base, key = terms[term[1]][1], term[2][0]
            elif term[0] == "=" and term[1] in ("in", "not in"):
                base, key = term[3], term[2]
            else:
                continue
            if key >= 0 and terms[key][:2] == ("k", "str"):
                for atom in program.evaluator.value(file, base):
                    if atom.kind == Kind.RESULT and atom.const == "torch.load" and atom.call is not None:
                        found.setdefault(atom.call, set()).add(terms[key][2])
    return found
