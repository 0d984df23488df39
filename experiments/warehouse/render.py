"""Small pieces of syntax trees that every query uses, and the one way from a tree to the text of a dialect."""

from sqlglot import exp

from experiments.warehouse.columns import Table
from experiments.warehouse.dialects import Dialect

DOUBLE = exp.DataType.build("double")
TEXT = exp.DataType.build("text")


def column(source: str, name: str) -> exp.Column:
    """A column of a table or of an earlier step, both names quoted: names are data and may be any text."""
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(source, quoted=True))


def named(expression: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=True))


def step(name: str) -> exp.Table:
    """An earlier step of the same query (a common table expression)."""
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def customer_table(table: Table, alias: str) -> exp.Alias | exp.Table:
    """The customer's table, each part of its path quoted on its own."""
    parts = [exp.to_identifier(part, quoted=True) for part in table.path]
    names = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
    return exp.Table(**names, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def cast(expression: exp.Expr, kind: exp.DataType) -> exp.Cast:
    return exp.Cast(this=expression.copy(), to=kind.copy())


def number(text: str, kind: exp.DataType) -> exp.Cast:
    """A constant of a certain type: the types of bare literals differ from engine to engine."""
    return cast(exp.Literal.string(text), kind)


def count_if(condition: exp.Expr) -> exp.Count:
    """How many rows hold; COUNT is an integer everywhere, while SUM of integers is a decimal in some engines."""
    return exp.Count(this=exp.Case().when(condition, exp.Literal.number(1)), big_int=True)


def count_rows() -> exp.Count:
    return exp.Count(this=exp.Star(), big_int=True)


def with_steps(final: exp.Select, steps: list[tuple[str, exp.Query]]) -> exp.Select:
    """``final`` over named steps, in their order."""
    for name, query in steps:
        final = final.with_(exp.to_identifier(name, quoted=True), as_=query, copy=False)
    return final


def text_of(tree: exp.Expr, dialect: Dialect) -> str:
    return tree.sql(dialect=dialect.value, pretty=True)
