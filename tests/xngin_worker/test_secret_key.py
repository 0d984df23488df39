"""The secret key of a development checkout."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from xngin_worker.secret_key import of_checkout


def test_the_key_is_long_private_and_kept(tmp_path: Path) -> None:
    path = tmp_path / ".data" / "secret_key"
    key = of_checkout(path)
    assert len(key) >= 50
    assert of_checkout(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["secret_key"]


def test_checkouts_have_different_keys(tmp_path: Path) -> None:
    assert of_checkout(tmp_path / "a") != of_checkout(tmp_path / "b")


def test_all_that_start_together_get_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(of_checkout, [tmp_path / "secret_key"] * 64))
    assert len(keys) == 1


def test_an_empty_file_is_no_key(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    path.touch()
    with pytest.raises(OSError, match="delete it"):
        of_checkout(path)
