"""The numbers that the correctness check sends, and their expected results, made without communication.

*Copies* (broadcast, gather …) carry random bits, so that a changed bit and a misplaced element show. *Sums* carry whole
numbers: at each index the ranks hold the numbers of one fixed list, rotated by a random amount, and one rank adds a
random addend. The sum is the list's total plus the addend, for any number of ranks. The addend identifies an index, the
rotation a rank. All numbers are so small that any partial sum in any order is exact in the dtype, so a right result is
right in every bit. *Other reductions* are made of the same lists, so that their result is known without communication.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

#: Whole numbers up to this are exact: 2 to the bits of the significand (IEEE 754; bfloat16 has 8).
#: For int64 a bound that leaves the sign alone, for uint8 the largest number and one.
EXACT = {
    "float64": 1 << 53, "float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8, "int64": 1 << 62, "uint8": 1 << 8,
}  # fmt: skip
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "float64": 8, "uint8": 1, "bool": 1}
INTEGERS = frozenset({"int64", "uint8"})
#: What PREMUL_SUM multiplies each contribution by: a power of two, which is exact.
PREMUL_FACTOR = 2.0

#: Elements of a random table, of which every buffer is made piece by piece; a prime, so that pieces of two messages
#: do not end at the same positions as chunks do.
TABLE = 16_381
_MASK = (1 << 64) - 1


def mix(*parts: int) -> int:
    """64 bits of a hash: the finaliser of SplitMix64 (Steele, Lea and Flood 2014), part after part."""
    state = 0x5D1C_7C8E_D3A5_11B7
    for part in parts:
        state = (state ^ (part & _MASK)) + 0x9E37_79B9_7F4A_7C15 & _MASK
        state = (state ^ state >> 30) * 0xBF58_476D_1CE4_E5B9 & _MASK
        state = (state ^ state >> 27) * 0x94D0_49BB_1331_11EB & _MASK
        state ^= state >> 31
    return state


def _signed(word: int, bits: int) -> int:
    """The lowest bits of a word as a signed number."""
    word &= (1 << bits) - 1
    return word - (1 << bits) if word >> (bits - 1) else word


def _random_words(torch: Any, count: int) -> Any:
    """``count`` int64 words, the same on every machine and every version: SplitMix64 in wrapping arithmetic."""

    def shifted(words: Any, bits: int) -> Any:
        return (words >> bits) & ((1 << (64 - bits)) - 1)

    words = torch.arange(1, count + 1, dtype=torch.int64)
    words = words * _signed(0x9E37_79B9_7F4A_7C15, 64) + _signed(mix(count), 64)
    words = (words ^ shifted(words, 30)) * _signed(0xBF58_476D_1CE4_E5B9, 64)
    words = (words ^ shifted(words, 27)) * _signed(0x94D0_49BB_1331_11EB, 64)
    return words ^ shifted(words, 31)


def make_terms(dtype: str, size: int) -> tuple[tuple[int, ...], int]:
    """The numbers that the ranks hold at one index, before they are rotated, and the largest addend.

    Positive numbers add up to at most half of what is exact, negative ones as well, and the addend is at most the
    other half: every partial sum in every order is exact. Where there are more ranks than such numbers, most hold 0.
    Their total is not negative, so that the sum is never 0 and its sign shows; and with two or more ranks the rank
    with the addend is never right alone. Without a sign there are no negative numbers.
    """
    if dtype == "uint8":
        return _make_unsigned_terms(size)
    half = EXACT[dtype] // 2
    used = min(size, 2 * half)
    largest = half // ((used + 1) // 2)
    order = sorted(range(size), key=lambda place: mix(size, place))
    terms = [0] * size
    for number, place in enumerate(order[:used]):
        magnitude = 1 + mix(size, place, 1) % largest
        terms[place] = magnitude if number % 2 == 0 else -magnitude
    total = sum(terms)
    if total < 0:
        terms, total = [-term for term in terms], -total
    if size > 1 and terms[0] == total:
        # there are terms of both signs, so that one of them is another
        place = next(place for place, term in enumerate(terms) if term != total)
        terms[0], terms[place] = terms[place], terms[0]
    return tuple(terms), half


def _make_unsigned_terms(size: int) -> tuple[tuple[int, ...], int]:
    """The same for uint8: all terms add up to at most 127, so that each partial sum with the addend is below 256."""
    half = EXACT["uint8"] // 2 - 1
    used = min(size, half)
    order = sorted(range(size), key=lambda place: mix(size, place))
    terms = [0] * size
    for place in order[:used]:
        terms[place] = 1 + mix(size, place, 1) % (half // used)
    return tuple(terms), half


class _SumTables(NamedTuple):
    """Everything that inputs of sums in one dtype are made of, on the device."""

    #: this rank's number, by position in the table, without the addend
    terms: Any
    #: 1 where this rank has the addend, else 0
    owned: Any
    addends: Any
    total: int
    #: how far the list is rotated, by position in the table; on the processor
    rotations: Any
    all_terms: tuple[int, ...]


class RandomTables:
    """Random tables on a device, made once; every buffer is made of pieces of them.

    A buffer's index i lies in piece i // TABLE of its stream; a piece begins at a random place of the table.
    """

    def __init__(self, rank: int, size: int, device: Any) -> None:
        import torch

        self.torch: Any = torch
        self.rank = rank
        self.size = size
        self.device = device
        #: random words that all tables are made of; pieces of different tables begin at different positions
        self._words = _random_words(torch, 2 * TABLE)
        self._bits: dict[str, Any] = {}
        self._sums: dict[str, _SumTables] = {}

    def dtype(self, name: str) -> Any:
        """torch's dtype of a name."""
        return getattr(self.torch, name)

    def bits_dtype(self, name: str) -> Any:
        """The integer of the same width."""
        integers = {8: self.torch.int64, 4: self.torch.int32, 2: self.torch.int16, 1: self.torch.int8}
        return integers[ITEM_BYTES[name]]

    def bits(self, dtype: str) -> Any:
        """Random bits, as integers of the dtype's width. The highest bit of a float's exponent is 0: no NaN."""
        if dtype not in self._bits:
            width = 8 * ITEM_BYTES[dtype]
            words = (self._words >> (64 - width)) & self._kept(dtype)
            self._bits[dtype] = words.to(self.bits_dtype(dtype)).to(self.device)
        return self._bits[dtype]

    def _kept(self, dtype: str) -> int:
        return -1 if dtype in INTEGERS else ~(1 << (8 * ITEM_BYTES[dtype] - 2))

    def sums(self, dtype: str) -> _SumTables:
        """The tables of sums."""
        if dtype not in self._sums:
            torch = self.torch
            terms, most = make_terms(dtype, self.size)
            words = self._words & ((1 << 62) - 1)
            rotations = words % self.size
            addends = 1 + words % most
            places = (rotations + self.rank) % self.size
            made = self.dtype(dtype)
            self._sums[dtype] = _SumTables(
                torch.tensor(terms, dtype=torch.int64)[places].to(made).to(self.device),
                (places == 0).to(made).to(self.device),
                addends.to(made).to(self.device),
                sum(terms),
                rotations,
                terms,
            )
        return self._sums[dtype]

    def _pieces(self, stream: int, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
        """Pieces between two indices: index from, index to, how far into its piece that begins, the piece's number."""
        while start < stop:
            number, begun = divmod(start, TABLE)
            end = min(stop, (number + 1) * TABLE)
            yield start, end, begun, mix(stream, number)
            start = end

    def copy_input(self, dtype: str, stream: int, start: int, out: Any) -> None:
        """Fill a buffer with the bits of a stream from an index on."""
        view = out.view(self.bits_dtype(dtype))
        for begin, end, bits in self.copy_blocks(dtype, stream, start, start + len(out)):
            view[begin - start : end - start] = bits

    def copy_blocks(self, dtype: str, stream: int, start: int, stop: int) -> Iterator[tuple[int, int, Any]]:
        """The bits of a stream between two indices, piece by piece."""
        table = self.bits(dtype)
        width = 8 * ITEM_BYTES[dtype]
        for begin, end, begun, word in self._pieces(stream, start, stop):
            key = _signed(mix(word, 1), width) & self._kept(dtype)
            place = word % TABLE + begun
            yield begin, end, table[place : place + end - begin] ^ key

    def sum_input(self, dtype: str, stream: int, start: int, out: Any) -> None:
        """Fill a buffer with this rank's contribution to a sum."""
        tables = self.sums(dtype)
        for begin, end, begun, word in self._pieces(stream, start, start + len(out)):
            length = end - begin
            place, addend = word % TABLE + begun, mix(word, 2) % TABLE + begun
            part = out[begin - start : end - start]
            self.torch.mul(tables.owned[place : place + length], tables.addends[addend : addend + length], out=part)
            part += tables.terms[place : place + length]

    def sum_blocks(self, dtype: str, stream: int, start: int, stop: int) -> Iterator[tuple[int, int, Any]]:
        """What the sum must be, piece by piece."""
        tables = self.sums(dtype)
        for begin, end, begun, word in self._pieces(stream, start, stop):
            addend = mix(word, 2) % TABLE + begun
            yield begin, end, tables.addends[addend : addend + end - begin] + tables.total

    def reduction_input(self, collective: str, dtype: str, stream: int, out: Any) -> None:
        """Fill a buffer with this rank's contribution to a reduction that is no sum."""
        tables = self.sums(_numbers_of(collective, dtype))
        for begin, end, begun, word in self._pieces(stream, 0, len(out)):
            length = end - begin
            place, addend = word % TABLE + begun, mix(word, 2) % TABLE + begun
            out[begin:end] = _contribution(
                collective, dtype, self.size,
                tables.terms[place : place + length], tables.owned[place : place + length],
                tables.addends[addend : addend + length],
            )  # fmt: skip

    def reduction_blocks(self, collective: str, dtype: str, stream: int, stop: int) -> Iterator[tuple[int, int, Any]]:
        """What such a reduction must be, piece by piece."""
        tables = self.sums(_numbers_of(collective, dtype))
        for begin, end, begun, word in self._pieces(stream, 0, stop):
            addend = mix(word, 2) % TABLE + begun
            addends = tables.addends[addend : addend + end - begin]
            yield begin, end, _reduced(collective, dtype, tables, addends).to(self.dtype(dtype))

    def contributions(self, dtype: str, stream: int, indices: list[int]) -> list[list[int]]:
        """What every rank contributed at some indices: one list a rank."""
        tables = self.sums(dtype)
        found: list[list[int]] = [[] for _ in range(self.size)]
        for index in indices:
            (_, _, begun, word) = next(self._pieces(stream, index, index + 1))
            addend = int(tables.addends[mix(word, 2) % TABLE + begun])
            rotation = int(tables.rotations[word % TABLE + begun])
            for rank in range(self.size):
                term = (rotation + rank) % self.size
                found[rank].append(tables.all_terms[term] + (addend if term == 0 else 0))
        return found

    def empty(self, dtype: str, elements: int) -> Any:
        """A buffer that holds nothing that could be right."""
        poison = {"int64": -0x5A5A_5A5A_5A5A_5A5B, "uint8": 0xA5, "bool": True}.get(dtype, float("nan"))
        return self.torch.full((elements,), poison, dtype=self.dtype(dtype), device=self.device)


def _numbers_of(collective: str, dtype: str) -> str:
    """The dtype whose lists a reduction is made of: an average is of small numbers, so that rounding can't hide one."""
    return "float16" if collective == "all_reduce_avg" else "int64" if dtype == "bool" else dtype


def _contribution(collective: str, dtype: str, size: int, terms: Any, owned: Any, addends: Any) -> Any:
    """One rank's numbers. The rank that has the addend is another one from index to index."""
    if dtype == "bool":
        # any: true where the one rank is; all: false there
        here = (owned * addends) % 2 == 1
        return here if collective == "all_reduce_max" else ~here
    if collective == "all_reduce_product":
        # signs, and the addend once: whole numbers, and as large as one of them
        return owned * addends + (1 - owned) * (1 - 2 * (terms % 2).abs())
    if collective in ("all_reduce_min", "all_reduce_max"):
        # the addend is the largest, whatever the other ranks have
        number = owned * addends - (1 - owned) * terms.abs()
        return -number if collective == "all_reduce_min" else number
    number = owned * addends + terms
    return number.float() * size if collective == "all_reduce_avg" else number


def _reduced(collective: str, dtype: str, tables: _SumTables, addends: Any) -> Any:
    """The result over all ranks."""
    if dtype == "bool":
        found = addends % 2 == 1
        return found if collective == "all_reduce_max" else ~found
    if collective == "all_reduce_product":
        return addends * (-1) ** sum(term % 2 for term in tables.all_terms[1:])
    if collective in ("all_reduce_min", "all_reduce_max"):
        return -addends if collective == "all_reduce_min" else addends
    if collective == "all_reduce_avg":
        return addends.float() + tables.total
    return (addends + tables.total) * PREMUL_FACTOR
