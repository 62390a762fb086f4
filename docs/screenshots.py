"""Take the pictures of the pages in the browser: needs playwright, and Debian's chromium-headless-shell.

python -m docs.screenshots
"""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

from playwright.async_api import async_playwright

from graphrag_eval_async import Dashboard, Last, evaluate_stream

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
LINES = [json.loads(line) for line in (EXAMPLES / "responses.jsonl").read_text().splitlines()]
RESPONSES = 600
SIZES = {1600: 1100, 400: 900}


async def responses() -> Any:
    """Responses that get worse in the second half."""
    random = Random(7)
    for number in range(RESPONSES):
        bad = 0.25 if number < RESPONSES / 2 else 0.45
        wrong = random.random() < bad
        line = random.choice([each for place, each in enumerate(LINES) if (place in {1, 2, 6, 7}) == wrong])
        yield line | {"elapsed_sec": random.uniform(3, 9)}
        if number % 10 == 0:
            await asyncio.sleep(0.02)


async def main() -> None:
    """Write a picture of each page, by width and colour scheme."""
    stream = evaluate_stream(EXAMPLES / "reference.yaml", responses(), ordered=True)
    alerts = ["steps_score < 0.6 over 100", "error_rate > 0.2 over 100"]
    dashboard = Dashboard(
        stream, port=0, window=Last(100), alerts=alerts, title="Nightly run of the grid agent"
    )
    async with dashboard, async_playwright() as playwright:
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        number, shown = 0, 1
        async for result in dashboard:
            number += 1
            if result["question_id"] == "transformers-bergheim" and result["steps_score"] < 1:
                shown = number
        for width, height in SIZES.items():
            for scheme in ("light", "dark"):
                page = await browser.new_page(
                    viewport={"width": width, "height": height}, color_scheme=scheme
                )
                for name, path in {"dashboard": "", "result": f"results/{shown}"}.items():
                    await page.goto(dashboard.url + path)
                    picture = HERE / "pictures" / f"{name}-{width}-{scheme}.png"
                    await page.screenshot(path=picture, full_page=False)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
