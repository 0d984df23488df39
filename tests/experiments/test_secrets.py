"""Secrets of a config: encrypted leaf by leaf, opened by any key, rotated to the newest, never told."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet, InvalidToken

from experiments.errors import DatasourceError
from experiments.secrets import SecretBox, is_encrypted

OLD, NEW = "old-" * 9, "new-" * 9
CONFIG = {"type": "x", "port": 5, "password": "p4ss é", "credentials": {"email": "a@b", "private_key": "k3y"}}
LEAVES = frozenset({("password",), ("credentials", "private_key"), ("absent",)})


def test_only_the_secret_leaves_are_encrypted_and_come_back() -> None:
    box = SecretBox([NEW])
    sealed = box.encrypt(CONFIG, LEAVES)
    assert sealed["type"] == "x"
    assert sealed["port"] == 5
    assert sealed["credentials"]["email"] == "a@b"
    assert is_encrypted(sealed["password"])
    assert is_encrypted(sealed["credentials"]["private_key"])
    assert "p4ss" not in str(sealed)
    assert "k3y" not in str(sealed)
    assert box.decrypt(sealed, row="r") == CONFIG


def test_what_is_encrypted_already_is_not_encrypted_twice() -> None:
    box = SecretBox([NEW])
    sealed = box.encrypt(CONFIG, LEAVES)
    assert box.encrypt(sealed, LEAVES) == sealed


def test_an_older_key_opens_and_the_newest_one_encrypts() -> None:
    sealed = SecretBox([OLD]).encrypt(CONFIG, LEAVES)
    both = SecretBox([NEW, OLD])
    assert both.decrypt(sealed, row="r") == CONFIG
    assert SecretBox([NEW]).decrypt(both.encrypt(CONFIG, LEAVES), row="r") == CONFIG


def test_rotation_leaves_nothing_under_an_old_key_nor_in_plain_text() -> None:
    half = {**SecretBox([OLD]).encrypt(CONFIG, LEAVES), "password": "plain"}
    renewed = SecretBox([NEW, OLD]).rotate(half, LEAVES, row="r")
    assert SecretBox([NEW]).decrypt(renewed, row="r") == {**CONFIG, "password": "plain"}
    assert SecretBox([NEW, OLD]).rotate(renewed, LEAVES, row="r") == renewed


def test_rotation_finds_encrypted_leaves_of_an_engine_that_is_not_known() -> None:
    sealed = SecretBox([OLD]).encrypt(CONFIG, LEAVES)
    renewed = SecretBox([NEW, OLD]).rotate(sealed, frozenset(), row="r")
    assert SecretBox([NEW]).decrypt(renewed, row="r") == CONFIG


@pytest.mark.parametrize("stored", [{"encrypted": "nonsense"}, {"encrypted": None}, {"encrypted": "é\ud800"}])
def test_a_leaf_that_no_key_opens_names_row_field_and_setting(stored: object) -> None:
    with pytest.raises(
        DatasourceError, match=r"datasource ds_1: .*credentials\.private_key.*XNGIN_SECRET_KEYS"
    ) as fault:
        SecretBox([NEW]).decrypt({"credentials": {"private_key": stored}}, row="datasource ds_1")
    assert (fault.value.code, fault.value.field) == ("secret_undecryptable", "credentials.private_key")


def test_a_token_that_was_tampered_with_is_not_opened() -> None:
    box = SecretBox([NEW, OLD])
    token = box.encrypt(CONFIG, LEAVES)["password"]["encrypted"]
    for place in (0, len(token) // 2, len(token) - 10):
        other = "A" if token[place] != "A" else "B"
        changed = token[:place] + other + token[place + 1 :]
        with pytest.raises(DatasourceError) as fault:
            box.decrypt({"password": {"encrypted": changed}}, row="r")
        assert fault.value.code == "secret_undecryptable"
        assert changed not in str(fault.value)


def test_a_key_that_is_gone_is_told_by_rotation_too() -> None:
    sealed = SecretBox([OLD]).encrypt(CONFIG, LEAVES)
    with pytest.raises(DatasourceError) as fault:
        SecretBox([NEW]).rotate(sealed, LEAVES, row="r")
    assert fault.value.code == "secret_undecryptable"


def test_the_keys_are_derived_and_in_no_repr() -> None:
    key = Fernet.generate_key().decode()
    sealed = SecretBox([key]).encrypt(CONFIG, LEAVES)
    with pytest.raises(InvalidToken):
        Fernet(key).decrypt(sealed["password"]["encrypted"])
    assert key not in repr(SecretBox([key]))


def test_a_box_without_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        SecretBox([])
