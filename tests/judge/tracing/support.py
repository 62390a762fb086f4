"""A judged record whose requests a tracer sees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from graphrag_eval_async import evaluate_stream
from tests.judged.support import KEY, config, response, sensible, templates
from tests.support.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.sdk.trace import ReadableSpan

METRICS: dict[str, Any] = {"answer_correctness": {}}


async def judged(make_judge: Callable[[Any], Any], make_client: Callable[..., Any]) -> Any:
    """The result of a record; its judge is made of a client."""
    async with (
        JudgeServer(sensible) as server,
        make_client(api_key=KEY, base_url=server.base_url, max_retries=0) as client,
    ):
        return await result_of(METRICS, judge=make_judge(client))


async def judged_by_configured_model() -> Any:
    """The result of a record that a model of the configuration judges."""
    async with JudgeServer(sensible) as server:
        return await result_of(config(server, answer_correctness={}), judge=None)


async def result_of(settings: Any, *, judge: Any) -> Any:
    async with evaluate_stream(templates(1), [response(0)], config=settings, judge=judge) as stream:
        [result] = [result async for result in stream]
    return result


def attributes_of(spans: Iterable[ReadableSpan]) -> str:
    """All attributes of the one span with a reply."""
    [attributes] = [
        dict(span.attributes or {}) for span in spans if "reference_claims" in str(span.attributes)
    ]
    return json.dumps(attributes, default=str)
