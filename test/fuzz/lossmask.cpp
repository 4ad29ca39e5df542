// PREFIX.mask, which tokens a model learns, and PREFIX.weights, how much they count.
#include <cstring>
#include <vector>

#include "data/loss_mask.h"
#include "data/token_weights.h"
#include "fuzz/target.h"
#include "support/temp_folder.h"

using namespace gptrain;

namespace {

/// A mask of 1,000 tokens, of which every seventh is not learned.
const LossMask& some_mask(const std::filesystem::path& folder) {
    static const LossMask mask = [&] {
        std::vector<std::uint8_t> learned(1000, 1);
        for (std::size_t i = 0; i < learned.size(); i += 7)
            learned[i] = 0;
        MaskPacker packer;
        std::vector<std::byte> bits;
        packer.add(learned, bits);
        packer.finish(bits);
        const auto header = packer.header();
        std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
        bytes.append(reinterpret_cast<const char*>(bits.data()), bits.size());
        test::fill(folder / "some.mask", bytes);
        return LossMask(folder / "some.mask");
    }();
    return mask;
}

void check_mask(const std::filesystem::path& path, std::size_t size) {
    const LossMask mask(path);
    GPTRAIN_CHECK(mask.tokens() <= 8 * static_cast<std::int64_t>(size));
    std::vector<std::uint8_t> learned(static_cast<std::size_t>(mask.tokens()));
    mask.read(0, learned);
    std::int64_t count = 0;
    for (const std::uint8_t one : learned)
        count += one;
    GPTRAIN_CHECK(count == mask.learned() && count == mask.count(0, mask.tokens()));
    // Written again it has the same bytes.
    MaskPacker packer;
    std::vector<std::byte> bits;
    packer.add(learned, bits);
    packer.finish(bits);
    GPTRAIN_CHECK(packer.checksum() == mask.checksum());
}

void check_weights(const std::filesystem::path& path, const LossMask& mask) {
    const TokenWeights weights(path, mask);
    std::vector<float> all(static_cast<std::size_t>(mask.tokens()));
    mask.read(0, all);
    weights.apply(0, all);
    for (std::int64_t i = 0; i < mask.tokens(); ++i) {
        float one = mask.count(i, i + 1) > 0 ? 1.0f : 0.0f;
        weights.apply(i, {&one, 1});
        GPTRAIN_CHECK(one == all[static_cast<std::size_t>(i)] && one >= 0 && one <= 1);
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const test::TempFolder folder;
    const bool weights = size >= 7 && std::memcmp(bytes, "GPTWGHT", 7) == 0;
    const std::filesystem::path path = folder / (weights ? "a.weights" : "a.mask");
    test::fill(path, test::as_text(bytes, size));
    test::accepts(ExitCode::bad_input, path.string(), [&] {
        if (weights) {
            check_weights(path, some_mask(folder.path()));
        } else {
            check_mask(path, size);
        }
    });
    return 0;
}
