#include "emulator/sites.h"

#include <string_view>
#include <utility>

namespace gptrain::emulator {

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
    const std::string_view path = where.file_name();
    const std::size_t folder = path.rfind("cuda/");
    SiteName name = {std::string(path.substr(folder == path.npos ? 0 : folder)), where.line(),
                     where.column()};
    const Fault fault = name == faulty_ ? fault_ : Fault::none;
    reached_.emplace(std::move(name), can_weaken);
    return fault;
}

}  // namespace gptrain::emulator
