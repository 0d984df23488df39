"""What each engine needs to connect, as it stands in a datasource's ``config`` (its secrets decrypted)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from experiments.errors import DatasourceError


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, str_strip_whitespace=False)


Name = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]


class DuckDBConfig(_Config):
    """``path`` is relative to the folder of DuckDB files."""

    type: Literal["duckdb"]
    path: Name


class PostgreSQLConfig(_Config):
    type: Literal["postgresql"]
    host: Name
    port: int = Field(default=5432, ge=1, le=65535)
    database: Name
    user: Name
    password: SecretStr | None = None
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] = "prefer"


type WarehouseConfig = DuckDBConfig | PostgreSQLConfig

_ADAPTER: TypeAdapter[WarehouseConfig] = TypeAdapter(
    Annotated[DuckDBConfig | PostgreSQLConfig, Field(discriminator="type")]
)
MODELS: Mapping[str, type[_Config]] = {"duckdb": DuckDBConfig, "postgresql": PostgreSQLConfig}


def parse_config(data: Mapping[str, Any]) -> WarehouseConfig:
    """Raises ``DatasourceError`` (``config_invalid``) that names every field that is wrong and never its value."""
    try:
        return _ADAPTER.validate_python(dict(data))
    except ValidationError as error:
        faults = [_fault(dict(data), details) for details in error.errors(include_url=False, include_input=False)]
        raise DatasourceError(
            "the datasource's config cannot be used: " + "; ".join(text for _, text in faults),
            field=faults[0][0],
            code="config_invalid",
        ) from None


def secret_leaves(data: Mapping[str, Any]) -> frozenset[tuple[str, ...]]:
    """The paths to the secrets of this config's engine; none for an engine that is not known."""
    model = MODELS.get(str(data.get("type")))
    return frozenset(_secret_leaves(model)) if model else frozenset()


def _secret_leaves(model: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if kind is SecretStr:
                yield (name,)
            elif isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from ((name, *path) for path in _secret_leaves(kind))


def _fault(data: Mapping[str, Any], details: Mapping[str, Any]) -> tuple[str, str]:
    kind = data.get("type")
    place = [str(part) for part in details["loc"] if part != kind]
    field = ".".join(place) or "type"
    match details["type"]:
        case "union_tag_not_found" | "union_tag_invalid":
            return "type", f"type must be one of {', '.join(sorted(MODELS))}"
        case "missing":
            return field, f"{field} is missing"
        case "extra_forbidden":
            known = list(MODELS[str(kind)].model_fields)
            near = difflib.get_close_matches(field, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"{kind} has {', '.join(known)}"
            return field, f"{field} is no field of {kind}; {hint}"
    return field, f"{field}: {details['msg'][:1].lower()}{details['msg'][1:]}"
