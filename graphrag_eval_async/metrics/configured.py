"""Which metrics a configuration asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.metrics.answer_correctness import answer_correctness
from graphrag_eval_async.metrics.answer_relevance import answer_relevance
from graphrag_eval_async.metrics.custom import custom_evaluation
from graphrag_eval_async.metrics.ragas_answer_correctness import ragas_answer_correctness
from graphrag_eval_async.metrics.ragas_bridge import load_ragas, require_ragas
from graphrag_eval_async.metrics.retrieval import retrieval_answer, retrieval_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.metrics.evaluation import Metric

METRICS: dict[str, Callable[[Any], Metric]] = {
    "answer_correctness": answer_correctness,
    "answer_relevance": answer_relevance,
    "retrieval_answer": retrieval_answer,
    "retrieval_context": retrieval_context,
    "ragas_answer_correctness": ragas_answer_correctness,
}
"""What makes a metric of its section, by the section's name."""

OF_RAGAS = [name for name in METRICS if name != "answer_correctness"]


def metrics_on(config: Config) -> bool:
    """Whether any metric is judged."""
    return bool(config.custom_evaluations) or any(getattr(config, name) is not None for name in METRICS)


def configured(config: Config) -> list[Metric]:
    """The metrics that are on, in the order in which results show them.

    Raises:
        ConfigError: one needs a package that is not installed.
    """
    for name in _needing_ragas(config):
        require_ragas(name)
    sections = {name: getattr(config, name) for name in METRICS}
    metrics = [METRICS[name](section) for name, section in sections.items() if section is not None]
    return [*metrics, *map(custom_evaluation, config.custom_evaluations)]


def loader(config: Config) -> Callable[[], None]:
    """What imports all that the metrics need."""
    return load_ragas if _needing_ragas(config) else lambda: None


def _needing_ragas(config: Config) -> list[str]:
    return [name for name in OF_RAGAS if getattr(config, name) is not None]
