#!/bin/bash
export NODES=2
envsubst < job.sbatch > now.sbatch
sbatch now.sbatch
