#!/usr/bin/env python3
"""Makes megatron_orders.h5 and megatron_files.h5 with megatron-core's own data classes.

Needs: pip install megatron-core==0.16.1 torch h5py (any machine, no GPU).
Run:   make_megatron_fixture.py          writes the files next to this script.

megatron_files.h5    bytes of .bin and .idx as IndexedDatasetBuilder writes them
megatron_orders.h5   document, sample and shuffle indices, blends and tokens of some samples

The token files behind the orders are not stored: token t of source k is token_of(k, t) below, one
sequence a document, with the stored lengths.
"""

import os
import random
import tempfile

import h5py
import numpy
import torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN, VALID = 0, 1


class Tokenizer:
    """The attributes that the data classes require of a tokenizer."""

    vocab_size = 50000
    eod = 0
    pad = -1
    unique_identifiers = {"class": "Tokenizer"}


def token_of(source, t):
    return (t * 7919 + source * 104729 + 13) % 50000


def source_lengths():
    rng = random.Random(7)
    return [
        [rng.choice([0, 1, 2, 5, rng.randint(1, 60)]) for _ in range(200)],
        [rng.randint(0, 120) for _ in range(57)],
        [1000, 0, 500],
        [40],
        [0, 0, 5, 0, 30, 0, 17, 0, 0, 3, 0],
        [rng.randint(1, 9) for _ in range(33)],
    ]


def write_source(folder, source, lengths):
    prefix = os.path.join(folder, f"source{source}")
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=numpy.uint16)
    t = 0
    for length in lengths:
        ids = torch.tensor([token_of(source, t + i) for i in range(length)], dtype=torch.int64)
        builder.add_document(ids, [length])
        t += length
    builder.finalize(prefix + ".idx")
    return prefix


def config(cache, **values):
    return GPTDatasetConfig(
        tokenizer=Tokenizer(),
        path_to_cache=cache,
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
        **values,
    )


def tokens_of(dataset, indices):
    rows = []
    for index in indices:
        sample = dataset[int(index)]
        rows.append(sample["tokens"].tolist() + [int(sample["labels"][-1])])
    return numpy.array(rows, dtype=numpy.uint16)


def put(group, name, array):
    """Stores integers below 2^16, which all indices of these small orders are."""
    array = numpy.asarray(array)
    assert array.min(initial=0) >= 0 and array.max(initial=0) < 65536
    packed = {}
    if array.size > 300:
        packed = {"compression": "gzip", "compression_opts": 9, "shuffle": True}
    group.create_dataset(name, data=array.astype(numpy.uint16), **packed)


def create(name):
    """A file that HDF5 1.10 can read, without the large group headers of older versions."""
    return h5py.File(os.path.join(HERE, name), "w", libver=("v110", "v110"))


def chosen_samples(count):
    return sorted({0, 1, count // 3, count // 2, count - 1} & set(range(count)))


def put_dataset(group, dataset):
    """One GPTDataset: its three indices and the tokens of a few samples."""
    put(group, "document_index", dataset.document_index)
    put(group, "sample_index", dataset.sample_index)
    put(group, "shuffle_index", dataset.shuffle_index)
    chosen = chosen_samples(len(dataset))
    put(group, "chosen", numpy.array(chosen, dtype=numpy.int64))
    put(group, "tokens", tokens_of(dataset, chosen))


# source, split, part, seed, sequence length, number of samples
ORDERS = [
    (0, "969,30,1", TRAIN, 1234, 16, 50),  # within one epoch
    (0, "969,30,1", TRAIN, 1235, 16, 50),
    (0, "969,30,1", VALID, 1234, 16, 30),  # few tokens, many epochs
    (0, "90,10,0", TRAIN, 0, 8, 470),
    (0, "90,10,0", VALID, 0, 8, 33),
    (0, "1,1,1", TRAIN, 4294967295, 32, 64),
    (0, "1,1,1", VALID, 4294967295, 32, 64),
    (0, "0.5,0.25,0.25", TRAIN, 99, 7, 200),
    (0, "100", TRAIN, 1234, 64, 1),
    (1, "969,30,1", TRAIN, 1234, 32, 105),  # just above one epoch: the last one is shuffled
                                            # separately
    (1, "969,30,1", TRAIN, 1234, 32, 190),  # most of two epochs: shuffled together
    (1, "969,30,1", TRAIN, 1234, 32, 330),
    (1, "969,30,1", VALID, 1234, 32, 12),
    (1, "7,2,1", TRAIN, 42, 128, 40),
    (1, "7,2,1", VALID, 42, 128, 9),
    (2, "100,0,0", TRAIN, 1234, 10, 149),  # samples end at document ends
    (2, "100,0,0", TRAIN, 1234, 10, 150),
    (2, "100,0,0", TRAIN, 1234, 500, 5),
    (3, "100,0,0", TRAIN, 1234, 16, 37),  # a sample spans the only document several times
    (3, "1", TRAIN, 5, 100, 4),
    (4, "100,0,0", TRAIN, 3, 4, 13),  # the first documents are empty
    (4, "100,0,0", TRAIN, 4, 4, 14),
    (4, "100,0,0", TRAIN, 5, 6, 40),
    (5, "50,50", TRAIN, 17, 5, 60),  # halves are rounded to even
    (5, "50,50", VALID, 17, 5, 60),
    (5, "1,2,0", VALID, 18, 1, 200),
]

# sources, weights, split, part, seed, sequence length, number of samples
BLENDS = [
    ([0, 1], [0.3, 0.7], "90,10,0", TRAIN, 1234, 16, 300),
    ([0, 1], [0.3, 0.7], "90,10,0", VALID, 1234, 16, 24),
    ([0, 1, 2], [1.0, 1.0, 1.0], "100,0,0", TRAIN, 7, 32, 200),
    ([2, 0, 5], [60.0, 30.0, 9.7], "100,0,0", TRAIN, 1, 8, 411),
    ([0, 1, 5, 0, 1, 5, 0, 1, 5], [0.1, 0.2, 0.3, 0.7, 0.11, 0.13, 0.17, 0.19, 3.0], "4,1,0",
     TRAIN, 11, 8, 500),  # more than 8 sources: numpy adds their weights in another order
    ([0, 1], [0.3, 0.7], "", VALID, 1234, 16, 40),  # sources of its own, used whole
    ([3], [2.5], "", VALID, 1234, 16, 40),
]


def only(part, split_matrix):
    """Leaves the other parts out: megatron-core never returns for a part without tokens."""
    return [bounds if i == part else None for i, bounds in enumerate(split_matrix)]


def put_order(folder, prefixes, group, case):
    source, split, part, seed, seq_length, num_samples = case
    settings = config(folder, random_seed=seed, sequence_length=seq_length,
                      blend=([prefixes[source]], None), split=split)
    parts = only(part, settings.split_matrix)
    builder = BlendedMegatronDatasetBuilder(GPTDataset, [num_samples] * 3, lambda: True, settings)
    splits = builder._build_megatron_dataset_splits(prefixes[source], parts, [num_samples] * 3)
    parameters = [source, part, seed, seq_length, num_samples]
    group.create_dataset("parameters", data=numpy.array(parameters))
    group.create_dataset("split", data=numpy.frombuffer(split.encode(), dtype=numpy.uint8))
    put_dataset(group, splits[part])


def put_blend(folder, prefixes, group, case):
    sources, weights, split, part, seed, seq_length, num_samples = case
    blend = ([prefixes[source] for source in sources], weights)
    if split:
        where = {"blend": blend, "split": split}
    else:
        where = {"blend_per_split": [None, blend, None]}
    settings = config(folder, random_seed=seed, sequence_length=seq_length, **where)
    if split:
        settings.split_matrix = only(part, settings.split_matrix)
    builder = BlendedMegatronDatasetBuilder(GPTDataset, [num_samples] * 3, lambda: True, settings)
    dataset = builder.build()[part]
    group.create_dataset("parameters", data=numpy.array([part, seed, seq_length, num_samples]))
    group.create_dataset("split", data=numpy.frombuffer(split.encode(), dtype=numpy.uint8))
    group.create_dataset("sources", data=numpy.array(sources))
    group.create_dataset("weights", data=numpy.array(weights))
    if len(sources) == 1:
        put_dataset(group, dataset)
        return
    put(group, "source_index", dataset.dataset_index)
    put(group, "source_sample_index", dataset.dataset_sample_index)
    chosen = list(range(num_samples))[:: max(1, num_samples // 12)]
    put(group, "chosen", numpy.array(chosen, dtype=numpy.int64))
    put(group, "tokens", tokens_of(dataset, chosen))


# Documents as lists of sequences; an empty document has none.
FILES = {
    "uint16": [[[1, 2, 3], [65499]], [], [[7]], [[], [8, 9]], []],
    "int32": [[[70000, 0, 2147483647]], [], [[5, 6], [65536]]],
    "empty": [],
}


def put_files(folder, out):
    for name, documents in FILES.items():
        dtype = numpy.int32 if name == "int32" else numpy.uint16
        prefix = os.path.join(folder, name)
        builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype)
        for document in documents:
            ids = [token for sequence in document for token in sequence]
            builder.add_document(torch.tensor(ids, dtype=torch.int64), [len(s) for s in document])
        builder.finalize(prefix + ".idx")
        for ending in ("bin", "idx"):
            with open(f"{prefix}.{ending}", "rb") as file:
                out[f"{name}/{ending}"] = numpy.frombuffer(file.read(), dtype=numpy.uint8)


def main():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    with tempfile.TemporaryDirectory() as folder:
        with create("megatron_files.h5") as out:
            put_files(folder, out)
        with create("megatron_orders.h5") as out:
            prefixes = []
            for source, lengths in enumerate(source_lengths()):
                prefixes.append(write_source(folder, source, lengths))
                out[f"sources/{source}"] = numpy.array(lengths, dtype=numpy.int32)
            out["counts"] = numpy.array([len(prefixes), len(ORDERS), len(BLENDS)])
            for i, case in enumerate(ORDERS):
                put_order(folder, prefixes, out.create_group(f"orders/{i}"), case)
            for i, case in enumerate(BLENDS):
                put_blend(folder, prefixes, out.create_group(f"blends/{i}"), case)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
