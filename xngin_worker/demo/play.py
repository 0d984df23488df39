"""One run of the demo from its first step to its end, and the exit code that follows from it."""

from __future__ import annotations

import contextlib
import logging
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import django.db
import psycopg
from django.urls import reverse

from taskqueue.lifecycle import Status
from xngin_worker.demo import administrator as administrators
from xngin_worker.demo import stage
from xngin_worker.demo.administrator import Administrator
from xngin_worker.demo.children import Children, ending
from xngin_worker.demo.encore import Encore, insert_command
from xngin_worker.demo.interruption import DeadlinePassed, Interruption, Stopped
from xngin_worker.demo.kinds import DOOMED
from xngin_worker.demo.receiver import Receiver
from xngin_worker.demo.screen import Screen
from xngin_worker.demo.steps import DemoFailed, Step, StepFailed, Steps
from xngin_worker.demo.story import Story, check_page, new_id, page_of
from xngin_worker.demo.trials import removal
from xngin_worker.demo.trials.upkeep import Upkeep
from xngin_worker.embedded_postgres import EmbeddedPostgresError
from xngin_worker.environment import DATA_FOLDER, PROJECT_FOLDER

FAILED = 1
_SIGNALLED = 128
_SET_UP_SECONDS = 120.0
_SCENE_SECONDS = 30.0
# Five experiments and their jobs share two cores with everything else, on the smallest machines.
_TRIALS_SECONDS = 120.0
_END_SECONDS = 20.0
_LOGS_KEPT_SECONDS = 7 * 86_400


class Play:
    """`run` once, from the main thread of a process of its own."""

    def __init__(self, *, once: bool, administrator: Administrator) -> None:
        self._once = once
        self._administrator = administrator
        self._screen = Screen()
        self._interruption = Interruption()
        self._steps = Steps(interruption=self._interruption, busy=self._screen.busy, told=self._screen.result)
        self._logs = folder_for_logs(DATA_FOLDER / "demo")
        self._children = Children(folder=self._logs, interruption=self._interruption)
        self._is_going_on = False
        self._has_account = False
        self._has_trials = False

    def run(self) -> int:
        """The exit code: 0 after every step has passed and, unless `once`, after somebody ended the demo."""
        self._interruption.install()
        with _log_lines_in(self._logs / "demo.log"):
            code = self._perform_and_end()
        if code != FAILED:
            shutil.rmtree(self._logs, ignore_errors=True)
        return code

    def _perform_and_end(self) -> int:
        started = time.monotonic()
        code = 0
        with contextlib.ExitStack() as stack:
            try:
                self._perform(stack)
            except Stopped as stopped:
                # Ending it is how a demo that goes on is meant to end; before that, it was broken off.
                code = 0 if self._is_going_on else _SIGNALLED + stopped.number
            except DemoFailed as failure:
                code = FAILED
                self._explain(failure)
            except (StepFailed, psycopg.Error) as error:
                code = FAILED
                self._explain(DemoFailed("going on", " ".join(str(error).split())))
            finally:
                self._interruption.end()
                code = self._end(code)
        if self._once:
            self._summarize(time.monotonic() - started)
        return code

    def _perform(self, stack: contextlib.ExitStack) -> None:
        screen, administrator = self._screen, self._administrator
        screen.heading("xngin-worker: a task queue and experiments at work")
        with self._set_up("database") as step:
            watching = stack.enter_context(contextlib.closing(stage.connect()))
            step.remark = stage.describe_database()
        with self._set_up("migrations") as step:
            step.remark = stage.migrate()
        with self._set_up("administrator") as step:
            self._has_account = True
            step.remark = administrators.make(administrator)
        with self._set_up("receiver") as step:
            receiver = stack.enter_context(Receiver())
            step.remark = receiver.url
        upkeep = Upkeep(
            screen=screen, connection=watching, children=self._children, receiver=receiver, folder=self._logs
        )
        with self._set_up("warehouses") as step:
            self._has_trials = True
            step.remark = upkeep.warehouses()
        with self._set_up("site") as step:
            site = stage.start_site(self._children)
            stage.check_site(site)
            step.remark = site.url
        with self._set_up("worker") as step:
            step.remark = stage.start_worker(self._children, watching)
        since: datetime = watching.execute("SELECT clock_timestamp()").fetchall()[0][0]

        story = Story(screen=screen, connection=watching, children=self._children, receiver=receiver)
        webhook, flaky, doomed = new_id(), new_id(), new_id()
        with self._scene("webhook", "1. Another program inserts a row, in plain SQL") as step:
            step.remark = story.webhook(webhook)
        with self._scene("retries", "2. A handler fails twice, then succeeds") as step:
            step.remark = story.flaky(flaky)
        with self._scene("dead task", "3. A handler fails for good") as step:
            step.remark = story.doomed(doomed)
        beginning = "4. Five experiments begin, with participants of the last days"
        with self._scene("experiments", beginning, within_seconds=_TRIALS_SECONDS) as step:
            step.remark = upkeep.begin()
        upkept = "5. Jobs take snapshots, pull outcomes, and fail draws whose time is up"
        with self._scene("jobs", upkept, within_seconds=_TRIALS_SECONDS) as step:
            step.remark = upkeep.jobs()
        with self._scene("estimates", "6. What the snapshots say, beside the truth of the simulation") as step:
            step.remark = upkeep.estimates()
        screen.heading("7. What is left of it")
        with self._set_up("counts") as step:
            step.remark = upkeep.counts()
        with self._set_up("webhooks") as step:
            step.remark = upkeep.webhooks()
        with self._set_up("exactly once") as step:
            step.remark = story.check_once(webhook)
        with self._set_up("admin page") as step:
            step.remark = check_page(site, administrator, doomed, (Status.DEAD, DOOMED))
        if not self._once:
            self._say_where(site, receiver, doomed)
            known = {webhook, flaky, doomed, *(trial.webhook for trial in upkeep.trials)}
            self._go_on(watching, receiver, since, known)

    def _set_up(self, name: str) -> contextlib.AbstractContextManager[Step]:
        return self._steps.step(name, within_seconds=_SET_UP_SECONDS)

    @contextlib.contextmanager
    def _scene(self, name: str, heading: str, *, within_seconds: float = _SCENE_SECONDS) -> Iterator[Step]:
        self._screen.heading(heading)
        with self._steps.step(name, within_seconds=within_seconds, quiet=True) as step:
            yield step
            self._screen.line()

    def _go_on(self, watching: psycopg.Connection, receiver: Receiver, since: datetime, known: set[str]) -> None:
        screen = self._screen
        same = "" if stage.is_embedded() else " with the same DATABASE_URL"
        screen.heading(f"Insert a task of your own, in another terminal{same}:")
        screen.line(insert_command(receiver.url), "cyan")
        screen.heading("This goes on, and shows such tasks here, until Ctrl-C.")
        self._is_going_on = True
        Encore(
            screen=screen, connection=watching, children=self._children, receiver=receiver, since=since, known=known
        ).watch()

    def _say_where(self, site: stage.Site, receiver: Receiver, dead: str) -> None:
        self._screen.heading("Where to look")
        self._screen.pairs(
            [
                ("the admin", site.address(reverse("admin:index"))),
                ("name", self._administrator.name),
                ("password", self._administrator.password),
                ("the dead task", site.address(page_of(dead))),
                ("the receiver", receiver.url),
                ("the jobs", f"DJANGO_SETTINGS_MODULE={stage.SETTINGS} {PROJECT_FOLDER / 'run'} show_schedule"),
            ]
        )

    def _explain(self, failure: DemoFailed) -> None:
        screen = self._screen
        screen.line()
        screen.line(f'The step "{failure.step}" failed: {failure.reason.rstrip(".")}.', "red")
        for child in self._children.ended:
            screen.line(f"The last lines of {child.log}:")
            screen.block("\n".join(child.last_lines()), "dim")
        screen.line(f"All logs of this run are in {self._logs}.")

    def _end(self, code: int) -> int:
        """End what was started; the exit code, which is a failure now when a process would not end well."""
        started = time.monotonic()
        self._screen.line()
        try:
            with self._interruption.deadline(_END_SECONDS):
                codes = self._children.stop()
                self._remove_account()
                self._end_trials()
        except (DeadlinePassed, subprocess.TimeoutExpired):
            logging.getLogger(__name__).exception("the end of the demo is stuck")
            self._explain(DemoFailed("end", f"not everything has ended after {_END_SECONDS:g} seconds"))
            return FAILED
        unwilling = [f"the {name} ended {ending(number)}" for name, number in codes.items() if number != 0]
        if unwilling and code == 0:
            self._explain(DemoFailed("end", ", ".join(unwilling)))
            return FAILED
        if codes:
            self._screen.line(f"All processes ended, in {time.monotonic() - started:.1f} s.")
        return code

    def _remove_account(self) -> None:
        if self._has_account:
            # The database may be what failed.
            with contextlib.suppress(django.db.Error, EmbeddedPostgresError):
                administrators.remove(self._administrator)

    def _end_trials(self) -> None:
        """Their results stay in the tables until the next demo; no worker goes on with them."""
        if self._has_trials:
            with contextlib.suppress(django.db.Error, EmbeddedPostgresError):
                removal.end()
        django.db.connections.close_all()

    def _summarize(self, seconds: float) -> None:
        self._screen.heading("Summary")
        for result in self._steps.results:
            self._screen.result(result)
        failed = [result.name for result in self._steps.results if not result.passed]
        self._screen.line()
        if failed:
            self._screen.line(f'Failed in the step "{failed[0]}", after {seconds:.1f} s.', "bold red")
        else:
            self._screen.line(f"All {len(self._steps.results)} steps passed, in {seconds:.1f} s.", "bold green")


def folder_for_logs(parent: Path) -> Path:
    """A folder for this run alone. Runs that ended well take theirs away; those of others go when they are old."""
    parent.mkdir(parents=True, exist_ok=True)
    for other in parent.iterdir():
        if time.time() - other.stat().st_mtime > _LOGS_KEPT_SECONDS:
            shutil.rmtree(other, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{time.strftime('%Y%m%d-%H%M%S')}-", dir=parent))


@contextlib.contextmanager
def _log_lines_in(path: Path) -> Iterator[None]:
    """The lines that this process logs go to a file: what people see is told by the screen alone."""
    root = logging.getLogger()
    before = root.handlers[:]
    handler = logging.FileHandler(path, delay=True)
    for other in before:
        handler.setFormatter(other.formatter)
    root.handlers[:] = [handler]
    try:
        yield
    finally:
        root.handlers[:] = before
        handler.close()
