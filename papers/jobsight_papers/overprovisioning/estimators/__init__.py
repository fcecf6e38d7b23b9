"""Estimators of a job's memory, learned from feedback (Yom-Tov and Aridor 2006, Table 1)."""
