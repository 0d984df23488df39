"""Rows for the due query: committed experiments of all five types, with draws of which a fifth is pending.

Each has a history for each of its jobs; one in fifty has a snapshot that is due again.
"""

from __future__ import annotations

# Formatted with the numbers of experiments and draws.
FILL = """
SET synchronous_commit = off;
SET statement_timeout = 0;
INSERT INTO organizations (id, name) VALUES ('o_due', 'due');
INSERT INTO datasources (id, organization_id, name)
SELECT 'ds_' || n, 'o_due', 'ds ' || n FROM generate_series(0, 99) n;
INSERT INTO experiments (id, datasource_id, datasource_table, experiment_type, start_date, end_date, prior_type,
    reward_type, enable_autofail, autofail_window)
SELECT 'exp_' || lpad(n::text, 8, '0'), 'ds_' || n % 100, 'participants',
    (ARRAY['freq_preassigned', 'freq_online', 'mab_online', 'mab_online_dwh', 'cmab_online'])[n % 5 + 1],
    now() - interval '10 days', now() + interval '20 days', CASE WHEN n % 5 >= 2 THEN 'normal' END,
    CASE WHEN n % 5 >= 2 THEN 'real-valued' END, n % 5 IN (2, 4), 8760
FROM generate_series(0, {experiments} - 1) n;
INSERT INTO arms (id, experiment_id, position, name, mu_init, sigma_init)
SELECT 'arm_' || n || e.id, e.id, n, n::text, CASE WHEN prior_type IS NOT NULL THEN 0 END,
    CASE WHEN prior_type IS NOT NULL THEN 1 END
FROM experiments e CROSS JOIN generate_series(1, 2) n;
INSERT INTO context (experiment_id, position, name) SELECT id, 1, 'c' FROM experiments
WHERE experiment_type = 'cmab_online';
INSERT INTO experiment_fields (experiment_id, field_name, use)
SELECT id, use, use FROM experiments CROSS JOIN (VALUES ('unique_id'), ('metric')) AS of (use);
UPDATE experiments SET state = 'committed';
INSERT INTO job_states (experiment_id, job, runs, succeeded_at, failures, failed_at)
SELECT id, job, 7, now() - CASE WHEN n % 50 = 0 THEN interval '5 hours' ELSE n % 100 * interval '1 minute' END,
    CASE WHEN n % 50 = 1 THEN 3 ELSE 0 END, CASE WHEN n % 50 = 1 THEN now() END
FROM (SELECT id, experiment_type, row_number() OVER (ORDER BY id) AS n FROM experiments) AS e
JOIN (VALUES ('snapshot', '{{freq_preassigned,freq_online,mab_online,mab_online_dwh,cmab_online}}'::text[]),
    ('dwh_pull', '{{mab_online_dwh}}'), ('autofail', '{{mab_online,cmab_online}}')) AS kind (job, types)
    ON e.experiment_type = ANY (kind.types)
WHERE job = 'snapshot' OR n % 50 > 0;
INSERT INTO draws (experiment_id, participant_id, arm_id, created_at, context_vals, outcome, observed_at,
    autofailed_outcome)
SELECT e.id, 'p' || n, 'arm_1' || e.id, now() - n * interval '1 minute',
    CASE WHEN experiment_type = 'cmab_online' THEN ARRAY[0.0] END, CASE WHEN n % 5 > 0 THEN 1 END,
    CASE WHEN n % 5 > 0 THEN now() END, CASE WHEN n % 5 > 0 THEN false END
FROM experiments e CROSS JOIN generate_series(1, {draws} * 5 / 3 / {experiments}) n
WHERE prior_type IS NOT NULL;
RESET statement_timeout
"""

EMPTY = "TRUNCATE organizations, draws CASCADE"
