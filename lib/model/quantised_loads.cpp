#include "model/quantised_loads.h"

#include <algorithm>
#include <span>
#include <utility>

#include "model/nf4_part.h"

namespace gptrain {
namespace {

/// One matrix of a parameter in NF4: its only one, or that of an expert.
class Nf4Load {
public:
    Nf4Load(Backend& backend, const Parameters& parameters, const Parameter& parameter,
            std::int64_t expert)
        : backend_(backend),
          to_(parameters.nf4(parameter)),
          expert_(expert),
          part_(parameter.shard),
          whole_(part_) {
        if (part_.box.extent.rank() == 3) {
            part_.box.offset[0] += expert;
            part_.box.extent[0] = 1;
        }
        part_.flat_end = part_.box.extent.elements();
        whole_.box = part_.box;
        for (const int from_end : {1, 2}) {
            const int dim = whole_.global.rank() - from_end;
            whole_.box.offset[dim] = 0;
            whole_.box.extent[dim] = whole_.global[dim];
        }
        whole_.flat_end = whole_.box.extent.elements();
    }

    const Shard& needed() const { return nested() ? whole_ : part_; }

    void set(const Tensor& values) const {
        std::vector<float> host(static_cast<std::size_t>(values.elements()));
        backend_.download(std::as_writable_bytes(std::span(host)), values);
        const Nf4Bytes matrix = to_nf4(host, nested());
        store(matrix.view(), needed());
    }

    void set_stored(const Nf4View& matrix) const {
        if (matrix.nested() == nested()) return store(matrix, whole_);
        const Nf4Bytes converted = with_scales(matrix, nested());
        store(converted.view(), whole_);
    }

private:
    bool nested() const { return !to_.factors.empty(); }

    /// Stores this rank's part of `matrix`, which has the elements of `shard`.
    void store(const Nf4View& matrix, const Shard& shard) const {
        const std::int64_t scale_bytes = size_of(to_.scales.dtype());
        upload(to_.codes, cut(matrix.codes, shard, 2, 1));
        upload(to_.scales, cut(matrix.scales, shard, nf4_block, scale_bytes));
        if (!nested()) return;
        const std::int64_t own = 1 + to_.part.factors;
        const auto factors = std::as_bytes(matrix.factors);
        backend_.upload(to_.factors.slice(0, 0, nf4_map_size),
                        factors.first(sizeof(float) * static_cast<std::size_t>(nf4_map_size)));
        backend_.upload(to_.factors.slice(0, nf4_map_size + expert_ * own, own),
                        factors.subspan(sizeof(float) * static_cast<std::size_t>(nf4_map_size)));
    }

    /// This rank's part of all bytes of a matrix of which `shard` says what it is. `bytes` bytes
    /// hold `elements` elements.
    std::vector<std::byte> cut(std::span<const std::byte> all, const Shard& shard,
                               std::int64_t elements, std::int64_t bytes) const {
        const MatrixShape from(shard.box.extent);
        const MatrixShape to(part_.box.extent);
        const int rows = shard.global.rank() - 2;
        const std::int64_t first_row = part_.box.offset[rows] - shard.box.offset[rows];
        const std::int64_t first_column = part_.box.offset[rows + 1] - shard.box.offset[rows + 1];
        // Whole rows follow each other, and need not be whole blocks.
        const bool one_piece = from.columns == to.columns;
        const std::int64_t width = one_piece ? to.elements() : to.columns;
        std::vector<std::byte> part;
        for (std::int64_t row = 0; row < (one_piece ? 1 : to.rows); ++row) {
            const std::int64_t begin = (first_row + row) * from.columns + first_column;
            const auto piece = all.subspan(static_cast<std::size_t>(begin / elements * bytes),
                                           static_cast<std::size_t>(width / elements * bytes));
            part.insert(part.end(), piece.begin(), piece.end());
        }
        return part;
    }

    /// To the place of this matrix among those of `tensor`.
    void upload(const Tensor& tensor, const std::vector<std::byte>& bytes) const {
        const std::int64_t count = std::ssize(bytes) / size_of(tensor.dtype());
        backend_.upload(tensor.slice(0, expert_ * count, count), bytes);
    }

    Backend& backend_;
    Nf4Matrix to_;
    std::int64_t expert_;
    Shard part_;
    Shard whole_;
};

void add_nf4(Backend& backend, const Parameters& parameters, const Parameter& parameter,
             std::vector<QuantisedLoad>& to) {
    for (std::int64_t expert = 0; expert < matrices_of(parameter.shard); ++expert) {
        const Nf4Load load(backend, parameters, parameter, expert);
        to.push_back({.shard = load.needed(),
                      .set = [load](const Tensor& values) { load.set(values); },
                      .set_stored = [load](const Nf4View& matrix) { load.set_stored(matrix); }});
    }
}

}  // namespace

std::vector<QuantisedLoad> quantised_loads(Backend& backend, const Parameters& parameters) {
    std::vector<QuantisedLoad> loads;
    for (const Parameter& parameter : parameters.layout().parameters) {
        if (parameter.storage.in_compute_dtype) continue;
        if (is_nf4(parameters.layout().format)) {
            add_nf4(backend, parameters, parameter, loads);
            continue;
        }
        loads.push_back({.shard = parameter.shard, .set = [&](const Tensor& values) {
                             parameters.set(backend, parameter, values);
                         }});
    }
    return loads;
}

}  // namespace gptrain
