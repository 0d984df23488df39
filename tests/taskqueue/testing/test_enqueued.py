"""Asserting what was enqueued, and what is told when it was not."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import ANY

import pydantic
import pytest

from taskqueue.operations import enqueue
from taskqueue.testing import assert_enqueued, assert_not_enqueued
from tests.support import django_tasks

pytestmark = pytest.mark.django_db


class _Mail(pydantic.BaseModel):
    to: str
    subject: str = "Hello"


def test_a_task_that_is_there_is_returned() -> None:
    enqueue("mail.send", {"to": "ann", "tags": ["a", "b"]}, queue="mail", delay=60, dedupe_key="ann")
    bob = enqueue("mail.send", {"to": "bob", "subject": "Hello"})

    assert assert_enqueued("mail.send") == bob
    assert assert_enqueued("mail.send", {"to": "ann", "tags": ["a", "b"]}).queue == "mail"
    assert assert_enqueued("mail.send", {"to": "ann", "tags": ANY}, queue="mail", delay=60, dedupe_key="ann")
    assert assert_enqueued("mail.send", delay=timedelta(minutes=1), times=1)
    assert assert_enqueued("mail.send", _Mail(to="bob"), status="pending") == bob
    assert assert_enqueued("mail.send", times=2)


def test_a_task_of_djangos_is_named_by_itself() -> None:
    django_tasks.add.enqueue(1, right=2)

    assert_enqueued(django_tasks.add, {"args": [1], "kwargs": {"right": 2}})
    assert_not_enqueued(django_tasks.noop)


def test_near_misses_are_told_the_nearest_first() -> None:
    far = enqueue("mail.send", {"to": "eve", "body": {"text": "x"}}, queue="spam")
    near = enqueue("mail.send", {"to": "bob", "body": {"text": "Hello"}, "tags": [1, 2]})

    with pytest.raises(AssertionError) as caught:
        assert_enqueued("mail.send", {"to": "ann", "body": {"text": "Hello"}, "tags": [1, 3]}, delay=5)

    lines = str(caught.value).splitlines()
    assert lines[0] == "no task of 'mail.send' is as wanted; the nearest of 2:"
    assert near.id in lines[1]
    assert lines[2:5] == [
        "    delay: wanted datetime.timedelta(seconds=5), is datetime.timedelta(0)",
        "    payload.to: wanted 'ann', is 'bob'",
        "    payload.tags[1]: wanted 3, is 2",
    ]
    assert far.id in lines[5]
    assert "    payload.tags: missing, wanted [1, 3]" in lines[6:]


def test_without_a_task_of_the_type_the_others_are_told() -> None:
    with pytest.raises(AssertionError, match="no other type either"):
        assert_enqueued("mail.sent")
    enqueue("mail.send")
    enqueue("mail.send")

    with pytest.raises(AssertionError, match=r"2 of 'mail\.send'\n.*did you mean 'mail\.send'"):
        assert_enqueued("mail.sent")


def test_how_often_counts() -> None:
    first, second = enqueue("mail.send"), enqueue("mail.send")

    with pytest.raises(AssertionError, match="are as wanted, not 1") as caught:
        assert_enqueued("mail.send", times=1)
    assert first.id in str(caught.value) and second.id in str(caught.value)


def test_what_must_not_be_there_is_named() -> None:
    task = enqueue("mail.send", {"to": "ann"})

    assert_not_enqueued("mail.send", {"to": "bob"})
    assert_not_enqueued("mail.send", queue="mail")
    with pytest.raises(AssertionError, match=task.id):
        assert_not_enqueued("mail.send", {"to": "ann"})


def test_a_field_that_does_not_exist_is_named_with_the_nearest() -> None:
    with pytest.raises(TypeError, match="no field 'priorty'; did you mean 'priority'"):
        assert_enqueued("mail.send", priorty=3)
