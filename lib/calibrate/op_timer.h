// A backend that measures how long each op of another one takes.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "backend/backend.h"
#include "calibrate/samples.h"
#include "meter/op_work.h"

namespace gptrain {

/// Passes everything on to a backend. While `timing` is on, it waits for every op.
class OpTimer final : public EachOp<Backend, OpTimer> {
public:
    /// `inner` must outlive this.
    explicit OpTimer(Backend& inner) : inner_(inner) {}

    struct Timed {
        OpWork work;
        std::vector<double> seconds;  ///< of each time it ran
    };
    void time(bool on) { timing_ = on; }
    /// Every distinct op so far.
    std::vector<Timed> ops() const;
    /// Seconds of all ops so far.
    double total() const { return total_; }

    std::string_view name() const override { return inner_.name(); }
    Buffer allocate(std::int64_t bytes, MemorySpace space) override {
        return inner_.allocate(bytes, space);
    }
    std::int64_t scratch_bytes(const OpLimits& limits) const override {
        return inner_.scratch_bytes(limits);
    }
    void use_scratch(const Tensor& bytes) override { inner_.use_scratch(bytes); }
    bool is_host() const override { return inner_.is_host(); }
    void copy(const Tensor& to, const Tensor& from) override { inner_.copy(to, from); }
    void upload(const Tensor& to, std::span<const std::byte> from) override {
        inner_.upload(to, from);
    }
    void download(std::span<std::byte> to, const Tensor& from) override {
        inner_.download(to, from);
    }
    void synchronize() override { inner_.synchronize(); }

    template <class Op>
    void on(const Op& op) {
        if (!timing_) return inner_.run(op);
        const double seconds = seconds_of([&] {
            inner_.run(op);
            inner_.synchronize();
        });
        add(work_of(op), seconds);
    }

private:
    /// The memory is the inner backend's, which takes it back.
    void release(std::byte* /*data*/, std::int64_t /*bytes*/,
                 MemorySpace /*space*/) noexcept override {}
    void add(const OpWork& work, double seconds);

    using Key = std::tuple<std::string_view, std::int64_t, std::int64_t, std::int64_t, double>;

    Backend& inner_;
    bool timing_ = false;
    double total_ = 0;
    std::map<Key, Timed> timed_;
};

}  // namespace gptrain
