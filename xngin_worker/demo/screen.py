"""How the demo looks: the same lines everywhere, and on a terminal a part below them that changes in place."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from taskqueue.lifecycle import Status
from xngin_worker.demo.life import Moment
from xngin_worker.demo.receiver import Request
from xngin_worker.demo.steps import Result

_NAME_WIDTH = 15
_MOST_BODY = 2_000
STYLES = {
    Status.PENDING: "yellow",
    Status.RUNNING: "cyan",
    Status.SUCCESS: "green",
    Status.DEAD: "red",
    Status.DEAD_LETTERED: "red",
}


class Screen:
    """Standard output. `is_live` tells whether a person sees things change there."""

    def __init__(self) -> None:
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # what a webhook holds may not fit the terminal
        self._console = Console(highlight=False, markup=False, emoji=False)
        self.is_live = sys.stdout.isatty() and not self._console.is_dumb_terminal
        self._live: Live | None = None
        self._counted: int | None = None

    def line(self, text: str | Text = "", style: str = "") -> None:
        """One line that stays. Never broken by us, so that it can be copied."""
        self._console.print(text if isinstance(text, Text) else Text(text, style=style), soft_wrap=True)
        # Through a pipe, too, things are shown when they happen.
        self._console.file.flush()

    def heading(self, text: str) -> None:
        self.line()
        self.line(text, "bold")
        self.line()

    def block(self, text: str, style: str = "") -> None:
        for line in text.splitlines():
            self.line(f"  {line}", style)

    @contextmanager
    def changing(self, *, last_stays: bool = False) -> Iterator[None]:
        """While entered, `show` may be used; what it showed is gone afterwards, unless the last of it stays."""
        live = Live(console=self._console, auto_refresh=False, transient=not last_stays) if self.is_live else None
        with live or nullcontext():
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def show(self, renderable: RenderableType) -> None:
        """Replace the part that changes; without a terminal nothing is shown."""
        if self._live is not None:
            self._live.update(renderable, refresh=True)

    @contextmanager
    def busy(self, name: str) -> Iterator[None]:
        """A sign of life for a step whose inside is not shown."""
        if not self.is_live:
            yield
            return
        spinner = Spinner("line", Text(f" {name} ..."))
        with Live(spinner, console=self._console, transient=True, refresh_per_second=8):
            yield

    def result(self, result: Result) -> None:
        """The line of a step that is over."""
        text = Text("  ")
        text.append(f"{result.name:<{_NAME_WIDTH}}", "bold")
        text.append(f"{'ok' if result.passed else 'FAILED':<8}", "green" if result.passed else "bold red")
        text.append(f"{result.seconds:6.2f} s   ", "dim")
        text.append(result.remark)
        self.line(text)

    def moment(self, moment: Moment, prefix: str = "") -> None:
        text = Text(f"  {prefix}{elapsed(moment.at):>9}  ")
        text.append(f"{moment.status:<14}" if moment.remark else moment.status, STYLES.get(Status(moment.status), ""))
        text.append(moment.remark)
        self.line(text)

    def countdown(self, seconds: float) -> None:
        """How long it is until the next try: in place on a terminal, else one line for each whole second."""
        if self._live is not None:
            text = Text(f"  {'':>9}  ")
            text.append(f"next try in {max(seconds, 0.0):.1f} s  ", "yellow")
            text.append("#" * min(math.ceil(max(seconds, 0.0) * 10), 40), "yellow")
            self.show(text)
        elif (whole := math.floor(seconds)) != self._counted and whole > 0:
            self._counted = whole
            self.line(f"  {'':>9}  next try in {whole} s")

    def request(self, request: Request) -> None:
        """A request as it came: its line, headers and body."""
        self.block(request.line, "bold")
        for name, value in request.headers:
            ours = name.lower() == "user-agent" or name.lower().startswith("webhook-")
            self.block(f"{name}: {value}", "" if ours else "dim")
        if request.body:
            self.line()
            self.block(request.body[:_MOST_BODY].decode(errors="replace"))

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Names and values under one another."""
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            text = Text(f"  {name:<{width}}   ")
            text.append(value, "cyan")
            self.line(text)


def elapsed(seconds: float) -> str:
    """A duration as people compare them: milliseconds below a second."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"
