"""Numbers without rounding: what a double stands for, and small linear systems solved in rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

type Exact = int | float | Decimal | Fraction
type Row = tuple[Fraction, ...]
type Matrix = tuple[Row, ...]


def exact(value: Exact) -> Fraction:
    """A double counts as the shortest decimal that reads back as it, which is what its text in PostgreSQL says too.

    Raises ``ValueError`` for NaN and infinity.
    """
    # Sums of squares may lie beyond the range of doubles, so only what can be NaN or infinite is asked.
    finite = math.isfinite(value) if isinstance(value, float) else not isinstance(value, Decimal) or value.is_finite()
    if not finite:
        raise ValueError(f"{value} cannot be added up: leave NaN and infinity out")
    return Fraction(repr(float(value))) if isinstance(value, float) else Fraction(value)


def square_root(value: Fraction) -> float:
    """To the precision of doubles, also where ``value`` itself lies beyond their range. Raises ``OverflowError`` where
    the root does too."""
    if value == 0:
        return 0.0
    half = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    scale = Fraction(4) ** half
    return math.ldexp(math.sqrt(float(value / scale)), half)


def inverse(matrix: Sequence[Sequence[Fraction]]) -> Matrix:
    """Of a positive definite matrix, by elimination without pivoting: exact, so nothing is lost to bad conditioning.

    The cost grows with the cube of the size, and with the digits: 1 ms for 5 coefficients, 0.3 s for 20.
    Raises ``ZeroDivisionError`` for a singular matrix.
    """
    size = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(size))] for i, row in enumerate(matrix)]
    for pivot in range(size):
        inverted = 1 / rows[pivot][pivot]
        rows[pivot] = [value * inverted for value in rows[pivot]]
        for other in range(size):
            factor = rows[other][pivot]
            if other != pivot and factor:
                rows[other] = [a - factor * b if b else a for a, b in zip(rows[other], rows[pivot], strict=True)]
    return tuple(tuple(row[size:]) for row in rows)


def product(matrix: Matrix, vector: Sequence[Fraction]) -> Row:
    return tuple(sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix)
