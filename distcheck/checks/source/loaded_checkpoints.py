"""Probes about the device on which ranks load a checkpoint: ``map_location``, and what the file holds tensors of."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Edit, Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import call_paths, path_values, rank_dependence
from .checkpoint_files import OF_PATHS, file_names, has_other_keys, holds_counters, is_never_there
from .path_values import CallPath
from .program import EventRow, Program, SourceCall
from .several_ranks import signs
from .shared_writes import WRITERS, only_of_this_process
from .source_text import last_name
from .term_queries import origins, same_path
from .values import Kind
from .vocabulary import SPAWNS

#: Names of what holds weights, and of what holds data.
_OF_WEIGHTS = lazy(
    r"ckpt|check_?point|resume|weight|pretrain|model|snapshot|state_?dict|\.pth|network|backbone|finetune|init_from",
    re.I,
)
_OF_DATA = lazy(
    r"data|feature|label|token|embed|target|cache|split|index|indices|vocab|stats|prompt|latent|sample|noise"
    r"|predictions|proposals|annotations",
    re.I,
)
#: Names of what was never a file.
_MEMORY = lazy(r"buf|bytes|serialized|stream|blob|payload|memory|BytesIO|\bio\b", re.I)
_RECEIVERS = ("load_state_dict", "load_model_state_dict", "set_model_state_dict")


@probe(rules.DC723)
def checkpoints_go_where_they_were(program: Program) -> Iterator[Finding]:
    """A checkpoint that several ranks load is brought to a device of their own."""
    used, plain = _fed_to_models(program)
    for call in program.calls_to("torch.load"):
        given = call.argument_term(1, "map_location")
        # what is handed on may be None by default; who calls decides
        handed_on = given >= 0 and call.terms[given] != ("k", "none", None)
        if call.has_star or (handed_on and not _is_none_for_all(program, call, given)):
            continue
        if (
            call.gives(None, "mmap")
            or not call.gives(0, "f")
            or _MEMORY.search(rank_dependence.names_in(call, call.argument_term(0, "f")))
        ):
            continue
        if (call.file, call.number) in plain or not _loads_weights(call, used) or _is_published(program, call):
            continue
        call_path = call_paths.path_of_all_ranks(program, call)
        if handed_on and (call_path is None or path_values.in_tests(call_path)):
            # tests are one process: others that call it are not in sight
            call_path = call_paths.path_from_outside(program, call) or call_path
        trained = call_paths.path_past_a_trainer(program, call) if call_path is None else None
        call_path = call_path or trained
        if call_path is None or only_of_this_process(call_path, call.argument_term(0, "f")):
            continue
        if _never_on_gpus(program, call_path) or _written_from_the_host(program, call):
            continue
        if holds_counters(program, call) or is_never_there(program, call) or has_other_keys(program, call):
            continue
        edit = None if handed_on else _map_location_edit(program, call)
        yield call.found(
            rules.DC723,
            "every rank loads this checkpoint onto the GPU that it was saved from: GPU 0 where rank 0 has saved it",
            fix=f'give {call.term_text(given)} the default "cpu": load_state_dict() copies the tensors to where the '
            "parameters are"
            if handed_on
            else 'add map_location="cpu": load_state_dict() copies the tensors to where the parameters are',
            edits=(edit,) if edit is not None else (),
            safe=False,
            risk="tensors of the checkpoint that are used directly, without load_state_dict(), are on the CPU then",
            basis=(call_path.certainty,),
            severity=Severity.INFO if trained or path_values.in_tests(call_path) else Severity.WARNING,
            flow=program.flow(call_path.steps),
            **signs(call, call_path),
        )


@probe(rules.DC723)
def modules_go_where_they_were(program: Program) -> Iterator[Finding]:
    """A module of Lightning that several ranks load is brought to a device of their own."""
    for call in program.calls_named("load_from_checkpoint"):
        given = call.argument_term(1, "map_location")
        if call.has_star or given >= 0 or not program.imports_from(call.file, "lightning", "pytorch_lightning"):
            continue
        if _is_published(program, call) or call.use == "drop":
            continue
        path = call_paths.path_past_lightning(program, call) or call_paths.path_of_all_ranks(program, call)
        if path is None or path_values.in_tests(path) or only_of_this_process(path, call.argument_term(0, "f")):
            continue
        edit = program.argument_edit(call, 'map_location="cpu"')
        yield call.found(
            rules.DC723,
            "every rank loads this checkpoint onto the GPU that it was saved from: GPU 0 where rank 0 has saved it",
            fix='add map_location="cpu": Lightning moves the module to the GPU of the rank',
            edits=(edit,) if edit is not None else (),
            safe=False,
            risk="a module that is used without a trainer stays on the CPU",
            severity=Severity.INFO,
            flow=program.flow(path.steps),
            **signs(call, path),
        )


def _is_none_for_all(program: Program, call: SourceCall, term: int) -> bool:
    """Return whether an argument is a parameter that is None by default, and that no caller in the project gives."""
    parts = call.terms[term]
    if parts[0] != "p" or parts[1] != call.scope:
        return False
    default = next((given for name, given, _ in call.function.parameters if name == parts[2]), -1)
    if default < 0 or call.terms[default] != ("k", "none", None):
        return False
    function = (call.file, call.scope)
    sites = program.evaluator.likely_callers(function)
    return not any(_may_pass(program, SourceCall(program, *site[:2]), call, parts[2]) for site in sites)


def _may_pass(program: Program, caller: SourceCall, call: SourceCall, name: str) -> bool:
    """Return whether a caller may give something else than None for a parameter."""
    if caller.has_star or caller.is_to(*_STARTERS):
        return True
    passed = path_values.passed_term(program, caller, (call.file, call.scope), name)
    return passed is not None and caller.terms[passed[1]] != ("k", "none", None)


#: What starts a function with arguments that stand elsewhere.
_STARTERS = (*SPAWNS, "torch.multiprocessing.Process")


def _map_location_edit(program: Program, call: SourceCall) -> Edit | None:
    given = call.argument_span(1, "map_location")
    return given.replaced_by('"cpu"') if given is not None else program.argument_edit(call, 'map_location="cpu"')


#: What returns the path of a file that it fetched: weights that others publish hold tensors of the CPU.
_FETCHED = frozenset(
    ["hf_hub_download", "snapshot_download", "cached_download", "cached_file", "cached_path", "try_to_load_from_cache",
     "get_file", "maybe_download", "download_and_cache", "check_file_exist_or_download"]
)  # fmt: skip
#: A folder of weights that others publish, unless the project saves into one.
_OF_OTHERS = lazy(r"(^|/)pre_?trained[\w-]*/", re.I)
#: Names of files that a run writes.
_OF_RUNS = lazy(
    r"check_?point|ckpt|resume|snapshot|last|latest|best|final|epoch|step|iter|optim"
    r"|^(pytorch_)?(model|weights?|net|network|state|state_dict)(\.\w+)*$",
    re.I,
)


def _is_published(program: Program, call: SourceCall) -> bool:
    """Return whether a file holds weights that others publish: it was fetched, or has a fixed name that no code saves.

    So it does where an option may also hold the name of a model: ``args.unet_model_name_or_path``, and in a folder of
    pretrained weights into which no code saves. A name that a run gives to its checkpoints does not count.
    """
    path = call.argument_term(0, "f")
    if path < 0:
        return False
    given = origins(program, call.file, path) if call.terms[path][0] == "p" else [(call.file, path)]
    passed = [(file, term) for file, term in given if program.terms[file][term] != ("k", "none", None)]
    return bool(passed) and all(_is_published_path(program, file, term) for file, term in passed)


def _is_published_path(program: Program, file: int, path: int) -> bool:
    numbers = list(program.subterms(file, path))
    terms = program.terms[file]
    if terms[path][0] in ("a", "p", "v") and last_name(terms, path).endswith("name_or_path"):
        return True
    called = [SourceCall(program, file, terms[number][5]) for number in numbers if terms[number][0] == "c"]
    if any(one.method in _FETCHED for one in called):
        return True
    texts = [terms[number][2] for number in numbers if terms[number][:2] == ("k", "str")]
    if any(map(_OF_OTHERS.search, texts)) and not any(
        _OF_OTHERS.search(str(save.terms[number][2]))
        for save in program.calls_to(*WRITERS)
        for term in save.argument_terms
        for number in program.subterms(save.file, term)
        if save.terms[number][:2] == ("k", "str")
    ):
        return True
    if not all(_is_fixed(program, file, number) for number in numbers):
        return False
    names = {text.replace("\\", "/").rsplit("/", 1)[-1] for text in texts}
    # a bare name is in the folder where the script was started, as what runs write
    elsewhere = any("/" in text for text in texts) or any(
        terms[number] == ("i", "__file__") or terms[number][2:3] == ("__file__",) for number in numbers
    )
    if not names or not elsewhere or any(_OF_RUNS.search(name) for name in names):
        return False
    return not any(
        program.terms[save.file][number][0] == "k"
        and str(program.terms[save.file][number][2]).replace("\\", "/").rsplit("/", 1)[-1] in names
        for save in program.calls_to(*WRITERS)
        for term in save.argument_terms
        for number in program.subterms(save.file, term)
    )


def _is_fixed(program: Program, file: int, number: int) -> bool:
    """Return whether a part of a path is the same in each run: a text, the folder of the code, a function of paths."""
    part = program.terms[file][number]
    if part[0] in ("k", "o", "f", "i", "t"):
        return True
    if part[0] == "v":
        return part[2] == "__file__" or bool(program.bound(file, part))
    if part[0] == "c":
        return last_name(program.terms[file], part[1]) in OF_PATHS
    return part[0] == "a" and (part[2] in OF_PATHS or part[2] in ("path", "parent"))


#: Names of what has a state without tensors on a GPU: numbers of steps, the scale of a loss, random generators.
_WITHOUT_TENSORS = lazy(r"sched|warm_?up|(^|_)scaler?($|_)|grad_?scal|rng|generator|sampler|early_?stop", re.I)


def _fed_to_models(program: Program) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return the calls of torch.load whose result, or a part of it, becomes a model's or an optimizer's state.

    And those whose result only becomes the state of a scheduler or the like, which has no tensors on a GPU.
    """
    found: set[tuple[int, int]] = set()
    plain: set[tuple[int, int]] = set()
    for call in program.calls_named(*_RECEIVERS):
        kind = plain if _has_no_tensors(call) else found
        for term in call.argument_terms:
            kind |= _loads_in(call, term, 0)
    return found, plain - found


def _has_no_tensors(call: SourceCall) -> bool:
    """Return whether a state is that of a scheduler, or of something else without tensors on a GPU."""
    receiver = call.receiver
    if any(str(atom.const).startswith("torch.optim.lr_scheduler.") for atom in receiver if atom.kind == Kind.RESULT):
        return True
    return bool(_WITHOUT_TENSORS.search(call.receiver_text.rsplit(".", 1)[-1]))


def _loads_in(row: EventRow, term: int, depth: int) -> set[tuple[int, int]]:
    """Return the calls of torch.load that a term is made of."""
    if term < 0 or depth > 10:
        return set()
    found = {
        atom.call
        for atom in row.term_value(term)
        if atom.kind == Kind.RESULT and atom.const == "torch.load" and atom.call is not None
    }
    parts = row.terms[term]
    for inner in rank_dependence.operands(parts):
        found |= _loads_in(row, inner, depth + 1)
    return found


def _loads_weights(call: SourceCall, used: set[tuple[int, int]]) -> bool:
    """Whether what is loaded are weights: they end in a model, or path and name mean weights and nothing means data."""
    if (call.file, call.number) in used:
        return True
    use = next((moved.use for moved in _moved(call)), call.use)
    name = use.removeprefix("assign:") if use.startswith("assign:") else ""
    owner = call.program.evaluator.owner_of(call.file, call.scope)
    words = (
        f"{name} {rank_dependence.names_in(call, call.argument_term(0, 'f'))} {call.function.name.replace('model', '')}"
    )
    if owner >= 0:
        one = call.program.index.classes[call.file][owner]
        if call.program.evaluator.derives(
            (call.file, owner), "torch.utils.data.Dataset", "torch.utils.data.IterableDataset"
        ) or re.search(r"data", one.name, re.I):
            return False
    return bool(_OF_WEIGHTS.search(words)) and not _OF_DATA.search(words)


def _moved(call: SourceCall) -> Iterator[SourceCall]:
    """Yield the call that moves what is loaded at once: ``torch.load(path).to(device)``."""
    for moved in call.program.rows_of(call.file, call.scope):
        if isinstance(moved, SourceCall) and moved.method in ("to", "cuda", "float", "half"):
            receiver = moved.terms[moved.receiver_term] if moved.receiver_term >= 0 else ("-",)
            if receiver[0] == "c" and receiver[5] == call.number:
                yield moved


def _never_on_gpus(program: Program, call_path: CallPath) -> bool:
    """Return whether all process groups of the program are for CPUs."""
    files = call_paths.related(program, call_path.root[0])
    backends = [
        call.constant(0, "backend")
        for call in program.calls_to("torch.distributed.init_process_group")
        if call.file in files
    ]
    return bool(backends) and all(backend in ("gloo", "mpi") for backend in backends)


def _written_from_the_host(program: Program, call: SourceCall) -> bool:
    """Return whether the project writes that file from tensors that it has moved to the CPU: the same class, by all of
    its saves, or whatever writes to the same path or to a file of the same name.
    """
    owner = program.evaluator.owner_of(call.file, call.scope)
    saves = [
        save
        for save in program.calls_to("torch.save")
        if owner >= 0 and (save.file, program.evaluator.owner_of(save.file, save.scope)) == (call.file, owner)
    ]
    if saves and all(_is_on_the_host(program, save) for save in saves):
        return True
    path = call.argument(0, "f")
    paths = set() if path is None else set(path.constants)
    names = file_names(program, call, call.argument_term(0, "f"))
    every = list(program.calls_to("torch.save"))
    if not names and not paths and every and all(_is_on_the_host(program, save) for save in every):
        return True
    for save in every:
        target = save.argument(1, "f")
        same_path = target is not None and not paths.isdisjoint(target.constants)
        if not same_path and names.isdisjoint(file_names(program, save, save.argument_term(1, "f"))):
            continue
        if _is_on_the_host(program, save) or _moved_before(program, save):
            return True
    return False


def _moved_before(program: Program, save: SourceCall) -> bool:
    """Return whether a function moves a module to the CPU before it saves: ``model.cpu()`` changes the module."""
    return any(
        moved.file == save.file and moved.scope == save.scope and moved.number < save.number and moved.use == "drop"
        for moved in program.calls_named("cpu")
    )


#: Functions that move tensors to the CPU, of torch and of projects: ``cpu``, ``_to_cpu``, ``weights_to_cpu``.
_TO_CPU = lazy(r"(^|_)cpu($|_)")


def _is_on_the_host(program: Program, save: SourceCall) -> bool:
    """Return whether what is saved was moved to the CPU: as a whole, or one item after the other."""
    saved = save.argument_term(0, "obj")
    return any(_mentions_cpu(program, save.file, part, 0) for part in _weights_in(program, save, saved)) or any(
        row.kind == "store"
        and row.number < save.number
        and _mentions_cpu(program, row.file, row.payload[2], _DEEPEST_TERM - 1)
        and any(same_path(row.terms, part, row.payload[0]) for part in program.subterms(save.file, saved))
        for row in program.rows_of(save.file, save.scope)
    )


def _weights_in(program: Program, save: SourceCall, saved: int) -> list[int]:
    """Return what of a dict are states of modules, next to metrics and the like; all of it if nothing is."""
    parts = save.terms[saved] if saved >= 0 else ("-",)
    states = [
        value
        for value in (parts[2] if parts[0] == "d" else ())
        if any(
            save.terms[number][0] == "a" and save.terms[number][2] == "state_dict"
            for number in program.subterms(save.file, value, names=False)
        )
    ]
    return states or [saved]


#: So deep a moved tensor is searched in what is saved.
_DEEPEST_TERM = 8


def _mentions_cpu(program: Program, file: int, term: int, depth: int) -> bool:
    if term < 0 or depth > _DEEPEST_TERM:
        return False
    terms = program.terms[file]
    parts = terms[term]
    if parts[:2] == ("k", "str") and parts[2] == "cpu":
        return True
    if parts[0] == "c" and _TO_CPU.search(last_name(terms, parts[1])):
        return True
    if parts[0] == "p":
        given = [origin for origin in origins(program, file, term) if origin != (file, term)]
        return bool(given) and all(_mentions_cpu(program, *origin, depth + 1) for origin in given)
    return any(_mentions_cpu(program, file, inner, depth + 1) for inner in rank_dependence.operands(parts))
