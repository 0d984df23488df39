"""``manage.py rotate_secrets``: brings the secrets of datasources under the newest key."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from experiments.operations.datasources import rotate_secrets


class Command(BaseCommand):
    help = (
        "Encrypt the secrets of all datasources with the newest key in XNGIN_SECRET_KEYS. Run it once a new key stands "
        "first and every process has it; afterwards the old key can go. Exits 1 when a secret stays under an old key."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would change")

    def handle(self, *args: Any, dry_run: bool, **options: Any) -> None:
        changed = unchanged = failed = 0
        for rotated in rotate_secrets(dry_run=dry_run):
            if rotated.problem is not None:
                failed += 1
                self.stderr.write(rotated.problem)
            elif rotated.changed:
                changed += 1
            else:
                unchanged += 1
        verb = "Would be encrypted" if dry_run else "Encrypted"
        self.stdout.write(f"{verb} with the newest key: {changed}. Needed nothing: {unchanged}. Failed: {failed}.")
        if failed:
            raise CommandError(f"datasources with a secret that the newest key does not open: {failed}")
