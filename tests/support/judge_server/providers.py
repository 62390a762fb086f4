"""Servers with OpenAI's protocol, as far as judges notice: what they refuse, in their own words.

The replies are as the servers send them; what they judge is scripted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.judge_server.dialects import format_of, limited_to
from tests.support.judge_server.replies import completion, error, json_reply, reply_to

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.judge_server.faults import Maker
    from tests.support.judge_server.replies import Reply, Request

INVALID = "invalid_request_error"


class Provider(NamedTuple):
    """A server, and how requests to it are to be written once it has refused what it refuses.

    `script` is its behaviour, `format` the name of the format, `changed` the parameters that are
    sent under other names, or not at all.
    """

    script: Maker
    format: str = "json_schema"
    changed: Mapping[str, str | None] = {}


def openai_reasoning(request: Request) -> Reply:
    """OpenAI's API for reasoning models."""
    if "max_tokens" in request.body:
        text = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead."
        )
        return error(400, text, type=INVALID, param="max_tokens", code="unsupported_parameter")
    if request.body.get("temperature") is not None:
        text = (
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default "
            "(1) value is supported."
        )
        return error(400, text, type=INVALID, param="temperature", code="unsupported_value")
    return reply_to(request)


def azure_before_schemas(request: Request) -> Reply:
    """Azure with an `api_version` before structured outputs."""
    if format_of(request.body).startswith("json_schema"):
        text = (
            "response_format value as json_schema is enabled only for api versions "
            "2024-08-01-preview and later"
        )
        return error(400, text, code="BadRequest")
    return replying_by_tool(request)


def replying_by_tool(request: Request) -> Reply:
    """A reply in whatever format was asked for."""
    match request.body:
        case {"tools": [{"function": {"name": str(name)}}]}:
            call = {"id": "1", "type": "function", "function": {"name": name, "arguments": VERDICT}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
            return json_reply({"id": "1", "object": "chat.completion", "choices": choices})
    return completion(VERDICT)


VERDICT = '{"value": 0}'


def litellm(request: Request) -> Reply:
    """A LiteLLM proxy in front of a model without these parameters, without `drop_params`."""
    refused = [name for name in ("response_format", "seed") if name in request.body]
    if refused:
        text = (
            f"litellm.UnsupportedParamsError: openai does not support parameters: {refused}, for "
            "model=small. To drop these, set `litellm.drop_params=True` or for proxy:"
        )
        return error(400, text, type="None", param="None", code="400")
    return replying_by_tool(request)


def anthropic(request: Request) -> Reply:
    """Anthropic ignores the format of replies."""
    text = str(request.body["messages"])
    if "JSON Schema" in text:
        return completion(f"```json\n{VERDICT}\n```")
    return completion("The answer names both substations, so I would call it correct.")


def gemini(request: Request) -> Reply:
    """Gemini puts errors into a list."""
    if "seed" in request.body:
        text = 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'
        details = {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}
        return json_reply([{"error": details}], status=400)
    return reply_to(request)


def mistral(request: Request) -> Reply:
    """Mistral refuses what it does not know."""
    unknown = [name for name in ("seed", "max_completion_tokens") if name in request.body]
    if unknown:
        detail = [
            {
                "type": "extra_forbidden",
                "loc": ["body", name],
                "msg": "Extra inputs are not permitted",
                "input": request.body[name],
            }
            for name in unknown
        ]
        return json_reply({"object": "error", "message": {"detail": detail}}, status=422)
    return reply_to(request)


def llama_cpp(request: Request) -> Reply:
    """llama.cpp makes a grammar of a schema, and refuses some of them."""
    if format_of(request.body).startswith("json_schema"):
        return error(400, "Failed to parse grammar", type=INVALID, code=400)
    return replying_by_tool(request)


PROVIDERS: Mapping[str, Provider] = {
    "OpenAI": Provider(reply_to),
    "OpenAI, reasoning": Provider(
        openai_reasoning, changed={"max_tokens": "max_completion_tokens", "temperature": None}
    ),
    "Azure, before 2024-08": Provider(azure_before_schemas, "tool_call"),
    "vLLM": Provider(limited_to(20_000, reply_to)),
    "Ollama": Provider(reply_to),
    "LiteLLM proxy": Provider(litellm, "tool_call", {"seed": None}),
    "Anthropic": Provider(anthropic, "json_object"),
    "Gemini": Provider(gemini, changed={"seed": None}),
    "Mistral": Provider(mistral, changed={"seed": None}),
    "llama.cpp": Provider(llama_cpp, "tool_call"),
}


def asked_with(request: Request) -> dict[str, Any]:
    """The parameters of a request, apart from the model, the messages and the format."""
    others = {"model", "messages", "response_format", "tools", "tool_choice"}
    return {name: value for name, value in request.body.items() if name not in others}
