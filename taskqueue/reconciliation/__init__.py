"""Stored records compared with what follows from others: read only; repairs are planned, and applied by people."""
