"""Triggers of ``draws`` and ``arm_assignments``: rows of a whole statement are judged at once, so that COPY stays fast.

They stand in for foreign keys, whose triggers run once a row, and keep the sums on ``arms``. Each groups the rows
before it joins them: of transition tables the planner knows no size, and a nested loop over them takes hours.
"""

import pgtrigger

from experiments.kinds import ExperimentState, ExperimentType, RewardType
from experiments.models.sums import add_to_arms

_BANDITS = ", ".join(f"'{kind.value}'" for kind in ExperimentType if kind.is_bandit)

# The key of an arm is held until the end of the transaction, as a foreign key would: no arm goes away meanwhile.
_HOLD_ARMS = "PERFORM FROM arms WHERE id IN (SELECT arm_id FROM new_rows) ORDER BY id FOR KEY SHARE;"


def _raise(table: str) -> str:
    """``wrong`` holds the constraint's name, the SQLSTATE, and what is said."""
    return f"""
        IF FOUND THEN
            RAISE EXCEPTION '%', wrong.message
                USING ERRCODE = wrong.code, CONSTRAINT = wrong.name, TABLE = '{table}';
        END IF;
    """


_WRONG_DRAW = f"""
    SELECT problem.*
    INTO wrong
    FROM (
        SELECT experiment_id, arm_id, coalesce(cardinality(context_vals), 0) AS width,
            bool_or(outcome NOT IN (0, 1)) AS odd_outcome
        FROM new_rows
        GROUP BY experiment_id, arm_id, width
    ) AS kind
    LEFT JOIN arms ON arms.id = kind.arm_id
    LEFT JOIN experiments ON experiments.id = kind.experiment_id
    CROSS JOIN LATERAL (
        SELECT count(*) AS contexts FROM context WHERE context.experiment_id = kind.experiment_id
    ) AS counted
    CROSS JOIN LATERAL (
        VALUES
            (arms.experiment_id IS DISTINCT FROM kind.experiment_id, 'draws_arm_of_experiment',
                'foreign_key_violation', format('arm %s is not one of experiment %s', kind.arm_id, kind.experiment_id)),
            (experiments.experiment_type NOT IN ({_BANDITS}), 'draws_of_bandits', 'check_violation',
                format('experiment %s is no bandit: its participants are assigned, not drawn', experiments.id)),
            (experiments.state = '{ExperimentState.ASSIGNED}', 'draws_after_commit', 'check_violation',
                format('experiment %s is not committed yet', experiments.id)),
            (kind.width <> counted.contexts, 'draws_context_of_length', 'check_violation',
                format('experiment %s has %s contexts, context_vals has %s', experiments.id, counted.contexts,
                    kind.width)),
            (kind.odd_outcome AND experiments.reward_type = '{RewardType.BINARY}', 'draws_binary_outcome',
                'check_violation', format('an outcome of experiment %s must be 0 or 1', experiments.id))
    ) AS problem (found, name, code, message)
    WHERE problem.found
    LIMIT 1;
"""  # noqa: S608 - put together from constants of this app

_ADDED = "SELECT arm_id, outcome, context_vals, 1 AS sign FROM new_rows WHERE outcome IS NOT NULL"
_TAKEN = "SELECT arm_id, outcome, context_vals, -1 AS sign FROM old_rows WHERE outcome IS NOT NULL"


def _lock_arms_of(rows: str) -> str:
    # In the order of their keys, or two writers of several arms deadlock.
    return f"""
        PERFORM FROM arms WHERE id IN (SELECT arm_id FROM {rows} WHERE outcome IS NOT NULL) ORDER BY id
            FOR NO KEY UPDATE;
    """  # noqa: S608 - see above


_draws_insert = pgtrigger.Trigger(
    name="draws_insert",
    level=pgtrigger.Statement,
    when=pgtrigger.After,
    operation=pgtrigger.Insert,
    referencing=pgtrigger.Referencing(new="new_rows"),
    declare=[("wrong", "record")],
    func=f"""
        {_HOLD_ARMS}
        {_WRONG_DRAW}
        {_raise("draws")}
        IF EXISTS (SELECT FROM new_rows WHERE outcome IS NOT NULL) THEN
            {_lock_arms_of("new_rows")}
            {add_to_arms(_ADDED)};
        END IF;
        RETURN NULL;
    """,
)

# An outcome only ever comes (see _draws_settled), so equal counts mean that no row received one.
_draws_update = pgtrigger.Trigger(
    name="draws_update",
    level=pgtrigger.Statement,
    when=pgtrigger.After,
    operation=pgtrigger.Update,
    referencing=pgtrigger.Referencing(old="old_rows", new="new_rows"),
    declare=[("wrong", "record")],
    func=f"""
        IF (SELECT count(outcome) FROM new_rows) = (SELECT count(outcome) FROM old_rows) THEN
            RETURN NULL;
        END IF;
        {_WRONG_DRAW}
        {_raise("draws")}
        {_lock_arms_of("new_rows")}
        {add_to_arms(f"{_ADDED} UNION ALL {_TAKEN}")};
        RETURN NULL;
    """,  # noqa: S608 - see above
)

_draws_delete = pgtrigger.Trigger(
    name="draws_delete",
    level=pgtrigger.Statement,
    when=pgtrigger.After,
    operation=pgtrigger.Delete,
    referencing=pgtrigger.Referencing(old="old_rows"),
    func=f"""
        IF EXISTS (SELECT FROM old_rows WHERE outcome IS NOT NULL) THEN
            {_lock_arms_of("old_rows")}
            {add_to_arms(_TAKEN)};
        END IF;
        RETURN NULL;
    """,
)

# The condition stands in WHEN, so that a legal update never calls the function.
_draws_settled = pgtrigger.Trigger(
    name="draws_settled",
    level=pgtrigger.Row,
    when=pgtrigger.Before,
    operation=pgtrigger.Update,
    condition=pgtrigger.Condition(
        "ROW(OLD.experiment_id, OLD.participant_id, OLD.arm_id, OLD.context_vals) IS DISTINCT FROM"
        " ROW(NEW.experiment_id, NEW.participant_id, NEW.arm_id, NEW.context_vals)"
        " OR (OLD.outcome IS NOT NULL AND ROW(OLD.outcome, OLD.autofailed_outcome) IS DISTINCT FROM"
        " ROW(NEW.outcome, NEW.autofailed_outcome))"
    ),
    func="""
        RAISE EXCEPTION 'draw of % in %: the arm, the context and a recorded outcome do not change',
            OLD.participant_id, OLD.experiment_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'draws_settled', TABLE = 'draws',
                  HINT = 'Only a draw without an outcome receives one, once.';
    """,
)

DRAW_TRIGGERS = [_draws_insert, _draws_update, _draws_delete, _draws_settled]

_assignments_insert = pgtrigger.Trigger(
    name="arm_assignments_insert",
    level=pgtrigger.Statement,
    when=pgtrigger.After,
    operation=pgtrigger.Insert,
    referencing=pgtrigger.Referencing(new="new_rows"),
    declare=[("wrong", "record")],
    func=f"""
        {_HOLD_ARMS}
        SELECT problem.*
        INTO wrong
        FROM (
            SELECT experiment_id, arm_id, cluster_id IS NOT NULL AS clustered
            FROM new_rows
            GROUP BY 1, 2, 3
        ) AS kind
        LEFT JOIN arms ON arms.id = kind.arm_id
        LEFT JOIN experiments ON experiments.id = kind.experiment_id
        CROSS JOIN LATERAL (
            VALUES
                (arms.experiment_id IS DISTINCT FROM kind.experiment_id, 'arm_assignments_arm_of_experiment',
                    'foreign_key_violation',
                    format('arm %s is not one of experiment %s', kind.arm_id, kind.experiment_id)),
                (experiments.experiment_type IN ({_BANDITS}), 'arm_assignments_of_frequentist', 'check_violation',
                    format('experiment %s is a bandit: its participants are drawn, not assigned', experiments.id)),
                (kind.clustered <> experiments.clustered, 'arm_assignments_cluster_where_clustered', 'check_violation',
                    format('experiment %s is %s, so each of its assignments %s a cluster_id', experiments.id,
                        CASE WHEN experiments.clustered THEN 'clustered' ELSE 'not clustered' END,
                        CASE WHEN experiments.clustered THEN 'needs' ELSE 'is without' END))
        ) AS problem (found, name, code, message)
        WHERE problem.found
        LIMIT 1;
        {_raise("arm_assignments")}
        RETURN NULL;
    """,  # noqa: S608 - see above
)

_assignments_stay = pgtrigger.Trigger(
    name="arm_assignments_stay",
    level=pgtrigger.Row,
    when=pgtrigger.Before,
    operation=pgtrigger.Update,
    condition=pgtrigger.Condition(
        "ROW(OLD.experiment_id, OLD.participant_id, OLD.arm_id, OLD.cluster_id) IS DISTINCT FROM"
        " ROW(NEW.experiment_id, NEW.participant_id, NEW.arm_id, NEW.cluster_id)"
    ),
    func="""
        RAISE EXCEPTION 'assignment of % in % does not change', OLD.participant_id, OLD.experiment_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'arm_assignments_stay', TABLE = 'arm_assignments',
                  HINT = 'The same participant stays in the same arm.';
    """,
)

ASSIGNMENT_TRIGGERS = [_assignments_insert, _assignments_stay]
