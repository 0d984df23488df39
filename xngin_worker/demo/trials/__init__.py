"""The experiments of the demo: customers whose truth is known, two warehouses, five experiments, and their upkeep."""
