"""The task types of this app: importing this module registers their handlers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from experiments.jobs.sessions import prune_sessions
from experiments.models.datasource_triggers import PRUNE_TASK
from taskqueue.handlers import handler


class PruneWarehouseClients(BaseModel):
    """Whose config changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    datasource_id: str


@handler(PRUNE_TASK, payload=PruneWarehouseClients, timeout=30.0)
def prune_warehouse_clients(payload: PruneWarehouseClients) -> dict[str, int]:
    """Close this process's idle sessions of an older config. Other processes see the change within seconds."""
    return {"closed": prune_sessions(payload.datasource_id)}
