"""What Slurm says of its jobs: ``sacct`` as JSON or text, ``squeue`` as JSON, and jobcomp/filetxt."""
