"""Texts, targets and weights of the tokens."""

import pathlib
import sys

import numpy as np

from torch_fixture.cases import LEARNED

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "data"))

from make_masking_fixture import Masking  # noqa: E402

END_OF_DOCUMENT = 2


def random_batch(c, random, token_weights):
    """(ids, targets, weights of the targets), and what else the file holds of the text."""
    shape = (c["micro_batch_size"], c["seq_length"])
    text = random.integers(0, c["vocab_size"], (shape[0], shape[1] + 1), dtype=np.int32)
    text[0, 5] = text[2, 9] = END_OF_DOCUMENT
    tokens = c.get("virtual_tokens", 0)
    text[:, :tokens] = np.arange(-tokens, 0)
    extra = {}
    if c.get("objective") == "mlm":
        extra["tokens"] = text[:, :-1].flatten()
        batch = masked_text(c, text[:, :-1])
    elif c.get("loss") == "cross_entropy":
        text[:-1, -1] = text[1:, 0]  # windows of one text
        extra["tokens"] = np.append(text[:, :-1], text[-1, -1]).astype(np.int32)
        extra["learned"] = learned_turns(extra["tokens"].size)
        batch = text[:, :-1], text[:, 1:], extra["learned"][1:].reshape(shape).astype(np.float32)
    else:
        batch = text[:, :-1], text[:, 1:], token_weights(text[:, :-1]) * (text[:, 1:] >= 0)
    return batch, extra


def learned_turns(tokens):
    """Turns of 5 tokens that are not learned and 4 that are, and one row in which none is."""
    learned = (np.arange(tokens) % 9 >= 5).astype(np.uint8)
    learned[LEARNED["seq_length"] + 1:2 * LEARNED["seq_length"] + 1] = 0
    return learned


def masked_text(c, text):
    """Of the samples from 0 on: what the model reads, the text, and which tokens it has to find."""
    samples = [Masking(c, c["seed"], i, c["vocab_size"]).mask(row, [1] * len(row))
               for i, row in enumerate(text.tolist())]
    read, chosen = (np.array(x) for x in zip(*samples))
    return read.astype(np.int32), text, chosen.astype(np.float32)


def ones(ids):
    return np.ones(ids.shape, np.float32)


def masked(ids):
    """As eod_mask_loss does, plus one token that counts half."""
    weights = (ids != END_OF_DOCUMENT).astype(np.float32)
    weights[1, 3] = 0.5
    return weights
