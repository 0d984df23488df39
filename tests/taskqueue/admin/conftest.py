"""People at the admin's door, and tasks for them to look at."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

type Visitor = Callable[..., Client]


@pytest.fixture
def visitor(db: None) -> Visitor:
    """``visitor("view_task", "retry_task")``: a member of staff with exactly these permissions, logged in."""

    def visit(*permissions: str, name: str = "alice", is_staff: bool = True) -> Client:
        user = User.objects.create_user(name, is_staff=is_staff)
        user.user_permissions.set(
            Permission.objects.filter(codename__in=permissions, content_type__app_label="taskqueue")
        )
        assert user.user_permissions.count() == len(permissions)
        client = Client()
        client.force_login(user)
        return client

    return visit


@pytest.fixture
def administrator(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client
