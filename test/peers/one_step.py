#!/usr/bin/env python3
"""The small models of test/interop/models against transformers: what gptrain imports and exports again
has the same logits, one step of training the same loss, the same norm of the gradient and the same
gradient of every tensor, and three steps of AdamW the same weights. Those of the proof `families` are
left to it.

    test/peers/one_step.py
"""

import sys

import compare
import support

sys.path.append(str(support.ROOT / "test/interop"))
MODELS = support.ROOT / "test/interop/models"


def prove(proof):
    import h5py  # noqa: F401
    import torch
    import transformers
    from family_models import FAMILIES, LOGITS_ONLY

    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    print(f"{proof.name}: {support.versions('torch', 'transformers', 'h5py')}; {len(compare.IDS)} tokens")
    compare.write_ids(proof)
    for folder in sorted(path for path in MODELS.iterdir() if path.is_dir()):
        if folder.name not in FAMILIES | LOGITS_ONLY:
            compare.check_model(proof, folder)


support.main("one-step", __doc__, prove)
