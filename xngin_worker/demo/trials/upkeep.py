"""The scenes of the experiments: they begin, the worker's jobs keep them up to date, and the numbers are checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from django.db import transaction

from experiments.kinds import ExperimentType, Job
from xngin_worker.demo.children import Children
from xngin_worker.demo.receiver import Receiver
from xngin_worker.demo.screen import Screen, elapsed
from xngin_worker.demo.steps import StepFailed
from xngin_worker.demo.trials import experiments, population, record, removal, stores
from xngin_worker.demo.trials.experiments import Trial
from xngin_worker.demo.trials.population import CUSTOMERS, SHOPS, UNKNOWN_CUSTOMERS, Customers, Drawn
from xngin_worker.demo.trials.record import Run
from xngin_worker.demo.trials.verdict import Judged, judge

_LOOK_AGAIN_SECONDS = 0.1


@dataclass(kw_only=True)
class Upkeep:
    """Each scene returns what is to be said of it, or raises `StepFailed`. `folder` is where DuckDB's file goes."""

    screen: Screen
    connection: psycopg.Connection
    children: Children
    receiver: Receiver
    folder: Path
    trials: Sequence[Trial] = ()
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(population.SEED))
    _customers: Customers | None = None
    _banner: Drawn | None = None
    _shown: set[str] = field(default_factory=set)

    def warehouses(self) -> str:
        """What a customer has before the first experiment."""
        removal.remove_earlier()
        self._customers, self._banner = population.customers(self._rng), population.banner(self._rng)
        stores.write_duckdb(self.folder, self._customers)
        stores.write_postgresql(self.connection, self._customers, self._banner)
        return f"{CUSTOMERS - UNKNOWN_CUSTOMERS:,} customers in a DuckDB file, and as many in PostgreSQL"

    def begin(self) -> str:
        """Create, fill and commit all five. What of one is seen before all of it is there would be no fair sample."""
        if self._customers is None or self._banner is None:
            raise StepFailed("there are no warehouses yet")
        customers, banner, rng = self._customers, self._banner, self._rng
        ground = experiments.lay_ground(self.folder, self.receiver.url)
        makers: Sequence[Callable[[], Trial]] = (
            lambda: experiments.prices(ground, customers),
            lambda: experiments.sign_up(ground, customers),
            lambda: experiments.buttons(ground, population.buttons(rng), rng),
            lambda: experiments.banner(ground, banner),
            lambda: experiments.offers(ground, population.offers(rng), rng),
        )
        trials = []
        for make in makers:
            with transaction.atomic():
                trial = make()
            trials.append(trial)
            unit = "draws" if trial.kind.is_bandit else "participants"
            self.screen.line(f"  {trial.name:<14} {trial.kind:<18} {trial.participants:>6,} {unit}   {trial.id}")
            self.children.pause(0)
        self.trials = tuple(trials)
        return f"{len(trials)} experiments, one of each type"

    def jobs(self) -> str:
        """Show the runs as they end, until each job has done its work on every type that it is made for."""
        started = time.monotonic()
        while True:
            ended = record.runs(self.connection, [trial.id for trial in self.trials])
            for run in ended:
                self._show(run)
            if self._is_done(ended):
                counts = {job: sum(run.job == job for run in ended) for job in Job}
                told = ", ".join(f"{count} {job}" for job, count in counts.items())
                return f"{told} in {elapsed(time.monotonic() - started)}"
            self.children.pause(_LOOK_AGAIN_SECONDS)

    def webhooks(self) -> str:
        """Each experiment was told of once."""
        while not all(self.receiver.of_task(trial.webhook) for trial in self.trials):
            self.children.pause(_LOOK_AGAIN_SECONDS)
        for trial in self.trials:
            if (count := len(self.receiver.of_task(trial.webhook))) != 1:
                raise StepFailed(f"the receiver was told {count} times that {trial.name} was created")
        return f"experiment.created arrived once for each of {len(self.trials)}"

    def estimates(self) -> str:
        """The newest snapshots beside the truth."""
        judged: list[Judged] = []
        for trial in self.trials:
            data = self._newest(trial)
            contexts = record.contexts(self.connection, trial.id) if trial.kind.has_contexts else ()
            self.screen.line(f"  {trial.name}", "bold")
            for one in judge(trial.kind, data, contexts):
                judged.append(one)
                self.screen.line(f"    {one}", "" if one.holds else "yellow")
        if far := [str(one) for one in judged if one.is_far_off]:
            raise StepFailed(f"far from the truth: {'; '.join(far)}")
        holding = sum(one.holds for one in judged)
        # Of 19 intervals of 95 % five miss in one of 2,000 demos.
        if holding < len(judged) - 4:
            raise StepFailed(f"only {holding} of {len(judged)} intervals of 95 % hold the truth")
        return f"{holding} of {len(judged)} intervals of 95 % hold what the simulation knows to be true"

    def counts(self) -> str:
        """What the snapshots count is what the tables hold, and each outcome was counted once."""
        for trial in self.trials:
            counts = self._newest(trial)["counts"]
            if trial.kind.is_bandit:
                self._check_draws(trial, counts)
            else:
                _expect(trial, "assigned", counts["n_assigned"], record.assigned(self.connection, trial.id))
                _expect(trial, "assigned", counts["n_assigned"], trial.participants)
                _expect(trial, "not in the warehouse", counts["n_not_in_warehouse"], UNKNOWN_CUSTOMERS)
                _expect(trial, "ambiguous", counts["n_ambiguous"], 0)
        return f"{2 * CUSTOMERS:,} participants in {SHOPS} shops, and all draws, are accounted for"

    def _check_draws(self, trial: Trial, counts: dict[str, int]) -> None:
        stored = record.draws(self.connection, trial.id)
        _expect(trial, "draws", counts["n_draws"], stored.drawn)
        _expect(trial, "outcomes", counts["n_outcomes"], stored.settled)
        _expect(trial, "automatic outcomes", counts["n_autofailed"], stored.autofailed)
        _expect(trial, "draws", counts["n_draws"], trial.participants)
        if trial.kind is ExperimentType.MAB_ONLINE:
            _expect(
                trial, "outcomes in the posteriors", round(record.learned(self.connection, trial.id)), stored.settled
            )

    def _newest(self, trial: Trial) -> dict[str, Any]:
        found = record.newest(self.connection, trial.id)
        if found is None:
            raise StepFailed(f"{trial.name} has no snapshot")
        return found

    def _is_done(self, ended: Sequence[Run]) -> bool:
        """Each has had every job that it can have, and a snapshot after that."""
        done = [run for run in ended if run.status == "success"]
        return all(
            is_kept_up(trial.kind, [Job(run.job) for run in done if run.experiment_id == trial.id])
            for trial in self.trials
        )

    def _show(self, run: Run) -> None:
        if run.id in self._shown:
            return
        self._shown.add(run.id)
        name = next(trial.name for trial in self.trials if trial.id == run.experiment_id)
        counts = ", ".join(f"{key} {value:,}" for key, value in (run.counts or {}).items() if value)
        self.screen.line(f"  {run.job:<10} {name:<14} {run.status:<8} {elapsed(run.seconds):>8}   {counts}")
        if run.status == "failed":
            raise StepFailed(f"{run.job} of {name} failed: {run.message}")


def is_kept_up(kind: ExperimentType, done: Sequence[Job]) -> bool:
    """``done`` are the jobs that succeeded, those that ended first first."""
    others = [job for job in Job if job is not Job.SNAPSHOT and job.applies_to(kind)]
    if not all(job in done for job in (*others, Job.SNAPSHOT)):
        return False
    return Job.SNAPSHOT in done[max((done.index(job) for job in others), default=0) :]


def _expect(trial: Trial, what: str, told: object, stored: object) -> None:
    if told != stored:
        raise StepFailed(f"{trial.name}: the snapshot counts {told} {what}, the table {stored}")
