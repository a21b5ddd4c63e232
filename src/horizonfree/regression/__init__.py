"""The papers' estimators: ridge regression, radii, oracle, theory."""
