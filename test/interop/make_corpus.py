#!/usr/bin/env python3
"""Makes the hostile files of test/corpus/hfconfig and test/corpus/safetensors."""
import json
import pathlib
import struct

CORPUS = pathlib.Path(__file__).parent.parent / "corpus"
MODELS = pathlib.Path(__file__).parent / "models"


def write_configs():
    folder = CORPUS / "hfconfig"
    for model in sorted(MODELS.iterdir()):
        (folder / f"good-{model.name}.json").write_text((model / "config.json").read_text())
    llama = json.loads((MODELS / "llama" / "config.json").read_text())
    qwen = json.loads((MODELS / "qwen2" / "config.json").read_text())
    qwen["head_dim"] = qwen["layer_types"] = None
    changes = {
        "act-gelu": {"hidden_act": "gelu"}, "act-number": {"hidden_act": 1},
        "architectures-text": {"architectures": "LlamaForCausalLM"},
        "biases-differ": {"mlp_bias": True}, "eps-negative": {"rms_norm_eps": -1},
        "eps-nan-text": {"rms_norm_eps": "nan"}, "heads-zero": {"num_attention_heads": 0},
        "heads-above-hidden": {"num_attention_heads": 10 ** 6, "head_dim": None},
        "hidden-fraction": {"hidden_size": 1.5}, "hidden-huge": {"hidden_size": 2 ** 62},
        "ids-list-empty": {"eos_token_id": []}, "ids-negative": {"eos_token_id": -1},
        "ids-text": {"eos_token_id": "</s>"}, "layers-huge": {"num_hidden_layers": 2 ** 24},
        "model-type-list": {"model_type": ["llama"]}, "model-type-unknown": {"model_type": "olmo"},
        "quantized": {"quantization_config": {"bits": 4}},
        "rope-list": {"rope_parameters": []}, "rope-llama3": {"rope_scaling": {"rope_type": "llama3"}},
        "rope-partial": {"rope_parameters": {"partial_rotary_factor": 0.5}},
        "theta-zero": {"rope_parameters": {"rope_theta": 0}}, "window": {"sliding_window": 8},
        "rope-factor": {"rope_scaling": {"rope_type": "linear", "factor": 1e308}},
        "rope-low": {"rope_scaling": {"rope_type": "linear", "factor": 2, "low_freq_factor": 9}},
        "rope-original": {"rope_scaling": {"rope_type": "yarn", "factor": 2,
                                           "original_max_position_embeddings": -1}},
        "rope-type": {"rope_scaling": {"rope_type": 3}},
        "windows-negative": {**qwen, "max_window_layers": -5},
        "windows-text": {**qwen, "max_window_layers": "all"},
        "windows-types": {**qwen, "layer_types": [1, None]},
        "windows-types-object": {**qwen, "layer_types": {}},
        "windows-huge": {**qwen, "max_window_layers": 2 ** 62, "num_hidden_layers": 10 ** 5},
        "tied-number": {"tie_word_embeddings": 1}, "vocab-missing": {"vocab_size": None},
    }
    for name, change in changes.items():
        (folder / f"{name}.json").write_text(json.dumps({**llama, **change}))
    with_experts = {
        "no-layer": ("qwen3_moe", {"mlp_only_layers": [0, 1, 2]}),
        "list-of-layers": ("qwen3_moe", {"num_hidden_layers": 200000}),
        "huge": ("mixtral", {"num_local_experts": 2 ** 24, "num_hidden_layers": 2 ** 24}),
        "half-rotated": ("glm4_moe", {"rope_parameters": {"partial_rotary_factor": 0.5}}),
    }
    of_families = {
        "share-tiny": ("phi", {"rope_parameters": {"partial_rotary_factor": 1e-9}}),
        "share-odd": ("glm4", {"rope_parameters": {"partial_rotary_factor": 0.4}}),
        "share-above": ("nemotron", {"rope_parameters": {"partial_rotary_factor": 1e9}}),
        "dims-null": ("gptj", {"rotary_dim": None}), "dims-huge": ("gptj", {"rotary_dim": 2 ** 40}),
        "thetas-text": ("gemma3", {"rope_parameters": {"full_attention": "default"}}),
        "thetas-stretched": ("gemma3", {"rope_parameters": {
            "sliding_attention": {"rope_type": "linear", "factor": 2.0}}}),
        "softcap-nan": ("gemma2", {"attn_logit_softcapping": "nan"}),
        "softcap-negative": ("gemma2", {"final_logit_softcapping": -30}),
        "pattern-zero": ("gemma3", {"layer_types": None, "sliding_window_pattern": 0}),
        "unrotated-short": ("smollm3", {"no_rope_layers": [1]}),
        "unrotated-text": ("smollm3", {"no_rope_layers": [1, "0", 1]}),
        "unrotated-layers": ("smollm3", {"no_rope_layers": None, "num_hidden_layers": 10 ** 5}),
        "norms-three": ("falcon", {"num_ln_in_parallel_attn": 3}),
        "groups-uneven": ("falcon", {"num_kv_heads": 3}),
        "scale-odd": ("cohere", {"logit_scale": 0.3}), "scale-tiny": ("cohere", {"logit_scale": 1e-300}),
        "ffn-none": ("bloom", {"hidden_size": 2 ** 24}),
        "older-name": ("bloom", {"hidden_size": None, "n_embed": 24}),
        "no-rotation": ("gpt_oss", {"rope_parameters": None}),
        "relu": ("gpt2", {"activation_function": "relu"}),
        "relu2": ("opt", {"activation_function": "relu2"}),
    }
    for prefix, models in ("experts", with_experts), ("family", of_families):
        for name, (model, change) in models.items():
            config = json.loads((folder / f"good-{model}.json").read_text())
            (folder / f"{prefix}-{name}.json").write_text(json.dumps({**config, **change}))
    (folder / "list.json").write_text("[]")
    (folder / "cut.json").write_text(json.dumps(llama)[:-5])
    (folder / "empty.json").write_text("")


def write_headers():
    def entry(shape, offsets, dtype="F32"):
        return {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    headers = {
        "good": (20, {"__metadata__": {"format": "pt"}, "a": entry([2, 2], [0, 16]),
                      "b": entry([2], [16, 20], "BF16")}),
        "good-index": (0, {"metadata": {"total_size": 4}, "weight_map": {"a": "m.safetensors"}}),
        "gap": (12, {"a": entry([1], [0, 4]), "b": entry([1], [8, 12])}),
        "overlap": (8, {"a": entry([2], [0, 8]), "b": entry([1], [4, 8])}),
        "shared": (4, {"a": entry([1], [0, 4]), "b": entry([1], [0, 4])}),
        "trailing": (5, {"a": entry([1], [0, 4])}), "beyond": (4, {"a": entry([2], [0, 8])}),
        "overflow": (0, {"a": entry([2 ** 62, 4], [0, 0])}),
        "negative": (4, {"a": entry([-1], [0, 4])}), "dtype": (4, {"a": entry([1], [0, 4], "F5")}),
        "shape-text": (4, {"a": entry("1", [0, 4])}), "no-shape": (4, {"a": {"dtype": "F32"}}),
        "metadata-number": (0, {"__metadata__": {"a": 1}}),
        "index-traversal": (0, {"weight_map": {"a": "../m.safetensors"}}),
        "index-number": (0, {"weight_map": {"a": 1}}), "index-empty": (0, {"weight_map": {}}),
        "index-absolute": (0, {"weight_map": {"a": "/m.safetensors"}}),
        "index-parent": (0, {"weight_map": {"a": ".."}}),
        "index-nul": (0, {"weight_map": {"a": "m.safetensors\0"}}),
        "index-line": (0, {"weight_map": {"a": "m\n.safetensors"}}),
        "index-list": (0, {"weight_map": ["m.safetensors"]}), "index-missing": (0, {"metadata": {}}),
        "no-object": (0, [entry([1], [0, 4])]), "no-tensors": (4, {}),
        "metadata-list": (0, {"__metadata__": ["pt"]}), "tensor-number": (4, {"a": 4}),
        "dtype-number": (4, {"a": entry([1], [0, 4], 32)}),
        "dtype-integers": (4, {"a": entry([1], [0, 4], "I32")}),
        "dims-65": (4, {"a": entry([1] * 65, [0, 4])}),
        "shape-fraction": (4, {"a": entry([1.5], [0, 4])}),
        "shape-2-63": (0, {"a": entry([2 ** 63], [0, 0])}),
        "shape-2-64": (4, {"a": entry([2 ** 64 + 1], [0, 4])}),
        "shape-wraps": (4, {"a": entry([2 ** 32, 2 ** 32 + 1], [0, 4])}),
        "offsets-one": (4, {"a": entry([1], [0])}), "offsets-three": (4, {"a": entry([1], [0, 4, 8])}),
        "offsets-reversed": (8, {"a": entry([1], [8, 4])}),
        "offsets-negative": (4, {"a": entry([1], [-4, 0])}),
        "offsets-huge": (4, {"a": entry([1], [2 ** 63 - 4, 2 ** 63 - 1])}),
        "offsets-2-64": (4, {"a": entry([1], [0, 2 ** 64 + 4])}),
        "offsets-text": (4, {"a": entry([1], ["0", "4"])}),
        "offsets-short": (4, {"a": entry([2], [0, 4])}),
        "data-huge": (2 ** 63 - 1, {"a": entry([1], [0, 4])}),
        "overlap-huge": (2 ** 63 - 1, {"a": entry([2 ** 63 - 1], [0, 2 ** 63 - 1], "U8"),
                                       "b": entry([2 ** 63 - 1], [0, 2 ** 63 - 1], "U8")}),
    }
    name_a = json.dumps(entry([1], [0, 4])).encode()
    raw = {
        "twice": b'{"a":%s,"a":%s}' % (name_a, name_a),
        "index-twice": b'{"weight_map": {"a": "m.safetensors", "a": "n.safetensors"}}',
        "cut": b'{"a": %s' % name_a, "empty": b"", "padding-nul": b'{"a": %s}\0\0' % name_a,
        "deep": b'{"a": %s' % (b'{"a": [' * 2000),
        "name-surrogate": b'{"\\ud800": %s}' % name_a, "name-overlong": b'{"\xc0\xaf": %s}' % name_a,
        "name-not-utf8": b'{"\xff": %s}' % name_a, "name-control": b'{"a\n": %s}' % name_a,
        "number-long": b'{"a": {"dtype": "F32", "shape": [1%s], "data_offsets": [0, 4]}}' % (b"0" * 400),
    }
    contents = {name: (size, json.dumps(header).encode()) for name, (size, header) in headers.items()}
    contents.update({name: (4, header) for name, header in raw.items()})
    for name, (size, header) in contents.items():
        (CORPUS / "safetensors" / name).write_bytes(struct.pack("<Q", size) + header)


write_configs()
write_headers()
