"""The demo's steps: each has a name, a deadline and a result, and the first that fails ends the demo."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from xngin_worker.demo.interruption import DeadlinePassed, Interruption


class StepFailed(Exception):
    """A step did not come to what it should; the text says what was found instead."""


class DemoFailed(Exception):
    """The demo ends here. `step` is the name of the step that failed."""

    def __init__(self, step: str, reason: str) -> None:
        self.step = step
        self.reason = reason
        super().__init__(f"the step {step!r} failed: {reason}")


@dataclass(frozen=True, kw_only=True)
class Result:
    name: str
    passed: bool
    seconds: float
    remark: str


@dataclass(kw_only=True)
class Step:
    """A step under way. `remark` is what is said of it when it has passed."""

    name: str
    remark: str = ""


class Steps:
    """Runs steps one after the other and keeps their results. `busy` is entered while one is under way."""

    def __init__(
        self,
        *,
        interruption: Interruption,
        busy: Callable[[str], AbstractContextManager[None]],
        told: Callable[[Result], None],
    ) -> None:
        self._interruption = interruption
        self._busy = busy
        self._told = told
        self._results: list[Result] = []

    @property
    def results(self) -> Sequence[Result]:
        return tuple(self._results)

    @contextmanager
    def step(self, name: str, *, within_seconds: float, quiet: bool = False) -> Iterator[Step]:
        """The block is one step; `DemoFailed` when it raises or takes too long. `quiet`: it shows itself."""
        step = Step(name=name)
        started = time.monotonic()
        reason = None
        self._interruption.check()
        try:
            with nullcontext() if quiet else self._busy(name), self._interruption.deadline(within_seconds):
                yield step
        except DeadlinePassed:
            reason = f"it was not done after {within_seconds:g} seconds"
        except StepFailed as error:
            reason = str(error)
        except Exception as error:  # whatever a part raises is this step's failure, and has to name it
            logging.getLogger(__name__).exception("the step %r failed", name)
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        result = Result(
            name=name, passed=reason is None, seconds=time.monotonic() - started, remark=reason or step.remark
        )
        self._results.append(result)
        self._told(result)
        if reason is not None:
            raise DemoFailed(name, reason)
        self._interruption.check()
