"""``python -m tests.support.recorders``: processes that record outcomes at the same moment, for a race.

Standard input says ``{"database": name, "experiments": {id: [{participant: outcome}, ...], ...}}``. Each share of an
experiment is a process of its own, forked from one that has everything imported and no connection. It ends with 0 when
each process recorded its whole share.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from itertools import batched

_SINGLE = 20
_BATCH = 40


def record_shares(experiment_id: str, shares: Sequence[Mapping[str, float]]) -> int:
    """How many processes failed."""
    gate, opener = os.pipe()
    children = []
    for share in shares:
        child = os.fork()
        if child == 0:
            os.close(opener)
            os.read(gate, 1)  # returns for all of them when the parent closes the other end
            _record(experiment_id, share)
            os._exit(0)
        children.append(child)
    os.close(opener)
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


def _record(experiment_id: str, share: Mapping[str, float]) -> None:
    """The first few one by one, the rest in batches."""
    from experiments.operations.record import record_outcome, record_outcomes

    entries = list(share.items())
    for participant, outcome in entries[:_SINGLE]:
        assert not record_outcome(experiment_id, participant, outcome).replayed
    for batch in batched(entries[_SINGLE:], _BATCH):
        assert record_outcomes(experiment_id, dict(batch)).applied == len(batch)


if __name__ == "__main__":
    import django
    from django.db import connections

    django.setup()
    # Once, rather than in each process.
    importlib.import_module("experiments.operations.record")
    told = json.load(sys.stdin)
    connections.databases["default"]["NAME"] = told["database"]
    assert threading.active_count() == 1
    sys.exit(sum(record_shares(id, shares) for id, shares in told["experiments"].items()))
