"""A thin HTTP/1.1 client for one server.

A scheduler that binds hundreds of pods per second spends most of its time in its HTTP client, so this one
does what an API server needs and no more: keep-alive connections, one write per request, answers read whole
or, for watches, line by line.
"""
