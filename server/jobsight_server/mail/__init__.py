"""The weekly mail: to users about memory that they leave unused, to administrators about what is wrong now."""
