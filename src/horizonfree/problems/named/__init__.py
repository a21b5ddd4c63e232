"""The named problems, by kind: importing a file registers its problems."""
