"""Many explorations at once: seeds, problems, options."""

from horizonfree.batch.explore import Batch, explore_many

__all__ = ["Batch", "explore_many"]
