"""The reward playground: paint a reward in the browser, see the plan and what is proved of it."""

from horizonfree.web.server import app, say_where, serve

__all__ = ["app", "say_where", "serve"]
