"""Model classes and their confidence sets."""
