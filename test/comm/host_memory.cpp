#include "comm/host_memory.h"

#include "catch.h"
#include "support/host_backend.h"

namespace gptrain {

TEST_CASE("Host memory is reused where a buffer is large enough, the smallest first") {
    HostBackend backend;
    HostMemory memory(backend);
    Buffer large = memory.take(2000);
    Buffer small = memory.take(1000);
    CHECK(memory.held() == 2048 + 1024);
    memory.release(std::move(large));
    memory.release(std::move(small));
    small = memory.take(900);
    CHECK(small.bytes() == 1024);
    large = memory.take(2000);
    CHECK(large.bytes() == 2048);
    CHECK(memory.held() == 2048 + 1024);
}

TEST_CASE("Host memory that is too small is freed for what is asked for") {
    HostBackend backend;
    HostMemory memory(backend);
    for (const std::int64_t bytes : {1000, 2000, 3000}) {
        memory.release(memory.take(bytes));
        CHECK(memory.held() == round_up(bytes, Arena::alignment));
    }
    // A second buffer at the same time takes other memory.
    const Buffer first = memory.take(3000);
    memory.release(memory.take(500));
    CHECK(memory.held() == 3072 + 512);
}

}  // namespace gptrain
