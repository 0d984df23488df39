"""The database goes away, ends sessions, turns read-only or is impatient: the worker recovers and says what it saw."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from psycopg import sql

from tests.support.own_server import OwnServer, QueueDatabase
from tests.support.worker_process import StartWorker

# So long that whatever happens within a test did not wait for it.
NEVER_POLLS = ("--poll-interval", "300", "--lease", "600")


@contextlib.contextmanager
def stopped(server: OwnServer) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


def seconds_until_success(database: QueueDatabase, id: str) -> float:
    """From the INSERT to the handler's start, by the database's clock."""
    task = database.wait_for_status(id, "success")
    return float((task["started_at"] - task["created_at"]).total_seconds())


def record_listen_states(database: QueueDatabase) -> None:
    """Keep what the workers' rows say one after the other, since each is there for a moment only."""
    database.execute("CREATE TABLE listen_states (number bigint GENERATED ALWAYS AS IDENTITY, state text)")
    database.execute(
        """CREATE FUNCTION record_listen_state() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO public.listen_states (state) VALUES (NEW.listen_state); RETURN NULL; END $$"""
    )
    database.execute(
        """CREATE TRIGGER record_listen_state AFTER UPDATE ON workers FOR EACH ROW
        WHEN (OLD.listen_state <> NEW.listen_state) EXECUTE FUNCTION record_listen_state()"""
    )


def test_after_a_restart_of_the_database_an_insert_wakes_the_worker(
    server: OwnServer, database: QueueDatabase, start_worker: StartWorker
) -> None:
    worker = start_worker(*NEVER_POLLS).started()
    database.wait_until_listening()
    record_listen_states(database)

    with stopped(server):
        worker.wait_for("taskqueue.listen.changed", state="lost", previous="listening")
        worker.wait_for("taskqueue.database.lost", part="leases")
    database.wait_for("SELECT 1 AS back FROM listen_states WHERE state = 'listening'")

    assert seconds_until_success(database, database.insert("test.noop")) < 2.0
    shown = database.execute("SELECT state FROM listen_states ORDER BY number")
    assert [row["state"] for row in shown] == ["lost", "listening"]
    said = [(line["previous"], line["state"]) for line in worker.lines("taskqueue.listen.changed")]
    assert said == [("listening", "lost"), ("lost", "listening")]
    for part in {line["part"] for line in worker.lines("taskqueue.database.lost")}:
        assert len(worker.lines("taskqueue.database.lost", part=part)) == 1
        worker.wait_for("taskqueue.database.back", part=part)
        assert len(worker.lines("taskqueue.database.back", part=part)) == 1


def test_finishes_that_wait_during_an_outage_are_written_once(
    server: OwnServer, database: QueueDatabase, start_worker: StartWorker
) -> None:
    worker = start_worker("--task-concurrency", "4").started()
    good = [database.insert("test.sleep_first", {"seconds": 1.5}) for _ in range(2)]
    bad = database.insert("test.fail_slowly", {"seconds": 1.5}, max_retries=0)
    for id in (*good, bad):
        database.wait_for_status(id, "running")

    with stopped(server):
        # By now the handlers have ended, and their endings wait.
        worker.wait_for("taskqueue.database.lost", part="tasks")
        time.sleep(0.5)

    for id in good:
        task = database.wait_for_status(id, "success")
        assert (task["attempt"], task["lost_count"], task["result"]) == (1, 0, {"attempt": 1})
        worker.wait_for("worker.run", task_id=id)
        assert len(worker.lines("worker.run", task_id=id)) == 1
    assert database.wait_for_status(bad, "dead")["attempt"] == 1
    assert [attempt["outcome"] for attempt in database.attempts(bad)] == ["failed"]
    worker.wait_for("worker.exhausted", task_id=bad)
    assert len(worker.lines("worker.exhausted")) == 1
    assert worker.lines("taskqueue.claim.lost") == []


def test_each_session_that_is_ended_is_replaced(database: QueueDatabase, start_worker: StartWorker) -> None:
    worker = start_worker("--poll-interval", "300").started()
    database.wait_until_listening()
    # Runs longer than the lease, so somebody has to renew it all the time.
    running = database.insert("test.sleep", {"seconds": 5.0})
    database.wait_for_status(running, "running")
    for purpose in ("tasks", "leases", "listen"):
        name = f"xngin-worker: {purpose}"
        (session,) = database.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", [name])

        database.execute("SELECT pg_terminate_backend(%s)", [session["pid"]])

        assert seconds_until_success(database, database.insert("test.noop")) < 2.0
        database.wait_for(
            "SELECT 1 AS there FROM pg_stat_activity WHERE application_name = %s AND pid <> %s", [name, session["pid"]]
        )
        database.wait_until_listening()
    task = database.wait_for_status(running, "success")
    assert (task["attempt"], task["lost_count"]) == (1, 0)
    assert worker.stop() == 0


def test_the_janitor_survives_the_end_of_its_session(database: QueueDatabase, start_worker: StartWorker) -> None:
    # It connects once a minute for a moment; a lock on what it deletes from holds it there.
    with database.connection(autocommit=False) as blocker:
        blocker.execute("LOCK TABLE workers IN ACCESS EXCLUSIVE MODE")
        worker = start_worker("--poll-interval", "300").started()
        session = database.wait_for(
            "SELECT pid FROM pg_stat_activity"
            " WHERE application_name = 'xngin-worker: janitor' AND wait_event_type = 'Lock'"
        )
        database.execute("SELECT pg_terminate_backend(%s)", [session["pid"]])
        worker.wait_for("taskqueue.database.lost", part="janitor")

    worker.wait_for("taskqueue.database.back", part="janitor")
    assert seconds_until_success(database, database.insert("test.noop")) < 2.0
    assert worker.stop() == 0


def test_a_primary_that_is_read_only_for_a_while_is_outlasted(
    server: OwnServer, database: QueueDatabase, start_worker: StartWorker
) -> None:
    worker = start_worker("--poll-interval", "0.5").started()
    database.wait_until_listening()
    running = database.insert("test.sleep_first", {"seconds": 1.0})
    database.wait_for_status(running, "running")
    set_read_only(server, "on")
    try:
        for part in ("tasks", "leases"):
            lost = worker.wait_for("taskqueue.database.lost", part=part)
            assert "read-only" in str(lost["reason"])
        # Longer than the lease.
        time.sleep(3.5)
    finally:
        set_read_only(server, "off")

    task = database.wait_for_status(running, "success")
    assert (task["attempt"], task["lost_count"]) == (1, 0)
    for part in ("tasks", "leases"):
        worker.wait_for("taskqueue.database.back", part=part)
    assert seconds_until_success(database, database.insert("test.noop")) < 2.0
    assert worker.stop() == 0


def set_read_only(server: OwnServer, value: str) -> None:
    server.execute(sql.SQL("ALTER SYSTEM SET default_transaction_read_only = {}").format(sql.Literal(value)))
    server.execute(sql.SQL("SELECT pg_reload_conf()"))


def test_a_role_with_a_short_statement_timeout_does_not_stop_the_worker(
    server: OwnServer, database: QueueDatabase, start_worker: StartWorker
) -> None:
    name = f"impatient_{database.name}"
    server.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER").format(sql.Identifier(name)))
    server.execute(sql.SQL("ALTER ROLE {} SET statement_timeout = '50ms'").format(sql.Identifier(name)))
    try:
        worker = start_worker("--poll-interval", "0.5", url=server.url(database.name, user=name)).started()
        database.wait_until_listening()
        with database.connection(autocommit=False) as blocker:
            blocker.execute("LOCK TABLE tasks, workers IN SHARE MODE")
            for purpose in ("tasks", "leases"):
                database.wait_for(
                    "SELECT 1 AS patient FROM pg_stat_activity WHERE application_name = %s"
                    " AND wait_event_type = 'Lock' AND clock_timestamp() - query_start > interval '300 ms'",
                    [f"xngin-worker: {purpose}"],
                )
        # Its handlers are held to what the role may.
        slow = database.insert("test.sql", {"statements": ["SELECT pg_sleep(1)"]}, max_retries=0)
        assert "statement timeout" in database.wait_for_status(slow, "dead")["message"]
        assert seconds_until_success(database, database.insert("test.noop")) < 2.0
        assert worker.lines("taskqueue.database.lost") == []
        assert worker.stop() == 0
    finally:
        server.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
