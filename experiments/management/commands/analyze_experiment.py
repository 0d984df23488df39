"""``manage.py analyze_experiment ID``: the analysis that the next snapshot would store, without storing it."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from experiments.errors import ExperimentError
from experiments.jobs.analysis import analyze
from experiments.jobs.definition import read_definition
from experiments.jobs.report import lines_of
from experiments.operations.datasources import open_datasource


class Command(BaseCommand):
    help = "Analyse an experiment now and show the result; nothing is stored. Exits 1 when that fails."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", metavar="ID", help="id of the experiment")
        parser.add_argument("--json", action="store_true", help="write what a snapshot would hold, as JSON")

    def handle(self, *args: Any, id: str, **options: Any) -> None:
        try:
            data = analyze(read_definition(id), open_datasource)
        except ExperimentError as error:
            if options["json"]:
                problem = {"code": error.code, "field": error.field, "message": str(error)}
                self.stdout.write(json.dumps({"experiment_id": id, "problem": problem}, ensure_ascii=False))
            else:
                self.stderr.write(f"{id}: {error} ({error.code})")
            sys.exit(1)
        if options["json"]:
            self.stdout.write(json.dumps(data, ensure_ascii=False, allow_nan=False))
            return
        for line in lines_of(data):
            self.stdout.write(line)
