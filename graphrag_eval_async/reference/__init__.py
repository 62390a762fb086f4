"""The reference set: questions with their answers and steps, read and checked once."""

from graphrag_eval_async.reference.set import (
    KEPT_BYTES,
    NoReference,
    Prepared,
    PreparedSteps,
    Reference,
    StepNames,
    Templates,
    check_outputs,
    idle_comparators,
    load_reference,
    misnamed_steps,
)

__all__ = [
    "KEPT_BYTES",
    "NoReference",
    "Prepared",
    "PreparedSteps",
    "Reference",
    "StepNames",
    "Templates",
    "check_outputs",
    "idle_comparators",
    "load_reference",
    "misnamed_steps",
]
