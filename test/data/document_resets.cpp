// data.reset_at_eod: auto, by the token files.
#include "data/document_resets.h"

#include "catch.h"
#include "data/indexed_writer.h"
#include "data/token_files.h"

namespace gptrain {
namespace {

using namespace test;

constexpr std::int32_t end_token = 9;

/// Documents that end with one token, with a loss mask or without.
void write_documents(const std::filesystem::path& prefix, const Sequences& documents, bool masked,
                     DType dtype = DType::u16) {
    IndexedWriter writer(prefix, dtype, masked);
    for (std::vector<std::int32_t> ids : documents) {
        ids.push_back(end_token);
        writer.add_sequence(ids, std::vector<std::uint8_t>(masked ? ids.size() : 0, 1));
        writer.end_document();
    }
    writer.commit(TokenMeta{.tokenizer_file = "tok.json",
                            .tokenizer_crc32c = 7,
                            .vocab_size = 1000,
                            .append_eod = true,
                            .documents = 0,
                            .tokens = 0,
                            .program = "gptrain test"});
}

TEST_CASE("conversations do not see each other, unless their turns end as documents do") {
    const TempFolder folder;
    const Sequences documents = {{1, 2, 3}, {4}, {5, 6}};
    write_documents(folder / "chat", documents, true);
    write_documents(folder / "wide", documents, true, DType::i32);
    write_documents(folder / "plain", documents, false);
    Sequences ended = documents;
    ended[2] = {5, end_token, 6};
    write_documents(folder / "ended", ended, true);
    write_documents(folder / "ended_wide", ended, true, DType::i32);
    write_documents(folder / "damaged", documents, true);
    fill((folder / "damaged").string() + ".meta.json", "{");
    struct Case {
        std::vector<std::string> sources;
        bool reset;
        std::string reason;  // a part of it
    };
    const Case cases[] = {
        {{"chat"}, true, "chat holds conversations"},
        {{"wide"}, true, "wide holds conversations"},
        {{"plain"}, false, ""},
        {{"plain", "chat"}, true, "chat holds conversations"},
        {{"ended"}, false, "ended has the end of document inside conversations"},
        {{"chat", "ended_wide"}, false, "ended_wide has the end of document inside"},
        {{"absent"}, false, ""},
        {{"damaged"}, false, ""},
        {{"absent", "chat"}, true, "chat holds conversations"},
    };
    for (const Case& one : cases) {
        DataSpec data;
        for (const std::string& source : one.sources)
            data.train.push_back({folder / source, 1.0});
        CAPTURE(one.sources);
        CHECK_FALSE(automatic_resets(data).reset);  // nothing names the end of document
        const bool unnamed = contains(automatic_resets(data).reason, "no data.tokenizer");
        CHECK(unnamed == one.reset);
        data.eod_id = end_token;
        const DocumentResets found = automatic_resets(data);
        CHECK(found.reset == one.reset);
        CHECK(contains(found.reason, one.reason));
        CHECK(found.reason.empty() == one.reason.empty());
        data.eod_id.reset();
        data.tokenizer = "tok.json";
        CHECK(automatic_resets(data).reset == one.reset);
    }
}

}  // namespace
}  // namespace gptrain
