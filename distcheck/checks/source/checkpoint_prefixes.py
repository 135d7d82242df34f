"""Checkpoints that are saved from a wrapper and loaded into the model inside of it, or the reverse (DC614).

The two ends are joined by the key of the checkpoint under which the weights are, and by the name of the file or by
another key that the program reads as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from . import call_paths
from .models import WrappedModel, comes_after, wraps
from .program import Program, SourceCall
from .refused_checkpoints import are_other_files, keys_read, saves
from .several_ranks import signs
from .source_text import last_name
from .term_queries import same_path
from .values import Atom, Kind, Value, Who

_DDP = "torch.nn.parallel.DistributedDataParallel"
#: Calls that change nothing of the weights that they get.
_READS = frozenset(["load_state_dict", "print", "len", "info", "debug", "keys"])
#: A checkpoint that is read by so many keys of a save is one of that save.
_FEWEST_KEYS = 2


class _Weights(NamedTuple):
    """Weights that are saved, or loaded into a model."""

    #: of torch.save or torch.load
    call: SourceCall
    #: None if the file holds nothing else
    key: str | None
    #: all keys that are saved, or read
    keys: frozenset[str]
    #: of state_dict() or load_state_dict()
    use: SourceCall
    wrap: WrappedModel | None
    basis: tuple[Atom, ...]


@probe(rules.DC614)
def weights_fit_the_model(program: Program) -> Iterator[Finding]:
    """Weights are saved from what they are loaded into: the wrapper, or the model."""
    known = {(wrap.call.file, wrap.call.number): wrap for wrap in wraps(program, "ddp") if wrap.call.is_to(_DDP)}
    if not known:
        return
    saved = list(_saved(program, known))
    for load in _loaded(program, known) if saved else ():
        files = set(call_paths.related(program, load.call.file))
        own = [save for save in saved if save.call.file in files and save.key == load.key]
        same = [save for save in own if _is_file_of(program, save, load, files)]
        if not same or any((save.wrap is None) is (load.wrap is None) for save in own):
            continue
        save = same[0]
        model = save.use.receiver_text if load.wrap is None else load.use.receiver_text
        conditional = any(one.wrap is not None and one.wrap.call.inside("if") for one in (save, load))
        yield load.use.found(
            rules.DC614,
            (
                "the names of these weights begin with module., those of the model do not"
                if load.wrap is None
                else "the names of these weights do not begin with module., those of the DistributedDataParallel do"
            )
            + f": {save.use.place} saves them, and load_state_dict() raises",
            fix=f"save {model}.module.state_dict(), and convert older files with "
            "torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(weights, 'module.')"
            if load.wrap is None
            else f"{model}.module.load_state_dict(…)",
            basis=(*save.basis, *load.basis),
            severity=Severity.WARNING,
            flow=program.flow(*(atom.flow for atom in (*save.basis, *load.basis))),
            **(signs(load.use) if conditional else {}),
        )


def _saved(program: Program, known: dict[tuple[int, int], WrappedModel]) -> Iterator[_Weights]:
    for call, term in saves(program):
        parts = call.terms[term]
        items: list[tuple[str | None, int]] = [(None, term)]
        if parts[0] == "d":
            items = [
                (call.terms[key][2], value)
                for key, value in zip(parts[1], parts[2], strict=False)
                if key >= 0 and call.terms[key][:2] == ("k", "str")
            ]
        keys = frozenset(key for key, _ in items if key is not None)
        for key, value in items:
            if (
                value >= 0
                and call.terms[value][0] == "c"
                and last_name(call.terms, call.terms[value][1]) == "state_dict"
            ):
                use = SourceCall(program, call.file, call.terms[value][5])
                form = _form_of(program, use, known)
                if form is not None:
                    yield _Weights(call, key, keys, use, *form)


def _loaded(program: Program, known: dict[tuple[int, int], WrappedModel]) -> Iterator[_Weights]:
    read = keys_read(program)
    for use in program.calls_named("load_state_dict"):
        if use.has_star or (use.gives(1, "strict") and use.constant(1, "strict") is not True) or use.inside("try"):
            continue
        term = use.argument_term(0, "state_dict")
        if term < 0:
            continue
        whole, key = term, None
        if use.terms[term][0] == "s" and use.terms[use.terms[term][2]][:2] == ("k", "str"):
            whole, key = use.terms[term][1], use.terms[use.terms[term][2]][2]
        value = use.term_value(whole)
        if len(value.atoms) != 1 or not value.named("torch.load") or value.atoms[0].call is None:
            continue
        if _is_changed(program, use, term, whole):
            continue
        form = _form_of(program, use, known)
        if form is not None:
            load = SourceCall(program, *value.atoms[0].call)
            yield _Weights(load, key, frozenset(read.get(value.atoms[0].call, ())), use, *form)


def _is_changed(program: Program, use: SourceCall, *weights: int) -> bool:
    """Return whether something else gets the weights, which may rename them."""
    return any(
        (row.method not in _READS and not set(weights).isdisjoint((*row.argument_terms, row.receiver_term)))
        if isinstance(row, SourceCall)
        else row.kind == "store" and row.payload[0] in weights
        for row in program.rows_of(use.file, use.scope)
        if row != use and row.number != use.number
    )


def _is_file_of(program: Program, save: _Weights, load: _Weights, files: set[int]) -> bool:
    """Return whether what is loaded is what was saved: by several keys, or by the name of the file."""
    if are_other_files(program, load.call, save.call, files):
        return False
    if len(save.keys & load.keys) >= _FEWEST_KEYS:
        return True
    saved, loaded = save.call.argument_term(1, "f"), load.call.argument_term(0, "f")
    if save.call.file == load.call.file and same_path(save.call.terms, saved, loaded):
        return True
    names = [call.term_value(term).constant for call, term in ((save.call, saved), (load.call, loaded)) if term >= 0]
    return len(names) == 2 and isinstance(names[0], str) and names[0] == names[1]


def _form_of(
    program: Program, use: SourceCall, known: dict[tuple[int, int], WrappedModel]
) -> tuple[WrappedModel | None, tuple[Atom, ...]] | None:
    """Return the wrapper that a method is called on, or None for a model without one; None where that is not known."""
    value: Value = use.receiver
    wrapped = [atom for atom in value if atom.kind == Kind.WRAPPED]
    others = [
        atom
        for atom in value
        if atom not in wrapped and atom.when.who != Who.SINGLE and not (atom.kind == Kind.CONST and atom.const is None)
    ]
    if not wrapped:
        plain = all(
            atom.kind == Kind.BARE or (atom.kind in (Kind.OBJECT, Kind.RESULT) and atom.call is not None)
            for atom in others
        )
        return (None, ()) if others and plain else None
    found = [known.get(atom.call) for atom in wrapped if atom.call is not None]
    wrap = found[0] if found else None
    if wrap is None or None in found or len(found) != len(wrapped):
        return None
    if all(atom.kind in (Kind.OBJECT, Kind.RESULT) for atom in others) and (
        not others or comes_after(program, wrap.call, use)
    ):
        return wrap, tuple(wrapped)
    callers = program.callers((use.file, use.scope))
    before = callers and all(
        (call.file, call.scope) == (wrap.call.file, wrap.call.scope) and call.number < wrap.call.number
        for call in callers
    )
    return (None, ()) if before else None
