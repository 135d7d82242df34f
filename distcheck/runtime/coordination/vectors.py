"""Arithmetic of vectors that stand for tensors: sums over the elements, with signs, which add and scale as these do."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

#: Sums over the elements of a tensor, with signs.
Vector = tuple[float, ...]


def summed(vectors: Iterable[Vector]) -> Vector:
    """Return the sum of vectors."""
    return tuple(map(sum, zip(*vectors, strict=True)))


def scaled(vector: Vector, factor: float) -> Vector:
    """Return a vector times a number."""
    return tuple(factor * one for one in vector)


def norm_of(vector: Vector) -> float:
    """Return the Euclidean norm."""
    return sqrt(sum(one * one for one in vector))


def apart(one: Vector, other: Vector) -> float:
    """Return the norm of the difference of two vectors, relative to that of the first."""
    return norm_of(tuple(a - b for a, b in zip(one, other, strict=True))) / (norm_of(one) or 1.0)


def factor_of(final: Vector, other: Vector) -> tuple[float, float]:
    """Return the factor between two vectors, and the relative error of the product; 1 and 0 if one of them is zero."""
    square = sum(one * one for one in other)
    if not square or not norm_of(final):
        return 1.0, 0.0
    factor = sum(a * b for a, b in zip(final, other, strict=True)) / square
    return factor, apart(final, scaled(other, factor))
