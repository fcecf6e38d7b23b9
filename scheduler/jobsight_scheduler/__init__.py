"""Places jobs: policies and the simulator that tests them."""
