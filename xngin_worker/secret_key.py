"""The secret key of a development checkout: random, and kept so that sessions outlive a restart."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from pathlib import Path


def of_checkout(path: Path) -> str:
    """The key kept in `path` (readable by its owner only), made there when the file is absent.

    Of several processes that start together all get the same key: it is written aside and linked into place,
    so the first link wins and nobody sees half a key. `OSError` when it cannot be kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix="secret_key.", delete=True) as aside:
            aside.write(secrets.token_urlsafe(48) + "\n")
            aside.flush()
            with contextlib.suppress(FileExistsError):
                path.hardlink_to(aside.name)
    key = path.read_text(encoding="ascii").strip()
    if not key:
        raise OSError(f"{path.name} is empty; delete it")
    return key
