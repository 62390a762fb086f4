"""The table of layouts: one row for each framework whose histories are read by `Layout`.

A new framework is one more row here, and a recorded history of it in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.traces.layouts import CallShape, Layout, Shape, first_at
from graphrag_eval_async.traces.plain import open_history, text_of

_VERCEL = Layout(
    name="vercel",
    blocks=(("parts",), ("toolInvocations", "content")),
    text_shape=Shape(needs=("text",), when={"type": "text"}),
    marks=(Shape(needs=("parts.0.type", "role"), lacks=("kind",)),),
    usage=("metadata.usage",),
    ignored=("toolInvocations", "tool-approval-request", "tool-approval-response"),
    calls=(
        CallShape(  # Of model messages.
            needs=("toolCallId", "toolName"),
            when={"type": "tool-call"},
            name=("toolName",),
            args=("input", "args"),
            id=("toolCallId",),
        ),
        CallShape(  # Of model messages from version 5 on.
            needs=("toolCallId", "output.type"),
            when={"type": "tool-result"},
            name=("toolName",),
            id=("toolCallId",),
            output=("output.value", "output.reason"),
            status=("output.type",),
        ),
        CallShape(  # Of model messages of version 4.
            needs=("toolCallId",),
            when={"type": "tool-result"},
            name=("toolName",),
            id=("toolCallId",),
            output=("result",),
            status=("isError",),
        ),
        # Of UI messages of version 4: among the parts, and earlier beside the content.
        *(
            CallShape(
                needs=(f"{at}toolCallId", f"{at}toolName", f"{at}state"),
                lacks=lacks,
                name=(f"{at}toolName",),
                args=(f"{at}args",),
                id=(f"{at}toolCallId",),
                output=(f"{at}result",),
            )
            for at, lacks in (("toolInvocation.", ()), ("", ("type",)))
        ),
        CallShape(  # Of UI messages from version 5 on; the kind is tool-NAME or dynamic-tool.
            needs=("toolCallId", "state"),
            when={"type": "*tool*"},
            name=("toolName", "type"),
            name_prefix="tool-",
            args=("input", "rawInput"),
            id=("toolCallId",),
            output=("output",),
            status=("state",),
            error=("errorText",),
        ),
    ),
)


def _gemini_shapes(call_key: str, response_key: str) -> tuple[CallShape, CallShape]:
    """Return the shape of a part with a call, and the shape of a part with a result.

    The spelling of the keys differs between Python and JSON.

    Args:
        call_key: the key at which a part has a call.
        response_key: the key at which a part has what the function returned.
    """
    call_shape = CallShape(
        needs=(f"{call_key}.name",),
        lacks=("role",),  # A message of OpenAI has its call at the same key, but has a role.
        name=(f"{call_key}.name",),
        args=(f"{call_key}.args",),
        id=(f"{call_key}.id",),
    )
    response_shape = CallShape(
        needs=(f"{response_key}.name",),
        name=(f"{response_key}.name",),
        id=(f"{response_key}.id",),
        output=(f"{response_key}.response",),
        # The documentation of Gemini and of ADK tells tools to report a failure like this.
        error=(f"{response_key}.response.error", f"{response_key}.response.error_message"),
        status=(f"{response_key}.response.status",),
        output_wrappers=("result", "output", "error"),
    )
    return call_shape, response_shape


def _gemini_code_shapes(code_key: str, result_key: str) -> tuple[CallShape, CallShape]:
    """Return the shape of a part with code that Gemini ran, and of a part with what it printed.

    Args:
        code_key: the key at which a part has the code.
        result_key: the key at which a part has the outcome and what was printed.
    """
    tool_name = "code_execution"  # The tool has this name in a request to Gemini.
    code_shape = CallShape(
        needs=(f"{code_key}.code",),
        fixed_name=tool_name,
        args=(code_key,),
        id=(f"{code_key}.id",),
    )
    result_shape = CallShape(
        needs=(result_key,),
        fixed_name=tool_name,
        id=(f"{result_key}.id",),
        output=(f"{result_key}.output",),
        status=(f"{result_key}.outcome",),
    )
    return code_shape, result_shape


_GEMINI = Layout(
    name="gemini",
    messages=(
        "events",
        "contents",
        "request.contents",
        # The SDK has these in a response if it calls the functions itself.
        "automatic_function_calling_history",
        "automaticFunctionCallingHistory",
        "candidates",
        "response.candidates",
    ),
    role=("content.role", "role"),
    default_role="user",
    blocks=(("content.parts",), ("parts",)),
    text_shape=Shape(needs=("text",), lacks=("thought", "type", "part_kind")),
    marks=tuple(
        Shape(
            texts=(f"{parts}.{index}.text",),
            lacks=(f"{parts}.{index}.type", f"{parts}.{index}.part_kind"),
        )
        for parts in ("parts", "content.parts")
        for index in (0, 1)  # An image may come before the text.
    ),
    usage=("usage_metadata", "usageMetadata"),
    ignored=("long_running_tool_ids", "longRunningToolIds"),
    calls=(
        *_gemini_shapes("function_call", "function_response"),
        *_gemini_shapes("functionCall", "functionResponse"),
        *_gemini_code_shapes("executable_code", "code_execution_result"),
        *_gemini_code_shapes("executableCode", "codeExecutionResult"),
    ),
)

_HAYSTACK = Layout(
    name="haystack",
    role=("role", "_role"),
    blocks=(("content",), ("_content",)),
    marks=(Shape(needs=("role", "meta", "content.0.text")), Shape(needs=("_role", "_content"))),
    usage=("meta.usage", "_meta.usage"),
    calls=(
        CallShape(
            needs=("tool_call.tool_name",),
            name=("tool_call.tool_name",),
            args=("tool_call.arguments",),
            id=("tool_call.id",),
        ),
        CallShape(
            needs=("tool_call_result.origin",),
            name=("tool_call_result.origin.tool_name",),
            id=("tool_call_result.origin.id",),
            output=("tool_call_result.result",),
            status=("tool_call_result.error",),
        ),
    ),
)

_BEDROCK = Layout(
    name="bedrock",
    messages=(
        "request.messages",
        "messages",
        "input.inputBodyJson.messages",  # In a log of invocations, as AWS writes it.
        "response.output.message",
        "output.message",
        "output.outputBodyJson.output.message",
    ),
    role=("role", "message.role"),
    blocks=(("content",), ("message.content",)),  # The second in a session of Strands.
    block_marks=(Shape(texts=("text",), lacks=("type",)),),
    text_shape=Shape(needs=("text",), lacks=("type",)),
    usage=("metadata.usage",),
    calls=(
        CallShape(
            needs=("toolUse.toolUseId",),
            name=("toolUse.name",),
            args=("toolUse.input",),
            id=("toolUse.toolUseId",),
        ),
        CallShape(
            needs=("toolResult.toolUseId",),
            id=("toolResult.toolUseId",),
            output=("toolResult.content",),
            status=("toolResult.status",),
        ),
    ),
)

_INSPECT = Layout(
    name="inspect",
    messages=("messages",),
    blocks=(("content", "tool_calls"),),
    text_shape=Shape(needs=("text",), when={"type": "text"}),
    calls=(
        CallShape(
            needs=("id", "arguments"),
            texts=("function",),  # The name, where OpenAI has an object.
            name=("function",),
            args=("arguments",),
            id=("id",),
        ),
        CallShape(
            needs=("tool_call_id",),
            texts=("function",),
            when={"role": "tool"},
            name=("function",),
            id=("tool_call_id",),
            output=("content",),
            error=("error",),
        ),
    ),
)

_INTERMEDIATE_STEPS = Layout(
    name="langchain",
    holder=Shape(needs=("intermediate_steps",)),
    messages=("intermediate_steps",),
    question=("input", "question"),
    answer=("output",),
    calls=(
        CallShape(
            needs=("0.tool",),
            name=("0.tool",),
            args=("0.tool_input",),
            id=("0.tool_call_id",),
            output=("1",),
        ),
        CallShape(
            needs=("0.kwargs.tool",),
            name=("0.kwargs.tool",),
            args=("0.kwargs.tool_input",),
            id=("0.kwargs.tool_call_id",),
            output=("1",),
        ),
    ),
)

_AUTOGEN = Layout(
    name="autogen",
    messages=("messages", "llm_context.messages"),  # The second in the saved state of an agent.
    message=Shape(texts=("source", "type")),
    marks=(Shape(when={"type": "*Message"}),),
    role=("source",),
    users=frozenset({"user"}),
    has_agents=True,
    usage=("models_usage",),
    ignored=(
        "tool_calls",
        "ToolCallRequestEvent",
        "ToolCallExecutionEvent",
        "ToolCallSummaryMessage",
        "FunctionExecutionResultMessage",
    ),
    calls=(
        CallShape(
            needs=("id", "name", "arguments"),
            name=("name",),
            args=("arguments",),
            id=("id",),
        ),
        CallShape(
            needs=("call_id",),
            name=("name",),
            id=("call_id",),
            output=("content",),
            status=("is_error",),
        ),
    ),
)

_SEMANTIC_KERNEL = Layout(
    name="semantic-kernel",
    messages=("messages",),
    marks=(Shape(when={"content_type": "message"}),),
    blocks=(("items",),),
    text_shape=Shape(needs=("text",), when={"content_type": "text"}),
    usage=("metadata.usage",),
    calls=(
        CallShape(
            needs=("name",),
            when={"content_type": "function_call"},
            name=("function_name", "name"),
            args=("arguments",),
            id=("id",),
        ),
        CallShape(
            needs=("name",),
            when={"content_type": "function_result"},
            name=("function_name", "name"),
            id=("id",),
            output=("result",),
        ),
    ),
)

_LLAMAINDEX = Layout(
    name="llamaindex",
    question=("0.input.-1.blocks.0.text",),
    role=("response.role",),
    blocks=(("response.blocks",),),
    text_shape=Shape(needs=("text",), when={"block_type": "text"}),
    ignored=("tool_calls", "tool_name"),
    calls=(
        CallShape(
            needs=("tool_id", "tool_name", "tool_output"),
            name=("tool_name",),
            args=("tool_kwargs",),
            id=("tool_id",),
            output=("tool_output.blocks", "tool_output.raw_output"),
            status=("tool_output.is_error",),
        ),
        CallShape(
            needs=("tool_id", "tool_name", "tool_kwargs"),
            name=("tool_name",),
            args=("tool_kwargs",),
            id=("tool_id",),
        ),
    ),
)

_MCP = Layout(
    name="mcp",
    message=Shape(needs=("jsonrpc",)),
    calls=(
        CallShape(
            needs=("id", "params.name"),
            when={"method": "tools/call"},
            name=("params.name",),
            args=("params.arguments",),
            id=("id",),
        ),
        CallShape(
            needs=("id", "result.content"),
            id=("id",),
            output=("result.content",),
            status=("result.isError",),
        ),
        CallShape(needs=("id", "error.message"), id=("id",), error=("error",)),
    ),
)


def _prepare_smolagents(history: Any) -> dict[str, Any]:
    """Convert the steps in the memory of an agent of smolagents to messages.

    Args:
        history: the list of steps, or the result of a run, which has the list at ``steps``.

    Returns:
        an object with the messages at ``steps``. They are the task, the final answer, and each step
        with a call, to which the call is added at ``call``.

    Raises:
        TraceError: a step has several calls, whose results smolagents writes as one text.
    """
    steps = history.get("steps") if isinstance(history, dict) else history
    if not isinstance(steps, list):
        steps = []
    messages: list[dict[str, Any]] = []
    for step in steps:
        if not isinstance(step, dict):
            continue
        if isinstance(step.get("task"), str):
            messages.append({"role": "user", "content": step["task"]})

        calls = _calls_in_smolagents_step(step)
        if step.get("is_final_answer"):
            answer = first_at(calls, ("0.function.arguments.answer",)) or step.get("action_output")
            messages.append({"role": "assistant", "content": text_of(answer)})
        elif calls:
            messages.append(step | {"call": calls[0]})
    return {"steps": messages}


def _calls_in_smolagents_step(step: dict[str, Any]) -> list[Any]:
    """Return a list of the call in one step of an agent's memory; empty if it has no call.

    Raises:
        TraceError: the step has several calls, whose results smolagents writes as one text.
    """
    # A call that fails is missing in the step's own `tool_calls`.
    calls = first_at(step, ("model_output_message.tool_calls", "tool_calls"))
    if not isinstance(calls, list):
        return []
    if len(calls) > 1:
        raise TraceError(
            f"step {step.get('step_number')} has {len(calls)} calls, whose results smolagents "
            "writes as one text; trace it with openinference-instrumentation-smolagents, and "
            "read the spans with the format otlp"
        )
    return calls


_SMOLAGENTS = Layout(
    name="smolagents",
    prepare=_prepare_smolagents,
    messages=("steps",),
    marks=(Shape(needs=("step_number",)), Shape(texts=("task",), lacks=("id",))),
    usage=("token_usage",),
    calls=(
        CallShape(
            needs=("step_number", "call.function.name"),
            name=("call.function.name",),
            args=("call.function.arguments",),
            id=("call.id",),
            output=("observations",),
            error=("error",),
        ),
    ),
)


def _prepare_langsmith(run: Any) -> dict[str, Any]:
    """Convert a tree of runs of LangSmith, or a list of the runs of a trace, to an ordered list.

    Returns:
        an object with all runs, in the order in which they began, at ``runs``, and the first run at
        ``root``.

    Raises:
        TraceError: there is only one run. The calls are in the runs below it, which are missing.
    """
    runs: list[Any] = []
    unvisited = [run]
    while unvisited:
        value = unvisited.pop()
        if isinstance(value, list):
            unvisited += reversed(value)
        elif isinstance(value, dict):
            runs.append(value)
            unvisited.append(value.get("child_runs"))
    if len(runs) == 1:
        raise TraceError(
            "no known format; it is one run of LangSmith without the runs below it, which are its "
            "calls; export it with client.read_run(id, load_child_runs=True), or all runs of its "
            "trace in a list"
        )
    # The dotted order of a run is that of its parent, followed by the time when the run began.
    runs.sort(key=lambda run: str(run.get("dotted_order") or ""))
    root = runs[0] if runs else None
    return {"root": root, "runs": runs}


_LANGSMITH = Layout(
    name="langsmith",
    prepare=_prepare_langsmith,
    messages=("runs",),
    message=Shape(texts=("run_type",)),
    marks=(Shape(needs=("inputs",)),),
    blocks=(),
    question=("root.inputs.messages.-1.content", "root.inputs.input", "root.inputs.question"),
    answer=("root.outputs.messages.-1.content", "root.outputs.output", "root.outputs.answer"),
    calls=tuple(
        CallShape(
            when={"run_type": kind},
            name=("name",),
            args=("inputs",),
            id=("outputs.output.tool_call_id", "id"),
            output=("outputs.output.content", "outputs.output", "outputs"),
            status=("outputs.output.status",),
            error=("error",),
        )
        for kind in ("tool", "retriever")
    ),
)

LAYOUTS = (
    _VERCEL,
    _GEMINI,
    _HAYSTACK,
    _BEDROCK,
    _INSPECT,
    _INTERMEDIATE_STEPS,
    _AUTOGEN,
    _SEMANTIC_KERNEL,
    _LLAMAINDEX,
    _MCP,
    _SMOLAGENTS,
    _LANGSMITH,
)
"""All rows of the table. The first that fits a history counts."""


_LEVELS = 8
"""How deep calls stand in the histories of the table: in a line, a request, its messages, one of
these, its content, a block of this, a call, and its name; with one more for new rows.
"""

LAYOUT_NAMES = tuple(dict.fromkeys(layout.name for layout in LAYOUTS))
"""Names of the formats of which the table has rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A format that is recognised, but not read.

    Attributes:
        name: what it is.
        shape: what the history, or one of its messages, has.
        cure: what to export instead.
        looks_readable: whether such a history would be read as that of another format, but without
            its calls or its answer.
    """

    name: str
    shape: Shape
    cure: str
    looks_readable: bool = False


_TRACE_CREWAI = (
    "trace with openinference-instrumentation-crewai, and read the spans with the format otlp"
)
_TRACE_AG2 = "trace with openinference-instrumentation-ag2, and read the spans with the format otlp"
_USE_COHERE_2 = "use version 2 (cohere.ClientV2), and export its messages"
_SEND_SPANS = "send the spans to a collector, too, and read them with the format otlp"
_EXPORT_MODEL_MESSAGES = "export the prompt's messages and `result.response.messages`"
_STREAM_UPDATES = 'stream with stream_mode="updates" or "values"'

_REFUSED = (
    Refused(
        name="a whole log of Inspect, which has many samples",
        shape=Shape(needs=("eval", "samples")),
        cure="write a line for each sample: jq -c '.samples[]' LOG.json",
    ),
    Refused(
        name="an output of CrewAI, which has no calls",
        shape=Shape(needs=("tasks_output",)),
        cure=_TRACE_CREWAI,
    ),
    Refused(
        name="the output of a task of CrewAI, which has no calls",
        shape=Shape(texts=("raw", "agent", "output_format")),
        cure=_TRACE_CREWAI,
    ),
    Refused(
        name="the output of an agent of CrewAI, which has no calls",
        shape=Shape(texts=("raw", "agent_role")),
        cure=_TRACE_CREWAI,
    ),
    Refused(
        name="events of CrewAI",
        shape=Shape(needs=("event_id",), when={"type": "tool_usage_*"}),
        cure=_TRACE_CREWAI,
    ),
    Refused(
        name="a result of Strands, which has only the last message",
        shape=Shape(when={"type": "*agent_result"}),  # Also of several agents.
        cure="export agent.messages",
        looks_readable=True,
    ),
    Refused(
        name="parts of a stream of the AI SDK",
        shape=Shape(when={"0.type": "start"}, lacks=("0.role", "0.content")),
        cure=_EXPORT_MODEL_MESSAGES,
        looks_readable=True,
    ),
    Refused(
        name="parts of a stream of the AI SDK",
        shape=Shape(needs=("0.messageId",), when={"0.type": "step-start"}),
        cure=_EXPORT_MODEL_MESSAGES,
        looks_readable=True,
    ),
    Refused(
        name="steps of the AI SDK",
        shape=Shape(needs=("stepType",)),
        cure=_EXPORT_MODEL_MESSAGES,
    ),
    Refused(
        name="steps of the AI SDK",
        shape=Shape(needs=("0.finishReason", "0.content", "0.response.messages")),
        cure=_EXPORT_MODEL_MESSAGES,
        looks_readable=True,
    ),
    Refused(
        name="intermediate steps of LangChain without the question",
        shape=Shape(needs=("0.tool", "0.tool_input")),
        cure="export the whole result of the AgentExecutor",
    ),
    Refused(
        name="chunks of an AgentExecutor's stream",
        shape=Shape(needs=("actions.0.tool", "messages")),
        cure="export the result of invoke with return_intermediate_steps=True",
    ),
    Refused(
        name="chunks of LangGraph in the mode messages",
        shape=Shape(needs=("1.langgraph_node",)),
        cure=_STREAM_UPDATES,
    ),
    Refused(
        name="chunks of LangGraph in the mode messages",
        shape=Shape(needs=("1.1.langgraph_node",)),  # Of subgraphs.
        cure=_STREAM_UPDATES,
    ),
    Refused(
        name="chunks of LangGraph in the mode debug or checkpoints",
        shape=Shape(needs=("step", "payload")),
        cure=_STREAM_UPDATES,
    ),
    Refused(
        name="chunks of LangGraph in the mode tasks",
        shape=Shape(needs=("triggers", "input")),
        cure=_STREAM_UPDATES,
    ),
    Refused(
        name="events of Inspect",
        shape=Shape(texts=("0.event", "0.uuid"), needs=("0.working_start",)),
        cure="export the whole sample",
        looks_readable=True,
    ),
    Refused(
        name="events of Inspect",
        shape=Shape(texts=("event", "uuid"), needs=("working_start",)),
        cure="export the whole sample",
        looks_readable=True,
    ),
    Refused(
        name="messages of smolagents, whose calls are text",
        shape=Shape(when={"role": "tool-call"}),
        cure="export agent.memory.get_full_steps()",
    ),
    Refused(
        name="a history of AutoGen 0.2 or AG2, which does not say who asked",
        shape=Shape(needs=("tool_responses",)),
        cure=_TRACE_AG2,
    ),
    Refused(
        name="a ChatResult of AutoGen 0.2 or AG2, which does not say who asked",
        shape=Shape(needs=("chat_history", "cost")),
        cure=_TRACE_AG2,
    ),
    Refused(
        name="a ChatResult of AutoGen 0.2 or AG2, which does not say who asked",
        shape=Shape(needs=("chat_history", "human_input")),
        cure=_TRACE_AG2,
    ),
    Refused(
        name="an output of Agno without its messages",
        shape=Shape(texts=("run_id", "session_id", "content_type"), lacks=("messages",)),
        cure="export run_output.to_dict() with its messages",
    ),
    Refused(
        name="a trace of MLflow",
        shape=Shape(needs=("info", "data.spans")),
        cure=_SEND_SPANS,
    ),
    Refused(
        name="events of a stream of Bedrock",
        shape=Shape(needs=("messageStart",)),
        cure="export the messages that you send, and the last message that you make of the events",
    ),
    Refused(
        name="messages of LlamaIndex, which do not say what failed",
        shape=Shape(needs=("blocks.0.block_type",)),
        cure="export the events of the run: [event.model_dump() async for event in "
        "handler.stream_events()]",
    ),
    Refused(
        name="a history of Cohere's API version 1",
        shape=Shape(when={"role": "CHATBOT"}),
        cure=_USE_COHERE_2,
    ),
    Refused(
        name="a history of Cohere's API version 1",
        shape=Shape(texts=("message",), needs=("chat_history",)),
        cure=_USE_COHERE_2,
    ),
    Refused(
        name="a history of Cohere's API version 1",
        shape=Shape(texts=("text",), needs=("chat_history",)),  # The response.
        cure=_USE_COHERE_2,
    ),
    Refused(
        name="a history of Cohere's API version 1",
        shape=Shape(texts=("chat_history.0.message",)),
        cure=_USE_COHERE_2,
    ),
    Refused(
        name="observations of Langfuse",
        shape=Shape(needs=("traceId", "type", "startTime")),
        cure=_SEND_SPANS,
    ),
    Refused(
        name="observations of Langfuse",
        shape=Shape(needs=("data.0.traceId", "data.0.type", "data.0.startTime")),
        cure=_SEND_SPANS,
    ),
    Refused(
        name="observations of Langfuse",
        shape=Shape(needs=("trace_id", "type", "start_time")),
        cure=_SEND_SPANS,
    ),
    Refused(
        name="a trace of Langfuse",
        shape=Shape(needs=("observations", "projectId")),
        cure=_SEND_SPANS,
        looks_readable=True,  # By its input and output.
    ),
    Refused(
        name="a trace of Langfuse",
        shape=Shape(needs=("observations", "htmlPath")),
        cure=_SEND_SPANS,
        looks_readable=True,
    ),
    Refused(
        name="a trace of Langfuse",
        shape=Shape(texts=("observations.0.type",)),
        cure=_SEND_SPANS,
        looks_readable=True,
    ),
)


_LOOKING_READABLE = tuple(refused for refused in _REFUSED if refused.looks_readable)
"""Formats that are refused before a reader tries a history."""


def explain_refused(history: Any) -> str | None:
    """Return what a history is, and what to export instead, if its format is refused by name.

    None if the history has none of the refused formats.
    """
    for part in (history, *open_history(history).messages):
        for refused in _REFUSED:
            if refused.shape.fits(part):
                return f"it is {refused.name}; {refused.cure}"
    return None


def explain_refused_at_sight(history: Any) -> str | None:
    """Return what a history is, and what to export instead, if the history only looks readable.

    Such a history would be read in another format, but without its calls or its answer. None if the
    history does not look like this.
    """
    for refused in _LOOKING_READABLE:
        if refused.shape.fits(history):
            return f"it is {refused.name}; {refused.cure}"
    return None


def layout_of(history: Any) -> Layout | None:
    """Return the first layout of the table that fits a history; None if no layout fits."""
    if not isinstance(history, dict | list):
        return None
    keys = _keys_at_all_levels(history)
    for layout in LAYOUTS:
        # Comparing keys is quick, and excludes most layouts.
        is_possible = any(required <= keys for required in layout.required_keys)
        if is_possible and layout.fits(history):
            return layout
    return None


def _keys_at_all_levels(history: Any) -> set[str]:
    """Return the keys of the objects in a history, down to the deepest level that calls have."""
    keys: set[str] = set()
    containers = [history]
    # Each round reads the objects and lists of one level.
    for _ in range(_LEVELS):
        inner_containers: list[Any] = []
        for container in containers:
            children = container
            if isinstance(container, dict):
                keys.update(container)
                children = container.values()
            inner_containers += [child for child in children if isinstance(child, (dict, list))]
        containers = inner_containers
    return keys


def layout_of_message_in_span(message: Any) -> Layout | None:
    """Return the layout that fits a message in a span; None if no layout fits.

    Messages of OpenTelemetry have parts, and so have those of the AI SDK. So the layout of the AI
    SDK only fits if one of the parts is a call or result of the AI SDK.
    """
    for layout in (_GEMINI, _BEDROCK):
        if layout.fits_message(message):
            return layout
    if _VERCEL.fits_blocks(message):
        return _VERCEL
    return None
