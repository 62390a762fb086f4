"""Text for people, late patterns, waiting for threads, durations, and what needs POSIX."""
