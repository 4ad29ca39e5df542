"""Shared by the proofs of this folder: the programs, a server, and claims."""

import argparse
import contextlib
import importlib.metadata
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]


class NotRun(Exception):
    """Something that the proof needs is missing."""


class Proof:
    """The parts of every proof: its options, the programs, a folder to work in, and its claims."""

    def __init__(self, name, options, work):
        self.name = name
        self.options = options
        self.work = pathlib.Path(work)
        self.gptrain = options.build / "app/gptrain"
        self.preprocess = options.build / "data_tools/gpt-preprocess"
        self.failed = 0

    def find_programs(self):
        for program in (self.gptrain, self.preprocess):
            if not program.exists():
                raise NotRun(f"there is no {program}; build it first: "
                             "cmake --preset cpu && cmake --build --preset cpu")

    def claim(self, passed, claim, figure):
        """One line of the result: whether it holds, what is claimed and what was found."""
        self.failed += not passed
        print(f"{'pass' if passed else 'FAIL'}  {self.name}: {claim}: {figure}", flush=True)

    def run(self, *command):
        """The stdout of a program, which has to end well."""
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              cwd=self.work)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {' '.join(map(str, command))}\n"
                               f"{done.stderr[-2000:]}")
        return done.stdout

    @contextlib.contextmanager
    def server(self, checkpoint, *options):
        """A running gptrain serve, which is then asked to stop and has to exit 0."""
        log = self.work / "server.log"
        with open(log, "w", encoding="utf-8") as out:
            process = subprocess.Popen([self.gptrain, "serve", "--checkpoint", checkpoint, "--port",
                                        "0", *options], stdout=out, stderr=out)
        try:
            yield Server(process, log)
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
            self.claim(code == 0, "the server stops when it is asked to", f"exit code {code}")
        finally:
            process.kill()
            process.wait()


class Server:
    def __init__(self, process, log):
        for _ in range(600):
            found = re.search(r"at (http://\S+:\d+)/", log.read_text(encoding="utf-8"))
            if found or process.poll() is not None:
                break
            time.sleep(0.1)
        if not found:
            raise RuntimeError("the server does not start: " + log.read_text(encoding="utf-8"))
        self.url = found.group(1)

    def ask(self, path, body=None, timeout=60):
        """Status and answer; the answer is text if it is not JSON."""
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(self.url + path, data, timeout) as reply:
                status, text = reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        try:
            return status, json.loads(text)
        except json.JSONDecodeError:
            return status, text


def versions(*packages):
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)


def main(name, description, prove, **paths):
    """Runs prove(Proof): exit code 1 if a claim fails, 77 with a reason if it could not run. `paths`:
    more options that take a path, with their help."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/cpu",
                        help="the build folder (build/cpu)")
    for option, words in paths.items():
        parser.add_argument(f"--{option}", type=pathlib.Path, help=words)
    options = parser.parse_args()
    options.build = options.build.resolve()
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    with tempfile.TemporaryDirectory(prefix="gptrain-peers-") as work:
        proof = Proof(name, options, work)
        code = 0
        try:
            proof.find_programs()
            prove(proof)
        except (NotRun, ImportError) as reason:
            print(f"not run  {name}: {reason}")
            code = 77
    sys.exit(1 if proof.failed else code)
