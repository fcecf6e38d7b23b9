"""How good forecasts and bounds are: replays of a workload, scores, baselines, cost."""
