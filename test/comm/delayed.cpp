#include "delayed.h"

#include <cstdlib>
#include <exception>
#include <utility>

#include "base/at.h"
#include "base/philox.h"
#include "base/text.h"
#include "ranks.h"

namespace gptrain::test {

bool Delays::starts_now() {
    if (start_ != Start::at_random) return start_ == Start::at_issue;
    return philox({drawn_++, 0, 0, 0}, random_)[0] % 2 == 0;
}

void Delays::issue(std::shared_ptr<DelayedMessage> message) {
    waiting_.push_back(std::move(message));
    if (starts_now()) start_all();
}

void Delays::start_all() {
    for (const auto& message : std::exchange(waiting_, {})) {
        const auto send = std::exchange(message->send, nullptr);
        message->pending = send(message->memory.arrived(), message->memory.read());
    }
}

void Delays::finish(const std::shared_ptr<DelayedMessage>& message, std::string_view where) {
    if (std::uncaught_exceptions() > 0) {
        // Nobody waits for it, so that it may still write to its copies.
        static auto& abandoned = *new std::vector<std::shared_ptr<DelayedMessage>>;
        abandoned.push_back(message);
        return;
    }
    start_all();
    message->pending.wait();
    message->memory.land(where);
}

namespace {

class DelayedCommunicator final : public Communicator {
public:
    DelayedCommunicator(std::unique_ptr<Communicator> communicator, Axis axis,
                        std::shared_ptr<Delays> delays)
        : communicator_(std::move(communicator)), axis_(axis), delays_(std::move(delays)) {}

    int rank() const override { return communicator_->rank(); }
    int size() const override { return communicator_->size(); }
    std::int64_t held_bytes() const override { return communicator_->held_bytes(); }

    Pending all_reduce(const Tensor& x, Reduce reduce) override {
        return issue("all_reduce", {x}, {x}, [=, this](const Tensor& to, const Tensor& from) {
            copy_runs(run_of(to), run_of(from));
            return communicator_->all_reduce(to, reduce);
        });
    }
    Pending reduce_scatter(const Tensor& to, const Tensor& from, int dim) override {
        return issue("reduce_scatter", {from, dim}, {to, dim},
                     [=, this](const Tensor& into, const Tensor& out) {
                         return communicator_->reduce_scatter(into, out, dim);
                     });
    }
    Pending all_gather(const Tensor& to, const Tensor& from, int dim) override {
        return issue("all_gather", {from, dim}, {to, dim},
                     [=, this](const Tensor& into, const Tensor& out) {
                         return communicator_->all_gather(into, out, dim);
                     });
    }
    Pending all_to_all(const Tensor& to, const Tensor& from) override {
        check_apart("all_to_all", to, from);
        return issue("all_to_all", {from}, {to}, [=, this](const Tensor& into, const Tensor& out) {
            return communicator_->all_to_all(into, out);
        });
    }
    Pending broadcast(const Tensor& x, int root) override {
        const bool sends = rank() == root;
        return issue("broadcast", sends ? Place{x} : Place{}, sends ? Place{} : Place{x},
                     [=, this](const Tensor& to, const Tensor& from) {
                         return communicator_->broadcast(sends ? from : to, root);
                     });
    }
    Pending send(const Tensor& x, int to) override {
        return issue("send", {x}, {}, [=, this](const Tensor& /*to*/, const Tensor& from) {
            return communicator_->send(from, to);
        });
    }
    Pending recv(const Tensor& x, int from) override {
        return issue("recv", {}, {x}, [=, this](const Tensor& to, const Tensor& /*from*/) {
            return communicator_->recv(to, from);
        });
    }
    Pending send_recv(const Tensor& sent, int to, const Tensor& received, int from) override {
        check_apart("send_recv", received, sent);
        return issue("send_recv", {sent}, {received},
                     [=, this](const Tensor& into, const Tensor& out) {
                         return communicator_->send_recv(out, to, into, from);
                     });
    }
    void barrier() override {
        delays_->start_all();
        communicator_->barrier();
    }

private:
    /// Only sums and gathers may be in place.
    void check_apart(std::string_view operation, const Tensor& to, const Tensor& from) const {
        GPTRAIN_CHECK(!overlap(Place{to}, Place{from}), operation, " on ", name_of(axis_),
                      " writes what it reads");
    }
    Pending issue(std::string_view operation, const Place& source, const Place& target,
                  DelayedMessage::Send send) {
        const std::string& action = current_action().name();
        std::string name = text(operation, " on ", name_of(axis_), " (rank ", rank(), " of ",
                                size(), action.empty() ? "" : ", issued in ", action, ")");
        auto message = std::make_shared<DelayedMessage>(DelayedMessage{
            .memory = InFlight(std::move(name), source, target), .send = std::move(send)});
        delays_->issue(message);
        return Pending(
            [delays = delays_, message] { delays->finish(message, current_action().name()); });
    }

    std::unique_ptr<Communicator> communicator_;
    Axis axis_;
    std::shared_ptr<Delays> delays_;
};

Start& latest_start() {
    static Start start = Start::at_issue;
    return start;
}

Start next_start() {
    static std::size_t turn = 0;
    constexpr auto all = words_of(Start{});
    const char* asked = std::getenv("GPTRAIN_MESSAGES_START");
    if (asked == nullptr) return at(all, turn++ % all.size()).first;
    for (const auto& [start, word] : all)
        if (word == asked) return start;
    fail(ExitCode::usage, "GPTRAIN_MESSAGES_START=", asked, ": no such start");
}

}  // namespace

CommunicatorFactory delayed(CommunicatorFactory make, Start start) {
    static std::uint32_t factories = 0;
    latest_start() = start;
    const PhiloxKey key = {.low = factories++,
                           .high = static_cast<std::uint32_t>(session().rank())};
    return [make = std::move(make), delays = std::make_shared<Delays>(start, key)](
               const RankGroup& group) -> std::unique_ptr<Communicator> {
        auto made = make(group);
        if (group.size == 1) return made;
        return std::make_unique<DelayedCommunicator>(std::move(made), group.axis, delays);
    };
}

CommunicatorFactory delayed(CommunicatorFactory make) {
    return delayed(std::move(make), next_start());
}

Start messages_start() {
    return latest_start();
}

void CurrentAction::on_reached(const Action& action) {
    name_ = to_text(action, action.chunk + 1);
}

CurrentAction& current_action() {
    static CurrentAction action;
    return action;
}

}  // namespace gptrain::test
