"""The HTTP front end of both ports: it never waits for a client, and passes complete requests to WSGI."""
