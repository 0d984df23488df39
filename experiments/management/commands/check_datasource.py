"""``manage.py check_datasource ID``: connects as the jobs do, and says what is there or what is wrong."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from experiments.errors import ExperimentError
from experiments.operations.datasources import open_datasource
from experiments.warehouse.columns import Family, Table
from experiments.warehouse.session import Warehouse

_ADVICE = {
    "config_invalid": "correct the datasource's config",
    "driver_missing": "install the driver where the worker runs",
    "address_refused": "let the operator allow the address, or name another host",
    "connection_failed": "check host, port, user and password, and that the warehouse may be reached from here",
    "permission_denied": "grant the role SELECT on the table and USAGE on its schema",
    "table_missing": "correct the name, or grant the role SELECT on the table",
    "ambiguous_name": "write the name exactly, with its schema",
    "timeout": "see what the warehouse is busy with, and try again",
    "secret_undecryptable": "put the key it was encrypted with behind the newest one in XNGIN_SECRET_KEYS",
    "no_warehouse": "give the datasource a config, unless its experiments need no warehouse",
}


class Command(BaseCommand):
    help = "Connect to a datasource and list its tables, or the columns of one table. Exits 1 when that fails."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", metavar="ID", help="id of the datasource")
        parser.add_argument("--table", metavar="NAME", help="list the columns of this table")
        parser.add_argument("--json", action="store_true", help="write one JSON object")

    def handle(self, *args: Any, id: str, table: str | None, json: bool, **options: Any) -> None:
        try:
            with open_datasource(id) as warehouse:
                found = _look(warehouse, table)
        except ExperimentError as error:
            self._fail(id, error, as_json=json)
        if json:
            self.stdout.write(_as_json({"datasource": id, "ok": True, **found}))
            return
        self.stdout.write(f"{id} answers ({found['engine']}).")
        if table is None:
            self.stdout.write(f"Tables that it may read: {len(found['tables'])}")
            for name in found["tables"]:
                self.stdout.write(f"  {_printable(name)}")
            return
        self.stdout.write(f"Columns of {_printable(found['table'])}:")
        for column in found["columns"]:
            self.stdout.write(f"  {_printable(column['name'])}  {_printable(column['type'])}  ({column['use']})")

    def _fail(self, id: str, error: ExperimentError, *, as_json: bool) -> None:
        advice = _ADVICE.get(error.code)
        if as_json:
            problem = {"code": error.code, "field": error.field, "message": str(error), "advice": advice}
            self.stdout.write(_as_json({"datasource": id, "ok": False, "problem": problem}))
        else:
            self.stderr.write(f"{id}: {error} ({error.code})" + (f"\nWhat to do: {advice}." if advice else ""))
        sys.exit(1)


def _look(warehouse: Warehouse, table: str | None) -> dict[str, Any]:
    engine = warehouse.dialect.value
    if table is None:
        return {"engine": engine, "tables": list(warehouse.tables())}
    described = warehouse.describe(table)
    return {"engine": engine, "table": ".".join(described.path), "columns": _columns(described)}


def _columns(table: Table) -> list[dict[str, str]]:
    return [{"name": column.name, "type": column.native, "use": _use(column.family)} for column in table.columns]


def _use(family: Family) -> str:
    """What an experiment can do with such a column."""
    match family:
        case Family.BOOLEAN:
            return "metric"
        case Family.INTEGER | Family.DECIMAL | Family.DOUBLE:
            return "metric or participants' ids"
        case Family.TEXT | Family.UUID:
            return "participants' ids"
    return "neither metric nor ids"


def _printable(name: str) -> str:
    """Whoever names a table must not steer the operator's terminal."""
    return name if name.isprintable() else repr(name)


def _as_json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
