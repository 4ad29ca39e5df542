// A backend that has memory and copies but no ops: enough for code that only moves state.
#pragma once

#include <cstdlib>
#include <cstring>
#include <vector>

#include "backend/backend.h"

namespace gptrain {

class HostBackend : public EachOp<Backend, HostBackend> {
public:
    /// The answer of is_host(): if false, the backend is used as a device is.
    bool host_memory = true;

    std::string_view name() const override { return "host"; }

    Buffer allocate(std::int64_t bytes, MemorySpace space) override {
        const auto size = static_cast<std::size_t>(round_up(bytes, Arena::alignment));
        void* data = std::aligned_alloc(Arena::alignment, size);
        if (data == nullptr && size > 0) fail(ExitCode::usage, "out of memory");
        return {*this, space, static_cast<std::byte*>(data), bytes};
    }
    std::int64_t scratch_bytes(const OpLimits&) const override { return 0; }
    void use_scratch(const Tensor&) override {}
    bool is_host() const override { return host_memory; }
    void copy(const Tensor& to, const Tensor& from) override {
        download({to.data(), static_cast<std::size_t>(to.bytes())}, from);
    }
    void upload(const Tensor& to, std::span<const std::byte> from) override {
        GPTRAIN_CHECK(to.contiguous() && std::cmp_equal(to.bytes(), from.size()));
        if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    }
    void download(std::span<std::byte> to, const Tensor& from) override {
        GPTRAIN_CHECK(from.contiguous() && std::cmp_equal(from.bytes(), to.size()));
        if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
    }
    void synchronize() override {}

    template <class Op>
    void on(const Op& /*op*/) {
        fail(ExitCode::bug, "the host backend has no ops, and was asked for ", Op::name);
    }

private:
    void release(std::byte* data, std::int64_t, MemorySpace) noexcept override { std::free(data); }
};

}  // namespace gptrain
