// The base of backends that watch another one at work.
#pragma once

#include "backend/backend.h"

namespace gptrain {

/// Passes everything on to another backend. Derived from EachOp<PassingBackend, Derived>, whose
/// `on` runs the ops. `replay` is the only function not forwarded: replayed ops would bypass this
/// backend.
class PassingBackend : public Backend {
public:
    /// `inner` must outlive this.
    explicit PassingBackend(Backend& inner) : inner_(inner) {}

    std::string_view name() const override { return inner_.name(); }
    Buffer allocate(std::int64_t bytes, MemorySpace space) override {
        return inner_.allocate(bytes, space);
    }
    std::int64_t scratch_bytes(const OpLimits& limits) const override {
        return inner_.scratch_bytes(limits);
    }
    void use_scratch(const Tensor& bytes) override { inner_.use_scratch(bytes); }
    std::int64_t staging_bytes() const override { return inner_.staging_bytes(); }
    void use_staging(const Tensor& bytes) override { inner_.use_staging(bytes); }
    std::int64_t bytes_outside_arenas() const override { return inner_.bytes_outside_arenas(); }
    std::int64_t reserve_bytes() const override { return inner_.reserve_bytes(); }
    std::optional<std::int64_t> free_bytes() const override { return inner_.free_bytes(); }
    bool is_host() const override { return inner_.is_host(); }
    std::int64_t row_alignment() const override { return inner_.row_alignment(); }
    void copy(const Tensor& to, const Tensor& from) override { inner_.copy(to, from); }
    void upload(const Tensor& to, std::span<const std::byte> from) override {
        inner_.upload(to, from);
    }
    void download(std::span<std::byte> to, const Tensor& from) override {
        inner_.download(to, from);
    }
    void synchronize() override { inner_.synchronize(); }
    std::int64_t mark() override { return inner_.mark(); }
    void wait(std::int64_t mark) override { inner_.wait(mark); }
    std::int64_t fetch(std::span<const HostTwin> twins) override { return inner_.fetch(twins); }
    std::int64_t store(std::span<const HostTwin> twins) override { return inner_.store(twins); }
    void join(std::int64_t copies) override { inner_.join(copies); }
    std::optional<double> take_join_seconds() override { return inner_.take_join_seconds(); }
    bool can_tune() const override { return inner_.can_tune(); }
    std::string tune(const std::function<void()>& ops) override { return inner_.tune(ops); }
    bool set_choices(std::string_view choices) override { return inner_.set_choices(choices); }
    bool loads_code_late() const override { return inner_.loads_code_late(); }
    std::unique_ptr<Stopwatch> stopwatch() override { return inner_.stopwatch(); }
    void begin_range(std::string_view name) override { inner_.begin_range(name); }
    void end_range() override { inner_.end_range(); }

protected:
    Backend& inner() const { return inner_; }

private:
    /// The memory is the inner backend's, which takes it back.
    void release(std::byte* /*data*/, std::int64_t /*bytes*/,
                 MemorySpace /*space*/) noexcept override {}

    Backend& inner_;
};

}  // namespace gptrain
