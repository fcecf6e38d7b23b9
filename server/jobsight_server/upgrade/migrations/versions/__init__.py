"""One module for each release whose databases are upgraded."""
