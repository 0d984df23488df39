"""The address of the database as `DATABASE_URL` gives it. No message quotes it, since it holds a password."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import parse_qsl, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from xngin_worker.configuration import did_you_mean

_ACCEPTED = (
    "must be an address like postgresql://user:password@host:5432/name?sslmode=require, "
    "with special characters percent-encoded"
)


@dataclass(frozen=True, kw_only=True)
class DatabaseAddress:
    """Where the database is. `host` may be the folder of a socket, `options` are libpq's (sslmode, ...)."""

    name: str
    user: str
    password: str = field(repr=False)
    host: str
    port: str
    options: Mapping[str, str] = field(repr=False)


def read_database_address(text: str) -> DatabaseAddress:
    """The parts of the address; `ValueError` says what is wrong without quoting any of it."""
    # SQLAlchemy names a driver in the scheme; a program that shares the variable with us may want it so.
    scheme, mark, rest = text.strip().partition("://")
    if not mark or not re.fullmatch(r"postgres(ql)?(\+psycopg2?|\+asyncpg)?", scheme):
        raise ValueError(_ACCEPTED)
    address = f"postgresql://{rest}"
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(address).items() if value is not None}
    except (psycopg.Error, UnicodeError):
        # The cause is dropped: the driver quotes the address, with the password, in its error.
        raise ValueError(_ACCEPTED + _unknown_option(address)) from None
    name = parts.pop("dbname", "")
    if not name:
        raise ValueError("names no database; " + _ACCEPTED)
    port = parts.pop("port", "")
    if port and not all(_is_port(part) for part in port.split(",")):
        raise ValueError("has a port that is no number from 1 to 65535; " + _ACCEPTED)
    return DatabaseAddress(
        name=name,
        user=parts.pop("user", ""),
        password=parts.pop("password", ""),
        host=parts.pop("host", ""),
        port=port,
        options=MappingProxyType(parts),
    )


def _is_port(text: str) -> bool:
    # One of several hosts may leave its port out.
    return not text or (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535)


def _unknown_option(address: str) -> str:
    """Names the option that was meant, not the one written, which may be part of a password with a `?`."""
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    try:
        given = [name for name, _ in parse_qsl(urlsplit(address).query, keep_blank_values=True)]
    except ValueError:
        return ""
    for name in given:
        if name not in known and (meant := did_you_mean(name, known, cutoff=0.75)):
            return f"; it has an option that PostgreSQL does not know{meant}"
    return ""
