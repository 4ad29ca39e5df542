#include "emulator/sites.h"

#include <string_view>
#include <tuple>
#include <utility>

namespace gptrain::emulator {
namespace {

/// A call is reached many times: its name is made once.
const SiteName& name_of(const Site& where) {
    using Place = std::tuple<const char*, unsigned, unsigned>;
    static std::map<Place, SiteName> names;
    const Place place(where.file_name(), where.line(), where.column());
    const auto known = names.find(place);
    if (known != names.end()) return known->second;
    const std::string_view path = where.file_name();
    const std::size_t folder = path.rfind("cuda/");
    return names[place] = {std::string(path.substr(folder == path.npos ? 0 : folder)), where.line(),
                           where.column()};
}

}  // namespace

Sites::Sites() {
    active = this;
}

Sites::~Sites() {
    active = nullptr;
}

void Sites::plant(SiteName site, Fault fault) {
    faulty_ = std::move(site);
    fault_ = fault;
}

Fault Sites::reach(const Site& where, bool can_weaken) {
    const SiteName& name = name_of(where);
    reached_.try_emplace(name, can_weaken);
    return name == faulty_ ? fault_ : Fault::none;
}

}  // namespace gptrain::emulator
