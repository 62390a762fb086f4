"""Facts about a run and its judge as pairs of a name and a text, for pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.text import counts, dollars

if TYPE_CHECKING:
    from collections.abc import Mapping


def run_facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How far the run is."""
    told = [("results", str(facts["overall"]["samples"]["total"]))]
    if facts.get("results_per_sec") is not None:
        told.append(("results per second", f"{facts['results_per_sec']:.1f}"))
        told.append(("in flight", str(facts["in_flight"])))
    if (lag := facts.get("lag")) is not None:
        told.append(("behind", f"{lag['bytes']} bytes, {lag['seconds']:.0f} s"))
    if (backlog := facts.get("backlog")) is not None:
        told += backlog_facts(backlog)
    told.append(("rejected lines", counts(facts["rejects"]) or "none"))
    if facts["questions"]:
        told.append(("questions without a response", f"{facts['missing']} of {facts['questions']}"))
    if facts.get("skipped"):
        told.append(("skipped as done", str(facts["skipped"])))
    if facts.get("journal") is not None:
        told.append(("restored", str(facts["journal"]["restored"])))
    told += [("not there yet", path) for path in facts.get("not_found", ())]
    return told


def backlog_facts(backlog: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How far the workers of a group are."""
    unread = "not known" if backlog["unread"] is None else str(backlog["unread"])
    told = [("workers", str(backlog["workers"])), ("waiting", unread)]
    return told + ([("lost", str(backlog["lost"]))] if backlog["lost"] else [])


def judge_facts(judge: Mapping[str, Any] | None, *, restored: bool = False) -> list[tuple[str, str]]:
    """What the judge did so far; nothing without a judge. `restored` says that earlier runs used it, too."""
    if judge is None:
        return []
    budget = "" if judge.get("budget_usd") is None else f" of {dollars(judge['budget_usd'])}"
    most = f" of {judge['max_concurrency']}" if judge.get("max_concurrency") else ""
    told = [
        ("model", str(judge.get("model") or "")),
        ("calls", str(judge["calls"])),
        ("requests", str(judge["attempts"])),
        ("cached", str(judge["cache_hits"])),
        ("spent in all runs" if restored else "spent", dollars(judge["dollars"]) + budget),
        ("tokens", f"{judge['input_tokens']} in, {judge['output_tokens']} out"),
        ("concurrency", f"{judge['concurrency']}{most}"),
        ("waiting", str(judge["waiting"])),
        ("retries", counts(judge["retries"]) or "none"),
        ("failed metrics", counts(judge["errors"]) or "none"),
    ]
    if judge["paused_sec"]:
        told.append(("paused for", f"{judge['paused_sec']:.0f} s"))
    if restored:
        told.append(("all but the costs", "since the restart"))
    return [each for each in told if each[1]]


def agreement_facts(agreement: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """How far several judges agree, by metric."""
    told = []
    for metric, each in (agreement or {}).items():
        alpha = each.get("krippendorff_alpha")
        told.append((metric, "no variation" if alpha is None else f"Krippendorff's alpha {alpha:.3f}"))
    return told
