"""Links lead somewhere: to a page or file that exists, and to a heading on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors_of, links_of, name_of


def _is_elsewhere(link: str) -> bool:
    return link.startswith(("https://", "http://"))


def _problem(page: Path, link: str) -> str | None:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return f"{link}: there is no {target}"
    if anchor and (target.suffix != ".md" or anchor not in anchors_of(target)):
        return f"{link}: there is no such heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    problems = [_problem(page, link) for link in links_of(page) if not _is_elsewhere(link)]
    assert list(filter(None, problems)) == []


@pytest.mark.parametrize("link", ["missing.md", "README.md#no-such-heading", "run#usage", "../outside.md", "#nowhere"])
def test_a_link_that_leads_nowhere_is_found(link: str) -> None:
    assert _problem(ROOT / "README.md", link) is not None


def test_every_page_is_reached_from_the_readme() -> None:
    reached = {ROOT / "README.md"}
    waiting = list(reached)
    while waiting:
        page = waiting.pop()
        links = [link.partition("#")[0] for link in links_of(page) if not _is_elsewhere(link)]
        found = {(page.parent / link).resolve() for link in links if link.endswith(".md")} - reached
        reached |= found
        waiting += [target for target in found if target.exists()]
    assert [name_of(page) for page in PAGES if page not in reached] == []
