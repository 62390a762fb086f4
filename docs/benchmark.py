"""Write the page of the benchmark and its pictures, from a run of `examples/benchmark`.

python -m docs.benchmark
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from contextlib import chdir
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyoxigraph import parse

from examples.benchmark.agents import AGENTS, responses
from graphrag_eval_async import (
    Dashboard,
    compare,
    compute_aggregates,
    evaluate_stream,
    load_reference,
    plan_questions,
    run_evaluation_sync,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE = Path(__file__).parent
QUESTIONS, GRAPH, CONFIG = (
    f"examples/benchmark/{name}" for name in ("questions.yaml", "graph.ttl", "benchmark.yaml")
)
TAGS = [
    ("hops", "1"),
    ("hops", "2"),
    ("hops", "3"),
    ("counts", "true"),
    ("order", "true"),
    ("negation", "true"),
]
PAIRS = [*combinations(AGENTS, 2)]
LEVEL = round(1 - 0.05 / len(PAIRS), 4)
SHOWN = "grammar", "rankings-5"
"""The result that is pictured."""

PLACE = re.compile(r"(<!--(\w+)-->\s*).*?(\s*<!--/-->)", re.DOTALL)
"""What the page leaves to a run: a name, the text, and an end."""


@cache
def runs() -> dict[str, list[dict[str, Any]]]:
    """The results of each agent. They come from one run, which starts the processes of the graph
    once.
    """
    asked = [each | {"agent": name} for name, agent in AGENTS.items() for each in responses(agent)]
    with chdir(HERE.parent):
        results = run_evaluation_sync(QUESTIONS, asked, config=CONFIG)
    return {
        name: [each for each in results if each["metadata"]["agent"] == name] for name in AGENTS
    }


@cache
def aggregates() -> dict[str, dict[str, Any]]:
    return {name: compute_aggregates(own, detail=True) for name, own in runs().items()}


@cache
def differences() -> dict[tuple[str, str], dict[str, Any]]:
    """What `compare` finds of each pair of agents."""
    primary = ["steps_score"]
    found = {
        pair: compare(*(runs()[name] for name in pair), level=LEVEL, primary=primary)
        for pair in PAIRS
    }
    return {pair: compared["overall"]["steps_score"] for pair, compared in found.items()}


def table(*rows: Iterable[object]) -> str:
    head, *rest = [[*map(str, row)] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in [head, *rest]]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def right(agent: str) -> int:
    return sum(result["steps_score"] == 1 for result in runs()[agent])


def estimate(mean: float, interval: dict[str, Any], sign: str = "") -> str:
    return f"{mean:{sign}.3f} [{interval['low']:{sign}.2f}, {interval['high']:{sign}.2f}]"


def systems() -> Iterator[list[object]]:
    yield ["agent", "`steps_score`", "right", "errors"]
    for name, found in aggregates().items():
        score = found["micro"]["steps_score"]
        mean = estimate(score["mean_of_questions"], score["interval"])
        yield [f"`{name}`", mean, right(name), f"{found['micro']['error_rate']:.3f}"]


def pairs() -> Iterator[list[object]]:
    yield ["baseline", "candidate", "change", "p", "verdict"]
    for (one, other), row in differences().items():
        change = estimate(row["difference"], row["interval"], "+")
        p = f"{row['p']:.4f}" if row["p"] >= 1e-4 else "<0.0001"
        yield [f"`{one}`", f"`{other}`", change, p, row["verdict"]]


def undecided() -> Iterator[str]:
    """How many questions would decide the pairs that are not decided."""
    for (one, other), row in differences().items():
        if row["verdict"] == "undecided":
            change = abs(round(row["difference"], 3))
            plan = plan_questions(
                change, runs()[one], runs()[other], level=LEVEL, primary=["steps_score"]
            )
            yield f"""\
`{one}` and `{other}` are {change} apart, which may be chance. To detect {change} with 80% power,
[you need](statistics.md#how-many-questions-do-i-need) {plan["paired"]} questions."""


def tags() -> Iterator[Iterable[object]]:
    yield ["tag", "questions", *AGENTS]
    for key, value in TAGS:
        count = sum((key, value) in each.tags for each in load_reference(HERE.parent / QUESTIONS))
        groups = [found["per_tag"][key][value]["steps_score"] for found in aggregates().values()]
        means = [f"{group['mean_of_questions']:.3f}" for group in groups]
        yield [f"`{key if value == 'true' else f'{key}={value}'}`", count, *means]


def failures() -> Iterator[Iterable[object]]:
    yield ["`failure`", *AGENTS]
    counts = [Counter(each["failure"] for each in own) for own in runs().values()]
    for reason, _ in sum(counts, Counter()).most_common():
        yield [f"`{reason}`", *(own[reason] for own in counts)]


def page() -> str:
    """The page, with what the run found in its places."""
    [shown] = (each for each in runs()[SHOWN[0]] if each["question_id"] == SHOWN[1])
    agents = [
        [f"`{name}`", " ".join((agent.__doc__ or "").split())] for name, agent in AGENTS.items()
    ]
    made = {
        "questions": len(load_reference(HERE.parent / QUESTIONS).questions),
        "statements": sum(1 for _ in parse(path=str(HERE.parent / GRAPH))),
        "agents": table(["agent", "what it does"], *agents),
        "systems": table(*systems()),
        "tags": table(*tags()),
        "pairs": table(*pairs()),
        "number": len(PAIRS),
        "level": f"{LEVEL:.4f}",
        "undecided": "\n\n".join(undecided()),
        "failures": table(*failures()),
        "shown": f'`{SHOWN[0]}` gets {shown["steps_score"]:g} for "{shown["question_text"]}"',
    }
    template = (HERE / "benchmark.md").read_text()
    return PLACE.sub(lambda found: f"{found[1]}{made[found[2]]}{found[3]}", template)


def picture() -> str:
    """The means of the agents, and below them the differences of pairs, with their intervals, as
    an SVG.
    """
    scores = {name: found["micro"]["steps_score"] for name, found in aggregates().items()}
    rows = [
        (name, each["mean_of_questions"], each["interval"], True) for name, each in scores.items()
    ]
    for (one, other), each in differences().items():
        decided = each["verdict"] != "undecided"
        rows.append((f"{other} - {one}", each["difference"], each["interval"], decided))
    bottom = 45 + 22 * len(rows)

    def x(value: float) -> str:
        return f"{280 + 320 * value:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {bottom + 25}" font-family="sans-serif" font-size="12">',
        "<title>Means of steps_score, and differences of pairs of agents, with their intervals</title>",
        f'<rect width="640" height="{bottom + 25}" fill="white"/>',
    ]
    for value in (0, 0.5, 1):
        parts.append(f'<path d="M{x(value)},15 V{bottom}" stroke="#bbb"/>')
        parts.append(f'<text x="{x(value)}" y="{bottom + 16}" text-anchor="middle">{value}</text>')
    for place, (name, mean, interval, decided) in enumerate(rows):
        y, colour = 30 + 22 * place + 12 * (place >= len(scores)), "#08519c" if decided else "#888"
        ends = f"M{x(interval['low'])},{y} H{x(interval['high'])}"
        parts.append(f'<text x="215" y="{y + 4}" text-anchor="end">{name}</text>')
        parts.append(f'<path d="{ends}" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<circle cx="{x(mean)}" cy="{y}" r="4" fill="{colour}"/>')
    return "\n".join([*parts, "</svg>", ""])


MADE = {"benchmark.md": page, "pictures/benchmark.svg": picture}


async def screenshot() -> None:
    """Take the picture of one result's page; needs what `docs.screenshots` needs."""
    from playwright.async_api import async_playwright

    from docs.screenshots import photograph

    stream = evaluate_stream(QUESTIONS, responses(AGENTS[SHOWN[0]]), config=CONFIG, ordered=True)
    async with (
        Dashboard(stream, port=0, title="Benchmark") as dashboard,
        async_playwright() as playwright,
    ):
        order = [result["question_id"] async for result in dashboard]
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1000, "height": 790})
        await page.goto(f"{dashboard.url}results/{order.index(SHOWN[1]) + 1}")
        await photograph(page, "benchmark-result")
        await browser.close()


def main() -> None:
    for name, make in MADE.items():
        (HERE / name).write_text(make())
    with chdir(HERE.parent):
        asyncio.run(screenshot())


if __name__ == "__main__":
    main()
