"""Messages and spans of agent frameworks as responses; none of the frameworks is imported."""
