from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sources.followed import open_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def nothing_left_open() -> Iterator[None]:
    before = open_files()
    yield
    assert open_files() == before


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"
