"""A fourth model class: the kernel is known, and there is nothing to learn. One folder and one line in the registry."""
