from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import _no_process_is_left, folder

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["_no_process_is_left", "browser", "folder"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for the tests of a module, which are skipped where none is installed."""
    from tests.support.browser import launched

    with launched() as chromium:
        yield chromium
