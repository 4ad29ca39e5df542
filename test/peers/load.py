#!/usr/bin/env python3
"""gptrain serve under load: 64 clients at a time, among them some that go away in the middle of an
answer, hang within a request, or send garbage. Every good request gets exactly its answer, and the
others leave nothing behind.

    test/peers/load.py [--minutes N]

Resident memory after a quarter of the time, when every buffer has its size, is compared with that
at the end. It may grow by 8 MiB, because arenas of malloc take more of their pages in time.
"""

import collections
import json
import random
import socket
import threading
import time

import support

CLIENTS = 64
GOOD = [dict(prompt=[31 * i, 17 * i], max_tokens=5 + 7 * i, seed=i) for i in range(8)]
LONG = dict(prompt=[1], max_tokens=250)
GROWTH = 8  # MiB

SPEC = """
name: load
output_dir: run
model: {num_layers: 2, hidden_size: 16, num_attention_heads: 2, vocab_size: 300,
        position_embedding: rope, max_position_embeddings: 256}
data: {train: [{prefix: text_text_document}], split: "80,20,0", tokenizer: text.json, num_samples: 60}
training: {seq_length: 16, micro_batch_size: 1, global_batch_size: 2, steps: 5, eval_interval: 0}
optimizer: {lr: 0.01}
device: cpu
"""


def make_model(proof):
    """A checkpoint of a small model; what it writes does not matter, but it is always the same."""
    choose = random.Random(1)
    words = "and the earth was without form void darkness upon face deep light day".split()
    text = "\n\n".join(" ".join(choose.choices(words, k=40)) for _ in range(400))
    (proof.work / "text.txt").write_text(text, encoding="ascii")
    proof.run(proof.preprocess, "train-tokenizer", "--input", "text.txt", "--vocab-size", "300",
              "--model-prefix", "text")
    proof.run(proof.preprocess, "--input", "text.txt", "--tokenizer", "text.json",
              "--output-prefix", "text", "--append-eod")
    (proof.work / "run.yaml").write_text(SPEC, encoding="ascii")
    proof.run(proof.gptrain, "--config", "run.yaml")
    return proof.work / "run"


def request(body):
    """The bytes of a request for a completion."""
    data = json.dumps(body).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(data)) + data


class Client(threading.Thread):
    """Sends one request after the other until the end, and counts what becomes of them."""

    def __init__(self, server, number, end, expected):
        super().__init__()
        self.server, self.number, self.end, self.expected = server, number, end, expected
        self.choose = random.Random(number)
        self.counts = collections.Counter()
        self.wrong = []

    def run(self):
        kinds = [self.leave, self.leave_stream, self.garbage, self.hang, self.broken, self.too_much,
                 self.stream, self.good, self.good, self.good, self.good, self.good]
        turn = 0
        while time.monotonic() < self.end:
            kind = kinds[(self.number * 7 + turn) % len(kinds)]
            turn += 1
            self.counts["sent" if kind in (self.good, self.stream) else kind.__name__] += 1
            try:
                kind()
            except OSError as error:
                if kind in (self.good, self.stream, self.broken, self.too_much):
                    self.wrong.append(f"{kind.__name__}: {error!r}")

    def send(self, data, seconds):
        """Sends bytes and goes away, whatever has come back by then."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as connection:
            connection.sendall(data)
            time.sleep(seconds)

    def leave(self):
        self.send(request(dict(LONG, n=4)), 0.02)

    def leave_stream(self):
        self.send(request(dict(LONG, stream=True)), 0.05)

    def garbage(self):
        self.send(self.choose.randbytes(300), 0)

    def hang(self):
        self.send(request(LONG)[:-8], self.choose.choice([0.1, 1, 4]))

    def refused(self, body, *statuses):
        status, answer = self.server.ask("/v1/completions", body)
        if status not in statuses or answer["error"]["code"] != status:
            self.wrong.append(f"status {status} for {body}: {answer}")

    def broken(self):
        self.refused({"prompt": [-1]}, 400)

    def too_much(self):
        self.refused(dict(LONG, max_tokens=9999), 400)

    def finish(self, status, kind, text):
        """Counts a good request: answered, or turned away because too many answers wait."""
        if status == 429:
            self.counts["busy"] += 1
        elif status == 200 and text == self.expected[kind]:
            self.counts["right"] += 1
        else:
            self.wrong.append(f"status {status}, {text!r} instead of {self.expected[kind]!r}")

    def good(self):
        kind = self.choose.randrange(len(GOOD))
        status, answer = self.server.ask("/v1/completions", GOOD[kind])
        self.finish(status, kind, answer["choices"][0]["text"] if status == 200 else answer)

    def stream(self):
        kind = self.choose.randrange(len(GOOD))
        status, text = self.server.ask("/v1/completions", dict(GOOD[kind], stream=True))
        if status == 200:
            events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
            ended = events and events.pop() == "[DONE]"
            text = "".join(json.loads(event)["choices"][0]["text"] for event in events)
            text = text if ended else text + " without an end"
        self.finish(status, kind, text)


def run_clients(server, seconds, expected):
    clients = [Client(server, number, time.monotonic() + seconds, expected)
               for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return (sum((client.counts for client in clients), collections.Counter()),
            [wrong for client in clients for wrong in client.wrong])


def idle(server):
    """The answers that run or wait, as soon as there are none, else after ten seconds."""
    for _ in range(100):
        left = server.metric("gptrain_answers_running") + server.metric("gptrain_answers_waiting")
        if left == 0:
            break
        time.sleep(0.1)
    return left


def prove(proof):
    seconds = 60 * proof.options.minutes
    options = ("--answers", "24", "--context", "256", "--waiting", "200", "--read-seconds", "3")
    with proof.server(make_model(proof), *options) as server:
        def answer(body):
            return server.ask("/v1/completions", body)[1]["choices"][0]["text"]

        expected = [answer(body) for body in GOOD]
        counts, wrong = run_clients(server, seconds / 4, expected)
        left = idle(server)
        first = server.resident()
        more, more_wrong = run_clients(server, seconds * 3 / 4, expected)
        left += idle(server)
        last = server.resident()
        counts += more
        wrong += more_wrong

        answered = counts["right"] + counts["busy"]
        proof.claim(not wrong and answered == counts["sent"] and counts["right"] >= CLIENTS,
                    f"{CLIENTS} clients, {seconds:.0f} s: every good request gets its answer",
                    f"{counts['right']} of {counts['sent']} right, {counts['busy']} turned away with "
                    f"429" + "".join(f"; {text[:200]}" for text in wrong[:3]))
        disconnects = server.metric("gptrain_disconnects_total")
        proof.claim(left == 0 and disconnects > 0, "the others leave nothing behind",
                    f"{counts['leave'] + counts['leave_stream']} gone, {counts['hang']} hanging, "
                    f"{counts['garbage']} with garbage; {disconnects:.0f} disconnects seen, "
                    f"{left:.0f} answers left")
        status, health = server.ask("/health")
        proof.claim((status, health) == (200, {"status": "ok"}), "/health is fine",
                    f"status {status}, {health}")
        proof.claim(last - first < GROWTH, f"resident memory grows by less than {GROWTH} MiB",
                    f"{first:.1f} MiB after {seconds / 4:.0f} s, {last:.1f} MiB at the end")
        same = [answer(body) for body in GOOD] == expected
        proof.claim(same, "the same prompts have the same answers as before",
                    f"{len(GOOD)} prompts")


support.main("load", __doc__, prove,
             ("--minutes", dict(type=float, default=10, help="how long clients ask (10)")))
