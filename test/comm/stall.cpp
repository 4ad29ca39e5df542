// A case that stalls, for stall.sh. It runs only if it is named.
#include <chrono>
#include <thread>

#include "catch.h"
#include "ranks.h"

namespace gptrain::test {

TEST_CASE("the last rank never comes", "[.stall]") {
    const auto backend = make_backend();
    const auto all = ways().front().connect(*backend);
    const Array x(*backend, DType::f32, {8});
    all->all_reduce(*x, Reduce::sum).wait();
    if (session().rank() == session().size() - 1)
        std::this_thread::sleep_for(std::chrono::hours(1));
    all->all_reduce(*x, Reduce::sum).wait();
}

}  // namespace gptrain::test
