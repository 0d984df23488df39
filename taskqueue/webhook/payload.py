"""The payload of ``webhook.outbound``. Every fault names its field, and no fault quotes a value."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

from taskqueue.outbound.target import target_of
from taskqueue.webhook.headers import name_problem, set_problem, value_problem


def encode_body(body: Any) -> bytes | None:
    """The bytes of a body, for the signature and for the wire alike.

    A text is sent as it is, in UTF-8. Anything else is JSON without blanks, keys in the order of the payload, every
    character beyond ASCII as itself. None is no body.

    Raises ``ValueError`` for what is not JSON.
    """
    if body is None:
        return None
    if isinstance(body, str):
        return body.encode()
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _checked_url(url: str) -> str:
    try:
        target_of(url)
    except ValueError as error:
        raise PydanticCustomError("url", "{problem}", {"problem": str(error)}) from None
    return url


def _checked_name(name: str) -> str:
    return _without(name_problem(name), name)


def _checked_value(value: str) -> str:
    return _without(value_problem(value), value)


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    return _without(set_problem(headers), headers)


def _checked_body(body: Any) -> Any:
    try:
        encode_body(body)
    except ValueError:  # also text that is not Unicode
        raise PydanticCustomError("body", "is neither JSON nor a text that can be sent") from None
    return body


def _without[Value](problem: str | None, value: Value) -> Value:
    if problem is not None:
        raise PydanticCustomError("header", "{problem}", {"problem": problem})
    return value


def _upper(method: Any) -> Any:
    return method.upper() if isinstance(method, str) else method


def _no_headers(headers: Any) -> Any:
    return {} if headers is None else headers


type Method = Literal["POST", "GET", "PUT", "PATCH", "DELETE"]
type HeaderName = Annotated[str, AfterValidator(_checked_name)]
type HeaderValue = Annotated[str, AfterValidator(_checked_value)]


class OutboundPayload(BaseModel):
    """What is to be sent, and where to. The payload is the record: a webhook's row adds secrets, never the address."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: Annotated[str, AfterValidator(_checked_url)]
    method: Annotated[Method, BeforeValidator(_upper)] = "POST"
    headers: Annotated[
        dict[HeaderName, HeaderValue], BeforeValidator(_no_headers), AfterValidator(_checked_headers)
    ] = {}
    body: Annotated[Any, AfterValidator(_checked_body)] = None
    organization_id: str | None = None
    webhook_id: str | None = None
