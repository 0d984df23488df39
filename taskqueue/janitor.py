"""Rounds every quarter of a minute: task types nobody handles, old transactions, and workers long gone."""

from collections.abc import Callable

import psycopg

from taskqueue import events, store, telemetry
from taskqueue.database import Connection, Database, Kept
from taskqueue.lifecycle import Status
from taskqueue.models import Outcome
from taskqueue.outage import Outage
from taskqueue.records import Claim, Room, Serving, Settlement
from taskqueue.retry import RetryPolicy, retries_left
from taskqueue.service import Service

ROUND_SECONDS = 15.0
OLD_TRANSACTION_SECONDS = 30.0
PATIENCE_SECONDS = 3600.0
_BATCH = 100


class Janitor(Service):
    name = "janitor"

    def __init__(
        self,
        *,
        database: Database,
        serving: Serving,
        default_max_retries: int,
        outage_seconds: float,
        random: Callable[[], float],
        on_failure: Callable[[str, BaseException], None],
        old_transaction_seconds: float = OLD_TRANSACTION_SECONDS,
    ) -> None:
        super().__init__(on_failure=on_failure)
        self._kept = Kept(database, "janitor")
        self._serving = serving
        self._default_max_retries = default_max_retries
        self._random = random
        self._old_seconds = old_transaction_seconds
        self._outage = Outage(worker_id=serving.worker_id, part=self.name, limit_seconds=outage_seconds)
        self._reported: tuple[str, ...] = ()
        self._old: tuple[int, str] | None = None

    def look(self) -> float:
        try:
            with self._kept as connection:
                self._give_back(connection)
                store.forget_workers(connection)
                store.forget_minutes(connection)
                self._oldest_transaction(connection)
                self._types(connection)
            self._outage.over()
        except psycopg.Error as error:
            return self._outage.failed(error)
        # Between rounds the connection is given back: most databases count them.
        self._kept.close()
        return ROUND_SECONDS

    def close(self) -> None:
        self._kept.close()

    @property
    def _own_id(self) -> str:
        """Not the worker's id: what it holds under that one, it must also know of."""
        return f"{self._serving.worker_id}/janitor"

    def _give_back(self, connection: Connection) -> None:
        """Release what an earlier round claimed and could not settle, or it would be counted as lost."""
        held = store.held_by(connection, self._own_id)
        if held:
            release = [
                Settlement(id=id, attempt=attempt, status=Status.PENDING, outcome=Outcome.RELEASED)
                for id, attempt in held
            ]
            store.settle(connection, release)

    def _oldest_transaction(self, connection: Connection) -> None:
        old = store.oldest_transaction(connection, older_than_seconds=self._old_seconds)
        known, self._old = self._old, None if old is None else (old.pid, old.began)
        if old is not None and self._old != known:
            telemetry.emit(
                events.OLD_TRANSACTION,
                worker_id=self._serving.worker_id,
                pid=old.pid,
                age_seconds=round(old.age_seconds, 1),
                role=old.role,
                application=old.application,
                state=old.state,
            )

    def _types(self, connection: Connection) -> None:
        waiting = store.unhandled_types(connection, self._serving.task_types, patience_seconds=PATIENCE_SECONDS)
        names = tuple(row.task_type for row in waiting)
        if names and names != self._reported:
            telemetry.emit(
                events.TYPES_WAITING,
                worker_id=self._serving.worker_id,
                task_types=names,
                unhandled=tuple(row.task_type for row in waiting if not row.handled),
            )
        self._reported = names
        hopeless = tuple(row.task_type for row in waiting if row.hopeless)
        if hopeless:
            self._fail_unregistered(connection, hopeless)

    def _fail_unregistered(self, connection: Connection, task_types: tuple[str, ...]) -> None:
        serving = Serving(
            task_types=task_types,
            queues=self._serving.queues,
            worker_id=self._own_id,
            lease_seconds=self._serving.lease_seconds,
        )
        room = Room(slots=_BATCH, window=_BATCH, last_chance_free=True)
        for take in (store.reclaim, store.claim):
            while claims := take(connection, serving, room):
                store.settle(connection, [self._settlement(claim) for claim in claims])
                if self.stopping:
                    return

    def _settlement(self, claim: Claim) -> Settlement:
        policy = RetryPolicy()
        again = retries_left(
            retry_count=claim.retry_count,
            task=claim.max_retries,
            policy=policy.max_retries,
            default=self._default_max_retries,
        )
        return Settlement(
            id=claim.id,
            attempt=claim.attempt,
            status=Status.PENDING if again else Status.DEAD_LETTERED,
            outcome=Outcome.FAILED if again else Outcome.DISCARDED,
            uses_retry=again,
            delay_seconds=policy.delay_seconds(claim.retry_count, self._random) if again else 0.0,
            error_code="unregistered",
            message=f"no live worker has handled the task type {claim.task_type!r} for an hour",
        )
