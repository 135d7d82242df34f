"""Moving averages of the weights of a model in DDP: modules with the same parameters, which follow the model.

A copy counts once its last changes went from its old values towards the weights, by one factor for all elements. So
frozen copies, perturbed ones and those that another optimizer steps do not count, nor does a copy that only one rank
changes. Replicas that have the same weights should have the same averages. Nothing numbers several averages of a rank
alike on others, so they are compared in the order of their norms, if all ranks have as many.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from distcheck.core.model import grouped_pairs

from .copy_observer import is_plain, local_of, roots_of_models
from .digests import Digest, Digests

#: Steps before which averages are searched: a search goes through all objects of the process.
_SEARCHED_AT = (2, 8)
#: Parameters of one average that are compared, and modules that may be averages of one model. With more of them, ranks
#: could choose others.
_MOST_PARAMETERS, _MOST_AVERAGES = 4, 8
#: Changes that have to follow the weights.
_CHANGES = 2
#: Part of a change that may have another direction: rounding explains it.
_ASIDE = 0.05


class _Average:
    """A module that may hold a moving average."""

    def __init__(self, root: Any, pairs: list[tuple[str, str]]) -> None:
        self.root = weakref.ref(root)
        #: names in the model and in this module
        self.pairs = pairs
        #: step before which ``elements`` were read
        self.step = 0
        self.elements: dict[str, Any] = {}
        #: changes that followed the weights
        self.followed = 0


class MovingAverages:
    """The averages of the models of this process."""

    def __init__(self) -> None:
        self._averages: dict[str, list[_Average]] = {}

    def forget(self) -> None:
        """Forget the parent's models, in a fork."""
        self._averages.clear()

    def of(self, key: str, module: Any, stepped: set[int], step: int, digests: Digests) -> dict[str, Digest]:
        """Return the digests of the averages of a model, by the names of its parameters.

        :param key: of the model
        :param stepped: IDs of the parameters of all optimizers
        :param step: that is about to be made
        """
        model = dict(module.named_parameters())
        if step in _SEARCHED_AT and not self._averages.get(key):
            candidates = list(islice(_search(digests.torch, model, stepped), _MOST_AVERAGES + 1))
            self._averages[key] = candidates if len(candidates) <= _MOST_AVERAGES else []
        found: list[tuple[str, Any]] = []
        for average in self._averages.get(key, ()):
            root = average.root()
            if root is None:
                continue
            held = dict(root.named_parameters())
            named = {name: held[other] for name, other in average.pairs if name in model and other in held}
            _follow(average, named, model, step, digests)
            if average.followed >= _CHANGES:
                found += named.items()
        made = zip(found, digests.of_several([one for _, one in found], 0), strict=True)
        return {
            f"{name}{f' in copy {number} of {len(of_name)}' * (len(of_name) > 1)}": digest
            for name, of_name in grouped_pairs((name, digest) for (name, _), digest in made).items()
            for number, digest in enumerate(sorted(of_name, key=lambda one: (one.norm, one.sum)), 1)
        }


def _search(torch: Any, model: Mapping[str, Any], stepped: set[int]) -> Iterator[_Average]:
    """Yield modules that have all parameters of a model under their names, with a prefix or without, and no more."""
    mine = {id(one) for one in model.values()}
    for root in roots_of_models():
        held = dict(root.named_parameters())
        if len(held) != len(model) or any(id(one) in mine or id(one) in stepped for one in held.values()):
            continue
        # both are in the order of the modules
        pairs = [
            (name, other)
            for name, other in zip(model, held, strict=True)
            if f".{other}".endswith(f".{name}") and model[name].shape == held[other].shape
        ]
        if len(pairs) < len(model) or not all(is_plain(torch, local_of(one)) for one in held.values()):
            continue
        yield _Average(root, pairs[:: -(-len(pairs) // _MOST_PARAMETERS)])


def _follow(average: _Average, named: Mapping[str, Any], model: Mapping[str, Any], step: int, digests: Digests) -> None:
    """Read an average, and count a change since the last step that followed the weights."""
    before, average.elements = average.elements, {name: digests.some(one).clone() for name, one in named.items()}
    last, average.step = average.step, step
    if last != step - 1 or average.followed >= _CHANGES or before.keys() != average.elements.keys():
        return
    changes = [(now - before[name], digests.some(model[name]) - before[name]) for name, now in average.elements.items()]
    changes = [(change.double(), way.double()) for change, way in changes if bool(change.any())]
    average.followed += bool(changes) and all(_is_on_the_way(change, way) for change, way in changes)


def _is_on_the_way(change: Any, way: Any) -> bool:
    square = float((way * way).sum())
    part = float((change * way).sum()) / square if square else 0.0
    return 0 < part <= 1 + _ASIDE and float((change - part * way).norm()) <= _ASIDE * float(change.norm())
