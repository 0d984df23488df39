"""Rows that the program alone writes: shown to whoever may view them, offered to nobody for change."""

from typing import Any

from django.http import HttpRequest

from taskqueue.admin.model_admin import AnyModelAdmin


class ReadOnly(AnyModelAdmin):
    """Part of a ``ModelAdmin``. Ids with NUL are not looked for, since PostgreSQL refuses the very question."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        if "\x00" in object_id:
            return None
        return super().get_object(request, object_id, from_field)
