"""The reward playground in the browser."""

from horizonfree.web.server import app, print_address, serve

__all__ = ["app", "print_address", "serve"]
