// The quant_state of a matrix that bitsandbytes has quantised.
#include <cmath>

#include "fuzz/target.h"
#include "interop/bitsandbytes.h"

using namespace gptrain;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    QuantState state;
    const bool accepted = test::accepts(ExitCode::bad_input, "state:", [&] {
        state = parse_quant_state(test::as_text(bytes, size), "state");
    });
    if (!accepted) return 0;
    std::int64_t elements = 1;
    for (const std::int64_t length : state.shape) {
        GPTRAIN_CHECK(length > 0);
        elements *= length;
    }
    GPTRAIN_CHECK(elements > 0 && elements <= std::int64_t{1} << 40);
    GPTRAIN_CHECK(std::isfinite(state.offset) && (state.nested || state.offset == 0));
    return 0;
}
