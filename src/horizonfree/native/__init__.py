"""Loops in C, called from compiled programs and from NumPy; optional."""
