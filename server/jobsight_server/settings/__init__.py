"""Settings of the server: their declarations (``declared``), and the sources of their values (``load``)."""
