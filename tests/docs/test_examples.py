"""Every example of the documentation does what the page says. A block that is not executed is listed with a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Block, blocks_of, name_of, prose_of
from tests.docs.reader import Reader

# (page, first line of the block): why nobody executes it here.
NOT_EXECUTED: dict[tuple[str, str], str] = {
    ("README.md", "./run demo"): "the demo has tests of its own",
    ("README.md", "./run test"): "is what runs this",
    ("docs/getting-started.md", "./run demo"): "the demo has tests of its own",
    ("docs/getting-started.md", "./run createsuperuser"): "asks questions, then takes the port 8000",
    ("docs/warehouses.md", "CREATE ROLE experiments_reader LOGIN PASSWORD 'choose one';"): "test_warehouse_rights.py",
    ("docs/warehouses.md", "CREATE USER experiments_reader PASSWORD 'Choose-one-1';"): "there is no Redshift here",
    (
        "docs/warehouses.md",
        'GRANT `roles/bigquery.dataViewer` ON SCHEMA `acme.shop` TO "serviceAccount:xp@acme.iam.gserviceaccount.com";',
    ): "there is no BigQuery here",
    ("docs/warehouses.md", "CREATE ROLE experiments_reader;"): "there is no Snowflake here",
    ("docs/warehouses.md", "GRANT USE CATALOG ON CATALOG acme TO `experiments-reader`;"): "there is no Databricks here",
    ("docs/warehouses.md", '{"tables": [{"user": "experiments", "schema": "shop", "privileges": ["SELECT"]}]}'): (
        "there is no Trino here"
    ),
}

# Languages that are checked by tests of their own.
CHECKED_ELSEWHERE = {
    "dockerfile": "test_deployment.py reads its lines",
    "procfile": "test_deployment.py compares it with the Procfile",
    "mermaid": "drawn from the table of moves, and compared with it by the contract tests",
}


def _to_follow(page: Path) -> list[Block]:
    return [
        block
        for block in blocks_of(page)
        if block.language not in CHECKED_ELSEWHERE and (name_of(page), block.first_line) not in NOT_EXECUTED
    ]


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", [page for page in PAGES if _to_follow(page)], ids=name_of)
def test_what_the_page_shows_happens(page: Path, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        for block in _to_follow(page):
            reader.follow(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_example_hides_in_an_indented_block(page: Path) -> None:
    assert re.findall(r"\n\n {4,}\S.*", prose_of(page)) == []


def test_every_listed_exception_is_still_on_its_page() -> None:
    shown = {(name_of(page), block.first_line) for page in PAGES for block in blocks_of(page)}
    assert sorted(set(NOT_EXECUTED) - shown) == []
