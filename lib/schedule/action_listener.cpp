#include "schedule/action_listener.h"

namespace gptrain {

void ActionListeners::on_step_begin() {
    for (ActionListener* listener : listeners_)
        listener->on_step_begin();
}

void ActionListeners::on_reached(const Action& action) {
    for (ActionListener* listener : listeners_)
        listener->on_reached(action);
}

void ActionListeners::on_begin(const Action& action) {
    for (ActionListener* listener : listeners_)
        listener->on_begin(action);
}

void ActionListeners::on_end(const Action& action) {
    for (ActionListener* listener : listeners_)
        listener->on_end(action);
}

void ActionListeners::on_step_end() {
    for (ActionListener* listener : listeners_)
        listener->on_step_end();
}

}  // namespace gptrain
