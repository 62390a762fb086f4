"""Take the pictures of the pages in the browser: needs playwright, pillow and Debian's
chromium-headless-shell.

python -m docs.screenshots
"""

from __future__ import annotations

import asyncio
import io
import shutil
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from unittest.mock import patch

from PIL import Image
from playwright.async_api import async_playwright

from docs import grid
from graphrag_eval_async import Dashboard, Last, evaluate_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Page

HERE = Path(__file__).parent
ALERTS = ["error_rate > 0.1 over 100", "steps_score < 0.6 over 100"]
START, SECONDS = 1_790_000_000.0, 7.5
"""When the run began, in seconds since 1970, and how long a response takes."""

COLOURS = 64
PICTURES: dict[str, tuple[str, int, int, float, Literal["light", "dark"]]] = {
    # The page of each, its size in CSS pixels, the pixels in one of these, and the colours.
    "dashboard-1600-light": ("", 1000, 860, 1.6, "light"),
    "dashboard-400-light": ("", 400, 800, 1, "light"),
    "result-1600-dark": ("results/{}", 1000, 920, 1.6, "dark"),
}


PACKAGE = "graphrag_eval_async"


class Clock(datetime):
    """The time of a run that would have taken longer."""

    seconds = START

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Clock:
        return cls.fromtimestamp(cls.seconds, tz)


async def responses() -> AsyncIterator[dict[str, Any]]:
    for response in grid.responses(slow_after=grid.SLOW_AFTER)[: grid.SO_FAR]:
        Clock.seconds += SECONDS
        yield response
        await asyncio.sleep(0)  # Results come as the responses do.


async def photograph(page: Page, name: str) -> None:
    """Write a picture of a page with a palette of few colours."""
    picture = Image.open(io.BytesIO(await page.screenshot()))
    small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(HERE / "pictures" / f"{name}.png", optimize=True)


async def main() -> None:
    """Take each picture."""
    stream = evaluate_stream(grid.reference(), responses(), ordered=True)
    dashboard = Dashboard(
        stream, port=0, window=Last(100), alerts=ALERTS, title="Nightly run of the grid agent"
    )
    with (
        patch(f"{PACKAGE}.reports.history.time", lambda: Clock.seconds),
        patch(f"{PACKAGE}.monitor.alerts.datetime", Clock),
        patch(f"{PACKAGE}.reports.rendering.datetime", Clock),
    ):
        async with dashboard, async_playwright() as playwright:
            program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
            browser = await playwright.chromium.launch(
                executable_path=program, args=["--no-sandbox"]
            )
            number, shown = 0, 1
            async for result in dashboard:
                number += 1
                shown = number if result["failure"] == "missing_rows" else shown
            for name, (path, width, height, scale, scheme) in PICTURES.items():
                page = await browser.new_page(
                    viewport={"width": width, "height": height},
                    device_scale_factor=scale,
                    color_scheme=scheme,
                )
                await page.goto(dashboard.url + path.format(shown))
                await photograph(page, name)
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
