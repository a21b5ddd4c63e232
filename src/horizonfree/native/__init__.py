"""Loops in C for what XLA or NumPy do several times slower: one shared library, optional."""
