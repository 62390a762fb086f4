"""Cohere's API version 2: messages of the types of its SDK."""

from __future__ import annotations

import json

from cohere import (
    AssistantChatMessageV2,
    AssistantMessageResponse,
    Document,
    DocumentToolContent,
    TextAssistantMessageResponseContentItem,
    ToolCallV2,
    ToolCallV2Function,
    ToolChatMessageV2,
    UserChatMessageV2,
    V2ChatResponse,
)

from tests.traces.frameworks.recorders.scenario import CALLS, Recording, framework
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS


async def record() -> list[Recording]:
    """Return the recorded histories."""
    calls = [
        ToolCallV2(
            id=id_,
            type="function",
            function=ToolCallV2Function(name=name, arguments=json.dumps(args)),
        )
        for id_, name, args in CALLS
    ]
    messages = [
        UserChatMessageV2(content=QUESTION),
        AssistantChatMessageV2(tool_calls=calls, tool_plan="I will run both tools."),
        ToolChatMessageV2(
            tool_call_id="call_1",
            content=[DocumentToolContent(document=Document(data=json.loads(RESULTS)))],
        ),
        ToolChatMessageV2(tool_call_id="call_2", content=PROBLEM),
        AssistantChatMessageV2(content=ANSWER),
    ]
    dumped = [json.loads(message.json()) for message in messages]
    answer = V2ChatResponse(
        id="1",
        finish_reason="COMPLETE",
        message=AssistantMessageResponse(
            content=[TextAssistantMessageResponseContentItem(text=ANSWER)]
        ),
    )
    answered = {"messages": dumped[:-1], "response": json.loads(answer.json())}
    name = framework("cohere")
    return [
        Recording(name, "openai", "messages of Cohere's API 2", dumped),
        Recording(name, "openai", "messages of Cohere's API 2 and its response", answered),
    ]
