"""The web page: a JSON API, a stream of changes, and the assets of the page."""
