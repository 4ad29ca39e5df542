#include "chunk_encoder.h"

#include <algorithm>
#include <utility>

#include "unread_keys.h"

namespace gptrain {
namespace {

/// Adds the weights of a document behind those of the ids so far.
void add_weights(const ChatDocument& document, EncodedChunk& encoded) {
    if (document.weights.empty() && encoded.weights.empty()) return;
    if (encoded.weights.empty())
        encoded.weights.assign(encoded.learned.begin(), encoded.learned.end());
    if (document.weights.empty()) {
        encoded.weights.insert(encoded.weights.end(), document.learned.begin(),
                               document.learned.end());
    } else {
        encoded.weights.insert(encoded.weights.end(), document.weights.begin(),
                               document.weights.end());
    }
}

}  // namespace

EncodedChunk ChunkEncoder::operator()(Chunk chunk) const {
    const std::string& path = options_.corpus.inputs[chunk.file];
    const CorpusFormat format = format_of(path, options_.corpus);
    EncodedChunk encoded;
    encoded.bytes = chunk.bytes;
    for (Record& record : chunk.records) {
        auto fault = chat_ != nullptr ? add_conversation(record, format, path, encoded)
                                      : add_text(record, format, encoded);
        if (!fault) continue;
        encoded.faults.push_back(locate(std::move(*fault), path, record));
        if (!options_.corpus.skip_faulty) break;
    }
    return encoded;
}

std::optional<FaultyDocument> ChunkEncoder::add_text(Record& record, const CorpusFormat& format,
                                                     EncodedChunk& encoded) const {
    std::string text;
    auto fault = take_document(record, format, text);
    if (!fault) add_document(text, encoded);
    return fault;
}

std::optional<FaultyDocument> ChunkEncoder::add_conversation(Record& record,
                                                             const CorpusFormat& format,
                                                             const std::string& path,
                                                             EncodedChunk& encoded) const {
    ChatDocuments line;
    auto fault = chat_->encode(record, format, place_of(record, path), line);
    if (fault) return fault;
    for (const ChatDocument& document : line.documents) {
        add_weights(document, encoded);
        encoded.ids.insert(encoded.ids.end(), document.ids.begin(), document.ids.end());
        encoded.learned.insert(encoded.learned.end(), document.learned.begin(),
                               document.learned.end());
        encoded.lengths.push_back(document.ids.size());
        encoded.ended_inside += document.ends_inside ? 1 : 0;
    }
    encoded.repeating += line.documents.size() > 1 ? 1 : 0;
    add_unread_keys(std::move(line.unread_keys), encoded.unread_keys);
    return std::nullopt;
}

void ChunkEncoder::add_document(const std::string& text, EncodedChunk& encoded) const {
    const std::size_t begin = encoded.ids.size();
    tokenizer_.encode(text, encoded.ids);
    if (end_of_document_ && encoded.ids.size() > begin) {
        const auto first = encoded.ids.begin() + static_cast<std::ptrdiff_t>(begin);
        const bool inside =
            std::find(first, encoded.ids.end(), *end_of_document_) != encoded.ids.end();
        encoded.ended_inside += inside ? 1 : 0;
        encoded.ids.push_back(*end_of_document_);
    }
    encoded.lengths.push_back(encoded.ids.size() - begin);
}

}  // namespace gptrain
