from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cli.support import Folder, end_processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(autouse=True)
def _no_judge_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither keys nor servers nor proxies."""
    for name in list(os.environ):
        if name.upper().startswith(("OPENAI_", "AZURE_")) or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    """Kills what a test that failed has left running."""
    yield
    end_processes()
