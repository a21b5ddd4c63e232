"""Ridge regression, HOME, radii and projections of the papers; compiled."""
