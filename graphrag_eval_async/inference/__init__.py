"""Concluding from aggregates: intervals, comparisons and decisions."""
