#include "schedule/action_listener.h"

namespace gptrain {

void ActionListeners::step_begins() {
    for (ActionListener* listener : listeners_)
        listener->step_begins();
}

void ActionListeners::reached(const Action& action) {
    for (ActionListener* listener : listeners_)
        listener->reached(action);
}

void ActionListeners::begins(const Action& action) {
    for (ActionListener* listener : listeners_)
        listener->begins(action);
}

void ActionListeners::ends(const Action& action) {
    for (ActionListener* listener : listeners_)
        listener->ends(action);
}

void ActionListeners::step_ends() {
    for (ActionListener* listener : listeners_)
        listener->step_ends();
}

}  // namespace gptrain
