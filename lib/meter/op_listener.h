// Callback for the ops that the meter sees.
#pragma once

#include "hardware/op_time.h"

namespace gptrain {

class OpListener {
public:
    virtual ~OpListener() = default;
    virtual void on_op(const OpWork& op) = 0;
};

}  // namespace gptrain
