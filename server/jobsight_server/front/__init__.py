"""The HTTP front end of both ports: reads requests without waiting for any client, and passes complete ones to WSGI."""
