#!/usr/bin/env python3
"""Makes the folders of adapters/ and their logits, with Hugging Face's PEFT (0.21; transformers 5.23,
torch 2.13).

Each folder is a LoRA adapter of a model of models/, as save_pretrained writes it, with random
matrices, and logits.safetensors: "ids" [tokens] and "logits" [tokens, vocab] in fp32, computed by
transformers with PEFT.
"""
import pathlib
import shutil

import torch
import transformers as tf
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
ADAPTERS = {
    # One rank and factor for four of the seven linear layers.
    "llama": ("llama", dict(r=4, lora_alpha=6, lora_dropout=0.1,
                            target_modules=["q_proj", "v_proj", "o_proj", "down_proj"])),
    # The factor is alpha / sqrt(r); all seven layers.
    "llama_rslora": ("llama", dict(r=4, lora_alpha=3, use_rslora=True,
                                   target_modules="all-linear")),
    # c_attn is our q, k and v; c_proj is one of attention and one of the mlp.
    "gpt2": ("gpt2", dict(r=3, lora_alpha=12, target_modules=["c_attn", "c_proj"],
                          fan_in_fan_out=True)),
    "phi3": ("phi3", dict(r=2, lora_alpha=5, target_modules=["qkv_proj", "gate_up_proj"])),
}


def main():
    for name, (base, settings) in ADAPTERS.items():
        torch.manual_seed(len(name))
        model = tf.AutoModelForCausalLM.from_pretrained(HERE / "models" / base, dtype=torch.float32)
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **settings))
        for parameter, value in model.named_parameters():
            if "lora_" in parameter:
                torch.nn.init.normal_(value, std=0.2)
        model.eval()
        folder = HERE / "adapters" / name
        shutil.rmtree(folder, ignore_errors=True)
        model.peft_config["default"].base_model_name_or_path = f"../models/{base}"
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        ids = torch.randint(0, 40, (20,))
        with torch.no_grad():
            logits = model(ids[None]).logits[0]
        save_file({"ids": ids.float(), "logits": logits.contiguous()},
                  folder / "logits.safetensors")


main()
