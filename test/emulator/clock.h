// Vector clocks: a thread's knowledge of the others' accesses (Lamport 1978; Mattern 1988).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace gptrain::emulator {

/// Whoever accesses memory, by its index among the agents of its block: first the threads, then
/// each warp's products, then the block's transaction barriers (for the copies that they count).
using Agent = std::uint32_t;
/// Counts what an agent publishes.
using Time = std::uint32_t;
/// An asynchronous operation. Its accesses may happen at any time between its start and the moment
/// at which something that has waited for it continues.
using Operation = std::uint32_t;

/// For each agent of each block the time up to which all of its accesses come before. Copies share
/// their memory until one changes.
class Clock {
public:
    Time of(std::uint32_t block, Agent agent) const {
        for (const Part& part : parts_) {
            if (part.block == block) return agent < part.times->size() ? (*part.times)[agent] : 0;
        }
        return 0;
    }
    void raise(std::uint32_t block, Agent agent, Time time);
    /// The later of both for each agent.
    void join(const Clock& other);
    /// The earlier of both for each agent.
    void meet(const Clock& other);

private:
    using Times = std::vector<Time>;
    struct Part {
        std::uint32_t block;
        std::shared_ptr<Times> times;
    };
    template <class Parts>
    static auto find(Parts& parts, std::uint32_t block);
    static Times& own(Part& part, std::size_t agents);

    std::vector<Part> parts_;
};

/// The accesses that come before a thread's next access. Plain writes come before an asynchronous
/// access only once a proxy fence stands in between, so for each kind of memory there is a clock of
/// the writes that are fenced (PTX ISA, "Memory Consistency Model", proxy-preserved base causality
/// order).
struct Knowledge {
    Clock all;
    Clock fenced_shared;
    Clock fenced_global;

    void join(const Knowledge& other) {
        all.join(other.all);
        fenced_shared.join(other.fenced_shared);
        fenced_global.join(other.fenced_global);
    }
    void meet(const Knowledge& other) {
        all.meet(other.all);
        fenced_shared.meet(other.fenced_shared);
        fenced_global.meet(other.fenced_global);
    }
};

}  // namespace gptrain::emulator
