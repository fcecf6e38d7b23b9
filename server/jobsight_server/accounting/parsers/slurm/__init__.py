"""Slurm's reports on its jobs: ``sacct`` as JSON or text, ``squeue``, and jobcomp/filetxt."""
