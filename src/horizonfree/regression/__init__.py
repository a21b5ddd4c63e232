"""The estimators of the papers: ridge regressions, weights and radii, optimistic values, the oracle, the theory."""
