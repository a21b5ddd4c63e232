"""Gymnasium in both directions: tables, problems from environments, environments from problems, live episodes."""
