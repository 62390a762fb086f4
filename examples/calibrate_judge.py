"""Correct the mean of a judge that is too strict, with labels of 120 answers.

Results and labels are made up here. Yours come from `evaluate` and from people.
"""

from random import Random

from graphrag_eval_async import calibrate

random = Random(7)
results, verdicts = [], {}
for number in range(1000):
    is_right = random.random() < 0.8
    found = is_right and random.random() < 0.75  # The judge misses a quarter of the right answers.
    results.append({"template_id": "t", "question_id": f"q{number}", "answer_f1": float(found)})
    verdicts[f"q{number}"] = is_right

drawn = random.sample(sorted(verdicts), 120)
labels = [{"question_id": name, "metric": "answer_f1", "value": verdicts[name]} for name in drawn]
row = calibrate(results, labels, chosen_at_random=True)["overall"]

print(f"agreement {row['agreement']:.2f}, kappa {row['kappa']:.2f}")
print(
    f"sensitivity {row['sensitivity']:.2f}, specificity {row['specificity']:.2f}, bias "
    f"{row['bias']:+.2f}"
)
print(f"mean of the judge {row['mean_score']:.3f}")
interval = row["corrected"]["interval"]
print(
    f"corrected {row['corrected']['mean']:.3f}, from {interval['low']:.3f} to "
    f"{interval['high']:.3f}"
)
print(f"truth {sum(verdicts.values()) / len(verdicts):.3f}")
