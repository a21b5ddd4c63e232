"""Grids of explorations from one file, local or on a cluster."""
