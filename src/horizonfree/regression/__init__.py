"""The estimators of the papers: ridge regressions, their weights and radii, optimistic values, the oracle, the theory."""
