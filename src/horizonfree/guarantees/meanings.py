"""What the numbers of a certificate mean, in a few words each; docs/certificates.md defines them."""

MEANINGS = {
    "gap": "what a plan loses at most, for every reward",
    "delta": "the probability that this is wrong, at most",
    "slack": "how much less likely than the best fit, in logarithms, a parameter may make the data",
    "start": "the bet counts the episodes after this one",
    "episodes": "episodes explored",
    "free": "directions in which the parameter is unknown",
    "seen": "of these, the ones of which the episodes of the bet say something",
    "kappa": "how far (KL) trajectories can diverge from those of the estimate, under any policy",
    "hit": "the probability to come where too little is known, under any policy",
    "attained": "of kappa, what some parameter that the data allow attains",
    "hinge": "the gap by how much less likely than under the estimate a parameter can make trajectories, on average",
    "rewards": "how many rewards were planned for",
    "worst": "which of them has the largest gap, counted from 0",
    "median": "the median of their gaps",
    "V_hat": "the explorer's own uncertainty, when it was smallest",
    "four_V_hat": "the gap, if the explorer's search were exact",
    "relaxed": "a bound above the explorer's own uncertainty, without a search",
    "ball_ratio": "how far the estimate is from the centres of its confidence balls, in radii",
    "episode": "the episode whose estimate is planned with",
    "V": "optimistic value of the explorer's last policy for its own reward",
}
