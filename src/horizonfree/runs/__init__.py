"""Exploring, resuming, storing; plans and certificates of a run."""
