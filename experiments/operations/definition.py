"""What a caller says of an experiment to create, and everything that can be wrong with it, field by field."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from experiments.errors import InvalidInput
from experiments.kinds import ExperimentType, FieldUse, Job, PriorType, RewardType
from experiments.models import FilterRelation
from taskqueue.text import problem_of_name, storable_json

LARGEST_WEIGHT = 1_000_000
LONGEST_WINDOW_HOURS = 87_600
LARGEST_PRIOR = 1e50
_LONGEST_DESCRIPTION = 10_000
_CALENDAR = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC))

type Problem = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class NewArm:
    """``weight`` is relative to the other arms'. Beta priors: ``alpha_init``, ``beta_init``. Normal priors:
    ``mu_init`` and ``sigma_init``, the mean and the standard deviation of each coefficient."""

    name: str
    description: str = ""
    weight: float = 1.0
    alpha_init: float | None = None
    beta_init: float | None = None
    mu_init: float | None = None
    sigma_init: float | None = None


@dataclass(frozen=True, kw_only=True)
class NewContext:
    """``binary`` values are 0 or 1. A constant term, where one is wanted, is a context that is always 1."""

    name: str
    description: str = ""
    value_type: RewardType = RewardType.REAL_VALUED

    def __post_init__(self) -> None:
        _coerce(self, "value_type", RewardType)


@dataclass(frozen=True, kw_only=True)
class NewFilter:
    """``value`` lists what is included or excluded, or the two bounds of ``between`` (None: open)."""

    field_name: str
    relation: str
    value: Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class NewExperiment:
    """The first arm is the baseline. ``fields`` are pairs of a column and its use; metrics keep their order.

    ``autofail_window`` is in hours; ``noise_sd`` is the standard deviation of one outcome around its mean.
    Kinds may be given as their texts; one that is not known raises ``InvalidInput`` at once.
    """

    datasource_id: str
    experiment_type: ExperimentType
    name: str
    start_date: datetime
    end_date: datetime
    arms: Sequence[NewArm]
    description: str = ""
    contexts: Sequence[NewContext] = ()
    datasource_table: str | None = None
    fields: Sequence[tuple[str, FieldUse]] = ()
    filters: Sequence[NewFilter] = ()
    webhook_ids: Sequence[str] = ()
    clustered: bool = False
    prior_type: PriorType | None = None
    reward_type: RewardType | None = None
    noise_sd: float | None = None
    enable_autofail: bool = False
    autofail_window: int = 24
    autofail_outcome_value: float = 0.0
    alpha: float = 0.05
    power: float = 0.8
    desired_n: int | None = None

    def __post_init__(self) -> None:
        _coerce(self, "experiment_type", ExperimentType)
        _coerce(self, "prior_type", PriorType)
        _coerce(self, "reward_type", RewardType)
        pairs = tuple((name, _kind("fields", use, FieldUse)) for name, use in self.fields)
        object.__setattr__(self, "fields", pairs)


def problems_of(new: NewExperiment) -> list[Problem]:
    """All that is wrong with ``new`` as it stands, without a look into the database."""
    return [
        *_general(new),
        *_arms(new),
        *_contexts(new),
        *_rewards(new),
        *_autofail(new),
        *_warehouse(new),
        *_filters(new),
    ]


def _coerce(value: object, name: str, kind: type[StrEnum]) -> None:
    """Turn a field that holds the text of a kind into the kind. None stays."""
    given = getattr(value, name)
    if given is not None:
        object.__setattr__(value, name, _kind(name, given, kind))


def _kind[Kind: StrEnum](name: str, given: object, kind: type[Kind]) -> Kind:
    try:
        return kind(str(given))
    except ValueError as error:
        known = ", ".join(kind)
        raise InvalidInput(f"{name} must be one of {known}, not {given!r}", field=name) from error


def _general(new: NewExperiment) -> Iterator[Problem]:
    yield from _name("name", new.name)
    yield from _text("description", new.description)
    for name in ("start_date", "end_date"):
        instant = getattr(new, name)
        if not isinstance(instant, datetime) or instant.tzinfo is None:
            yield name, "must be an instant with a time zone"
        elif not _CALENDAR[0] <= instant < _CALENDAR[1]:
            yield name, "must lie between the years 1970 and 9000"
        elif name == "end_date" and _is_aware(new.start_date) and instant < new.start_date:
            yield name, "must not lie before start_date"
    for name in ("alpha", "power"):
        if not _is_number(getattr(new, name)) or not 0 < getattr(new, name) < 1:
            yield name, "must be a number between 0 and 1"
    if new.desired_n is not None and (not _is_whole(new.desired_n) or not 0 < new.desired_n < 2**31):
        yield "desired_n", "must be a whole number above 0"
    if new.clustered and new.experiment_type.is_bandit:
        yield "clustered", "only experiments that assign by weights can be clustered; bandits draw one by one"
    yield from _repeated("webhook_ids", new.webhook_ids)


def _arms(new: NewExperiment) -> Iterator[Problem]:
    if len(new.arms) < 2:
        yield "arms", "an experiment compares at least two arms; the first is the baseline"
    yield from _repeated("arms", [arm.name for arm in new.arms])
    for number, arm in enumerate(new.arms):
        place = f"arms[{number}]"
        yield from _name(f"{place}.name", arm.name)
        yield from _text(f"{place}.description", arm.description)
        if not _is_number(arm.weight) or not 0 < arm.weight <= LARGEST_WEIGHT:
            yield f"{place}.weight", f"must be a number above 0, at most {LARGEST_WEIGHT}"
        for name in ("alpha_init", "beta_init"):
            yield from _prior(place, arm, name, wanted=new.prior_type is PriorType.BETA, positive=True)
        for name in ("mu_init", "sigma_init"):
            yield from _prior(place, arm, name, wanted=new.prior_type is PriorType.NORMAL, positive=name != "mu_init")


def _prior(place: str, arm: NewArm, name: str, *, wanted: bool, positive: bool) -> Iterator[Problem]:
    value = getattr(arm, name)
    kind = "beta" if name in ("alpha_init", "beta_init") else "normal"
    if not wanted:
        if value is not None:
            yield f"{place}.{name}", f"belongs to prior_type {kind} only; leave it out"
    elif value is None:
        yield f"{place}.{name}", f"prior_type {kind} needs it"
    elif not _is_number(value) or abs(value) > LARGEST_PRIOR or (positive and value <= 0):
        above = "above 0, " if positive else ""
        yield f"{place}.{name}", f"must be a finite number {above}at most {LARGEST_PRIOR:g}"


def _contexts(new: NewExperiment) -> Iterator[Problem]:
    if new.experiment_type.has_contexts and not new.contexts:
        yield "contexts", "a contextual bandit needs at least one"
    if new.contexts and not new.experiment_type.has_contexts:
        yield "contexts", "only contextual bandits have contexts"
    yield from _repeated("contexts", [context.name for context in new.contexts])
    for number, context in enumerate(new.contexts):
        yield from _name(f"contexts[{number}].name", context.name)
        yield from _text(f"contexts[{number}].description", context.description)


def _rewards(new: NewExperiment) -> Iterator[Problem]:
    kind = new.experiment_type
    if not kind.is_bandit:
        for name in ("prior_type", "reward_type", "noise_sd"):
            if getattr(new, name) is not None:
                yield name, "belongs to bandits only; leave it out"
        return
    if new.prior_type is None:
        yield "prior_type", "a bandit needs one: beta or normal"
    if new.reward_type is None:
        yield "reward_type", "a bandit needs one: binary or real-valued"
    if new.prior_type is PriorType.BETA and kind.has_contexts:
        yield "prior_type", "a contextual bandit needs normal priors"
    if new.prior_type is PriorType.BETA and new.reward_type is RewardType.REAL_VALUED:
        yield "prior_type", "beta priors are for binary rewards; real-valued ones need normal priors"
    if new.noise_sd is not None:
        if new.reward_type is not RewardType.REAL_VALUED:
            yield "noise_sd", "belongs to real-valued rewards only; leave it out"
        elif not _is_number(new.noise_sd) or new.noise_sd <= 0:
            yield "noise_sd", "must be a finite number above 0, or left out to have it estimated"


def _autofail(new: NewExperiment) -> Iterator[Problem]:
    if new.enable_autofail and not Job.AUTOFAIL.applies_to(new.experiment_type):
        yield "enable_autofail", "only online bandits whose outcomes come from callers fail draws by themselves"
    if not _is_whole(new.autofail_window) or not 1 <= new.autofail_window <= LONGEST_WINDOW_HOURS:
        yield "autofail_window", f"must be 1 to {LONGEST_WINDOW_HOURS} whole hours"
    if not _is_number(new.autofail_outcome_value):
        yield "autofail_outcome_value", "must be a finite number"
    elif new.reward_type is RewardType.BINARY and new.autofail_outcome_value not in (0, 1):
        yield "autofail_outcome_value", "must be 0 or 1, since the reward is binary"


def _warehouse(new: NewExperiment) -> Iterator[Problem]:
    uses = [use for _, use in new.fields]
    for name, use in new.fields:
        yield from _name(f"fields[{use.value}]", name)
    yield from _repeated("fields", [f"{name} as {use.value}" for name, use in new.fields])
    if uses.count(FieldUse.UNIQUE_ID) > 1:
        yield "fields", "only one column can be the unique_id"
    if new.datasource_table is not None:
        yield from _name("datasource_table", new.datasource_table)
    if not new.experiment_type.reads_warehouse:
        return
    if new.datasource_table is None:
        yield "datasource_table", "this type reads the warehouse: name the table with its outcomes"
    if FieldUse.UNIQUE_ID not in uses:
        yield "fields", "this type reads the warehouse: name the column with participants' ids (unique_id)"
    if FieldUse.METRIC not in uses:
        yield "fields", "this type reads the warehouse: name at least one metric"
    elif new.experiment_type is ExperimentType.MAB_ONLINE_DWH and uses.count(FieldUse.METRIC) > 1:
        yield "fields", "a bandit has one outcome: name exactly one metric"


def _filters(new: NewExperiment) -> Iterator[Problem]:
    for number, filter_ in enumerate(new.filters):
        place = f"filters[{number}]"
        yield from _name(f"{place}.field_name", filter_.field_name)
        if filter_.relation not in FilterRelation.values:
            yield f"{place}.relation", f"must be one of {', '.join(FilterRelation.values)}"
        values = list(filter_.value) if isinstance(filter_.value, list | tuple) else []
        if filter_.relation == FilterRelation.BETWEEN and len(values) != 2:
            yield f"{place}.value", "must be the two bounds, None where it is open"
        elif not values:
            yield f"{place}.value", "must be a list of at least one value"
        else:
            try:
                storable_json(values)
            except ValueError as error:
                yield f"{place}.value", str(error)


def _name(place: str, value: object) -> Iterator[Problem]:
    problem = problem_of_name(value)
    if problem is not None:
        yield place, problem


def _text(place: str, value: object) -> Iterator[Problem]:
    if not isinstance(value, str) or len(value) > _LONGEST_DESCRIPTION:
        yield place, f"must be a text of at most {_LONGEST_DESCRIPTION} characters"
    elif "\0" in value or not _is_unicode(value):
        yield place, "must not contain NUL or lone surrogates"


def _repeated(place: str, names: Sequence[str]) -> Iterator[Problem]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield place, f"must not repeat {', '.join(map(repr, twice))}"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_aware(instant: object) -> bool:
    return isinstance(instant, datetime) and instant.tzinfo is not None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
