"""Secrets of datasources, encrypted leaf by leaf, so that the rest of a config stays readable in the table.

A secret leaf is stored as ``{"encrypted": "…"}``. Keys are derived from the project's secret keys, newest first: the
first one encrypts, all of them decrypt.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from experiments.errors import DatasourceError

# The names of the keys that lead to a leaf: ("credentials", "private_key").
type LeafPath = tuple[str, ...]

_MARK = "encrypted"
# Separates these keys from whatever else is made of the same secret keys.
_PURPOSE = b"xngin-worker: secrets of datasources, 1"


class SecretBox:
    """Raises ``ValueError`` without any key. Its repr shows none."""

    def __init__(self, keys: Sequence[str]) -> None:
        if not keys:
            raise ValueError("there must be at least one secret key")
        self._newest = Fernet(_derived(keys[0]))
        self._all = MultiFernet([self._newest, *(Fernet(_derived(key)) for key in keys[1:])])

    def encrypt(self, config: Mapping[str, Any], secret_leaves: Collection[LeafPath]) -> dict[str, Any]:
        """``config`` with these leaves encrypted; those that are already, are left as they are."""

        def sealed(path: LeafPath, leaf: Any) -> Any:
            return self._sealed(leaf) if path in secret_leaves and not is_encrypted(leaf) else leaf

        return _mapped(config, sealed)

    def decrypt(self, config: Mapping[str, Any], *, row: str) -> dict[str, Any]:
        """``config`` with all leaves in plain text; ``row`` names it in errors.

        Raises ``DatasourceError`` (``secret_undecryptable``) for a leaf that no key opens.
        """
        return _mapped(
            config, lambda path, leaf: self._opened(leaf, row=row, path=path) if is_encrypted(leaf) else leaf
        )

    def rotate(self, config: Mapping[str, Any], secret_leaves: Collection[LeafPath], *, row: str) -> dict[str, Any]:
        """All encrypted leaves, and ``secret_leaves`` in plain text, encrypted with the newest key; equal to ``config``
        when they are already.

        Raises as ``decrypt`` does.
        """

        def renewed(path: LeafPath, leaf: Any) -> Any:
            if not is_encrypted(leaf):
                return self._sealed(leaf) if path in secret_leaves else leaf
            try:
                self._newest.decrypt(_token(leaf))
            except InvalidToken:
                return self._sealed(self._opened(leaf, row=row, path=path))
            return leaf

        return _mapped(config, renewed)

    def _sealed(self, leaf: Any) -> Any:
        """Only a text is a secret; anything else is for the config's check to refuse."""
        if not isinstance(leaf, str):
            return leaf
        return {_MARK: self._newest.encrypt(leaf.encode("utf-8", "surrogatepass")).decode("ascii")}

    def _opened(self, leaf: Mapping[str, Any], *, row: str, path: LeafPath) -> str:
        try:
            return self._all.decrypt(_token(leaf)).decode("utf-8", "surrogatepass")
        except InvalidToken as error:
            field = ".".join(path)
            raise DatasourceError(
                f"{row}: the secret {field!r} cannot be decrypted with any key in XNGIN_SECRET_KEYS; add the key it was"
                " encrypted with behind the newest one, or store the secret again",
                field=field,
                code="secret_undecryptable",
            ) from error


def is_encrypted(value: object) -> bool:
    return isinstance(value, Mapping) and set(value) == {_MARK}


def _token(leaf: Mapping[str, Any]) -> bytes:
    return str(leaf[_MARK]).encode("utf-8", "replace")


def _mapped(config: Mapping[str, Any], change: Callable[[LeafPath, Any], Any], above: LeafPath = ()) -> dict[str, Any]:
    """A copy with every leaf changed. What is encrypted is a leaf, lists are too."""

    def of(path: LeafPath, value: Any) -> Any:
        if isinstance(value, Mapping) and not is_encrypted(value):
            return _mapped(value, change, path)
        return change(path, value)

    return {name: of((*above, name), value) for name, value in config.items()}


def _derived(key: str) -> bytes:
    """A Fernet key of any text. The secret keys have entropy enough: HKDF (RFC 5869) is for that, not for passwords."""
    derivation = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=_PURPOSE)
    return base64.urlsafe_b64encode(derivation.derive(key.encode()))
