"""Short digests of tensors: whether two ranks hold equal values, and by how much they differ."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

#: Elements of a tensor that are read, evenly spread over it.
_MOST_ELEMENTS = 65_536
#: The same, where many tensors are read at once in a running job.
_FEW_ELEMENTS = 4_096
#: Where the signs of several sums begin.
_SHIFTS = (0, 9_001, 20_011, 31_013, 42_017, 53_003)
#: Relative differences that rounding explains: of numbers of 32 bits and more, and of shorter ones.
_SMALL = 1e-3
_SMALL_SHORT = 3e-2


class Digest(NamedTuple):
    """The digest of a tensor."""

    checksum: int
    norm: float
    #: of its elements, with signs that have no pattern
    sum: float
    bits: int

    def differs(self, other: Digest) -> bool:
        """Return whether two differ by more than rounding explains."""
        if self.checksum == other.checksum:
            return False
        mine, theirs = (self.norm, self.sum), (other.norm, other.sum)
        if any(one != one for one in (*mine, *theirs)):
            return any((one != one) != (two != two) for one, two in zip(mine, theirs, strict=True))
        bound = (_SMALL if min(self.bits, other.bits) >= 32 else _SMALL_SHORT) * max(self.norm, other.norm)
        return any(abs(one - two) > bound for one, two in zip(mine, theirs, strict=True))


def digest_of(values: Iterable[Any] | None) -> Digest | None:
    """Return a digest that was written as a list."""
    return None if values is None else Digest(*values)


class Digests:
    """Makes them, past whatever modes the script has entered and without a random number."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.signs: Any = None

    def of(self, tensor: Any) -> list[Any]:
        """``[checksum of the bytes, norm, sum with alternating signs, bits of an element]``."""
        from torch.utils._python_dispatch import _disable_current_modes

        torch = self.torch
        with torch.no_grad(), _disable_current_modes():
            return self._of_elements(self._elements(tensor, _MOST_ELEMENTS, 0).cpu().contiguous())

    def of_several(self, tensors: Sequence[Any], turn: int) -> list[Digest]:
        """Return the digests of tensors, of other elements at each turn.

        The elements are chosen and put together where the tensors are, so few bytes move to the CPU, in one copy for
        each dtype and device.
        """
        from torch.utils._python_dispatch import _disable_current_modes

        torch = self.torch
        found: dict[int, Digest] = {}
        with torch.no_grad(), _disable_current_modes():
            alike: dict[tuple[Any, Any], list[tuple[int, Any]]] = {}
            for index, tensor in enumerate(tensors):
                elements = self._elements(tensor, _FEW_ELEMENTS, turn)
                alike.setdefault((elements.device, elements.dtype), []).append((index, elements))
            for pieces in alike.values():
                together = torch.cat([elements for _, elements in pieces]).cpu()
                parts = together.split([len(elements) for _, elements in pieces])
                for (index, _), part in zip(pieces, parts, strict=True):
                    found[index] = Digest(*self._of_elements(part))
        return [found[index] for index in range(len(tensors))]

    def projections(self, tensor: Any) -> list[float]:
        """Return sums of evenly spread elements with several signs: they add and scale as the tensor does."""
        from torch.utils._python_dispatch import _disable_current_modes

        with self.torch.no_grad(), _disable_current_modes():
            values = self._elements(tensor, _FEW_ELEMENTS, 0).cpu().double()
            self._signs(0)
            return [float((values * self.signs[at : at + values.numel()]).sum()) for at in _SHIFTS]

    def some(self, tensor: Any) -> Any:
        """Return evenly spread elements of a tensor, where it is."""
        from torch.utils._python_dispatch import _disable_current_modes

        with self.torch.no_grad(), _disable_current_modes():
            return self._elements(tensor, _FEW_ELEMENTS, 0)

    def _elements(self, tensor: Any, most: int, turn: int) -> Any:
        """Return evenly spread elements of a tensor, where the tensor is."""
        flat = tensor.detach().reshape(-1)
        flat = self.torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
        stride = -(-flat.numel() // most) or 1
        return flat[turn % stride :: stride]

    def _of_elements(self, sample: Any) -> list[Any]:
        size = sample.numel() * sample.element_size()
        checksum = zlib.crc32(ctypes.string_at(sample.data_ptr(), size)) if size else 0
        values = sample.double()
        norm = float(self.torch.linalg.vector_norm(values))
        return [checksum, norm, float((values * self._signs(values.numel())).sum()), 8 * sample.element_size()]

    def _signs(self, number: int) -> Any:
        """Ones and minus ones without a pattern: two tensors that differ hardly have the same sum with them."""
        torch = self.torch
        if self.signs is None:
            # the multiplier of a linear congruential generator: Numerical Recipes, 3rd edition, 7.1
            numbers = torch.arange(_MOST_ELEMENTS, dtype=torch.int64, device="cpu") * 1664525 + 1013904223
            self.signs = (((numbers >> 13) & 1) * 2 - 1).double()
        return self.signs[:number]
