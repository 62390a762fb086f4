"""Reasoning is no part of an answer: it weighs what the answer may be."""

from __future__ import annotations

import pytest

from tests.steps.answer_support import result_of, score_of

# Each weighs Berlin, and answers Paris.
REASONED = {
    "closed": "<think>Berlin or Paris? Paris.</think>\nParis",
    "thinking": "<thinking>Berlin?</thinking>Paris",
    "reasoning": "<reasoning>Berlin?</reasoning>\n\nParis",
    "reflection": "Paris <reflection>Or Berlin?</reflection>",
    "scratchpad": "<scratchpad>Berlin?</scratchpad>Paris",
    "thought": "<thought>Berlin?</thought>Paris",
    "capitals": "<THINK>Berlin?</Think>Paris",
    "namespace": "<seed:think>Berlin?</seed:think>Paris",
    "attribute": '<think effort="high">Berlin?</think >Paris',
    "escaped": "&lt;think&gt;Berlin?&lt;/think&gt;Paris",
    "opened by the prompt": "Berlin? No.\n</think>\n\nParis",
    "two blocks": "<think>Berlin?</think>Hm. <think>Berlin!</think>Paris",
    "nested": "<think>a <think>Berlin</think> Berlin</think> Paris",
    "a tag inside": "<think>I shall write <think> before Berlin</think> Paris",
    "other closing tag": "<reasoning>Berlin?</think>Paris",
    "not closed at a line": "Paris\n<think>\nOr is it Berlin",
    "answer tag": "<think>Berlin?</think><answer>Paris</answer>",
    "answer tag only": "I weigh Berlin. <answer>Paris</answer>",
    "Magistral": "[THINK]Berlin?[/THINK]Paris",
    "Kimi": "◁think▷Berlin?◁/think▷Paris",
    "gpt-oss": (
        "<|channel|>analysis<|message|>Berlin?<|end|><|start|>assistant"
        "<|channel|>final<|message|>Paris<|return|>"
    ),
    "gpt-oss without tokens": "analysisBerlin?assistantfinalParis",
    "Command": "<|START_THINKING|>Berlin?<|END_THINKING|><|START_RESPONSE|>Paris<|END_RESPONSE|>",
    "OpenThinker": (
        "<|begin_of_thought|>Berlin?<|end_of_thought|>\n"
        "<|begin_of_solution|>Paris<|end_of_solution|>"
    ),
    "MedGemma": "<unused94>thought\nBerlin?<unused95>Paris",
    "folded": '<details type="reasoning"><summary>Thought for 3 s</summary>Berlin</details>\nParis',
    "folded by its title": "<details>\n<summary>Thinking</summary>Berlin</details>Paris",
    "fence": "```thinking\nBerlin?\n```\nParis",
    "ReAct": "Thought: It may be Berlin.\nFinal Answer: Paris",
    "bold headings": "**Reasoning:** Berlin?\n\n**Answer:** Paris",
    "headings": "## Reasoning\nBerlin?\n## Answer\nParis",
    "German": "Überlegung: Berlin?\nAntwort: Paris",
    "Chinese": "思考：Berlin？\n答案：Paris",
    "comment": "<!-- Berlin? -->Paris",
    "planning": "<planning>Berlin?</planning>Paris",
    "step by step": "Let's think step by step. Berlin?\nAnswer: Paris",
    "headings without colons": "**Thinking**\n\nBerlin?\n\n**Final Answer**\n\nParis",
    "Phi": "<|im_start|>assistant<|im_sep|><think>Berlin?</think>Paris<|im_end|>",
    "DeepSeek's end": "<think>Berlin?</think>Paris<\uff5cend\u2581of\u2581sentence\uff5c>",
    "internal thoughts": "<internal_thoughts>Berlin?</internal_thoughts>Paris",
    "my thoughts": "<my_thoughts>Berlin?</my_thoughts>Paris",
    "deep thinking": "<deep_thinking>Berlin?</deep_thinking>Paris",
    "thought block": "<thought_block>Berlin?</thought_block>Paris",
    "think aloud": "<think-aloud>Berlin?</think-aloud>Paris",
    "reasoning steps": "<reasoning_steps>Berlin?</reasoning_steps>Paris",
    "step by step tag": "<step_by_step>Berlin?</step_by_step>Paris",
    "critique": "<critique>Berlin?</critique>Paris",
    "brainstorming": "<brainstorming>Berlin?</brainstorming>Paris",
    "Chinese tag": "<思考>Berlin?</思考>Paris",
    "Ollama": "Thinking...\nBerlin?\n...done thinking.\n\nParis",
    "Russian": "Рассуждение: Berlin?\nОтвет: Paris",
    "Japanese brackets": "【思考】Berlin?\n【回答】Paris",
    "let me think": "Let me think. Berlin?\n\nAnswer: Paris",
    "ReAct after the question": (
        "Question: Which city?\nThought: Berlin?\nAction: search\nAction Input: Berlin\n"
        "Observation: Berlin\nThought: I know\nFinal Answer: Paris"
    ),
    "content blocks": (
        '[{"type": "thinking", "thinking": "Berlin?"}, {"type": "text", "text": "Paris"}]'
    ),
    "JSON after a sentence": (
        'Sure:\n```json\n{"reasoning": "Berlin?", "answer": "Paris"}\n```\nDone.'
    ),
    "JSON": '{"reasoning": "Berlin?", "answer": "Paris"}',
    "JSON in a fence": '```json\n{"thought": "Berlin?", "answer": ["Paris"]}\n```',
}


@pytest.mark.parametrize("match", ["contains", "exact", "list", "regex"])
@pytest.mark.parametrize("answer", REASONED.values(), ids=REASONED)
def test_reasoning_does_not_count(match: str, answer: str) -> None:
    assert score_of(match, "Berlin", answer) == 0


@pytest.mark.parametrize("answer", REASONED.values(), ids=REASONED)
def test_the_answer_beside_reasoning_counts(answer: str) -> None:
    assert score_of("contains", "Paris", answer) == 1


def test_numbers_of_reasoning_do_not_count() -> None:
    answer = "<think>5 or 6?</think>6"
    assert [score_of("number", number, answer) for number in ("5", "6")] == [0, 1]


ONLY_REASONING = {
    "not closed": "<think>Berlin or Paris? I think that",
    "closed": "<think>Berlin</think>\n",
    "of gpt-oss": "<|channel|>analysis<|message|>Berlin",
    "fence": "```think\nBerlin",
}


@pytest.mark.parametrize("match", ["contains", "exact", "list", "regex", "number"])
@pytest.mark.parametrize("answer", ONLY_REASONING.values(), ids=ONLY_REASONING)
def test_an_answer_of_nothing_but_reasoning_is_wrong(match: str, answer: str) -> None:
    reference = "5" if match == "number" else "Berlin"
    result = result_of(match, reference, answer)
    assert result["answer_match"] == 0
    assert result["answer_match_reason"] == f"{match}: the answer is nothing but reasoning"
    assert result["actual_answer"] == answer


NOT_REASONING = {
    "quoted": "The tag `<think>` precedes Berlin",
    "mentioned": "It writes <think> and then Berlin",
    "void": "<think/>Berlin",
    "empty": "<think></think>Berlin",
    "no answer after a heading": "Reasoning: it is Berlin",
    "JSON without reasoning": '{"city": "Berlin"}',
    "folded block": "<details><summary>Cities</summary>Berlin</details>",
    "other tag": "<thinker>Berlin</thinker>",
    "content blocks without reasoning": '[{"type": "text", "text": "Berlin"}]',
    "no end of reasoning on a terminal": "Thinking... <b>Berlin</b>",
}


@pytest.mark.parametrize("answer", NOT_REASONING.values(), ids=NOT_REASONING)
def test_other_text_counts(answer: str) -> None:
    assert score_of("contains", "Berlin", answer) == 1


BETWEEN_BLOCKS = {
    "one word": "<think>a</think>Hm <think>b</think>Paris",
    "sentence": "<think>a</think>Perhaps Berlin.\n<think>b</think>\nParis",
    "emphasis": "<think>a</think>Perhaps Berlin. <think>b</think>**Paris**",
    "three blocks": "<think>a</think>x<think>b</think>y<think>c</think>Paris",
}


@pytest.mark.parametrize("answer", BETWEEN_BLOCKS.values(), ids=BETWEEN_BLOCKS)
def test_text_between_blocks_of_reasoning_does_not_count(answer: str) -> None:
    assert score_of("exact", "Paris", answer) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("<think>a</think>Berlin, Bonn <think>b</think>and Rome", id="sentence"),
        pytest.param("<think>a</think>Berlin, Bonn<think>b</think>, Rome", id="comma"),
        pytest.param("Berlin, Bonn <think>a</think>Rome", id="before the first block"),
        pytest.param("<think>a</think>Berlin, Bonn, Rome<think>b</think>", id="nothing after"),
    ],
)
def test_text_around_a_block_of_reasoning_counts(answer: str) -> None:
    assert score_of("contains", "Berlin", answer) == 1


def test_results_keep_the_whole_answer() -> None:
    answer = REASONED["closed"]
    assert result_of("exact", "Paris", answer)["actual_answer"] == answer


def test_an_answer_after_long_reasoning_counts() -> None:
    assert score_of("exact", "Paris", f"<think>{'Berlin ' * 50_000}</think>Paris") == 1
