"""Write the pages and pictures of the documentation that are made from the code.

python -m docs.make
"""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import re
import tempfile
from contextlib import chdir, contextmanager, redirect_stdout, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from rich.console import Console
from rich.text import Text

from docs import grid
from graphrag_eval_async import Last, RunningAggregates, evaluate_stream
from graphrag_eval_async.catalogue.judged import JUDGED
from graphrag_eval_async.cli import main as command_line
from graphrag_eval_async.cli.commands.watch.screen import render
from graphrag_eval_async.config import llm, model
from graphrag_eval_async.exporters import prometheus_metrics
from graphrag_eval_async.monitor.alerts import parse_alert
from graphrag_eval_async.monitor.counting import Counting
from graphrag_eval_async.monitor.facts import COURSES, Facts, complete

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).parent


def sections() -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """The sections of a configuration, each with its key."""
    yield "", model.Config
    yield "llm", llm.LLMConfig
    yield "llm.generation", llm.GenerationConfig
    yield "llm.judges.NAME", llm.JudgeConfig
    yield "llm.embedding", llm.EmbeddingConfig
    yield "llm.limits", llm.LimitsConfig
    yield "llm.pricing", llm.PricingConfig
    yield "steps", model.StepsConfig
    yield "execute", model.ExecuteConfig
    yield "answer_match", model.AnswerMatchConfig
    yield from ((metric.name, metric.section) for metric in JUDGED)
    yield "custom_evaluations[]", model.CustomEvaluationConfig
    yield "custom_evaluations[].outputs.NAME", model.OutputConfig
    yield "ragas.NAME", model.RagasMetricConfig


def attributes(section: type[Any]) -> dict[str, str]:
    """What the docstrings of a section, of its parts and of its bases say of each attribute."""
    found: dict[str, str] = {}
    for field in msgspec.structs.fields(section):
        for part in get_args(field.type) or (field.type,):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                found[field.name] = inspect.cleandoc(part.__doc__ or "").partition("\n\n")[0]
    for base in reversed(section.__mro__):
        text = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        found |= dict(
            re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", text, re.MULTILINE | re.DOTALL)
        )
    return {name: " ".join(described.split()) for name, described in found.items()}


def default(field: Any) -> str:
    """The default of a field, as YAML."""
    if field.default_factory is not msgspec.NODEFAULT:
        return "none"
    value = field.default
    if value is msgspec.NODEFAULT:
        return "required"
    if value is msgspec.UNSET or isinstance(value, msgspec.Struct) or value in (None, ()):
        return "none"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def configuration() -> str:
    """The page of the configuration."""
    lines = [
        "# Configuration",
        "",
        "Every key of the configuration, which `--config` and `config=` take as YAML, JSON or a dict.",
        "[Judges](judges.md) and [metrics](own-metrics.md) have examples; `graphrag-eval-async schema configuration` prints",
        "the JSON Schema for your editor. This page is made from the code.",
    ]
    for key, section in sections():
        described = attributes(section)
        summary = inspect.cleandoc(section.__doc__ or "").partition("Attributes:")[0].strip()
        title = f"`{key}`" if key else "Top level"
        lines += [
            "",
            f"## {title}",
            "",
            summary,
            "",
            "| key | default | meaning |",
            "|---|---|---|",
        ]
        for field in msgspec.structs.fields(section):
            meaning = described[field.name].replace("|", "\\|")
            lines.append(
                f"| `{field.encode_name}` | {default(field)} | {meaning[0].upper()}{meaning[1:]} |"
            )
    return "\n".join(lines) + "\n"


def prometheus() -> str:
    """The page of the metrics for Prometheus."""
    lines = [
        "# Prometheus metrics",
        "",
        "What `watch --metrics` and `PrometheusCollector` export; [Monitoring](monitoring.md#prometheus-and-grafana) shows how.",
        "This page is made from the code.",
        "",
        f"The first {prometheus_metrics.MAX_TEMPLATES} templates have labels of their own; all others count as `other`. No question",
        "ids, answers or error messages appear in labels. Means are over questions, as on pages;",
        "`graphrag_eval_score_sum / graphrag_eval_score_count` is over results. Each process serves its own metrics: in queries,",
        "add up counters, and average means.",
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for name, kind, labels, text in prometheus_metrics.METRICS:
        shown = ", ".join(f"`{each}`" for each in labels) or "none"
        lines.append(f"| `{prometheus_metrics.PREFIX}{name}` | {kind} | {shown} | {text} |")
    return "\n".join(lines) + "\n"


def judged_metrics() -> str:
    """The table of judged metrics on the page of judges."""
    rows = ["| section | value |", "|---|---|"]
    rows += [f"| `{metric.name}` | {metric.about} |" for metric in JUDGED]
    return "\n".join(rows) + "\n"


def judges() -> str:
    """The page of judges, with that table."""
    page = (HERE / "judges.md").read_text()
    before, _, rest = page.partition("| section | value |\n")
    after = rest[rest.index("| `custom_evaluations` |") :]
    return before + judged_metrics() + after


RAGAS_HEAD = """\
# Metrics of ragas

Any metric of [ragas](https://docs.ragas.io) can judge responses while they come in. Install the extra `ragas`, and name
metrics under keys of your choice:

```yaml
llm:
  generation: {provider: openai, model: gpt-4o-mini}
  embedding: {provider: openai, model: text-embedding-3-small}
ragas:
  faith: Faithfulness
  factual: {metric: FactualCorrectness, arguments: {mode: precision}}
  tone: {metric: AspectCritic, arguments: {definition: "Is the answer polite?"}}
```

Results then have `faith`, `factual` and `tone`, with `_reason`, `_error` and `_cost`. Metrics ask the models of
the configuration, so [limits, retries, the budget, prices and the cache](judges.md#limits-and-cost) apply to them.

No other metric is on here: a configuration that names metrics turns on only these, so `answer_correctness` would need
its own section. `ragas: {}` names no metric, so the defaults stay on: `answer_correctness` and, with an embedding
model, `answer_relevance`.

In Python, `metrics` takes classes, partials of classes, and objects, which then ask your judge instead of their own model:

```python
from ragas.metrics.collections import StringPresence

from graphrag_eval_async import run_evaluation_sync

films = "films/reference.yaml", "films/responses.jsonl"
for result in run_evaluation_sync(*films, metrics={"named": StringPresence}):
    print(result["question_id"], result["named"])
```

```text
films-of-tati 0.0
```

- A name is looked up in `ragas.metrics.collections`, then in the older `ragas.metrics`. A path such as
  `ragas.metrics:Faithfulness` or `mypackage.mymodule:MyMetric` finds any other class or object.
- A wrong name, a missing package or a wrong argument is a `ConfigError` before the first call. So ragas, whose import takes
  seconds, is imported when the stream or the evaluator is made. `validate --config` reports the same problems.
- Arguments must have the types that ragas declares: `strict_order: "no"` is an error, since ragas would take the text
  for true. `strictness` and `max_retries` must be at least 1. The older `AspectCritic` and `ResponseRelevancy` ask once, so
  another `strictness` is an error; `AnswerRelevancy` asks `strictness` times. `llm` and `embeddings` are an error, too.
- A response without an input that a metric needs is skipped: `faith_reason` is `skipped: needs retrieved_contexts`.
- The first failed call ends a metric and is its error. NaN is no value: `faith_reason` says so, and the
  run counts it as `without a value`. A text in place of a number is an error.
- The values of `DiscreteMetric` are texts. Results have them, but tables do not show them.
- `compare` and `--until` decide metrics from 0 to 1 like `custom_evaluations`. Cosines may be negative, so they count as
  unbounded. Of `NoiseSensitivity`, lower is better: `compare` says so, and decides it only if `primary` names it.

## Inputs

| input | from the response and its question |
|---|---|
"""

RAGAS_TABLE = """
For metrics about conversations, `user_input` is the question, each step with its output, and the answer. Inputs that no response
has, such as `rubrics` and `reference_topics`, stand in `arguments`.

## All metrics

The metrics of ragas 0.4.3. This table is made from the code.

| metric | needs | asks | values |
|---|---|---|---|
"""

RAGAS_IMPOSSIBLE = {
    "DataCompyScore": "the package datacompy",
    "FaithfulnesswithHHEM": "the package transformers, and downloads a model",
    "MultiModalFaithfulness": "images, so it cannot be used",
    "MultiModalRelevance": "images, so it cannot be used",
}
"""What metrics need that are not made for the table."""

RAGAS_ARGUMENTS: dict[str, dict[str, Any]] = {
    "AspectCritic": {"definition": "Is the answer polite?"},
    "InstanceRubrics": {"rubrics": {"score1_description": "wrong"}},
    "InstanceSpecificRubrics": {"rubrics": {"score1_description": "wrong"}},
    "SimpleCriteriaScore": {"definition": "How polite is the answer?"},
    "TopicAdherence": {"reference_topics": ["energy"]},
    "TopicAdherenceScore": {"reference_topics": ["energy"]},
}
"""Arguments without which metrics cannot be made."""

RAGAS_PACKAGES = {
    "BleuScore": "sacrebleu",
    "CHRFScore": "sacrebleu",
    "ChrfScore": "sacrebleu",
    "NonLLMContextPrecisionWithReference": "rapidfuzz",
    "NonLLMContextRecall": "rapidfuzz",
    "NonLLMStringSimilarity": "rapidfuzz",
    "RougeScore": "rouge-score",
}
"""Packages that metrics need beside ragas."""


def ragas_metrics() -> str:
    """The page of the metrics of ragas; needs ragas and the packages of its metrics."""
    from graphrag_eval_async.metrics.ragas_inputs import INPUTS
    from graphrag_eval_async.metrics.ragas_lookup import names_of_metrics

    inputs = [f"| `{name}` | {text} |" for name, text in INPUTS.items()]
    rows = [ragas_row(name) for name in sorted(names_of_metrics())]
    return RAGAS_HEAD + "\n".join(inputs) + "\n" + RAGAS_TABLE + "\n".join(rows) + "\n"


def ragas_row(name: str) -> str:
    """The row of one metric of ragas."""
    from graphrag_eval_async.metrics.ragas_lookup import make_ragas_metric

    if name in RAGAS_IMPOSSIBLE:
        return f"| `{name}` | {RAGAS_IMPOSSIBLE[name]} | | |"
    arguments = RAGAS_ARGUMENTS.get(name, {})
    section = model.RagasMetricConfig(metric=name, arguments=arguments)
    metric = make_ragas_metric("x", section)
    needs = [f"`{need}`" for need in metric.needs if need not in arguments]
    needs += [f"argument `{argument}`" for argument in arguments]
    if name in RAGAS_PACKAGES:
        needs.append(f"package {RAGAS_PACKAGES[name]}")
    asks = []
    if metric.asks_llm:
        asks.append("the model")
    if metric.asks_embeddings:
        asks.append("embeddings")
    values = "numbers"
    if metric.limits is not None:
        low, high = metric.limits
        values = f"{low:g} to {high:g}"
    if metric.lower_is_better:
        values += ", lower is better"
    return f"| `{name}` | {', '.join(needs)} | {' and '.join(asks) or 'nobody'} | {values} |"


FIXED = {
    "elapsed_sec": 2_295.0,
    "results_per_sec": 0.1,
    "in_flight": 4,
    "lag": {"bytes": 0, "seconds": 0.0},
}
"""What else depends on the clock."""


def svg_of(lines: list[Text], title: str, width: int = 82) -> str:
    """A picture of a terminal with these lines."""
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in [*lines, Text()]:  # The picture cuts off the descenders of the last line.
        console.print(line, no_wrap=True)
    svg = console.export_svg(title=title, unique_id=title.split()[-1])
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # Of a server; monospace does.
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


async def watched() -> list[Text]:
    """The screen of `watch` after most of the responses, while the graph's server is slow."""
    alerts = [parse_alert("error_rate > 0.1 over 100"), parse_alert("steps_score < 0.6 over 100")]
    counting = Counting(Last(100), "last", alerts)
    responses = grid.responses(slow_after=grid.SLOW_AFTER)[: grid.SO_FAR]
    async with evaluate_stream(grid.reference(), responses, ordered=True) as stream:
        facts = Facts(stream, counting, paths=["logs/agent.jsonl"])
        async for result in stream:
            counting.add(result)
    collected = facts.collect() | FIXED
    done = collected["progress"]["done"]
    total = collected["progress"]["total"]
    collected["progress"]["text"] = f"{done} of {total} questions, 0.1 results/s"
    courses = collected[COURSES]
    complete(collected)
    collected["state"]["text"] = re.sub(r"\d\d:\d\d UTC", "14:33 UTC", collected["state"]["text"])
    return render(collected, courses, 80, 37)


def watch() -> str:
    return svg_of(asyncio.run(watched()), "graphrag-eval-async watch")


def printed(*arguments: str) -> list[Text]:
    """What the command line prints."""
    with redirect_stdout(io.StringIO()) as out, suppress(SystemExit):
        command_line(arguments)
    return [Text(line) for line in out.getvalue().splitlines()]


@contextmanager
def in_folder() -> Iterator[None]:
    """Make a new folder with the reference set and the responses of two runs the current one."""
    runs = {
        "baseline": grid.responses(),
        "candidate": grid.responses(grid.CHEAPER, tokens=0.7, seed=8),
    }
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("reference.yaml").write_text(json.dumps(grid.reference()))
        for name, responses in runs.items():
            Path(f"{name}-log.jsonl").write_text(
                "".join(json.dumps(each) + "\n" for each in responses)
            )
        yield


def evaluated(name: str, *options: str) -> list[Text]:
    """Write the results of a run, and return the page that `evaluate` prints."""
    return printed(
        "evaluate", "reference.yaml", f"{name}-log.jsonl", "-o", f"{name}.jsonl", *options
    )


def compare() -> str:
    """What `compare` prints of two runs, the second with a cheaper model."""
    with in_folder():
        for name in ("baseline", "candidate"):
            evaluated(name)
        lines = printed("compare", "baseline.jsonl", "candidate.jsonl", "--worst", "5")
    return svg_of(lines, "graphrag-eval-async compare")


def report() -> str:
    """The page that `evaluate` prints."""
    with in_folder():
        # Without tokens and seconds, all columns fit into one table.
        log = Path("baseline-log.jsonl")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            del line["total_tokens"], line["elapsed_sec"]
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        page = evaluated("baseline", "--gate", "steps_score >= 0.8", "--gate", "error_rate <= 0.05")
    return svg_of(page, "graphrag-eval-async evaluate")


def plot() -> str:
    """What `plot` draws of the same two runs."""
    with in_folder():
        for name in ("baseline", "candidate"):
            evaluated(name)
        printed("plot", "baseline.jsonl", "candidate.jsonl", "-o", "page.svg")
        return Path("page.svg").read_text()


def interval() -> str:
    """The mean so far of the baseline's `steps_score`, and its confidence sequence, as an SVG."""
    with in_folder():
        evaluated("baseline")
        results = [json.loads(line) for line in Path("baseline.jsonl").read_text().splitlines()]
    aggregates, points = RunningAggregates(), []
    for count, result in enumerate(results, 1):
        aggregates.add(result)
        if count >= 10 and count % 5 == 0:
            stats = aggregates.snapshot(detail=True)["micro"]["steps_score"]
            points.append(
                (count, stats["mean"], stats["confidence"]["low"], stats["confidence"]["high"])
            )

    def at(count: float, score: float) -> str:
        return f"{50 + count * 1.7:.1f},{230 - score * 200:.1f}"

    band = " ".join(
        [at(n, high) for n, _, _, high in points]
        + [at(n, low) for n, _, low, _ in reversed(points)]
    )
    mean = " ".join(at(n, value) for n, value, _, _ in points)
    labels = [
        f'<text x="42" y="{234 - score * 200:.0f}" text-anchor="end">{score}</text>'
        for score in (0, 0.5, 1)
    ] + [
        f'<text x="{50 + n * 1.7:.0f}" y="250" text-anchor="middle">{n}</text>'
        for n in (0, 80, 160, 240, 320)
    ]
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 270" font-family="sans-serif" font-size="12">',
            "<title>The mean of steps_score and its confidence sequence, over the number of responses</title>",
            '<rect width="640" height="270" fill="white"/>',
            f'<polygon points="{band}" fill="#9ecae1" opacity="0.6"/>',
            f'<polyline points="{mean}" fill="none" stroke="#08519c" stroke-width="2"/>',
            '<path d="M50,30 V230 H610" fill="none" stroke="#444"/>',
            *labels,
            '<text x="60" y="24">steps_score</text>',
            '<rect x="380" y="150" width="24" height="14" fill="#9ecae1" opacity="0.6"/>',
            '<text x="412" y="162">95% interval, valid at any time</text>',
            '<path d="M380,182 h24" stroke="#08519c" stroke-width="2"/>',
            '<text x="412" y="186">mean of all responses so far</text>',
            '<text x="330" y="266" text-anchor="middle">responses</text>',
            "</svg>",
            "",
        ]
    )


def concepts() -> str:
    """What is compared with what, and what comes of it, as an SVG."""
    parts = []

    def box(x: int, y: int, width: int, height: int, title: str, lines: Sequence[str] = ()) -> None:
        look = f'width="{width}" height="{height}" rx="6" fill="#deebf7" fill-opacity="0.6" stroke="#08519c"'
        parts.append(f'<rect x="{x}" y="{y}" {look}/>')
        parts.append(f'<text x="{x + 10}" y="{y + 20}" font-weight="bold">{title}</text>')
        for number, line in enumerate(lines):
            parts.append(
                f'<text x="{x + 10}" y="{y + 40 + 18 * number}" font-size="11.5">{line}</text>'
            )

    box(10, 10, 300, 142, "reference set")
    box(22, 40, 276, 102, "template")
    answer, steps = "reference answer: Mon Oncle, Playtime", "reference steps: sparql_query, 2 rows"
    box(34, 68, 252, 66, "question", [answer, steps])
    box(
        10,
        182,
        300,
        70,
        "response",
        ["actual answer: Playtime", "actual steps: sparql_query, 1 row"],
    )
    parts.append('<path d="M386,206 h196 v-130 M382,202 h196 v-130" fill="none" stroke="#08519c"/>')
    box(378, 68, 196, 130, "result", ["failure: missing_rows"])
    box(390, 120, 172, 68, "metrics", ["steps_score: 0.67", "answer_match: 0"])
    box(
        656,
        68,
        134,
        130,
        "aggregates",
        ["mean: 0.83", "confidence interval", "number of errors", "reasons for failure"],
    )
    arrows = [
        "M286,112 C340,112 330,122 374,122",
        "M310,217 C345,217 335,150 374,150",
        "M588,133 H652",
    ]
    parts += [
        f'<path d="{each}" fill="none" stroke="#08519c" marker-end="url(#tip)"/>' for each in arrows
    ]
    parts.append('<text x="618" y="124" text-anchor="middle" font-size="11.5">all results</text>')
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 262" font-family="sans-serif" font-size="13">',
            "<title>A response is compared with its question; metrics are in the result; results make aggregates</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">',
            '<path d="M0,0 L8,4 L0,8 Z" fill="#08519c"/></marker></defs>',
            '<rect width="800" height="262" fill="white"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


MADE = {
    "configuration.md": configuration,
    "judges.md": judges,
    "prometheus-metrics.md": prometheus,
    "pictures/watch.svg": watch,
    "pictures/report.svg": report,
    "pictures/compare.svg": compare,
    "pictures/interval.svg": interval,
    "pictures/concepts.svg": concepts,
}

MADE_WITH_RAGAS = {"ragas.md": ragas_metrics}
"""Pages that need the extra `dev` to be made."""

DRAWN = {"pictures/plot.svg": plot}
"""Pictures whose details depend on the version of the library that draws them."""


def main() -> None:
    (HERE / "pictures").mkdir(exist_ok=True)
    made = MADE | DRAWN
    if find_spec("ragas") is not None:
        made |= MADE_WITH_RAGAS
    for name, make in made.items():
        (HERE / name).write_text(make())


if __name__ == "__main__":
    main()
