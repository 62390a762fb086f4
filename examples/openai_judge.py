"""Judge answers with a client of your own; a tracer may wrap it.

python examples/openai_judge.py

Needs OPENAI_API_KEY, or a server with the OpenAI protocol at OPENAI_BASE_URL.
"""

import asyncio
from pathlib import Path

from openai import AsyncOpenAI

from graphrag_eval_async import OpenAIJudge, evaluate_stream, load_reference, read_jsonl

EXAMPLES = Path(__file__).parent


async def main() -> None:
    reference = load_reference(EXAMPLES / "reference.yaml")
    responses = read_jsonl(EXAMPLES / "responses.jsonl")
    # Without retries of the client, limits and prices see each attempt.
    async with AsyncOpenAI(max_retries=0) as client:
        judge = OpenAIJudge(client, model="gpt-4o-mini")
        async with evaluate_stream(reference, responses, judge=judge) as stream:
            async for result in stream:
                print(result["question_id"], result.get("answer_f1"))
        print(f"{stream.usage.attempts} requests, {stream.usage.dollars:.4f} US dollars")


if __name__ == "__main__":
    asyncio.run(main())
