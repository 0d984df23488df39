"""Committed experiments by plain SQL, in databases that only workers know."""

from __future__ import annotations

from tests.support.own_server import QueueDatabase

_COMMIT = """
WITH datasource AS (
    INSERT INTO datasources (organization_id, name) VALUES ('o_test', 'warehouse') RETURNING id
),
experiment AS (
    INSERT INTO experiments (datasource_id, datasource_table, experiment_type, description, start_date, end_date,
        prior_type, reward_type)
    SELECT id, 'participants', %(type)s, %(description)s, now() - interval '2 hours', now() + interval '9 days',
        CASE WHEN %(type)s LIKE '%%mab%%' THEN 'beta' END, CASE WHEN %(type)s LIKE '%%mab%%' THEN 'binary' END
    FROM datasource RETURNING id
)
SELECT id FROM experiment
"""


def commit_experiment(
    database: QueueDatabase, experiment_type: str = "freq_online", *, description: str = "", draws: int = 0
) -> str:
    """Its id. ``draws`` of them wait for an outcome. Makes the table of the marks, too."""
    database.execute(
        "CREATE TABLE IF NOT EXISTS marks (id bigserial PRIMARY KEY, run_id text, experiment_id text, job text,"
        " step text, at timestamptz DEFAULT clock_timestamp())"
    )
    database.execute("INSERT INTO organizations (id, name) VALUES ('o_test', 'test') ON CONFLICT DO NOTHING")
    parameters: dict[str, object] = {"type": experiment_type, "description": description}
    (row,) = database.execute(_COMMIT, parameters)
    parameters["id"] = id = str(row["id"])
    database.execute(
        "INSERT INTO arms (experiment_id, position, name, alpha_init, beta_init)"
        " SELECT %(id)s, n, 'arm ' || n, %(prior)s::float, %(prior)s::float FROM generate_series(1, 2) n",
        {**parameters, "prior": 1.0 if "mab" in experiment_type else None},
    )
    database.execute(
        "INSERT INTO experiment_fields (experiment_id, field_name, use, position)"
        " VALUES (%(id)s, 'id', 'unique_id', 1), (%(id)s, 'revenue', 'metric', 1)",
        parameters,
    )
    database.execute("UPDATE experiments SET state = 'committed' WHERE id = %(id)s", parameters)
    database.execute(
        "INSERT INTO draws (experiment_id, participant_id, arm_id)"
        " SELECT %(id)s, 'p' || n, (SELECT min(id) FROM arms WHERE experiment_id = %(id)s)"
        " FROM generate_series(1, %(draws)s) n",
        {**parameters, "draws": draws},
    )
    return id
