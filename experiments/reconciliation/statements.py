"""The statements of these rules, beside this module."""

from pathlib import Path

from taskqueue.reconciliation.rules import sql_file

_SQL = Path(__file__).with_name("sql")


def statement(name: str) -> str:
    """The text of ``sql/NAME.sql`` without its opening comment."""
    return sql_file(_SQL / f"{name}.sql")
