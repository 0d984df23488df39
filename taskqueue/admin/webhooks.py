"""Webhooks in the admin: where events are sent, with which secrets, and whether at all."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.options import ActionLocation
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from taskqueue.admin import display
from taskqueue.admin.model_admin import AnyModelAdmin
from taskqueue.admin.webhook_form import WebhookForm
from taskqueue.lifecycle import Tone
from taskqueue.models import Webhook
from taskqueue.webhook import records
from taskqueue.webhook.masking import mask_url

_BOTH = [ActionLocation.CHANGE_LIST, ActionLocation.CHANGE_FORM]


@admin.register(Webhook)
class WebhookAdmin(AnyModelAdmin):
    form = WebhookForm
    list_display = ("webhook", "condition", "kind", "goes_to", "organization", "created")
    list_display_links = ("webhook",)
    ordering = ("-id",)
    sortable_by = ()
    search_fields = ("id", "name", "url", "organization_id")
    actions = ("enable", "disable")
    readonly_fields = ("condition", "token", "signing", "created")

    class Media:
        css = {"all": ["taskqueue/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Webhook]":
        # The list needs no secret; the form needs those that it keeps.
        return Webhook.objects.all()

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        plain = ["name", "direction", "type", "url", "organization_id"]
        if obj is None:
            return [(None, {"fields": plain}), ("Secrets", {"fields": ["new_token", "new_secret"]})]
        secrets = ["token", "signing"]
        if self.has_change_permission(request, obj):
            secrets = ["token", "new_token", "remove_token", "signing", "new_secret", "stored_secrets"]
        return [(None, {"fields": ["condition", *plain, "created"]}), ("Secrets", {"fields": secrets})]

    def save_model(self, request: HttpRequest, obj: Webhook, form: Any, change: bool) -> None:
        """Write what was changed and nothing else: a worker may disable or pause the webhook in the meantime."""
        changed = [name for name in form.changed_data if name in WebhookForm.Meta.fields]
        if form.cleaned_data.get("new_token") or form.cleaned_data.get("remove_token"):
            obj.auth_token = form.cleaned_data["new_token"] or None
            changed.append("auth_token")
        secrets = " ".join(form.secrets()) or None
        if secrets != obj.signing_secret:
            obj.signing_secret = secrets
            changed.append("signing_secret")
        if not change:
            obj.save()
        elif changed:
            obj.updated_at = timezone.now()
            obj.save(update_fields=[*changed, "updated_at"])

    @admin.action(description="Enable", permissions=["change"], location=_BOTH)
    def enable(self, request: HttpRequest, queryset: "QuerySet[Webhook]") -> None:
        """Also ends a pause, and forgets the timeouts that led to it."""
        hooks = list(queryset.order_by("id")[:1_000])
        enabled = [hook for hook in hooks if records.enable(hook.pk)]
        self._tell(request, enabled, len(hooks), "enabled", "enabled and not paused already")

    @admin.action(description="Disable", permissions=["change"], location=_BOTH)
    def disable(self, request: HttpRequest, queryset: "QuerySet[Webhook]") -> None:
        hooks = list(queryset.order_by("id")[:1_000])
        reason = f"disabled by {request.user.get_username()} in the admin"
        disabled = [hook for hook in hooks if records.disable(hook.pk, reason)]
        self._tell(request, disabled, len(hooks), "disabled", "disabled already")

    def _tell(self, request: HttpRequest, moved: list[Webhook], asked: int, done: str, otherwise: str) -> None:
        for hook in moved:
            self.log_change(request, hook, f"{done.capitalize()}.")
        text = f"{len(moved)} {'webhook' if len(moved) == 1 else 'webhooks'} {done}."
        if asked > len(moved):
            text += f" {asked - len(moved)} {otherwise}."
        self.message_user(request, text, messages.SUCCESS if moved else messages.WARNING)

    @admin.display(description="webhook")
    def webhook(self, hook: Webhook) -> SafeString:
        return display.foreign(hook.name or hook.pk)

    @admin.display(description="condition")
    def condition(self, hook: Webhook) -> SafeString:
        if hook.disabled_at is not None:
            badge = display.badge("disabled", Tone.BAD)
            return format_html(
                "{} {} {}", badge, display.instant(hook.disabled_at), display.foreign(hook.disabled_reason)
            )
        if hook.paused_until is not None and hook.paused_until > timezone.now():
            return format_html("{} until {}", display.badge("paused", Tone.WARNING), display.instant(hook.paused_until))
        return display.badge("enabled", Tone.GOOD)

    @admin.display(description="type")
    def kind(self, hook: Webhook) -> SafeString:
        return display.foreign(hook.type)

    @admin.display(description="URL")
    def goes_to(self, hook: Webhook) -> SafeString:
        return display.foreign(mask_url(hook.url))

    @admin.display(description="organization")
    def organization(self, hook: Webhook) -> SafeString:
        return display.foreign(hook.organization_id)

    @admin.display(description="created")
    def created(self, hook: Webhook) -> SafeString:
        return display.instant(hook.created_at)

    @admin.display(description="stored token")
    def token(self, hook: Webhook) -> str:
        return "there is one" if hook.auth_token else "none"

    @admin.display(description="stored signing secrets")
    def signing(self, hook: Webhook) -> str:
        count = len((hook.signing_secret or "").split())
        return f"{count}, newest first" if count > 1 else "one" if count else "none"
