"""The five published forecasts over single users and over a campaign (docs/profile-guided.md)."""
