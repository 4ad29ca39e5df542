// A chat template: parsed and, if it is accepted, rendered for conversations.
#include <string>

#include "base/utf8.h"
#include "chat/chat_template.h"
#include "fuzz/target.h"

using namespace gptrain;

namespace {

const Json conversations = Json::array(
    {Json::array(), Json::array({{{"role", "user"}, {"content", " Hi \xE4\xBD\xA0 "}}}),
     Json::array({{{"role", "system"}, {"content", ""}},
                  {{"role", "user"}, {"content", "<think>a</think>b"}},
                  {{"role", "assistant"}, {"content", "c"}, {"n", -3}, {"list", {1, "x", nullptr}}},
                  {{"role", "user"}, {"content", "d"}}})});

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const std::string_view text = test::as_text(bytes, size);
    test::accepts(ExitCode::bad_input, "template:", [&] {
        const ChatTemplate chat(text, "template");
        for (const Json& messages : conversations) {
            test::accepts(ExitCode::bad_input, "template: line ", [&] {
                const std::string rendered =
                    chat.render(messages, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, true);
                GPTRAIN_CHECK(find_invalid_utf8(rendered) == std::string::npos);
            });
        }
    });
    return 0;
}
