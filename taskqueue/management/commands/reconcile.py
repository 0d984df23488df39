"""``manage.py reconcile run|plan|apply``: what does not fit is found, planned, and repaired when a person confirms."""

import getpass
import json
from pathlib import Path
from typing import Any, override

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import router
from django.db.utils import DatabaseError

from taskqueue.errors import ReconciliationError
from taskqueue.models import ReconciliationReport
from taskqueue.reconciliation.findings import KEPT_PER_RULE
from taskqueue.reconciliation.plans import opened, plan_of, read
from taskqueue.reconciliation.reading import RULE_SECONDS
from taskqueue.reconciliation.repairs import Applied, apply_plan
from taskqueue.reconciliation.reports import load, reconcile, summary
from taskqueue.redaction import redacted_text
from taskqueue.text import message_of

_FOUND = 1
_REFUSED = 1
_WRONG_USAGE = 2
_NO_REPORT = 3


class Command(BaseCommand):
    help = (
        "Compare stored records with what follows from others. `run` writes a report and repairs nothing; `plan` turns "
        "a report into repairs; `apply` makes those whose rows are still as the report saw them."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        words = parser.add_subparsers(dest="word", metavar="run|plan|apply", required=True)
        run = words.add_parser(
            "run", help="read everything; ends with 0 (nothing found), 1 (findings), 3 (could not read, no report)"
        )
        run.add_argument("--rule", action="append", metavar="NAME", help="this rule only; may be given several times")
        run.add_argument(
            "--keep", type=int, default=KEPT_PER_RULE, metavar="N", help="findings kept of each rule (%(default)s)"
        )
        run.add_argument(
            "--rule-seconds",
            type=float,
            default=RULE_SECONDS,
            metavar="S",
            help="how long the statements of one rule may take (%(default)g)",
        )
        run.add_argument("--json", action="store_true", help="the whole report as one JSON object")
        plan = words.add_parser("plan", help="turn a report into a plan of repairs (JSON)")
        plan.add_argument("report", help="the id that `run` printed")
        plan.add_argument("--rule", action="append", metavar="NAME", help="repairs of this rule only; several times")
        plan.add_argument(
            "-o", "--output", type=Path, metavar="FILE", help="write it there instead of to standard output"
        )
        apply = words.add_parser(
            "apply", help="make the repairs of a plan; ends with 0 (all made) or 1 (not confirmed, or some refused)"
        )
        apply.add_argument("plan", type=Path, help="the file that `plan` wrote")
        apply.add_argument(
            "--confirm", action="store_true", help="really do it; without it only say what would be done"
        )
        apply.add_argument("--actor", default=None, help="who is recorded as having done it (your login name)")
        apply.add_argument("--json", action="store_true", help="one JSON object a line, a repair each")

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        word = {"run": self._run, "plan": self._plan, "apply": self._apply}[options["word"]]
        try:
            word(options)
        except ReconciliationError as error:
            code = {"unknown_rule": _WRONG_USAGE, "stopped": _NO_REPORT, "rule_timeout": _NO_REPORT}.get(
                error.code, _REFUSED
            )
            raise CommandError(f"{error.code}: {_one_line(str(error))}", returncode=code) from error

    def _run(self, options: dict[str, Any]) -> None:
        if options["keep"] < 0 or options["rule_seconds"] <= 0:
            raise CommandError("--keep is 0 or more, and --rule-seconds more than 0", returncode=_WRONG_USAGE)
        try:
            report = reconcile(
                actor=f"command {_person()}",
                rules=options["rule"],
                kept=options["keep"],
                rule_seconds=options["rule_seconds"],
            )
        except DatabaseError as error:
            raise CommandError(
                f"read_failed: there is no report, since not everything could be read: "
                f"{_one_line(redacted_text(message_of(error)))}",
                returncode=_NO_REPORT,
            ) from error
        if options["json"]:
            self.stdout.write(json.dumps(summary(report), ensure_ascii=False))
        else:
            self._tell(report)
        if report.findings_count:
            # Said already; only the exit code is left.
            raise SystemExit(_FOUND)

    def _tell(self, report: ReconciliationReport) -> None:
        for finding in report.findings:
            self.stdout.write(
                _one_line(
                    f"{finding['severity']} {finding['rule']} {finding['table']} {_short(finding['subject'])}: "
                    f"expected {_short(finding['expected'])}, observed {_short(finding['observed'])}"
                )
            )
        for result in report.rules:
            if result["found"] > result["kept"]:
                self.stdout.write(f"{result['rule']}: {result['found']} found, {result['kept']} of them kept")
        self.stdout.write(f"{report.id}: {len(report.rules)} rules, {report.findings_count} findings")

    def _plan(self, options: dict[str, Any]) -> None:
        plan = plan_of(load(options["report"]), rules=options["rule"])
        text = json.dumps(plan, ensure_ascii=False, indent=2)
        if options["output"] is None:
            self.stdout.write(text)
            return
        try:
            options["output"].write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"the plan cannot be written: {error}", returncode=_REFUSED) from error
        self.stdout.write(f"{options['output']}: {len(plan['repairs'])} repairs, {len(plan['by_hand'])} left to people")

    def _apply(self, options: dict[str, Any]) -> None:
        alias = router.db_for_write(ReconciliationReport)
        plan = opened(read(options["plan"]), alias=alias)
        if not options["confirm"]:
            for planned in plan.repairs:
                self.stdout.write(
                    _one_line(f"would {planned.repair} {planned.table} {_short(planned.subject)} ({planned.rule})")
                )
            raise CommandError(
                f"not_confirmed: nothing was changed; --confirm makes these {len(plan.repairs)} repairs",
                returncode=_REFUSED,
            )
        done = refused = 0
        for applied in apply_plan(plan, actor=options["actor"] or _person(), alias=alias):
            done, refused = done + applied.done, refused + (not applied.done)
            self.stdout.write(_json(applied) if options["json"] else _line(applied))
        if refused:
            raise CommandError(f"repaired: {done}, refused: {refused}", returncode=_REFUSED)
        if not options["json"]:
            self.stdout.write(f"repaired: {done}, refused: 0")


def _json(applied: Applied) -> str:
    planned = applied.planned
    told = {
        "rule": planned.rule,
        "repair": planned.repair,
        "table": planned.table,
        "subject": planned.subject,
        "code": applied.code,
        "message": applied.message,
        "after": applied.after,
    }
    return json.dumps(told, ensure_ascii=False)


def _line(applied: Applied) -> str:
    planned = applied.planned
    what = f"{planned.repair} {planned.table} {_short(planned.subject)}"
    return _one_line(f"{what}: done" if applied.done else f"{what}: refused, {applied.code}: {applied.message}")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}…"


def _person() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def _one_line(text: str) -> str:
    """What rows say is other people's: what would move the cursor or turn the line around is shown as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
