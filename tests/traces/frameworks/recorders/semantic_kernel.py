"""Semantic Kernel: the history of a chat with functions that the kernel calls."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.prompt_execution_settings import PromptExecutionSettings
from semantic_kernel.contents import ChatHistory, ChatMessageContent, FunctionCallContent
from semantic_kernel.functions import kernel_function

from tests.traces.frameworks.recorders.scenario import CALLS, Recording, framework
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS


class Scripted(ChatCompletionClientBase):
    """Calls both functions, then answers."""

    SUPPORTS_FUNCTION_CALLING: ClassVar[bool] = True
    turn: int = 0

    def _update_function_choice_settings_callback(self) -> Any:
        return lambda *_, **__: None

    def _reset_function_choice_settings(self, settings: Any) -> None: ...

    async def _inner_get_chat_message_contents(self, *_: Any, **__: Any) -> Any:
        self.turn += 1
        if self.turn > 1:
            return [ChatMessageContent(role="assistant", content=ANSWER)]
        items: Any = [
            FunctionCallContent(id=id_, name=f"grid-{name}", arguments=json.dumps(args))
            for id_, name, args in CALLS
        ]
        return [ChatMessageContent(role="assistant", items=items)]


class Tools:
    """The functions of the scenario."""

    @kernel_function
    def sparql_query(self, query: str) -> str:
        """Run a query."""
        return RESULTS

    @kernel_function
    def retrieval_search(self, text: str, k: int) -> str:
        """Search texts."""
        return PROBLEM  # What a function raises, the kernel tells the model as text, too.


async def record() -> list[Recording]:
    """Return the recorded histories."""
    kernel = Kernel()
    for function in (Tools().sparql_query, Tools().retrieval_search):
        kernel.add_function(plugin_name="grid", function=function)
    history = ChatHistory()
    history.add_user_message(QUESTION)
    service = Scripted(ai_model_id="scripted")
    settings = PromptExecutionSettings(function_choice_behavior=FunctionChoiceBehavior.Auto())
    [answer] = await service.get_chat_message_contents(history, settings, kernel=kernel)
    history.add_message(answer)
    whole = json.loads(history.serialize())
    return [Recording(framework("semantic-kernel"), "semantic-kernel", "chat history", whole)]
