"""Model classes: what a learner may know, and confidence sets."""
