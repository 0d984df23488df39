-- Assignments of one experiment to an arm that is not its own, or with a cluster where there must be none, or without.
-- Parameters: scope (experiment id).
SELECT *
FROM (
    SELECT a.experiment_id, a.participant_id, a.arm_id, a.cluster_id, (a.arm_id = ANY (known.arms)) IS NOT TRUE AS foreign_arm,
        (a.cluster_id IS NOT NULL) <> known.clustered AS odd_cluster, known.clustered
    FROM arm_assignments a
    CROSS JOIN (
        SELECT ARRAY(SELECT id FROM arms WHERE experiment_id = %(scope)s) AS arms,
            (SELECT clustered FROM experiments WHERE id = %(scope)s) AS clustered
    ) AS known
    WHERE a.experiment_id = %(scope)s
) AS judged
WHERE foreign_arm OR odd_cluster
