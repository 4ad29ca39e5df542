// What byte-level BPE looks up words and characters in.
#include "catch.h"
#include "text/char_kind.h"
#include "text/unicode.h"

using namespace gptrain;

TEST_CASE("the kinds of ASCII characters are those of Unicode") {
    for (unsigned char code = 0; code < 0x80; ++code)
        CHECK(ascii_kinds[code] == CharKinds::instance().of(code));
}
