"""Inference from aggregates: intervals, comparisons and decisions."""
