"""The fast path: the same mathematics as the plain one, each part behind a switch."""
