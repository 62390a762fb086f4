from __future__ import annotations

from tests.cli.conftest import _no_process_is_left, folder

__all__ = ["_no_process_is_left", "folder"]
