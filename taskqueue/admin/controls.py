"""Pausing queues and task types: adding a row pauses, deleting it resumes."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString

from taskqueue.admin import display
from taskqueue.admin.model_admin import AnyModelAdmin
from taskqueue.models import QueueControl

if TYPE_CHECKING:
    _Form = forms.ModelForm[QueueControl]
else:
    _Form = forms.ModelForm


class PauseForm(_Form):
    name = forms.CharField(max_length=200, help_text="Of the queue or of the task type, exactly as tasks have it.")
    reason = forms.CharField(max_length=1_000, required=False, help_text="For whoever wonders why nothing runs.")

    class Meta:
        model = QueueControl
        fields = ("kind", "name", "reason")


@admin.register(QueueControl)
class QueueControlAdmin(AnyModelAdmin):
    """There is no change: a pause is ended and begun anew, so that who paused and since when stay true."""

    form = PauseForm
    list_display = ("pause", "kind", "by", "because", "begun")
    ordering = ("kind", "name")
    sortable_by = ()
    fields = ("kind", "name", "reason")

    class Media:
        css = {"all": ["taskqueue/admin.css"]}

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: QueueControl, form: Any, change: bool) -> None:
        obj.paused_by = request.user.get_username()
        super().save_model(request, obj, form, change)

    @admin.display(description="paused")
    def pause(self, control: QueueControl) -> SafeString:
        return display.foreign(control.name)

    @admin.display(description="by")
    def by(self, control: QueueControl) -> SafeString:
        return display.foreign(control.paused_by)

    @admin.display(description="reason")
    def because(self, control: QueueControl) -> SafeString:
        return display.foreign(control.reason)

    @admin.display(description="since")
    def begun(self, control: QueueControl) -> SafeString:
        return display.instant(control.since)
