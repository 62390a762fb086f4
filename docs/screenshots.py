"""Take the pictures of the pages in the browser: needs playwright, pillow and Debian's
chromium-headless-shell.

python -m docs.screenshots
"""

from __future__ import annotations

import asyncio
import io
import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from PIL import Image
from playwright.async_api import async_playwright

from docs import grid
from docs.scenarios import showing
from graphrag_eval_async import Dashboard, evaluate_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Page

PICTURES_FOLDER = Path(__file__).parent / "pictures"

COLOURS = 64
"""Number of colours of a picture: enough for text, and a small file."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture of a page: its name, the size of the page in CSS pixels, and pixels in each."""

    name: str
    width: int
    height: int
    scale: float = 1
    scheme: Literal["light", "dark"] = "light"


DASHBOARD = Picture(name="dashboard-1600-light", width=1280, height=860, scale=1.25)
DASHBOARD_ON_A_PHONE = Picture(name="dashboard-400-light", width=400, height=800)
RESULT = Picture(name="result-1600-dark", width=1000, height=1180, scale=1.6, scheme="dark")


@asynccontextmanager
async def showing_a_wrong_result() -> AsyncIterator[str]:
    """Serve the page of a result of which a row is missing, and yield its address."""
    stream = evaluate_stream(grid.reference(), grid.responses()[:60], ordered=True)
    async with Dashboard(stream, port=0, title="Nightly run of the grid agent") as dashboard:
        number = 0
        wrong = 0
        async for result in dashboard:
            number += 1
            if result["failure"] == "missing_rows":
                wrong = number
        yield f"{dashboard.url}results/{wrong}"


async def photograph(page: Page, name: str) -> None:
    """Write a picture of a page, by this name, with a palette of few colours."""
    image = Image.open(io.BytesIO(await page.screenshot()))
    small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(PICTURES_FOLDER / f"{name}.png", optimize=True)


async def main() -> None:
    """Take each picture."""
    async with async_playwright() as playwright:
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])

        async def take(picture: Picture, address: str) -> None:
            page = await browser.new_page(
                viewport={"width": picture.width, "height": picture.height},
                device_scale_factor=picture.scale,
                color_scheme=picture.scheme,
            )
            await page.goto(address)
            await photograph(page, picture.name)

        async with showing("fall") as dashboard:
            await take(DASHBOARD, dashboard.url)
            await take(DASHBOARD_ON_A_PHONE, dashboard.url)
        async with showing_a_wrong_result() as address:
            await take(RESULT, address)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
