#!/usr/bin/env bash
# Puts a job back into the queue when the node of its batch script is lost: with --no-kill, Slurm would
# keep such a job, and nothing would run in it. A step of the job on another node.
#
#   watch_host.sh JOB FILE SECONDS
#
# FILE is touched every second while the batch script lives. Time in which the file system does not
# answer does not count.
job=$1 file=$2 looks=$(($3 / 5))
before="" same=0
while sleep 5; do
    now=$(stat --format=%y "$file") || continue
    if [[ $now != "$before" ]]; then same=0; else ((++same)); fi
    before=$now
    ((same < looks)) || scontrol requeue "$job"
done
