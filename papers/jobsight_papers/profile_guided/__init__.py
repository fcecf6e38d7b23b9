"""The five published forecasts over single users and over a campaign (docs/papers/profile-guided.md)."""
