"""Types of columns are sorted by the engines' own names, and what is no number nor text is told apart."""

from __future__ import annotations

import pytest

from experiments.warehouse.columns import Family
from experiments.warehouse.families import family_of


@pytest.mark.parametrize(
    ("native", "family"),
    [
        ("BOOLEAN", Family.BOOLEAN),
        ("bigint", Family.INTEGER),
        ("INT64", Family.INTEGER),
        ("UHUGEINT", Family.INTEGER),
        ("numeric(10,2)", Family.DECIMAL),
        ("DECIMAL (38, 0)", Family.DECIMAL),
        (" NUMBER(38,0) ", Family.DECIMAL),
        ("BIGNUMERIC", Family.DECIMAL),
        ("double precision", Family.DOUBLE),
        ("real", Family.DOUBLE),
        ("FLOAT64", Family.DOUBLE),
        ("character varying(255)", Family.TEXT),
        ("VARCHAR", Family.TEXT),
        ("STRING", Family.TEXT),
        ("uuid", Family.UUID),
    ],
)
def test_a_type_is_known_by_its_name(native: str, family: Family) -> None:
    assert family_of(native) is family


@pytest.mark.parametrize(
    "native",
    [
        "integer[]",
        "numeric(10,2)[]",
        "DECIMAL(10,2)[3]",
        "STRUCT(a INTEGER)",
        "STRUCT(a DECIMAL(10,2), b VARCHAR)",
        "MAP(VARCHAR, INTEGER)",
        "ARRAY<INT64>",
        "array(integer)",
        "interval",
        "timestamp without time zone",
        "timestamp(3)",
        "date",
        "json",
        "bytea",
        "BIT",
        "money",
        "ENUM('a', 'b')",
        "sales.integer",
        '"integer"',
        "",
    ],
)
def test_what_is_neither_number_nor_text_is_other(native: str) -> None:
    assert family_of(native) is Family.OTHER
