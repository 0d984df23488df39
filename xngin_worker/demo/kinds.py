"""The demo's own kinds of tasks, by name. Apart from their handlers, which only the demo's worker and site may know."""

FLAKY = "demo.flaky"
DOOMED = "demo.doomed"
FAILURES_BEFORE_SUCCESS = 2
RETRIES_BEFORE_DEATH = 2
