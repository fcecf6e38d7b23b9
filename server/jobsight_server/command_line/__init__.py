"""What commands share: arguments, help, and a simulation with progress that can be interrupted."""
