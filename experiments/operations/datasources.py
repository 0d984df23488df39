"""Datasources: stored with encrypted secrets, and opened as the settings of this process allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction

from experiments.errors import DatasourceError, InvalidInput, NotFound
from experiments.models import Datasource, Organization
from experiments.secrets import LeafPath, SecretBox
from experiments.warehouse.addresses import Rules
from experiments.warehouse.config import WarehouseConfig, parse_config, secret_leaves
from experiments.warehouse.opening import open_warehouse
from experiments.warehouse.session import Limits, Warehouse
from taskqueue.ids import new_id

_USUAL = Limits()
# Fields that say who gets to see a secret.
_DESTINATION = ("type", "host", "port", "account")


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
    """Replace the config. Secrets that are left out keep their stored value while they go to the same place: whoever
    may change a host, but not read a password, must not have it sent to a host of theirs.

    Raises as ``create_datasource`` does.
    """
    with transaction.atomic():
        # Locked: a secret that is kept would be written back as it was, under an old key, over a rotation's work.
        row = _row(datasource_id, locked=True)
        changed = _with_kept_secrets(config, row.config)
        Datasource.objects.filter(pk=row.pk).update(config=_sealed(changed, row=f"datasource {row.pk}"))


def config_of(datasource_id: str) -> WarehouseConfig:
    """Raises ``NotFound``, and ``DatasourceError``: ``no_warehouse``, ``secret_undecryptable``, ``config_invalid``."""
    row = _row(datasource_id)
    if not row.config:
        raise DatasourceError(
            f"the datasource {datasource_id} has no config: its organization has no warehouse",
            field="config",
            code="no_warehouse",
        )
    return parse_config(_box().decrypt(_mapping(row.config), row=f"datasource {datasource_id}"))


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
            config = _mapping(row.config)
            renewed = box.rotate(config, secret_leaves(config), row=f"datasource {row.pk}")
        except DatasourceError as error:
            problem = str(error) if row.pk in str(error) else f"datasource {row.pk}: {error}"
            yield Rotated(datasource_id=row.pk, changed=False, problem=problem)
            continue
        if renewed == row.config:
            yield Rotated(datasource_id=row.pk, changed=False)
        elif dry_run or Datasource.objects.filter(pk=row.pk, config=row.config).update(config=renewed):
            yield Rotated(datasource_id=row.pk, changed=True)
        else:
            problem = f"datasource {row.pk} was changed meanwhile; rotate again"
            yield Rotated(datasource_id=row.pk, changed=False, problem=problem)


def _row(datasource_id: str, *, locked: bool = False) -> Datasource:
    rows = Datasource.objects.select_for_update() if locked else Datasource.objects
    row = rows.filter(pk=datasource_id.replace("\0", "")).first()
    if row is None:
        raise NotFound(f"there is no datasource {datasource_id!r}", field="datasource_id")
    return row


def _mapping(config: Any) -> Mapping[str, Any]:
    """Plain SQL may have stored any JSON."""
    if isinstance(config, Mapping):
        return config
    raise DatasourceError("the datasource's config must be an object", field="config", code="config_invalid")


def _with_kept_secrets(changed: Mapping[str, Any], stored: Any) -> Mapping[str, Any]:
    if not isinstance(stored, Mapping) or any(changed.get(name) != stored.get(name) for name in _DESTINATION):
        return changed
    return _filled(changed, stored, secret_leaves(stored))


def _filled(changed: Mapping[str, Any], stored: Mapping[str, Any], leaves: Iterable[LeafPath]) -> Mapping[str, Any]:
    """``changed`` with those of the ``leaves`` of ``stored`` that it lacks."""
    filled = dict(changed)
    for name, *rest in leaves:
        inner = filled.get(name)
        if not rest and name in stored:
            filled.setdefault(name, stored[name])
        elif rest and isinstance(inner, Mapping) and isinstance(stored.get(name), Mapping):
            filled[name] = _filled(inner, stored[name], [tuple(rest)])
    return filled


def _sealed(config: Mapping[str, Any], *, row: str = "the new datasource") -> dict[str, Any]:
    if not config:
        return {}
    box = _box()
    parse_config(box.decrypt(config, row=row))
    return box.encrypt(config, secret_leaves(config))


def _box() -> SecretBox:
    configured: Mapping[str, Any] = settings.EXPERIMENTS
    return SecretBox(configured["SECRET_KEYS"])
