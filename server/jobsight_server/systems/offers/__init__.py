"""Places in a plan: offered, confirmed, watched; and how likely jobs succeed there."""
