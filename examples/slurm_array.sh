#!/bin/sh
#SBATCH --array=0-3  # From 0 on; the number of tasks is the number of parts.
#SBATCH --cpus-per-task=1
# Each task of the array evaluates one part: sbatch examples/slurm_array.sh reference.yaml responses.jsonl results
# To finish tasks that died, submit all of them again: --resume skips what is done.
set -eu
reference=$1 responses=$2 results=$3
part="$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
mkdir -p "$results"
graphrag-eval-async evaluate "$reference" "$responses" --shard "$part" --resume \
    --output "$results/$SLURM_ARRAY_TASK_ID.jsonl" --aggregates "$results/$SLURM_ARRAY_TASK_ID.aggregates"
