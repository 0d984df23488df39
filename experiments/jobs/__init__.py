"""Where warehouses, statistics and rows meet."""
