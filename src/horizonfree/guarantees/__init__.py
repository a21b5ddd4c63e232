"""What all classes of models share: certificates and their words, the divergence of trajectories, bets."""
