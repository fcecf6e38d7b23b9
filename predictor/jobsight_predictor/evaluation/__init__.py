"""Evaluation of forecasts and bounds: replays of a workload, scores, baselines, cost."""
