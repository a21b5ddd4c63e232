"""The reward playground: paint a reward in the browser, see the plan and what is proved of it."""

from horizonfree.web.server import app, serve

__all__ = ["app", "serve"]
