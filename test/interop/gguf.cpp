// Models and tokenizers as GGUF. That llama.cpp computes the same is shown outside of this suite
// (docs/interop.md); here the files are taken apart.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "catch.h"
#include "interop/export_gguf.h"
#include "interop/gguf_model.h"
#include "interop/hf_folder.h"
#include "support/temp_folder.h"
#include "tokenizer/split_patterns.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/train_tokenizer.h"

namespace gptrain {
namespace {

const std::filesystem::path models = std::filesystem::path(GPTRAIN_TEST_DATA) / "models";

void write(const HfFolder& folder, const std::filesystem::path& to, DType dtype = DType::f32,
           const GgufTokenizer& tokenizer = {}) {
    write_gguf_model(
        to, {.model = folder.shape(), .tokenizer = tokenizer, .name = "test", .dtype = dtype},
        [&](const Shard& part, std::span<float> values) { folder.read(part, values); });
}

/// A key as it is written, with the type and the bytes of its value.
template <class T>
std::string entry(const std::string& key, std::uint32_t type, T value) {
    std::string bytes = key;
    bytes.append(reinterpret_cast<const char*>(&type), sizeof type);
    return bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string size_entry(const std::string& key, std::uint32_t value) {
    return entry(key, 4, value);
}
std::string number_entry(const std::string& key, float value) {
    return entry(key, 6, value);
}
std::string flag_entry(const std::string& key, bool value) {
    return entry(key, 7, value);
}
std::string text_entry(const std::string& key, const std::string& value) {
    return entry(key, 8, std::uint64_t{value.size()}) + value;
}

std::vector<float> floats_of(std::span<const std::byte> bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

TEST_CASE("a model comes back from a GGUF file, bit for bit") {
    for (const std::string name :
         {"gpt2", "llama", "llama_biases", "llama_tied", "ministral", "mistral_window", "qwen2",
          "qwen3", "stablelm", "starcoder2_untied"}) {
        for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
            INFO(name << " " << name_of(dtype));
            const test::TempFolder out;
            const HfFolder folder(models / name);
            write(folder, out / "model.gguf", dtype);
            const GgufModel back(out / "model.gguf", folder.shape());
            const auto ours = [&](const Shard& part, std::span<float> to) {
                folder.read(part, to);
            };
            back.check(ours);
            const auto changed = [&](const Shard& part, std::span<float> to) {
                folder.read(part, to);
                to.back() += 1;
            };
            CHECK(test::contains(test::message_of(ExitCode::bug, [&] { back.check(changed); }),
                                 "was not read back as it was written"));
        }
    }
}

TEST_CASE("the rows of q and k of a Llama are those of its folder, interleaved") {
    const test::TempFolder out;
    const HfFolder folder(models / "llama_biases");
    write(folder, out / "model.gguf");
    const GgufFile file(out / "model.gguf");
    const SafetensorsFile source(models / "llama_biases" / "model.safetensors");
    for (const std::string of : {"q", "k"}) {
        for (const std::string kind : {"weight", "bias"}) {
            const auto theirs = floats_of(file.tensor("blk.1.attn_" + of + "." + kind).bytes);
            const auto& entry =
                source.tensors().find("model.layers.1.self_attn." + of + "_proj." + kind)->second;
            const auto ours = floats_of(source.bytes_of(entry));
            const auto dim = folder.shape().head_dim;
            const std::int64_t columns = std::ssize(ours) / entry.shape[0];
            bool equal = theirs.size() == ours.size();
            // As in reshape(heads, 2, dim / 2, columns), then the two dims in the middle swapped.
            for (std::int64_t row = 0; row < entry.shape[0]; ++row) {
                const std::int64_t feature = row % dim;
                const std::int64_t source_row =
                    row - feature + feature % 2 * (dim / 2) + feature / 2;
                equal = equal && std::equal(theirs.begin() + row * columns,
                                            theirs.begin() + (row + 1) * columns,
                                            ours.begin() + source_row * columns);
            }
            CHECK(equal);
        }
    }
}

TEST_CASE("the keys of a model are those that llama.cpp reads") {
    const test::TempFolder out;
    const auto file_of = [&](const std::string& name) {
        write(HfFolder(models / name), out / name);
        return test::contents(out / name);
    };
    const std::string llama = file_of("llama3");
    CHECK(test::contains(llama, text_entry("general.architecture", "llama")));
    CHECK(test::contains(llama, size_entry("llama.block_count", 2)));
    CHECK(test::contains(llama, size_entry("llama.context_length", 32)));
    CHECK(test::contains(llama, size_entry("llama.attention.head_count_kv", 2)));
    CHECK(test::contains(llama, size_entry("llama.attention.key_length", 8)));
    CHECK(test::contains(llama, number_entry("llama.rope.freq_base", 500)));
    CHECK(test::contains(llama, number_entry("llama.attention.layer_norm_rms_epsilon", 1e-6F)));
    CHECK(test::contains(llama, text_entry("tokenizer.ggml.model", "none")));
    CHECK(!test::contains(llama, "rope.scaling"));
    // 500^(-2 i / 8) over the frequencies of transformers (ROPE_INIT_FUNCTIONS["llama3"]).
    const auto factors = floats_of(GgufFile(out / "llama3").tensor("rope_freqs.weight").bytes);
    REQUIRE(factors.size() == 4);
    CHECK(factors[0] == Approx(1.73594125F));
    CHECK(factors[3] == Approx(8.0F));

    const std::string mistral = file_of("mistral_window");
    CHECK(test::contains(mistral, text_entry("general.architecture", "llama")));
    CHECK(test::contains(mistral, size_entry("llama.context_length", 5)));
    const std::string qwen = file_of("qwen2");
    CHECK(test::contains(qwen, text_entry("qwen2.rope.scaling.type", "yarn")));
    CHECK(test::contains(qwen, number_entry("qwen2.rope.scaling.factor", 4)));
    CHECK(test::contains(qwen, size_entry("qwen2.rope.scaling.original_context_length", 8)));
    const std::string stablelm = file_of("stablelm");
    CHECK(test::contains(stablelm, flag_entry("stablelm.use_parallel_residual", false)));
    file_of("gpt2");
    CHECK(GgufFile(out / "gpt2").tensor("blk.0.attn_qkv.weight").shape ==
          std::vector<std::int64_t>{48, 16});
}

TEST_CASE("a file whose keys are not those of the model is an error that names the key") {
    const auto fault = [](const std::string& name, const auto& change) {
        const test::TempFolder out;
        const HfFolder folder(models / name);
        write(folder, out / "model.gguf");
        ModelShape other = folder.shape();
        change(other);
        const GgufModel back(out / "model.gguf", other);
        return test::message_of(ExitCode::bug, [&] {
            back.check([&](const Shard& part, std::span<float> to) { folder.read(part, to); });
        });
    };
    CHECK(test::contains(fault("llama3", [](ModelShape& model) { model.rope_theta = 1e4; }),
                         "llama.rope.freq_base 10000 was read back as 500"));
    CHECK(test::contains(fault("llama3", [](ModelShape& model) { model.rope_scaling->factor = 4; }),
                         "rope_freqs.weight was not read back as it was written"));
    CHECK(test::contains(fault("qwen2", [](ModelShape& model) { model.rope_scaling->factor = 2; }),
                         "qwen2.rope.scaling.factor 2 was read back as 4"));
    CHECK(test::contains(fault("qwen2", [](ModelShape& model) { model.rope_scaling.reset(); }),
                         "qwen2.rope.scaling.type was read back"));
    CHECK(test::contains(
        fault("qwen2", [](ModelShape& model) { model.rope_scaling->attention_factor = 1; }),
        "qwen2.rope.scaling.attn_factor was not read back"));
    CHECK(test::contains(fault("llama_tied", [](ModelShape& model) { model.norm_eps = 1e-6; }),
                         "llama.attention.layer_norm_rms_epsilon 1e-06 was read back as 1e-05"));
    CHECK(
        test::contains(fault("mistral_window", [](ModelShape& model) { model.sliding_window = 4; }),
                       "llama.context_length 4 was read back as 5"));
}

TEST_CASE("what llama.cpp has not is an error that names the key") {
    const auto refused = [](const std::string& name, const auto& change) {
        ModelShape model = HfFolder(models / name).shape();
        change(model);
        return test::message_of(ExitCode::usage, [&] { check_gguf_model(model); });
    };
    const auto llama3 = [](ModelShape& model) {
        model.rope_scaling = RopeScaling{.kind = RopeScalingKind::llama3, .factor = 8};
    };
    CHECK(test::contains(refused("qwen3", llama3), "qwen3 of llama.cpp has no model.rope_scaling"));
    CHECK(refused("llama", llama3).empty());
    CHECK(test::contains(
        refused("gpt2", [](ModelShape& model) { model.activation = Activation::gelu_erf; }),
        "gpt2 of llama.cpp has no model.activation gelu_erf"));
    CHECK(test::contains(
        refused("qwen2", [](ModelShape& model) { model.rope_scaling->beta_fast = 8; }),
        "model.rope_scaling with beta_fast 8 and beta_slow 1"));
    CHECK(test::contains(refused("starcoder2", [](ModelShape& model) { model.head_dim = 8; }),
                         "model.head_dim 8"));
    CHECK(test::contains(refused("llama",
                                 [](ModelShape& model) {
                                     model.normalization = Normalization::layernorm;
                                     model.bias = model.qkv_bias = true;
                                 }),
                         "model.bias true"));
}

std::string trained(TokenizerTraining::Kind kind) {
    int left = 50;
    return train_tokenizer({.vocab_size = 300, .kind = kind}, [&](std::string& document) {
        document =
            "let there be light: and there was light; the earth was without form, and void. "
            "darkness was upon the face of the deep, and the spirit moved upon the waters\n" +
            text(left);
        return left-- > 0;
    });
}

std::string vocabulary_of(const std::string& tokenizer, std::int64_t vocab = 300) {
    GgufMetadata metadata;
    add_gguf_vocabulary({.bytes = tokenizer,
                         .source = "tok",
                         .ids = {.bos = {}, .eos = 2},
                         .add_bos = false,
                         .chat_template = ""},
                        vocab, metadata);
    return std::string(metadata.bytes());
}

std::string token(const std::string& bytes) {
    const std::uint64_t size = bytes.size();
    return std::string(reinterpret_cast<const char*>(&size), sizeof size) + bytes;
}

TEST_CASE("a tokenizer becomes the one of llama.cpp with the same ids") {
    const std::string bpe = vocabulary_of(trained(TokenizerTraining::Kind::bpe));
    CHECK(test::contains(bpe, text_entry("tokenizer.ggml.model", "llama")));
    CHECK(test::contains(bpe, flag_entry("tokenizer.ggml.add_space_prefix", false)));
    CHECK(test::contains(bpe, flag_entry("tokenizer.ggml.add_bos_token", false)));
    CHECK(test::contains(bpe, size_entry("tokenizer.ggml.eos_token_id", 2)));
    CHECK(test::contains(bpe, size_entry("tokenizer.ggml.unknown_token_id", 0)));
    CHECK(test::contains(bpe, "\xE2\x96\x81t"));
    CHECK(!test::contains(bpe, " t"));

    const std::string bytes = vocabulary_of(trained(TokenizerTraining::Kind::byte_bpe), 302);
    CHECK(test::contains(bytes, text_entry("tokenizer.ggml.model", "gpt2")));
    CHECK(test::contains(bytes, text_entry("tokenizer.ggml.pre", "gpt-2")));
    CHECK(test::contains(bytes, token("t h")));
    CHECK(test::contains(bytes, token("<|endoftext|>") + token("[PAD300]") + token("[PAD301]")));

    const auto refused = [](const std::string& tokenizer, std::int64_t vocab) {
        return test::message_of(ExitCode::usage, [&] { vocabulary_of(tokenizer, vocab); });
    };
    CHECK(test::contains(refused(trained(TokenizerTraining::Kind::unigram), 300),
                         "tok: llama.cpp cannot read this tokenizer: a unigram model"));
    CHECK(test::contains(refused(trained(TokenizerTraining::Kind::bpe), 299),
                         "300 tokens, but the model has only 299"));
}

TEST_CASE("the splitting of a byte-level tokenizer has a name in llama.cpp") {
    TokenizerDescription description =
        parse_tokenizer_json(trained(TokenizerTraining::Kind::byte_bpe), "tok");
    const auto pre = [&](std::vector<Splitter> splitters, bool ignore_merges, bool reachable) {
        TokenizerDescription changed = description;
        changed.splitters = {Splitter::gpt2};
        changed.ignore_merges = ignore_merges;
        if (!reachable) changed.merges.pop_back();
        Json json = parse_json(to_tokenizer_json(changed), "tok");
        Json parts = Json::array();
        for (const Splitter splitter : splitters) {
            if (splitter == Splitter::single_digits)
                parts.push_back({{"type", "Digits"}, {"individual_digits", true}});
            else if (splitter == Splitter::digit_runs)
                parts.push_back({{"type", "Digits"}, {"individual_digits", false}});
            else if (splitter != Splitter::gpt2)
                parts.push_back({{"type", "Split"},
                                 {"pattern", {{"Regex", regex_of(splitter)}}},
                                 {"behavior", "Isolated"},
                                 {"invert", false}});
        }
        parts.push_back({{"type", "ByteLevel"},
                         {"add_prefix_space", false},
                         {"use_regex", splitters.back() == Splitter::gpt2}});
        json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", parts}};
        try {
            const std::string bytes = vocabulary_of(to_line(json));
            for (const char* name : {"gpt-2", "llama-bpe", "smaug-bpe", "qwen2", "qwen35", "gpt-4o",
                                     "tekken", "deepseek-v3", "smollm"})
                if (test::contains(bytes, text_entry("tokenizer.ggml.pre", name)))
                    return std::string(name);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK(pre({Splitter::gpt2}, false, true) == "gpt-2");
    CHECK(pre({Splitter::gpt2}, true, true) == "gpt-2");
    CHECK(test::contains(pre({Splitter::gpt2}, true, false), "model.ignore_merges"));
    CHECK(pre({Splitter::llama3}, true, false) == "llama-bpe");
    CHECK(pre({Splitter::llama3}, false, true) == "llama-bpe");
    CHECK(pre({Splitter::llama3}, false, false) == "smaug-bpe");
    CHECK(pre({Splitter::qwen2}, false, false) == "qwen2");
    CHECK(pre({Splitter::single_digits, Splitter::gpt2}, false, true) == "smollm");
    CHECK(pre({Splitter::qwen35}, false, true) == "qwen35");
    CHECK(pre({Splitter::o200k}, true, true) == "gpt-4o");
    CHECK(pre({Splitter::tekken}, true, false) == "tekken");
    CHECK(test::contains(pre({Splitter::tekken}, false, false), "model.ignore_merges"));
    CHECK(pre({Splitter::numbers, Splitter::kana, Splitter::deepseek3}, false, true) ==
          "deepseek-v3");
    for (const auto& other : {std::vector{Splitter::digit_runs, Splitter::gpt2},
                              std::vector{Splitter::kimi}, std::vector{Splitter::deepseek3}})
        CHECK(test::contains(pre(other, false, true), "its pre-tokenizers"));
}

TEST_CASE("llama.cpp merges BPE of characters by scores, if its merges say the same") {
    const std::string mark(space_mark);
    Json vocabulary = {{"<unk>", 0}};
    constexpr std::string_view digits = "0123456789ABCDEF";
    for (std::size_t byte = 0; byte < 256; ++byte)
        vocabulary[text("<0x", digits[byte / 16], digits[byte % 16], ">")] = 1 + byte;
    for (const std::string& token : {mark, std::string("t"), std::string("h"), std::string("th"),
                                     mark + "t", mark + "th", std::string("<|endoftext|>")})
        vocabulary[token] = vocabulary.size();
    const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}};
    const Json good = {
        {"added_tokens",
         Json::array({{{"id", 0}, {"content", "<unk>"}, {"special", true}},
                      {{"id", 263}, {"content", "<|endoftext|>"}, {"special", true}}})},
        {"normalizer", replace},
        {"decoder",
         {{"type", "Sequence"},
          {"decoders",
           Json::array({{{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}},
                        {{"type", "ByteFallback"}},
                        {{"type", "Fuse"}}})}}},
        {"model",
         {{"type", "BPE"},
          {"unk_token", "<unk>"},
          {"byte_fallback", true},
          {"vocab", vocabulary},
          {"merges", Json::array({{"t", "h"}, {mark, "t"}, {mark, "th"}, {mark + "t", "h"}})}}}};
    const std::string bytes = vocabulary_of(to_line(good));
    CHECK(test::contains(bytes, text_entry("tokenizer.ggml.model", "llama")));
    CHECK(test::contains(bytes, "tokenizer.ggml.scores"));
    CHECK(test::contains(bytes, token(mark + "th")));

    const auto refused = [&](const Json& changes) {
        Json file = good;
        file.merge_patch(changes);
        return test::message_of(ExitCode::usage, [&] { vocabulary_of(to_line(file)); });
    };
    const auto merges = [&](const Json& list) { return Json{{"model", {{"merges", list}}}}; };
    CHECK(test::contains(refused(merges(Json::array({{"t", "h"}, {mark, "t"}, {mark, "th"}}))),
                         "llama.cpp merges all tokens that form another one"));
    CHECK(test::contains(
        refused(merges(Json::array({{mark, "th"}, {"t", "h"}, {mark, "t"}, {mark + "t", "h"}}))),
        "llama.cpp merges by token"));
    CHECK(test::contains(refused({{"pre_tokenizer",
                                   {{"type", "Metaspace"},
                                    {"replacement", mark},
                                    {"prepend_scheme", "first"},
                                    {"split", false}}},
                                  {"normalizer", nullptr}}),
                         "its spaces"));
    CHECK(test::contains(refused({{"added_tokens", Json::array({{{"id", 263},
                                                                 {"content", "<|endoftext|>"},
                                                                 {"special", true},
                                                                 {"lstrip", true}}})}}),
                         "<|endoftext|> with lstrip"));
}

}  // namespace
}  // namespace gptrain
