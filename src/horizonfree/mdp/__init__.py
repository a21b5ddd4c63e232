"""Finite MDPs: spaces, kernels, policies, episodes, rewards."""
