"""What the API and the pages answer, read from the database."""
