"""Shows a run in browsers, reports and monitoring systems, through the public API."""
