"""The demo's account: random ones come and go, chosen ones stay, and nobody else's is touched."""

from __future__ import annotations

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.contrib.auth.models import User

from xngin_worker.demo import administrator
from xngin_worker.demo.steps import StepFailed

pytestmark = pytest.mark.django_db


def test_a_random_account_can_log_in_and_is_taken_away_again() -> None:
    chosen = administrator.chosen(None, None)
    administrator.make(chosen)
    user = authenticate(username=chosen.name, password=chosen.password)
    assert isinstance(user, User)
    assert user.is_superuser
    administrator.remove(chosen)
    assert not get_user_model().objects.exists()


def test_two_random_accounts_differ_and_no_repr_shows_a_password() -> None:
    first, second = administrator.chosen(None, None), administrator.chosen(None, None)
    assert first.password != second.password
    assert first.password not in repr(first)


def test_an_account_with_a_chosen_name_stays_and_is_used_again() -> None:
    chosen = administrator.chosen("ada", "correct horse")
    administrator.make(chosen)
    administrator.remove(chosen)
    administrator.make(chosen)
    assert authenticate(username="ada", password="correct horse") is not None


@pytest.mark.parametrize("is_superuser", [True, False])
def test_the_account_of_somebody_else_is_refused_and_keeps_its_password(is_superuser: bool) -> None:
    make = User.objects.create_superuser if is_superuser else User.objects.create_user
    make("ada", password="her own")
    with pytest.raises(StepFailed, match="already"):
        administrator.make(administrator.chosen("ada", "her own" if not is_superuser else "guessed"))
    assert authenticate(username="ada", password="her own") is not None
