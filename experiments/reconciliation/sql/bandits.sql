-- Each bandit that was ever committed, and so may have draws.
SELECT id FROM experiments WHERE prior_type IS NOT NULL AND state <> 'assigned' ORDER BY id
