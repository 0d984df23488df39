"""An experiment's assignments, streamed in chunks that fit a warehouse's parameter. Memory holds one chunk.

Pages are found by key, each in a statement of its own, so that no transaction is open while a warehouse works.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter

from django.db.models import QuerySet

from experiments.models import ArmAssignment

# Participant, index of the arm, number of the cluster (None where the experiment is not clustered).
type Row = tuple[str, int, int | None]

_CLUSTERED = ("participant_id", "arm_id", "cluster_id")


class Assignments:
    """Iterate ``pages`` once; ``n_assigned`` (by arm) and ``clusters`` tell afterwards what was seen."""

    def __init__(self, experiment_id: str, *, arm_index: Mapping[str, int], clustered: bool, page_rows: int) -> None:
        self._experiment_id = experiment_id
        self._arm_index = arm_index
        self._clustered = clustered
        self._page_rows = page_rows
        self.n_assigned = [0] * len(arm_index)
        self.n_clusters = 0
        # Clusters with participants in each arm; what a check of cluster-wise assignment counts.
        self.clusters_in_arm = [0] * len(arm_index)
        self.clusters_lie_in_one_arm = True

    def pages(self) -> Iterator[list[Row]]:
        """Lists of at most ``page_rows``. Clusters are whole, but for one that is larger than a page alone."""
        return self._by_cluster() if self._clustered else self._by_participant()

    def _by_participant(self) -> Iterator[list[Row]]:
        rows = self._rows().order_by("participant_id").values_list("participant_id", "arm_id")
        after = ""
        while page := list(rows.filter(participant_id__gt=after)[: self._page_rows]):
            after = page[-1][0]
            index = self._arm_index
            chunk: list[Row] = [(participant, index[arm], None) for participant, arm in page]
            for _, arm, _ in chunk:
                self.n_assigned[arm] += 1
            yield chunk

    def _by_cluster(self) -> Iterator[list[Row]]:
        rows = self._rows().order_by("cluster_id", "participant_id")
        after = ""
        while page := list(rows.filter(cluster_id__gt=after).values_list(*_CLUSTERED)[: self._page_rows + 1]):
            last = page[-1][2]
            if len(page) > self._page_rows:
                whole = [row for row in page if row[2] != last]
                if not whole:
                    yield from self._one_large_cluster(last)
                    after = last
                    continue
                page = whole
            after = page[-1][2]
            chunk: list[Row] = []
            for _, members in groupby(page, key=itemgetter(2)):
                chunk.extend(self._number(list(members), first=True))
            yield chunk

    def _one_large_cluster(self, cluster: str) -> Iterator[list[Row]]:
        """In parts that share one number, which the sums by cluster add up again."""
        rows = self._rows().filter(cluster_id=cluster).order_by("participant_id")
        after, seen = "", set[int]()
        while page := list(rows.filter(participant_id__gt=after).values_list(*_CLUSTERED)[: self._page_rows]):
            after = page[-1][0]
            part = self._number(page, first=not seen, before=seen)
            seen.update(row[1] for row in part)
            yield part

    def _rows(self) -> QuerySet[ArmAssignment]:
        return ArmAssignment.objects.filter(experiment_id=self._experiment_id)

    def _number(self, members: list[tuple[str, str, str]], *, first: bool, before: set[int] | None = None) -> list[Row]:
        if first:
            self.n_clusters += 1
        number = self.n_clusters - 1
        part: list[Row] = [(participant, self._arm_index[arm], number) for participant, arm, _ in members]
        arms = {row[1] for row in part}
        known = before or set()
        for arm in arms - known:
            self.clusters_in_arm[arm] += 1
        if len(arms | known) > 1:
            self.clusters_lie_in_one_arm = False
        for _, arm, _ in part:
            self.n_assigned[arm] += 1
        return part
