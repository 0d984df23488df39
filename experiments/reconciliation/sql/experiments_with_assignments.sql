-- Each experiment id that assignments name, whether there is such an experiment or not.
-- Index: arm_assignments_pkey; one probe for each.
WITH RECURSIVE ids (id) AS (
    (SELECT experiment_id FROM arm_assignments ORDER BY experiment_id LIMIT 1)
    UNION ALL
    SELECT beyond.experiment_id
    FROM ids
    CROSS JOIN LATERAL (
        SELECT a.experiment_id FROM arm_assignments a WHERE a.experiment_id > ids.id ORDER BY a.experiment_id LIMIT 1
    ) AS beyond
)
SELECT id FROM ids
