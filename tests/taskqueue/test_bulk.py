"""Many tasks by COPY: what arrives in the table is what was given, all or none."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest
from django.db import transaction
from pydantic import AfterValidator, BaseModel

from taskqueue.bulk import BATCH
from taskqueue.enqueueing import NewTask, enqueue_many
from taskqueue.errors import InvalidTask
from taskqueue.handlers import Registry, register_handler
from taskqueue.ids import new_correlation_ids, new_ids
from taskqueue.models import Task

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "text",
    ["\\", "\\N", "\\.", "a\tb\nc\rd", "\\t\\n", '"quoted" and \\"', "ä € 🙂", "\x01\x7f\u2028", "'; DROP TABLE tasks"],
)
def test_text_of_a_payload_arrives_as_it_was_given(text: str) -> None:
    (id,) = enqueue_many([NewTask(task_type="t", payload={"text": text, text: [text]})], handlers=Registry())
    assert Task.objects.get(id=id).payload == {"text": text, text: [text]}


def test_every_field_arrives_as_it_was_given() -> None:
    at = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    given = NewTask(
        task_type="back\\slash",
        run_at=at,
        priority=-7,
        queue="q\\N",
        max_retries=0,
        correlation_id="c\\t",
    )
    (id,) = enqueue_many([given], handlers=Registry())
    task = Task.objects.get(id=id)
    assert (task.task_type, task.queue, task.correlation_id) == ("back\\slash", "q\\N", "c\\t")
    assert (task.payload, task.embargo_until, task.priority, task.max_retries) == (None, at, -7, 0)


def test_a_delay_counts_from_the_database_s_now() -> None:
    first, second = enqueue_many([NewTask(task_type="t"), NewTask(task_type="t", delay=90.5)], handlers=Registry())
    tasks = Task.objects.in_bulk([first, second])
    assert tasks[first].embargo_until == tasks[first].created_at
    assert tasks[second].embargo_until - tasks[first].embargo_until == timedelta(seconds=90.5)


def test_ids_come_back_in_the_order_given_beside_those_of_pending_tasks() -> None:
    (holder,) = enqueue_many([NewTask(task_type="t", dedupe_key="k")], handlers=Registry())
    given = [
        NewTask(task_type="t", payload=0),
        NewTask(task_type="t", dedupe_key="k"),
        NewTask(task_type="t", payload=2),
    ]
    ids = enqueue_many(given, handlers=Registry())
    assert ids[1] == holder
    assert [Task.objects.get(id=id).payload for id in (ids[0], ids[2])] == [0, 2]
    assert Task.objects.count() == 3


def test_one_invalid_task_behind_a_full_batch_leaves_nothing_and_a_connection_that_works() -> None:
    given = [NewTask(task_type="t", payload=number) for number in range(BATCH + 10)]
    given.append(NewTask(task_type="t", priority=1_000_000))
    with pytest.raises(InvalidTask, match="priority"):
        enqueue_many(given, handlers=Registry())
    assert Task.objects.count() == 0


def test_an_invalid_task_leaves_the_caller_s_transaction_usable() -> None:
    with transaction.atomic():
        enqueue_many([NewTask(task_type="before")], handlers=Registry())
        with pytest.raises(InvalidTask):
            enqueue_many([NewTask(task_type="t"), NewTask(task_type="")], handlers=Registry())
        enqueue_many([NewTask(task_type="after")], handlers=Registry())
    assert set(Task.objects.values_list("task_type", flat=True)) == {"before", "after"}


def test_a_payload_s_validator_may_use_the_database() -> None:
    def exists(id: str) -> str:
        assert Task.objects.filter(id=id).exists()
        return id

    class Payload(BaseModel):
        task: Annotated[str, AfterValidator(exists)]

    handlers = Registry()
    register_handler("child", lambda _payload: None, payload=Payload, into=handlers)
    (parent,) = enqueue_many([NewTask(task_type="parent")], handlers=handlers)
    children = [NewTask(task_type="child", payload={"task": parent})] * (BATCH + 1)
    assert len(set(enqueue_many(children, handlers=handlers))) == BATCH + 1


def test_tasks_may_come_from_a_query_on_the_same_connection() -> None:
    enqueue_many([NewTask(task_type="t", payload=number) for number in range(3)], handlers=Registry())
    copies = (NewTask(task_type="copy", payload=task.payload) for task in Task.objects.order_by("id").iterator())
    ids = enqueue_many(copies, handlers=Registry())
    assert [Task.objects.get(id=id).payload for id in ids] == [0, 1, 2]


def test_no_tasks_are_no_ids() -> None:
    assert enqueue_many([], handlers=Registry()) == []


def test_ids_of_a_batch_are_distinct_ascend_and_look_like_single_ones() -> None:
    ids = new_ids("task_", BATCH)
    assert ids == sorted(set(ids))
    assert len(ids) == BATCH
    assert {len(id) for id in ids} == {len("task_") + 32}


def test_correlation_ids_of_a_batch_are_ascending_version_7_uuids() -> None:
    ids = new_correlation_ids(BATCH)
    assert ids == sorted(set(ids))
    assert {(uuid.UUID(id).version, uuid.UUID(id).variant) for id in ids} == {(7, uuid.RFC_4122)}
