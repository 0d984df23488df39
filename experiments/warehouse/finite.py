"""Values not to be counted with: NaN and infinities, and finite ones whose squares leave the range of doubles."""

from sqlglot import exp

from experiments.warehouse.render import DOUBLE, number

_LARGEST_DOUBLE = "1.7976931348623157E308"

# Values beyond are "too large". PostgreSQL does not return infinity on overflow but fails, even inside its AVG, which
# squares n times the deviations; with 25,000 values of 1e140 that stays below 1e298.
TOO_LARGE = "1E140"
# Squares of smaller deviations would be 0, which PostgreSQL calls an underflow and fails.
NEGLIGIBLE = "1E-150"


def finite_double(value: exp.Expr) -> exp.Expr:
    """NaN fails in both ways that engines compare it: larger than everything, or unordered."""
    return exp.Between(this=value, low=number(f"-{_LARGEST_DOUBLE}", DOUBLE), high=number(_LARGEST_DOUBLE, DOUBLE))


def finite_numeric(value: exp.Expr) -> exp.Expr:
    """PostgreSQL's numeric knows NaN, larger than everything, and infinities since version 14."""
    numeric = exp.DataType.build("numeric", dialect="postgres")
    return exp.and_(value > number("-Infinity", numeric), value.copy() < number("Infinity", numeric))
