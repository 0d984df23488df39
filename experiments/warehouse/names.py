"""Names of tables and columns as people write them: exact, else the only match in another case, else what exists."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Column, Table

_MOST_NAMES_TOLD = 20
_QUOTED_PART = re.compile(r'"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([^."`]+)')


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A table or view. ``path`` is outermost first; ``by_itself``: found by its last name alone."""

    path: tuple[str, ...]
    by_itself: bool = True

    @property
    def name(self) -> str:
        """As ``find_relation`` takes it."""
        return self.path[-1] if self.by_itself else self.full_name

    @property
    def full_name(self) -> str:
        return ".".join(map(_written, self.path))


def find_relation(relations: Sequence[Relation], name: str) -> Relation:
    """The relation that ``name`` means: a table's name, or schemas and table between dots, parts in double quotes or
    backticks where they contain dots.

    Raises ``DatasourceError``: ``table_missing`` with what exists, ``ambiguous_name`` with the candidates.
    """
    wanted = [(name,), *(parts for parts in [_parts(name)] if parts not in (None, (name,)))]
    for fold in (_as_it_is, str.casefold):
        for parts in wanted:
            found = [relation for relation in relations if _ends_with(relation, parts, fold)]
            preferred = [relation for relation in found if len(parts) > 1 or relation.by_itself] or found
            if len(preferred) == 1:
                return preferred[0]
            if preferred:
                raise DatasourceError(
                    f"the table {name!r} is ambiguous, it could be {_listed([r.full_name for r in preferred])}:"
                    " write the schema before its name",
                    field="datasource_table",
                    code="ambiguous_name",
                )
    raise DatasourceError(
        f"there is no table {name!r} that this datasource may read; "
        f"{_what_exists(name, [relation.name for relation in relations], 'table')}",
        field="datasource_table",
        code="table_missing",
    )


def find_column(table: Table, name: str) -> Column:
    """Raises ``DatasourceError``: ``column_missing`` with what exists, ``ambiguous_name`` with the candidates."""
    for fold in (_as_it_is, str.casefold):
        found = [column for column in table.columns if fold(column.name) == fold(name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise DatasourceError(
                f"the column {name!r} of {table.path[-1]!r} is ambiguous, it could be"
                f" {_listed([column.name for column in found])}: write it exactly",
                field=name,
                code="ambiguous_name",
            )
    raise DatasourceError(
        f"there is no column {name!r} in {table.path[-1]!r} that this datasource may read; "
        f"{_what_exists(name, [column.name for column in table.columns], 'column')}",
        field=name,
        code="column_missing",
    )


def _as_it_is(text: str) -> str:
    return text


def _written(part: str) -> str:
    """In quotation marks where it would be read as something else."""
    plain = _QUOTED_PART.fullmatch(part)
    return part if plain is not None and plain[3] is not None else '"' + part.replace('"', '""') + '"'


def _parts(name: str) -> tuple[str, ...] | None:
    """``None`` when the name is not of the form a.b.c."""
    parts: list[str] = []
    position = 0
    while found := _QUOTED_PART.match(name, position):
        double, backtick, plain = found.groups()
        parts.append(double.replace('""', '"') if double else backtick.replace("``", "`") if backtick else plain)
        position = found.end()
        if position == len(name):
            return tuple(parts)
        if name[position] != ".":
            return None
        position += 1
    return None


def _ends_with(relation: Relation, parts: Sequence[str], fold: Callable[[str], str]) -> bool:
    end = relation.path[-len(parts) :]
    return len(end) == len(parts) and all(fold(a) == fold(b) for a, b in zip(end, parts, strict=True))


def _what_exists(name: str, names: Sequence[str], kind: str) -> str:
    if not names:
        return f"there is no {kind} at all that it may see"
    near = difflib.get_close_matches(name.casefold(), [one.casefold() for one in names], n=_MOST_NAMES_TOLD, cutoff=0.5)
    ordered = sorted(names, key=lambda one: (near.index(one.casefold()) if one.casefold() in near else len(near), one))
    return f"its {kind}s are {_listed(ordered)}"


def _listed(names: Iterable[str]) -> str:
    listed = [repr(name) for name in names]
    more = len(listed) - _MOST_NAMES_TOLD
    return ", ".join(listed[:_MOST_NAMES_TOLD]) + (f" and {more} more" if more > 0 else "")
