"""What a forward pass of DDP communicates: the buffers of the model, if it has any.

A model is searched for layers with buffers: in its own classes, and where it is built by something that can't be seen,
in the files that it may come from. That no buffer is found counts only if all of the model is seen.
"""

from __future__ import annotations

from distcheck.core.patterns import lazy

from . import call_paths
from .program import EventRow, Function, Program, SourceCall, cached
from .source_text import last_name
from .values import Atom, Kind
from .vocabulary import words

#: A wrapper that sends no buffers.
APEX = "apex.parallel.DistributedDataParallel"
#: Layers with buffers, and what makes others have them.
_LAYERS = words(
    "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d "
    "convert_sync_batchnorm convert_syncbn_model spectral_norm"
)
_REGISTERS = "register_buffer"
#: Layers of torch that are made of what they are given.
_CONTAINERS = words("Sequential ModuleList ModuleDict TransformerEncoder TransformerDecoder")
#: Models of torchvision that are made of layers with buffers.
_WITH_BUFFERS = lazy(
    r"^torchvision\.models\.(\w+\.)*(resn|wide_resn|densen|mobilen|efficientn|mnasn|shufflen|googlen|inception|regn"
    r"|deeplab|fcn_|fasterrcnn|maskrcnn|retinanet|\w+_bn$)"
)
#: Questions about layers, which make none.
_QUESTIONS = words("isinstance issubclass hasattr getattr type")
#: Packages whose functions make no layers.
_PLAIN = words("math numpy functools itertools collections typing copy os sys einops warnings logging re")
_DEEPEST = 6


def has_buffers(program: Program, wrapper: Atom) -> bool | None:
    """Return whether a wrapper sends buffers of its model in each forward pass; None where not all of it is seen."""
    made = program.call_of(wrapper)
    if made is not None and made.is_to(APEX):
        return False  # its forward pass calls no collective (apex/parallel/distributed.py)
    answers = [_of_model(program, atom, made, 0) for atom in wrapper.of] or [_nearby(program, made)]
    if True in answers:
        return True
    return None if None in answers else False


def _of_model(program: Program, atom: Atom, made: SourceCall | None, depth: int) -> bool | None:
    if atom.kind in (Kind.OBJECT, Kind.CLASS):
        return _of_class(program, atom.const)
    if atom.kind in (Kind.WRAPPED, Kind.BARE):
        inner = [_of_model(program, one, made, depth + 1) for one in atom.of] if depth < _DEEPEST else []
        return True if True in inner else _nearby(program, made) if not inner or None in inner else False
    if atom.kind in (Kind.RESULT, Kind.NAMED) and isinstance(atom.const, str):
        if atom.const.rsplit(".", 1)[-1] in _LAYERS or _WITH_BUFFERS.match(atom.const):
            return True
        if atom.const.startswith("torch.nn."):
            call = program.call_of(atom)
            if atom.const.rsplit(".", 1)[-1] not in _CONTAINERS:
                return False
            return None if call is None or depth > _DEEPEST else _of_arguments(program, call, made, depth)
    return _nearby(program, made)


def _of_arguments(program: Program, call: SourceCall, made: SourceCall | None, depth: int) -> bool | None:
    answers: list[bool | None] = [None] if call.has_star else []
    for term in call.argument_terms:
        for atom in call.term_value(term):
            answers.extend(
                _of_model(program, one, made, depth + 1)
                for one in ([part for item in atom.items for part in item] or [atom])
                if one.kind != Kind.CONST
            )
    if True in answers:
        return True
    return None if None in answers else False


@cached
def _of_class(program: Program, model: tuple[int, int]) -> bool | None:
    """Return whether a network of the project has buffers: it and all that it builds."""
    seen = True
    waiting: list[tuple[str, tuple[int, int]]] = [("class", model)]
    known = set(waiting)
    for kind, ref in waiting:
        if kind == "class":
            seen = seen and all(
                base.kind == Kind.CLASS or base.const in ("torch.nn.Module", "object", "torch.nn.Sequential")
                for base in program.evaluator.bases(ref)
            )
            inner = [("class", base.const) for base in program.evaluator.bases(ref) if base.kind == Kind.CLASS]
            inner += [("function", method) for method in program.methods_of(*ref)]
        else:
            found, inner = _made_in(program, ref)
            if found:
                return True
            seen = seen and found is not None
        for one in inner:
            if one not in known and len(known) < 400:
                known.add(one)
                waiting.append(one)
    return False if seen and len(known) < 400 else None


def _made_in(program: Program, function: Function) -> tuple[bool | None, list[tuple[str, tuple[int, int]]]]:
    """Return whether a function makes buffers itself (None: it calls something unseen), and what else it builds."""
    inner: list[tuple[str, tuple[int, int]]] = []
    seen = True
    if any(_names_layer(program.terms[function[0]], default) for _, default, _ in program.scope(function).parameters):
        return True, []
    for row in program.rows_of(*function):
        if not isinstance(row, SourceCall):
            continue
        if _makes_buffers(row):
            return True, []
        for atom in row.callee:
            if atom.kind in (Kind.CLASS, Kind.FUNCTION):
                inner.append(("class" if atom.kind == Kind.CLASS else "function", atom.const))
            elif atom.kind == Kind.NAMED:
                first, dot, _ = str(atom.const).partition(".")
                seen = seen and (not dot or first == "torch" or first in _PLAIN)
            elif atom.kind == Kind.UNKNOWN:
                seen = False
    return (False if seen else None), inner


def _makes_buffers(call: SourceCall) -> bool:
    """Return whether a call makes a layer with buffers, or is given the class of one to build."""
    if call.method in _LAYERS or call.method == _REGISTERS:
        return True
    return call.method not in _QUESTIONS and any(_names_layer(call.terms, term) for term in call.argument_terms)


def _names_layer(terms: list[tuple[object, ...]], term: int) -> bool:
    return term >= 0 and terms[term][0] in ("a", "i", "v") and last_name(terms, term) in _LAYERS


@cached
def _file_makes_buffers(program: Program, file: int) -> bool:
    return any(_makes_buffers(call) for call in program.calls_in((file,))) or any(
        _names_layer(program.terms[file], default)
        for scope in program.index.scopes[file]
        for _, default, _ in scope.parameters
    )


def _nearby(program: Program, made: EventRow | None) -> bool | None:
    """Return True if a file that runs together with the wrapper makes layers with buffers; None elsewhere."""
    if made is None:
        return None
    files = call_paths.related(program, made.file)
    return True if any(_file_makes_buffers(program, file) for file in sorted(files)) else None
