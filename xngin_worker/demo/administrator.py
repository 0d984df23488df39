"""The account with which the demo's admin is looked at."""

from __future__ import annotations

import secrets
import string
from dataclasses import dataclass, field

from django.contrib.auth import authenticate, get_user_model

from xngin_worker.demo.steps import StepFailed

_LETTERS = string.ascii_lowercase + string.digits


@dataclass(frozen=True, kw_only=True)
class Administrator:
    """`lasting` tells that somebody chose the name, so the account stays when the demo is over."""

    name: str
    password: str = field(repr=False)
    lasting: bool


def chosen(name: str | None, password: str | None) -> Administrator:
    """What was given, and something random for what was not."""
    return Administrator(
        name=name or f"demo-{_random(4)}",
        password=password or _random(14),
        lasting=name is not None,
    )


def make(administrator: Administrator) -> str:
    """Make the account, or use the one that has this name and password already; what is to be said of it.

    Raises `StepFailed` for an account that is somebody else's: its password is not the demo's to change.
    """
    users = get_user_model()._default_manager
    if not users.filter(**{get_user_model().USERNAME_FIELD: administrator.name}).exists():
        get_user_model().objects.create_superuser(administrator.name, password=administrator.password)
        return f"{administrator.name}, password {administrator.password}"
    user = authenticate(username=administrator.name, password=administrator.password)
    if user is None or not getattr(user, "is_superuser", False):
        raise StepFailed(
            f"there is an account {administrator.name!r} already, and it is no administrator with this password; "
            "give its password with --admin-password, or another name with --admin-name"
        )
    return f"{administrator.name}, there already"


def remove(administrator: Administrator) -> None:
    """Take a random account away again; one with a chosen name stays."""
    if not administrator.lasting:
        get_user_model()._default_manager.filter(**{get_user_model().USERNAME_FIELD: administrator.name}).delete()


def _random(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))
