"""What each engine needs to connect, as it stands in a datasource's ``config`` (its secrets decrypted)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    model_validator,
)

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
# A name or an address of a host and nothing else: drivers write it into URLs.
Host = Annotated[str, Field(max_length=255, pattern=r"^[A-Za-z0-9_.:-]+$")]
Pem = Annotated[str, Field(max_length=100_000, pattern=r"^\s*-----BEGIN CERTIFICATE-----[^\x00]+$")]


def _exactly_one(**given: object) -> None:
    if sum(value is not None for value in given.values()) != 1:
        raise ValueError(f"give exactly one of {', '.join(given)}")


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


class RedshiftConfig(_Config):
    """Always with TLS: the driver brings the authorities of the vendor. ``db_schema`` is written ``schema``."""

    type: Literal["redshift"]
    host: Host
    port: Port = 5439
    database: Name
    db_schema: Name = Field(default="public", alias="schema")
    user: Name
    password: Secret
    sslmode: Literal["verify-ca", "verify-full"] = "verify-full"


class ServiceAccount(_Config):
    """A service account's key file as it is. Its addresses must be the vendor's: the driver sends its tokens there."""

    type: Literal["service_account"]
    project_id: Name
    private_key_id: Name
    private_key: Secret
    client_email: Name
    client_id: Name | None = None
    auth_uri: Literal["https://accounts.google.com/o/oauth2/auth"] = "https://accounts.google.com/o/oauth2/auth"
    token_uri: Literal["https://oauth2.googleapis.com/token"] = "https://oauth2.googleapis.com/token"  # noqa: S105
    auth_provider_x509_cert_url: Name | None = None
    client_x509_cert_url: Name | None = None
    universe_domain: Literal["googleapis.com"] = "googleapis.com"


class BigQueryConfig(_Config):
    """Queries run in ``project``, which pays for them; without ``dataset`` all of its datasets are read."""

    type: Literal["bigquery"]
    project: Annotated[str, Field(pattern=r"^[a-z0-9.:-]{1,100}$")]
    dataset: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,1024}$")] | None = None
    location: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,50}$")] | None = None
    maximum_bytes_billed: Annotated[int, Field(ge=10_485_760)] | None = None
    credentials: ServiceAccount


class SnowflakeConfig(_Config):
    """``account`` as in ``ACCOUNT.snowflakecomputing.com``. One of a password, a token (a programmatic access token),
    and a key (PEM, unencrypted or with its passphrase)."""

    type: Literal["snowflake"]
    account: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=200)]
    user: Name
    password: Secret | None = None
    token: Secret | None = None
    private_key: Secret | None = None
    private_key_passphrase: Secret | None = None
    role: Name | None = None
    warehouse: Name
    database: Name
    db_schema: Name | None = Field(default=None, alias="schema")

    @model_validator(mode="after")
    def _one_credential(self) -> Self:
        _exactly_one(password=self.password, token=self.token, private_key=self.private_key)
        if self.private_key_passphrase is not None and self.private_key is None:
            raise ValueError("private_key_passphrase belongs to a private_key")
        return self

    @property
    def host(self) -> str:
        """Underscores of an account are hyphens in its host."""
        return f"{self.account.lower().replace('_', '-')}.snowflakecomputing.com"


class DatabricksConfig(_Config):
    """``host`` is the workspace's, at the vendor's own domains; ``http_path`` names a SQL warehouse or a cluster."""

    type: Literal["databricks"]
    host: Annotated[
        str,
        Field(
            max_length=255,
            pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)*\.(databricks\.com|databricks\.us|databricks\.mil|azuredatabricks\.net"
            r"|databricks\.azure\.(us|cn))$",
        ),
    ]
    http_path: Annotated[str, Field(pattern=r"^/?[A-Za-z0-9_/.-]{1,255}$")]
    access_token: Secret
    catalog: Name
    db_schema: Name = Field(default="default", alias="schema")


class SparkConfig(_Config):
    """A server of Spark Connect. A token needs TLS, as the driver insists."""

    type: Literal["spark"]
    host: Host
    port: Port = 15002
    token: Secret | None = None
    tls: bool = True
    catalog: Name = "spark_catalog"
    db_schema: Name = Field(default="default", alias="schema")

    @model_validator(mode="after")
    def _token_over_tls(self) -> Self:
        if self.token is not None and not self.tls:
            raise ValueError("a token is sent with TLS only: leave tls out, or the token")
        return self


class TrinoConfig(_Config):
    """A password or a token (JWT) need TLS. ``ca_certificate`` is a PEM text, as PostgreSQL's."""

    type: Literal["trino"]
    host: Host
    port: Port | None = None
    user: Name
    password: Secret | None = None
    token: Secret | None = None
    tls: bool = True
    ca_certificate: Pem | None = None
    catalog: Name
    db_schema: Name | None = Field(default=None, alias="schema")

    @model_validator(mode="after")
    def _credentials_over_tls(self) -> Self:
        if self.password is not None and self.token is not None:
            raise ValueError("give a password or a token, not both")
        if not self.tls and (self.password or self.token or self.ca_certificate):
            raise ValueError("a password, a token and a ca_certificate are for TLS only")
        return self


type WarehouseConfig = (
    BigQueryConfig
    | DatabricksConfig
    | DuckDBConfig
    | PostgreSQLConfig
    | RedshiftConfig
    | SnowflakeConfig
    | SparkConfig
    | TrinoConfig
)

MODELS: Mapping[str, type[_Config]] = {
    "bigquery": BigQueryConfig,
    "databricks": DatabricksConfig,
    "duckdb": DuckDBConfig,
    "postgresql": PostgreSQLConfig,
    "redshift": RedshiftConfig,
    "snowflake": SnowflakeConfig,
    "spark": SparkConfig,
    "trino": TrinoConfig,
}
_ADAPTER: TypeAdapter[WarehouseConfig] = TypeAdapter(Annotated[WarehouseConfig, Field(discriminator="type")])


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
            elif _is_model(kind):
                yield from ((name, *path) for path in _secret_leaves(kind))


def _model_at(model: type[BaseModel], place: Sequence[str]) -> type[BaseModel]:
    for name in place:
        model = next(kind for kind in _kinds(model.model_fields[name].annotation) if _is_model(kind))
    return model


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


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
            model = _model_at(MODELS[str(kind)], place[:-1])
            known = [info.alias or name for name, info in model.model_fields.items()]
            near = difflib.get_close_matches(place[-1], known, n=1)
            owner = ".".join([str(kind), *place[:-1]])
            hint = f"did you mean {near[0]}?" if near else f"{owner} has {', '.join(known)}"
            return field, f"{field} is no field of {owner}; {hint}"
        case "value_error" if not place:
            return str(kind), str(details["ctx"]["error"])
    return field, f"{field}: {details['msg'][:1].lower()}{details['msg'][1:]}"
