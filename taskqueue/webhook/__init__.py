"""Tasks that call other systems over HTTP: what is sent, how it is signed, and what an answer means for the task."""
