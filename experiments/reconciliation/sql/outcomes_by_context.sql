-- Outcomes of each arm of one experiment at each distinct context, arm by arm; one row of nothing for an arm without.
-- Parameters: scope (experiment id).
SELECT a.id AS arm_id, a.experiment_id, a.mu_init, a.sigma_init, a.mu, a.covariance, counted.context_vals AS context,
    counted.successes, counted.failures,
    (SELECT count(*) FROM context WHERE experiment_id = %(scope)s) AS contexts
FROM arms a
LEFT JOIN (
    SELECT arm_id, context_vals, count(*) FILTER (WHERE outcome = 1) AS successes,
        count(*) FILTER (WHERE outcome = 0) AS failures
    FROM draws
    WHERE experiment_id = %(scope)s AND outcome IS NOT NULL
    GROUP BY arm_id, context_vals
) AS counted ON counted.arm_id = a.id
WHERE a.experiment_id = %(scope)s
ORDER BY a.id
