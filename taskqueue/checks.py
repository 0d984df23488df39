"""System checks of the queue: what Django can find wrong before anything runs."""
