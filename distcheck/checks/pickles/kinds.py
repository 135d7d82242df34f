"""What is known about types of objects: why one can't be pickled, what to do instead, and what breaks later.

Types are recognized by the names along their method resolution order. Nothing is imported: torch and numpy are names
here. No code of a value is run.
"""

from __future__ import annotations

import re
import sys
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar

from . import kinds_table as tables
from .kinds_table import KindEntry, Pitfall

_Entry = TypeVar("_Entry", KindEntry, Pitfall)

#: The modes of pickling, and how a message reports a failure.
REFUSALS = {
    "pickle": "can't be pickled",
    "torch.save": "can't be saved by torch.save",
    "deepcopy": "can't be copied by copy.deepcopy",
    "spawn": "can't be sent to a spawned process",
    "collective": "can't be sent by an object collective",
}
#: Longest text that is taken from an object (a name of a type, the text of an exception).
_LONGEST = 200


class Explanation(NamedTuple):
    """Why an object can't be pickled, and what to do about it."""

    #: one sentence without a full stop
    why: str
    fix: str
    #: as in :class:`~distcheck.checks.pickles.picklability.Offender`
    kind: str = "unpicklable"


# names


_INDEX = re.compile(r"\[(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\[\]'\"]*)\]")


def pattern(path: str) -> str:
    """A path with a star for each index and key: ``obj.callbacks[*].fn``."""
    return _INDEX.sub("[*]", path)


def type_name(cls: type) -> str:
    """``module.qualname`` of a type, printable and cut; without ``builtins``. No metaclass is called."""
    module, qualname = _module(cls), _qualname(cls)
    return shown(qualname if module in ("builtins", "") else f"{module}.{qualname}")


def shown(text: str, longest: int = _LONGEST) -> str:
    """A text of unknown origin: on one line, control characters escaped, cut."""
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in cut)


_MRO = type.__dict__["__mro__"].__get__
_MODULE = type.__dict__["__module__"].__get__
_QUALNAME = type.__dict__["__qualname__"].__get__
_DICT = type.__dict__["__dict__"].__get__
_MODULE_DICT = _DICT(ModuleType)["__dict__"].__get__


def _mro(cls: type) -> tuple[type, ...]:
    return _MRO(cls) or (cls,)


def _module(cls: type) -> str:
    try:
        module = _MODULE(cls)
    except AttributeError:
        return ""
    return module if isinstance(module, str) else ""


def _qualname(cls: type) -> str:
    return str(_QUALNAME(cls))


def _full_name(cls: type) -> str:
    return f"{_module(cls)}.{_qualname(cls)}"


def _row(name: str, exact: dict[str, _Entry], prefixes: dict[str, _Entry], own: str = "") -> _Entry | None:
    """The entry for a full name: itself, else the longest prefix that is known.

    :param own: the package of the type whose base this is: a class of a user is not what all of a package is
    """
    found = exact.get(name)
    if found is not None or (own and own != name.partition(".")[0]):
        return found
    for length in range(len(name) - 1, 0, -1):
        if name[length - 1] in "._" or name[length].isupper():
            found = prefixes.get(name[:length])
            if found is not None:
                return found
    return None


def _kind_of(cls: type) -> tuple[KindEntry, type] | None:
    """What is known about a type or the nearest of its bases."""
    own = _module(cls).partition(".")[0]
    for base in _mro(cls):
        name = _full_name(base)
        found = _row(name, tables.EXACT, tables.PREFIXES, own)
        if found is not None:
            return found, base
        if tables.GRAD_FN.fullmatch(name):
            return tables.GRAD_FN_KIND, base
    return None


def kind_named(name: str) -> KindEntry | None:
    """What is known about a type of this name, as :func:`type_name` writes it."""
    return _row(name if "." in name else f"builtins.{name}", tables.EXACT, tables.PREFIXES)


def is_library(cls: type) -> bool:
    """Whether a class belongs to Python or to an installed package, so that no method is pasted into it."""
    return _is_in_library(_module(cls))


def _is_in_library(module: str) -> bool:
    top = module.partition(".")[0]
    if top == "__main__":
        return False
    if not top or top == "builtins" or top in sys.stdlib_module_names:
        return True
    loaded = sys.modules.get(module) or sys.modules.get(top)
    path = getattr(loaded, "__file__", None) if type(loaded) is ModuleType else None
    if not isinstance(path, str):
        return loaded is not None and top in ("torch", "numpy")
    return "site-packages" in path or "dist-packages" in path


def is_opaque(cls: type) -> bool:
    """Whether users see one thing where pickling fails in its inner parts: a queue, and not the locks in it."""
    found = _kind_of(cls)
    return found is not None and found[0].opaque


def belongs(inner: type, piece: type) -> bool:
    """Whether an object of one type, reached from a piece of another, is part of it: same library, or plumbing."""
    top = _package(inner)
    if top in tables.PLUMBING or any(_full_name(base) == "_io._IOBase" for base in _mro(inner)):
        return True
    found = _kind_of(piece)
    return found is not None and top == _package(found[1])


def _package(cls: type) -> str:
    """The package of a type; that of its C half counts as the same."""
    return _module(cls).partition(".")[0].lstrip("_")


# offenders


def explain(value: object, error: str, mode: str, path: str = "", holder: str = "") -> Explanation:
    """Why this object can't be pickled and what to do, for exactly its kind.

    :param error: the error of pickling: ``TypeError: cannot pickle '_thread.lock' object``
    :param mode: one of :data:`REFUSALS`
    :param path: where it is (``trainer.model._forward_hooks[3]``), for what depends on the location
    :param holder: how the instance that holds it differs from a plain one: ``tuple`` (a named tuple,
        which has none), ``library`` (its class is not the user's), ``frozen`` (its attributes can't be set),
        or the method that gives the attribute (``Trainer.__reduce__``); empty for all others
    """
    if type(value) is FunctionType:
        return _explain_function(value, mode, path, holder)
    cls = type(value)
    if issubclass(cls, type):
        return _explain_class(value, mode, path)  # type: ignore[arg-type]
    found = _kind_of(cls)
    if found is not None and found[0] is not tables.TENSOR:
        return _explain_kind(found[0], mode, path, holder)
    unreachable = _unreachable(cls)
    if unreachable and mode != "deepcopy":
        why, fix = unreachable
        return Explanation(f"it is an instance of {type_name(cls)}, and {why}", fix)
    if found is not None:
        return _explain_tensor(value, error, mode, path, holder)
    return _explain_unknown(cls, error, mode, path, holder)


def too_deep(depth: int, limit: int, mode: str) -> Explanation:
    """The explanation where only the nesting is that fails.

    :param depth: levels that the object has
    :param limit: levels at which this interpreter stops
    """
    tool = {"deepcopy": "copy.deepcopy", "torch.save": "torch.save"}.get(mode, "pickle")
    return Explanation(
        f"it is nested {depth} levels deep, and {tool} of this Python ends with RecursionError near {limit}",
        "write it flat: a list of nodes that name each other by index; or raise the limit for the writer and for every"
        " reader: sys.setrecursionlimit(…) in a thread with a larger stack (threading.stack_size)",
        "too-deep",
    )


def recreate(name: str) -> str:
    """The expression that makes an object of a type again (``threading.Lock()``); empty where none is known."""
    found = kind_named(name)
    return found.recreate if found is not None else ""


def _explain_kind(kind: KindEntry, mode: str, path: str, holder: str = "") -> Explanation:
    own = {"deepcopy": kind.copy, "spawn": kind.spawn, "collective": kind.send}.get(mode, "")
    fix = own or _compose(mode, path, kind.recreate, kind.instead, holder, late=kind.kind == "process-group")
    return Explanation(kind.why, fix, kind.kind)


def _compose(mode: str, path: str, made_again: str, instead: str, holder: str = "", *, late: bool = False) -> str:
    """What to do with a member: an alternative where there is one, else how to drop it and create it again."""
    if mode == "spawn":
        again = f": {made_again}" if made_again else ""
        return f"make it inside of the worker function{again}, and pass only what it is made from"
    if mode == "collective":
        again = f" ({made_again})" if made_again else ""
        return f"send plain data without it, and let each rank make its own{again}"
    dropped = _drop(mode, path, made_again, holder, late=late)
    return f"{instead}; or {dropped}" if instead and mode != "deepcopy" else dropped


def _drop(mode: str, path: str, made_again: str, holder: str = "", *, late: bool = False) -> str:
    """How to drop a member and create it again: in __setstate__, or ``late``, once there is a process group."""
    tail = re.search(r"\.([^\W\d]\w*)$|(\])$", path)
    if tail is not None and tail.group(1):
        name = tail.group(1)
        also = ", which copy.deepcopy uses too," if mode == "deepcopy" else ""
        when = "after init_process_group" if late else "in __setstate__"
        if holder == "tuple":
            again = f": {made_again}" if made_again else ""
            return (
                f"put None there before {'copying' if mode == 'deepcopy' else 'pickling'}"
                f" (value._replace({name}=None)), and a new one after{again}"
            )
        if holder == "library":
            again = f": {made_again}" if made_again else ""
            after = "after loading, once init_process_group was called" if late else "after"
            return (
                f"set {name} to None before {'copying' if mode == 'deepcopy' else 'pickling'}, and to a new one"
                f" {after}{again}"
            )
        if holder not in ("", "frozen"):
            again = f", and make it again after loading: {made_again}" if made_again else ""
            return f"drop {name} from what {holder} returns{again}"
        if made_again and holder == "frozen":
            return (
                f"drop {name} in __getstate__{also} and set it again {when} (the class is frozen):"
                f' object.__setattr__(self, "{name}", {made_again})'
            )
        if made_again:
            return f"drop {name} in __getstate__{also} and set it again {when}: self.{name} = {made_again}"
        return f"drop {name} in __getstate__{also} and set it to None in __setstate__"
    again = f": {made_again}" if made_again else ""
    if tail is not None:
        return (
            f"take it out before {'copying' if mode == 'deepcopy' else 'pickling'}, and put a new one in after{again}"
        )
    done = "copied" if mode == "deepcopy" else "pickled"
    return f"drop it from what is {done}, and create a new one where it is needed{again}"


_HOOKS = re.compile(r"\._?(?:\w+_)?hooks\b|\._backward_hooks\b")


def _explain_function(function: FunctionType, mode: str, path: str, holder: str) -> Explanation:
    name = shown(str(function.__qualname__))
    code = function.__code__
    place = f"{shown(code.co_filename.replace(chr(92), '/').rpartition('/')[2], 80)}:{code.co_firstlineno}"
    fix_by_path = _fix_by_path(path)
    if "_torchdynamo_orig_callable" in function.__dict__:
        return Explanation(
            f"it is what torch.compile made of the function {name}, whose import path leads to another object or"
            f" nowhere",
            fix_by_path
            or "keep the plain function in the object, and compile it where it is called: torch.compile(self.fn)",
        )
    if name.rpartition(".")[2] == "<lambda>":
        why = f"it is a lambda ({place}): pickle writes a function as its import path, and a lambda has none"
        fix = "write it as a function at the top of a module (def …), with functools.partial for what varies"
    elif "<locals>" in name:
        outer, _, inner = name.rpartition(".<locals>.")
        module = str(function.__module__)
        library = _is_in_library(module)
        where = shown(module) if library else place
        why = f"the function {inner} is defined inside {outer} ({where}), where no import path leads"
        maker = outer.rpartition(".<locals>.")[2]
        fix = (
            f"{_compose(mode, path, f'{maker}(…)', '', holder)}; or replace it by a function at the top"
            " of a module of your own"
            if library
            else f"move {inner} to the top of its module, and give what it takes from {outer} with functools.partial"
        )
    else:
        why, fix = _mismatch(str(function.__module__), str(function.__qualname__), function, "function")
    if mode == "spawn" and not fix_by_path:
        fix += "; where the workers only need it, define it in the worker's own module"
    return Explanation(why, fix_by_path or fix)


def _fix_by_path(path: str) -> str:
    """The fix for a function whose path shows its purpose."""
    if _HOOKS.search(path):
        return (
            "take the hook off before (handle.remove()) and register it again after loading; or save state_dict(), "
            "which holds no hooks"
        )
    for word, fix in tables.FUNCTION_FIXES.items():
        if word in path:
            return fix
    return ""


def _explain_class(cls: type, mode: str, path: str) -> Explanation:
    for base in _mro(cls):
        if _full_name(base) in tables.SHARDED:
            return _explain_kind(tables.EXACT[_full_name(base)], mode, path)
    unreachable = _unreachable(cls)
    if unreachable is None:
        return Explanation(
            f"the class {type_name(cls)} is refused by its own metaclass",
            "write the import path of the class as text, and import it after loading",
        )
    return Explanation(*unreachable)


def _unreachable(cls: type) -> tuple[str, str] | None:
    """Why no import path leads to a class, and what to do; None where one does."""
    module, qualname = _module(cls), _qualname(cls)
    name = shown(qualname)
    if "<locals>" in name:
        outer, _, inner = name.rpartition(".<locals>.")
        return (
            f"the class {inner} is defined inside {outer}, where no import path leads",
            f"move the class {inner} to the top of its module",
        )
    there = _look_up(module, qualname)
    if there is cls or there is _UNKNOWN or _is_extension(module):
        return None
    return _mismatch(module, qualname, cls, "class")


def _is_extension(module: str) -> bool:
    """Whether a loaded module is written in C: its types need not have a name there, and no user can rename them."""
    loaded = sys.modules.get(module)
    if type(loaded) is not ModuleType or module == "__main__":
        return False
    path = loaded.__dict__.get("__file__")
    return path is None or (isinstance(path, str) and not path.endswith((".py", ".pyc")))


_NOTHING = object()
#: a module with a __getattr__ of its own: only running it would show the result
_UNKNOWN = object()


def _look_up(module: str, qualname: str) -> object:
    """What an import path leads to now, _NOTHING, or _UNKNOWN. Imports nothing and runs nothing."""
    found: object = sys.modules.get(module, _NOTHING)
    if found is _NOTHING:
        return _NOTHING
    for part in qualname.split("."):
        if issubclass(type(found), type):
            names = _DICT(found)
        elif issubclass(type(found), ModuleType):
            names = _MODULE_DICT(found)
        else:
            return _UNKNOWN
        if part not in names:
            return _UNKNOWN if "__getattr__" in names or type(found) not in (type, ModuleType) else _NOTHING
        found = names[part]
        if type(found) in (staticmethod, classmethod):
            found = found.__func__  # type: ignore[attr-defined]
    return found


def _mismatch(module: str, qualname: str, value: object, what: str) -> tuple[str, str]:
    """A function or class that its import path does not lead to."""
    path = shown(f"{module}.{qualname}")
    there = _look_up(module, qualname)
    if there is value or there is _UNKNOWN:
        return (
            f"{path}, by which pickle writes this {what}, can't be fetched from its module",
            f"check what importing {shown(module)} does: a __getattr__, or another entry in sys.modules",
        )
    if there is not _NOTHING:
        return (
            f"{path} now means another object than this {what}: a decorator replaced it, or its module was loaded"
            f" twice",
            f"keep the {what} that the name stands for (functools.wraps in a decorator does not change that), or give"
            f" this one a name of its own at the top of {shown(module)}",
        )
    if what == "class":
        return (
            f"the class calls itself {path}, and there is nothing of that name",
            "name it as the variable that holds it, at the top of a module: the first argument of namedtuple(), Enum()"
            " or type(), with module=__name__",
        )
    return (
        f"the function calls itself {path}, and there is nothing of that name",
        f"bind it to its own name at the top of {shown(module)}, or set its __module__ and __qualname__ to where it is",
    )


def _explain_tensor(value: object, error: str, mode: str, path: str, holder: str) -> Explanation:
    name = type_name(type(value))
    if _tensor_attribute(value, "grad_fn") is not None and mode in ("deepcopy", "spawn"):
        doing = "copies" if mode == "deepcopy" else "sends"
        return Explanation(
            f"it is the result of an operation that autograd recorded, and torch {doing} only tensors without such"
            f" a history",
            "detach it first: .detach().clone(), or .item() for a number that is only logged",
        )
    if "same data as different types" in error or "view the same data" in error:
        return Explanation(
            "it shares its storage with a tensor of another dtype, and a checkpoint has one dtype for each storage",
            "give it bytes of its own before saving: .clone()",
        )
    return Explanation(
        f"a tensor of this kind ({name}) has no bytes that could be written: {_first_line(error)}",
        f"store what it is made from: .detach().clone() as a plain tensor, or its shape and dtype;"
        f" {_drop(mode, path, '', holder)}",
    )


def _explain_unknown(cls: type, error: str, mode: str, path: str, holder: str) -> Explanation:
    name = type_name(cls)
    methods = [
        method
        for method in ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__")
        for base in _mro(cls)[:-1]
        if type(_DICT(base).get(method)) is FunctionType
    ]
    if mode == "deepcopy" and any("__deepcopy__" in _DICT(base) for base in _mro(cls)):
        methods.insert(0, "__deepcopy__")
    if not methods:  # what a list or dict contains is read by its own methods
        requested = "__iter__" if issubclass(cls, list) else "items" if issubclass(cls, dict) else ""
        methods += [
            requested for base in _mro(cls)[:-1] if requested and type(_DICT(base).get(requested)) is FunctionType
        ][:1]
    if methods:
        return Explanation(
            f"{name} pickles itself by {methods[0]}, and that ends with {_first_line(error)}",
            f"fix {name}.{methods[0]}; or {_compose(mode, path, '', '', holder)}",
        )
    return Explanation(
        f"its type {name} brings no way to be pickled: {_first_line(error)}",
        f"{_compose(mode, path, '', '', holder)}; or register how to create it again: "
        f"copyreg.pickle({name.rpartition('.')[2]}, function), where function(value) gives (callable, arguments)",
    )


def _first_line(error: str) -> str:
    return shown(error.strip().partition("\n")[0].rstrip(".")) or "pickling refuses it"


# what pickles but breaks

_NN_MODULE = "torch.nn.modules.module.Module"


def interesting(kind: type, mode: str) -> bool:
    """Whether objects of a type may deserve a word although they can be pickled. It depends on the type only."""
    if issubclass(kind, type) or kind is FunctionType or _module(kind) == "__main__":
        return mode in ("pickle", "torch.save", "spawn")
    own = _module(kind).partition(".")[0]
    for base in _mro(kind):
        name = _full_name(base)
        if name in tables.INSPECTED:
            return mode in ("pickle", "torch.save", "collective")
        pitfall = _row(name, tables.PITFALLS, tables.PITFALL_PREFIXES, own)
        if pitfall is not None:
            return mode in pitfall.modes
        if name == _NN_MODULE:
            return mode == "torch.save"
    return False


def caution(value: object, mode: str, saved_at_top: bool = False) -> Pitfall | None:
    """The catch of an object that can be pickled; None where there is none.

    :param saved_at_top: it is what is pickled, not a member of it
    """
    cls = type(value)
    if issubclass(cls, type) or cls is FunctionType:
        return _of_main(value, mode)
    if _module(cls) == "__main__" and "<locals>" not in _qualname(cls):
        found_in_main = _of_main(cls, mode)
        return found_in_main._replace(final=True) if found_in_main is not None else None
    own = _module(cls).partition(".")[0]
    for base in _mro(cls):
        name = _full_name(base)
        check = _CHECKS.get(tables.INSPECTED.get(name, ""))
        if check is not None:
            return check(value, mode)
        found = _row(name, tables.PITFALLS, tables.PITFALL_PREFIXES, own)
        if found is not None:
            if mode not in found.modes:
                return None
            return found._replace(final=found.once)
        if name == _NN_MODULE and mode == "torch.save" and saved_at_top:
            return Pitfall(
                "a whole module is saved: loading it needs its class, and torch.load refuses it with weights_only=True",
                "save its state_dict(); to load, build the model, then load_state_dict(torch.load(path))",
                "note",
            )
    return None


def _of_main(value: Any, mode: str) -> Pitfall | None:
    """Return the pitfall of a class or function of the script: ``__main__`` is another module in another program."""
    if type(value) is FunctionType:
        module, name = str(value.__module__), str(value.__qualname__)
    else:
        module, name = _module(value), _qualname(value)
    if module != "__main__":
        return None
    main = sys.modules.get("__main__")
    names = getattr(main, "__dict__", {})
    path = names.get("__file__")
    is_script = isinstance(path, str) and not path.startswith("<")
    name = shown(name)
    if mode == "spawn":
        if is_script or names.get("__spec__") is not None:
            return None
        return Pitfall(
            f"{name} was typed into a session (__main__ is no file), and a spawned process can't import it",
            f"put {name} into a module, and import it from there",
            once=True,
        )
    if is_script:
        return Pitfall(
            f"it is written as __main__.{name}, and __main__ is another module in every other program:"
            f" AttributeError there",
            f"move {name} to a module of its own, and import it in the script",
            once=True,
        )
    return Pitfall(
        f"it is written as __main__.{name}, so that only a session which defines {name} again can load it",
        f"move {name} to a module, and import it from there",
        "note",
        once=True,
    )


def _tensor_attribute(value: object, name: str) -> Any:
    """An attribute of a tensor, from torch itself: without calling a subclass. None where torch is not loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return getattr(torch._C.TensorBase, name).__get__(value)
    except Exception:  # noqa: BLE001 - a fake or wrapped tensor answers with whatever it likes: then nothing is known
        return None


def _of_tensor(value: object, mode: str) -> Pitfall | None:
    if _tensor_attribute(value, "is_cuda"):
        return _of_index("cuda", _device_index(value), mode, "this tensor is")
    if mode in ("pickle", "torch.save"):
        if _tensor_attribute(value, "_backward_hooks"):
            return Pitfall(
                "its gradient hooks are not saved: a script that loads it trains without them, without a message",
                "register them again after loading (register_hook)",
            )
        if _tensor_attribute(value, "_post_accumulate_grad_hooks"):
            return Pitfall(
                "its hooks after the gradient is accumulated are not written: training after loading runs without them,"
                " without a message",
                "register them again after loading (register_post_accumulate_grad_hook)",
            )
        if _tensor_attribute(value, "grad_fn") is not None:
            return Pitfall(
                "its autograd history is not written: it comes back as a tensor without grad_fn",
                "store .detach(), so that it is plain what is kept; or .item() for a number that is only logged",
                "note",
                once=True,
            )
    return None


def _device_index(value: object) -> int:
    device = _tensor_attribute(value, "device")
    return int(device.index or 0) if device is not None else 0


def _of_index(kind: str, index: int, mode: str, what: str) -> Pitfall | None:
    if mode == "collective":
        return Pitfall(
            f"{what} on {kind}:{index} of the sending rank, and every rank that receives it puts it on its own"
            f" {kind}:{index}",
            "send it from the CPU (.cpu()), and let each rank move it to its device",
            once=True,
        )
    if mode not in ("pickle", "torch.save"):
        return None
    return Pitfall(
        f"{what} on {kind}:{index}, and loading puts it on {kind}:{index} of whichever machine and rank loads it",
        'save from the CPU (.cpu()), or load with torch.load(…, map_location="cpu")',
        "breaks" if index else "note",
        once=True,
    )


def _of_device(value: Any, mode: str) -> Pitfall | None:
    torch = sys.modules.get("torch")
    if torch is None or type(value) is not torch.device or value.index is None or value.type in ("cpu", "meta"):
        return None
    found = _of_index(value.type, value.index, mode, "this device is")
    if found is None:
        return None
    return found._replace(
        why=f"it names {value.type}:{value.index}, which is another GPU, or none, where it is loaded",
        fix='keep the kind of device only ("cuda"), and take the index from LOCAL_RANK after loading',
    )


def _of_storage(value: Any, mode: str) -> Pitfall | None:
    if mode not in ("pickle", "collective"):
        return None
    return Pitfall(
        "a bare UntypedStorage can be written by pickle and not be read again: AttributeError on loading, even here",
        "wrap it in a tensor: torch.tensor([], dtype=torch.uint8).set_(storage); or write it with torch.save",
    )


def _of_path(value: Any, mode: str) -> Pitfall | None:
    import pathlib

    if type(value) not in (pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath):
        return None
    if not value.is_absolute():
        return None
    return Pitfall(
        "it is an absolute path, which may lead to nothing on another host",
        "keep it relative to a root that each host sets for itself",
        "note",
        once=True,
        final=True,
    )


def _of_logger(value: Any, mode: str) -> Pitfall | None:
    return Pitfall(
        "only the name of a logger is written: where it is loaded, it has no handlers and no level but those set there",
        "use a logger of the module (logging.getLogger(__name__)) instead of a member, or configure logging there too",
        "note",
        once=True,
        final=True,
    )


_CHECKS = {
    "tensor": _of_tensor,
    "device": _of_device,
    "storage": _of_storage,
    "path": _of_path,
    "logger": _of_logger,
}
