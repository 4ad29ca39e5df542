// The long texts of `gpt-preprocess --help`.
#pragma once

namespace gptrain::help {

constexpr const char* encode_description =
    R"(gpt-preprocess - turns text into token files for gptrain

  gpt-preprocess --input FILE... --tokenizer FILE --output-prefix P [options]
  gpt-preprocess chat --input FILE... --tokenizer FILE --output-prefix P [options]
  gpt-preprocess train-tokenizer --input FILE... --vocab-size N --model-prefix P [options]
  gpt-preprocess merge --input PREFIX... --output-prefix P
  gpt-preprocess import --input FILE... --tokenizer FILE --output-prefix P [options]
  gpt-preprocess inspect PREFIX [options]

Without a subcommand, encodes the corpus with a tokenizer into
P_KEY_document.bin and P_KEY_document.idx (KEY: the JSON key, "text" by default, with
_ for /), the format of Megatron's token files. The bytes are the same for every number of
workers.
P_KEY_document.meta.json next to them names the tokenizer; training with another one is
an error.)";

constexpr const char* input_section = R"(
Input:
  JSON lines have one object per line; the text is the string under the JSON key, and an
  empty one gives an empty document. Rows of Parquet are such lines, and their columns the
  keys. --documents decides how plain text is split into documents. All text is UTF-8. A byte
  order mark is dropped, CRLF ends a line as LF does, blank lines are skipped. Gzip and zstd
  files (.jsonl.gz, .txt.zst) are decompressed while reading.
  A folder stands for its .parquet, .jsonl, .json, .ndjson, .jsonlines and .txt files;
  folders whose names begin with a dot, .meta.json files and the tokenizer are left out. Of a
  downloaded data set --subset and --split choose a part: subsets are those of its README.md,
  splits also those in the names of its files. A file that is given twice is an error.
  Other formats go through a pipe:
  xzcat c.jsonl.xz | gpt-preprocess --format jsonl --input -
)";

constexpr const char* output_section = R"(
Output:
  The ids are 16 bits wide if the tokenizer has fewer than 65,500 pieces, else 32. The
  files appear, or replace older ones, only when complete; a run that fails or is
  interrupted leaves nothing behind. Memory is bounded by the workers' buffers, whatever
  the size of the corpus: for each up to 40 MiB and some copies of the longest document. These
  are up to 50 copies of a document without blanks, and 60 of any document for models that join
  words or prepend a space.

Several processes:
  mpirun -n N gpt-preprocess ... (or srun) divides the files among N processes, which may run on
  several machines with a common file system, and writes the same bytes as one process. Parquet
  files are split between row groups, others never. While their tokens are joined, the disk
  holds them, and those of one process twice.
)";

constexpr const char* faults_section = R"(
Faulty documents:
  Invalid UTF-8, invalid JSON, a missing key, a value that is not a string, too many bytes,
  a last line that is cut off. Each is reported with file, line and byte offset (of a
  compressed file: decompressed), or the row, from 0. Damaged Parquet, gzip and zstd files,
  other compression formats and UTF-16 are always errors, regardless of --on-error.
)";

constexpr const char* exit_section = R"(
Exit status:
  0 done; 1 a bug; 2 usage; 3 a bad input file; 5 input or output failed (disk full, lost
  file)

  One error is one line on stderr.
)";

constexpr const char* examples_section = R"(
Examples:
  gpt-preprocess train-tokenizer --input book.txt --vocab-size 8000 --model-prefix book
  gpt-preprocess --input book.txt --tokenizer book.json --output-prefix book --append-eod
  gpt-preprocess --input a.jsonl b.jsonl --tokenizer tokenizer.json --output-prefix data/ab \
      --append-eod --on-error skip
  gpt-preprocess inspect book_text_document --tokenizer book.json)";

constexpr const char* chat_description =
    R"(Turns conversations into token files, of which a model learns only the assistant's turns

  gpt-preprocess chat --input FILE... --tokenizer FILE --output-prefix P [options]

Writes P_text_document.bin, .idx and .meta.json, P_text_document.mask, which marks the learned
tokens, P_text_document.weights if some of them count less than 1, and
P_text_document.chat_template.jinja, the template that was used. Training and gptrain
eval find and use the mask; training stores the template in its checkpoints.)";

constexpr const char* chat_section = R"(
Input:
  One JSON object per line, or one row of Parquet:
  {"messages": [{"role": "user", "content": "..."}, ...]},
  {"prompt": "...", "response": "..."}, a conversation of ShareGPT ("conversations", "from",
  "value") or of Alpaca ("instruction", "input", "output"). The chat template makes one text of
  it. Without a template a prompt and its response follow each other, and other forms are an
  error. The "weight" of a message of the assistant is how much it counts: a number from 0, with
  which it is not learned, to 1. "tools", "documents" and "chat_template_kwargs" go to the template,
  which must use them and all keys of the messages.

Learned:
  What the template marks with {% generation %}, or else what it adds to the generation prompt
  for each message of the assistant where it is the last, the mark that ends its turn included. If
  the template writes earlier messages otherwise, a conversation becomes several documents. The
  end-of-document id follows each document and is learned if the text before it is.

Faulty documents:
  Lines that are not JSON, messages without a role or content, a conversation or response with
  nothing to learn, a conversation that the template refuses, or reasoning that it leaves out. Each
  is reported with file, line and byte offset.

Several processes:
  mpirun -n N gpt-preprocess chat ... (or srun) divides the files among N processes.
)";

constexpr const char* chat_examples = R"(
Examples:
  gpt-preprocess chat --input chats.jsonl --tokenizer SmolLM2-135M --output-prefix data/chats
  gpt-preprocess chat --input qa.jsonl.zst --tokenizer book.json --template chatml \
      --prompt-key question --response-key answer --output-prefix data/qa
  gpt-preprocess inspect data/chats_text_document --tokenizer SmolLM2-135M)";

constexpr const char* train_description =
    R"(Trains a lossless tokenizer and writes MODEL-PREFIX.json, or MODEL-PREFIX.model for sentencepiece

byte-bpe writes a tokenizer.json, which other programs read as well. Ids: 256 bytes, then the
merges, then <|endoftext|>, the end of document.
bpe and unigram write sentencepiece models. Ids: 0 unknown, 1 begin, 2 end of document, then
256 bytes, then the learned pieces.
Text is not normalized and spaces are kept, so decoding restores every text exactly. The same
input gives the same file on any machine.)";

constexpr const char* merge_description =
    R"(Joins token files made with one tokenizer, in the order given, into P.bin and P.idx; also
P.meta.json if every input has one. Either all inputs or none have a .mask. A chat template must be
the same in all inputs that have one.)";

constexpr const char* import_description =
    R"(Converts token files of llm.c, modded-nanogpt and nanoGPT into P.bin, P.idx and P.meta.json

The files follow each other, and a document may go on from one to the next. The tokenizer's
end-of-document id divides the documents, before each of them or behind it, and ends each in the
result. An id that the tokenizer does not have is an error.)";

constexpr const char* inspect_description =
    R"(Prints the contents of token files: counts, a histogram of document lengths, a sample)";

constexpr const char* help_description =
    R"(Shows all options, for a shell's completion or as a man page)";

constexpr const char* see_also_section =
    "gptrain(1), mpirun(1), and the pages in share/doc/gptrain.";

}  // namespace gptrain::help
