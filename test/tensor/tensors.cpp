// Shapes, views and shards.
#include <vector>

#include "catch.h"
#include "tensor/shard.h"
#include "tensor/tensor.h"

using namespace gptrain;

namespace {

std::byte* bytes_of(std::vector<float>& values) {
    return reinterpret_cast<std::byte*>(values.data());
}

}  // namespace

TEST_CASE("views share the elements", "[tensor]") {
    std::vector<float> values(24);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i);
    const Tensor x(bytes_of(values), DType::f32, {2, 3, 4});
    const Tensor middle = x.slice(2, 1, 2);
    CHECK(middle.as<float>()[0] == 1);
    CHECK(middle.size(-1) == 2);
    CHECK(middle.stride(1) == 4);
    CHECK_FALSE(middle.contiguous());
    CHECK(x.slice(0, 1, 1).contiguous());
    // Outer dims can be merged and split even if there are gaps between innermost rows.
    CHECK(middle.view({6, 2}).stride(0) == 4);
    CHECK(x.view({24}).as<float>()[23] == 23);
    CHECK(x.view({2, 3, 2, 2}).stride(2) == 2);
    // A row of the new shape is two of the three rows of a matrix.
    CHECK(x.view({3, 8}).slice(0, 1, 1).as<float>()[0] == 8);
    CHECK_THROWS_AS(middle.view({12}), Error);
    CHECK(x.view({24}).slice(0, 24, 0).view({0, 7}).size(1) == 7);
    CHECK_THROWS_AS(x.view({5, 5}), Error);
    CHECK_THROWS_AS(x.slice(1, 2, 2), Error);
    CHECK_THROWS_AS(x.as<double>(), Error);
}

TEST_CASE("an index of the outermost dim leaves the other dims") {
    std::vector<float> values(24);
    const Tensor x(reinterpret_cast<std::byte*>(values.data()), DType::f32, {2, 3, 4});
    const Tensor row = x.transpose(0, 1).at(2);  // [2, 4]
    CHECK(row.shape() == Shape{2, 4});
    CHECK(row.as<float>() == values.data() + 2 * 4);
    CHECK(row.stride(0) == 12);
    CHECK(row.stride(1) == 1);
    CHECK(row.at(1).at(3).as<float>() == values.data() + 12 + 2 * 4 + 3);
    CHECK_THROWS_AS(x.at(2), Error);
}

TEST_CASE("a packed product is split into heads", "[tensor]") {
    std::vector<float> values(2 * 3 * 5 * 4);
    const Tensor packed(bytes_of(values), DType::f32, {6, 20});
    const Tensor heads = packed.view({2, 3, 5, 4});
    const Tensor k = heads.slice(2, 3, 1);
    CHECK(k.stride(1) == 20);
    CHECK(k.stride(0) == 60);
    CHECK(k.as<float>() == values.data() + 12);
}

TEST_CASE("dims change places", "[tensor]") {
    std::vector<float> values(24);
    const Tensor x(bytes_of(values), DType::f32, {2, 3, 4});
    const Tensor turned = x.slice(2, 1, 2).transpose(0, 1);
    CHECK(turned.shape() == Shape{3, 2, 2});
    CHECK(turned.stride(0) == 4);
    CHECK(turned.stride(1) == 12);
    CHECK(turned.as<float>() == values.data() + 1);
    CHECK_THROWS_AS(x.transpose(1, 3), Error);
}

TEST_CASE("an element of a box knows its place in the tensor", "[tensor]") {
    const Shard whole = Shard::whole("w", {6, 5});
    CHECK(whole.global_index(7) == 7);
    const Shard part = {"w", {6, 5}, {{2, 1}, {3, 2}}, 0, 6, true};
    CHECK(part.global_index(0) == 11);
    CHECK(part.global_index(3) == 17);
    CHECK(part.global_index(5) == 22);
}
