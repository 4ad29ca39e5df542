#include "op_case.h"

#include <cmath>
#include <cstring>

namespace gptrain {
namespace {

constexpr std::int64_t guard_bytes = 256;

HostTensor to_host(const std::vector<std::int64_t>& values) {
    HostTensor host(DType::i64, {static_cast<std::int64_t>(values.size())});
    std::memcpy(host.bytes().data(), values.data(), host.bytes().size());
    return host;
}

/// True if `got`, of that type, is a correct result (see bounded.h).
bool right(double got, const Bounded& expected, DType dtype) {
    if (expected.bound == 0 || std::isinf(expected.value)) {
        std::byte bytes[8];
        store(bytes, dtype, expected.value);
        return got == load(bytes, dtype);
    }
    return std::abs(got - expected.value) <= stored(expected, dtype).bound;
}

/// One line about the wrong elements of an operand.
std::string compare(const Array& got, const Array& expected) {
    std::int64_t wrong = 0;
    std::size_t worst = 0;
    double worst_excess = -1;
    for (std::size_t i = 0; i < got.values().size(); ++i) {
        const Bounded& want = expected.values()[i];
        if (right(got.values()[i].value, want, got.dtype())) continue;
        ++wrong;
        double excess =
            std::abs(got.values()[i].value - want.value) / stored(want, got.dtype()).bound;
        if (std::isnan(excess)) excess = INFINITY;
        if (excess > worst_excess) {
            worst = i;
            worst_excess = excess;
        }
    }
    if (wrong == 0) return {};
    const Bounded& want = expected.values()[worst];
    return text(wrong, " of ", got.values().size(), " elements of ", got.shape().to_text(), " ",
                name_of(got.dtype()), " are wrong; worst: element ", worst, " is ",
                got.values()[worst].value, ", should be ", want.value, " within ",
                want.bound == 0 ? 0 : stored(want, got.dtype()).bound);
}

}  // namespace

HostTensor to_host(const StepState& state) {
    HostTensor host(DType::u8, {sizeof state});
    std::memcpy(host.bytes().data(), &state, sizeof state);
    return host;
}

StepState to_step_state(const HostTensor& bytes) {
    StepState state;
    std::memcpy(&state, bytes.bytes().data(), sizeof state);
    return state;
}

// ---- OpCase ----

std::size_t OpCase::storage(DType dtype, const Shape& shape) {
    storages_.push_back({dtype, shape});
    return storages_.size() - 1;
}

Operand OpCase::part(Role role, std::size_t storage, View view, const Values& values) {
    parts_.push_back({role, storage, std::move(view), values});
    return static_cast<Operand>(parts_.size() - 1);
}

Operand OpCase::own(Role role, DType dtype, const Shape& shape, const Values& values,
                    std::int64_t gap) {
    if (gap == 0) {
        return part(
            role, storage(dtype, shape), [](const Tensor& whole) { return whole; }, values);
    }
    const std::int64_t width = shape[1];
    const std::size_t wider = storage(dtype, {shape[0], width + gap});
    return part(
        role, wider, [=](const Tensor& whole) { return whole.slice(1, gap / 2, width); }, values);
}

// ---- OpRun ----

Tensor ScratchMemory::take(std::int64_t bytes) {
    if (!memory_ || memory_->tensor().elements() < bytes + guard_bytes) {
        memory_.emplace(backend_, HostTensor(DType::u8, {bytes + guard_bytes}));
    }
    behind_ = memory_->tensor().slice(0, bytes, guard_bytes);
    backend_.upload(behind_, HostTensor(DType::u8, {guard_bytes}).bytes());
    return memory_->tensor().slice(0, 0, bytes);
}

bool ScratchMemory::end_is_intact() const {
    HostTensor bytes(DType::u8, {guard_bytes});
    backend_.download(bytes.bytes(), behind_);
    return bytes == HostTensor(DType::u8, {guard_bytes});
}

OpRun::OpRun(Backend& backend, const OpCase& op, ScratchMemory& scratch)
    : backend_(backend),
      op_(op),
      state_(backend, to_host(op.state)),
      first_sequences_(backend, to_host(op.first_sequences)),
      scratch_(scratch) {
    for (const auto& storage : op.storages_)
        before_.emplace_back(storage.dtype, storage.shape);
    for (std::size_t i = 0; i < op.parts_.size(); ++i) {
        if (op.parts_[i].role == Role::output) continue;
        HostTensor::fill(host_view(i, before_), op.parts_[i].values, static_cast<std::uint32_t>(i));
    }
    for (const HostTensor& host : before_)
        storages_.emplace_back(backend, host);
    for (const auto& part : op.parts_) {
        tensors_.views.push_back(part.view(storages_[part.storage].tensor()));
    }
    tensors_.step = {state_.tensor(), first_sequences_.tensor(), op.slot};
    backend.use_scratch(scratch.take(backend.scratch_bytes(op.limits)));
}

Tensor OpRun::host_view(std::size_t part, const std::vector<HostTensor>& memory) const {
    const auto& description = op_.parts_[part];
    return description.view(memory[description.storage].tensor());
}

std::vector<HostTensor> OpRun::memory() const {
    std::vector<HostTensor> result;
    for (const DeviceTensor& storage : storages_)
        result.push_back(storage.download());
    return result;
}

std::string OpRun::faults() const {
    const std::vector<HostTensor> after = memory();
    Arrays expected;
    for (std::size_t i = 0; i < op_.parts_.size(); ++i) {
        expected.arrays.push_back(to_array(host_view(i, before_)));
        expected.results.push_back(to_array(host_view(i, after)));
    }
    op_.reference(expected);

    std::string faults;
    for (std::size_t i = 0; i < op_.parts_.size(); ++i) {
        const std::string fault = compare(expected.results[i], expected.arrays[i]);
        if (!fault.empty()) append(faults, text("operand ", i, ": ", fault, "\n"));
    }
    return faults + outside_faults(after) + state_faults() + scratch_faults();
}

std::string OpRun::outside_faults(const std::vector<HostTensor>& after) const {
    std::vector<HostTensor> hidden_before = before_;
    std::vector<HostTensor> hidden_after = after;
    for (std::size_t i = 0; i < op_.parts_.size(); ++i) {
        if (op_.parts_[i].role == Role::input) continue;
        HostTensor::fill(host_view(i, hidden_before), constant(0), 0);
        HostTensor::fill(host_view(i, hidden_after), constant(0), 0);
    }
    std::string faults;
    for (std::size_t i = 0; i < before_.size(); ++i) {
        if (hidden_after[i] == hidden_before[i]) continue;
        append(faults, text("storage ", i, " was changed where nothing should be written\n"));
    }
    return faults;
}

std::string OpRun::state_faults() const {
    return state_.download() == to_host(op_.state) ? "" : "the step state was changed\n";
}

std::string OpRun::scratch_faults() const {
    return scratch_.end_is_intact() ? "" : "bytes behind the scratch memory were changed\n";
}

std::string OpRun::listing_faults(const std::vector<ListedTensor>& listed) const {
    std::string faults;
    for (std::size_t i = 0; i < op_.parts_.size(); ++i) {
        bool read = false, written = false, updated = false;
        for (const auto& [tensor, access] : listed) {
            if (tensor.data() != tensors_.views[i].data()) continue;
            read |= access == Access::read;
            written |= access == Access::write;
            updated |= access == Access::update;
        }
        const Role role = op_.parts_[i].role;
        const bool as_listed = role == Role::input    ? read && !written && !updated
                               : role == Role::output ? written && !updated
                                                      : written || updated;
        if (!as_listed) append(faults, text("operand ", i, " is listed otherwise than used\n"));
    }
    return faults;
}

std::int64_t OpRun::bytes_moved() const {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < op_.parts_.size(); ++i) {
        bytes += (op_.parts_[i].role == Role::updated ? 2 : 1) * tensors_.views[i].bytes();
    }
    return bytes;
}

}  // namespace gptrain
