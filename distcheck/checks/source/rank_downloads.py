"""Probes about files that every rank downloads: one process of each host fetches them first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Where
from distcheck.core.registry import probe

from . import call_paths, path_values
from .collective_sequences import sequences_of
from .path_values import CallPath
from .program import FEW, Program, SourceCall
from .several_ranks import signs
from .shared_writes import name_of_call, only_of_this_process
from .values import PARTIAL, Who

#: What fetches into one cache for all, each file by a name of its own first: nothing breaks, but each rank fetches it.
_FETCHES_APART = {
    "torch.hub.load_state_dict_from_url": (1, "model_dir"),
    "torch.utils.model_zoo.load_url": (1, "model_dir"),
    "torch.hub.download_url_to_file": (1, "dst"),
}
_FETCHES = {
    **_FETCHES_APART,
    "torch.hub.load": (0, "repo_or_dir"),
    "urllib.request.urlretrieve": (1, "filename"),
    "torchvision.datasets.utils.download_url": (1, "root"),
    "torchvision.datasets.utils.download_and_extract_archive": (1, "download_root"),
    "gdown.download": (1, "output"),
    "gdown.download_folder": (1, "output"),
    "wget.download": (1, "out"),
}
_DATA_SET_NAMES = (
    "CIFAR10", "CIFAR100", "MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST", "SVHN", "STL10", "VOCDetection",
    "VOCSegmentation", "CelebA", "Food101", "Flowers102", "OxfordIIITPet", "StanfordCars", "Caltech101", "Caltech256",
    "Omniglot", "SBDataset", "SBU", "USPS", "Places365", "DTD", "GTSRB", "Country211", "EuroSAT", "PCAM",
    "FGVCAircraft", "RenderedSST2", "SUN397", "Imagenette", "INaturalist", "LFWPeople", "PhotoTour", "HMDB51",
    "UCF101", "MovingMNIST", "Kinetics", "LIBRISPEECH", "SPEECHCOMMANDS", "YESNO", "LJSPEECH", "LIBRITTS", "VCTK_092",
    "GTZAN", "LibriMix", "TEDLIUM", "CMUARCTIC", "DR_VCTK", "LibriLightLimited",
)  # fmt: skip
_DATA_SETS = ("torchvision.datasets.", "torchaudio.datasets.", "torchtext.datasets.")


def _downloads(program: Program) -> Iterator[tuple[SourceCall, int]]:
    """Calls that fetch something, and the term of its destination."""
    for call in program.calls_to(*_FETCHES):
        if call.is_to("torch.hub.load") and call.constant(None, "source") == "local":
            continue
        position, keyword = next(_FETCHES[target] for target in call.targets if target in _FETCHES)
        yield call, call.argument_term(position, keyword)
    for call in program.calls_named(*_DATA_SET_NAMES):
        if call.gives(None, "download") and any(target.startswith(_DATA_SETS) for target in call.targets):
            yield call, call.argument_term(0, "root")


@probe(rules.DC725)
def every_rank_downloads(program: Program) -> Iterator[Finding]:
    """One process of each host downloads, and the others wait for it."""
    # a second call of one function finds what the first one has fetched
    reported: set[tuple[int, int, str, str]] = set()
    for call, path in _downloads(program):
        source = "" if call.gives(None, "download") else call.term_text(call.argument_term(0))
        fetched = (call.file, call.scope, name_of_call(call), source)
        if fetched in reported:
            continue
        call_path = next(_real_downloads(program, call), None)
        if call_path is None or (path >= 0 and only_of_this_process(call_path, path)) or call.inside("except"):
            continue
        if _others_waited(program, call_path):
            continue
        reported.add(fetched)
        shown = name_of_call(call)
        loud = not path_values.in_tests(call_path) and not call.is_to(*_FETCHES_APART)
        yield rules.DC725.found(
            f"every rank downloads to the same path here ({shown})",
            where=_flag_place(program, call),
            fix=Fix(_download_fix(call, shown), where="code"),
            evidence={"flow": program.flow(call_path.steps), **signs(call, call_path)},
            severity=Severity.WARNING if loud else Severity.INFO,
        )


def _flag_place(program: Program, call: SourceCall) -> Where:
    """Return the location of a download: its flag, where it has one."""
    span = call.argument_span(None, "download")
    if span is None or span.line == call.line:
        return call.where()
    return program.where(call.file, span, call.function.qualified or None)


def _download_fix(call: SourceCall, shown: str) -> str:
    if call.gives(None, "download"):
        return (
            f"let one rank of each host call {shown}(…, download=True), then dist.barrier() on all ranks, then "
            f"{shown}(…, download=False) everywhere"
        )
    return f"let one rank of each host call {shown}(), and dist.barrier() after it on all ranks"


def _real_downloads(program: Program, call: SourceCall) -> Iterator[CallPath]:
    """Yield the ways of all ranks on which the call does fetch: not with download=False."""
    flag = call.argument_term(None, "download")
    for call_path in call_paths.paths_of_all_ranks(program, call, first_is_a_guard=True):
        if flag >= 0 and path_values.value_on(call_path, flag).constant is not True:
            continue
        yield call_path


def _others_waited(program: Program, call_path: CallPath) -> bool:
    """Whether, in a function on the way, the first rank came first: barriers around it, or it was fetched before."""
    for row in (call_path.row, *call_path.calls):
        before = [
            one
            for one in program.rows_of(row.file, row.scope)
            if isinstance(one, SourceCall) and one.number < row.number
        ]
        for one in before:
            who = one.own_reached_by.who
            if who in (Who.OTHERS, Who.LOCAL_OTHERS) and _is_barrier(program, one):
                return True
            if who in FEW and _followed_by_a_barrier(program, one, before):
                return True
    return False


_BARRIERS = frozenset(["barrier", "wait_for_everyone", "rendezvous", "synchronize"])


def _followed_by_a_barrier(program: Program, one: SourceCall, calls: Iterable[SourceCall]) -> bool:
    return any(
        later.number > one.number and later.own_reached_by.who not in PARTIAL and _is_barrier(program, later)
        for later in calls
    )


def _is_barrier(program: Program, call: SourceCall) -> bool:
    collective = sequences_of(program).collective_site(call)
    if collective is not None and not _BARRIERS.isdisjoint(collective.operations):
        return True
    return call.method in _BARRIERS and not call.is_to("torch.cuda.synchronize")
