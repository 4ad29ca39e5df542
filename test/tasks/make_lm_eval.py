#!/usr/bin/env python3
"""Makes the data files, the model and what is expected of it with lm-evaluation-harness.

    pip install torch transformers==5.23 lm-eval==0.4.13
    HF_DATASETS_OFFLINE=1 HF_HUB_OFFLINE=1 test/tasks/make_lm_eval.py

The model is small and little trained. The data have the shapes of the published sets, and the
tasks are those of the harness itself on these files. expected.tsv holds what the harness makes of
them: "task, metric, name, value", "task, document, index, log-likelihoods" and "task, written,
index, text as JSON". clean.jsonl holds texts and what the harness's cleaning makes of them.
"""
import importlib.util
import json
import pathlib
import random
import shutil
import tempfile

import lm_eval
import torch
import transformers as tf
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from tokenizers import ByteLevelBPETokenizer

FOLDER = pathlib.Path(__file__).parent
TASKS = pathlib.Path(lm_eval.__file__).parent / "tasks"
POSITIONS = 96
WORDS = ("and the earth was without form void darkness upon face deep light day evening morning "
         "waters under heaven let there be firmament midst café naïve Äther 日 it's don't we'll "
         "grass seed fruit tree kind third stars season sign year night rule winged fowl").split()
choose = random.Random(5)


def words(low, high):
    return " ".join(choose.choice(WORDS) for _ in range(choose.randint(low, high)))


def chain(low, high):
    """Words in their order, which the model learns."""
    begin = choose.randrange(len(WORDS))
    return " ".join(WORDS[(begin + i) % len(WORDS)] for i in range(choose.randint(low, high)))


def write_lines(name, documents):
    with open(FOLDER / name, "w", encoding="utf-8") as out:
        for document in documents:
            print(json.dumps(document, ensure_ascii=False), file=out)


def hellaswag(index):
    context = f"[header] How to {words(2, 4)} [title] {words(2, 6)}. [step] {words(4, 9)}."
    more = choose.choice(["", words(1, 3), "Élan " + words(1, 3), "“Then” THE  " + words(1, 2)])
    return dict(ind=index, activity_label=words(1, 3).capitalize(), ctx_a=context, ctx_b=more,
                ctx=context + " " + more, split="val", split_type="indomain",
                label=choose.randrange(4), source_id="made~" + str(index),
                endings=[words(2, 9) + choose.choice([".", " [substeps] " + words(1, 3), ""])
                         for _ in range(4)])


def arc(index):
    names = choose.choice(["ABCD", "ABC", "1234", "ABCDE"])
    return dict(id=f"made_{index}", answerKey=choose.choice(names), question=dict(
        stem=words(4, 12) + "?", choices=[dict(text=words(1, 5), label=name) for name in names]))


def flat_arc(document):
    """The same as the data set's copy on the hub has it."""
    choices = document["question"]["choices"]
    return dict(document, question=document["question"]["stem"],
                choices=dict(text=[c["text"] for c in choices], label=[c["label"] for c in choices]))


def piqa(_):
    return dict(goal=words(3, 8), sol1=words(2, 9), sol2=words(2, 9))


def winogrande(index):
    # The blank is the first "_".
    more = " under_heaven _" if index == 11 else ""
    return dict(qID=f"made-{index}", sentence=f"{words(3, 6)} _ {words(2, 6)}{more}.",
                option1=words(1, 1), option2=words(1, 2), answer=choose.choice("12"))


def lambada(index):
    # Some are longer than the model reads.
    return dict(text=words(60, 90) if index % 5 == 4 else
                (chain if index % 2 else words)(5, 25))


def page(index):
    return dict(page=f" = {words(1, 2)} = \n \n {words(3, 9)} @-@ {words(2, 4)} , {words(1, 4)} ( "
                f"{words(1, 3)} ) \" {words(1, 2)} \" 's 1 @,@ 000 @.@ 5 . \n = = {words(1, 1)} = = \n"
                f" {words(5, 200 if index % 3 == 2 else 20)} .")


def make_model():
    folder = FOLDER / "model"
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([words(20, 40) for _ in range(300)], vocab_size=380,
                                  special_tokens=["<|endoftext|>"], show_progress=False)
    tf.PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, bos_token="<|endoftext|>",
                               eos_token="<|endoftext|>").save_pretrained(folder)
    torch.manual_seed(2)
    net = tf.GPT2LMHeadModel(tf.GPT2Config(vocab_size=380, n_embd=16, n_layer=2, n_head=2,
                                           n_positions=POSITIONS, bos_token_id=0, eos_token_id=0))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for _ in range(150):
        rows = [tokenizer.encode((chain if i % 2 else words)(99, 99)).ids[:POSITIONS - 1]
                for i in range(4)]
        ids = torch.tensor([[0] + row for row in rows])
        loss = net(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("loss of the model:", loss.item())
    net.eval().save_pretrained(folder)
    return folder


def cleaned():
    """Texts of the characters that the rules of the harness look for."""
    def module(name):
        spec = importlib.util.spec_from_file_location("cleaning", TASKS / name)
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded

    hellaswag = module("hellaswag/utils.py").preprocess
    wikitext = module("wikitext/preprocess_wikitext.py").wikitext_detokenizer
    parts = ["a", "é", " ", " ", "  ", "\n", "\u00a0", "[title]", "[", "]", "(", ")", "{", "}", "'",
             '"', "@-@", "@,@", "@.@", ":", ";", ".", "!", "?", ",", "=", "= = =", "N", "s", "°"]
    for kind, clean in ("hellaswag", hellaswag), ("wikitext", lambda t: wikitext(dict(page=t))):
        for _ in range(150):
            text = "".join(choose.choice(parts) for _ in range(choose.randint(0, 30)))
            yield dict(cleaning=kind, text=text, clean=clean(text))


def task(name, data, included=None, **settings):
    """A task of the harness on a file of this folder."""
    config = dict(task=f"made_{name}", dataset_path="json", dataset_name=None, test_split=None,
                  training_split="examples", validation_split="validation",
                  dataset_kwargs=dict(data_files={"examples": str(FOLDER / data),
                                                  "validation": str(FOLDER / data)}), **settings)
    if included:
        config["include"] = str(TASKS / included)
    return config


def metrics(*names):
    return [dict(metric=name, aggregation="mean", higher_is_better=True) for name in names]


MULTIPLE_CHOICE = metrics("acc", "acc_norm", "acc_bytes")
WRITTEN = dict(output_type="generate_until", doc_to_text="Q: {{question}}\nA:",
               doc_to_target="{{answer}}", metric_list=metrics("exact_match"),
               generation_kwargs=dict(until=["\n", "wat"], do_sample=False, max_gen_toks=12),
               filter_list=[dict(name="none", filter=[dict(function="remove_whitespace"),
                                                      dict(function="take_first")])])


def evaluate(model, config, **settings):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "task.yaml"
        path.write_text(json.dumps(config))
        result = lm_eval.simple_evaluate(
            model=model, tasks=[config["task"]], log_samples=True, bootstrap_iters=1000,
            task_manager=TaskManager(include_path=folder, include_defaults=False), **settings)
    samples = sorted(result["samples"][config["task"]], key=lambda sample: sample["doc_id"])
    found = {}
    for key, value in result["results"][config["task"]].items():
        metric = key.split(",")[0]
        if "," in key and isinstance(value, float):
            found[metric] = value
    return dict(metrics=found, documents=[
        [reply[0] if isinstance(reply, (list, tuple)) else reply for reply in sample["filtered_resps"]]
        for sample in samples])


def cases():
    """Each case: a task of the harness and the settings of its evaluation."""
    first = dict(fewshot_config=dict(sampler="first_n"))
    same_split = dict(training_split=None, validation_split=None, test_split="validation",
                      fewshot_split="validation")
    return {
        "hellaswag": (task("hellaswag", "hellaswag.jsonl", "hellaswag/hellaswag.yaml",
                           metric_list=MULTIPLE_CHOICE), {}),
        "arc": (task("arc", "arc_flat.jsonl", "arc/arc_easy.yaml", metric_list=MULTIPLE_CHOICE), {}),
        "piqa": (task("piqa", "piqa_flat.jsonl", "piqa/piqa.yaml", metric_list=MULTIPLE_CHOICE), {}),
        "winogrande": (task("winogrande", "winogrande.jsonl", "winogrande/default.yaml"), {}),
        "lambada": (task("lambada", "lambada.jsonl", "lambada/lambada_openai.yaml"), {}),
        "wikitext": (task("wikitext", "wikitext.jsonl", "wikitext/wikitext.yaml"), {}),
        "questions": (task("questions", "questions.jsonl", **WRITTEN), {}),
        "piqa_2": (dict(task("piqa2", "piqa_flat.jsonl", "piqa/piqa.yaml",
                             metric_list=MULTIPLE_CHOICE, **first), **same_split),
                   dict(num_fewshot=2)),
        "winogrande_1": (dict(task("winogrande1", "winogrande.jsonl", "winogrande/default.yaml",
                                   **first), **same_split), dict(num_fewshot=1)),
        "questions_1": (dict(task("questions1", "questions.jsonl", **first, **WRITTEN),
                             **same_split), dict(num_fewshot=1)),
    }


def main():
    folder = make_model()
    arcs = [arc(i) for i in range(12)]
    piqas = [piqa(i) for i in range(12)]
    labels = [choose.randrange(2) for _ in piqas]
    write_lines("hellaswag.jsonl", [hellaswag(i) for i in range(16)])
    write_lines("arc.jsonl", arcs)
    write_lines("arc_flat.jsonl", [flat_arc(document) for document in arcs])
    write_lines("piqa.jsonl", piqas)
    (FOLDER / "piqa-labels.lst").write_text("".join(f"{label}\n" for label in labels))
    write_lines("piqa_flat.jsonl", [dict(document, label=label)
                                    for document, label in zip(piqas, labels)])
    write_lines("winogrande.jsonl", [winogrande(i) for i in range(12)])
    write_lines("lambada.jsonl", [lambada(i) for i in range(20)])
    pages = [page(i) for i in range(9)]
    write_lines("wikitext.jsonl", pages)
    (FOLDER / "wikitext.raw").write_text("\n".join(one["page"] for one in pages))
    questions = [dict(question=chain(3, 10), answer="") for _ in range(12)]
    write_lines("questions.jsonl", questions)

    model = HFLM(pretrained=str(folder), device="cpu", dtype="float32", batch_size=1,
                 logits_cache=False)
    # Half of the questions expect the model's own text, the others random words.
    written = evaluate(model, task("questions", "questions.jsonl", **WRITTEN))["documents"]
    for question, replies in zip(questions[::2], written[::2]):
        question["answer"] = replies[0].strip()
    for question in questions[1::2]:
        question["answer"] = words(1, 2)
    write_lines("questions.jsonl", questions)

    write_lines("clean.jsonl", cleaned())
    with open(FOLDER / "expected.tsv", "w", encoding="utf-8") as out:
        for name, (config, settings) in cases().items():
            found = evaluate(model, config, **settings)
            print(name, found["metrics"])
            for metric, value in found["metrics"].items():
                print(name, "metric", metric, f"{value:.9g}", sep="\t", file=out)
            for index, replies in enumerate(found["documents"]):
                if isinstance(replies[0], str):
                    text = json.dumps(replies[0].strip(), ensure_ascii=False)
                    print(name, "written", index, text, sep="\t", file=out)
                else:
                    values = " ".join(f"{reply:.7f}" for reply in replies)
                    print(name, "document", index, values, sep="\t", file=out)


if __name__ == "__main__":
    main()
