"""A real browser, where one is installed."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.support import DEADLINE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra test-browser")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="needs the extra test-browser"
)

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium"))), None)
NEEDS_BROWSER = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(EXECUTABLE is None, reason="needs chromium-headless-shell or chromium"),
]
"""The marks of each module that opens pages."""

MILLISECONDS = 1000 * DEADLINE_SECONDS
sync_api.expect.set_options(timeout=MILLISECONDS)
expect = sync_api.expect


@contextmanager
def launched() -> Iterator[Any]:
    """Start a browser, and close it afterwards."""
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=options)
        yield browser
        browser.close()


class Page:
    """A page and all that went wrong on it."""

    def __init__(self, browser: Any, width: int = 1600, scheme: str = "light") -> None:
        self.width, size = width, {"width": width, "height": 1000}
        self.context = browser.new_context(
            viewport=size, color_scheme=scheme, reduced_motion="reduce"
        )
        self.context.set_default_timeout(MILLISECONDS)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _note(self, kind: str, text: str) -> None:
        if kind == "error" and not any(name in text for name in ("REFUSED", "INCOMPLETE", "502")):
            self.errors.append(text)

    def check(self) -> None:
        """Nothing failed or was refused, no text of a response was run, and the page fits its
        window.
        """
        assert self.errors == []
        assert self.page.evaluate("window.harmed") is None
        # Only tables may be wider than the window, in boxes that scroll.
        assert self.page.evaluate("document.documentElement.scrollWidth") <= self.width

    def accessible(self) -> None:
        violations = axe.Axe().run(self.page).response["violations"]
        assert [(each["id"], each["nodes"][0]["target"]) for each in violations] == []

    def is_focused(self, locator: Any) -> bool:
        return bool(locator.evaluate("each => each === document.activeElement"))
