"""Names of tables and columns as people write them: exact, else in any case, else an error with what exists."""

from __future__ import annotations

import pytest

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.names import Relation, find_column, find_relation


def relations(*names: str) -> list[Relation]:
    """``name`` in the search path, ``schema.name`` outside of it, ``!schema.name`` in it."""
    return [
        Relation(path=tuple(name.lstrip("!").split(".")), by_itself=name.startswith("!") or "." not in name)
        for name in names
    ]


def table(*columns: str) -> Table:
    return Table(
        path=("s", "orders"), columns=tuple(Column(name=name, family=Family.TEXT, native="text") for name in columns)
    )


@pytest.mark.parametrize(
    ("existing", "name", "found"),
    [
        (["!a.orders", "!a.Orders"], "Orders", ("a", "Orders")),
        (["!a.Orders"], "ORDERS", ("a", "Orders")),
        (["!a.orders", "b.orders"], "orders", ("a", "orders")),
        (["!a.orders", "b.orders"], "b.orders", ("b", "orders")),
        (["!a.orders", "b.orders"], "B.ORDERS", ("b", "orders")),
        (["b.orders"], "orders", ("b", "orders")),
        (["!c.a.orders"], "c.a.orders", ("c", "a", "orders")),
        (["!a.two words"], "two words", ("a", "two words")),
        (["!a.orders"], '"a"."orders"', ("a", "orders")),
        (["!a.orders"], "`a`.`orders`", ("a", "orders")),
        (["!a.straße"], "STRASSE", ("a", "straße")),
    ],
)
def test_the_one_table_that_is_meant_is_found(existing: list[str], name: str, found: tuple[str, ...]) -> None:
    assert find_relation(relations(*existing), name).path == found


def test_a_name_with_dots_and_quotation_marks_is_found_as_it_is_and_quoted() -> None:
    odd = Relation(path=("s", 'a."b`c'))
    assert find_relation([odd], 'a."b`c') == odd
    assert find_relation([odd], 's."a.""b`c"') == odd
    assert find_relation([odd], '`s`.`a."b``c`') == odd


@pytest.mark.parametrize(
    ("existing", "name"),
    [
        (["!a.orders", "!a.Orders"], "ORDERS"),
        (["b.orders", "c.orders"], "orders"),
    ],
)
def test_an_ambiguous_table_is_told_with_the_candidates(existing: list[str], name: str) -> None:
    with pytest.raises(DatasourceError) as fault:
        find_relation(relations(*existing), name)
    assert fault.value.code == "ambiguous_name"
    for one in existing:
        assert one.lstrip("!") in str(fault.value)


def test_a_missing_table_is_told_with_what_exists_the_nearest_first() -> None:
    with pytest.raises(DatasourceError) as fault:
        find_relation(relations("alpha", "orders", "s.zeta"), "ordres")
    assert fault.value.code == "table_missing"
    assert "'orders', 'alpha', 's.zeta'" in str(fault.value)


def test_without_any_table_rights_are_to_be_thought_of() -> None:
    with pytest.raises(DatasourceError, match="no table at all that it may see"):
        find_relation([], "orders")


@pytest.mark.parametrize("path", [("a", "b.c"), ("a.b", "c"), ("x", 'q"u"'), ("x", "t`k"), ("a", "two w")])
def test_every_name_that_is_listed_finds_its_table(path: tuple[str, ...]) -> None:
    others = [Relation(path=("a", "b", "c"), by_itself=False), Relation(path=("b", "c"), by_itself=False)]
    relation = Relation(path=path, by_itself=False)
    assert find_relation([*others, relation], relation.name) is relation


def test_a_thousand_tables_are_not_all_told() -> None:
    with pytest.raises(DatasourceError, match="and 980 more") as fault:
        find_relation(relations(*(f"t{number}" for number in range(1000))), "orders")
    assert len(str(fault.value)) < 1000


def test_a_column_is_found_exactly_or_in_another_case() -> None:
    assert find_column(table("Id", "id"), "Id").name == "Id"
    assert find_column(table("Id", "name"), "ID").name == "Id"
    assert find_column(table("a.b"), "a.b").name == "a.b"


def test_an_ambiguous_column_is_told_with_the_candidates() -> None:
    with pytest.raises(DatasourceError, match="'Id', 'iD'") as fault:
        find_column(table("Id", "iD"), "ID")
    assert (fault.value.code, fault.value.field) == ("ambiguous_name", "ID")


def test_a_missing_column_is_told_with_what_exists() -> None:
    with pytest.raises(DatasourceError, match=r"'revenues', 'id'") as fault:
        find_column(table("id", "revenues"), "revenue")
    assert (fault.value.code, fault.value.field) == ("column_missing", "revenue")
    assert "that this datasource may read" in str(fault.value)
