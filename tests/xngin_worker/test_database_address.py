"""DATABASE_URL: what is understood, and that no message ever shows the password in it."""

from __future__ import annotations

import pytest

from xngin_worker.database_address import DatabaseAddress, read_database_address

SECRET = "hush"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_all_parts_are_read(scheme: str) -> None:
    address = read_database_address(f"{scheme}://me:p%40ss%2F@db.example.com:6432/shop?sslmode=require")
    assert address == DatabaseAddress(
        name="shop",
        user="me",
        password="p@ss/",
        host="db.example.com",
        port="6432",
        options={"sslmode": "require"},
    )


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("postgresql:///shop?host=/var/run/postgresql", "/var/run/postgresql", ""),
        ("postgresql://%2Fvar%2Frun%2Fpostgresql/shop", "/var/run/postgresql", ""),
        ("postgresql://[::1]:5433/shop", "::1", "5433"),
        ("postgresql://one:5432,two/shop?target_session_attrs=read-write", "one,two", "5432,"),
        ("postgresql:///shop", "", ""),
    ],
)
def test_hosts_may_be_folders_addresses_and_lists(text: str, host: str, port: str) -> None:
    address = read_database_address(text)
    assert (address.host, address.port, address.name) == (host, port, "shop")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"mysql://me:{SECRET}@host/x", "must be an address like postgresql://"),
        (f"postgresql://me:{SECRET}@host", "names no database"),
        (f"postgresql://me:{SECRET}@host/", "names no database"),
        (f"postgresql://me:{SECRET}@host:99999/x", "has a port"),
        (f"postgresql://me:{SECRET}@host:no/x", "has a port"),
        (f"postgresql://me:{SECRET}%zz@host/x", "percent-encoded"),
        (f"postgresql://me:{SECRET}@host/x?sslmod=require", "did you mean sslmode?"),
        (f"postgresql://me:a/{SECRET}@host/x", "has a port"),
        (f"postgresql://me:5/{SECRET}@host?x=1", "percent-encoded"),
        (f"postgresql://me@host/x?passwort={SECRET}", "did you mean password?"),
        (f"postgresql://me@host/x?{SECRET}=1", "percent-encoded"),
        (f"postgresql://me:{SECRET}\ud800@host/x", "percent-encoded"),
        (f"host=localhost password={SECRET}", "must be an address like postgresql://"),
        (f"{SECRET}", "must be an address like postgresql://"),
    ],
)
def test_what_is_wrong_is_told_without_the_password(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read_database_address(text)
    assert told in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_neither_password_nor_options_are_in_the_repr() -> None:
    shown = repr(read_database_address(f"postgresql://me:{SECRET}@host/x?sslpassword={SECRET}"))
    assert "host" in shown
    assert SECRET not in shown
