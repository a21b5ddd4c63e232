"""The reward playground in the browser."""

from horizonfree.web.server import app, say_where, serve

__all__ = ["app", "say_where", "serve"]
