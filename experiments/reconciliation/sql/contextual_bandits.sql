-- Each bandit whose posteriors need the outcomes at each distinct context: contextual, with binary rewards.
SELECT id FROM experiments
WHERE experiment_type = 'cmab_online' AND reward_type = 'binary' AND state <> 'assigned' ORDER BY id
