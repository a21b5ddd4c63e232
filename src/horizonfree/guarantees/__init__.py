"""What all model classes share: certificates, divergences, e-processes."""
