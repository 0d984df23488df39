"""Filters for the admin's templates: instants, and texts from outside, as ``admin.display`` writes them."""

from datetime import datetime

from django import template
from django.utils.safestring import SafeString

from taskqueue.admin import display

register = template.Library()


@register.filter
def instant(value: datetime | None) -> SafeString:
    return display.instant(value)


@register.filter
def foreign(value: str | None) -> SafeString:
    return display.foreign(value)


@register.filter
def paragraph(value: str | None) -> SafeString:
    return display.block(value)
