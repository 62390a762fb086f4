"""Exports results to monitoring systems: Prometheus and OpenTelemetry."""
