"""A/B tests and bandits and their upkeep: rows, warehouses that are read, statistics, and the jobs that join them."""
