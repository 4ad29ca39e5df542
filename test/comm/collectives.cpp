// Every operation on every dtype, with numbers that all of them represent exactly, so results are
// compared without tolerance. The same cases run on 1, 2, 4 and 8 ranks and for every communicator.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "catch.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

constexpr DType summed[] = {DType::f32, DType::bf16, DType::f16, DType::f64,
                            DType::i32, DType::i64,  DType::u8};

/// Element i of rank r: small, and of both signs if the dtype is signed.
double number(DType dtype, int rank, std::int64_t i) {
    const auto small = static_cast<double>((i * 5 + rank * 3) % 13);
    return dtype == DType::u8 ? small : small - 6;
}

/// Calls f(communicator of all ranks, backend, dtype) for each.
void for_each_way(const std::function<void(Communicator&, Backend&, DType)>& f) {
    const auto backend = make_backend();
    for (const Way& way : ways()) {
        const auto all = way.connect(*backend);
        REQUIRE(all->rank() == session().rank());
        REQUIRE(all->size() == session().size());
        for (const DType dtype : summed) {
            INFO(way.name << ", " << std::string(name_of(dtype)));
            f(*all, *backend, dtype);
        }
    }
}

/// The product of the first `dims` sizes.
std::int64_t product(const Shape& shape, int dims) {
    std::int64_t result = 1;
    for (int i = 0; i < dims; ++i)
        result *= shape[i];
    return result;
}

/// The index in the whole tensor of element i of part `rank` of `parts` along `dim`.
std::int64_t index_in_whole(std::int64_t i, const Shape& part, int dim, int rank, int parts) {
    const std::int64_t run = part.elements() / product(part, dim);
    return (i / run * parts + rank) * run + i % run;
}

Shape times(Shape shape, int dim, int factor) {
    shape[dim] *= factor;
    return shape;
}

const std::vector<Shape> part_shapes = {{3, 5, 2}, {1, 1}, {4, 1, 3}, {7}, {2, 0, 3}, {0}};

}  // namespace

TEST_CASE("all_reduce") {
    for_each_way([](Communicator& all, Backend& backend, DType dtype) {
        for (const std::int64_t elements : {0, 1, 2, 3, 17, 1001}) {
            for (const Reduce reduce : {Reduce::sum, Reduce::max}) {
                const Array x(backend, dtype, {elements});
                x.put([&](std::int64_t i) { return number(dtype, all.rank(), i); });
                all.all_reduce(*x, reduce).wait();
                std::vector<double> expected;
                for (std::int64_t i = 0; i < elements; ++i) {
                    double result = number(dtype, 0, i);
                    for (int rank = 1; rank < all.size(); ++rank) {
                        const double other = number(dtype, rank, i);
                        result = reduce == Reduce::sum ? result + other : std::max(result, other);
                    }
                    expected.push_back(result);
                }
                REQUIRE(x.values() == expected);
            }
        }
    });
}

TEST_CASE("all_reduce of a scalar and of a tensor with several dims") {
    for_each_way([](Communicator& all, Backend& backend, DType dtype) {
        const Array scalar(backend, dtype, {});
        scalar.put([](std::int64_t) { return 1; });
        const Array matrix(backend, dtype, {3, 5});
        matrix.put([](std::int64_t i) { return static_cast<double>(i); });
        Pending first = all.all_reduce(*scalar, Reduce::sum);
        Pending second = all.all_reduce(*matrix, Reduce::max);
        second.wait();
        first.wait();
        REQUIRE(scalar.values() == std::vector<double>{static_cast<double>(all.size())});
        REQUIRE(matrix.values()[14] == 14);
    });
}

TEST_CASE("reduce_scatter along every dim") {
    for_each_way([](Communicator& all, Backend& backend, DType dtype) {
        for (const Shape& part : part_shapes) {
            for (int dim = 0; dim < part.rank(); ++dim) {
                const Shape whole = times(part, dim, all.size());
                const Array from(backend, dtype, whole);
                const Array apart(backend, dtype, part);
                std::vector<double> expected;
                for (std::int64_t i = 0; i < part.elements(); ++i) {
                    double sum = 0;
                    for (int rank = 0; rank < all.size(); ++rank) {
                        sum += number(dtype, rank,
                                      index_in_whole(i, part, dim, all.rank(), all.size()));
                    }
                    expected.push_back(sum);
                }
                const Tensor inside = from->slice(dim, all.rank() * part[dim], part[dim]);
                for (const Tensor& to : {*apart, inside}) {
                    from.put([&](std::int64_t i) { return number(dtype, all.rank(), i); });
                    // Negative dims count from the end.
                    all.reduce_scatter(to, *from, dim - part.rank()).wait();
                    REQUIRE(values_of(backend, to) == expected);
                }
            }
        }
    });
}

TEST_CASE("all_gather along every dim") {
    for_each_way([](Communicator& all, Backend& backend, DType dtype) {
        for (const Shape& part : part_shapes) {
            for (int dim = 0; dim < part.rank(); ++dim) {
                const Array to(backend, dtype, times(part, dim, all.size()));
                const Array apart(backend, dtype, part);
                std::vector<double> expected(static_cast<std::size_t>(to->elements()));
                for (int rank = 0; rank < all.size(); ++rank) {
                    for (std::int64_t i = 0; i < part.elements(); ++i) {
                        expected[static_cast<std::size_t>(index_in_whole(
                            i, part, dim, rank, all.size()))] = number(dtype, rank, i);
                    }
                }
                const Tensor inside = to->slice(dim, all.rank() * part[dim], part[dim]);
                for (const Tensor& from : {*apart, inside}) {
                    to.put([](std::int64_t) { return 100; });
                    put(backend, from,
                        [&](std::int64_t i) { return number(dtype, all.rank(), i); });
                    all.all_gather(*to, from, dim).wait();
                    REQUIRE(to.values() == expected);
                }
            }
        }
    });
}

TEST_CASE("all_to_all") {
    for_each_way([](Communicator& all, Backend& backend, DType dtype) {
        for (const Shape& part : part_shapes) {
            const Shape whole = times(part, 0, all.size());
            const Array to(backend, dtype, whole);
            const Array from(backend, dtype, whole);
            from.put([&](std::int64_t i) { return number(dtype, all.rank(), i); });
            all.all_to_all(*to, *from).wait();
            std::vector<double> expected;
            for (int rank = 0; rank < all.size(); ++rank) {
                for (std::int64_t i = 0; i < part.elements(); ++i) {
                    expected.push_back(number(dtype, rank, all.rank() * part.elements() + i));
                }
            }
            REQUIRE(to.values() == expected);
        }
    });
}

TEST_CASE("all_to_all_rows brings the rows that have a slot") {
    for_each_way([](Communicator& all, Backend& backend, DType dtype) {
        for (const std::int64_t width : {1, 5, 16, 72}) {
            constexpr std::int64_t rows = 37;
            // Every rank knows which rows the others send: about half of them, of some parts none.
            const auto sent = [](std::int64_t from, std::int64_t to, std::int64_t row) {
                return (from + 2 * to) % 5 != 4 && (row * row + from + to) % 3 != 2;
            };
            const Array to(backend, dtype, {all.size(), rows, width});
            const Array from(backend, dtype, {all.size(), rows, width});
            const Array slots(backend, DType::i32, {all.size(), rows});
            from.put([&](std::int64_t i) { return number(dtype, all.rank(), i); });
            slots.put([&](std::int64_t i) {
                const std::int64_t row = i % rows;
                return sent(all.rank(), i / rows, row) ? row : -1;
            });
            all.all_to_all_rows(*to, *from, *slots).wait();
            const std::vector<double> values = to.values();
            bool right = true;
            for (int rank = 0; rank < all.size(); ++rank) {
                for (std::int64_t i = 0; i < rows * width; ++i) {
                    if (!sent(rank, all.rank(), i / width)) continue;
                    const std::int64_t part = rows * width;
                    right = right && values[static_cast<std::size_t>(rank * part + i)] ==
                                         number(dtype, rank, all.rank() * part + i);
                }
            }
            REQUIRE(right);
        }
    });
}

TEST_CASE("broadcast from every rank") {
    for_each_way([](Communicator& all, Backend& backend, DType dtype) {
        for (int root = 0; root < all.size(); ++root) {
            for (const std::int64_t elements : {0, 1, 33}) {
                const Array x(backend, dtype, {elements});
                x.put([&](std::int64_t i) { return number(dtype, all.rank(), i); });
                all.broadcast(*x, root).wait();
                std::vector<double> expected;
                for (std::int64_t i = 0; i < elements; ++i)
                    expected.push_back(number(dtype, root, i));
                REQUIRE(x.values() == expected);
            }
        }
    });
}

TEST_CASE("Messages to neighbours") {
    for_each_way([](Communicator& all, Backend& backend, DType dtype) {
        const int next = (all.rank() + 1) % all.size();
        const int before = (all.rank() + all.size() - 1) % all.size();
        for (const std::int64_t elements : {0, 1, 33}) {
            const Array sent(backend, dtype, {elements, 2});
            const Array forward(backend, dtype, {elements, 2});
            const Array backward(backend, dtype, {2 * elements});
            sent.put([&](std::int64_t i) { return number(dtype, all.rank(), i); });
            forward.put([](std::int64_t) { return 100; });
            backward.put([](std::int64_t) { return 100; });
            Pending first = all.send_recv(*sent, next, *forward, before);
            Pending second = all.send_recv(*sent, before, *backward, next);
            second.wait();
            first.wait();
            std::vector<double> of_before;
            std::vector<double> of_next;
            for (std::int64_t i = 0; i < 2 * elements; ++i) {
                of_before.push_back(number(dtype, before, i));
                of_next.push_back(number(dtype, next, i));
            }
            REQUIRE(forward.values() == of_before);
            REQUIRE(backward.values() == of_next);
        }
        all.barrier();
    });
}

TEST_CASE("Messages from one rank to another") {
    for_each_way([](Communicator& all, Backend& backend, DType dtype) {
        // Pairs of ranks; with an odd number the last rank has no partner.
        const int other = all.rank() ^ 1;
        if (other >= all.size()) return;
        const Array sent(backend, dtype, {33});
        const Array received(backend, dtype, {33});
        sent.put([&](std::int64_t i) { return number(dtype, all.rank(), i); });
        const bool is_first = all.rank() < other;
        if (is_first) all.send(*sent, other).wait();
        all.recv(*received, other).wait();
        if (!is_first) all.send(*sent, other).wait();
        std::vector<double> expected;
        for (std::int64_t i = 0; i < 33; ++i)
            expected.push_back(number(dtype, other, i));
        REQUIRE(received.values() == expected);
    });
}

}  // namespace gptrain::test
