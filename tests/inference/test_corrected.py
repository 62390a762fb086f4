"""How often the interval of a corrected mean contains the true mean, on answers with human verdicts."""

from __future__ import annotations

from statistics import fmean, stdev

import numpy as np
import pytest

from graphrag_eval_async.inference.calibration import Pair, corrected_mean
from graphrag_eval_async.inference.labels import Score
from graphrag_eval_async.inference.one_look import student_quantile
from tests.inference.labelled import judged_answers


@pytest.mark.parametrize("draws", [100, pytest.param(3000, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("labels", "results"), [(100, 150), (100, 300), (100, 1000), (100, 5000), (300, 5000)]
)
def test_coverage(labels: int, results: int, draws: int) -> None:
    answers = [(each["answer_f1"], float(right)) for each, right in judged_answers()]
    truth = fmean(right for _, right in answers)
    random = np.random.default_rng(labels + results)
    margin = student_quantile(0.975, labels - 1) / labels**0.5
    covered, widths, errors, plain, plain_widths = 0, [], [], 0, []
    for _ in range(draws):
        chosen = [answers[i] for i in random.integers(len(answers), size=results)]
        scores = [Score(str(i), 1, "t", "", score) for i, (score, _) in enumerate(chosen)]
        pairs = [Pair(score, right) for score, (_, right) in zip(scores[:labels], chosen, strict=False)]
        found = corrected_mean(pairs, scores, 0.95)
        interval = found["interval"]
        covered += interval["low"] <= truth <= interval["high"]
        widths.append(interval["high"] - interval["low"])
        errors.append(found["mean"] - truth)
        half = margin * stdev(pair.label for pair in pairs)
        plain += abs(fmean(pair.label for pair in pairs) - truth) <= half
        plain_widths.append(2 * half)
    print(  # noqa: T201
        f"{labels} labels of {results}: {covered / draws:.4f}, width {fmean(widths):.3f}, "
        f"bias {fmean(errors):+.4f}; labels alone: {plain / draws:.4f}, width {fmean(plain_widths):.3f}"
    )
    assert covered / draws >= (0.925 if draws > 1000 else 0.86)
    assert abs(fmean(errors)) < 0.005 + 3 * stdev(errors) / draws**0.5
    assert fmean(widths) < 1.01 * fmean(plain_widths)
