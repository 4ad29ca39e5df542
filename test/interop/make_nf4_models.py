#!/usr/bin/env python3
"""Makes models/llama_nf4 and models/llama_nf4_double, with transformers 5.23, bitsandbytes 0.50.2
and torch 2.13: models/llama as bitsandbytes quantises it, with the logits that transformers computes
in fp32 for the same ids with the matrices that the files stand for.
"""
import json
import pathlib

import torch
import transformers as tf
from safetensors.torch import load_file, save_file

FOLDER = pathlib.Path(__file__).parent / "models"


def quantise(name, double):
    settings = tf.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                     bnb_4bit_use_double_quant=double,
                                     bnb_4bit_compute_dtype=torch.float32)
    tf.AutoModelForCausalLM.from_pretrained(
        FOLDER / "llama", quantization_config=settings, dtype=torch.float32,
        device_map="cpu").save_pretrained(FOLDER / name)


def dequantised(tensors, name, shape):
    pairs = tensors[name].reshape(-1).long()
    codes = torch.stack([pairs >> 4, pairs & 15], 1).reshape(-1)
    scales = tensors[f"{name}.absmax"]
    if f"{name}.nested_absmax" in tensors:
        state = bytes(tensors[f"{name}.quant_state.bitsandbytes__nf4"].tolist())
        factors = tensors[f"{name}.nested_absmax"].repeat_interleave(256)[:len(scales)]
        scales = tensors[f"{name}.nested_quant_map"][scales.long()] * factors
        scales = scales + json.loads(state)["nested_offset"]
    values = tensors[f"{name}.quant_map"][codes] * scales.repeat_interleave(64)
    return values.reshape(shape)


def write_logits(name):
    tensors = load_file(FOLDER / name / "model.safetensors")
    model = tf.AutoModelForCausalLM.from_pretrained(FOLDER / "llama", dtype=torch.float32)
    for weight, parameter in model.named_parameters():
        if f"{weight}.absmax" in tensors:
            parameter.data = dequantised(tensors, weight, parameter.shape)
    ids = load_file(FOLDER / "llama" / "logits.safetensors")["ids"]
    with torch.no_grad():
        logits = model(ids.long()[None]).logits[0].contiguous()
    save_file({"ids": ids, "logits": logits}, FOLDER / name / "logits.safetensors")


if __name__ == "__main__":
    for folder, double in (("llama_nf4", False), ("llama_nf4_double", True)):
        quantise(folder, double)
        write_logits(folder)
