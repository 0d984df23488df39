"""The worker's settings: options, variables, defaults, and how all faults are told at once."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from xngin_worker.configuration import ConfigurationError
from xngin_worker.environment import Environment, read
from xngin_worker.settings_page import render_variables, render_worker_settings
from xngin_worker.variables import VARIABLES
from xngin_worker.worker_options import WorkerCommand, resolve
from xngin_worker.worker_settings import WORKER_SETTINGS, WORKER_VARIABLES, Kind, WorkerSetting, WorkerSettings

DEFAULTS = WorkerSettings(
    max_jobs=1000,
    max_tasks=0,
    task_concurrency=16,
    job_concurrency=4,
    queues=(),
    poll_interval_seconds=5,
    lease_seconds=60,
    max_retries=10,
    drain_timeout_seconds=110,
    snapshot_interval_seconds=3 * 3600,
    pull_interval_seconds=4 * 3600,
    job_timeout_seconds=900,
    db_outage_seconds=300,
    exit_when_idle=False,
    only="both",
    health_port=None,
)


def environment(tmp_path: Path, **variables: str) -> Environment:
    return read(variables, data_folder=tmp_path)


def settings(tmp_path: Path, *words: str, **variables: str) -> WorkerSettings:
    parser = WorkerCommand().create_parser("manage.py", "runworker")
    return resolve(vars(parser.parse_args(list(words))), environment(tmp_path, **variables))


def faults(*words: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        WorkerCommand().create_parser("manage.py", "runworker").parse_args(list(words))
    return caught.value.problems


def test_without_options_and_variables_the_defaults_hold(tmp_path: Path) -> None:
    assert settings(tmp_path) == DEFAULTS


def test_every_field_of_the_settings_has_one_line_in_the_table() -> None:
    assert [setting.field for setting in WORKER_SETTINGS] == [field.name for field in fields(WorkerSettings)]


@pytest.mark.parametrize("setting", WORKER_SETTINGS, ids=lambda setting: setting.option)
def test_each_default_is_shown_as_it_would_be_read(setting: WorkerSetting) -> None:
    assert setting.read(setting.default_text) == setting.default


def test_all_options_arrive(tmp_path: Path) -> None:
    words = [
        *("--max-tasks", "7", "--task-concurrency=3", "--queues", "mail,default", "--queues=slow"),
        *("--poll-interval", "0.5", "--lease", "5s", "--max-retries", "0", "--drain-timeout", "2min"),
        *("--db-outage", "1h", "--exit-when-idle", "--health-port", "8080"),
        *("--max-jobs", "9", "--job-concurrency", "2", "--snapshot-interval", "1h", "--pull-interval", "90min"),
        *("--job-timeout", "30s", "--only", "Jobs"),
    ]
    assert settings(tmp_path, *words) == WorkerSettings(
        max_jobs=9,
        max_tasks=7,
        task_concurrency=3,
        job_concurrency=2,
        queues=("mail", "default", "slow"),
        poll_interval_seconds=0.5,
        lease_seconds=5,
        max_retries=0,
        drain_timeout_seconds=120,
        snapshot_interval_seconds=3600,
        pull_interval_seconds=5400,
        job_timeout_seconds=30,
        db_outage_seconds=3600,
        exit_when_idle=True,
        only="jobs",
        health_port=8080,
    )


@pytest.mark.parametrize("setting", WORKER_SETTINGS, ids=lambda setting: setting.variable)
def test_an_option_wins_over_its_variable_and_that_over_the_default(setting: WorkerSetting, tmp_path: Path) -> None:
    samples = {
        Kind.COUNT: ("7", "8"),
        Kind.DURATION: ("7s", "8s"),
        Kind.NAMES: ("a", "b"),
        Kind.FLAG: ("yes", "no"),
        Kind.HALF: ("jobs", "tasks"),
    }
    by_variable, by_option = samples[setting.kind]
    with_variable = settings(tmp_path, **{setting.variable: by_variable})
    assert getattr(with_variable, setting.field) == setting.read(by_variable) != setting.default
    with_both = settings(tmp_path, f"{setting.option}={by_option}", **{setting.variable: by_variable})
    assert getattr(with_both, setting.field) == setting.read(by_option)


def test_the_health_port_of_a_variable_can_be_switched_off(tmp_path: Path) -> None:
    assert settings(tmp_path, "--health-port", "off", XNGIN_WORKER_HEALTH_PORT="80").health_port is None


def test_callers_in_python_may_give_values_instead_of_text(tmp_path: Path) -> None:
    given = {"lease": 5.5, "queues": ("a", "b"), "exit_when_idle": True, "max_tasks": None, "verbosity": 1}
    resolved = resolve(given, environment(tmp_path))
    assert (resolved.lease_seconds, resolved.queues, resolved.exit_when_idle) == (5.5, ("a", "b"), True)


def test_resolving_lists_all_options_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve({"lease": 1, "max_tasks": "x"}, environment(tmp_path))
    assert [problem.split()[0] for problem in caught.value.problems] == ["--max-tasks", "--lease"]


def test_all_kinds_of_wrong_options_are_reported_together() -> None:
    problems = faults(
        *("--leas", "5", "--lease", "1", "--max-retries", "-v", "9", "--queues", ",", "--poll_interval=2"),
        *("stray", "--health-port", "70000", "--exit-when-idle=perhaps"),
    )
    starts = sorted(problem.split()[0].rstrip(":") for problem in problems)
    assert starts == sorted(
        [
            "--leas",
            "--lease",
            "--max-retries",
            "-v/--verbosity",
            "--queues",
            "--poll_interval",
            "'stray'",
            "--health-port",
            "--exit-when-idle",
        ]
    )


@pytest.mark.parametrize(
    ("given", "nearest"),
    [("--leas", "--lease"), ("--drain", "--drain-timeout"), ("--poll_interval", "--poll-interval")],
)
def test_an_unknown_option_is_no_abbreviation_but_told_with_the_nearest_one(given: str, nearest: str) -> None:
    (problem,) = faults(given, "5")
    assert f"{given} is not an option" in problem
    assert f"did you mean {nearest}?" in problem


@pytest.mark.parametrize(
    "words",
    [
        "--lease 2.9",
        "--lease 2d",
        "--poll-interval 0",
        "--task-concurrency 0",
        "--health-port 0",
        "--queues all,x",
        "--job-concurrency 0",
        "--only task",
    ],
)
def test_values_out_of_bounds_are_refused(words: str) -> None:
    (problem,) = faults(*words.split())
    assert problem.startswith(words.split()[0] + " must be")


def test_help_names_option_variable_default_and_meaning_of_each_setting() -> None:
    text = " ".join(WorkerCommand().create_parser("manage.py", "runworker").format_help().split())
    for setting in WORKER_SETTINGS:
        entry = f"{setting.meaning} ({setting.accepted}; {setting.variable}; default {setting.default_text})"
        assert entry in text.replace("- ", "-")
        assert f" {setting.option} " in text


def test_faults_of_options_and_variables_come_in_one_report_with_exit_2(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("xngin-worker")
    ended = subprocess.run(
        [script, "--leas", "5", "--max-tasks", "x"],
        cwd=tmp_path,
        env={**os.environ, "XNGIN_WORKER_LEASE": "1", "XNGIN_LOG_LEVEL": "LOUD"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2
    assert "4 faults" in ended.stderr
    for name in ("--leas ", "--max-tasks", "XNGIN_WORKER_LEASE", "XNGIN_LOG_LEVEL"):
        assert ended.stderr.count(name) == 1
    assert "Traceback" not in ended.stderr


def test_the_tables_of_the_page_have_a_line_for_each_setting() -> None:
    page = render_worker_settings() + render_variables()
    for name in [*WORKER_VARIABLES, *(variable.name for variable in VARIABLES)]:
        assert page.count(f"`{name}`") == 1
    assert all(line.startswith("| ") and line.endswith(" |") for line in page.splitlines())
