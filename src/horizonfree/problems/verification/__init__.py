"""Models of probabilistic verification: PRISM and JANI, explicit files, bounded properties."""
