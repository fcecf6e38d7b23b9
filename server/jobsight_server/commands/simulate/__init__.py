"""``jobsight simulate``: one machine, several clusters, or nodes that differ in memory."""
