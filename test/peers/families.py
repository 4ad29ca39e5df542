#!/usr/bin/env python3
"""Small random models of the families in test/interop/family_models.py against transformers: logits
after import and export, loss and every gradient of one step, weights after three steps of AdamW.

    test/peers/families.py [--only NAME]
"""

import pathlib
import sys

import compare
import support

sys.path.append(str(support.ROOT / "test/interop"))


def prove(proof):
    import h5py  # noqa: F401
    import torch
    import transformers
    from family_models import FAMILIES, LESS_1, LOGITS_ONLY, make

    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    print(f"{proof.name}: {support.versions('torch', 'transformers', 'h5py')}; {len(compare.IDS)} tokens")
    compare.write_ids(proof)
    only = proof.options.only
    for name in [pathlib.Path(only).name] if only else [*FAMILIES, *LOGITS_ONLY]:
        folder = proof.work / name
        make(name).save_pretrained(folder)
        if name in LOGITS_ONLY:
            compare.check_export(proof, folder, compare.load(folder))
        else:
            compare.check_model(proof, folder, less_1=name.startswith(LESS_1))


support.main("families", __doc__, prove, only="the family alone")
