"""The floor: a bare loop that claims and completes in batches. No retries, leases, fences, schedules or logs."""

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg

from bench import handlers
from bench.system import System

_CREATE = """
CREATE TABLE floor (id bigserial PRIMARY KEY, status text NOT NULL DEFAULT 'pending', payload jsonb NOT NULL);
CREATE INDEX floor_pending ON floor (id) WHERE status = 'pending';
CREATE FUNCTION floor_notify() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('floor', ''); RETURN NULL; END $$;
CREATE TRIGGER floor_notify AFTER INSERT ON floor FOR EACH STATEMENT EXECUTE FUNCTION floor_notify();
"""

_CLAIM = """
WITH picked AS MATERIALIZED (
    SELECT id FROM floor WHERE status = 'pending' ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
)
UPDATE floor SET status = 'running' FROM picked WHERE floor.id = picked.id RETURNING floor.id, floor.payload
"""

_COMPLETE = "UPDATE floor SET status = 'done' WHERE id = ANY (%s)"


def _create(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_CREATE)


def _work(url: str, concurrency: int, _kind: str) -> None:
    kinds = {"noop": handlers.noop, "sleep": handlers.sleep}
    with (
        psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection,
        ThreadPoolExecutor(concurrency) as pool,
    ):
        connection.execute("LISTEN floor")
        # Plans made while the table was empty would be kept; the product's connection says the same.
        connection.execute("SET enable_seqscan = off")
        while True:
            claimed = connection.execute(_CLAIM, [concurrency]).fetchall()
            if not claimed:
                for _ in connection.notifies(timeout=5.0, stop_after=1):
                    pass
                continue
            if claimed[0][1]["kind"] == "noop":
                for _, payload in claimed:
                    kinds[payload["kind"]]()
            else:
                list(pool.map(lambda row: kinds[row[1]["kind"]](), claimed))
            connection.execute(_COMPLETE, [[id for id, _ in claimed]])


def _enqueue(url: str, count: int, kind: str) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT 1")
        began = time.perf_counter()
        with connection.cursor().copy("COPY floor (payload) FROM STDIN") as copy:
            for number in range(count):
                copy.write_row((f'{{"kind": "{kind}", "n": {number}}}',))
        return time.perf_counter() - began


SYSTEM = System(
    name="floor",
    setup="bare SQL loop, one connection, prepared statements; batch = the product's slots; COPY to enqueue",
    create=_create,
    work=_work,
    enqueue=_enqueue,
    insert="""INSERT INTO floor (payload) VALUES ('{"kind": "noop", "n": 1}')""",
    unfinished="SELECT EXISTS (SELECT FROM floor WHERE id > (SELECT max(id) - 20000 FROM floor) AND status <> 'done')",
    done="SELECT count(*) FROM floor WHERE status = 'done'",
    empty="TRUNCATE floor",
    fill="""INSERT INTO floor (status, payload)
        SELECT 'done', '{"kind": "noop", "n": 1}' FROM generate_series(1, %(count)s)""",
)
