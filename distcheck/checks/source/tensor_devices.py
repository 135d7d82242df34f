"""Tensors in source: what makes, copies, views or moves one, and whether it is surely on the CPU."""

from __future__ import annotations

from typing import Any

from .program import Program, SourceCall
from .values import Kind
from .vocabulary import word_set

FACTORIES = frozenset(
    {
        "tensor", "zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "randperm", "linspace", "eye",
        "Tensor", "FloatTensor", "LongTensor", "IntTensor", "DoubleTensor", "HalfTensor", "ByteTensor", "BoolTensor",
        "from_numpy", "scalar_tensor",
    }
)  # fmt: skip
#: Of these, the ones with filler values.
FILLER_FACTORIES = frozenset(
    ["zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "randperm", "linspace", "eye"]
)
LIKE = frozenset(["zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"])
#: Methods whose result is always another tensor, by what to call it.
ALWAYS_COPY = {
    "clone": "a copy",
    **dict.fromkeys(["mean", "sum", "std", "var", "prod", "norm", "abs", "sqrt", "exp", "log"], "a new tensor"),
    **dict.fromkeys(["max", "min", "argmax", "mul", "div", "add", "sub", "pow"], "a new tensor"),
}
#: Methods whose result is another tensor where something has to change.
MAY_COPY = frozenset(["cuda", "cpu", "float", "half", "double", "bfloat16", "long", "int"])
#: Methods whose result shares its memory with the tensor.
VIEWS = word_set("detach view flatten reshape squeeze unsqueeze contiguous requires_grad_ narrow expand_as view_as")
MOVES = frozenset(["to", "cuda", "npu", "xpu"])


def leaves_cpu(program: Program, file: int, term: tuple[Any, ...]) -> bool:
    """Return whether ``to(…)`` goes to a device, and not only to another type."""
    if not term[2] or any(name == "dtype" for name, _ in term[3]):
        return False
    return not any(
        str(atom.const).startswith("torch.") and atom.kind == Kind.NAMED
        for atom in program.evaluator.value(file, term[2][0])
    )


def is_library_function(program: Program, file: int, callee: int) -> bool:
    """Return whether ``a.b`` names a function of a library, not a method of a value."""
    return any(atom.kind in (Kind.NAMED, Kind.FUNCTION, Kind.CLASS) for atom in program.evaluator.value(file, callee))


def is_number(program: Program, file: int, number: int, depth: int = 0) -> bool:
    """Return whether a term is surely a number of Python."""
    if depth > 8:
        return False
    terms = program.terms[file]
    term = terms[number]

    def again(other: int) -> bool:
        return is_number(program, file, other, depth + 1)

    if term[0] == "k":
        return term[1] in ("int", "float", "bool")
    if term[0] == "o":
        return again(term[2]) and again(term[3])
    if term[0] == "|":
        return again(term[1]) and again(term[2])
    if term[0] == "?":
        return again(term[2]) and again(term[3])
    if term[0] == "c":
        callee = terms[term[1]]
        if callee[0] == "a" and callee[2] == "item" and not term[2]:
            return True
        return any(
            atom.kind == Kind.NAMED and atom.const in ("len", "int", "float")
            for atom in program.evaluator.value(file, term[1])
        )
    return False


def known_device(program: Program, file: int, number: int, depth: int = 0) -> str | None:
    """``cpu`` for a tensor that is surely on the CPU; None for anything else."""
    if depth > 10:
        return None
    terms = program.terms[file]
    term = terms[number]

    def again(other: int) -> str | None:
        return known_device(program, file, other, depth + 1)

    if term[0] == "u" and term[1] in ("reduced", "-"):
        return again(term[2])
    if term[0] == "|":
        return "cpu" if again(term[1]) == "cpu" and again(term[2]) == "cpu" else None
    if term[0] == "?":
        return "cpu" if again(term[2]) == "cpu" and again(term[3]) == "cpu" else None
    if term[0] == "o":
        sides = [again(term[2]), again(term[3])]
        numbers = [is_number(program, file, term[2]), is_number(program, file, term[3])]
        return (
            "cpu"
            if "cpu" in sides and all(side == "cpu" or plain for side, plain in zip(sides, numbers, strict=True))
            else None
        )
    if term[0] != "c":
        return None
    callee = terms[term[1]]
    if callee[0] == "a" and not is_library_function(program, file, term[1]):
        return _place_of_method(program, file, term, callee, depth)
    for atom in program.evaluator.value(file, term[1]):
        if atom.kind != Kind.NAMED or not str(atom.const).startswith("torch."):
            return None
        name = str(atom.const).removeprefix("torch.")
        if name in FACTORIES:
            call = SourceCall(program, file, term[5])
            if call.gives(None, "device") or call.has_star or call.within("device", "DeviceContext", "default_device"):
                return None
            if name in ("tensor", "Tensor", "FloatTensor", "LongTensor", "scalar_tensor"):
                given = term[2][0] if term[2] else -1
                if given < 0:
                    return None
                return "cpu" if is_number(program, file, given) or terms[given][0] in ("l", "t", "*") else None
            return "cpu"
        if name in LIKE:
            call = SourceCall(program, file, term[5])
            return None if call.gives(None, "device") or not term[2] else again(term[2][0])
    return None


def _place_of_method(
    program: Program, file: int, term: tuple[Any, ...], callee: tuple[Any, ...], depth: int
) -> str | None:
    method, base = callee[2], callee[1]
    if method == "cpu":
        return "cpu"
    if method == "to":
        if term[2] and program.evaluator.value(file, term[2][0]).constant == "cpu":
            return "cpu"
        if len(term[2]) == 1 and not term[3] and not leaves_cpu(program, file, term):
            return known_device(program, file, base, depth + 1)
        return None
    if method in VIEWS or method in ALWAYS_COPY or method in MAY_COPY - {"cuda"} or method.endswith("_"):
        return known_device(program, file, base, depth + 1)
    return None
