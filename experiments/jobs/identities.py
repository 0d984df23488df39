"""Participants' ids as they are sent to a warehouse, and those that cannot be: no value of the column is written so, or
two assignments mean the same row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Count, F, QuerySet
from django.db.models.functions import Lower

from experiments.jobs.assignments import Row
from experiments.models import ArmAssignment
from experiments.warehouse.pairs import IdRule


class Identities:
    """``n_ambiguous`` (by arm) counts who shares an id with another assignment: which of them the row belongs to is not
    known, so none is sent. Who is left out for another reason is simply not found."""

    def __init__(self, rule: IdRule, experiment_id: str, *, n_arms: int) -> None:
        self._canonical = rule.canonical
        assignments = ArmAssignment.objects.filter(experiment_id=experiment_id)
        self._ambiguous = written_twice(assignments) if rule.folds else frozenset()
        self.n_ambiguous = [0] * n_arms

    def to_send(self, page: Sequence[Row]) -> Iterator[Row]:
        for participant, arm, cluster in page:
            canonical = self._canonical(participant)
            if canonical is None:
                continue
            if canonical in self._ambiguous:
                self.n_ambiguous[arm] += 1
                continue
            yield canonical, arm, cluster


def written_twice(rows: QuerySet[Any]) -> frozenset[str]:
    """Ids of participants that several rows write with other capitals. Rarely is there any capital at all."""
    folded = rows.annotate(folded=Lower("participant_id"))
    if not folded.exclude(participant_id=F("folded")).exists():
        return frozenset()
    twice = folded.values("folded").annotate(times=Count("participant_id")).filter(times__gt=1)
    return frozenset(twice.values_list("folded", flat=True))
