// Turns lines of JSON, a conversation each, into documents of which a model learns what the
// assistant says.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chat/chat_line_forms.h"
#include "chat/conversation.h"
#include "text/documents.h"
#include "tokenizer/marked_text.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {

struct ChatLineOptions {
    /// A NamedTemplate's name or a file; empty: the template next to the tokenizer, if there is
    /// one.
    std::string chat_template;
    ChatLineKeys keys;
};

/// A document's ids, its end of document included, and 1 for each that is learned.
struct ChatDocument {
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> learned;
    /// The weight of each, 0 where `learned` is; empty if no message has one below 1.
    std::vector<float> weights = {};
    /// The end-of-document id also occurs earlier, because the template writes it after each turn.
    bool ends_inside = false;
};

/// The documents of a line, in the order of the messages that they learn (render_learned).
struct ChatDocuments {
    std::vector<ChatDocument> documents;
    std::set<std::string> unread_keys{};  ///< keys of the line that nothing was read of
};

/// Makes documents of lines. All members are const and thread-safe.
class ChatEncoder {
public:
    /// Reads the template. Error (usage): there is none of that name, or the tokenizer has no
    /// end-of-document id; (bad_input): a faulty template or tokenizer_config.json.
    ChatEncoder(const ChatLineOptions& options, const TokenizerFile& file,
                const Tokenizer& tokenizer);

    /// The documents of a line in one of the forms of read_chat_line, or its fault. Without a
    /// template, prompt and response follow each other; another form is then an Error (usage) that
    /// names `place`. The end-of-document id follows every document that has not ended with it, and
    /// is learned if the text before it is.
    std::optional<FaultyDocument> encode(Record& record, const CorpusFormat& format,
                                         const std::string& place, ChatDocuments& documents) const;

    /// The template, which makes the same texts of conversations wherever it is used with the
    /// tokenizer: first it sets the tokens that it has from its name alone. Empty if there is none.
    std::string template_text() const;

private:
    void open_template(const TokenizerFile& file);
    void read_config(const std::filesystem::path& folder);
    std::vector<LearnedText> texts_of(const ChatLine& line, const std::string& place) const;
    std::vector<LearnedText> conversation_texts(const ChatLine& line) const;
    /// True if the template can at least render a question and its answer.
    bool renders_answers(const Json& line_variables) const;
    ChatDocument document_of(const LearnedText& text) const;

    const ChatLineOptions& options_;
    const Tokenizer& tokenizer_;
    std::int32_t end_of_document_ = 0;
    std::optional<ChatTemplate> template_;
    std::string template_name_;
    std::optional<MarkedEncoder> marked_;
    std::string own_template_;  ///< in tokenizer_config.json
    std::string own_template_source_;
    std::string bos_token_;  ///< in tokenizer_config.json; may be empty
    std::string eos_token_;
    Json variables_ = Json::object();
};

}  // namespace gptrain
