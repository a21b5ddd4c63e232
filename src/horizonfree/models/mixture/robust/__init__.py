"""Certificates for a system whose transition laws are within a declared radius of one parameter: docs/robust.md."""
