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

from graphrag_eval_async.helpers.text import (
    counted,
    dollars,
    escape,
    interval_cell,
    percent,
    plural,
)
from graphrag_eval_async.reports.comparison_words import signed
from graphrag_eval_async.reports.wording import value_of

STATIC = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
"""The files that pages load, with their media types."""

MAX_LINE_CHARACTERS = 300
"""Maximum characters of a text that a page shows in one line."""

LEAST_DECIMAL = 1e-4
"""Least number that a page shows without an exponent."""


@cache
def static(name: str) -> str:
    """Return the text of a file of `STATIC`."""
    return files("graphrag_eval_async.reports").joinpath("pages", name).read_text("utf-8")


def csp_hash(text: str) -> str:
    """Return the hash of a script or a style sheet, as a content security policy has it.

    The policy then allows this very text within a page.
    """
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{b64encode(digest).decode()}'"


def render(template: str, **names: Any) -> str:
    """Return a page, or a part of one, as HTML.

    Args:
        template: the name of a file in `pages`.
        names: the names that the template uses.
    """
    return page_environment().get_template(template).render(**names)  # type: ignore[no-any-return]


@cache
def page_environment() -> Any:
    """Return the environment of all templates: it escapes whatever comes from data."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("graphrag_eval_async.reports", "pages"),
        autoescape=True,
        finalize=_spell_out_invisible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Templates may be rendered without these names.
    environment.globals |= {"inline": None, "events": None, "gates": ()}
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
        "one_line": lambda text: " ".join(str(text).split())[:MAX_LINE_CHARACTERS],
    }
    return environment


def _spell_out_invisible(value: Any) -> Any:
    """Return a text with control, format and other invisible characters spelled out.

    Markup, which templates have rendered already, and values that are no text stay as they are.
    """
    from markupsafe import Markup

    if isinstance(value, str) and not isinstance(value, Markup):
        return escape(value)
    return value


def cell(value: Any) -> str:
    """Return a value as the text of a cell.

    A float has three digits, or all digits before the point if these are more. Other values are
    written as they are; None is "".
    """
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if value == 0 or abs(value) >= 1000:
        return f"{value:.0f}"
    if abs(value) < LEAST_DECIMAL:
        return f"{value:.2g}"
    # The power of ten of the first digit: 2 for 345, -1 for 0.345.
    exponent = floor(log10(abs(value)))
    decimals = max(0, 2 - exponent)
    return f"{value:.{decimals}f}"


def ago(time: str) -> str:
    """Return a time in UTC to the second, and how long ago it was.

    Args:
        time: the time in ISO 8601. A text that is no time is returned as it is.
    """
    try:
        when = datetime.fromisoformat(time)
        minutes = int((datetime.now(UTC) - when).total_seconds() // 60)
    except (TypeError, ValueError):
        # Alerts are restored from a file that somebody may have edited.
        return time
    if minutes < 1:
        age = "less than a minute ago"
    elif minutes < 120:
        age = f"{plural(minutes, 'minute')} ago"
    else:
        age = f"{plural(minutes // 60, 'hour')} ago"
    return f"{when:%Y-%m-%d %H:%M:%S} UTC, {age}"
