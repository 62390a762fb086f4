"""The one list of metrics, outcomes, media types, conditions and tags, from which all else
follows.
"""
