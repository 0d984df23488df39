"""Django's ``ModelAdmin``, which only the type checker knows as generic: the base of the parts of our pages."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin

if TYPE_CHECKING:
    AnyModelAdmin = admin.ModelAdmin[Any]
else:
    AnyModelAdmin = admin.ModelAdmin
