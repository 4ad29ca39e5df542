// An .idx file, with three .bin files: of the size that its lengths require, one byte shorter, and
// empty.
#include <algorithm>
#include <cstring>
#include <vector>

#include "data/indexed_dataset.h"
#include "fuzz/target.h"
#include "support/temp_folder.h"

using namespace gptrain;

namespace {

constexpr std::size_t header_bytes = 34;

/// Bytes of all sequences that an index announces; 0 if that is not a sensible size.
std::int64_t announced_bytes(std::string_view idx) {
    if (idx.size() < header_bytes) return 0;
    const std::int64_t width = idx[17] == 4 ? 4 : 2;
    std::uint64_t sequences = 0;
    std::memcpy(&sequences, idx.data() + 18, sizeof sequences);
    sequences = std::min<std::uint64_t>(sequences, (idx.size() - header_bytes) / 4);
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < sequences; ++i) {
        std::int32_t length = 0;
        std::memcpy(&length, idx.data() + header_bytes + 4 * i, sizeof length);
        tokens += std::max(length, 0);
    }
    return tokens <= 1 << 20 ? tokens * width : 0;
}

/// Reads everything that the data set claims to have.
void read_all(const IndexedDataset& data) {
    std::int64_t tokens = 0;
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < data.num_sequences(); ++i) {
        const std::int64_t length = data.sequence_length(i);
        ids.resize(static_cast<std::size_t>(length));
        data.read(i, 0, length, ids.data());
        tokens += length;
    }
    GPTRAIN_CHECK(tokens == data.num_tokens());
    GPTRAIN_CHECK(data.document_begin(0) == 0);
    for (std::int64_t i = 0; i < data.num_documents(); ++i)
        GPTRAIN_CHECK(data.document_begin(i) <= data.document_begin(i + 1));
    GPTRAIN_CHECK(data.document_begin(data.num_documents()) == data.num_sequences());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const test::TempFolder folder;
    const std::string_view idx = test::as_text(bytes, size);
    test::fill(folder / "a.idx", idx);
    test::fill(folder / "a.bin", "");
    const std::int64_t announced = announced_bytes(idx);
    for (const std::int64_t bin_bytes : {announced, announced - 1, std::int64_t{0}}) {
        if (bin_bytes < 0) continue;
        File(folder / "a.bin", File::Mode::update).truncate(bin_bytes);
        test::accepts(ExitCode::bad_input, (folder / "a").string(), [&] {
            const IndexedDataset data(folder / "a");
            GPTRAIN_CHECK(bin_bytes == announced);
            read_all(data);
        });
    }
    return 0;
}
