"""The version of the package."""

from __future__ import annotations

PACKAGE = "graphrag-eval-async"


def version() -> str:
    """The installed version; "(not installed)" for a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # Takes long to import.

    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "(not installed)"
