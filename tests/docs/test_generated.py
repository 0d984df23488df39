"""What the pages take from declarations is what the declarations say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.generated import COMMAND, PARTS, parts_of, rewritten
from tests.docs.pages import PAGES, name_of


@pytest.mark.parametrize("page", [page for page in PAGES if parts_of(page)], ids=name_of)
def test_generated_parts_are_up_to_date(page: Path) -> None:
    assert page.read_text() == rewritten(page), f"run {COMMAND}"


def test_every_table_is_on_some_page() -> None:
    assert sorted(name for page in PAGES for name in parts_of(page)) == sorted(PARTS)
