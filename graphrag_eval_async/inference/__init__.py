"""What can be concluded from aggregates: intervals, comparisons and decisions."""
