#!/usr/bin/env python3
"""lm-evaluation-harness and gptrain measure one model with the same tasks on the same files:

- `gptrain eval --task` the checkpoint, and the harness its export, with transformers;
- the harness also over its local-completions, which ask gptrain serve, tokenizer included.

    test/peers/harness.py

The tasks are those of the harness itself. Model and files are those of test/tasks, where
make_lm_eval.py describes them.
"""

import contextlib
import json
import logging
import re
import shutil
import sys

import support

TASKS = support.ROOT / "test/tasks"
FILES = {"arc": ("arc_challenge", "arc.jsonl"), "wikitext": ("wikitext", "wikitext.raw")}
QUESTIONS = r"""kind: exact_match
data: questions.jsonl
prompt: "Q: {{ question }}\nA:"
target: "{{ answer }}"
stop: ["\n", "wat"]
max_tokens: 12
"""
CLOSE = 1e-4  # of log-likelihoods; of those beyond 100 it is their millionth part
POSITIONS = 96  # of the model


def write_task(proof, name):
    """The program's own task over the file of test/tasks."""
    if name == "questions":
        text = QUESTIONS
    else:
        task, data = FILES.get(name, (name, name + ".jsonl"))
        text = (support.ROOT / f"configs/tasks/{task}.yaml").read_text(encoding="utf-8")
        text = re.sub("(?m)^data: .*", "data: " + data, text)
        text = re.sub("(?m)^labels: .*", "labels: piqa-labels.lst", text)
    (proof.work / f"{name}.yaml").write_text(text, encoding="utf-8")


def by_gptrain(proof, case):
    """The results of `gptrain eval --task`, in the form of make_lm_eval.evaluate."""
    name, _, shots = case.partition("_")
    write_task(proof, name)
    proof.run(proof.gptrain, "eval", "--checkpoint", "imported", "--task", f"{name}.yaml",
              "--few-shot", shots or "0", "--json", "results", "--details", "details")
    documents = []
    for line in (proof.work / "details").read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        documents.append(found.get("log_likelihoods") or
                         [found["written"] if "written" in found else found["log_likelihood"]])
    metrics = json.loads((proof.work / "results").read_text(encoding="utf-8"))[name]
    return dict(metrics=metrics, documents=documents)


class Comparison:
    """Counts what is equal and keeps the largest differences."""

    def __init__(self):
        self.values = self.metrics = self.texts = self.equal_texts = 0
        self.largest = self.largest_metric = 0.0
        self.wrong = []

    def add(self, case, found, expected):
        if len(found["documents"]) != len(expected["documents"]):
            self.wrong.append(f"{case}: not as many documents")
        for index, (ours, theirs) in enumerate(zip(found["documents"], expected["documents"])):
            if isinstance(theirs[0], str):
                self.texts += 1
                self.equal_texts += ours[0].strip() == theirs[0].strip()
                continue
            self.values += len(theirs)
            difference = max(abs(a - b) / max(1, abs(b) / 100)
                             for a, b in zip(ours, theirs, strict=True))
            self.largest = max(self.largest, difference)
            if difference > CLOSE:
                self.wrong.append(f"{case}: document {index}: {ours}, not {theirs}")
        for metric, theirs in expected["metrics"].items():
            # The harness draws the error of a perplexity.
            if metric != "perplexity_stderr":
                self.metrics += 1
                difference = abs(found["metrics"][metric] - theirs) / (1 + abs(theirs))
                self.largest_metric = max(self.largest_metric, difference)
                if difference > CLOSE:
                    self.wrong.append(f"{case}: {metric} {found['metrics'][metric]}, not {theirs}")

    def claim(self, proof, claim):
        proof.claim(not self.wrong and self.equal_texts == self.texts and self.values > 0,
                    f"{claim} within {CLOSE:g}",
                    f"{self.values} log-likelihoods, largest difference {self.largest:.1e}; "
                    f"{self.metrics} metrics, largest relative difference {self.largest_metric:.1e}; "
                    f"{self.equal_texts} of {self.texts} written texts equal"
                    + "".join("; " + text for text in self.wrong[:3]))


def prove(proof):
    sys.path.insert(0, str(TASKS))
    import make_lm_eval
    import torch
    from lm_eval.models.huggingface import HFLM
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    torch.set_num_threads(2)
    logging.disable(logging.WARNING)
    print(f"{proof.name}: {support.versions('lm-eval', 'torch', 'transformers')}")
    for pattern in "*.jsonl", "*.lst", "*.raw":
        for file in TASKS.glob(pattern):
            shutil.copy(file, proof.work)
    proof.run(proof.gptrain, "import", TASKS / "model", "--output", "imported")
    proof.run(proof.gptrain, "export", "imported", "--format", "hf", "--output", "exported")

    def in_transformers(**settings):
        # With its cache of logits the harness confuses requests of the same tokens.
        return HFLM(pretrained=str(proof.work / "exported"), device="cpu", dtype="float32",
                    batch_size=1, logits_cache=False, **settings)

    offline, served = Comparison(), Comparison()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(proof.server(proof.work / "imported", "--context",
                                                  str(POSITIONS)))
        # The harness shows its progress.
        log = stack.enter_context(open(proof.work / "harness.log", "w", encoding="utf-8"))
        stack.enter_context(contextlib.redirect_stdout(log))
        stack.enter_context(contextlib.redirect_stderr(log))
        whole = in_transformers()
        # Over the API it keeps one position for a token to write, and one for that of the answer.
        shorter = in_transformers(max_length=POSITIONS - 2)
        api = LocalCompletionsAPI(model="imported", base_url=server.url + "/v1/completions",
                                  tokenizer_backend="remote", max_length=POSITIONS, batch_size=1,
                                  num_concurrent=8)
        for case, (config, settings) in make_lm_eval.cases().items():
            offline.add(case, by_gptrain(proof, case),
                        make_lm_eval.evaluate(whole, config, **settings))
            served.add(case, make_lm_eval.evaluate(api, config, **settings),
                       make_lm_eval.evaluate(shorter, config, **settings))
    offline.claim(proof, "`gptrain eval --task` finds what the harness does with transformers")
    served.claim(proof, "the harness finds the same over gptrain serve as with transformers")


support.main("lm-eval", __doc__, prove)
