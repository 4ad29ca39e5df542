// PREFIX.mask, which tokens a model learns.
#include <vector>

#include "data/loss_mask.h"
#include "fuzz/target.h"
#include "support/temp_folder.h"

using namespace gptrain;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const test::TempFolder folder;
    const std::filesystem::path path = folder / "a.mask";
    test::fill(path, test::as_text(bytes, size));
    test::accepts(ExitCode::bad_input, path.string(), [&] {
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
    });
    return 0;
}
