"""The demo's five experiments, one of each type: created, filled with participants, and committed."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
from django.db import connection, transaction

from experiments.kinds import ExperimentType, FieldUse, PriorType, RewardType
from experiments.models import Organization
from experiments.operations.create import Created, NewArm, NewContext, NewExperiment, create_experiment
from experiments.operations.datasources import create_datasource
from experiments.operations.draw import draw_participant
from experiments.operations.lifecycle import commit_experiment
from experiments.operations.load import load_assignments
from experiments.operations.record import record_outcomes
from taskqueue.models import Webhook
from xngin_worker.demo.trials import population, stores, truth
from xngin_worker.demo.trials.population import CLICKS, Customers, Drawn
from xngin_worker.demo.trials.stores import customer_id, visitor_id

ORGANIZATION = "o_demo"
WINDOW_HOURS = 24
# Draws that are made by the rule of the bandit, one by one, besides those of days ago.
LIVE_DRAWS = 20
_COPY: LiteralString = "COPY draws (experiment_id, participant_id, arm_id, created_at, context_vals) FROM STDIN"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One experiment of the demo. ``arms`` are ids by name, ``webhook`` the task that tells of its commit."""

    name: str
    id: str
    kind: ExperimentType
    arms: dict[str, str]
    participants: int
    webhook: str


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What the experiments stand on: two datasources, and the webhook that is told of them."""

    duckdb: str
    postgresql: str
    webhook: str


def lay_ground(folder: Path, receiver: str) -> Ground:
    """``folder`` holds the DuckDB file; ``receiver`` is where webhooks go."""
    with transaction.atomic():
        Organization.objects.create(id=ORGANIZATION, name="Demo")
        webhook = Webhook.objects.create(organization_id=ORGANIZATION, name="demo", url=receiver)
        return Ground(
            duckdb=create_datasource(ORGANIZATION, "shop (DuckDB)", stores.duckdb_config(folder)),
            postgresql=create_datasource(ORGANIZATION, "shop (PostgreSQL)", stores.postgresql_config()),
            webhook=webhook.id,
        )


def prices(ground: Ground, customers: Customers) -> Trial:
    """Everybody was assigned before the start."""
    created = create_experiment(
        _new(
            ground,
            ExperimentType.FREQ_PREASSIGNED,
            "prices",
            datasource_id=ground.duckdb,
            datasource_table=stores.CUSTOMERS_TABLE,
            arms=[NewArm(name=name) for name in truth.PRICES_ARMS],
            fields=[("customer_id", FieldUse.UNIQUE_ID), *_metrics(truth.PRICES)],
        )
    )
    lines = (f"{number},{arm + 1}" for number, arm in enumerate(customers.prices_arm.tolist(), start=1))
    report = load_assignments(created.experiment_id, _file("participant_id,arm", lines))
    return _committed(created, ExperimentType.FREQ_PREASSIGNED, "prices", truth.PRICES_ARMS, report.loaded)


def sign_up(ground: Ground, customers: Customers) -> Trial:
    """Shops got one arm each: their customers are no independent observations, so the analysis is by clusters."""
    created = create_experiment(
        _new(
            ground,
            ExperimentType.FREQ_ONLINE,
            "sign-up form",
            datasource_id=ground.postgresql,
            datasource_table=f"{stores.SCHEMA}.{stores.CUSTOMERS_TABLE}",
            arms=[NewArm(name=name) for name in truth.SIGN_UP_ARMS],
            fields=[("customer_id", FieldUse.UNIQUE_ID), *_metrics(truth.SIGN_UP)],
            clustered=True,
        )
    )
    lines = (
        f"{customer_id(number)},{arm + 1},shop {shop}"
        for number, (arm, shop) in enumerate(
            zip(customers.sign_up_arm.tolist(), customers.shop.tolist(), strict=True), start=1
        )
    )
    report = load_assignments(created.experiment_id, _file("participant_id,arm,cluster_id", lines))
    return _committed(created, ExperimentType.FREQ_ONLINE, "sign-up form", truth.SIGN_UP_ARMS, report.loaded)


def buttons(ground: Ground, drawn: Drawn, rng: np.random.Generator) -> Trial:
    """Clicks are reported; a draw without one fails when its time is up."""
    created = create_experiment(
        _new(
            ground,
            ExperimentType.MAB_ONLINE,
            "buttons",
            datasource_id=ground.duckdb,
            arms=[NewArm(name=name, alpha_init=1, beta_init=9) for name in truth.BUTTON_RATES],
            prior_type=PriorType.BETA,
            reward_type=RewardType.BINARY,
            enable_autofail=True,
            autofail_window=WINDOW_HOURS,
        )
    )
    trial = _committed(created, ExperimentType.MAB_ONLINE, "buttons", tuple(truth.BUTTON_RATES), CLICKS + LIVE_DRAWS)
    _load(trial, drawn)
    record_outcomes(trial.id, _known(drawn))
    live = {_live_id(number): draw_participant(trial.id, _live_id(number), rng=rng) for number in range(LIVE_DRAWS)}
    record_outcomes(trial.id, {who: int(rng.random() < truth.BUTTON_RATES[one.arm_name]) for who, one in live.items()})
    return trial


def banner(ground: Ground, drawn: Drawn) -> Trial:
    """What an arm is worth stands in the warehouse, and is pulled from there."""
    created = create_experiment(
        _new(
            ground,
            ExperimentType.MAB_ONLINE_DWH,
            "banner",
            datasource_id=ground.postgresql,
            datasource_table=f"{stores.SCHEMA}.{stores.PURCHASES_TABLE}",
            arms=[NewArm(name=name, mu_init=20, sigma_init=10) for name in truth.BANNER_MEANS],
            fields=[("visitor_id", FieldUse.UNIQUE_ID), ("spent", FieldUse.METRIC)],
            prior_type=PriorType.NORMAL,
            reward_type=RewardType.REAL_VALUED,
            noise_sd=truth.BANNER_NOISE_SD,
        )
    )
    trial = _committed(created, ExperimentType.MAB_ONLINE_DWH, "banner", tuple(truth.BANNER_MEANS), CLICKS)
    _load(trial, drawn)
    return trial


def offers(ground: Ground, drawn: Drawn, rng: np.random.Generator) -> Trial:
    """Which offer is best depends on whom it is made to."""
    created = create_experiment(
        _new(
            ground,
            ExperimentType.CMAB_ONLINE,
            "offers",
            datasource_id=ground.duckdb,
            arms=[NewArm(name=name, mu_init=0, sigma_init=2) for name in truth.OFFER_WEIGHTS],
            contexts=[
                NewContext(name="constant", value_type=RewardType.BINARY),
                NewContext(name="age in decades"),
                NewContext(name="returning", value_type=RewardType.BINARY),
            ],
            prior_type=PriorType.NORMAL,
            reward_type=RewardType.BINARY,
            enable_autofail=True,
            autofail_window=WINDOW_HOURS,
        )
    )
    trial = _committed(created, ExperimentType.CMAB_ONLINE, "offers", tuple(truth.OFFER_WEIGHTS), CLICKS + LIVE_DRAWS)
    _load(trial, drawn)
    record_outcomes(trial.id, _known(drawn))
    bought = {}
    for number in range(LIVE_DRAWS):
        context = population.context(rng)
        one = draw_participant(trial.id, _live_id(number), context_vals=context, rng=rng)
        bought[one.participant_id] = int(rng.random() < truth.chance_of_purchase(one.arm_name, context))
    record_outcomes(trial.id, bought)
    return trial


def _new(ground: Ground, kind: ExperimentType, name: str, **fields: Any) -> NewExperiment:
    now = datetime.now(UTC)
    return NewExperiment(
        experiment_type=kind,
        name=name,
        start_date=now - timedelta(days=5),
        end_date=now + timedelta(days=25),
        webhook_ids=[ground.webhook],
        **fields,
    )


def _metrics(metrics: Sequence[truth.Metric]) -> list[tuple[str, FieldUse]]:
    return [(metric.name, FieldUse.METRIC) for metric in metrics]


def _file(header: str, lines: Any) -> io.BytesIO:
    return io.BytesIO("\n".join((header, *lines)).encode())


def _committed(created: Created, kind: ExperimentType, name: str, arms: Sequence[str], participants: int) -> Trial:
    committed = commit_experiment(created.experiment_id)
    return Trial(
        name=name,
        id=created.experiment_id,
        kind=kind,
        arms=dict(zip(arms, created.arm_ids, strict=True)),
        participants=participants,
        webhook=committed.task_ids[0],
    )


def _load(trial: Trial, drawn: Drawn) -> None:
    """Draws of the days before, made long ago by somebody else: with plain COPY."""
    ids = list(trial.arms.values())
    now = datetime.now(UTC)
    rows = zip(drawn.arm.tolist(), drawn.hours_ago.tolist(), drawn.contexts.tolist(), strict=True)
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        for number, (arm, hours_ago, context) in enumerate(rows, start=1):
            copy.write_row((trial.id, visitor_id(number), ids[arm], now - timedelta(hours=hours_ago), context or None))


def _known(drawn: Drawn) -> dict[str, float]:
    return {
        visitor_id(number): outcome
        for number, outcome in enumerate(drawn.outcome.tolist(), start=1)
        if outcome == outcome
    }


def _live_id(number: int) -> str:
    return f"live{number:03}"
