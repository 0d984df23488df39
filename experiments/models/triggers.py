"""Triggers that refuse what a CHECK cannot see: moves of state, changes of a sealed definition, settled rows.

Those on ``draws`` and ``arm_assignments``, made for millions of rows, are in ``row_triggers``.
"""

import pgtrigger

from experiments.kinds import ExperimentState, ExperimentType, PriorType
from experiments.models.row_triggers import ASSIGNMENT_TRIGGERS, DRAW_TRIGGERS

__all__ = [
    "ARM_TRIGGERS",
    "ASSIGNMENT_TRIGGERS",
    "CONTEXT_TRIGGERS",
    "DRAW_TRIGGERS",
    "EXPERIMENT_TRIGGERS",
    "JOB_RUN_TRIGGERS",
    "SNAPSHOT_TRIGGERS",
]

MOVES = (
    (ExperimentState.ASSIGNED, ExperimentState.COMMITTED),
    (ExperimentState.ASSIGNED, ExperimentState.ABANDONED),
    (ExperimentState.COMMITTED, ExperimentState.ABANDONED),
)
_PAIRS = ", ".join(f"('{old.value}', '{new.value}')" for old, new in MOVES)


def _sql_list(kinds: list[ExperimentType]) -> str:
    return ", ".join(f"'{kind.value}'" for kind in kinds)


def _refuse(name: str, table: str, message: str, *, hint: str, code: str = "check_violation") -> str:
    """``message`` is a format and its arguments, as RAISE takes them."""
    return f"""
        RAISE EXCEPTION {message}
            USING ERRCODE = '{code}', CONSTRAINT = '{name}', TABLE = '{table}', HINT = '{hint}';
    """


_begin_assigned = pgtrigger.Trigger(
    name="experiments_begin_assigned",
    level=pgtrigger.Row,
    when=pgtrigger.Before,
    operation=pgtrigger.Insert,
    condition=pgtrigger.Condition(f"NEW.state <> '{ExperimentState.ASSIGNED}'"),
    func=_refuse(
        "experiments_begin_assigned",
        "experiments",
        "'experiment % cannot begin as %', NEW.id, NEW.state",
        hint="Insert it as assigned with its arms, then commit it: a committed definition is complete and sealed.",
    ),
)

_legal_move = pgtrigger.Trigger(
    name="experiments_legal_move",
    level=pgtrigger.Row,
    when=pgtrigger.Before,
    operation=pgtrigger.Update,
    condition=pgtrigger.Condition(
        f"OLD.state IS DISTINCT FROM NEW.state AND ROW(OLD.state, NEW.state) NOT IN ({_PAIRS})"
    ),
    func=_refuse(
        "experiments_legal_move",
        "experiments",
        "'experiment % cannot move from % to %', OLD.id, OLD.state, NEW.state",
        hint="assigned moves to committed or abandoned, committed to abandoned, and nothing leaves abandoned.",
    ),
)

# The update holds the row's lock here, so no arm can be changed meanwhile (see _judge_definition).
_complete = pgtrigger.Trigger(
    name="experiments_complete",
    level=pgtrigger.Row,
    when=pgtrigger.Before,
    operation=pgtrigger.Update,
    condition=pgtrigger.Condition(
        f"OLD.state = '{ExperimentState.ASSIGNED}' AND NEW.state = '{ExperimentState.COMMITTED}'"
    ),
    declare=[("found", "record"), ("problem", "text")],
    func=f"""
        SELECT
            (SELECT count(*) FROM arms WHERE experiment_id = NEW.id) AS arms,
            (SELECT max(position) FROM arms WHERE experiment_id = NEW.id) AS last_arm,
            (SELECT count(alpha_init) FROM arms WHERE experiment_id = NEW.id) AS beta_priors,
            (SELECT count(mu_init) FROM arms WHERE experiment_id = NEW.id) AS normal_priors,
            (SELECT count(*) FROM context WHERE experiment_id = NEW.id) AS contexts,
            (SELECT max(position) FROM context WHERE experiment_id = NEW.id) AS last_context,
            (SELECT count(*) FROM experiment_fields WHERE experiment_id = NEW.id AND use = 'unique_id') AS ids,
            (SELECT count(*) FROM experiment_fields WHERE experiment_id = NEW.id AND use = 'metric') AS metrics
        INTO found;
        problem := CASE
            WHEN found.arms < 2 OR found.last_arm <> found.arms
                THEN 'it needs at least two arms, at positions 1, 2, ... without a gap; 1 is the baseline'
            WHEN found.beta_priors <> CASE WHEN NEW.prior_type = '{PriorType.BETA}' THEN found.arms ELSE 0 END
                THEN 'alpha_init and beta_init belong to each arm where prior_type is beta, and to none elsewhere'
            WHEN found.normal_priors <> CASE WHEN NEW.prior_type = '{PriorType.NORMAL}' THEN found.arms ELSE 0 END
                THEN 'mu_init and sigma_init belong to each arm where prior_type is normal, and to none elsewhere'
            WHEN NEW.experiment_type IN ({_sql_list([k for k in ExperimentType if k.has_contexts])})
                    AND (found.contexts < 1 OR found.last_context <> found.contexts)
                THEN 'it needs at least one context, at positions 1, 2, ... without a gap'
            WHEN NEW.experiment_type NOT IN ({_sql_list([k for k in ExperimentType if k.has_contexts])})
                    AND found.contexts > 0
                THEN 'only contextual bandits have contexts'
            WHEN NEW.experiment_type IN ({_sql_list([k for k in ExperimentType if k.reads_warehouse])})
                    AND (coalesce(NEW.datasource_table, '') = '' OR found.ids = 0 OR found.metrics = 0)
                THEN 'it reads the warehouse: it needs datasource_table, a field of use unique_id and one of use metric'
            WHEN NEW.experiment_type = '{ExperimentType.MAB_ONLINE_DWH}' AND found.metrics > 1
                THEN 'a bandit has one outcome: it needs exactly one field of use metric'
        END;
        IF problem IS NOT NULL THEN
            RAISE EXCEPTION 'experiment % cannot be committed: %', NEW.id, problem
                USING ERRCODE = 'check_violation', CONSTRAINT = 'experiments_complete', TABLE = 'experiments';
        END IF;
        RETURN NEW;
    """,  # noqa: S608 - put together from constants of this app
)

_experiment_sealed = pgtrigger.Trigger(
    name="experiments_definition_sealed",
    level=pgtrigger.Row,
    when=pgtrigger.Before,
    operation=pgtrigger.Update,
    condition=pgtrigger.Condition(
        "OLD.id <> NEW.id OR OLD.experiment_type <> NEW.experiment_type OR OLD.clustered <> NEW.clustered"
        f" OR (OLD.state <> '{ExperimentState.ASSIGNED}' AND ROW(OLD.prior_type, OLD.reward_type, OLD.noise_sd)"
        " IS DISTINCT FROM ROW(NEW.prior_type, NEW.reward_type, NEW.noise_sd))"
    ),
    func=_refuse(
        "experiments_definition_sealed",
        "experiments",
        "'experiment %: what its numbers are made from does not change', OLD.id",
        hint="id, experiment_type and clustered are fixed at once; prior_type, reward_type and noise_sd by the commit.",
    ),
)

_experiment_kept = pgtrigger.Trigger(
    name="experiments_kept_by_participants",
    level=pgtrigger.Row,
    when=pgtrigger.Before,
    operation=pgtrigger.Delete,
    func=f"""
        IF EXISTS (SELECT FROM draws WHERE experiment_id = OLD.id)
            OR EXISTS (SELECT FROM arm_assignments WHERE experiment_id = OLD.id) THEN
            {
        _refuse(
            "experiments_kept_by_participants",
            "experiments",
            "'experiment % still has draws or assignments', OLD.id",
            hint="Delete those first, or abandon the experiment.",
            code="foreign_key_violation",
        )
    }
        END IF;
        RETURN OLD;
    """,  # noqa: S608 - see above
)

EXPERIMENT_TRIGGERS = [_begin_assigned, _legal_move, _complete, _experiment_sealed, _experiment_kept]


def _definition_triggers(table: str, changed: str, delete_guard: str = "") -> list[pgtrigger.Trigger]:
    """Rows that define an experiment come, change and go only while it is assigned.

    The lock on the experiment's row makes a commit at the same moment wait, or be waited for.
    """

    def judge(row: str) -> str:
        return f"""
        SELECT state INTO state_now FROM experiments WHERE id = {row}.experiment_id FOR SHARE;
        IF state_now <> '{ExperimentState.ASSIGNED}' THEN
            {
            _refuse(
                f"{table}_sealed",
                table,
                f"'% of experiment %, which is %, do not change', TG_TABLE_NAME, {row}.experiment_id, state_now",
                hint="What is tried is fixed with the commit; make another experiment.",
            )
        }
        END IF;
        """  # noqa: S608 - see above

    def trigger(
        name: str, operation: pgtrigger.Operation, func: str, condition: str | None = None
    ) -> pgtrigger.Trigger:
        return pgtrigger.Trigger(
            name=f"{table}_{name}",
            level=pgtrigger.Row,
            when=pgtrigger.Before,
            operation=operation,
            condition=pgtrigger.Condition(condition) if condition else None,
            declare=[("state_now", "text")],
            func=func,
        )

    moved = _refuse(
        f"{table}_stay",
        table,
        "'% of % stay what they are', TG_TABLE_NAME, OLD.experiment_id",
        hint="id and experiment_id do not change.",
    )
    return [
        trigger("sealed_insert", pgtrigger.Insert, f"{judge('NEW')} RETURN NEW;"),
        trigger("sealed_update", pgtrigger.Update, f"{judge('NEW')} RETURN NEW;", changed),
        trigger("sealed_delete", pgtrigger.Delete, f"{judge('OLD')} {delete_guard} RETURN OLD;"),
        trigger(
            "stay",
            pgtrigger.Update,
            moved,
            "ROW(OLD.id, OLD.experiment_id) IS DISTINCT FROM ROW(NEW.id, NEW.experiment_id)",
        ),
    ]


ARM_TRIGGERS = _definition_triggers(
    "arms",
    "ROW(OLD.position, OLD.arm_weight, OLD.alpha_init, OLD.beta_init, OLD.mu_init, OLD.sigma_init) IS DISTINCT FROM"
    " ROW(NEW.position, NEW.arm_weight, NEW.alpha_init, NEW.beta_init, NEW.mu_init, NEW.sigma_init)",
    # Whoever inserts a draw or an assignment holds the arm's key, so either is seen here.
    f"""
        IF EXISTS (SELECT FROM draws WHERE experiment_id = OLD.experiment_id AND arm_id = OLD.id)
            OR EXISTS (SELECT FROM arm_assignments WHERE experiment_id = OLD.experiment_id AND arm_id = OLD.id) THEN
            {
        _refuse(
            "arms_kept_by_participants",
            "arms",
            "'arm % still has draws or assignments', OLD.id",
            hint="Delete those first, or abandon the experiment.",
            code="foreign_key_violation",
        )
    }
        END IF;
    """,  # noqa: S608 - see above
)

CONTEXT_TRIGGERS = _definition_triggers(
    "context", "ROW(OLD.position, OLD.value_type) IS DISTINCT FROM ROW(NEW.position, NEW.value_type)"
)

JOB_RUN_TRIGGERS = [
    pgtrigger.Trigger(
        name="job_runs_closed_once",
        level=pgtrigger.Row,
        when=pgtrigger.Before,
        operation=pgtrigger.Update,
        condition=pgtrigger.Condition("OLD.status <> 'running' AND OLD.status IS DISTINCT FROM NEW.status"),
        func=_refuse(
            "job_runs_closed_once",
            "job_runs",
            "'run % is closed as % and stays so', OLD.id, OLD.status",
            hint="A job that runs again is another row.",
        ),
    )
]

SNAPSHOT_TRIGGERS = [
    pgtrigger.Trigger(
        name="snapshots_success_stays",
        level=pgtrigger.Row,
        when=pgtrigger.Before,
        operation=pgtrigger.Update,
        condition=pgtrigger.Condition(
            "OLD.status = 'success' AND ROW(OLD.status, OLD.data) IS DISTINCT FROM ROW(NEW.status, NEW.data)"
        ),
        func=_refuse(
            "snapshots_success_stays",
            "snapshots",
            "'snapshot % tells what was known then and does not change', OLD.id",
            hint="Insert another one.",
        ),
    )
]
