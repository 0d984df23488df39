-- Each experiment id that draws name, whether there is such an experiment or not.
-- Index: draws_pkey; one probe for each.
WITH RECURSIVE ids (id) AS (
    (SELECT experiment_id FROM draws ORDER BY experiment_id LIMIT 1)
    UNION ALL
    SELECT beyond.experiment_id
    FROM ids
    CROSS JOIN LATERAL (
        SELECT d.experiment_id FROM draws d WHERE d.experiment_id > ids.id ORDER BY d.experiment_id LIMIT 1
    ) AS beyond
)
SELECT id FROM ids
