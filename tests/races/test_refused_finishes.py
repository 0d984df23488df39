"""An ending that the database refuses to write keeps no other from the table, and is written once it may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from taskqueue import finishes as finishes_module
from taskqueue.database import Connection
from taskqueue.models import Task
from taskqueue.outcomes import Ending
from tests.support.held import failed, finish_of, finishes_of, success
from tests.support.sessions import Connect, claim
from tests.support.tasks_in_state import task_in

pytestmark = pytest.mark.django_db(transaction=True)

type Refusing = Callable[[Connection], AbstractContextManager[None]]


@contextmanager
def _locked(other: Connection) -> Iterator[None]:
    with other.transaction():
        other.execute("SELECT FROM tasks WHERE id = 'refused' FOR UPDATE")
        yield


@contextmanager
def _raising(other: Connection) -> Iterator[None]:
    other.execute(
        "CREATE FUNCTION object_to_it() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'a trigger of somebody else'; END $$"
    )
    other.execute(
        "CREATE TRIGGER object_to_it BEFORE UPDATE ON tasks FOR EACH ROW"
        " WHEN (NEW.id = 'refused' AND NEW.status <> 'running') EXECUTE FUNCTION object_to_it()"
    )
    try:
        yield
    finally:
        other.execute("DROP FUNCTION object_to_it CASCADE")


@pytest.mark.parametrize("refusing", [_locked, _raising])
@pytest.mark.parametrize("ending", [success(), failed()], ids=["success", "failure"])
def test_a_refused_finish_lets_the_others_pass_and_is_written_later(
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    refusing: Refusing,
    ending: Ending,
) -> None:
    monkeypatch.setattr(finishes_module, "_ASIDE_SECONDS", 0.0)
    for id in ("first", "refused", "third"):
        task_in("due", id=id)
    worker, other = connect(), connect()
    worker.execute("SET lock_timeout = '100ms'")
    waiting = finishes_of(*(finish_of(claimed, ending) for claimed in claim(worker)))

    with refusing(other):
        passed = waiting.write(worker)
        assert {written.finish.held.claim.id for written in passed} == {"first", "third"}
        assert [finish.held.claim.id for finish, _ in waiting.take_refused()] == ["refused"]
        assert waiting.take_refused() == []
        assert list(Task.objects.filter(status="running").values_list("id", flat=True)) == ["refused"]

    (late,) = waiting.write(worker)

    assert (late.finish.held.claim.id, late.kept) == ("refused", True)
    assert not Task.objects.filter(status="running").exists()
