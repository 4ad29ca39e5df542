#include "data/document_resets.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "data/token_index.h"
#include "data/token_meta.h"

namespace gptrain {
namespace {

constexpr std::int64_t looked_at = 1000;  // documents of a source

std::int32_t id_at(const TokenIndex& index, std::int64_t token) {
    const auto of = [&](auto id) {
        const std::size_t begin = static_cast<std::size_t>(token) * sizeof id;
        std::memcpy(&id, index.bin().bytes().subspan(begin, sizeof id).data(), sizeof id);
        return static_cast<std::int32_t>(id);
    };
    return index.dtype() == DType::u16 ? of(std::uint16_t{}) : of(std::int32_t{});
}

/// True if the token that ends the first document is inside a document as well.
bool ends_inside(const TokenIndex& index) {
    std::optional<std::int32_t> end;
    for (std::int64_t i = 0; i < std::min(looked_at, index.num_documents()); ++i) {
        const std::int64_t first = index.first_token(index.document_begin(i));
        const std::int64_t last = index.first_token(index.document_begin(i + 1)) - 1;
        if (last < first) continue;
        if (!end) end = id_at(index, last);
        for (std::int64_t token = first; token < last; ++token)
            if (id_at(index, token) == *end) return true;
    }
    return false;
}

enum class Contents { text, conversations, ended_conversations };

Contents contents_of(const std::filesystem::path& given) {
    try {
        const std::filesystem::path prefix = token_prefix(given);
        const std::optional<TokenMeta> meta = read_token_meta(prefix);
        if (!meta || !meta->mask) return Contents::text;
        return ends_inside(TokenIndex(prefix)) ? Contents::ended_conversations
                                               : Contents::conversations;
    } catch (const Error&) {
        return Contents::text;
    }
}

}  // namespace

DocumentResets automatic_resets(const DataSpec& data) {
    DocumentResets found;
    for (const DataSource& source : data.train) {
        const Contents contents = contents_of(source.prefix);
        const std::string prefix = source.prefix.string();
        if (contents == Contents::ended_conversations) {
            return {false, text(prefix,
                                " has the end of document inside conversations, which true "
                                "would cut apart")};
        }
        if (contents == Contents::text || found.reset) continue;
        found = {true, prefix + " holds conversations, which must not see each other"};
    }
    if (!found.reset || data.eod_id || data.tokenizer) return found;
    return {false,
            "no data.tokenizer or data.eod_id names the end of document; with one of them "
            "it is true, and conversations do not see each other"};
}

}  // namespace gptrain
