#include "model/batch.h"

#include "catch.h"
#include "cpu/cpu_backend.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

TEST_CASE("a field that lacks values is an error that names it", "[model]") {
    const auto backend = cpu::make_backend();
    Arena arena(*backend, MemorySpace::device, "a batch", 1 << 12);
    const Batch batch = reserve_batch(arena, {2, 4}, {.window = true});
    CHECK(batch.first_visible.empty());
    Microbatch microbatch;
    visit_fields([](const TokenField&, auto& values) { values.resize(8); }, microbatch);
    upload_batch(*backend, batch, microbatch);
    microbatch.first_in_window.pop_back();
    CHECK(test::contains(
        test::message_of(ExitCode::bug, [&] { upload_batch(*backend, batch, microbatch); }),
        "a microbatch has 7 first_in_window for 8 tokens"));
}

TEST_CASE("a shorter batch has the fields of the whole one, at the same places", "[model]") {
    const auto backend = cpu::make_backend();
    Arena arena(*backend, MemorySpace::device, "a batch", 1 << 12);
    const Batch whole = reserve_batch(arena, {2, 4}, {.documents = true});
    const Batch part = shortened(whole, {2, 3});
    CHECK(part.stream_positions.data() == part.positions.data());
    CHECK(part.stream_positions.shape() == Shape{2, 3});
    visit_fields(
        [](const TokenField& field, const Tensor& from, const Tensor& to) {
            CAPTURE(field.name);
            CHECK(to.data() == from.data());
            CHECK((to.empty() || (to.shape() == Shape{2, 3} && to.contiguous())));
        },
        whole, part);
}

}  // namespace
}  // namespace gptrain
