"""``manage.py load_assignments FILE.csv --experiment ID``: assignments from a file or standard input."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from experiments.errors import ExperimentError
from experiments.operations.load import load_assignments


class Command(BaseCommand):
    help = (
        "Load assignments from a CSV file (UTF-8, columns participant_id, arm and, where the experiment is clustered, "
        "cluster_id). All or nothing: lines that are wrong are told by their numbers."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the file, or - for standard input")
        parser.add_argument("--experiment", required=True, metavar="ID", help="id of the experiment")

    def handle(self, *args: Any, file: str, experiment: str, **options: Any) -> None:
        try:
            if file == "-":
                report = load_assignments(experiment, sys.stdin.buffer)
            else:
                with Path(file).open("rb") as opened:
                    report = load_assignments(experiment, opened)
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror or error}") from error
        except ExperimentError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{report.loaded} assignments loaded, {report.already_there} were there before")
