"""Algorithms that choose what to try next. `interface` says what one is, `loop` runs it, `registry` names them."""

from horizonfree.explorers.registry import explorers

__all__ = ["explorers"]
