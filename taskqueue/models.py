"""Tables of the queue. Constraints, partial indexes and triggers are built from ``lifecycle``.

Other programs write these tables with plain SQL, so table names are set and every default is the database's own.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Q

from taskqueue import lifecycle, triggers
from taskqueue.ids import DatabaseNow, NewCorrelationId, NewId
from taskqueue.lifecycle import Status

_FIRST_INSTANT = datetime(1, 1, 2, tzinfo=UTC)
_LAST_INSTANT = datetime(9999, 12, 31, tzinfo=UTC)

if TYPE_CHECKING:
    _TextField = models.TextField[str, str]
else:
    _TextField = models.TextField


class IdField(_TextField):
    """A text key in C collation: bytes compare faster, and searches by prefix use the primary key's own index."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        # The name in capitals is the same type, and keeps Django from adding a second index for LIKE.
        return "TEXT"

    @classmethod
    def with_prefix(cls, prefix: str) -> "IdField":
        return cls(primary_key=True, db_default=NewId(prefix), db_collation="C")


class Task(models.Model):
    """One piece of work. Moves only as ``lifecycle.MOVES`` says."""

    id = IdField.with_prefix("task_")
    task_type = models.TextField(db_collation="C")
    payload = models.JSONField(null=True, blank=True)
    status = models.TextField(db_default=Status.PENDING.value, db_collation="C")
    embargo_until = models.DateTimeField(db_default=DatabaseNow())
    retry_count = models.IntegerField(db_default=0)
    message = models.TextField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=DatabaseNow())
    updated_at = models.DateTimeField(db_default=DatabaseNow())
    queue = models.TextField(db_default="default", db_collation="C")
    priority = models.SmallIntegerField(db_default=0)
    max_retries = models.IntegerField(null=True, blank=True)
    dedupe_key = models.TextField(null=True, blank=True, db_collation="C")
    correlation_id = models.TextField(db_default=NewCorrelationId(), db_collation="C")
    attempt = models.IntegerField(db_default=0)
    lost_count = models.IntegerField(db_default=0)
    lease_until = models.DateTimeField(null=True, blank=True)
    worker_id = models.TextField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    error_code = models.TextField(null=True, blank=True)
    result = models.JSONField(null=True, blank=True)
    origin = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="copies",
    )

    class Meta:
        db_table = "tasks"
        constraints = [
            models.CheckConstraint(
                name="tasks_status_declared", condition=Q(status__in=sorted(s.value for s in Status))
            ),
            models.CheckConstraint(
                name="tasks_finished_at_in_final_states",
                condition=Q(status__in=sorted(s.value for s in lifecycle.FINAL), finished_at__isnull=False)
                | Q(~Q(status__in=sorted(s.value for s in lifecycle.FINAL)), finished_at__isnull=True),
            ),
            models.CheckConstraint(
                name="tasks_lease_while_running",
                condition=Q(status=Status.RUNNING.value, lease_until__isnull=False, worker_id__isnull=False)
                | Q(~Q(status=Status.RUNNING.value), lease_until__isnull=True, worker_id__isnull=True),
            ),
            models.CheckConstraint(
                name="tasks_counts_not_negative",
                condition=Q(retry_count__gte=0, attempt__gte=0, lost_count__gte=0)
                & (Q(max_retries__isnull=True) | Q(max_retries__gte=0)),
            ),
            # Python cannot read years past 9999 nor 'infinity'; such a row would break every page and claim it is on.
            models.CheckConstraint(
                name="tasks_instants_in_calendar",
                condition=Q(embargo_until__gte=_FIRST_INSTANT, embargo_until__lt=_LAST_INSTANT)
                & Q(created_at__gte=_FIRST_INSTANT, created_at__lt=_LAST_INSTANT),
            ),
            models.UniqueConstraint(
                name="tasks_one_pending_per_dedupe_key",
                fields=["dedupe_key"],
                condition=Q(status=Status.PENDING.value, dedupe_key__isnull=False),
            ),
        ]
        indexes = [
            # sql/claim.sql walks this: one probe for each type, queue and priority, then due rows in order.
            models.Index(
                name="tasks_claim",
                fields=["task_type", "queue", "priority", "embargo_until"],
                condition=Q(status=Status.PENDING.value),
            ),
            # Pages that list pending tasks. Apart from the next index, so that no plan made while the table is small
            # reads all pending rows by their status.
            models.Index(name="tasks_pending", fields=["id"], condition=Q(status=Status.PENDING.value)),
            # Lists of one state, and the running rows that sql/reclaim.sql looks through. Finished successes are the
            # bulk of the table and stay out. No lease column here or in any other index: renewals stay HOT.
            models.Index(
                name="tasks_unfinished",
                fields=["status", "id"],
                condition=Q(status__in=["dead", "dead_lettered", "running"]),
            ),
            models.Index(name="tasks_correlation", fields=["correlation_id"]),
        ]
        triggers = triggers.TASK_TRIGGERS
        default_permissions = ("add", "view", "delete")
        permissions = [
            ("retry_task", "Can retry dead tasks"),
            ("run_now_task", "Can lift the embargo of pending tasks"),
            ("dead_letter_task", "Can set tasks aside for good"),
            ("resubmit_task", "Can enqueue a finished task again as a new one"),
        ]

    def __str__(self) -> str:
        return self.id


class Outcome(models.TextChoices):
    FAILED = "failed"
    SNOOZED = "snoozed"
    RELEASED = "released"
    LOST = "lost"
    TIMEOUT = "timeout"
    DISCARDED = "discarded"


class TaskAttempt(models.Model):
    """An attempt that did not succeed."""

    id = models.BigAutoField(primary_key=True)
    task = models.ForeignKey(Task, on_delete=models.DB_CASCADE, db_index=False, related_name="attempts")
    attempt = models.IntegerField()
    worker_id = models.TextField()
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(db_default=DatabaseNow())
    outcome = models.TextField(choices=Outcome)
    error_code = models.TextField(null=True, blank=True)
    # Where the exception's class can be imported from.
    error_class = models.TextField(null=True, blank=True)
    message = models.TextField(null=True, blank=True)
    traceback = models.TextField(null=True, blank=True)
    next_try_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "task_attempts"
        constraints = [
            models.UniqueConstraint(name="task_attempts_one_per_attempt", fields=["task", "attempt"]),
            models.CheckConstraint(
                name="task_attempts_outcome_declared", condition=Q(outcome__in=sorted(Outcome.values))
            ),
        ]
        indexes = [
            # Who went down with whom: sql/discard_crash_loops.sql and sql/reclaim.sql.
            models.Index(name="task_attempts_lost_with", fields=["worker_id"], condition=Q(outcome=Outcome.LOST.value)),
        ]
        default_permissions = ("view",)


class TaskTransition(models.Model):
    """A move that a person or a program outside the worker made."""

    id = models.BigAutoField(primary_key=True)
    task = models.ForeignKey(Task, on_delete=models.DB_CASCADE, related_name="transitions")
    from_status = models.TextField()
    to_status = models.TextField()
    event = models.TextField()
    actor = models.TextField()
    reason = models.TextField(db_default="")
    at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        db_table = "task_transitions"
        default_permissions = ("view",)


class Worker(models.Model):
    """A worker process as it last described itself. Rows stay a day after their last beat."""

    id = IdField(primary_key=True, db_collation="C")
    host = models.TextField()
    pid = models.IntegerField()
    version = models.TextField()
    started_at = models.DateTimeField(db_default=DatabaseNow())
    beat_at = models.DateTimeField(db_default=DatabaseNow())
    stopped_at = models.DateTimeField(null=True, blank=True)
    draining = models.BooleanField(db_default=False)
    slots = models.IntegerField(db_default=0)
    running = models.IntegerField(db_default=0)
    stuck = models.IntegerField(db_default=0)
    listen_state = models.TextField(db_default="off")
    listen_since = models.DateTimeField(db_default=DatabaseNow())
    queues: "ArrayField[list[str] | None, list[str] | None]" = ArrayField(models.TextField(), null=True, blank=True)
    task_types: "ArrayField[list[str], list[str]]" = ArrayField(models.TextField())

    class Meta:
        db_table = "workers"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.id


class QueueControl(models.Model):
    """A queue or a task type that is paused: nothing of it is claimed until the row is gone."""

    class Kind(models.TextChoices):
        QUEUE = "queue"
        TASK_TYPE = "task_type"

    id = models.BigAutoField(primary_key=True)
    kind = models.TextField(choices=Kind)
    name = models.TextField(db_collation="C")
    paused_by = models.TextField()
    reason = models.TextField(db_default="")
    since = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        db_table = "queue_controls"
        constraints = [
            models.UniqueConstraint(name="queue_controls_once", fields=["kind", "name"]),
            models.CheckConstraint(name="queue_controls_kind_declared", condition=Q(kind__in=["queue", "task_type"])),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.name}"


class QueueMinute(models.Model):
    """What one worker counted in a minute, or a quarter of an hour, of one task type and queue. See ``minutes``."""

    pk = models.CompositePrimaryKey("span", "begins_at", "task_type", "queue", "worker_id")
    span = models.SmallIntegerField()
    begins_at = models.DateTimeField()
    task_type = models.TextField(db_collation="C")
    queue = models.TextField(db_collation="C")
    worker_id = models.TextField(db_collation="C")
    succeeded = models.IntegerField(db_default=0)
    retried = models.IntegerField(db_default=0)
    snoozed = models.IntegerField(db_default=0)
    dead = models.IntegerField(db_default=0)
    dead_lettered = models.IntegerField(db_default=0)
    waited_ms = models.BigIntegerField(db_default=0)
    ran_ms = models.BigIntegerField(db_default=0)
    waits: "ArrayField[list[int], list[int]]" = ArrayField(models.IntegerField())
    runs: "ArrayField[list[int], list[int]]" = ArrayField(models.IntegerField())

    class Meta:
        db_table = "queue_minutes"
        default_permissions = ("view",)


class Webhook(models.Model):
    """Where events of an organisation are sent. Organisations are another app's; their id is plain text here."""

    class Direction(models.TextChoices):
        OUTBOUND = "outbound"

    id = IdField.with_prefix("wh_")
    name = models.TextField(db_default="")
    direction = models.TextField(choices=Direction, db_default=Direction.OUTBOUND.value)
    type = models.TextField(db_default="")
    url = models.TextField()
    organization_id = models.TextField(null=True, blank=True)
    auth_token = models.TextField(null=True, blank=True)
    # Several secrets, newest first and separated by a space, sign side by side while one is being replaced.
    signing_secret = models.TextField(null=True, blank=True)
    paused_until = models.DateTimeField(null=True, blank=True)
    timeout_streak = models.IntegerField(db_default=0)
    disabled_at = models.DateTimeField(null=True, blank=True)
    disabled_reason = models.TextField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=DatabaseNow())
    updated_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        db_table = "webhooks"
        constraints = [
            models.CheckConstraint(
                name="webhooks_disabled_with_reason",
                condition=Q(disabled_at__isnull=True, disabled_reason__isnull=True)
                | Q(disabled_at__isnull=False, disabled_reason__isnull=False),
            ),
            models.CheckConstraint(name="webhooks_direction_declared", condition=Q(direction__in=["outbound"])),
        ]

    def __str__(self) -> str:
        return self.name or self.id


class Event(models.Model):
    """Something that happened, kept for people: a webhook sent, an experiment created."""

    id = IdField.with_prefix("evt_")
    type = models.TextField()
    data = models.JSONField()
    organization_id = models.TextField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        db_table = "events"
        indexes = [models.Index(name="events_by_type", fields=["type", "created_at"])]
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.id


class ReconciliationReport(models.Model):
    """What one reconciliation found, as of ``snapshot_at``. Findings are capped for each rule, their counts are not."""

    id = IdField.with_prefix("rec_")
    format = models.IntegerField()
    actor = models.TextField()
    snapshot_at = models.DateTimeField()
    finished_at = models.DateTimeField(db_default=DatabaseNow())
    # Which database and migrations it is of; a plan for another one is refused.
    database = models.TextField()
    schema = models.JSONField()
    rules = models.JSONField()
    findings_count = models.BigIntegerField()
    findings = models.JSONField()

    class Meta:
        db_table = "reconciliation_reports"
        constraints = [
            models.CheckConstraint(name="reconciliation_reports_count", condition=Q(findings_count__gte=0)),
            models.CheckConstraint(
                name="reconciliation_reports_in_order", condition=Q(finished_at__gte=F("snapshot_at"))
            ),
        ]
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.id
