"""What is particular to PostgreSQL: servers that hang, die or refuse, rights, TLS, poolers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection as ours
from psycopg import sql

from experiments.errors import DatasourceError
from experiments.warehouse.addresses import Rules
from experiments.warehouse.config import parse_config
from experiments.warehouse.names import find_column
from experiments.warehouse.opening import open_warehouse
from experiments.warehouse.session import Limits, Warehouse
from tests.support.authority import Authority
from tests.support.postgresql_proxy import Proxy
from tests.support.warehouses import LOOPBACK, PostgreSQLSchema

_DEADLINE = 20.0
_QUICK = Limits(connect_seconds=2, statement_seconds=_DEADLINE)


@pytest.fixture
def server(db: None) -> Iterator[PostgreSQLSchema]:
    schema = PostgreSQLSchema()
    yield schema
    schema.close()


@pytest.fixture
def proxied(server: PostgreSQLSchema) -> Iterator[Callable[..., Proxy]]:
    made: list[Proxy] = []

    def make(**options: Any) -> Proxy:
        made.append(Proxy(server.config["host"], int(server.config["port"]), **options))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


def _open(server: PostgreSQLSchema, limits: Limits = _QUICK, rules: Rules | None = None, **changed: Any) -> Warehouse:
    return open_warehouse(parse_config({**server.config, **changed}), rules=rules or server.rules, limits=limits)


def _refusal(code: str, run: Callable[[], object]) -> str:
    before = time.monotonic()
    with pytest.raises(DatasourceError) as fault:
        run()
    assert fault.value.code == code, str(fault.value)
    assert time.monotonic() - before < _DEADLINE / 2
    return str(fault.value)


def _running(session: Warehouse, statement: str = "SELECT 1 FROM pg_sleep(60)") -> Callable[[], list[Any]]:
    return lambda: session.fetch(statement)


def _when_active(role: str, then: Callable[[int], object]) -> threading.Thread:
    """Do something to the process of the role's session, as soon as that sleeps in a query."""

    def wait() -> None:
        with psycopg.connect(**_owner(), autocommit=True) as owner:
            deadline = time.monotonic() + _DEADLINE
            while time.monotonic() < deadline:
                row = owner.execute(
                    "SELECT pid FROM pg_stat_activity WHERE usename = %s AND wait_event IN ('PgSleep', 'relation')",
                    [role],
                ).fetchone()
                if row is not None:
                    then(row[0])
                    return
                owner.execute("SELECT pg_sleep(0.02)")

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def _owner() -> dict[str, Any]:
    settings = dict(ours.get_connection_params())
    settings.pop("cursor_factory", None)
    settings.pop("context", None)
    return settings


def test_a_role_that_could_write_does_not(server: PostgreSQLSchema) -> None:
    server.create("t", {"id": "INTEGER"}, [(1,)])
    server.execute(f'GRANT ALL ON "{server.schema}".t TO "{server.role}"')
    with _open(server) as session:
        said = _refusal("query_failed", lambda: session.fetch("DELETE FROM t"))
        assert "read-only" in said
        for trick in ("COMMIT; DELETE FROM t", "SELECT 1; COMMIT; DELETE FROM t", "COMMIT"):
            with pytest.raises(DatasourceError):
                session.fetch(trick)
                session.fetch("DELETE FROM t")
        assert session.fetch("SELECT id FROM t") == [(1,)]


def test_a_killed_session_has_failed_and_says_so(server: PostgreSQLSchema) -> None:
    with _open(server) as session:
        with psycopg.connect(**_owner(), autocommit=True) as owner:
            killer = _when_active(server.role, lambda pid: owner.execute("SELECT pg_terminate_backend(%s)", [pid]))
            said = _refusal("connection_failed", _running(session))
            killer.join()
        assert "terminating connection" in said
        _refusal("connection_failed", _running(session, "SELECT 1"))


def test_a_session_that_was_killed_while_idle_fails_with_its_next_query(server: PostgreSQLSchema) -> None:
    with _open(server) as session:
        session.fetch("SELECT 1")
        with psycopg.connect(**_owner(), autocommit=True) as owner:
            owner.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = %s", [server.role]
            )
        _refusal("connection_failed", _running(session, "SELECT 1"))


def test_a_query_that_somebody_there_stops_is_no_timeout_of_ours(server: PostgreSQLSchema) -> None:
    with _open(server) as session:
        with psycopg.connect(**_owner(), autocommit=True) as owner:
            killer = _when_active(server.role, lambda pid: owner.execute("SELECT pg_cancel_backend(%s)", [pid]))
            said = _refusal("timeout", _running(session))
            killer.join()
        assert "the warehouse stopped the query" in said
        assert session.fetch("SELECT 1") == [(1,)]


def test_a_server_that_accepts_and_says_nothing_is_given_up(server: PostgreSQLSchema) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = _refusal("connection_failed", lambda: _open(server, host="127.0.0.1", port=silent.getsockname()[1]))
    assert "did not answer in time" in said


def test_a_port_where_nobody_listens_is_told(server: PostgreSQLSchema) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert str(port) in _refusal("connection_failed", lambda: _open(server, host="127.0.0.1", port=port))


def test_a_server_that_falls_silent_in_the_middle_is_hung_up_on(
    server: PostgreSQLSchema, proxied: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_PATIENCE_SECONDS", "_CANCEL_SECONDS"):
        monkeypatch.setattr(f"experiments.warehouse.engines.postgresql.{name}", 0.3)
    proxy = proxied()
    with _open(server, Limits(statement_seconds=0.3), host="127.0.0.1", port=proxy.port) as session:
        assert session.fetch("SELECT 1") == [(1,)]
        proxy.hold()
        _refusal("timeout", _running(session, "SELECT 1"))
        _refusal("connection_failed", _running(session, "SELECT 1"))


def test_cancelling_works_when_the_server_is_out_of_reach(
    server: PostgreSQLSchema, proxied: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.warehouse.engines.postgresql._CANCEL_SECONDS", 0.3)
    proxy = proxied()
    with _open(server, host="127.0.0.1", port=proxy.port) as session:
        proxy.hold()
        threading.Timer(0.1, session.cancel).start()
        _refusal("cancelled", _running(session, "SELECT 1"))


def test_a_lock_there_is_not_waited_for_long(server: PostgreSQLSchema) -> None:
    server.create("t", {"id": "INTEGER"})
    with psycopg.connect(**_owner()) as owner, _open(server, Limits(lock_seconds=0.2)) as session:
        owner.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.Identifier(server.schema, "t")))
        said = _refusal("timeout", _running(session, "SELECT * FROM t"))
        owner.rollback()
    assert "lock" in said


def test_nothing_of_the_workers_environment_is_sent(
    server: PostgreSQLSchema, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours = {"PGPASSWORD": "word-of-ours", "PGOPTIONS": "-c geqo=off", "PGHOSTADDR": "10.0.0.1", "PGDATABASE": "ours"}
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "pgpass").write_text("*:*:*:*:word-of-ours\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    received = bytearray()

    def ask_for_password(listener: socket.socket) -> None:
        with listener.accept()[0] as client:
            client.settimeout(_DEADLINE)
            received.extend(client.recv(10_000))
            client.sendall(b"R\0\0\0\x08\0\0\0\x03")
            received.extend(client.recv(10_000))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asking = threading.Thread(target=ask_for_password, args=[listener])
        asking.start()
        without = {"host": "127.0.0.1", "port": listener.getsockname()[1], "password": None}
        assert "no password" in _refusal("connection_failed", lambda: _open(server, **without))
        asking.join()
    assert server.role.encode() in received
    for value in ours.values():
        assert value.encode() not in received


def test_a_wrong_password_is_told_without_it(server: PostgreSQLSchema) -> None:
    said = _refusal("connection_failed", lambda: _open(server, user="nobody_here", password="hidden-word"))
    assert "nobody_here" in said
    assert "hidden-word" not in said


def test_a_database_that_is_not_there_is_told(server: PostgreSQLSchema) -> None:
    # It is a name and nothing else, whatever it looks like.
    for name in ("absent", "hostaddr=10.0.0.1 dbname=postgres", "postgresql://10.0.0.1/postgres"):
        assert name in _refusal("connection_failed", lambda name=name: _open(server, database=name))  # type: ignore[misc]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "::1", "10.0.0.1", "169.254.169.254", "0x7f.1", "::ffff:127.0.0.1", "0"]
)
def test_a_private_address_is_refused(server: PostgreSQLSchema, host: str) -> None:
    said = _refusal("address_refused", lambda: _open(server, rules=Rules(), host=host))
    assert "XNGIN_DATASOURCE_ALLOWED_NETWORKS" in said


@pytest.mark.parametrize("host", ["/tmp", "/var/run/postgresql"])
def test_a_socket_is_refused_where_the_loopback_is(server: PostgreSQLSchema, host: str) -> None:
    _refusal("address_refused", lambda: _open(server, rules=Rules(), host=host))


@pytest.mark.parametrize("host", ["/absent,127.0.0.1", "/absent,127.0.0.1,/tmp"])
def test_a_socket_leads_to_no_other_host(server: PostgreSQLSchema, host: str) -> None:
    assert "several hosts" in _refusal("address_refused", lambda: _open(server, host=host))


@pytest.mark.parametrize("host", ["127.0.0.1,10.0.0.1", "127.0.0.1 hostaddr=10.0.0.1", "@abstract"])
def test_a_host_is_one_host(server: PostgreSQLSchema, host: str) -> None:
    _refusal("connection_failed", lambda: _open(server, host=host))


def test_a_name_with_several_addresses_is_tried_at_each(
    server: PostgreSQLSchema, proxied: Callable[..., Proxy]
) -> None:
    class Both(Rules):
        def addresses_of(self, host: str) -> Any:
            return ("::1", "127.0.0.1") if host == "several" else super().addresses_of(host)

    with _open(server, rules=Both(allowed_networks=LOOPBACK), host="several", port=proxied().port) as session:
        assert session.fetch("SELECT 1") == [(1,)]


def test_what_the_role_may_not_read_is_not_there_or_refused(server: PostgreSQLSchema) -> None:
    server.create("open", {"id": "INTEGER", "secret": "INTEGER"}, [(1, 2)])
    server.create("closed", {"id": "INTEGER"})
    for right in (
        f'REVOKE ALL ON "{server.schema}".closed FROM "{server.role}"',
        f'REVOKE ALL ON "{server.schema}".open FROM "{server.role}"',
        f'GRANT SELECT (id) ON "{server.schema}".open TO "{server.role}"',
    ):
        server.execute(right)
    with _open(server) as session:
        assert session.tables() == ("open",)
        table = session.describe("open")
        with pytest.raises(DatasourceError, match="that this datasource may read; its columns are 'id'"):
            find_column(table, "secret")
        _refusal("permission_denied", _running(session, "SELECT secret FROM open"))
        _refusal("permission_denied", _running(session, "SELECT * FROM closed"))


def test_domains_and_bounds_of_numbers_are_read_from_the_catalog(server: PostgreSQLSchema) -> None:
    server.execute(f'CREATE DOMAIN "{server.schema}".price AS NUMERIC(12, 2)')
    server.create(
        "t", {"a": f'"{server.schema}".price', "b": "NUMERIC", "c": "NUMERIC(5, -2)", "d": "INTEGER[]", "e": "CHAR(3)"}
    )
    with _open(server) as session:
        found = {c.name: (c.family.value, c.native, c.precision, c.scale) for c in session.describe("t").columns}
    assert found == {
        "a": ("decimal", "numeric(12,2)", 12, 2),
        "b": ("decimal", "numeric", None, None),
        "c": ("decimal", "numeric(5,-2)", 5, -2),
        "d": ("other", "integer[]", None, None),
        "e": ("text", "character(3)", None, None),
    }


def test_nothing_lingers_on_a_connection_that_a_pooler_would_hand_on(server: PostgreSQLSchema) -> None:
    with _open(server, Limits(statement_seconds=7)) as session:
        shown = "SELECT " + ", ".join(
            f"current_setting('{name}')" for name in ("statement_timeout", "transaction_read_only", "jit")
        )
        assert session.fetch(shown) == [("7s", "on", "off")]
        session._connection.execute("SELECT 1")  # type: ignore[attr-defined]
        row = session._connection.execute(shown).fetchone()  # type: ignore[attr-defined]
        assert row == ("0", "off", "on")
        assert session._connection.info.transaction_status.name == "IDLE"  # type: ignore[attr-defined]


def test_tls_is_asked_for_unless_the_config_says_otherwise(
    server: PostgreSQLSchema, proxied: Callable[..., Proxy]
) -> None:
    config = {name: value for name, value in server.config.items() if name != "sslmode"}
    config |= {"host": "127.0.0.1", "port": proxied().port}
    with pytest.raises(DatasourceError, match="SSL") as fault:
        open_warehouse(parse_config(config), rules=server.rules, limits=_QUICK)
    assert fault.value.code == "connection_failed"


def test_the_server_is_who_its_certificate_says_it_is(
    server: PostgreSQLSchema, proxied: Callable[..., Proxy], tmp_path: Path
) -> None:
    authority = Authority.create(tmp_path)
    known: dict[str, Any] = {"sslmode": "verify-full", "ca_certificate": authority.bundle.read_text()}
    there: dict[str, Any] = {"host": "127.0.0.1", "port": proxied(tls=authority.server_context("127.0.0.1")).port}
    with _open(server, **there, **known) as session:
        assert session.fetch("SELECT 1") == [(1,)]
        threading.Timer(0.1, session.cancel).start()
        _refusal("cancelled", _running(session))
    with _open(server, **there, sslmode="require") as session:
        assert session.fetch("SELECT 1") == [(1,)]
    _refusal("connection_failed", lambda: _open(server, **there, sslmode="verify-full"))
    there["port"] = proxied(tls=authority.server_context("warehouse.example.com")).port
    _refusal("connection_failed", lambda: _open(server, **there, **known))
