"""`/health` of the web process, answered before any other middleware looks at the request.

A load balancer asks by address and without TLS, which the host check and the redirect to HTTPS would refuse. The
database is not asked: its loss is no reason to restart the site.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

PATH = "/health"


def health_middleware(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Answers 200 to `/health` and hands every other request on."""

    def answer(request: HttpRequest) -> HttpResponse:
        if request.path_info == PATH:
            return HttpResponse("ok\n", content_type="text/plain", headers={"Cache-Control": "no-store"})
        return get_response(request)

    return answer
