-- Draws of one experiment that cannot be: with an arm that is not its own, an outcome without its flag and time, an
-- outcome or a context that the experiment does not allow. What is wrong is told by a column each.
-- Parameters: scope (experiment id).
SELECT *
FROM (
    SELECT d.experiment_id, d.participant_id, d.arm_id, d.outcome, d.autofailed_outcome, d.observed_at,
        (d.arm_id = ANY (known.arms)) IS NOT TRUE AS foreign_arm,
        (d.outcome IS NULL) <> (d.autofailed_outcome IS NULL) OR (d.outcome IS NULL) <> (d.observed_at IS NULL)
            AS unpaired,
        d.outcome IN ('NaN', 'Infinity', '-Infinity') OR (known.is_binary AND d.outcome NOT IN (0, 1)) AS out_of_range,
        coalesce(cardinality(d.context_vals), 0) <> known.contexts
            OR ('-Infinity' < ALL (d.context_vals) AND 'Infinity' > ALL (d.context_vals)) IS NOT TRUE
                AND d.context_vals IS NOT NULL AS odd_context,
        cardinality(d.context_vals) AS entries, known.is_binary, known.contexts
    FROM draws d
    CROSS JOIN (
        SELECT ARRAY(SELECT id FROM arms WHERE experiment_id = %(scope)s) AS arms,
            coalesce((SELECT reward_type = 'binary' FROM experiments WHERE id = %(scope)s), false) AS is_binary,
            (SELECT count(*) FROM context WHERE experiment_id = %(scope)s) AS contexts
    ) AS known
    WHERE d.experiment_id = %(scope)s
) AS judged
WHERE foreign_arm OR unpaired OR out_of_range OR odd_context
