#!/usr/bin/env bash
# logging.prometheus: the newest metrics in Prometheus's text format.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
evaluating="training.eval_interval=5 training.eval_steps=3"

# The file has the last step and the last evaluation, and a bad name costs nothing.
mkdir monitor
train 0 watched logging.prometheus=monitor/tiny.prom $evaluating
says monitor/tiny.prom 'gptrain_step{run="tiny"} 20' '# TYPE gptrain_loss gauge' 'gptrain_goodput_seconds{run="tiny",part="useful"}' \
    "gptrain_val_loss{run=\"tiny\"} $(sed -n 's/.*"val_loss": \(.*\)}/\1/p' watched/metrics.jsonl | tail -n 1)"
[[ $(ls monitor) == tiny.prom ]] || fail "left over: $(ls monitor)"
train 2 refused logging.prometheus=monitor/tiny.txt
says err "--set logging.prometheus" "must end in .prom"
train 2 refused logging.prometheus=nowhere/tiny.prom
says err "nowhere: no such folder"
[[ ! -e refused ]] || fail "an output directory in spite of an error"

finish
