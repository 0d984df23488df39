"""Configs of the engines that are extras: where a secret may go, and what could lead it elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.errors import DatasourceError
from experiments.warehouse.config import MODELS, BigQueryConfig, parse_config, secret_leaves

KEY_FILE = {
    "type": "service_account",
    "project_id": "acme",
    "private_key_id": "1",
    "private_key": "hidden",
    "client_email": "reader@acme.iam.gserviceaccount.com",
    "client_id": "2",
    "auth_uri": "https://accounts.google.com/o/oauth2/auth",
    "token_uri": "https://oauth2.googleapis.com/token",
    "auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
    "client_x509_cert_url": "https://www.googleapis.com/robot/v1/metadata/x509/reader",
    "universe_domain": "googleapis.com",
}
CONFIGS: dict[str, dict[str, Any]] = {
    "bigquery": {"type": "bigquery", "project": "acme", "dataset": "shop", "credentials": KEY_FILE},
    "databricks": {
        "type": "databricks",
        "host": "dbc-1.cloud.databricks.com",
        "http_path": "/sql/1.0/warehouses/1",
        "access_token": "hidden",
        "catalog": "acme",
        "schema": "shop",
    },
    "duckdb": {"type": "duckdb", "path": "shop.duckdb"},
    "postgresql": {"type": "postgresql", "host": "h", "database": "d", "user": "u", "password": "hidden"},
    "redshift": {"type": "redshift", "host": "h", "database": "d", "user": "u", "password": "hidden"},
    "snowflake": {
        "type": "snowflake",
        "account": "acme-shop",
        "user": "u",
        "password": "hidden",
        "warehouse": "w",
        "database": "d",
        "schema": "s",
    },
    "spark": {"type": "spark", "host": "h", "token": "hidden"},
    "trino": {"type": "trino", "host": "h", "user": "u", "password": "hidden", "catalog": "c", "schema": "s"},
}


def refused(engine: str, **changed: object) -> DatasourceError:
    with pytest.raises(DatasourceError) as fault:
        parse_config({**CONFIGS[engine], **changed})
    assert fault.value.code == "config_invalid"
    assert "hidden" not in str(fault.value)
    return fault.value


def test_every_engine_is_tried_here() -> None:
    assert set(CONFIGS) == set(MODELS)


@pytest.mark.parametrize("engine", CONFIGS)
def test_a_whole_config_is_accepted_and_its_secrets_are_in_no_repr(engine: str) -> None:
    config = parse_config(CONFIGS[engine])
    assert "hidden" not in repr(config) + str(config) + config.model_dump_json()


@pytest.mark.parametrize("engine", CONFIGS)
def test_every_text_that_is_hidden_is_known_as_a_secret(engine: str) -> None:
    def hidden(config: dict[str, Any], above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
        found: set[tuple[str, ...]] = set()
        for name, value in config.items():
            if isinstance(value, dict):
                found |= hidden(value, (*above, name))
            elif value == "hidden":
                found.add((*above, name))
        return found

    assert hidden(CONFIGS[engine]) <= secret_leaves(CONFIGS[engine])


@pytest.mark.parametrize("engine", ["redshift", "spark", "trino", "databricks"])
@pytest.mark.parametrize(
    "host", ["https://h", "h/path", "h;use_ssl=false", "u@h", "h h", "h?x", "h#x", "", "h\n", "[::1]", "h,10.0.0.1"]
)
def test_a_host_is_a_name_and_nothing_else(engine: str, host: str) -> None:
    assert refused(engine, host=host).field == "host"


@pytest.mark.parametrize("host", ["dbc.example.com", "databricks.com.example.com", "10.0.0.1", "localhost"])
def test_databricks_is_reached_at_its_own_domains_alone(host: str) -> None:
    assert refused("databricks", host=host).field == "host"


@pytest.mark.parametrize("account", ["acme.example.com/", "acme/x", "acme:443", "acme@x", "acme..x", ".acme", "a b"])
def test_an_account_of_snowflake_cannot_lead_elsewhere(account: str) -> None:
    assert refused("snowflake", account=account).field == "account"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("token_uri", "https://example.com/token"),
        ("token_uri", "http://169.254.169.254/token"),
        ("universe_domain", "example.com"),
        ("type", "external_account"),
        ("credential_source", {"url": "http://169.254.169.254/"}),
    ],
)
def test_a_key_file_sends_no_token_elsewhere(field: str, value: object) -> None:
    assert f"credentials.{field}" in str(refused("bigquery", credentials={**KEY_FILE, field: value}))


def test_a_field_of_a_key_file_is_told_with_the_nearest_one() -> None:
    fault = refused("bigquery", credentials={**KEY_FILE, "privatekey": "hidden"})
    assert "did you mean private_key?" in str(fault)


def test_a_key_file_is_given_as_it_is() -> None:
    config = parse_config(CONFIGS["bigquery"])
    assert isinstance(config, BigQueryConfig)
    assert config.credentials.private_key.get_secret_value() == "hidden"


@pytest.mark.parametrize(
    ("engine", "changed"),
    [
        ("spark", {"tls": False}),
        ("trino", {"tls": False}),
        ("trino", {"tls": False, "password": None, "token": "hidden"}),
        ("trino", {"token": "hidden"}),
        ("snowflake", {"private_key": "hidden"}),
        ("snowflake", {"password": None}),
        ("redshift", {"sslmode": "disable"}),
        ("redshift", {"password": None}),
        ("databricks", {"access_token": None}),
    ],
)
def test_a_secret_goes_over_tls_and_there_is_one_of_it(engine: str, changed: dict[str, object]) -> None:
    refused(engine, **changed)


@pytest.mark.parametrize("engine", ["spark", "trino"])
def test_without_a_secret_there_may_be_no_tls(engine: str) -> None:
    open_one = {name: value for name, value in CONFIGS[engine].items() if value != "hidden"}
    assert parse_config({**open_one, "tls": False}).type == engine


@pytest.mark.parametrize("engine", ["databricks", "redshift", "snowflake", "trino"])
def test_a_schema_is_written_as_such(engine: str) -> None:
    parse_config({**CONFIGS[engine], "schema": "any Name"})
    assert "did you mean schema?" in str(refused(engine, shema="x"))
    refused(engine, db_schema="x")
