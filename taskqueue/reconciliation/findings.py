"""What a reconciliation found, as it is stored, printed and planned from. Secrets are masked before it is kept."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Self

from taskqueue.reconciliation.rules import Found, Rule
from taskqueue.redaction import redacted

KEPT_PER_RULE = 200
_LONGEST_TEXT = 1_000


@dataclass(frozen=True, kw_only=True)
class Finding:
    """All values are JSON."""

    rule: str
    kind: str
    severity: str
    table: str
    subject: Mapping[str, Any]
    expected: Any
    observed: Any
    guidance: str
    repair: str | None
    before: Mapping[str, Any] | None

    @classmethod
    def of(cls, rule: Rule, found: Found) -> Self:
        repairable = rule.repair is not None and found.before is not None
        return cls(
            rule=rule.name,
            kind=rule.kind.value,
            severity=rule.severity.value,
            table=rule.table,
            subject=_clean(found.subject),
            expected=_clean(found.expected),
            observed=_clean(found.observed),
            guidance=rule.guidance,
            repair=rule.repair.name if rule.repair is not None and repairable else None,
            before=_clean(found.before) if repairable else None,
        )


@dataclass(frozen=True, kw_only=True)
class RuleResult:
    """``rows`` came from the statement that judges the rule; ``found`` is the true count, of which some are kept."""

    rule: str
    rows: int
    found: int
    kept: int


@dataclass(frozen=True, kw_only=True)
class Reading:
    """All that one reading of the database tells, as of ``snapshot_at`` by the database's clock."""

    snapshot_at: datetime
    results: tuple[RuleResult, ...]
    findings: tuple[Finding, ...]

    @property
    def found(self) -> int:
        return sum(result.found for result in self.results)

    def severities(self) -> dict[str, int]:
        """How many of each severity were found, counting those that are not kept."""
        severity = {finding.rule: finding.severity for finding in self.findings}
        counts: dict[str, int] = {}
        for result in self.results:
            if result.found:
                name = severity[result.rule]
                counts[name] = counts.get(name, 0) + result.found
        return counts


class Tally:
    """Findings of one rule: all are counted, the first ones kept."""

    def __init__(self, rule: Rule, *, kept: int = KEPT_PER_RULE) -> None:
        self.rule = rule
        self.count = 0
        self.findings: list[Finding] = []
        self._room = kept

    def add(self, found: Found) -> None:
        self.count += 1
        if len(self.findings) < self._room:
            self.findings.append(Finding.of(self.rule, found))


def as_json(value: Any) -> Any:
    """A value of the database as JSON, exactly: what is compared when a repair asks whether a row is still the same."""
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case Decimal():
            # 1 and 1.0 are the same number; exponents are not for people.
            return format(value.normalize(), "f") if value.is_finite() else str(value)
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case Mapping():
            return {str(name): as_json(item) for name, item in value.items()}
        case str() | int() | float() | bool() | None:
            return value
        case Iterable():
            return [as_json(item) for item in value]
        case _:
            return str(value)


def _clean(value: Any) -> Any:
    return redacted(as_json(value), longest_text=_LONGEST_TEXT)
