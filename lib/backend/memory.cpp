#include "backend/memory.h"

#include <algorithm>

#include "backend/backend.h"
#include "base/text.h"

namespace gptrain {

Buffer::~Buffer() {
    if (data_ != nullptr) backend_->release(data_, bytes_, space_);
}

Arena::Arena(Backend& backend, MemorySpace space, std::string name, std::int64_t capacity)
    : name_(std::move(name)), buffer_(backend.allocate(capacity, space)) {}

Tensor Arena::allocate(DType dtype, const Shape& shape) {
    const std::int64_t bytes = round_up(checked_mul(shape.elements(), size_of(dtype)), alignment);
    GPTRAIN_CHECK(bytes <= capacity() - used_, "arena '", name_, "' is full: ", capacity(),
                  " bytes, ", used_, " in use, ", bytes, " requested");
    std::byte* data = buffer_.data() + used_;
    used_ += bytes;
    peak_ = std::max(peak_, used_);
    return Tensor(data, dtype, shape);
}

std::int64_t MemoryPlan::total() const {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : bytes_)
        sum += bytes;
    return sum;
}

std::int64_t MemoryPlan::on_device() const {
    std::int64_t sum = 0;
    for (int i = 0; i < memory_uses; ++i) {
        const auto use = static_cast<MemoryUse>(i);
        if (space_of(use) == MemorySpace::device) sum += (*this)[use];
    }
    return sum;
}

namespace {

// More than any machine has, small enough that sums stay in range.
constexpr std::int64_t unbounded = std::int64_t{1} << 56;

}  // namespace

std::string to_text(const MemoryPlan& plan) {
    std::string line;
    for (int i = 0; i < memory_uses; ++i) {
        const auto use = static_cast<MemoryUse>(i);
        if (plan[use] > 0) line += text(name_of(use), " ", human_bytes(plan[use]), ", ");
    }
    const std::int64_t device = plan.on_device();
    return line + text("total ", human_bytes(device), " on the device, ",
                       human_bytes(plan.total() - device), " on the host");
}

Memory::Memory(Backend& backend, const std::optional<MemoryPlan>& plan) {
    arenas_.reserve(memory_uses);
    for (int i = 0; i < memory_uses; ++i) {
        const auto use = static_cast<MemoryUse>(i);
        const bool on_demand =
            use == MemoryUse::messages || (plan && use == MemoryUse::memory_copies);
        const std::int64_t planned = plan ? (*plan)[use] : unbounded;
        try {
            arenas_.emplace_back(backend, space_of(use), std::string(name_of(use)),
                                 on_demand ? 0 : planned);
        } catch (const Error& error) {
            if (!plan || error.code() != ExitCode::usage) throw;
            fail(ExitCode::usage, error.what(), "; the plan: ", to_text(*plan));
        }
    }
}

MemoryPlan Memory::peaks() const {
    MemoryPlan plan;
    for (int i = 0; i < memory_uses; ++i)
        plan[static_cast<MemoryUse>(i)] = arenas_[i].peak();
    return plan;
}

}  // namespace gptrain
