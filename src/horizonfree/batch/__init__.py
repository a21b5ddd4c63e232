"""Many explorations at once: over seeds, over problems of one shape, over one number of an explorer."""

from horizonfree.batch.explore import Batch, explore_many

__all__ = ["Batch", "explore_many"]
