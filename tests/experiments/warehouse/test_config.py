"""A datasource's config: what is refused and how it is told, and that no secret is."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.errors import DatasourceError
from experiments.warehouse.config import PostgreSQLConfig, parse_config, secret_leaves

POSTGRESQL = {"type": "postgresql", "host": "h", "database": "d", "user": "u", "password": "hidden"}


def refusal(config: dict[str, Any]) -> DatasourceError:
    with pytest.raises(DatasourceError) as fault:
        parse_config(config)
    assert fault.value.code == "config_invalid"
    assert "hidden" not in str(fault.value)
    assert fault.value.__cause__ is None
    return fault.value


def test_what_is_left_out_has_defaults() -> None:
    config = parse_config(POSTGRESQL)
    assert isinstance(config, PostgreSQLConfig)
    assert (config.port, config.sslmode) == (5432, "require")


def test_a_secret_is_in_no_repr() -> None:
    config = parse_config(POSTGRESQL)
    assert "hidden" not in repr(config) + str(config) + config.model_dump_json()


def test_every_wrong_field_is_named_at_once() -> None:
    fault = refusal({**POSTGRESQL, "port": 0, "sslmode": "on", "host": "", "pasword": "hidden"})
    for field in ("port", "sslmode", "host", "pasword"):
        assert field in str(fault)
    assert "did you mean password?" in str(fault)


@pytest.mark.parametrize("type", [None, "postgres", "mysql", 5, [], {}])
def test_an_engine_that_is_not_known_is_told_with_those_that_are(type: object) -> None:
    fault = refusal({**POSTGRESQL, "type": type})
    assert fault.field == "type"
    assert "postgresql" in str(fault)
    assert "duckdb" in str(fault)


def test_a_missing_field_is_named() -> None:
    fault = refusal({"type": "postgresql", "host": "h", "user": "u"})
    assert fault.field == "database"
    assert "database is missing" in str(fault)


@pytest.mark.parametrize("field", ["host", "database", "user"])
@pytest.mark.parametrize("value", ["", "a\x00b", "a\nb", "\ud800", "x" * 300, 5, None])
def test_names_are_texts_of_one_line(field: str, value: object) -> None:
    assert refusal({**POSTGRESQL, field: value}).field == field


@pytest.mark.parametrize("password", ["", "hidden\x00b", 5, ["hidden"], "hidden" * 10_000])
def test_a_secret_that_no_driver_takes_is_refused_unseen(password: object) -> None:
    assert refusal({**POSTGRESQL, "password": password}).field == "password"


def test_the_secrets_of_each_engine_are_known() -> None:
    assert secret_leaves({"type": "postgresql"}) == {("password",)}
    assert secret_leaves({"type": "duckdb"}) == frozenset()
    assert secret_leaves({"type": "unknown"}) == secret_leaves({}) == frozenset()
