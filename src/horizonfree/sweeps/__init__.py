"""Sweeps: thousands of explorations from one file, on this machine or on a cluster."""
