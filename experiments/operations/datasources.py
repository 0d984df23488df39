"""Datasources: stored with encrypted secrets, and opened as the settings of this process allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from experiments.errors import DatasourceError, InvalidInput, NotFound
from experiments.models import Datasource, Organization
from experiments.secrets import SecretBox
from experiments.warehouse.addresses import Rules
from experiments.warehouse.config import WarehouseConfig, parse_config, secret_fields
from experiments.warehouse.opening import open_warehouse
from experiments.warehouse.session import Limits, Warehouse
from taskqueue.ids import new_id

_USUAL = Limits()


def create_datasource(organization_id: str, name: str, config: Mapping[str, Any]) -> str:
    """The new datasource's id. ``config`` is in plain text; what is stored has its secrets encrypted.

    An empty config is that of an organization without a warehouse. Raises ``InvalidInput``, ``NotFound``, and
    ``DatasourceError`` (``config_invalid``) naming what is wrong.
    """
    if not name.strip():
        raise InvalidInput("a datasource needs a name", field="name")
    if not Organization.objects.filter(pk=organization_id).exists():
        raise NotFound(f"there is no organization {organization_id!r}", field="organization_id")
    id = new_id("ds_")
    Datasource.objects.create(id=id, organization_id=organization_id, name=name, config=_sealed(config))
    return id


def set_config(datasource_id: str, config: Mapping[str, Any]) -> None:
    """Replace the config; secret fields that are left out keep their stored value when the engine stays the same.

    Raises as ``create_datasource`` does.
    """
    row = _row(datasource_id)
    changed = dict(config)
    if row.config and changed.get("type") == row.config.get("type"):
        kept = {name: row.config[name] for name in secret_fields(row.config) if name in row.config}
        changed = {**kept, **changed}
    Datasource.objects.filter(pk=row.pk).update(config=_sealed(changed, row=row.pk))


def config_of(datasource_id: str) -> WarehouseConfig:
    """Raises ``NotFound``, and ``DatasourceError``: ``no_warehouse``, ``secret_undecryptable``, ``config_invalid``."""
    row = _row(datasource_id)
    if not row.config:
        raise DatasourceError(
            f"the datasource {datasource_id} has no config: its organization has no warehouse",
            field="config",
            code="no_warehouse",
        )
    return parse_config(_box().decrypt(row.config, row=f"datasource {datasource_id}"))


def open_datasource(datasource_id: str, *, limits: Limits = _USUAL) -> Warehouse:
    """A new session. Raises as ``config_of`` and ``open_warehouse`` do."""
    return open_warehouse(config_of(datasource_id), rules=rules(), limits=limits)


def rules() -> Rules:
    """What the operator's settings allow datasources to reach."""
    configured: Mapping[str, Any] = settings.EXPERIMENTS
    return Rules(allowed_networks=configured["DATASOURCE_ALLOWED_NETWORKS"], duckdb_folder=configured["DUCKDB_FOLDER"])


@dataclass(frozen=True, kw_only=True)
class Rotated:
    """One datasource: ``changed`` secrets are now under the newest key, or ``problem`` says why not."""

    datasource_id: str
    changed: bool
    problem: str | None = None


def rotate_secrets(*, dry_run: bool = False) -> Iterator[Rotated]:
    """Bring all secrets under the newest key, those that were stored in plain text too.

    Each row is guarded by its old value: one that is changed meanwhile is reported and stays as it is.
    """
    box = _box()
    for row in Datasource.objects.order_by("id").iterator():
        try:
            renewed = box.rotate(row.config, secret_fields(row.config), row=f"datasource {row.pk}")
        except DatasourceError as error:
            yield Rotated(datasource_id=row.pk, changed=False, problem=str(error))
            continue
        if renewed == row.config:
            yield Rotated(datasource_id=row.pk, changed=False)
        elif dry_run or Datasource.objects.filter(pk=row.pk, config=row.config).update(config=renewed):
            yield Rotated(datasource_id=row.pk, changed=True)
        else:
            problem = f"datasource {row.pk} was changed meanwhile; rotate again"
            yield Rotated(datasource_id=row.pk, changed=False, problem=problem)


def _row(datasource_id: str) -> Datasource:
    row = Datasource.objects.filter(pk=datasource_id.replace("\0", "")).first()
    if row is None:
        raise NotFound(f"there is no datasource {datasource_id!r}", field="datasource_id")
    return row


def _sealed(config: Mapping[str, Any], *, row: str = "the new datasource") -> dict[str, Any]:
    if not config:
        return {}
    box = _box()
    parse_config(box.decrypt(config, row=row))
    return box.encrypt(config, secret_fields(config))


def _box() -> SecretBox:
    configured: Mapping[str, Any] = settings.EXPERIMENTS
    return SecretBox(configured["SECRET_KEYS"])
