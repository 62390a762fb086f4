"""Messages of any framework: who speaks, what is said, which tools are called and what they returned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from graphrag_eval_async.records.outputs import unwrapped
from graphrag_eval_async.traces.plain import block_text, dict_at, first, said, text_of

_ROLES = {
    **dict.fromkeys(("user", "human", "HumanMessage"), "user"),
    **dict.fromkeys(("assistant", "ai", "AIMessage", "AIMessageChunk", "model", "response"), "assistant"),
    **dict.fromkeys(("tool", "function", "ToolMessage", "FunctionMessage"), "tool"),
    **dict.fromkeys(("system", "SystemMessage", "developer", "remove", "RemoveMessage"), "system"),
    **dict.fromkeys(("chat", "ChatMessage"), "system"),
    "request": "request",
}
ROLES = frozenset({"user", "assistant", "tool", "system"})

_OF_CLIENT = frozenset({"tool_call", "tool_use", "tool-call"})
_OF_SERVER = frozenset({"server_tool_use", "mcp_tool_use", "server_tool_call", "builtin-tool-call"})
_CALLS = _OF_CLIENT | _OF_SERVER
_RESULTS = ("tool_result", "tool_call_response", "tool-return")

Problem = Callable[[str], None]


@dataclass(slots=True, eq=False)
class Call:
    """One call of a tool, or a result alone.

    Attributes:
        name: of the tool; None if it has none.
        id: text or an integer, which are different ids, as in JSON-RPC; None if it has none.
        args: JSON, or text that is no JSON object; None of a result alone.
        output: text, or of a span any JSON; None as long as there is none.
        failed: None if the trace does not say.
        ended: whether its result is there.
        turn: number of the user's message that it follows.
        is_new: whether the span that tells of it is about its making, rather than passes it on.
    """

    name: str | None
    id: str | int | None = None
    args: Any = None
    output: Any = None
    failed: bool | None = None
    ended: bool = False
    turn: int = 0
    is_new: bool = False

    @classmethod
    def returned(cls, name: Any, id: Any, output: Any, failed: bool | None = None) -> Self:  # noqa: A002
        """A result alone."""
        return cls(name_of(name), id_of(id), None, text_of(output), failed, ended=True)

    @property
    def label(self) -> str:
        """Its name and id, for a problem."""
        return " ".join(str(each) for each in (self.name, self.id) if each not in (None, "")) or "a call"

    def end(self, output: Any, *, failed: bool | None = None) -> None:
        """Give it its result."""
        self.output, self.failed, self.ended = text_of(output), failed, True

    def take(self, result: Call) -> None:
        """Give it the result of another."""
        self.output, self.failed, self.ended = result.output, result.failed, True


def id_of(value: Any) -> str | int | None:
    return value if type(value) in (str, int) or value is None else str(value)


def name_of(value: Any) -> str | None:
    return value if isinstance(value, str) or value is None else str(value)


@dataclass(slots=True, eq=False)
class Message:
    """One message of a history.

    Attributes:
        role: "user", "assistant", "tool", "system" or another.
        text: what is said after the last call and result.
        parts: calls, and results, which have ended, in their order.
        waits: whether the agent goes on when results of its calls have come.
        shows: whether a part is neither text nor of a call, such as an image.
        is_new: whether the span that carries it is about its making, rather than passes it on.
    """

    role: str
    text: str = ""
    parts: list[Call] = field(default_factory=list)
    waits: bool = False
    shows: bool = False
    is_new: bool = False

    @property
    def asks(self) -> bool:
        """Whether the user speaks; what stands beside results is what a tool shows."""
        return self.role == "user" and not self.parts

    @property
    def answers(self) -> bool:
        """Whether the agent says something, and waits for nothing."""
        return self.role == "assistant" and not self.waits and bool(self.text)


def opened_message(value: dict[str, Any]) -> dict[str, Any]:
    """A message without the envelope of LangChain, of a choice or of an item of a `RunState`."""
    if "role" in value:
        return value
    for key in ("data", "kwargs", "message", "raw_item"):
        if isinstance(inner := value.get(key), dict):
            names = value.get("id")
            kind = names[-1] if isinstance(names, list) and names else value.get("type")
            return {"type": kind} | inner
    return value


def is_message(value: dict[str, Any]) -> bool:
    """Whether an item of a history is a message, with or without an envelope."""
    kind = value.get("type")
    if "role" in value or "parts" in value or "lc" in value or (isinstance(kind, str) and kind in _ROLES):
        return True
    return isinstance(value.get("message"), dict)


def role_of(message: dict[str, Any], default: str = "") -> str:
    """The role of a message without an envelope, as `_ROLES` has it."""
    for key in ("type", "role", "kind"):
        found = message.get(key)
        if isinstance(found, str) and (found in _ROLES or key == "role"):
            return _ROLES.get(found, found)
    return _ROLES.get(default, default)


def message_of(value: dict[str, Any], problem: Problem, role: str = "") -> Message:
    """Read a message without an envelope in any of its forms; its role is as given if it names none."""
    message = Message(role_of(value, role))
    content = value.get("content")
    if isinstance(content, str) and message.role == "user" and "parts" not in value:  # As most are.
        message.text = content
        return message
    blocks = first(value, "parts", "blocks")
    content = blocks if isinstance(blocks, list) and blocks else content
    if (message.role == "tool" and "parts" not in value) or "tool_call_id" in value:
        key = first(value, "tool_call_id") or dict_at(value, "additional_kwargs").get("tool_call_id")
        message.parts.append(_returned(value, key, output_of(value | {"content": content})))
    elif isinstance(content, list):
        _read_blocks(content, message, problem)
    else:
        message.text = said(content if content is not None else value.get("refusal"))
    if message.role == "assistant" or "tool_calls" in value:
        _read_calls(value, message, problem)
    return message


def _read_calls(value: dict[str, Any], message: Message, problem: Problem) -> None:
    """Calls that stand beside the content, where some formats repeat them."""
    calls: list[Any] = []
    for holder, key in (
        (value, "tool_calls"),
        (value, "invalid_tool_calls"),
        (dict_at(value, "additional_kwargs"), "tool_calls"),  # As the provider sent them.
    ):
        if key in holder and not (calls and holder is not value):
            if isinstance(found := holder[key], list):
                calls += found
            elif found:
                problem(f"calls that are no list: {text_of(found)}")
    if old := value.get("function_call"):
        calls.append({"function": old})
    told = [_called(call, problem) for call in calls]
    if made := [call for call in told if call is not None]:
        ids = {call.id for call in made}
        message.parts = [part for part in message.parts if part.ended or part.id not in ids] + made
        message.waits = True


def _called(call: Any, problem: Problem) -> Call | None:
    """A call as OpenAI, LangChain or OpenInference write it beside the content."""
    if not isinstance(call, dict):
        problem(f"a call that is no object: {text_of(call)}")
        return None
    call = call["tool_call"] if isinstance(call.get("tool_call"), dict) else call
    if isinstance(custom := call.get("custom"), dict):
        call = call | {"name": custom.get("name"), "args": {"input": custom.get("input")}}
    elif isinstance(function := call.get("function"), dict):
        call = call | function
    return Call(name_of(call.get("name")), id_of(call.get("id")), first(call, "arguments", "args"))


def _read_blocks(blocks: list[Any], message: Message, problem: Problem) -> None:
    texts: list[str] = []
    asks = message.role != "request"
    for block in blocks:
        if isinstance(block, str):
            texts.append(block)
            continue
        if not isinstance(block, dict):
            if block is not None:
                problem(f"a part of a message that is no object: {text_of(block)}")
            continue
        kind = str(first(block, "type", "block_type", "part_kind"))
        key, name = first(block, "tool_call_id", "tool_use_id", "id"), first(block, "name", "tool_name")
        if kind in _CALLS:
            args = first(block, "arguments", "input", "args", "tool_kwargs", "server_tool_call")
            message.parts.append(Call(name_of(name), id_of(key), args))
            message.waits |= kind in _OF_CLIENT
        elif kind.endswith(_RESULTS) or (kind == "retry-prompt" and name is not None):
            output = first(block, "response", "result", "server_tool_call_response", "content")
            message.parts.append(_returned(block, key, output))
        else:
            text = block_text(block)
            message.shows |= text is None and "part_kind" not in block
            asks |= kind == "user-prompt"
            texts += [text] if text else []
            continue
        texts.clear()
    message.text = "\n".join(texts)
    if message.role == "request":  # Of Pydantic AI, which also sends what the user did not say.
        message.role = "user" if asks else "system"


def _returned(value: dict[str, Any], key: Any, output: Any) -> Call:
    """A result; whether it failed is said by a mark, a status, or an error code in place of the output."""
    failed, status = value.get("is_error"), first(value, "outcome", "status")
    if value.get("part_kind") == "retry-prompt":
        failed = True
    elif not isinstance(failed, bool):
        failed = status != "success" if isinstance(status, str) else None
    if isinstance(output, dict) and output.get("error_code") is not None:  # Of servers of Anthropic.
        output, failed = output["error_code"], True
    return Call.returned(first(value, "name", "tool_name"), key, output, failed)


def tool_message(value: Any) -> dict[str, Any] | None:
    """The message of a tool that a tool of LangChain returned, also in a `Command`; None if it is none."""
    update = value.get("update") if isinstance(value, dict) else None
    messages = update.get("messages") if isinstance(update, dict) else None
    for each in messages if isinstance(messages, list) else [value]:
        if isinstance(each, dict) and "tool_call_id" in (message := opened_message(each)):
            return message
    return None


def output_of(message: dict[str, Any]) -> Any:
    """What a tool of LangChain returned: the content, or the artifact if only that has rows."""
    content, artifact = message.get("content"), message.get("artifact")
    is_better = artifact is not None and _has_rows(artifact) and not _has_rows(content)
    return documents_of(artifact) if is_better else content


def _has_rows(value: Any) -> bool:
    """Whether a value is results of SPARQL or a list of objects, in whichever form they are read."""
    value = unwrapped(text_of(value) if isinstance(value, list) else value)
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, dict) for each in value)
    return isinstance(value, dict) and "head" in value


def documents_of(output: Any) -> Any:
    """Documents of LangChain as `retrieval` steps have them, with `id` and `text`; all else as it is."""
    listed = output if isinstance(output, list) else []
    documents = [dict_at(each, "kwargs") or each for each in listed if isinstance(each, dict)]
    found = [
        {"id": each.get("id"), "text": each["page_content"], "metadata": each.get("metadata")}
        for each in documents
        if "page_content" in each
    ]
    return found if found and len(found) == len(listed) else output
