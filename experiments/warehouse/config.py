"""What each engine needs to connect, as it stands in a datasource's ``config`` (its secrets decrypted)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from experiments.errors import DatasourceError


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, str_strip_whitespace=False)


def _without_nul(secret: SecretStr) -> SecretStr:
    """Drivers written in C would end the text there."""
    if "\0" in secret.get_secret_value():
        raise ValueError("it contains a character with the code 0")
    return secret


Name = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Secret = Annotated[SecretStr, Field(min_length=1, max_length=20_000), AfterValidator(_without_nul)]
Pem = Annotated[str, Field(max_length=100_000, pattern=r"^\s*-----BEGIN CERTIFICATE-----[^\x00]+$")]


class DuckDBConfig(_Config):
    """``path`` is relative to the folder of DuckDB files."""

    type: Literal["duckdb"]
    path: Name


class PostgreSQLConfig(_Config):
    """``ca_certificate`` is a PEM text: who may sign the server's certificate, instead of the public authorities."""

    type: Literal["postgresql"]
    host: Name
    port: Port = 5432
    database: Name
    user: Name
    password: Secret | None = None
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] = "require"
    ca_certificate: Pem | None = None


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
        for kind in _kinds(field.annotation):
            if kind is SecretStr:
                yield (name,)
            elif isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from ((name, *path) for path in _secret_leaves(kind))


def _kinds(annotation: Any) -> Iterator[Any]:
    """The types inside unions and annotations, however deep."""
    yield annotation
    for part in get_args(annotation):
        yield from _kinds(part)


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
