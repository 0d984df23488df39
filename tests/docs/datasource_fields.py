"""The table of a datasource's fields for the page about warehouses, from the models that check them."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from experiments.warehouse.config import MODELS, secret_leaves


def table() -> str:
    """A Markdown table: a line per engine; secrets are in bold."""
    lines = ["| `type` | Has to have | May have |", "| --- | --- | --- |"]
    for engine, model in MODELS.items():
        needed, possible = (", ".join(_fields(engine, model, required=required)) for required in (True, False))
        lines.append(f"| `{engine}` | {needed} | {possible} |")
    return "\n".join(lines) + "\n"


def _fields(engine: str, model: type[BaseModel], *, required: bool) -> Iterator[str]:
    secrets = {path[0] for path in secret_leaves({"type": engine})}
    for name, field in model.model_fields.items():
        if name == "type" or field.is_required() is not required:
            continue
        shown = f"**`{field.alias or name}`**" if name in secrets else f"`{field.alias or name}`"
        yield shown + _default(field)


def _default(field: FieldInfo) -> str:
    if field.is_required() or field.default is None:
        return ""
    default = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f" ({default})"
