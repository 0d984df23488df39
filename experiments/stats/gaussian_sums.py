"""All that a Gaussian posterior needs of an arm's outcomes: exact sums, which no order or batching can change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from experiments.stats.exact import Exact, Matrix, Row, exact


@dataclass(frozen=True, kw_only=True)
class GaussianSums:
    """``n`` outcomes y with vectors x: sums of x xᵀ, of x y and of y². Without contexts x is (1,)."""

    n: int
    xx: Matrix
    xy: Row
    yy: Fraction

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError(f"n must not be negative: {self.n}")
        if not self.xy or len(self.xx) != len(self.xy) or any(len(row) != len(self.xy) for row in self.xx):
            raise ValueError(f"xx must have {len(self.xy)} rows and columns, as many as xy has entries, at least one")

    @classmethod
    def empty(cls, dimensions: int = 1) -> GaussianSums:
        zero = (Fraction(0),) * dimensions
        return cls(n=0, xx=(zero,) * dimensions, xy=zero, yy=Fraction(0))

    @classmethod
    def of(cls, rows: Iterable[tuple[Sequence[Exact], Exact]], *, dimensions: int = 1) -> GaussianSums:
        """Of (x, y) in memory; a y without contexts comes with x = (1,)."""
        total = cls.empty(dimensions)
        n, yy, xy = 0, Fraction(0), list(total.xy)
        xx = [list(row) for row in total.xx]
        for x, y in rows:
            outcome, vector = exact(y), [exact(value) for value in x]
            if len(vector) != dimensions:
                raise ValueError(f"x must have {dimensions} entries, not {len(vector)}")
            n += 1
            yy += outcome * outcome
            for i, a in enumerate(vector):
                xy[i] += a * outcome
                for j, b in enumerate(vector):
                    xx[i][j] += a * b
        return cls(n=n, xx=tuple(tuple(row) for row in xx), xy=tuple(xy), yy=yy)

    @classmethod
    def without_contexts(cls, *, n: int, sum_y: Exact, sum_yy: Exact) -> GaussianSums:
        return cls(n=n, xx=((Fraction(n),),), xy=(exact(sum_y),), yy=exact(sum_yy))

    @classmethod
    def with_contexts(cls, *, n: int, sum_xx: Sequence[Exact], sum_xy: Sequence[Exact], sum_yy: Exact) -> GaussianSums:
        """``sum_xx`` is the upper triangle of the sum of x xᵀ, row by row."""
        size = len(sum_xy)
        if len(sum_xx) != size * (size + 1) // 2:
            raise ValueError(
                f"sum_xx must have {size * (size + 1) // 2} entries for {size} coefficients, not {len(sum_xx)}"
            )
        entries = iter(sum_xx)
        upper = {(i, j): exact(next(entries)) for i in range(size) for j in range(i, size)}
        xx = tuple(tuple(upper[min(i, j), max(i, j)] for j in range(size)) for i in range(size))
        return cls(n=n, xx=xx, xy=tuple(exact(value) for value in sum_xy), yy=exact(sum_yy))

    @property
    def dimensions(self) -> int:
        return len(self.xy)

    def merge(self, other: GaussianSums) -> GaussianSums:
        """Both samples together."""
        return GaussianSums(
            n=self.n + other.n,
            xx=tuple(
                tuple(a + b for a, b in zip(mine, theirs, strict=True))
                for mine, theirs in zip(self.xx, other.xx, strict=True)
            ),
            xy=tuple(a + b for a, b in zip(self.xy, other.xy, strict=True)),
            yy=self.yy + other.yy,
        )

    def residual(self) -> tuple[Fraction, int]:
        """Sum of squared residuals of the least squares fit of y on x, and the rank of the sum of x xᵀ.

        Exact: elimination of a positive semidefinite matrix, whose rows are zero where its diagonal is. So collinear
        contexts and equal outcomes are seen as such, also far from zero.
        """
        size = self.dimensions
        rows = [[*row, self.xy[i]] for i, row in enumerate(self.xx)]
        rows.append([*self.xy, self.yy])
        rank = 0
        for pivot in range(size):
            head = rows[pivot][pivot]
            if head == 0:
                continue
            rank += 1
            for other in range(pivot + 1, size + 1):
                factor = rows[other][pivot] / head
                if factor:
                    rows[other] = [a - factor * b for a, b in zip(rows[other], rows[pivot], strict=True)]
        return rows[size][size], rank
