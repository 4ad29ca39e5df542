// A safetensors header: 8 bytes of data size, then the JSON. The same bytes are also parsed as an
// index.
#include "interop/safetensors.h"

#include <cstring>

#include "fuzz/target.h"
#include "interop/hf_folder.h"

using namespace gptrain;

namespace {

void check_promises(const SafetensorsHeader& header, std::int64_t data_bytes) {
    std::int64_t covered = 0;
    for (const auto& [name, entry] : header) {
        GPTRAIN_CHECK(0 <= entry.begin && entry.begin <= entry.end && entry.end <= data_bytes);
        covered += entry.end - entry.begin;
        test::accepts(ExitCode::bad_input, "a.safetensors",
                      [&entry = entry] { weight_dtype(entry, "a.safetensors"); });
    }
    GPTRAIN_CHECK(covered == data_bytes);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    std::int64_t data_bytes = 0;
    if (size < sizeof data_bytes) return 0;
    std::memcpy(&data_bytes, bytes, sizeof data_bytes);
    data_bytes &= INT64_MAX;
    const auto json = test::as_text(bytes, size).substr(sizeof data_bytes);
    SafetensorsHeader header;
    if (test::accepts(ExitCode::bad_input, "a.safetensors:", [&] {
            header = parse_safetensors_header(json, data_bytes, "a.safetensors");
        }))
        check_promises(header, data_bytes);
    test::accepts(ExitCode::bad_input, "index.json:", [&] {
        for (const auto& [tensor, file] : parse_hf_index(json, "index.json"))
            GPTRAIN_CHECK(!file.empty() && file.find('/') == std::string::npos);
    });
    return 0;
}
