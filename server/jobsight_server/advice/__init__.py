"""What a submitted job should ask for: its request in the scheduler's words, such jobs' use, advice on both."""
