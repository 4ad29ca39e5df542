// The listeners that are notified of actions.
#include <string>
#include <vector>

#include "base/text.h"
#include "catch.h"
#include "schedule/action_listener.h"

using namespace gptrain;

namespace {

/// Adds lines such as "a begin F2" to a common list.
class Notes final : public ActionListener {
public:
    Notes(std::string name, std::vector<std::string>& lines)
        : name_(std::move(name)), lines_(lines) {}
    void on_step_begin() override { note("step begin"); }
    void on_reached(const Action& action) override { note("reached " + to_text(action, 1)); }
    void on_begin(const Action& action) override { note("begin " + to_text(action, 1)); }
    void on_end(const Action& action) override { note("end " + to_text(action, 1)); }
    void on_step_end() override { note("step end"); }

private:
    void note(const std::string& what) { lines_.push_back(name_ + ' ' + what); }

    std::string name_;
    std::vector<std::string>& lines_;
};

}  // namespace

TEST_CASE("all listeners are told of everything, in the order in which they were added",
          "[schedule]") {
    std::vector<std::string> lines;
    Notes a("a", lines);
    Notes b("b", lines);
    ActionListeners both;
    both.add(a);
    both.add(b);
    const Action action = {ActionKind::forward, 2};
    both.on_step_begin();
    both.on_reached(action);
    both.on_begin(action);
    both.on_end(action);
    both.on_step_end();
    CHECK(lines == std::vector<std::string>{"a step begin", "b step begin", "a reached F2",
                                            "b reached F2", "a begin F2", "b begin F2", "a end F2",
                                            "b end F2", "a step end", "b step end"});
}
