"""Datasources as they are stored, opened and rotated: secrets encrypted, whoever wrote them and however."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from experiments.errors import DatasourceError, InvalidInput, NotFound
from experiments.models import Datasource
from experiments.operations.datasources import (
    config_of,
    create_datasource,
    open_datasource,
    rotate_secrets,
    set_config,
)
from experiments.warehouse.config import PostgreSQLConfig
from tests.support.experiments import make_datasource, make_organization

pytestmark = pytest.mark.django_db

OLD, NEW = "old-" * 9, "new-" * 9
CONFIG = {"type": "postgresql", "host": "db.example.com", "database": "d", "user": "u", "password": "hidden"}


@pytest.fixture(autouse=True)
def configured(settings: Settings, tmp_path: Path) -> Iterator[None]:
    _configure(settings, SECRET_KEYS=(OLD,), DUCKDB_FOLDER=tmp_path, DATASOURCE_ALLOWED_NETWORKS=())
    yield


def _configure(settings: Settings, **changed: Any) -> None:
    settings.EXPERIMENTS = {**settings.EXPERIMENTS, **changed}


def _stored(id: str) -> Any:
    return Datasource.objects.values_list("config", flat=True).get(pk=id)


def _password(id: str) -> str | None:
    config = config_of(id)
    assert isinstance(config, PostgreSQLConfig)
    return config.password.get_secret_value() if config.password else None


def test_a_new_datasource_has_its_secret_encrypted_and_can_be_used() -> None:
    id = create_datasource(make_organization().pk, "warehouse", CONFIG)
    assert id.startswith("ds_")
    assert "hidden" not in str(_stored(id))
    assert _stored(id)["host"] == "db.example.com"
    assert _password(id) == "hidden"
    assert "hidden" not in repr(config_of(id))


def test_a_config_without_sense_is_refused_and_nothing_is_stored() -> None:
    organization = make_organization().pk
    with pytest.raises(DatasourceError, match="did you mean password") as fault:
        create_datasource(organization, "warehouse", {**CONFIG, "pasword": "secret"})
    assert (fault.value.code, fault.value.field) == ("config_invalid", "pasword")
    assert "secret" not in str(fault.value)
    with pytest.raises(InvalidInput):
        create_datasource(organization, " ", CONFIG)
    with pytest.raises(NotFound):
        create_datasource("org_absent", "warehouse", CONFIG)
    assert not Datasource.objects.exists()


def test_a_secret_that_is_left_out_is_kept() -> None:
    id = create_datasource(make_organization().pk, "warehouse", CONFIG)
    set_config(id, {name: value for name, value in CONFIG.items() if name != "password"} | {"user": "other"})
    assert _password(id) == "hidden"
    set_config(id, {**CONFIG, "password": None})
    assert _password(id) is None


@pytest.mark.parametrize("moved", [{"host": "attacker.example.com"}, {"port": 1}])
def test_a_kept_secret_goes_to_no_other_place(moved: dict[str, Any]) -> None:
    id = create_datasource(make_organization().pk, "warehouse", CONFIG)
    set_config(id, {name: value for name, value in CONFIG.items() if name != "password"} | moved)
    assert _password(id) is None


def test_a_datasource_is_opened_as_the_settings_allow(settings: Settings, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "w.duckdb")) as made:
        made.execute("CREATE TABLE t (id INTEGER)")
    id = create_datasource(make_organization().pk, "warehouse", {"type": "duckdb", "path": "w.duckdb"})
    with open_datasource(id) as warehouse:
        assert warehouse.tables() == ("t",)
    _configure(settings, DUCKDB_FOLDER=None)
    with pytest.raises(DatasourceError, match="XNGIN_DUCKDB_FOLDER"):
        open_datasource(id)


def test_a_private_host_is_refused_unless_the_operator_allows_it() -> None:
    id = create_datasource(make_organization().pk, "warehouse", {**CONFIG, "host": "10.1.2.3"})
    with pytest.raises(DatasourceError, match="XNGIN_DATASOURCE_ALLOWED_NETWORKS") as fault:
        open_datasource(id)
    assert fault.value.code == "address_refused"


def test_what_cannot_be_opened_says_why() -> None:
    with pytest.raises(NotFound):
        open_datasource("ds_\0absent")
    with pytest.raises(DatasourceError, match="has no warehouse") as fault:
        open_datasource(make_datasource().pk)
    assert fault.value.code == "no_warehouse"
    with pytest.raises(DatasourceError, match="must be an object"):
        open_datasource(make_datasource(config=["a list"]).pk)


def test_a_secret_in_plain_text_works_and_is_encrypted_by_the_next_rotation() -> None:
    row = make_datasource(config=CONFIG)
    assert _password(row.pk) == "hidden"
    (rotated,) = rotate_secrets()
    assert rotated.changed
    assert "hidden" not in str(_stored(row.pk))
    assert _password(row.pk) == "hidden"


def test_after_a_rotation_the_old_key_can_go(settings: Settings) -> None:
    id = create_datasource(make_organization().pk, "warehouse", CONFIG)
    _configure(settings, SECRET_KEYS=(NEW,))
    with pytest.raises(DatasourceError, match=rf"datasource {id}.*'password'.*XNGIN_SECRET_KEYS") as fault:
        config_of(id)
    assert fault.value.code == "secret_undecryptable"
    (failed,) = rotate_secrets()
    assert not failed.changed
    assert id in str(failed.problem)

    _configure(settings, SECRET_KEYS=(NEW, OLD))
    assert [rotated.changed for rotated in rotate_secrets()] == [True]
    assert [rotated.changed for rotated in rotate_secrets()] == [False]
    _configure(settings, SECRET_KEYS=(NEW,))
    assert _password(id) == "hidden"


def test_a_dry_run_changes_nothing() -> None:
    row = make_datasource(config=CONFIG)
    assert [rotated.changed for rotated in rotate_secrets(dry_run=True)] == [True]
    assert _stored(row.pk) == CONFIG


def test_one_row_that_fails_keeps_no_other_from_being_rotated() -> None:
    make_datasource(pk="ds_1", config={**CONFIG, "password": {"encrypted": "nonsense"}})
    make_datasource(pk="ds_2", config="text")
    make_datasource(pk="ds_3", config=CONFIG)
    make_datasource(pk="ds_4")
    rotated = {one.datasource_id: one for one in rotate_secrets()}
    assert {id: one.changed for id, one in rotated.items()} == {
        "ds_1": False,
        "ds_2": False,
        "ds_3": True,
        "ds_4": False,
    }
    assert "ds_1" in str(rotated["ds_1"].problem)
    assert "ds_2" in str(rotated["ds_2"].problem)
    assert rotated["ds_4"].problem is None


def test_a_row_that_is_changed_meanwhile_keeps_what_it_was_changed_to() -> None:
    make_datasource(pk="ds_1", config=CONFIG)
    make_datasource(pk="ds_2", config=CONFIG)
    rotating = rotate_secrets()
    assert next(rotating).changed
    with connection.cursor() as cursor:
        cursor.execute("""UPDATE datasources SET config = '{"type": "duckdb", "path": "new"}' WHERE id = 'ds_2'""")
    (second,) = rotating
    assert not second.changed
    assert "changed meanwhile" in str(second.problem)
    assert _stored("ds_2") == {"type": "duckdb", "path": "new"}
