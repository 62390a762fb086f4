"""Renders pages from templates; everything that comes from data is escaped."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from datetime import UTC, datetime
from functools import cache, partial
from importlib.resources import files
from math import floor, log10
from typing import Any
from urllib.parse import quote

from graphrag_eval_async.reports.comparison_words import signed
from graphrag_eval_async.reports.wording import value_of
from graphrag_eval_async.text import counted, dollars, escape, interval_cell, percent, plural

STATIC = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}


@cache
def static(name: str) -> str:
    """A file of `STATIC`."""
    return files("graphrag_eval_async.reports").joinpath("pages", name).read_text("utf-8")


def csp_hash(text: str) -> str:
    """The source of a content security policy that allows this very script or style sheet."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def render(template: str, **names: Any) -> str:
    """A page as HTML."""
    return page_environment().get_template(template).render(**names)  # type: ignore[no-any-return]


@cache
def page_environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def visible(value: Any) -> Any:
        """Text with control, format and other invisible characters spelled out."""
        return escape(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=PackageLoader("graphrag_eval_async.reports", "pages"),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"inline": None, "events": None, "gates": (), "alert_states": {}}
    environment.filters |= {
        "cell": cell,
        "interval": lambda score: interval_cell(score.low, score.high),
        "dollars": dollars,
        "plural": counted,
        "thousands": "{:,}".format,
        "percent": percent,
        "value_of": value_of,
        "rate": lambda value: "" if value is None else f"{value:.1%}",
        "signed": signed,
        "ago": ago,
        "query": partial(quote, safe="", errors="surrogatepass"),
        "one_line": lambda text: " ".join(str(text).split())[:300],
    }
    return environment


def cell(value: Any) -> str:
    """A number in three digits, or the whole ones of a larger one; other values as text."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if value == 0 or abs(value) >= 1000:
        return f"{value:.0f}"
    return (
        f"{value:.{max(0, 2 - floor(log10(abs(value))))}f}"
        if abs(value) >= 1e-4
        else f"{value:.2g}"
    )


def ago(time: str) -> str:
    """A time in ISO format, in UTC to the second, and how long ago it was."""
    try:
        when = datetime.fromisoformat(time)
        minutes = int((datetime.now(UTC) - when).total_seconds() // 60)
    except (TypeError, ValueError):
        return time
    count, unit = (minutes, "minute") if minutes < 120 else (minutes // 60, "hour")
    told = f"{plural(count, unit)} ago" if count > 0 else "less than a minute ago"
    return f"{when:%Y-%m-%d %H:%M:%S} UTC, {told}"
