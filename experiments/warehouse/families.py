"""Types of columns, by the names that engines give them, sorted into families."""

from __future__ import annotations

import re

from experiments.warehouse.columns import Family

_NAMES = {
    Family.BOOLEAN: {"bool", "boolean"},
    Family.INTEGER: {
        "int", "int1", "int2", "int4", "int8", "int16", "int32", "int64", "int128", "integer", "smallint", "bigint",
        "tinyint", "byteint", "byte", "short", "long", "mediumint", "hugeint", "uhugeint", "utinyint", "usmallint",
        "uinteger", "uint8", "uint16", "uint32", "uint64", "uint128", "ubigint", "smallserial", "serial", "bigserial",
    },
    Family.DECIMAL: {"decimal", "numeric", "number", "dec", "fixed", "bignumeric", "bigdecimal"},
    Family.DOUBLE: {
        "double", "double precision", "float", "float4", "float8", "float64", "float32", "real",
    },
    Family.TEXT: {
        "text", "varchar", "character varying", "char", "character", "bpchar", "nchar", "nvarchar", "string", "name",
        "citext", "uri", "char varying",
    },
    Family.UUID: {"uuid", "uniqueidentifier"},
}  # fmt: skip
_BY_NAME = {name: family for family, names in _NAMES.items() for name in names}
_ARGUMENTS = re.compile(r"\s*\([^()]*\)", re.ASCII)


def family_of(native: str) -> Family:
    """``Family.OTHER`` for what is neither a number nor a text, arrays among them."""
    return _BY_NAME.get(_ARGUMENTS.sub("", native).strip().lower(), Family.OTHER)
