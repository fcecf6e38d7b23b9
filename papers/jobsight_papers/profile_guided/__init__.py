"""The five published forecasts over single users and over a campaign (README.md)."""
