"""``reconciliation.dry_run``: a reconciliation as a task. It reads, and writes its report; it repairs nothing."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from taskqueue.handlers import TaskContext, handler
from taskqueue.reconciliation.reports import reconcile
from taskqueue.retry import RetryPolicy

TASK_TYPE = "reconciliation.dry_run"
_LONGEST_SECONDS = 4 * 3600.0


class DryRun(BaseModel):
    """``rules`` are names of rules; all of them without."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: list[str] | None = None


# One more try, since a replica of the schema or a lock may have been in the way; a third would read it all again.
@handler(TASK_TYPE, payload=DryRun | None, timeout=_LONGEST_SECONDS, retry=RetryPolicy(max_retries=1))
def dry_run(payload: DryRun | None, context: TaskContext) -> dict[str, Any]:
    rules = None if payload is None else payload.rules
    report = reconcile(actor=f"task {context.id}", rules=rules, stopping=lambda: context.cancelled)
    return {"report": report.id, "findings": report.findings_count}
