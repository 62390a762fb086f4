"""Write the Grafana dashboard in the package, from the table of metrics.

python -m docs.grafana
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataTransformerConfig,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from graphrag_eval_async.exporters.prometheus_metrics import METRICS, PREFIX

PATH = Path(__file__).parents[1] / "graphrag_eval_async" / "exporters" / "grafana.json"

VARIABLES = {
    "instance": f"label_values({PREFIX}info, instance)",
    "template": f"label_values({PREFIX}results_total, template)",
    "metric": f"label_values({PREFIX}score_bucket, metric)",
}
"""By the label that it selects, the query of each variable: instances, templates, and scores."""

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")


class Panel(NamedTuple):
    """A panel: its kind, width in 24ths, title, unit, and queries by legend.

    In queries, ``[mean]`` stands for the metric with the selectors of all variables that are its
    labels, and ``[score|bucket]`` for a series of a histogram; ``[results_total; status="error"]``
    adds a selector.
    """

    kind: str
    width: int
    title: str
    unit: str
    queries: dict[str, str]


RATE = "[$__rate_interval]"
QUALITY = (
    Panel(
        "stat",
        12,
        "Mean over questions",
        "none",
        {"{{metric}}": "avg by (metric) ([overall_mean])"},
    ),
    Panel("stat", 4, "Results", "short", {"results": "sum([results_total])"}),
    Panel(
        "stat",
        4,
        "Error rate",
        "percentunit",
        {"errors": "avg([error_rate])"},
    ),
    Panel(
        "stat",
        4,
        "Since the last result",
        "s",
        {"age": "time() - max([last_result_timestamp_seconds])"},
    ),
    Panel(
        "timeseries",
        12,
        "Mean over recent questions",
        "none",
        {
            "{{template}} {{metric}}": "[window_mean]",
            "all {{metric}}": "avg by (metric) ([overall_window_mean])",
        },
    ),
    Panel(
        "timeseries",
        12,
        "Mean over questions so far",
        "none",
        {"{{template}} {{metric}}": "[mean]"},
    ),
    Panel(
        "table",
        12,
        "Templates",
        "none",
        # Several processes may be selected.
        {
            "mean": "avg by (template, metric) ([mean])",
            "recent": "avg by (template, metric) ([window_mean])",
        },
    ),
    Panel(
        "heatmap",
        12,
        "Distribution of scores",
        "none",
        {"{{le}}": f"sum by (le) (increase([score|bucket]{RATE}))"},
    ),
)
FAILURES = (
    Panel(
        "timeseries",
        12,
        "Failures",
        "short",
        {"{{failure}}": f"sum by (failure) (increase([failures_total]{RATE}))"},
    ),
    Panel(
        "timeseries",
        12,
        "Rejects",
        "short",
        {"{{reason}}": f"sum by (reason) (increase([rejects_total]{RATE}))"},
    ),
    Panel("statetimeline", 24, "Alerts", "short", {"{{alert}}": "max by (alert) ([alert_active])"}),
)
SPEED = (
    Panel(
        "timeseries",
        12,
        "Results per second",
        "short",
        {"{{status}}": f"sum by (status) (rate([results_total]{RATE}))"},
    ),
    Panel(
        "timeseries",
        12,
        "Seconds of recent responses",
        "s",
        {
            f"p{share * 100:g}": f"histogram_quantile({share}, sum by (le) (rate([response_seconds|bucket]{RATE})))"
            for share in (0.5, 0.9, 0.95)
        },
    ),
    Panel("timeseries", 8, "In flight", "short", {"responses": "sum([in_flight])"}),
    Panel("timeseries", 8, "Behind the logs", "bytes", {"bytes": "sum([source_lag_bytes])"}),
    Panel("timeseries", 8, "Behind the logs", "s", {"seconds": "max([source_lag_seconds])"}),
)
JUDGES = (
    Panel("stat", 6, "Cost", "currencyUSD", {"cost": "sum([judge_cost_usd_total])"}),
    Panel(
        "timeseries",
        9,
        "Judged metrics per second",
        "short",
        {"{{outcome}}": f"sum by (outcome) (rate([judge_calls_total]{RATE}))"},
    ),
    Panel(
        "timeseries",
        9,
        "Retries",
        "short",
        {"{{kind}}": f"sum by (kind) (increase([judge_retries_total]{RATE}))"},
    ),
    Panel(
        "timeseries",
        12,
        "Tokens per second",
        "short",
        {"{{kind}}": f"sum by (kind) (rate([judge_tokens_total]{RATE}))"},
    ),
    Panel("timeseries", 12, "Requests in flight", "short", {"requests": "sum([judge_in_flight])"}),
    Panel("table", 24, "About the run", "none", {"run": "[info]"}),
)
ROWS = {"Quality": QUALITY, "Failures": FAILURES, "Speed": SPEED, "Judges and the run": JUDGES}
BY_NAME = {metric.name: metric for metric in METRICS}
_METRIC = re.compile(r"\[(?P<name>[a-z_]+)(?:\|(?P<part>\w+))?(?:; (?P<more>[^\]]+))?\]")


def expression(query: str) -> str:
    """A query in PromQL."""

    def selected(match: re.Match[str]) -> str:
        labels = ("instance", *BY_NAME[match["name"]].labels)
        selectors = [f'{label}=~"${label}"' for label in labels if label in VARIABLES]
        selectors += [match["more"]] if match["more"] else []
        part = f"_{match['part']}" if match["part"] else ""
        return f"{PREFIX}{match['name']}{part}{{{', '.join(selectors)}}}"

    return _METRIC.sub(selected, query)


def description(panel: Panel) -> str:
    """What the table says of the metrics in a panel."""
    names = [match["name"] for query in panel.queries.values() for match in _METRIC.finditer(query)]
    return " ".join(dict.fromkeys(BY_NAME[name].help for name in names))


BUILDERS: dict[str, Any] = {
    "stat": stat.Panel,
    "timeseries": timeseries.Panel,
    "table": table.Panel,
    "heatmap": heatmap.Panel,
    "statetimeline": statetimeline.Panel,
}


def built(panel: Panel) -> Any:
    """A panel of the SDK."""
    builder = (
        BUILDERS[panel.kind]().title(panel.title).description(description(panel)).unit(panel.unit)
    )
    builder = builder.datasource(SOURCE).span(panel.width).height(4 if panel.kind == "stat" else 8)
    for number, (legend, query) in enumerate(panel.queries.items()):
        target = prometheus.Dataquery().ref_id(chr(ord("A") + number)).datasource(SOURCE)
        target = target.expr(expression(query)).legend_format(legend)
        if panel.kind in ("stat", "table"):
            target = target.instant()
        if panel.kind == "table":
            target = target.format(PromQueryFormat.TABLE)
        if panel.kind == "heatmap":
            target = target.format(PromQueryFormat.HEATMAP)
        builder = builder.with_target(target)
    if panel.kind == "stat":
        builder = builder.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    if panel.kind == "table":
        names = {f"Value #{chr(ord('A') + i)}": legend for i, legend in enumerate(panel.queries)}
        hidden = {"Time": True} | ({"Value": True} if len(panel.queries) == 1 else {})
        builder = builder.with_transformation(DataTransformerConfig(id_val="merge", options={}))
        builder = builder.with_transformation(
            DataTransformerConfig(
                id_val="organize", options={"renameByName": names, "excludeByName": hidden}
            )
        )
    return builder


def variable(label: str, query: str) -> Any:
    """A variable that selects values of a label; all at first."""
    return (
        dashboard.QueryVariable(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )


def grafana() -> str:
    """The dashboard, as JSON."""
    builder = (
        dashboard.Dashboard("GraphRAG evaluation")
        .uid("graphrag-eval-async")
        .tags(["graphrag", "evaluation"])
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .refresh("30s")
        .timezone("browser")
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
    )
    for label, query in VARIABLES.items():
        builder = builder.with_variable(variable(label, query))
    for title, panels in ROWS.items():
        builder = builder.with_row(dashboard.Row(title))
        for panel in panels:
            builder = builder.with_panel(built(panel))
    return json.dumps(builder.build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


def main() -> None:
    PATH.write_text(grafana())


if __name__ == "__main__":
    main()
