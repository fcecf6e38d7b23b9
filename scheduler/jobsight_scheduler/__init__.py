"""Job placement: policies, and the simulator that tests them."""
