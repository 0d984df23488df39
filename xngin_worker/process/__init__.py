"""The worker's process: what runs in it, how it starts, and how it ends."""
