"""What is kept, and how it is opened, upgraded and read."""
