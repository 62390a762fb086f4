"""What all of these tests do without."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True, scope="package")
def _without_certificates() -> Iterator[None]:
    """Each client reads those of the system, which takes as long as a short test; here nothing needs them."""
    with patch.object(ssl.SSLContext, "load_verify_locations"):
        yield
