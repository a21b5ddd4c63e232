"""Reward-free exploration algorithms, one file each."""

from horizonfree.explorers.registry import explorers

__all__ = ["explorers"]
