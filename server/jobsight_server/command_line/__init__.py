"""What commands share: arguments, help, and simulations with progress that can be interrupted."""
