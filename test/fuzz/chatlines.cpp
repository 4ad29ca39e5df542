// A line of JSON with a conversation, for templates without and with {% generation %}, for one that
// writes the last message otherwise, and for none.
#include <algorithm>
#include <vector>

#include "chat/chat_lines.h"
#include "fuzz/target.h"
#include "support/temp_folder.h"
#include "tokenizer/train_tokenizer.h"

using namespace gptrain;

namespace {

struct Encoders {
    test::TempFolder folder;
    TokenizerFile file;
    Tokenizer tokenizer;
    std::vector<ChatLineOptions> options;
    std::vector<ChatEncoder> encoders;

    Encoders() : file(trained()), tokenizer(file) {
        test::fill(folder / "tags.jinja",
                   "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}"
                   "{{ m.content }}{% endgeneration %}{% else %}{{ m.content | trim }}{% endif %}|"
                   "{% endfor %}");
        test::fill(folder / "last.jinja",
                   "{% for m in messages %}<{{ m.role }}>"
                   "{% if loop.last and m.role == 'assistant' %}!{% endif %}"
                   "{{ m.content }}{% endfor %}"
                   "{% if add_generation_prompt %}<assistant>{% endif %}");
        options.resize(4);
        options[1].chat_template = "mistral";
        options[2].chat_template = (folder / "tags.jinja").string();
        options[3].chat_template = (folder / "last.jinja").string();
        for (const ChatLineOptions& one : options)
            encoders.emplace_back(one, file, tokenizer);
    }

    static TokenizerFile trained() {
        int documents = 0;
        std::string bytes =
            train_tokenizer({.vocab_size = 262, .kind = TokenizerTraining::Kind::byte_bpe},
                            [&](std::string& document) {
                                document = "the light and the darkness";
                                return documents++ < 2;
                            });
        return {.bytes = std::move(bytes), .source = "tokenizer", .eos_token = ""};
    }
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const Encoders all;
    const CorpusFormat format = {.json_lines = true};
    for (const ChatEncoder& encoder : all.encoders) {
        Record record;
        record.bytes = test::as_text(bytes, size);
        ChatDocuments line;
        std::optional<FaultyDocument> fault;
        // Only a conversation without a template is an Error: of the command line.
        const bool encoded = test::accepts(ExitCode::usage, "a.jsonl:1:", [&] {
            fault = encoder.encode(record, format, "a.jsonl:1", line);
        });
        if (!encoded) continue;
        if (fault) {
            GPTRAIN_CHECK(!fault->what.empty() && fault->what.size() <= 4096);
            test::note_refusal(fault->what);
            continue;
        }
        GPTRAIN_CHECK(!line.documents.empty());
        for (const ChatDocument& document : line.documents) {
            GPTRAIN_CHECK(document.ids.size() == document.learned.size());
            GPTRAIN_CHECK(document.ids.back() == all.tokenizer.eos_id());
        }
    }
    return 0;
}
