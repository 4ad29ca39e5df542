// Places in kernels that order memory accesses: calls of a barrier, a fence, a wait or an atomic
// operation. A test can plant a fault at one of them, to show that something notices.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <source_location>
#include <string>

namespace gptrain::emulator {

/// The place of a call; the default argument of whatever orders memory accesses.
using Site = std::source_location;

enum class Fault : std::uint8_t {
    none,
    removed,   ///< the call has no effect; an atomic operation is a plain one, without order
    weakened,  ///< a wait lets one more group be in flight
};

/// A site as tests name it.
struct SiteName {
    std::string file;  ///< from cuda/ on
    unsigned line;
    unsigned column;
    auto operator<=>(const SiteName&) const = default;
};

/// Notes which sites kernels reach, and plants a fault at one of them.
class Sites {
public:
    /// Until the next one; while it exists, `active` is this one.
    Sites();
    Sites(const Sites&) = delete;
    Sites& operator=(const Sites&) = delete;
    ~Sites();

    void plant(SiteName site, Fault fault);
    Fault reach(const Site& where, bool can_weaken);
    /// The sites reached so far, and whether they can be weakened.
    std::map<SiteName, bool>& reached() { return reached_; }

    static inline Sites* active = nullptr;

private:
    std::map<SiteName, bool> reached_;
    SiteName faulty_ = {};
    Fault fault_ = Fault::none;
};

inline Fault fault_at(const Site& where, bool can_weaken = false) {
    return Sites::active == nullptr ? Fault::none : Sites::active->reach(where, can_weaken);
}
inline bool removed(const Site& where) {
    return fault_at(where) == Fault::removed;
}
/// How many groups a wait for all but `pending` leaves in flight; none if the wait is removed.
inline std::optional<int> still_pending(int pending, const Site& where) {
    const Fault fault = fault_at(where, true);
    if (fault == Fault::removed) return std::nullopt;
    return fault == Fault::weakened ? pending + 1 : pending;
}

}  // namespace gptrain::emulator
