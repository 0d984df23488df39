"""The ways to a move in the admin: the list's actions, the buttons of a task's page, and the page that asks first."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME, ActionForm
from django.contrib.admin.options import ActionLocation
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.forms import BooleanField, CheckboxInput
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.dateparse import parse_datetime
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from taskqueue.admin import move_report, moves
from taskqueue.admin.bounded import REACHABLE, steady_plans
from taskqueue.admin.model_admin import AnyModelAdmin
from taskqueue.admin.moves import OFFERS, Offer
from taskqueue.admin.selection import Selection
from taskqueue.lifecycle import Status
from taskqueue.models import Task

_LONGEST_REASON = 1_000


class MoveForm(ActionForm):
    """Django's form without the script that its choice of all rows needs."""

    select_across: Any = BooleanField(label="all that match", required=False, widget=CheckboxInput)


def _action(offer: Offer) -> Any:
    def act(model_admin: "MovePages", request: HttpRequest, queryset: Any) -> HttpResponse | None:
        return model_admin.act(request, offer)

    act.__name__ = offer.name
    return admin.action(act, description=offer.label, permissions=[offer.name])


class MovePages(AnyModelAdmin):
    """Part of the ``ModelAdmin`` of tasks."""

    action_form = MoveForm
    actions = [_action(offer) for offer in OFFERS]
    actions_on_top = True

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return moves.BY_NAME["retry"].allowed_to(request)

    def has_run_now_permission(self, request: HttpRequest) -> bool:
        return moves.BY_NAME["run_now"].allowed_to(request)

    def has_dead_letter_permission(self, request: HttpRequest) -> bool:
        return moves.BY_NAME["dead_letter"].allowed_to(request)

    def has_resubmit_permission(self, request: HttpRequest) -> bool:
        return moves.BY_NAME["resubmit"].allowed_to(request)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.move_view)
        ours = [path("<path:object_id>/move/<str:name>/", view, name="taskqueue_task_move")]
        return [*ours, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST" and _wants_all(request) and ACTION_CHECKBOX_NAME not in request.POST:
            # Django turns away an action for which nothing is ticked before it looks at "all that match".
            chosen = request.POST.copy()
            chosen.setlist(ACTION_CHECKBOX_NAME, [""])
            request.POST = chosen  # type: ignore[assignment]
        return super().changelist_view(request, extra_context)

    def response_action(
        self, request: HttpRequest, queryset: Any, action_location: Any = ActionLocation.CHANGE_LIST
    ) -> HttpResponse | None:
        # Django would count the matching rows of a list that may be huge; the action looks at its own selection.
        response: HttpResponse | None = super().response_action(request, Task.objects.none(), action_location)
        return response

    def act(self, request: HttpRequest, offer: Offer) -> HttpResponse | None:
        """An action of the list, for the ticked tasks or for all that match."""
        if _wants_all(request):
            selection = Selection.from_parameters(request.GET.dict())
            return self._act_on_all(request, offer, selection)
        chosen = [task_id for task_id in request.POST.getlist(ACTION_CHECKBOX_NAME) if "\x00" not in task_id]
        if offer.asks and not _confirmed(request, offer):
            return self._ask_first(request, offer, _state_counts(chosen), chosen=chosen)
        self._move(request, offer, chosen=chosen)
        return None

    @method_decorator(require_POST)
    def move_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """A button of a task's page."""
        offer = moves.BY_NAME.get(name)
        task: Task | None = self.get_object(request, unquote(object_id))
        if offer is None or task is None:
            raise Http404
        allowed = self.has_view_permission(request, task) and offer.allowed_to(request)
        if not allowed:
            raise PermissionDenied
        if not offer.asks or _confirmed(request, offer):
            self._move(request, offer, chosen=[task.pk])
        elif offer.possible_for(task):
            return self._ask_first(request, offer, _state_counts([task.pk]), task=task)
        else:
            self._tell(request, offer, moves.refusal(offer, task), chosen=[task.pk])
        return HttpResponseRedirect(reverse("admin:taskqueue_task_change", args=[quote(task.pk)]))

    def _act_on_all(self, request: HttpRequest, offer: Offer, selection: Selection) -> HttpResponse | None:
        copies = offer.name == "resubmit"
        most = moves.MOST_COPIES if copies else REACHABLE
        found: dict[Status, int] = {}
        if copies or not _confirmed(request, offer):
            with steady_plans():
                found = moves.count_all(offer, selection, most)
        if copies and sum(found.values()) > most:
            text = (
                f"More than {most:,} tasks match, and a second request could not tell which were done: narrow the list."
            )
            messages.error(request, text)
            return None
        if _confirmed(request, offer):
            self._move(request, offer, selection=selection)
            return None
        counts = [(status.value, _capped(count, most)) for status, count in found.items() if count]
        return self._ask_first(request, offer, counts, selection=selection)

    def _move(
        self,
        request: HttpRequest,
        offer: Offer,
        *,
        chosen: Sequence[str] | None = None,
        selection: Selection | None = None,
    ) -> None:
        asked = moves.Request(
            offer=offer,
            actor=request.user.get_username(),
            reason=request.POST.get("reason", "").replace("\x00", "").strip()[:_LONGEST_REASON],
            asked_at=_asked_at(request),
        )
        result = moves.move_chosen(asked, chosen or ()) if selection is None else moves.move_all(asked, selection)
        move_report.record(
            asked, result, request.user.pk, f"All of the list {request.GET.urlencode() or '(no filter)'}"
        )
        self._tell(request, offer, result, chosen)

    def _tell(self, request: HttpRequest, offer: Offer, result: moves.Result, chosen: Sequence[str] | None) -> None:
        level = messages.SUCCESS if result.moved and not result.refused else messages.WARNING
        messages.add_message(request, level, move_report.words(offer, result, chosen))

    def _ask_first(
        self,
        request: HttpRequest,
        offer: Offer,
        counts: Sequence[tuple[str, str]],
        *,
        chosen: Sequence[str] = (),
        task: Task | None = None,
        selection: Selection | None = None,
    ) -> HttpResponse:
        site = self.admin_site
        context = {
            **site.each_context(request),
            "title": f"{offer.label}: are you sure?",
            "opts": Task._meta,
            "offer": offer,
            "counts": counts,
            "sources": [status.value for status in offer.sources],
            "chosen": chosen,
            "all": selection is not None,
            "narrows": selection is not None and selection.narrows,
            "task": task,
            "asked_at": _database_now().isoformat(),
            "reason": request.POST.get("reason", ""),
            "reason_missing": "confirmed" in request.POST and offer.asks_reason,
            "checkbox_name": ACTION_CHECKBOX_NAME,
            "media": self.media,
            "back": request.get_full_path()
            if task is None
            else reverse("admin:taskqueue_task_change", args=[quote(task.pk)]),
        }
        return TemplateResponse(request, "admin/taskqueue/task/confirm_move.html", context)


def _wants_all(request: HttpRequest) -> bool:
    return request.POST.get("select_across") in ("1", "on")


def _confirmed(request: HttpRequest, offer: Offer) -> bool:
    if "confirmed" not in request.POST or _asked_at(request) is None:
        return False
    return bool(request.POST.get("reason", "").strip()) or not offer.asks_reason


def _asked_at(request: HttpRequest) -> datetime | None:
    try:
        asked_at = parse_datetime(request.POST.get("asked_at", ""))
    except ValueError:
        return None
    return None if asked_at is None or asked_at.tzinfo is None else asked_at


def _database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        now: datetime = cursor.fetchall()[0][0]
        return now


def _state_counts(ids: Sequence[str]) -> list[tuple[str, str]]:
    return [(label, f"{count:,}") for label, count in sorted(moves.states_of(ids).items())]


def _capped(count: int, most: int) -> str:
    return f"more than {most:,}" if count > most else f"{count:,}"
