"""Finite decision processes: the space they live in, kernels, episodes, rewards."""
