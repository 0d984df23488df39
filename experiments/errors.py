"""What callers of this app may have to decide about: one class per decision, each with a stable ``code``."""

from collections.abc import Sequence
from typing import Self


class ExperimentError(Exception):
    """Base of this app's errors. ``field`` names the input that is wrong, where there is one."""

    code = "experiment_error"

    def __init__(self, message: str, *, field: str | None = None, code: str | None = None) -> None:
        if code is not None:
            self.code = code
        self.field = field
        super().__init__(message)


class InvalidInput(ExperimentError):
    """The caller's data cannot be accepted as they are; nothing was stored.

    ``problems`` are pairs of a field and what is wrong with it, all of them.
    """

    code = "invalid_input"

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        code: str | None = None,
        problems: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.problems = tuple(problems) or (((field, message),) if field is not None else ())
        super().__init__(message, field=field, code=code)

    @classmethod
    def of(cls, problems: Sequence[tuple[str, str]], *, code: str | None = None) -> Self:
        """One error that tells all problems; ``field`` is the first one's."""
        told = "; ".join(f"{field}: {problem}" for field, problem in problems)
        return cls(told, field=problems[0][0], code=code, problems=problems)


class NotFound(ExperimentError):
    """There is no such experiment, arm, draw or datasource."""

    code = "not_found"


class Conflict(ExperimentError):
    """What is stored says otherwise (another outcome, another state) and stays as it is."""

    code = "conflict"


class DatasourceError(ExperimentError):
    """The warehouse cannot be used now or as configured: address, rights, names, time limits, or its own errors."""

    code = "datasource_error"
