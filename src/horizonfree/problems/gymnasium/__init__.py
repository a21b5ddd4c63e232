"""Problems from Gymnasium environments, environments from problems, and episodes of real environments."""
