from __future__ import annotations

from tests.cli.conftest import _no_process_is_left, folder
from tests.monitor.conftest import browser

__all__ = ["_no_process_is_left", "browser", "folder"]
