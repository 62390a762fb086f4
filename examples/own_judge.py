"""Let a judge of your own, here a toy without a model, compare answers with reference answers.

python examples/own_judge.py
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphrag_eval_async import TokenUsage, evaluate_stream

EXAMPLES = Path(__file__).parent


class WordJudge:
    """Stands for your model: takes each number and each capitalised word of an answer for a claim.

    It has the two methods of the protocol `graphrag_eval_async.Judge`, and a name that results give
    it.
    """

    model = "words-1"

    async def complete(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage | None]:
        """Reply to the one conversation that answer correctness has, by its schema."""
        if "reference_claims" not in schema["properties"]:
            raise NotImplementedError(schema["title"])
        reference, actual = (
            _words(messages[-1]["content"], name) for name in ("reference_answer", "actual_answer")
        )
        common = [word for word in reference if word in actual]
        reply = {
            "reference_claims": reference or ["nothing"],
            "actual_claims": actual,
            "reason": f"in common: {', '.join(common) or 'nothing'}",
            "matches": [
                {"reference": reference.index(w), "actual": actual.index(w)} for w in common
            ],
        }
        return reply, TokenUsage(input_tokens=sum(len(m["content"]) // 4 for m in messages))

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], TokenUsage | None]:
        """Not needed for answer correctness."""
        raise NotImplementedError


def _words(message: str, block: str) -> list[str]:
    """The distinct words of a block of data, which stands between ``<name ...>`` and ``</name
    ...>``.
    """
    [(_, data)] = re.findall(rf"<{block} (\w+)>\n(.*)\n</{block} \1>", message, re.DOTALL)
    return list(dict.fromkeys(re.findall(r"\d[\d.]*|[A-Z]\w*", data)))


async def main() -> None:
    stream = evaluate_stream(
        EXAMPLES / "reference.yaml", EXAMPLES / "responses.jsonl", judge=WordJudge()
    )
    async with stream:
        async for result in stream:
            if "answer_f1" in result:
                print(f"{result['question_id']}: F1 {result['answer_f1']:.2f}")
    print(f"{stream.usage.calls} calls, {stream.usage.input_tokens} tokens")


if __name__ == "__main__":
    asyncio.run(main())
