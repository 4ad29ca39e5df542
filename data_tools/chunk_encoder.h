// The documents of a part of the input, as token ids.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "commands.h"
#include "fault_log.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {

/// The token ids of a chunk's documents.
struct EncodedChunk {
    std::int64_t bytes = 0;
    std::vector<std::int32_t> ids;      // of all documents, concatenated
    std::vector<std::uint8_t> learned;  // 1 or 0 for each id of conversations, else empty
    std::vector<float> weights;         // of all ids if a message has a weight below 1, else empty
    std::vector<std::size_t> lengths;   // one per document
    std::int64_t ended_inside = 0;      // documents with an end of document before their end
    std::int64_t repeating = 0;         // conversations that became several documents
    std::vector<LocatedFault> faults;
    std::set<std::string> unread_keys;  // of lines with conversations
};

/// Encodes texts or, with `chat`, conversations. The references must outlive it; threads may share
/// it.
class ChunkEncoder {
public:
    ChunkEncoder(const EncodeOptions& options, const Tokenizer& tokenizer,
                 std::optional<std::int32_t> end_of_document, const ChatEncoder* chat)
        : options_(options),
          tokenizer_(tokenizer),
          end_of_document_(end_of_document),
          chat_(chat) {}

    EncodedChunk operator()(Chunk chunk) const;

private:
    std::optional<FaultyDocument> add_text(Record& record, const CorpusFormat& format,
                                           EncodedChunk& encoded) const;
    std::optional<FaultyDocument> add_conversation(Record& record, const CorpusFormat& format,
                                                   const std::string& path,
                                                   EncodedChunk& encoded) const;
    void add_document(const std::string& text, EncodedChunk& encoded) const;

    const EncodeOptions& options_;
    const Tokenizer& tokenizer_;
    std::optional<std::int32_t> end_of_document_;
    const ChatEncoder* chat_;
};

}  // namespace gptrain
