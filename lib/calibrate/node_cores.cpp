#include "calibrate/node_cores.h"

#include <algorithm>
#include <string>

#include "base/checked.h"
#include "base/cores.h"
#include "base/text.h"

namespace gptrain {

int use_cores_of_node(const MpiSession& session) {
    std::string cores = allowed_cores();
    const std::string node = text(session.node(), " ");
    for (const std::string& other : session.exchange(node + cores)) {
        if (!other.starts_with(node)) continue;
        for (std::size_t i = 0; i < cores.size(); ++i)
            if (other[node.size() + i] == '1') cores[i] = '1';
    }
    session.run_on_all([&] { allow_cores(cores); });
    return narrow<int>(std::count(cores.begin(), cores.end(), '1'));
}

}  // namespace gptrain
