// Reports the names of test cases to the watchdog.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "catch.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

class CaseListener : public ListenerBase {
public:
    using ListenerBase::ListenerBase;
    void testCaseStarting(const Catch::TestCaseInfo& info) override {
        progress().phase("test", 0);
        progress().action(info.name);
    }
};
CATCH_REGISTER_LISTENER(CaseListener)

}  // namespace
}  // namespace gptrain::test
