"""Time slots in a plan: offered, confirmed and watched, with the probability that jobs succeed there."""
