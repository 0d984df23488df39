"""The janitor names the transaction that keeps dead rows from being removed, once, with its pid and age."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue import events
from taskqueue.database import Database
from taskqueue.janitor import Janitor
from tests.support.sessions import serving_of, sessions


@pytest.mark.django_db(transaction=True)
def test_an_old_transaction_is_reported_once_and_a_new_one_again() -> None:
    heard: list[dict[str, Any]] = []

    def hear(sender: object, data: dict[str, Any], **_: object) -> None:
        heard.append(data)

    events.OLD_TRANSACTION.signal.connect(hear)
    janitor = Janitor(
        database=Database(name="test"),
        serving=serving_of(),
        default_max_retries=10,
        outage_seconds=10.0,
        random=lambda: 0.0,
        on_failure=lambda part, error: None,
        old_transaction_seconds=0.0,
    )
    try:
        with sessions() as connect:
            janitor.look()
            assert heard == []
            for _ in range(2):
                holder = connect()
                with holder.transaction():
                    holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                    holder.execute("SELECT 1")
                    janitor.look()
                    janitor.look()
                    assert heard[-1]["pid"] == holder.info.backend_pid
                    assert heard[-1]["age_seconds"] >= 0
                    assert heard[-1]["application"] == "test: session"
    finally:
        events.OLD_TRANSACTION.signal.disconnect(hear)
        janitor.close()
    assert len(heard) == 2
