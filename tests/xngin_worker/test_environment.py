"""The variables: what they mean, and how faults in them are told."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xngin_worker.configuration import ConfigurationError
from xngin_worker.environment import KNOWN_NAMES, PROJECT_FOLDER, Environment, read

KEY = "0123456789abcdef0123456789abcdef"
PRODUCTION = {
    "XNGIN_ENVIRONMENT": "production",
    "XNGIN_SECRET_KEYS": KEY,
    "XNGIN_ALLOWED_HOSTS": "tasks.example.com",
    "DATABASE_URL": "postgresql://worker:hidden@db.example.com/xngin",
}


@pytest.fixture
def data_folder(tmp_path: Path) -> Path:
    return tmp_path / ".data"


def faults(variables: dict[str, str], data_folder: Path) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        read(variables, data_folder=data_folder)
    return caught.value.problems


def test_nothing_set_is_a_development_checkout(data_folder: Path) -> None:
    environment = read({}, data_folder=data_folder)
    assert not environment.production
    assert environment.database is None
    assert environment.worker == {}
    assert "localhost" in environment.allowed_hosts
    assert (environment.port, environment.web_concurrency) == (8000, 2)
    assert (environment.log_level, environment.log_format) == ("INFO", "json")
    assert (environment.pgbouncer, environment.ca_bundle, environment.pg_bin) == (False, None, None)
    assert environment.datasource_allowed_networks == ()
    assert environment.duckdb_folder == data_folder / "warehouses"


def test_variables_that_are_set_but_empty_count_as_not_set(data_folder: Path) -> None:
    empty = read(dict.fromkeys(KNOWN_NAMES, " "), data_folder=data_folder)
    assert empty == read({}, data_folder=data_folder)


def test_all_variables_arrive_as_values(data_folder: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("certificate")
    environment = read(
        {
            **PRODUCTION,
            "XNGIN_SECRET_KEYS": f"{KEY}, {'older-' * 6}",
            "XNGIN_CSRF_TRUSTED_ORIGINS": "https://tasks.example.com, https://*.example.org:8443",
            "XNGIN_PG_BIN": str(tmp_path),
            "XNGIN_PGBOUNCER": "Yes",
            "XNGIN_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8,fd00::/8,10.1.2.3",
            "XNGIN_CA_BUNDLE": str(bundle),
            "XNGIN_DATASOURCE_ALLOWED_NETWORKS": "10.0.0.0/8, ::1",
            "XNGIN_DUCKDB_FOLDER": str(tmp_path),
            "XNGIN_LOG_LEVEL": "warning",
            "XNGIN_LOG_FORMAT": "CONSOLE",
            "PORT": "80",
            "WEB_CONCURRENCY": "5",
            "XNGIN_WORKER_LEASE": "90s",
            "XNGIN_WORKER_QUEUES": "mail, default",
        },
        data_folder=data_folder,
    )
    assert environment.production
    assert environment.secret_keys == (KEY, "older-" * 6)
    assert environment.allowed_hosts == ("tasks.example.com",)
    assert environment.csrf_trusted_origins == ("https://tasks.example.com", "https://*.example.org:8443")
    assert environment.pg_bin == tmp_path
    assert environment.pgbouncer
    assert environment.webhook_allowed_networks == (
        ipaddress.ip_network("127.0.0.0/8"),
        ipaddress.ip_network("fd00::/8"),
        ipaddress.ip_network("10.1.2.3/32"),
    )
    assert environment.ca_bundle == bundle
    assert environment.datasource_allowed_networks == (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1"))
    assert environment.duckdb_folder == tmp_path
    assert (environment.log_level, environment.log_format) == ("WARNING", "console")
    assert (environment.port, environment.web_concurrency) == (80, 5)
    assert environment.worker == {"lease_seconds": 90.0, "queues": ("mail", "default")}


def test_every_fault_is_reported_at_once_and_names_its_variable(data_folder: Path, tmp_path: Path) -> None:
    wrong = {
        "DATABASE_URL": "mysql://somewhere/x",
        "XNGIN_ENVIRONMENT": "produktion",
        "XNGIN_ALLOWED_HOSTS": "https://example.com",
        "XNGIN_CSRF_TRUSTED_ORIGINS": "example.com",
        "XNGIN_PG_BIN": str(tmp_path / "absent"),
        "XNGIN_PGBOUNCER": "maybe",
        "XNGIN_WEBHOOK_ALLOWED_NETWORKS": "10.0.0.1/8",
        "XNGIN_CA_BUNDLE": str(tmp_path),
        "XNGIN_DATASOURCE_ALLOWED_NETWORKS": "localhost",
        "XNGIN_DUCKDB_FOLDER": str(tmp_path / "absent"),
        "XNGIN_LOG_LEVEL": "LOUD",
        "XNGIN_LOG_FORMAT": "xml",
        "PORT": "99999",
        "WEB_CONCURRENCY": "0",
        "XNGIN_WORKER_LEASE": "2s",
        "XNGIN_WORKER_TASK_CONCURRENCY": "many",
        "XNGIN_COLOUR": "blue",
    }
    problems = faults(wrong, data_folder)
    assert len(problems) == len(wrong)
    for name in wrong:
        assert sum(problem.startswith(f"{name} ") for problem in problems) == 1


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("XNGIN_LOGLEVEL", "XNGIN_LOG_LEVEL"),
        ("XNGIN_WORKER_LEASES", "XNGIN_WORKER_LEASE"),
        ("XNGIN_ALLOWED_HOST", "XNGIN_ALLOWED_HOSTS"),
    ],
)
def test_an_unknown_variable_is_told_with_the_nearest_known_name(name: str, nearest: str, data_folder: Path) -> None:
    (problem,) = faults({name: "x"}, data_folder)
    assert problem.startswith(name)
    assert f"did you mean {nearest}?" in problem


def test_a_wrong_choice_is_told_with_the_nearest_one(data_folder: Path) -> None:
    (problem,) = faults({"XNGIN_ENVIRONMENT": "prod"}, data_folder)
    assert "development, production" in problem
    assert "did you mean production?" in problem


def test_links_that_kubernetes_makes_to_a_service_of_our_name_are_no_faults(data_folder: Path) -> None:
    links = {
        "XNGIN_WORKER_SERVICE_HOST": "10.0.0.1",
        "XNGIN_WORKER_SERVICE_PORT": "80",
        "XNGIN_WORKER_SERVICE_PORT_HTTP": "80",
        "XNGIN_WORKER_PORT": "tcp://10.0.0.1:80",
        "XNGIN_WORKER_PORT_80_TCP": "tcp://10.0.0.1:80",
        "XNGIN_WORKER_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert read(links, data_folder=data_folder).worker == {}


def test_production_needs_database_keys_and_hosts(data_folder: Path) -> None:
    problems = faults({"XNGIN_ENVIRONMENT": "production"}, data_folder)
    assert [problem.split()[0] for problem in problems] == [
        "DATABASE_URL",
        "XNGIN_SECRET_KEYS",
        "XNGIN_ALLOWED_HOSTS",
    ]
    assert not data_folder.exists()


def test_production_reads_no_duckdb_file_unless_a_folder_is_named(data_folder: Path, tmp_path: Path) -> None:
    assert read(PRODUCTION, data_folder=data_folder).duckdb_folder is None
    named = read({**PRODUCTION, "XNGIN_DUCKDB_FOLDER": str(tmp_path)}, data_folder=data_folder)
    assert named.duckdb_folder == tmp_path


@pytest.mark.parametrize("weak", ["tooshort", "tooshort" * 3 + "-and-1b", "ab" * 40])
def test_production_refuses_weak_keys_without_showing_them(weak: str, data_folder: Path) -> None:
    (problem,) = faults({**PRODUCTION, "XNGIN_SECRET_KEYS": f"{KEY},{weak}"}, data_folder)
    assert "number 2" in problem
    assert weak not in problem


@pytest.mark.parametrize("variables", [PRODUCTION, {"XNGIN_SECRET_KEYS": KEY, "XNGIN_PGBOUNCER": "1"}])
def test_secrets_are_in_no_repr(variables: dict[str, str], data_folder: Path) -> None:
    environment = read(variables, data_folder=data_folder)
    assert environment.secret_keys == (KEY,)
    for text in (repr(environment), str(environment), repr(environment.database)):
        assert KEY not in text
        assert "hidden" not in text


def test_log_lines_are_for_reading_only_on_a_terminal_in_development(data_folder: Path) -> None:
    def log_format(variables: dict[str, str], *, terminal: bool) -> str:
        return read(variables, terminal=terminal, data_folder=data_folder).log_format

    assert log_format({}, terminal=True) == "console"
    assert log_format({}, terminal=False) == "json"
    assert log_format(PRODUCTION, terminal=True) == "json"


def test_a_checkout_without_a_place_for_its_key_says_so(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    (problem,) = faults({}, in_the_way)
    assert problem.startswith("XNGIN_SECRET_KEYS is not set")


def test_the_environment_cannot_be_changed(data_folder: Path) -> None:
    environment: Environment = read({}, data_folder=data_folder)
    with pytest.raises(AttributeError):
        environment.port = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        environment.worker["lease_seconds"] = 1  # type: ignore[index]


def test_a_wrong_environment_ends_any_command_with_the_report_and_2() -> None:
    ended = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=PROJECT_FOLDER,
        env={**os.environ, "XNGIN_LOG_LEVEL": "LOUD", "DATABASE_URL": "postgres://u:hidden@h:port/x"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2
    assert "2 faults" in ended.stderr
    assert "DATABASE_URL" in ended.stderr
    assert "XNGIN_LOG_LEVEL" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "hidden" not in ended.stdout + ended.stderr


def test_only_one_module_reads_the_environment() -> None:
    """Others may set a variable for what they start, but what they know comes from `Environment`."""
    readers = [
        str(path.relative_to(PROJECT_FOLDER))
        for package in ("xngin_worker", "taskqueue")
        for path in (PROJECT_FOLDER / package).rglob("*.py")
        if any(word in path.read_text() for word in ("os.environ[", "os.environ.get(", "os.getenv(", "os.environ,"))
    ]
    assert readers == ["xngin_worker/environment.py"]
