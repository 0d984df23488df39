"""What the words in code type on the pages may name: files, variables, options, commands, events, names in the code."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from django.core.management import get_commands

from experiments.events import CATALOGUE as EXPERIMENT_EVENTS
from taskqueue.events import CATALOGUE
from tests.docs.pages import ROOT
from xngin_worker.environment import KNOWN_NAMES
from xngin_worker.worker_settings import WORKER_OPTIONS

# Names of other programs. Everything else that looks like a name has to be in our code.
FOREIGN = frozenset(
    {
        "terminationGracePeriodSeconds",  # Kubernetes
        "stop_grace_period",  # Compose
        "enable_case_sensitive_identifier",  # Redshift
        "TimeoutStopSec",  # systemd
        "idle_in_transaction_session_timeout",  # PostgreSQL
        "on_commit",  # Django
        "bulk_create",  # Django
        "django_capture_on_commit_callbacks",  # pytest-django
        "TypedDict",
        "KeyboardInterrupt",
        "_exit",
        "http_500",  # ours, made from the status
    }
)
# Options of commands other than runworker.
OTHER_OPTIONS = frozenset(
    {
        "--experiment",
        "--once",
        "--help",
        "--table",
        "--json",
        "--dry-run",
        "--extra",
        "--rule",
        "--rule-seconds",
        "--keep",
        "--confirm",
        "--actor",
    }
)

_PACKAGES = ("taskqueue", "experiments", "xngin_worker")
_IDENTIFIER = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


@functools.cache
def words_of_run() -> frozenset[str]:
    listed = re.findall(r"^  (\w+) ", (ROOT / "run").read_text(), flags=re.MULTILINE)
    return frozenset(listed) | frozenset(get_commands())


def problems_in(code: str) -> Iterator[str]:
    """What ``code`` names that does not exist."""
    for path in re.findall(r"(?<![\w/.-])(?:taskqueue|experiments|xngin_worker|tests|docs|bench|\.ci)/[\w./-]*", code):
        if not (ROOT / path).exists():
            yield f"no file {path}"
    for name in re.findall(r"\b[\w-]+\.(?:py|md|sql|toml|lock)\b", code):
        if name not in _file_names():
            yield f"no file {name}"
    for name in re.findall(r"\bXNGIN_\w+", code):
        if name not in KNOWN_NAMES:
            yield f"no variable {name}"
    for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", code):
        if option not in WORKER_OPTIONS and option not in OTHER_OPTIONS:
            yield f"no option {option}"
    for word in re.findall(r"\./run ([a-z]\w*)", code):
        if word not in words_of_run():
            yield f"no word {word} of ./run"
    for event in re.findall(r"\b(?:worker|taskqueue)\.[a-z_]+(?:\.[a-z_]+)*", code):
        known = event in CATALOGUE or event in EXPERIMENT_EVENTS or event in _settings_of_postgresql()
        if not known and not event.endswith(".py"):
            yield f"no event {event}"
    for name in _IDENTIFIER.findall(code):
        if _looks_like_a_name(name) and name not in _names_in_code() | KNOWN_NAMES | FOREIGN:
            yield f"no {name} in the code"


def _looks_like_a_name(word: str) -> bool:
    return "_" in word.strip("_") or re.fullmatch(r"(?:[A-Z][a-z]+){2,}", word) is not None


@functools.cache
def _names_in_code() -> frozenset[str]:
    texts = [path.read_text() for folder in _PACKAGES for path in (ROOT / folder).rglob("*.py")]
    texts += [path.read_text() for folder in _PACKAGES for path in (ROOT / folder).rglob("*.sql")]
    texts += [(ROOT / name).read_text() for name in ("run", "Procfile", "pyproject.toml")]
    return frozenset(re.findall(r"[A-Za-z_]\w*", "\n".join(texts)))


@functools.cache
def _file_names() -> frozenset[str]:
    folders = (*_PACKAGES, "docs", "bench", "tests")
    inside = {path.name for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()}
    # An app of the reader's own has a settings module too.
    return frozenset(inside | {path.name for path in ROOT.iterdir()} | {"__init__.py"})


@functools.cache
def _settings_of_postgresql() -> frozenset[str]:
    """Settings that our triggers read, which look like events."""
    text = (ROOT / "taskqueue" / "triggers.py").read_text()
    return frozenset(re.findall(r"current_setting\('([\w.]+)'", text))
