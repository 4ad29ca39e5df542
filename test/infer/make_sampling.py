#!/usr/bin/env python3
"""Writes sampling.json: the probabilities of tokens after the logits processors of transformers
5.23, in the order in which its generate applies them.
"""
import json
import pathlib
import random

import torch
from transformers.generation import logits_process as lp

OPTIONS = [dict(), dict(temperature=0.7), dict(temperature=2.5), dict(top_k=1), dict(top_k=5),
           dict(top_p=0.3), dict(top_p=0.9), dict(top_p=0.999), dict(min_p=0.05), dict(min_p=0.5),
           dict(min_p=1.0), dict(repetition_penalty=1.3), dict(repetition_penalty=0.8),
           dict(temperature=0.7, top_k=8, top_p=0.8), dict(temperature=1.5, top_p=0.9, min_p=0.1),
           dict(repetition_penalty=1.2, temperature=0.8, top_k=10, top_p=0.95, min_p=0.02)]
PROCESSORS = dict(repetition_penalty=lp.RepetitionPenaltyLogitsProcessor,
                  temperature=lp.TemperatureLogitsWarper, top_k=lp.TopKLogitsWarper,
                  top_p=lp.TopPLogitsWarper, min_p=lp.MinPLogitsWarper)


def main():
    choose = random.Random(3)
    cases = []
    for options in OPTIONS * 2:
        logits = [round(choose.gauss(0, 3), 3) for _ in range(24)]
        context = [choose.randrange(24) for _ in range(9)]
        scores = torch.tensor([logits])
        for name, processor in PROCESSORS.items():
            if name in options:
                scores = processor(options[name])(torch.tensor([context]), scores)
        cases.append(dict(options=options, context=context, logits=logits,
                          probabilities=scores.double().softmax(-1)[0].tolist()))
    path = pathlib.Path(__file__).parent / "sampling.json"
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


main()
