#include "interop/bitsandbytes.h"

#include <cmath>

#include "base/bytes.h"
#include "base/checked.h"
#include "interop/hf_members.h"

namespace gptrain {
namespace {

constexpr std::string_view state_suffix = ".quant_state.bitsandbytes__nf4";
constexpr std::string_view fp4_suffix = ".quant_state.bitsandbytes__fp4";
constexpr std::string_view advice =
    "gptrain reads NF4 of bitsandbytes in blocks of 64; export the model as bf16 first";

std::vector<float> floats_of(std::span<const std::byte> bytes) {
    std::vector<float> values;
    for (std::int64_t at = 0; at < std::ssize(bytes); at += std::int64_t{sizeof(float)})
        values.push_back(value_at<float>(bytes, at));
    return values;
}

/// Reads the tensors next to a matrix.
class Companions {
public:
    Companions(const std::string& name, const FolderTensor& codes, const FindTensor& find)
        : name_(name), codes_(codes), find_(find) {}

    std::shared_ptr<const FileNf4> read() {
        const FolderTensor state_bytes = found(std::string(state_suffix), "U8");
        const QuantState state = parse_quant_state(
            {reinterpret_cast<const char*>(state_bytes.bytes.data()), state_bytes.bytes.size()},
            state_bytes.source);
        auto result = std::make_shared<FileNf4>();
        result->shape = state.shape;
        std::int64_t elements = 1;
        for (const std::int64_t size : state.shape)
            elements = checked_mul(elements, size);
        require_size(codes_, codes_.bytes.size(), div_ceil(elements, 2), "bytes of codes");
        const std::int64_t blocks = div_ceil(elements, nf4_block);
        const FolderTensor scales = found(".absmax", state.nested ? "U8" : "F32");
        require_size(scales, scales.bytes.size(), blocks * (state.nested ? 1 : 4),
                     "bytes of scales");
        check_map(found(".quant_map", "F32"));
        if (state.nested) result->factors = factors(state.offset, blocks);
        result->matrix = {
            .codes = codes_.bytes, .scales = scales.bytes, .factors = result->factors};
        result->names = std::move(names_);
        return result;
    }

private:
    FolderTensor found(const std::string& suffix, std::string_view dtype) {
        const std::optional<FolderTensor> tensor = find_(name_ + suffix);
        if (!tensor) {
            fail(ExitCode::bad_input, codes_.source, " is in NF4, but ", name_, suffix,
                 " is missing");
        }
        if (tensor->entry->dtype != dtype) {
            fail(ExitCode::bad_input, tensor->source, " has dtype ", tensor->entry->dtype,
                 ", but it must have ", dtype);
        }
        names_.push_back(name_ + suffix);
        return *tensor;
    }

    void require_size(const FolderTensor& tensor, std::size_t size, std::int64_t wanted,
                      std::string_view what) const {
        if (static_cast<std::int64_t>(size) == wanted) return;
        fail(ExitCode::bad_input, tensor.source, " has ", size, " ", what, ", but the shape in ",
             name_, state_suffix, " needs ", wanted);
    }

    static void check_map(const FolderTensor& map) {
        const std::vector<float> values = floats_of(map.bytes);
        if (values != std::vector<float>(nf4_values.begin(), nf4_values.end()))
            fail(ExitCode::bad_input, map.source, " does not have the 16 values of NF4");
    }

    std::vector<float> factors(float offset, std::int64_t blocks) {
        const FolderTensor map = found(".nested_quant_map", "F32");
        require_size(map, map.bytes.size() / sizeof(float), nf4_map_size, "values");
        std::vector<float> result = floats_of(map.bytes);
        result.push_back(offset);
        const FolderTensor nested = found(".nested_absmax", "F32");
        require_size(nested, nested.bytes.size() / sizeof(float), div_ceil(blocks, nf4_scale_block),
                     "factors");
        const std::vector<float> own = floats_of(nested.bytes);
        result.insert(result.end(), own.begin(), own.end());
        return result;
    }

    const std::string& name_;
    const FolderTensor& codes_;
    const FindTensor& find_;
    std::vector<std::string> names_;
};

}  // namespace

void check_quantization_config(const Json& quantization, const std::string& source) {
    const std::string where = source + ": quantization_config";
    const HfMembers config(quantization, where);
    const auto require = [&](std::string_view key, const Json& only) {
        if (!config.has(key))
            fail(ExitCode::bad_input, where, ": '", key, "' is missing; ", advice);
        if (quantization.at(std::string(key)) != only) config.refuse(key, advice);
    };
    require("quant_method", "bitsandbytes");
    require("load_in_4bit", true);
    require("bnb_4bit_quant_type", "nf4");
}

QuantState parse_quant_state(std::string_view json, const std::string& source) {
    const Json root = parse_json(json, source);
    const JsonReader reader(root, source);
    const HfMembers members(root, source);
    const auto require_block = [&](std::string_view key, std::int64_t only) {
        if (reader.integer(key) != only) members.refuse(key, advice);
    };
    if (reader.string("quant_type") != "nf4") members.refuse("quant_type", advice);
    require_block("blocksize", nf4_block);
    QuantState state;
    state.shape = reader.integers("shape");
    std::int64_t elements = 1;
    for (const std::int64_t size : state.shape) {
        if (size < 1 || size > largest_hf_size)
            fail(ExitCode::bad_input, source, ": 'shape' has the size ", size,
                 "; it must be between 1 and ", largest_hf_size);
        if (elements > (std::int64_t{1} << 40) / size)
            fail(ExitCode::bad_input, source, ": 'shape' has too many elements");
        elements *= size;
    }
    state.nested = reader.has("nested_blocksize");
    if (!state.nested) return state;
    require_block("nested_blocksize", nf4_scale_block);
    state.offset = static_cast<float>(reader.number("nested_offset"));
    if (!std::isfinite(state.offset))
        fail(ExitCode::bad_input, source, ": 'nested_offset' is too large for fp32");
    return state;
}

std::shared_ptr<const FileNf4> read_file_nf4(const std::string& name, const FolderTensor& codes,
                                             const FindTensor& find) {
    if (find(text(name, fp4_suffix)))
        fail(ExitCode::bad_input, codes.source, " is in fp4; ", advice);
    if (!find(text(name, state_suffix)) && codes.entry->dtype != "U8") return nullptr;
    if (!find(text(name, state_suffix))) {
        fail(ExitCode::bad_input, codes.source, " has dtype ", codes.entry->dtype,
             ", but there is no ", name, state_suffix,
             "; weights must be F32, F16, BF16 or in NF4");
    }
    return Companions(name, codes, find).read();
}

}  // namespace gptrain
