"""What commands share: arguments, help, progress and worker processes."""
