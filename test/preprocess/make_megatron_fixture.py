#!/usr/bin/env python3
"""Makes megatron/: token files as megatron-core 0.16.1 itself writes them, and the ids in them.

documents_*.txt holds a document a line: ids, with "|" between sequences; an empty line is a document
without sequences, which is what Megatron's preprocess_data.py makes of an empty text. The calls are
those of that tool: add_document per document, add_index per merged file.
"""
import os
import random

import numpy
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "megatron")


def make_documents(seed, vocabulary):
    generator = random.Random(seed)
    documents = []
    for number in range(40):
        sequences = 0 if number % 7 == 3 else generator.choice([1, 1, 1, 2, 3])
        documents.append([[generator.randrange(vocabulary) for _ in range(generator.randint(1, 40))]
                          for _ in range(sequences)])
    documents[5] = [[0], [vocabulary - 1]]
    return documents + [[]]


def write_ids(name, documents):
    with open(os.path.join(FOLDER, f"documents_{name}.txt"), "w") as file:
        for document in documents:
            file.write(" | ".join(" ".join(map(str, sequence)) for sequence in document) + "\n")


def write_token_files(name, documents, dtype):
    prefix = os.path.join(FOLDER, name)
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype)
    for document in documents:
        ids = [token for sequence in document for token in sequence]
        builder.add_document(ids, [len(sequence) for sequence in document])
    builder.finalize(prefix + ".idx")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name, seed, vocabulary, dtype in [("u16", 1, 65499, numpy.uint16),
                                          ("other_u16", 2, 300, numpy.uint16),
                                          ("i32", 3, 250000, numpy.int32)]:
        documents = make_documents(seed, vocabulary)
        write_ids(name, documents)
        write_token_files(name, documents, dtype)
    merged = IndexedDatasetBuilder(os.path.join(FOLDER, "merged_u16.bin"), dtype=numpy.uint16)
    for name in ("u16", "other_u16"):
        merged.add_index(os.path.join(FOLDER, name))
    merged.finalize(os.path.join(FOLDER, "merged_u16.idx"))


if __name__ == "__main__":
    main()
