"""Rules: what must hold between rows, how one sees that it does not, and what is to be done then. Words, no database.

An app declares its checks once, in a module ``reconciliation_rules`` that is imported at start. A check is one
statement and a pure function over its rows; it judges one rule, or several that the same rows tell of.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from taskqueue.errors import ReconciliationError

type Row = Mapping[str, Any]


class Kind(StrEnum):
    MISSING = "missing"  # what should be there is not
    DUPLICATE = "duplicate"  # there is more than one of what should be there once
    STALE = "stale"  # it was right once
    INCONSISTENT = "inconsistent"  # two records cannot both be right


class Severity(StrEnum):
    CRITICAL = "critical"  # numbers or outcomes that people decide by may be wrong
    ERROR = "error"  # something will not happen, or happens twice
    WARNING = "warning"  # a person should look


@dataclass(frozen=True, kw_only=True)
class Found:
    """One row (or group) that breaks ``rule``. ``subject`` names it in the rule's table.

    ``before`` is what a repair would change, as it is now; None where only a person can mend it.
    """

    rule: str
    subject: Mapping[str, Any]
    expected: Any
    observed: Any
    before: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Order:
    """One repair as asked for: of which row, what it must still be, for which finding, and by whom."""

    rule: str
    report: str
    subject: Mapping[str, Any]
    before: Mapping[str, Any]
    actor: str

    @property
    def reason(self) -> str:
        return f"reconciliation {self.report}: {self.rule}"


@dataclass(frozen=True, kw_only=True)
class Repair:
    """``apply`` runs in a transaction of its own: it locks the row, compares ``before``, and answers what it wrote.

    It raises ``RepairRefused`` where the row is no longer as it was. ``recorded`` says that it leaves its own record
    (a move of a task does, in ``task_transitions``); else an event is written for it.
    """

    name: str
    text: str
    apply: Callable[[Order], Mapping[str, Any]]
    recorded: bool = False


@dataclass(frozen=True, kw_only=True)
class Rule:
    """``guidance`` is for people: what to do, also where there is no ``repair`` or it does not fit."""

    name: str
    kind: Kind
    severity: Severity
    table: str
    meaning: str
    arises: str
    guidance: str
    repair: Repair | None = None


type Judge = Callable[[Iterable[Row]], Iterator[Found]]


@dataclass(frozen=True, kw_only=True)
class Check:
    """``statement`` gives rows, in chunks; ``judge`` says which break which rule, and keeps no more than it must.

    ``each`` gives one text a row; then the statement runs once for each of them, as ``%(scope)s``, so that none takes
    longer the larger the whole is.
    """

    rules: tuple[Rule, ...]
    statement: str
    judge: Judge
    each: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


class Registry:
    """Rules by name, in the order of their declaration. A second rule of a name is refused."""

    def __init__(self) -> None:
        self._checks: list[Check] = []
        self._rules: dict[str, Rule] = {}

    @property
    def rules(self) -> Mapping[str, Rule]:
        return MappingProxyType(self._rules)

    def add(self, check: Check) -> None:
        for rule in check.rules:
            if rule.name in self._rules:
                raise ReconciliationError("rule_twice", f"the rule {rule.name!r} is declared twice; rename one of them")
        self._checks.append(check)
        self._rules.update({rule.name: rule for rule in check.rules})

    def checks(self, names: Iterable[str] | None = None) -> list[Check]:
        """Those that judge any of these rules, or all. Raises ``ReconciliationError`` for a name that is none."""
        if names is None:
            return list(self._checks)
        wanted = set(names)
        unknown = sorted(wanted - self._rules.keys())
        if unknown:
            raise ReconciliationError(
                "unknown_rule", f"there is no rule {', '.join(unknown)}; the rules are {', '.join(self._rules)}"
            )
        return [check for check in self._checks if any(rule.name in wanted for rule in check.rules)]


registry = Registry()


def declare(*checks: Check) -> None:
    for check in checks:
        registry.add(check)


@cache
def sql_file(path: Path) -> str:
    """The text of a statement without its opening comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    while lines and lines[0].startswith("--"):
        del lines[0]
    return "\n".join(lines)


def table(prefix: str = "", rules: Mapping[str, Rule] | None = None) -> str:
    """The rules whose names begin with ``prefix`` as Markdown, for the page that explains them."""
    parts = []
    for rule in (registry.rules if rules is None else rules).values():
        if not rule.name.startswith(prefix):
            continue
        repair = rule.repair.text if rule.repair else "none; a person must."
        parts.append(
            f"### {rule.name}\n\n{rule.kind}, {rule.severity}, rows of `{rule.table}`.\n\n"
            f"- **Holds:** {rule.meaning}\n- **Breaks when:** {rule.arises}\n- **Repair:** {repair}\n"
            f"- **What to do:** {rule.guidance}\n"
        )
    return "\n".join(parts)
