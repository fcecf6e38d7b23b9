"""What a finished job used, from its nodes' readings and the accounting log [P eq. 10-12; DEFINITIONS 1]."""
