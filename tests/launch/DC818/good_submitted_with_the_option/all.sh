#!/bin/bash
sbatch --array=0-3 train.slurm
