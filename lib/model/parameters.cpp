#include "model/parameters.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "model/nf4_part.h"
#include "model/ownership.h"

namespace gptrain {
namespace {

void convert(Backend& backend, Arena& workspace, const Tensor& values, const Fp8Matrix& out) {
    if (out.in_blocks()) return backend.run(ToFp8Blocks{.x = values, .out = out});
    const Tensor amax = workspace.allocate(DType::f32, {1});
    backend.run(Fill{.x = amax, .value = 0});
    backend.run(UpdateAmax{.x = values, .amax = amax});
    backend.run(ToFp8{.x = values, .amax = amax, .out = out});
}

}  // namespace

Parameters::Parameters(Memory& memory, ParameterLayout layout, DType compute, Use use,
                       bool one_by_one, std::optional<Placement> placement)
    : layout_(std::move(layout)),
      placement_(placement ? std::move(*placement) : whole_placement(layout_)),
      weights_(memory[MemoryUse::weights].allocate(compute, {placement_.weight_elements})),
      one_by_one_(one_by_one),
      windows_(static_cast<std::size_t>(placement_.weight_windows.count)) {
    const auto& groups = layout_.groups;
    for (const ParameterGroup& group : groups)
        groups_.emplace(group.name, &group);
    if (std::any_of(groups.begin(), groups.end(),
                    [](const auto& group) { return group.storage.fp8.has_value(); })) {
        const bool blocks = layout_.fp8_scales > 0;
        scales_ = memory[MemoryUse::weights].allocate(
            DType::f32, blocks ? Shape{layout_.fp8_scales} : Shape{std::ssize(groups), scale_step});
    }
    const auto gathered_in_fp8 = [](const Bucket& bucket) { return bucket.fp8; };
    if (std::ranges::any_of(layout_.buckets, gathered_in_fp8) ||
        std::ranges::any_of(layout_.frozen_buckets, gathered_in_fp8))
        amaxes_ = memory[MemoryUse::weights].allocate(DType::f32, scales_.shape());
    if (const QuantisedPlace& end = layout_.quantised_end; end.values > 0) {
        Arena& arena = memory[MemoryUse::weights];
        const bool nested = layout_.format == QuantisedFormat::nf4_double;
        quantised_values_ =
            arena.allocate(is_nf4(layout_.format) ? DType::u8 : DType::i8, {end.values});
        quantised_scales_ = arena.allocate(nested ? DType::u8 : DType::f32, {end.scales});
        if (nested) scale_factors_ = arena.allocate(DType::f32, {end.factors});
    }
    if (layout_.balances > 0)
        balances_ = memory[MemoryUse::weights].allocate(DType::f32, {layout_.balances});
    if (use == Use::training) {
        main_grads_ =
            memory[MemoryUse::main_grads].allocate(DType::f32, {placement_.grad_elements});
    }
    if (gathers_weights()) {
        gathered_weights_ = memory[MemoryUse::gathered_weights].allocate(
            compute, {placement_.weight_windows.elements});
    }
    if (gathers_grads()) {
        gathered_grads_ = memory[MemoryUse::gathered_grads].allocate(
            DType::f32, {placement_.grad_windows.elements});
    }
}

std::vector<Tensor> Parameters::cleared_grads() const {
    if (gathers_grads()) return {main_grads_};
    std::vector<Tensor> cleared;
    for (const FlatRange& range : cleared_ranges(layout_))
        cleared.push_back(grads(range));
    return cleared;
}

std::vector<Tensor> Parameters::buffers() const {
    std::vector<Tensor> all;
    for (const Tensor* buffer : {&weights_, &gathered_weights_, &scales_, &quantised_values_,
                                 &quantised_scales_, &scale_factors_, &balances_})
        if (!buffer->empty()) all.push_back(*buffer);
    return all;
}

std::vector<Tensor> Parameters::shared_over(Axis axis) const {
    std::vector<Tensor> parts;
    // `begin_of`: where a group begins in the buffer; -1: not at all.
    const auto add = [&](const Tensor& buffer, const auto& begin_of) {
        if (buffer.empty()) return;
        std::int64_t begin = -1;  // of the groups in a row that are shared so
        const auto end_at = [&](std::int64_t end) {
            if (begin >= 0 && begin < end) parts.push_back(buffer.slice(0, begin, end - begin));
            begin = -1;
        };
        for (const ParameterGroup& group : layout_.groups) {
            const std::int64_t next = begin_of(group);
            if (next < 0) continue;
            if (group.sharing.sums != axis) {
                end_at(next);
            } else if (begin < 0) {
                begin = next;
            }
        }
        end_at(buffer.size(0));
    };
    if (gathers_weights()) {
        // The weights that a rank keeps are no range of the flat order.
        for (const Bucket& bucket : layout_.buckets)
            if (bucket.sharing.copies == axis) return {weights_};
        return {};
    }
    const auto position = [&](const ParameterGroup& group, bool balance) {
        const std::int64_t begin = group.storage.begin;
        if (balance != (begin >= layout_.elements)) return std::int64_t{-1};
        return balance ? begin - layout_.elements : begin;
    };
    add(weights_, [&](const ParameterGroup& group) { return position(group, false); });
    add(balances_, [&](const ParameterGroup& group) { return position(group, true); });
    add(scales_, [&](const ParameterGroup& group) {
        if (layout_.fp8_scales > 0) return group.storage.fp8_scales.value_or(-1);
        return std::int64_t{&group - layout_.groups.data()};
    });
    const auto quantised = [&](const Tensor& buffer, std::int64_t QuantisedPlace::*begin) {
        add(buffer, [=](const ParameterGroup& group) {
            const auto& place = group.storage.quantised;
            return place ? *place.*begin : std::int64_t{-1};
        });
    };
    quantised(quantised_values_, &QuantisedPlace::values);
    quantised(quantised_scales_, &QuantisedPlace::scales);
    quantised(scale_factors_, &QuantisedPlace::factors);
    return parts;
}

void Parameters::clear(Backend& backend) const {
    for (const Tensor& buffer : buffers())
        backend.run(Fill{.x = buffer.reinterpret(DType::u8, {buffer.bytes()}), .value = 0});
}

const ParameterGroup* Parameters::find(std::string_view name) const {
    const auto found = groups_.find(name);
    return found == groups_.end() ? nullptr : found->second;
}

GroupTensors Parameters::group(std::string_view name) const {
    const ParameterGroup* found = find(name);
    if (found == nullptr) return {};
    GroupTensors tensors;
    const Storage& storage = tensors.storage = found->storage;
    if (storage.fp8) {
        tensors.weight8 = fp8(*found);
    } else if (storage.in_compute_dtype) {
        tensors.weight = weights(found->range()).view(found->shape);
    }
    tensors.shape = found->shape;
    if (storage.quantised && is_nf4(layout_.format)) {
        tensors.nf4 = nf4(*found);
    } else if (storage.quantised) {
        tensors.int8 = int8(*storage.quantised, found->shape);
    }
    if (found->trained && !main_grads_.empty())
        tensors.grad = grads(found->range()).view(found->shape);
    return tensors;
}

Fp8Matrix Parameters::fp8(const ParameterGroup& group) const {
    const auto [outputs, inputs] = std::pair(group.shape[0], group.shape[1]);
    const FlatRange range = {*group.storage.fp8, *group.storage.fp8 + group.shape.elements()};
    const Tensor both = weights(range).reinterpret(DType::f8e4m3, {2 * group.shape.elements()});
    Fp8Matrix matrix = {
        .rowwise = both.slice(0, 0, group.shape.elements()).view(group.shape),
        .columnwise =
            both.slice(0, group.shape.elements(), group.shape.elements()).view({inputs, outputs}),
        .scale = {}};
    if (group.storage.fp8_scales) {
        const Shape by_rows = fp8_block_scales(outputs, inputs);
        const Shape by_columns = fp8_block_scales(inputs, outputs);
        const std::int64_t begin = *group.storage.fp8_scales;
        matrix.scale = scales_.slice(0, begin, by_rows.elements()).view(by_rows);
        matrix.column_scale =
            scales_.slice(0, begin + by_rows.elements(), by_columns.elements()).view(by_columns);
    } else {
        matrix.scale = number_of(scales_, group);
    }
    return matrix;
}

Int8Matrix Parameters::int8(const QuantisedPlace& place, const Shape& shape) const {
    Shape scales = shape;
    std::int64_t& columns = scales[scales.rank() - 1];
    columns = Int8Matrix::blocks_of(columns);
    return {.values = quantised_values_.slice(0, place.values, shape.elements()).view(shape),
            .scales = quantised_scales_.slice(0, place.scales, scales.elements()).view(scales)};
}

Nf4Matrix Parameters::nf4(const Parameter& parameter) const {
    const QuantisedPlace& place = parameter.storage.quantised.value();
    const std::int64_t elements = parameter.shard.elements();
    Nf4Matrix matrix = {.shape = parameter.shard.box.extent,
                        .codes = quantised_values_.slice(0, place.values, elements / 2),
                        .scales = quantised_scales_.slice(0, place.scales, elements / nf4_block),
                        .factors = {},
                        .part = nf4_part(parameter.shard)};
    if (!scale_factors_.empty()) {
        matrix.factors = scale_factors_.slice(
            0, place.factors, nf4_factors_size(matrices_of(parameter.shard), matrix.part.factors));
    }
    return matrix;
}

std::vector<Nf4Matrix> Parameters::nf4(const ParameterGroup& group) const {
    std::vector<Nf4Matrix> matrices;
    for (const GroupRows& rows : group.rows) {
        for (const Parameter& parameter : layout_.parameters)
            if (parameter.shard.name == rows.parameter + ".weight")
                matrices.push_back(nf4(parameter));
    }
    return matrices;
}

void Parameters::set(Backend& backend, const Parameter& parameter, const Tensor& values) const {
    const Shape& shape = parameter.shard.box.extent;
    if (parameter.storage.in_compute_dtype) {
        const Tensor to = weights(parameter.range());
        if (to.data() != values.data()) backend.run(Cast{.to = to, .from = values});
    }
    if (!parameter.storage.quantised) return;
    GPTRAIN_CHECK(layout_.format == QuantisedFormat::int8, parameter.shard.name, " is in NF4");
    backend.run(ToInt8{.x = Int8Matrix::rows_of(values.view(shape)),
                       .out = int8(*parameter.storage.quantised, shape).as_one()});
}

void Parameters::to_fp8(Backend& backend, Arena& workspace) const {
    for (const ParameterGroup& group : layout_.groups)
        if (group.storage.fp8 && group.trained) to_fp8(backend, workspace, group);
}

void Parameters::to_fp8(Backend& backend, Arena& workspace, const ParameterGroup& group) const {
    const ArenaFrame frame(workspace);
    const Tensor values = workspace.allocate(dtype(), group.shape);
    backend.copy(values, weights(group.range()).view(group.shape));
    convert(backend, workspace, values, fp8(group));
}

void Parameters::frozen_to_fp8(Backend& backend, Arena& workspace) const {
    if (gathers_weights()) return;
    for (const ParameterGroup& group : layout_.groups) {
        if (!group.storage.fp8 || group.trained) continue;
        const ArenaFrame frame(workspace);
        convert(backend, workspace, weights(group.range()).view(group.shape), fp8(group));
    }
}

void Parameters::start(Arriving& arriving) {
    if (const auto begin = std::exchange(arriving.start, nullptr)) arriving.pending = begin();
}

void Parameters::expect(const FlatRange& range, std::function<Pending()> start) {
    const bool first = arriving_.empty();
    Arriving& added =
        arriving_
            .emplace(range.begin,
                     Arriving{.end = range.end, .start = std::move(start), .pending = {}})
            .first->second;
    if (first || !one_by_one_) Parameters::start(added);
}

void Parameters::wait_for(const FlatRange& range) {
    if (range.begin == range.end) return;
    auto next = arriving_.upper_bound(range.end);
    while (next != arriving_.end() && next->second.end > range.begin) {
        start(next->second);
        next->second.pending.wait();
        next = arriving_.erase(next);
    }
    if (!arriving_.empty()) start(arriving_.begin()->second);
}

std::optional<int> Parameters::window_of(std::size_t unit) const {
    return gathers_weights() ? placement_.weight_windows.of_unit[unit] : std::nullopt;
}

void Parameters::prefetch(std::size_t unit) {
    const std::optional<int> index = window_of(unit);
    if (!index) return;
    Window& window = windows_[static_cast<std::size_t>(*index)];
    if (window.unit == unit) return;
    window.pending.clear();
    window.pending = gather_.start(unit);
    window.unit = unit;
}

void Parameters::need(std::size_t unit) {
    const std::optional<int> index = window_of(unit);
    if (!index) return;
    prefetch(unit);
    std::vector<Pending>& pending = windows_[static_cast<std::size_t>(*index)].pending;
    if (pending.empty()) return;
    pending.clear();  // waits
    gather_.finish(unit);
}

void Parameters::forget_gathered() {
    for (Window& window : windows_)
        window = {};
}

std::vector<GroupRows> Parameters::rows_of(std::string_view name) const {
    const ParameterGroup* group = find(name);
    return group == nullptr ? std::vector<GroupRows>() : group->rows;
}

}  // namespace gptrain
