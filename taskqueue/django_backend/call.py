"""The payload of one of Django's tasks: the arguments of its function, and nothing that could name another one."""

from typing import Any

import pydantic
from pydantic.dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, config=pydantic.ConfigDict(extra="forbid"))
class Call:
    args: list[Any]
    kwargs: dict[str, Any]


CALL: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Call)
