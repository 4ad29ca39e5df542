#include "comm/comm_listener.h"

#include <exception>
#include <memory>
#include <utility>

namespace gptrain {

void CommListeners::on_started(const CommCall& call) {
    for (CommListener* listener : listeners_)
        listener->on_started(call);
}

void CommListeners::on_issued(const CommCall& call) {
    for (CommListener* listener : listeners_)
        listener->on_issued(call);
}

void CommListeners::on_waiting(const CommCall& call) {
    for (CommListener* listener : listeners_)
        listener->on_waiting(call);
}

void CommListeners::on_finished(const CommCall& call) {
    for (CommListener* listener : listeners_)
        listener->on_finished(call);
}

void CommListeners::on_device(const DeviceProgress& progress) {
    for (CommListener* listener : listeners_)
        listener->on_device(progress);
}

void CommListeners::on_timer(DeviceTimer& timer) {
    for (CommListener* listener : listeners_)
        listener->on_timer(timer);
}

namespace {

class ObservedCommunicator final : public Communicator {
public:
    ObservedCommunicator(std::unique_ptr<Communicator> communicator, Axis axis, int index,
                         CommListener& listener)
        : communicator_(std::move(communicator)), listener_(listener) {
        last_.axis = axis;
        last_.communicator = index;
    }

    int rank() const override { return communicator_->rank(); }
    int size() const override { return communicator_->size(); }

    Pending all_reduce(const Tensor& x, Reduce reduce) override {
        return report("all_reduce", 2 * of_others(x),
                      [&] { return communicator_->all_reduce(x, reduce); });
    }
    Pending reduce_scatter(const Tensor& to, const Tensor& from, int dim) override {
        return report("reduce_scatter", of_others(from),
                      [&] { return communicator_->reduce_scatter(to, from, dim); });
    }
    Pending all_gather(const Tensor& to, const Tensor& from, int dim) override {
        return report("all_gather", of_others(to),
                      [&] { return communicator_->all_gather(to, from, dim); });
    }
    Pending all_to_all(const Tensor& to, const Tensor& from) override {
        return report("all_to_all", of_others(from),
                      [&] { return communicator_->all_to_all(to, from); });
    }
    Pending all_to_all_rows(const Tensor& to, const Tensor& from, const Tensor& slots) override {
        return report("all_to_all", of_others(from),
                      [&] { return communicator_->all_to_all_rows(to, from, slots); });
    }
    Pending broadcast(const Tensor& x, int root) override {
        return report("broadcast", of_others(x), x.bytes(),
                      [&] { return communicator_->broadcast(x, root); });
    }
    Pending send(const Tensor& x, int to) override {
        return report("send", x.bytes(), [&] { return communicator_->send(x, to); });
    }
    Pending recv(const Tensor& x, int from) override {
        return report("recv", 0, [&] { return communicator_->recv(x, from); });
    }
    Pending send_recv(const Tensor& sent, int to, const Tensor& received, int from) override {
        return report("send_recv", sent.bytes(),
                      [&] { return communicator_->send_recv(sent, to, received, from); });
    }
    void barrier() override {
        const CommCall call = next("barrier", 0, 0);
        listener_.on_started(call);
        listener_.on_waiting(call);
        communicator_->barrier();
        listener_.on_finished(call);
    }
    std::int64_t held_bytes() const override { return communicator_->held_bytes(); }

private:
    /// Bytes of the other ranks' parts of a tensor.
    std::int64_t of_others(const Tensor& whole) const {
        return whole.bytes() / size() * (size() - 1);
    }
    CommCall next(std::string_view operation, std::int64_t bytes, std::int64_t most_bytes) {
        last_.operation = operation;
        last_.bytes = bytes;
        last_.most_bytes = most_bytes;
        ++last_.number;
        return last_;
    }
    Pending report(std::string_view operation, std::int64_t bytes, const auto& issue) {
        return report(operation, bytes, bytes, issue);
    }
    Pending report(std::string_view operation, std::int64_t bytes, std::int64_t most_bytes,
                   const auto& issue) {
        const CommCall call = next(operation, bytes, most_bytes);
        listener_.on_started(call);
        const auto pending = std::make_shared<Pending>(issue());
        listener_.on_issued(call);
        return Pending([call, pending, &listener = listener_] {
            if (std::uncaught_exceptions() > 0) return;
            listener.on_waiting(call);
            pending->wait();
            listener.on_finished(call);
        });
    }

    std::unique_ptr<Communicator> communicator_;
    CommListener& listener_;
    CommCall last_{};
};

}  // namespace

CommunicatorFactory observed(CommunicatorFactory make, CommListener& listener) {
    return [make = std::move(make), &listener,
            index = 0](const RankGroup& group) mutable -> std::unique_ptr<Communicator> {
        const int own = index++;
        auto made = make(group);
        if (group.size == 1) return made;
        return std::make_unique<ObservedCommunicator>(std::move(made), group.axis, own, listener);
    };
}

}  // namespace gptrain
