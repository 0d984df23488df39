"""Somebody who looks at the demo's site over HTTP, as a browser would."""

from __future__ import annotations

import html
import re
from types import TracebackType
from typing import Self
from urllib.parse import urljoin

import requests
from django.urls import reverse

from xngin_worker.demo.administrator import Administrator
from xngin_worker.demo.steps import StepFailed

_TIMEOUT_SECONDS = 15.0
_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
_STYLE_SHEET = re.compile(r'<link[^>]*\shref="([^"]+\.css)"')


class Visitor:
    """One browser session; closed when its context is left."""

    def __init__(self, site: str) -> None:
        self._site = site
        self._session = requests.Session()
        # A proxy that the environment names knows nothing of this machine's loopback.
        self._session.trust_env = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()

    def page(self, path: str) -> str:
        """The text of a page that is there and needs no further log-in; `StepFailed` says what came instead."""
        response = self._session.get(urljoin(self._site, path), timeout=_TIMEOUT_SECONDS, allow_redirects=False)
        return _expect_page(response)

    def check_style(self, page: str) -> None:
        """Every style sheet that the page names must be there, or the page looks like no admin."""
        sheets = [html.unescape(found) for found in _STYLE_SHEET.findall(page)]
        if not sheets:
            raise StepFailed("the page names no style sheet")
        for sheet in sheets:
            response = self._session.get(urljoin(self._site, sheet), timeout=_TIMEOUT_SECONDS)
            if response.status_code != 200 or not response.headers.get("Content-Type", "").startswith("text/css"):
                raise StepFailed(f"the style sheet {sheet} is answered with {response.status_code}")

    def log_in(self, administrator: Administrator) -> None:
        path = reverse("admin:login")
        token = _TOKEN.search(self.page(path))
        if token is None:
            raise StepFailed(f"{path} has no form to log in with")
        response = self._session.post(
            urljoin(self._site, path),
            data={
                "username": administrator.name,
                "password": administrator.password,
                "csrfmiddlewaretoken": token.group(1),
                "next": reverse("admin:index"),
            },
            headers={"Referer": urljoin(self._site, path)},
            timeout=_TIMEOUT_SECONDS,
            allow_redirects=False,
        )
        if response.status_code != 302:
            raise StepFailed(f"{administrator.name} cannot log in: the form is answered with {response.status_code}")


def _expect_page(response: requests.Response) -> str:
    if response.status_code != 200:
        target = f" to {response.headers['Location']}" if "Location" in response.headers else ""
        raise StepFailed(f"{response.url} is answered with {response.status_code}{target}")
    return response.text
