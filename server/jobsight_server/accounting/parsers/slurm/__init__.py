"""What Slurm reports about its jobs: ``sacct`` as JSON or text, ``squeue`` as JSON, and jobcomp/filetxt."""
