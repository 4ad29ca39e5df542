// Class templates generated from a list of op types.
#pragma once

#include <utility>

namespace gptrain {

template <class... Op>
struct OpList {};

/// A pure virtual `run` for each op of the list.
template <class List>
class RunsOps;

template <class Op>
class RunsOps<OpList<Op>> {
public:
    virtual void run(const Op& op) = 0;

protected:
    ~RunsOps() = default;
};

template <class Op, class... Rest>
class RunsOps<OpList<Op, Rest...>> : public RunsOps<OpList<Rest...>> {
public:
    using RunsOps<OpList<Rest...>>::run;
    virtual void run(const Op& op) = 0;

protected:
    ~RunsOps() = default;
};

/// Base with each `run` of the list passed on to `on` of Derived, which is a template, a set of
/// overloads, or both.
template <class Base, class Derived, class List>
class ForwardsOps;

template <class Base, class Derived>
class ForwardsOps<Base, Derived, OpList<>> : public Base {
public:
    template <class... Arguments>
    explicit ForwardsOps(Arguments&&... arguments) : Base(std::forward<Arguments>(arguments)...) {}
    using Base::run;
};

template <class Base, class Derived, class Op, class... Rest>
class ForwardsOps<Base, Derived, OpList<Op, Rest...>>
    : public ForwardsOps<Base, Derived, OpList<Rest...>> {
public:
    // Inherited constructors take a compiler seconds where a list is this long.
    template <class... Arguments>
    explicit ForwardsOps(Arguments&&... arguments)
        : ForwardsOps<Base, Derived, OpList<Rest...>>(std::forward<Arguments>(arguments)...) {}
    using ForwardsOps<Base, Derived, OpList<Rest...>>::run;
    void run(const Op& op) override { static_cast<Derived&>(*this).on(op); }
};

}  // namespace gptrain
