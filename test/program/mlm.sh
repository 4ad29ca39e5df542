#!/usr/bin/env bash
# Usage: mlm.sh GPTRAIN GPT-PREPROCESS MPIRUN. Masked language models: they learn, resume and
# evaluate with the same masks, compute the same on every mesh, and refuse what is for causal models.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
make_data
make_spec
cat >>run.yaml <<END
precision: {compute: fp32}
END
# One id more than the tokenizer has pieces.
mlm=(model.vocab_size=321 'objective={kind: mlm, mask_id: 320}')
spans=(model.vocab_size=321 'objective={kind: mlm, mask_id: 320, masking: span, max_span: 4}')
value() { sed -n "s/.*\"$1\": *\([-0-9.e]*\).*/\1/p" "$2" | tail -n 1; }

# Resumed equals uninterrupted, and evaluations do not depend on when they are made.
for kind in mlm spans; do
    declare -n keys=$kind
    train 0 $kind "${keys[@]}" model.dropout=0.1 training.eval_interval=10 training.eval_steps=2
    train 0 $kind-parts "${keys[@]}" model.dropout=0.1 training.eval_interval=10 training.eval_steps=2 training.steps=10
    train 0 $kind-parts "${keys[@]}" model.dropout=0.1 training.eval_interval=10 training.eval_steps=2
    same_run $kind $kind-parts 20
done
differ mlm.history spans.history
says mlm/spec.yaml "objective: {kind: mlm, mask_rate: 0.15, masking: token, mask_id: 320,"

# Every mesh computes what one rank does.
sizes=("${spans[@]}" model.dropout=0.1 training.global_batch_size=4 training.eval_interval=20
    training.eval_steps=2 optimizer.eps=1.0e-3)
settings output_dir=one "${sizes[@]}"
expect_exit 0 "$gptrain" --config run.yaml --dry-run "${set[@]}"
predicted=$(predicted_bytes)
train 0 one "${sizes[@]}"
says one/metrics.jsonl "\"memory_bytes\": $predicted,"
values() { sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p" "$2/metrics.jsonl"; }
for mesh in data=2 pipeline=2 'tensor=2 sequence_parallel=true' context=2 \
    'context=2 context_method=all_to_all' 'pipeline=2 context=2' context=4; do
    parallel=()
    ranks=1
    for key in $mesh; do
        parallel+=("parallel.$key")
        [[ $key != *=[24] ]] || ranks=$((ranks * ${key#*=}))
    done
    train_ranks 0 $ranks "mesh-${mesh// /-}" "${sizes[@]}" "${parallel[@]}"
    for key in loss val_loss grad_norm; do
        paste <(values $key one) <(values $key "mesh-${mesh// /-}") | awk '
            { difference = $1 > $2 ? $1 - $2 : $2 - $1
              if (NF != 2 || difference > 1e-4 * $1) exit 1; ++lines } END { exit !lines }' ||
            fail "$mesh: other values of $key than one rank"
    done
done

# It learns: far below the entropy of single tokens, of a text that has an order.
make_text 1 2 >line.txt
for i in {1..200}; do cat line.txt; done >order.txt
expect_exit 0 "$preprocess" --input order.txt --tokenizer tok.model --output-prefix order --append-eod
longer=("${mlm[@]}" 'data.train=[{prefix: order_text_document}]' training.steps=300 training.micro_batch_size=32
    training.global_batch_size=32 data.num_samples=auto lr_schedule.decay_steps=300 optimizer.lr=0.003
    model.hidden_size=32 model.position_embedding=rope checkpoint.interval=0)
train 0 learned "${longer[@]}"
expect_exit 0 "$gptrain" eval --checkpoint learned --data order_text_document
loss=$(value loss out)
tokens=$(value tokens out)
cp out evaluation
unigram=$(od -An -v -t u2 -w2 order_text_document.bin | awk '{ ++n[$1] }
    END { for (t in n) e -= n[t] / NR * log(n[t] / NR); print e }')
awk -v l="$loss" -v u="$unigram" 'BEGIN { exit !(l < u - 1.5) }' ||
    fail "the loss is $loss, the entropy of single tokens $unigram"
all=$(($(stat -c %s order_text_document.bin) / 2))
awk -v t="$tokens" -v all="$all" 'BEGIN { exit !(t > 0.13 * all && t < 0.17 * all) }' ||
    fail "$tokens of $all tokens were chosen"
# An evaluation repeats its masks, on any mesh and of text.
expect_exit 0 "$gptrain" eval --checkpoint learned --data order_text_document
same out evaluation
timeout 60 "$mpirun" -n 2 "$gptrain" eval --checkpoint learned --data order_text_document \
    --set parallel.context=2 >out 2>err
ran 0 $? "eval on two ranks"
(($(value tokens out) == tokens)) || fail "two ranks chose $(value tokens out) tokens, not $tokens"
awk -v a="$(value loss out)" -v b="$loss" 'BEGIN { exit !((a - b) ^ 2 < 1e-8) }' || fail "other loss on two ranks"
head -n 3 text.txt >short.txt
expect_exit 0 "$gptrain" eval --checkpoint learned --data short.txt
printf 'a' >tiny.txt
expect_exit 3 "$gptrain" eval --checkpoint learned --data tiny.txt
says err "tiny.txt: none of its tokens counts in the loss"

# The tokenizer's mask token.
expect_exit 0 "$preprocess" train-tokenizer --input text.txt --vocab-size 319 --model-prefix bpe
sed 's/"added_tokens":\[/&{"id":319,"content":"[MASK]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},/' \
    bpe.json >masked.json
expect_exit 0 "$preprocess" --input text.txt --tokenizer masked.json --output-prefix masked --append-eod
other=('data.train=[{prefix: masked_text_document}]' data.tokenizer=masked.json)
train 0 auto objective=mlm "${other[@]}"
says auto/spec.yaml "mask_id: 319,"
train 2 no 'objective={kind: mlm, mask_id: 5}' "${other[@]}"
says err "objective.mask_id is 5, but the tokenizer's mask token is 319; remove objective.mask_id"
train 2 no objective=mlm
says err "objective.mask_id: the tokenizer has no mask token" "such as 320 with model.vocab_size 321"

end=$(sed -nE 's/.*"id":([0-9]+),"content":"<\|endoftext\|>".*/\1/p' masked.json | head -n 1)
[[ -n $end ]] || fail "masked.json has no <|endoftext|>"
sed -E 's/\{"id":319,"content":"\[MASK\]"[^}]*\},//' masked.json >unmasked.json
train 2 no "objective={kind: mlm, mask_id: $end}" data.tokenizer=unmasked.json "${other[0]}"
says err "objective.mask_id $end is the tokenizer's end of document as well"

# The objective belongs to the model.
train 2 mlm model.vocab_size=321 training.steps=30
says err "objective.kind is \"mlm\" in the checkpoint but absent in the run spec"
train 2 mlm model.vocab_size=321 training.steps=30 'objective={kind: mlm, mask_id: 319}'
says err "objective.mask_id is 320 in the checkpoint but 319"
train 0 mlm "${mlm[@]}" training.steps=30 objective.mask_rate=0.3
says out "mask_rate: 0.15" "mask_rate: 0.3"
train 0 causal model.vocab_size=321 training.steps=2
train 2 no "${mlm[@]}" init_from=causal
says err "init_from: $work/causal: objective is causal there, but mlm in this run; make them equal"
train 0 tuned "${spans[@]}" init_from=spans training.steps=2
train 2 no "${mlm[@]}" data.reset_at_eod=true
says err "data.reset_at_eod: true cannot be used with objective mlm"

# The shipped spec, at its real sizes but for the layers and the batch.
bert=$(dirname "$script")/../../configs/bert-base.yaml
expect_exit 0 "$gptrain" inspect "$bert" --set output_dir=bert
says out "110,615,040 parameters" "mlm, bidirectional attention; chooses 15 % of the tokens"
settings output_dir=bert model.num_layers=1 'data.train=[{prefix: text_text_document}]' training.steps=2 \
    training.micro_batch_size=1 training.global_batch_size=2 training.eval_interval=0 lr_schedule.warmup_steps=0 \
    logging.interval=1 device=cpu
expect_exit 0 "$gptrain" --config "$bert" "${set[@]}"
# The logits of the initial weights are small, so all tokens are about equally likely: ln 32768 = 10.4.
awk -v l="$(sed -n 's/.*"step": 1, "loss": \([^,]*\),.*/\1/p' bert/metrics.jsonl)" \
    'BEGIN { exit !(l > 9.9 && l < 10.9) }' || fail "the first loss: $(head -n 1 bert/metrics.jsonl)"

# Commands that need a causal model.
expect_exit 2 "$gptrain" generate --checkpoint learned --prompt and
says err "learned/checkpoints/step-000300: with objective mlm every token sees the whole text, so the model cannot generate text"
expect_exit 2 "$gptrain" serve --checkpoint learned --port 0
says err "cannot generate text"
expect_exit 2 "$gptrain" eval --checkpoint learned --task wikitext
says err "cannot answer tasks; gptrain eval --data measures it"
for format in hf gguf; do
    expect_exit 2 "$gptrain" export learned --format $format --output exported
    says err "objective mlm"
done
expect_exit 2 "$gptrain" plan --inference --prompt 8 --tokens 8 --config mlm/spec.yaml --world-size 1 --hardware cpu
says err "cannot generate text"

finish
