"""The HTTP front of both ports: reads requests without waiting for any client, and hands whole ones to WSGI."""
