"""The options of `runworker`, from the table of the worker's settings, and how they win over the variables.

Options are taken as text and judged here rather than by argparse, which ends the process at the first fault:
all that is wrong with them is reported together, and together with the variables.
"""

from __future__ import annotations

import sys
from argparse import ArgumentError
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, override

from django.core.management.base import BaseCommand, CommandParser, DjangoHelpFormatter

from xngin_worker.configuration import ConfigurationError, did_you_mean, report_and_exit
from xngin_worker.environment import Environment
from xngin_worker.worker_settings import (
    WORKER_SETTINGS,
    Kind,
    WorkerSetting,
    WorkerSettings,
    WorkerValue,
    settle,
)

_METAVARS = {Kind.COUNT: "N", Kind.DURATION: "TIME", Kind.NAMES: "NAME,NAME", Kind.FLAG: "yes|no", Kind.HALF: "HALF"}


def add_arguments(parser: CommandParser) -> None:
    """Give the parser an option for each setting, with variable, default and meaning in its help."""
    for setting in WORKER_SETTINGS:
        # A flag may stand alone, and may say no, or it could not win over a variable that says yes.
        flag: dict[str, Any] = {"nargs": "?", "const": "yes"} if setting.kind is Kind.FLAG else {}
        several: dict[str, Any] = {"action": "append"} if setting.kind is Kind.NAMES else {}
        parser.add_argument(
            setting.option,
            dest=setting.destination,
            metavar=_METAVARS[setting.kind],
            help=_help(setting),
            **flag,
            **several,
        )


def resolve(options: Mapping[str, object], environment: Environment) -> WorkerSettings:
    """The worker's settings: an option wins over its variable, a variable over the default.

    `ConfigurationError` lists all options that cannot be used. One that is absent or None was not given.
    """
    values, problems = _read_options(options)
    if problems:
        raise ConfigurationError(problems)
    return settle({**environment.worker, **values})


def problems_in(words: Sequence[str]) -> tuple[str, ...]:
    """What is wrong with the words after `runworker`, found without settings or environment."""
    try:
        WorkerCommand().create_parser("manage.py", "runworker").parse_args(words)
    except ConfigurationError as error:
        return error.problems
    return ()


class WorkerCommand(BaseCommand):
    """A management command with the worker's options, which a wrong configuration ends with exit code 2."""

    help = (
        "Run tasks and maintenance jobs until told to stop. A TIME is a number of seconds, or like 90s, 15min, 3h. "
        "An option wins over its variable."
    )

    @override
    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        django = super().create_parser(prog_name, subcommand, add_help=False, **kwargs)
        return RunworkerParser(
            prog=django.prog,
            description=django.description,
            formatter_class=DjangoHelpFormatter,
            parents=[django],
        )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser)

    @override
    def run_from_argv(self, argv: list[str]) -> None:
        try:
            super().run_from_argv(argv)
        except ConfigurationError as error:
            report_and_exit(error)


class RunworkerParser(CommandParser):
    """A parser that goes on after a fault, and raises one `ConfigurationError` with all of them."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, exit_on_error=False, **kwargs)

    @override
    def parse_args(  # type: ignore[override]  # one signature for what typeshed splits into three
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        problems: list[str] = []
        while True:
            try:
                options, strays = self.parse_known_args(words, namespace)
                break
            except ArgumentError as error:
                problems.append(f"{error.argument_name}: {error.message}.")
                remaining = _without_option(words, (error.argument_name or "").split("/"))
                if remaining == words:
                    raise ConfigurationError(problems) from error
                words = remaining
        problems += self._judge_strays(strays)
        problems += _read_options(vars(options))[1]
        if problems:
            raise ConfigurationError(problems)
        return options

    @override
    def error(self, message: str) -> NoReturn:
        raise ConfigurationError([f"{message}."])

    def _judge_strays(self, strays: Sequence[str]) -> list[str]:
        known = [option for option in self._option_string_actions if option.startswith("--")]
        problems = []
        after_unknown_option = False
        for stray in strays:
            if stray.startswith("-"):
                name = stray.partition("=")[0]
                problems.append(f"{name} is not an option of this command{did_you_mean(name, known)}.")
            elif not after_unknown_option:
                problems.append(f"{stray!r} belongs to no option.")
            # The word after an unknown option is most likely its value, and no fault of its own.
            after_unknown_option = stray.startswith("-") and "=" not in stray
        return problems


def _help(setting: WorkerSetting) -> str:
    return f"{setting.meaning} ({setting.accepted}; {setting.variable}; default {setting.default_text})"


def _read_options(options: Mapping[str, object]) -> tuple[dict[str, WorkerValue], list[str]]:
    values: dict[str, WorkerValue] = {}
    problems: list[str] = []
    for setting in WORKER_SETTINGS:
        given = options.get(setting.destination)
        if given is None:
            continue
        text = ",".join(map(str, given)) if isinstance(given, list | tuple) else str(given)
        try:
            values[setting.field] = setting.read(text)
        except ValueError as error:
            problems.append(f"{setting.option} {error}.")
    return values, problems


def _without_option(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """The words without every place where the option stands, nor the value behind it."""
    kept: list[str] = []
    value_follows = False
    for word in words:
        if word in names:
            value_follows = True
            continue
        attached = any(word.startswith(name if len(name) == 2 else f"{name}=") for name in names if name)
        if not attached and not (value_follows and not word.startswith("-")):
            kept.append(word)
        value_follows = False
    return kept
