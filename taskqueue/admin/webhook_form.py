"""The form of a webhook. Secrets go in and never come out: the page only says whether there are some."""

import base64
import binascii
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError

from taskqueue.models import Webhook
from taskqueue.outbound.target import target_of
from taskqueue.webhook.headers import value_problem

if TYPE_CHECKING:
    _Form = forms.ModelForm[Webhook]
else:
    _Form = forms.ModelForm

_PREFIX = "whsec_"
# As the Standard Webhooks specification has them.
_SECRET_BYTES = range(24, 65)
_MOST_SECRETS = 5


def _secret_input(label: str, help_text: str) -> forms.CharField:
    widget = forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password", "class": "vTextField"})
    return forms.CharField(label=label, required=False, help_text=help_text, widget=widget, max_length=1_000)


class WebhookForm(_Form):
    """The two columns of secrets are no fields of this form, so that no page can show them."""

    name = forms.CharField(max_length=200, required=False)
    url = forms.CharField(label="URL", max_length=2_000, help_text="http or https; the final address, not a redirect.")
    type = forms.CharField(max_length=200, required=False)
    organization_id = forms.CharField(label="Organization", max_length=200, required=False, empty_value=None)
    new_token = _secret_input("New token", "Sent as Webhook-Token. Leave blank to keep what is stored.")
    remove_token = forms.BooleanField(label="Remove the stored token", required=False)
    new_secret = _secret_input(
        "New signing secret",
        "whsec_ and Base64 of 24 to 64 bytes. Leave blank to keep what is stored. It signs beside the stored ones.",
    )
    stored_secrets = forms.ChoiceField(
        label="Stored signing secrets",
        required=False,
        choices=[("keep", "keep them"), ("newest", "keep only the newest"), ("remove", "remove them all")],
        help_text="While receivers change over, old and new secrets sign side by side; remove the old ones afterwards.",
    )

    class Meta:
        model = Webhook
        fields = ("name", "direction", "type", "url", "organization_id")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for text in ("name", "url", "type", "organization_id"):
            if text in self.fields:
                self.fields[text].widget.attrs["class"] = "vTextField"

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        try:
            target_of(url)
        except ValueError as error:
            raise ValidationError(f"The URL cannot be used: {error}") from None
        return url

    def clean_new_token(self) -> str:
        token: str = self.cleaned_data["new_token"]
        problem = value_problem(token) if token else None
        if problem is not None:
            raise ValidationError(f"The token cannot be sent in a header: it {problem}.")
        return token

    def clean_new_secret(self) -> str:
        secret: str = self.cleaned_data["new_secret"]
        if not secret:
            return ""
        try:
            raw = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if not secret.startswith(_PREFIX) or len(raw) not in _SECRET_BYTES:
            raise ValidationError("A signing secret is whsec_ followed by the Base64 of 24 to 64 bytes.")
        return secret

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.cleaned_data.get("new_token") and self.cleaned_data.get("remove_token"):
            self.add_error("remove_token", "Either a new token or none.")
        if len(self.secrets()) > _MOST_SECRETS:
            self.add_error("new_secret", f"No more than {_MOST_SECRETS} secrets sign at once: remove old ones.")
        return cleaned

    def secrets(self) -> list[str]:
        """The signing secrets as they are to be stored, newest first."""
        stored = (self.instance.signing_secret or "").split()
        kept = {"newest": stored[:1], "remove": []}.get(self.cleaned_data.get("stored_secrets") or "keep", stored)
        new = self.cleaned_data.get("new_secret") or ""
        return [*([new] if new else []), *(secret for secret in kept if secret != new)]
